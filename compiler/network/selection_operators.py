"""Selections as integer operators: positions of the largest elements, elements at computed positions, norms of windows."""

from __future__ import annotations

import numpy as np

from baco.compiler.network.builder import CHANNELS_LAST, IntegerBuilder, rounded, semantics_of, spatial_pair
from baco.compiler.network.host_operators import norm, put_inside
from baco.compiler.network.tensor_operators import stored_image
from baco.compiler.ops.floating import RealTop
from baco.compiler.ops.images import MaxPositions
from baco.compiler.ops.lookup import OneHot, Take, Unpool
from baco.compiler.ops.rows import ArgMax, TopK
from baco.compiler.ops.views import View
from baco.workloads.network import Operator
from baco.workloads.semantics import Operand, Parameter


def _positions(b: IntegerBuilder, op: Operator, operand: Operand) -> View:
    """Indices as int32, computed or constant."""
    if isinstance(operand, Parameter):
        return b.constant(f"{operand.name}.positions", b.parameters(operand).astype(np.int32))
    return b.operand(operand, op, "int32")


def _elements(b: IntegerBuilder, op: Operator, operand: Operand) -> View:
    """Numbers, or positions of their own: what is selected from stays what it is."""
    return b.operand(operand, op, "int8" if isinstance(operand, Parameter) else None)


def _result(b: IntegerBuilder, op: Operator, like: View) -> View:
    """Memory for elements of another tensor, in its scale and type."""
    value = b.values[like.value]
    if value.coded:
        return b.tensor(op.name, op.output.shape, None, like=like)
    return b.tensor(op.name, op.output.shape, None, value.scale, value.dtype)


def argmax(b: IntegerBuilder, op: Operator) -> None:
    """Positions of maxima or minima."""
    a = semantics_of(op).attributes
    view = b.operand(semantics_of(op).operands[0], op, as_given=True)
    axis = a["axis"] % len(view.shape)
    kept = [i for i in range(len(view.shape)) if i != axis]
    output = b.tensor(op.name, op.output.shape, None, 1.0, "int32")
    target = output.reshaped([view.shape[i] for i in kept])
    assert target is not None
    arranged = view.transposed((*kept, axis))
    b.emit(ArgMax(b.name(op.name), (op.name,), target, arranged, a["last"], a["smallest"]))


def top(b: IntegerBuilder, op: Operator) -> None:
    """Positions of the largest or smallest elements along a dimension."""
    a = semantics_of(op).attributes
    view = b.operand(semantics_of(op).operands[0], op, None, as_given=True)
    kind = b.values[view.value].dtype
    if kind not in ("int8", "float32"):
        view = b.operand(semantics_of(op).operands[0], op, as_given=True)
    axis = a["axis"] % len(view.shape)
    last = (*(i for i in range(len(view.shape)) if i != axis), axis)
    output = b.tensor(op.name, op.output.shape, None, 1.0, "int32")
    chosen = RealTop if kind == "float32" else TopK
    views = output.transposed(last), view.transposed(last)
    b.emit(chosen(b.name(op.name), (op.name,), *views, bool(a["smallest"])))


def take(b: IntegerBuilder, op: Operator) -> None:
    """Elements at positions along one dimension; of the others the first ones where there are fewer positions."""
    source, indices = semantics_of(op).operands
    view, index = _elements(b, op, source), _positions(b, op, indices)
    axis = semantics_of(op).attributes["axis"] % len(view.shape)
    last = (*(i for i in range(len(view.shape)) if i != axis), axis)
    size = [view.shape[i] if i == axis else n for i, n in enumerate(index.shape)]
    corner = view.sliced([0] * len(size), size, [1] * len(size))
    output = _result(b, op, view)
    views = (one.transposed(last) for one in (output, corner, index))
    b.emit(Take(b.name(op.name), (op.name,), *views))


