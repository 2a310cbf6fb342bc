"""QuantizeLinear and DequantizeLinear: tensors stay real numbers here, rounded to those that the model's whole numbers stand for.

An encoding (`baco.workloads.encoding`) goes with them, by which a program holds these whole numbers.
"""

from __future__ import annotations

import numpy as np
import onnx

from baco.workloads.encoding import Encoding, check_scales
from baco.workloads.onnx.fold import WholeConstant
from baco.workloads.onnx.node import OnnxNode
from baco.workloads.onnx.semantics import WHOLE
from baco.workloads.semantics import Semantics, rounded


def _numbers(imp: OnnxNode, index: int, what: str) -> np.ndarray | None:
    """A scale or zero point; None, refused by name, where it is computed."""
    imp.reads(index)
    constant = imp.constant(index)
    if constant is None:
        imp.refuse(f"{what} that is computed is not supported")
        return None
    value = constant.value
    if value is None:
        value = imp.values_of_constants(imp.node.input[index])
    if value is None:
        imp.refuse(f"{what} whose numbers the file lacks is not supported")
    return value


def limits(kind: int) -> tuple[int, int]:
    """Smallest and largest whole number of a type."""
    name = onnx.TensorProto.DataType.Name(kind)
    bits = int(name.removeprefix("U").removeprefix("INT"))
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _pair(
    imp: OnnxNode, kind: int, shape: tuple[int, ...] | None
) -> tuple[np.ndarray, np.ndarray, int] | None:
    """(scale, zero point, axis) of the node, checked; None, refused by name, where that is not followed.

    Raises InputError, at the node, for a scale that is missing, zero, negative or no number, a zero point of another type or out of its range, an axis that the tensor does not have, and for other numbers of scales than there are channels.
    """
    axis, block = imp.integer("axis", 1), imp.integer("block_size", 0)
    if not imp.has(1):
        raise imp.error(f"{imp.node.op_type} lacks its scale (input 1)")
    if kind not in WHOLE:
        name = onnx.TensorProto.DataType.Name(kind) if kind else "an unknown type"
        imp.refuse(f"numbers as {name} are not supported")
        return None
    if (own := imp.kind(2)) not in (0, kind):
        types = (onnx.TensorProto.DataType.Name(one).lower() for one in (own, kind))
        raise imp.error("its zero point is of {}, and its numbers are of {}".format(*types))
    scale = _numbers(imp, 1, "a scale")
    zero = _numbers(imp, 2, "a zero point") if imp.has(2) else np.zeros((), np.int64)
    if scale is None or zero is None:
        return None
    scale, zero = scale.astype(np.float32), zero.astype(np.int64)
    if block:
        imp.refuse("scales of blocks are not supported")
        return None
    name = onnx.TensorProto.DataType.Name(kind).lower()
    try:
        axis = check_scales(scale, zero, limits(kind), name, axis, shape)
    except ValueError as error:
        raise imp.error(str(error)) from None
    return scale, zero, axis


def _encoding(imp: OnnxNode, kind: int, shape: tuple[int, ...]) -> Encoding | None:
    """That of an activation; None, refused by name, where it is not followed."""
    pair = _pair(imp, kind, shape)
    if pair is None:
        return None
    scale, zero, _ = pair
    if scale.size != 1:
        imp.refuse(f"{scale.size} scales of one activation are not supported")
        return None
    return Encoding(float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0]), *limits(kind))


def quantize(imp: OnnxNode) -> None:
    """QuantizeLinear."""
    x = imp.tensor(0)
    kind = imp.kind(2) or imp.integer("output_dtype", 0) or onnx.TensorProto.UINT8
    encoding = _encoding(imp, kind, x.shape)
    if encoding is not None:
        encoding = _clipped(imp, encoding)
    if encoding is None:
        imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name))
        return
    imp.integer("saturate", 1), imp.integer("precision", 0), imp.integer("output_dtype", 0)
    semantics = rounded(x, encoding)
    imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name, semantics=semantics))
    imp.encodings[imp.node.output[0]] = encoding


def _clipped(imp: OnnxNode, encoding: Encoding) -> Encoding:
    """The encoding of the node's whole numbers between the limits that all that reads them sets."""
    limits = set()
    for reader in imp.readers.get(imp.node.output[0], ()):
        if reader is None or reader.op_type != "Clip":
            return encoding
        ends = [imp.constants.get(name) for name in reader.input[1:3]]
        if len(ends) < 2 or any(end is None or end.value is None for end in ends):
            return encoding
        limits.add(tuple(int(end.value.reshape(-1)[0]) for end in ends if end and end.value is not None))
    return encoding.limited(*limits.pop()) if len(limits) == 1 else encoding


def clip(imp: OnnxNode) -> None:
    """Whole numbers between two limits, as quantisers of fewer bits than a type has write it."""
    x, known = imp.tensor(0), imp.encodings[imp.node.input[0]]
    ends = [
        imp.value(index) if imp.has(index) else np.array(end)
        for index, end in ((1, known.low), (2, known.high))
    ]
    if ends[0] is None or ends[1] is None:
        imp.refuse("limits of whole numbers that are computed are not supported")
        imp.emit(x)
        return
    encoding = known.limited(*(int(end.reshape(-1)[0]) for end in ends if end is not None))
    imp.encodings[imp.node.output[0]] = encoding
    if encoding == known or not encoding.fits_bytes:
        imp.emit(x)
        return
    semantics = rounded(x, encoding)
    imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name, semantics=semantics))


def dequantize(imp: OnnxNode) -> None:
    """DequantizeLinear of what a QuantizeLinear of the same scale and zero point made, which is that real number already, or of
    whole numbers that are an input of the model."""
    x = imp.tensor(0)
    imp.integer("output_dtype", 0)
    encoding = _encoding(imp, imp.kind(0), x.shape)
    name = imp.node.input[0]
    known = imp.encodings.get(name)
    if encoding is None or (known is not None and known.units == encoding.units):
        imp.emit(x)
        return
    if known is None and name in imp.given and encoding.fits_bytes:
        semantics = Semantics("decode", (x,), {"encoding": encoding})
        imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name, semantics=semantics))
        return
    own = f"scale {encoding.scale:g} and zero point {encoding.zero}"
    if known is None:
        imp.refuse(f"{own} of whole numbers that no QuantizeLinear made are not supported")
    else:
        imp.refuse(f"{own} differ from those of the QuantizeLinear before it, which is not supported")
    imp.emit(x)


def whole_constant(imp: OnnxNode) -> WholeConstant | None:
    """What a DequantizeLinear of a constant says of it; None where that is not followed. Raises as `_pair` does."""
    name = imp.node.input[0]
    stored = imp.constants[name]
    pair = _pair(imp, imp.kind(0), stored.shape)
    if pair is None or stored.shape is None:
        return None
    scale, zero, axis = pair
    return WholeConstant(name, tuple(scale.reshape(-1).tolist()), tuple(zero.reshape(-1).tolist()), axis)
