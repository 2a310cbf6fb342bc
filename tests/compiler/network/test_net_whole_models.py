"""Whole models of everyday kinds: imported as exporters write them, run on gemmini-default, right for their makers.

Every output is compared with what PyTorch computes, which neither the import nor the integers share a line with, and the run itself
with an evaluator of the ONNX file.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import baco
from baco.api.network_unit import NetworkRequest, prepare_network
from baco.compiler.network.calibrate import assumed_inputs, random_inputs
from tests.workloads import whole_models as models

#: Of an output, in integers: largest error as a part of its range, and signal to noise.
MOST_ERROR, LEAST_DB = 0.09, 20.0
#: The same of maps of probabilities: a sigmoid is steep where a random network is in doubt.
MOST_OF_SCORES = 0.2


@pytest.fixture(autouse=True)
def _same_draws():
    """Inputs are drawn alike, whatever ran before."""
    torch.manual_seed(0)


def _inputs(**shapes):
    return {name: torch.rand(*shape) for name, shape in shapes.items()}


def _case(model, inputs, dynamic=None, shapes=""):
    torch.manual_seed(0)
    made = model()
    return models.settled(made, *inputs.values()), inputs, dynamic, shapes


def _text_detector():
    dims = {"x": {0: "batch", 2: "height", 3: "width"}}
    return _case(models.TextDetector, _inputs(x=(1, 3, 64, 96)), dims, "x=1x3x64x96")


def _recogniser():
    return _case(
        models.Recogniser, _inputs(x=(1, 1, 32, 40)), {"x": {0: "batch", 3: "width"}}, "batch=1,dim.width=40"
    )


def _attention_recogniser():
    dims = {"x": {0: "batch", 3: "width"}}
    return _case(models.AttentionRecogniser, _inputs(x=(1, 3, 16, 64)), dims, "x=1x3x16x64")


def _direction():
    dims = {"x": {0: "batch", 2: "height", 3: "width"}}
    return _case(models.Direction, _inputs(x=(1, 3, 48, 96)), dims, "x=1x3x48x96")


def _acoustic():
    inputs = {
        "features": torch.randn(1, 6, 20),
        "h": torch.randn(2, 1, 32) / 2,
        "c": torch.randn(2, 1, 32) / 2,
    }
    dims = {"features": {0: "batch", 1: "frames"}, "h": {1: "batch"}, "c": {1: "batch"}}
    return _case(models.Acoustic, inputs, dims, "dim.frames=6")


def _keywords():
    return _case(models.Keywords, {"x": 3 * torch.randn(1, 1, 49, 10)})


def _keywords_1d():
    return _case(models.Keywords1d, {"x": 3 * torch.randn(1, 40, 60)})


def _decoder():
    model, inputs = models.decoder()
    dims = {name: {0: "batch", 2: "past"} for name in inputs if "past" in name}
    dims |= {"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: "total"}}
    return model, inputs, dims, "input_ids=1x4,attention_mask=1x10,dim.past=6"


CASES = {
    one.__name__.strip("_"): one
    for one in (
        _text_detector,
        _recogniser,
        _attention_recogniser,
        _direction,
        _acoustic,
        _keywords,
        _keywords_1d,
        _decoder,
    )
}


def near(found, wanted, most=MOST_ERROR):
    """Asserts that an output is the model's, but for rounding to 8 bits; `most`: largest error of its range."""
    wanted = np.asarray(wanted, np.float64)
    assert found.shape == wanted.shape
    error = found - wanted
    assert np.abs(error).max() <= most * np.abs(wanted).max()
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) >= LEAST_DB


def outputs(model, inputs):
    with torch.no_grad():
        found = model(*inputs.values())
    return [one.numpy() for one in (found if isinstance(found, tuple) else (found,))]