def gather(b: IntegerBuilder, op: Operator) -> None:
    """Slices at positions along one dimension."""
    source, indices = semantics_of(op).operands
    view, index = _elements(b, op, source), _positions(b, op, indices)
    axis = semantics_of(op).attributes["axis"] % len(view.shape)
    others = [i for i in range(len(view.shape)) if i != axis]
    flat = index.reshaped((index.words,))
    if flat is None:
        flat = b.copied(index, op).reshaped((index.words,))
    assert flat is not None
    lead = [view.shape[i] for i in others]
    output = _result(b, op, view)
    joined = output.reshaped((*lead[:axis], index.words, *lead[axis:]))
    assert joined is not None
    target = joined.transposed((*others, axis))
    arranged = view.transposed((*others, axis))
    b.emit(Take(b.name(op.name), (op.name,), target, arranged, flat.expanded((*lead, index.words))))


def one_hot(b: IntegerBuilder, op: Operator) -> None:
    """One number at an index and another elsewhere."""
    a = semantics_of(op).attributes
    index = _positions(b, op, semantics_of(op).operands[0])
    output = b.tensor(op.name, op.output.shape)
    scale = b.scale(output)
    on, off = (int(rounded(np.array(a[part] / scale))[()]) for part in ("on", "off"))
    axis = a["axis"]
    last = (*(i for i in range(len(output.shape)) if i != axis), axis)
    b.emit(OneHot(b.name(op.name), (op.name,), output.transposed(last), index, on, off))


def norm_pool(b: IntegerBuilder, op: Operator) -> None:
    """The p-norm of windows of any number of dimensions, which are a view of the padded tensor."""
    a = semantics_of(op).attributes
    view = b.operand(semantics_of(op).operands[0], op)
    spatial = len(a["kernel"])
    before, shape = [0, 0], list(view.shape)
    for i in range(spatial):
        reach = (a["shape"][i] - 1) * a["stride"][i] + (a["kernel"][i] - 1) * a["dilation"][i] + 1
        before.append(a["padding"][i][0])
        shape[2 + i] = max(reach, before[-1] + view.shape[2 + i])
    if shape != list(view.shape):
        order = b.order_like(view)
        inverse = sorted(range(len(order)), key=lambda i: order[i])
        wide = b.value(f"{op.name}.padded", [shape[i] for i in order], b.scale(view)).transposed(inverse)
        put_inside(b, op, view, wide, before, 0)
        view = wide
    steps = [s * n for s, n in zip(view.strides[2:], a["stride"], strict=True)]
    taps = [s * n for s, n in zip(view.strides[2:], a["dilation"], strict=True)]
    windows = View(
        view.value,
        (*view.shape[:2], *a["shape"], *a["kernel"]),
        (*view.strides[:2], *steps, *taps),
        view.offset,
    )
    norm(b, op, windows, spatial, a["p"])


def max_positions(b: IntegerBuilder, op: Operator) -> None:
    """Where the maxima of windows are."""
    a = semantics_of(op).attributes
    view = b.operand(semantics_of(op).operands[0], op, as_given=True)
    if len(view.shape) not in CHANNELS_LAST:
        raise b.error(op, f"positions of maxima in {len(view.shape)} dimensions cannot be run")
    output = b.tensor(op.name, op.output.shape, CHANNELS_LAST[len(op.output.shape)], 1.0, "int32")
    image = stored_image(view)
    height, width = image.shape[1:3]
    within = (1, height) if a["column_major"] else (width, 1)
    pixels = height * width
    b.emit(
        MaxPositions(
            b.name(op.name),
            (op.name,),
            stored_image(output),
            image,
            spatial_pair(a["kernel"]),
            spatial_pair(a["stride"]),
            spatial_pair(tuple(p[0] for p in a["padding"]), 0),
            spatial_pair(a["dilation"]),
            (image.shape[3] * pixels, *within, pixels),
        )
    )


def unpool(b: IntegerBuilder, op: Operator) -> None:
    """Elements at positions of a tensor of zeros."""
    source, indices = semantics_of(op).operands
    view, index = b.operand(source, op), _positions(b, op, indices)
    output = b.tensor(op.name, op.output.shape, None, b.scale(view))
    flat = output.reshaped((output.words,))
    assert flat is not None
    b.emit(Unpool(b.name(op.name), (op.name,), flat, view, index))
