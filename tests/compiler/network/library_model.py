"""A small model with an operator of every kind that Gemmini's library computes in a way of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_model(folder: Path, *, image: int = 10, channels: int = 24, outs: int = 40, seed: int = 0) -> Path:
    """A residual block with a window of one pixel at stride 2, then layer norm, GELU-like gate and softmax over channels."""
    draw = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(draw.normal(0, 0.3, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu"),
        helper.make_node("Conv", ["x", "w2", "b2"], ["c2"], "shortcut", kernel_shape=[1, 1], strides=[2, 2]),
        helper.make_node("Add", ["r1", "c2"], ["a"], "add"),
        helper.make_node("Relu", ["a"], ["ar"], "relu2"),
        helper.make_node("Transpose", ["ar"], ["t"], "last", perm=[0, 2, 3, 1]),
        helper.make_node("LayerNormalization", ["t", "gain", "shift"], ["n"], "norm", axis=-1),
        helper.make_node("Tanh", ["n"], ["g"], "tanh"),
        helper.make_node("MatMul", ["g", "w3"], ["m"], "product"),
        helper.make_node("Softmax", ["m"], ["y"], "softmax", axis=-1),
    ]  # fmt: skip
    constants = [weights("w1", outs, channels, 2, 2), weights("b1", outs), weights("w2", outs, channels, 1, 1), weights("b2", outs),
                 weights("gain", outs), weights("shift", outs), weights("w3", outs, 20)]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "library",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, image, image])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, image // 2, image // 2, 20])],
        constants,
    )
    path = folder / "library.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
