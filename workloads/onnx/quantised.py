"""QuantizeLinear and DequantizeLinear of activations: numbers stay real ones here, cut off where the model cuts them off."""

from __future__ import annotations

import numpy as np
import onnx

from baco.workloads.onnx.node import Encoding, OnnxNode
from baco.workloads.onnx.semantics import WHOLE
from baco.workloads.semantics import Semantics

__all__ = ["dequantize", "quantize"]


def _encoding(imp: OnnxNode, kind: int) -> Encoding | None:
    """What the node says of its whole numbers; None, refused by name, where that is not followed."""
    imp.integer("axis", 1), imp.integer("block_size", 0)  # of several scales
    scale, zero = imp.value(1), imp.value(2) if imp.has(2) else np.zeros((), np.int64)
    if scale is None or zero is None:
        imp.refuse("a scale or zero point that is computed, or large, is not supported")
        return None
    if scale.size != 1 or zero.size != 1:
        imp.refuse(f"{scale.size} scales and {zero.size} zero points of one activation are not supported")
        return None
    if kind not in WHOLE:
        name = onnx.TensorProto.DataType.Name(kind) if kind else "an unknown type"
        imp.refuse(f"numbers as {name} are not supported")
        return None
    return Encoding(float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]), kind)


def _limits(kind: int) -> tuple[int, int]:
    """Smallest and largest whole number of a type."""
    name = onnx.TensorProto.DataType.Name(kind)
    bits = int(name.removeprefix("U").removeprefix("INT"))
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def quantize(imp: OnnxNode) -> None:
    """QuantizeLinear: a quantiser leaves the ReLU in front of it to the smallest whole number, so that its limits count."""
    x = imp.tensor(0)
    kind = imp.kind(2) or imp.integer("output_dtype", 0) or onnx.TensorProto.UINT8
    encoding = _encoding(imp, kind)
    if encoding is None:
        imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name))
        return
    imp.integer("saturate", 1), imp.integer("precision", 0), imp.integer("output_dtype", 0)
    low, high = ((q - encoding.zero) * encoding.scale for q in _limits(kind))
    attributes = {"name": "clip", "numbers": {"low": low, "high": high}, "requantises": True}
    semantics = Semantics("unary", (x,), attributes)
    imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name, semantics=semantics))
    imp.encodings[imp.node.output[0]] = encoding


def dequantize(imp: OnnxNode) -> None:
    """DequantizeLinear behind the QuantizeLinear of the same scale and zero point: nothing happens to the real number."""
    x = imp.tensor(0)
    imp.integer("output_dtype", 0)
    encoding = _encoding(imp, imp.kind(0))
    known = imp.encodings.get(imp.node.input[0])
    if encoding is not None and known != encoding:
        own = f"scale {encoding.scale:g} and zero point {encoding.zero}"
        if known is None:
            imp.refuse(f"{own} of whole numbers that no QuantizeLinear made are not supported")
        else:
            imp.refuse(f"{own} differ from those of the QuantizeLinear before it, which is not supported")
    imp.emit(x)
