"""Networks of others beside onnxruntime: what is drawn, what is said, and a small one where onnxruntime is installed."""

import json
import sys

import numpy as np
import onnx
import pytest

from baco.bench.quantised_models import FORMS, MODELS, drawn_inputs, page, quantised_files, rtl_runs, run
from baco.common.errors import InputError
from baco.compiler.network.quantise import quantise
from baco.workloads.inputs.load import load_network
from tests.compiler.network.given_models import HAS_ONNXRUNTIME

ROW = {
    "model": "m",
    "form": "QDQ uint8",
    "operators": 3,
    "equal_operators": 2,
    "elements": 1000,
    "apart": 5,
    "beyond_a_step": 1,
    "inputs": 10,
    "equal_inputs": 4,
    "same_largest": 9,
    "judge_same_largest": 8,
    "rtl": {"one": {"cycles": 1234, "wrong": None}, "two": {"cycles": 1000, "wrong": "n3 differs"}},
}


def test_a_network_whose_weights_are_drawn():
    model = MODELS["squeezenet"].load()
    onnx.checker.check_model(model, full_check=True)
    again = MODELS["squeezenet"].load()
    assert model.SerializeToString() == again.SerializeToString()
    inputs = drawn_inputs(model, 3)
    assert [x.shape for x in inputs.values()] == [(1, 3, 64, 64)]
    np.testing.assert_array_equal(*(drawn_inputs(model, 3)[name] for name in [*inputs, *inputs]))


def test_the_page_says_what_differs_and_what_is_refused():
    text = page([ROW, {"model": "m", "form": "QDQ symmetric", "refused": "it is too large"}])
    assert (
        "| m | QDQ uint8 | 2 of 3 | 4 of 1,000 | 1 | 4 of 10 | 9 of 10 | 8 of 10 | 1,234 | 1,000, WRONG: n3 differs |"
        in text
    )
    assert "refused: it is too large" in text
    assert "in 1 of 2 every operator equals" in text
    assert "Of 1,000 elements 5 differ, 1 by more than a step" in text


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="there is no model 'squeezenets'"):
        run(models=["squeezenets"], out=tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "onnxruntime.quantization", None)
    with pytest.raises(InputError, match="'onnxruntime'"):
        next(quantised_files(MODELS["squeezenet"].load(), tmp_path))


@pytest.mark.skipif(not HAS_ONNXRUNTIME, reason="onnxruntime is not installed")
def test_a_network_beside_onnxruntime(tmp_path):
    rows = run(models=["squeezenet"], inputs=2, out=tmp_path)
    assert [row["form"] for row in rows] == list(FORMS)
    assert all(row["beyond_a_step"] == 0 and row["apart"] <= 1e-5 * row["elements"] for row in rows)
    assert all(row["equal_operators"] >= row["operators"] - 2 for row in rows)
    assert json.loads((tmp_path / "quantised-models.json").read_text()) == rows


@pytest.mark.slow
@pytest.mark.skipif(not HAS_ONNXRUNTIME, reason="onnxruntime is not installed")
def test_a_network_whole_on_rtl(tmp_path):
    machine = "gemmini-default,dim=8,features.requantization=true"
    form, path = next(quantised_files(MODELS["squeezenet"].load(), tmp_path))
    assert form == "QDQ symmetric"
    given = drawn_inputs(onnx.load(path), 0)
    found = rtl_runs(quantise(load_network(str(path)), [given]), given, [machine])
    assert found.keys() == {machine}
    assert found[machine]["wrong"] is None
    assert 337_000 < found[machine]["cycles"] < 3_000_000  # 21.6 million products, 64 a cycle at most
