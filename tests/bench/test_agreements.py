"""The table of agreements, on a product of known rounding."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from baco.bench.agreements import agreement_of, agreements_table


@pytest.fixture
def model(tmp_path):
    """y = 2 x, and x that int8 holds exactly."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        "double",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 8))],
        [numpy_helper.from_array(2 * np.eye(8, dtype=np.float32), "w")],
    )
    path = tmp_path / "double.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    np.savez(tmp_path / "x.npz", x=np.array([[-127, -60, -1, 0, 2, 31, 64, 127]], np.float32))
    return path, tmp_path / "x.npz"


def test_given_inputs_are_what_it_runs_on(model):
    path, data = model
    (output,) = agreement_of(str(path), str(data)).outputs
    assert output.snr_db > 100
    (random,) = agreement_of(str(path)).outputs
    assert 25 < random.snr_db < 60


def test_a_row_for_each_model(model):
    path, data = model
    rows = agreements_table([str(path), f"{path}={data}"]).splitlines()
    assert len(rows) == 4
    assert [row.split("|")[1].strip() for row in rows[2:]] == [f"`{path}`"] * 2
    assert float(rows[2].split("|")[2]) < 60 < float(rows[3].split("|")[2])