def arrays(inputs):
    return {name: one.numpy() for name, one in inputs.items()}


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        *(
            pytest.param(kind, "functional", marks=[pytest.mark.slow] * (n % 2))
            for n, kind in enumerate(CASES)
        ),
        ("keywords", "rtl"),
        *(pytest.param(kind, "rtl", marks=pytest.mark.slow) for kind in ("keywords_1d", "direction")),
    ],
)
def test_onnx_files_as_pytorch_writes_them(tmp_path, kind, engine):
    model, inputs, dynamic, shapes = CASES[kind]()
    path = models.exported(model, tmp_path / "model.onnx", tuple(inputs.values()), list(inputs), dynamic)
    run = baco.run(f"{path}:{shapes}" if shapes else path, inputs=arrays(inputs), engine=engine)
    assert run.right, run.wrong
    assert run.agreement.judge.startswith(("onnx.reference", "onnxruntime"))
    for found, wanted in zip(run.outputs.values(), outputs(model, inputs), strict=True):
        near(found, wanted, MOST_OF_SCORES if kind == "text_detector" else MOST_ERROR)


@pytest.mark.parametrize(
    "kind",
    [
        "acoustic",
        "keywords",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("attention_recogniser", "decoder")),
    ],
)
def test_modules_of_pytorch(kind):
    model, inputs, _, _ = CASES[kind]()
    network = baco.network(model, tuple(inputs.values()))
    given = dict(zip((one.name for one in network.inputs), arrays(inputs).values(), strict=True))
    run = baco.run(network, inputs=given)
    assert run.right, run.wrong
    assert run.agreement.judge.startswith("torch")
    for found, wanted in zip(run.outputs.values(), outputs(model, inputs), strict=True):
        near(found, wanted)


def test_a_detector_finds_boxes_and_scores(tmp_path):
    """Boxes in pixels stand beside scores below 1 in one output; neither is lost in the scale of the other."""
    model, inputs = models.detector()
    path = models.exported(model, tmp_path / "detector.onnx", tuple(inputs.values()), list(inputs))
    run = baco.run(path, inputs=arrays(inputs))
    assert run.right, run.wrong
    (found,), (wanted,) = run.outputs.values(), outputs(model, inputs)
    assert wanted.shape == (1, 10, 20 * 20 + 10 * 10 + 5 * 5)
    near(found[:, :4], wanted[:, :4])
    near(found[:, 4:], wanted[:, 4:], MOST_OF_SCORES)
    assert np.ptp(wanted[:, 4:]) > 0.3  # scores that say something


@pytest.mark.parametrize(("opset", "causal"), [(23, False), (24, True)])
def test_a_decoder_of_the_operators_of_opset_23(tmp_path, opset, causal):
    """Attention with grouped queries that takes a past and gives a longer one, RotaryEmbedding, RMSNormalization."""
    past, length = 6, 4
    model, inputs = models.decoder(past, length, layers=1)
    path = models.operators_of_decoder(
        model, tmp_path / "decoder.onnx", past, length, causal=causal, opset=opset
    )
    given = arrays(inputs) | {"position_ids": np.arange(past, past + length)[None]}
    del given["attention_mask"]
    run = baco.run(path, inputs=given)
    assert run.right, run.wrong
    assert list(run.outputs) == ["logits", "present.0.key", "present.0.value"]
    for found, wanted in zip(run.outputs.values(), outputs(model, inputs), strict=True):
        near(found, wanted)


def test_what_random_inputs_are_taken_to_hold(tmp_path):
    """Token ids of the table, a mask of ones with zeros at its end; both said."""
    model, inputs, dynamic, shapes = _decoder()
    path = models.exported(model, tmp_path / "m.onnx", tuple(inputs.values()), list(inputs), dynamic)
    network = baco.network(f"{path}:{shapes}")
    for seed in range(5):
        found = random_inputs(network, seed)
        assert found["input_ids"].min() >= 0
        assert found["input_ids"].max() < 50
        mask = found["attention_mask"][0]
        assert set(mask) <= {0, 1}
        assert (np.diff(mask) <= 0).all()
        assert mask.sum() >= 7
    (said,) = assumed_inputs(network)
    assert "'attention_mask' holds ones with zeros at the end" in said
    assert assumed_inputs(network, ["attention_mask"]) == []
    unit = prepare_network(NetworkRequest.on("gemmini-default", "compiler", network))
    assert said in unit.compile(check=False).lowered.notes
