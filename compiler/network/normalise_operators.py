"""Softmax and normalisations as integer operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from baco.compiler.network.builder import IntegerBuilder, semantics_of
from baco.compiler.network.masks import MASKED
from baco.compiler.ops.arithmetic import fixed_point, float32
from baco.compiler.ops.elementwise import Addition
from baco.compiler.ops.rows import Normalisation, Reduction, Softmax, TermSum
from baco.compiler.ops.views import View
from baco.compiler.row_functions import exponentials, normalise_parameters, softmax_numerator
from baco.workloads.network import Operator
from baco.workloads.semantics import Parameter

#: Fraction bits of exponentials whose sum is taken the logarithm of, and the longest row whose sum they leave room for.
_EXPONENTIAL_BITS, _LOG_SOFTMAX = 36, 2**24


def softmax(b: IntegerBuilder, op: Operator) -> None:
    """Softmax along one dimension, with a constant mask."""
    a = semantics_of(op).attributes
    source, mask = semantics_of(op).operands
    view = b.operand(source, op)
    if a["logarithm"]:
        _log_softmax(b, op, view, a["axis"] % len(view.shape))
        return
    flags: View | None = None
    if mask is not None:
        if isinstance(mask, Parameter):
            view, flags = _masked(b, op, view, b.parameters(mask), mask.name)
        elif not a.get("truths"):
            raise b.error(
                op, "a mask that is computed cannot be run", "make the mask a constant of the model"
            )
        else:
            flags = b.operand(mask, op).expanded(view.shape)
    order = b.order_like(view)
    output = b.tensor(op.name, op.output.shape, order)
    axis = a["axis"] % len(view.shape)
    last = (*(i for i in range(len(view.shape)) if i != axis), axis)
    # Rows of at most 2**24 elements keep the sum of exponentials within 2**40.
    if view.shape[axis] > 2**24:
        raise b.error(op, f"a softmax of {view.shape[axis]} elements does not fit")
    b.emit(
        Softmax(
            b.name(op.name),
            (op.name,),
            output.transposed(last),
            view.transposed(last),
            b.constant(f"{op.name}.exponentials", exponentials(b.scale(view))),
            softmax_numerator(b.scale(output)),
            None if flags is None else flags.transposed(last),
        )
    )


def _log_softmax(b: IntegerBuilder, op: Operator, view: View, axis: int) -> None:
    """x - max(x) - log(sum(exp(x - max(x)))): the sum in 64 bits, its logarithm rounded once, the differences in int8."""
    length = view.shape[axis]
    if length > _LOG_SOFTMAX:
        raise b.error(
            op,
            f"the logarithm of a softmax of {length} elements cannot be run: at most {_LOG_SOFTMAX}",
            "the softmax itself can, and so can the scores in front of it",
        )
    name, sources = op.name, (op.name,)
    last = (*(i for i in range(len(view.shape)) if i != axis), axis)
    arranged = view.transposed(last)
    rows = arranged.shape[:-1]

    def difference(part: str, left: View, row: View, output: View) -> None:
        along = row.reshaped((*rows, 1))
        assert along is not None
        common = max(b.scale(left), b.scale(row))
        scales = (b.scale(left) / common, -b.scale(row) / common, common / b.scale(output))
        left_scale, right_scale, scale = (float32(s) for s in scales)
        right = along.expanded(arranged.shape)
        b.emit(Addition(b.name(part), sources, output, left, right, left_scale, right_scale, scale, False))

    output = b.tensor(name, op.output.shape, b.order_like(view))
    top = b.value(f"{name}.max", rows, b.scale(view))
    b.emit(Reduction(b.name(f"{name}.max"), sources, top, arranged, "max", 1, fixed_point(1.0)))
    # No distance is larger than the result: the logarithm of a sum of at least 1 is not negative.
    distance = b.value(f"{name}.distance", arranged.shape, b.scale_for(b.ranges[name]))
    difference(f"{name}.distance", arranged, top, distance)
    logarithm = b.value(f"{name}.log", rows, b.scale_for(math.log(max(length, 2))))
    exponentials = np.exp(np.minimum(np.arange(-128, 128), 0) * b.scale(distance))
    steps = np.exp((np.arange(-128, 127) + 0.5) * b.scale(logarithm))
    terms, limits = (
        b.constant(f"{name}.{part}", np.ceil(np.ldexp(x, _EXPONENTIAL_BITS)).astype(np.int64))
        for part, x in (("exponentials", exponentials), ("limits", steps))
    )
    b.emit(TermSum(b.name(f"{name}.log"), sources, logarithm, distance, terms, limits, 1))
    difference(name, distance, logarithm, output.transposed(last))


def _masked(
    b: IntegerBuilder, op: Operator, view: View, mask: np.ndarray, name: str
) -> tuple[View, View | None]:
    """(what the softmax is of, flags of the elements that take part or None) for a mask of truths or summands."""
    if mask.dtype == np.bool_:
        return view, b.constant(f"{name}.flags", mask.astype(np.int8)).expanded(view.shape)
    absent = mask <= MASKED
    summand = np.where(absent, 0, mask).astype(np.float64)
    if summand.any():
        added = b.quantised(f"{name}.summand", summand).expanded(view.shape)
        largest = b.scale(view) * 127 + float(np.abs(summand).max())
        total = b.value(f"{op.name}.scores", view.shape, b.scale_for(largest))
        common = max(b.scale(view), b.scale(added))
        scales = (b.scale(view) / common, b.scale(added) / common, common / b.scale(total))
        b.emit(
            Addition(
                b.name(f"{op.name}.scores"),
                (op.name,),
                total,
                view,
                added,
                float32(scales[0]),
                float32(scales[1]),
                float32(scales[2]),
                False,
            )
        )
        view = total
    if not absent.any():
        return view, None
    return view, b.constant(f"{name}.flags", (~absent).astype(np.int8)).expanded(view.shape)


def layernorm(b: IntegerBuilder, op: Operator) -> None:
    """Over the last dimensions."""
    a = semantics_of(op).attributes
    view = b.operand(semantics_of(op).operands[0], op)
    output = b.tensor(op.name, op.output.shape, b.order_like(view))
    gain, shift_by = (_elements(b, p) for p in (*semantics_of(op).operands[1:], None, None)[:2])
    centre = semantics_of(op).function == "layernorm"
    _emit(b, op, view, output, gain, shift_by, a["axes"], centre, a["eps"])


def groupnorm(b: IntegerBuilder, op: Operator) -> None:
    """Over groups of channels and all pixels."""
    a: dict[str, Any] = dict(semantics_of(op).attributes)
    view = b.operand(semantics_of(op).operands[0], op)
    output = b.tensor(op.name, op.output.shape, b.order_like(view))
    batch, channels, *space = view.shape
    shape = (batch, a["groups"], channels // a["groups"], *space)
    grouped, target = (v.reshaped(shape) for v in (view, output))
    if grouped is None:
        grouped = b.copied(view, op).reshaped(shape)
    assert grouped is not None
    assert target is not None
    parts = []
    for p in semantics_of(op).operands[1:3]:
        elements = _elements(b, p)
        shaped = None if elements is None else elements.reshape(*shape[1:3], *(1 for _ in space))
        parts.append(shaped)
    _emit(b, op, grouped, target, parts[0], parts[1], 1 + len(space), True, a["eps"])


def _elements(b: IntegerBuilder, parameter: object) -> np.ndarray | None:
    return b.parameters(parameter).astype(np.float64) if isinstance(parameter, Parameter) else None


def _emit(
    b: IntegerBuilder,
    op: Operator,
    view: View,
    output: View,
    gain: np.ndarray | None,
    shift_by: np.ndarray | None,
    axes: int,
    centre: bool,
    eps: float,
) -> None:
    count = math.prod(view.shape[-axes:])
    if count > 2**22:
        raise b.error(op, f"a normalisation over {count} elements does not fit")
    try:
        gains, offsets, shift, epsilon = normalise_parameters(
            np.ones(1) if gain is None else gain,
            np.zeros(1) if shift_by is None else shift_by,
            b.scale(view),
            b.scale(output),
            count,
            eps,
        )
    except ValueError:
        raise b.error(op, "its gain is too large for the scale of its output") from None
    b.emit(
        Normalisation(
            b.name(op.name),
            (op.name,),
            output,
            view,
            b.constant(f"{op.name}.gain", gains).expanded(view.shape),
            b.constant(f"{op.name}.shift", offsets).expanded(view.shape),
            axes,
            centre,
            epsilon,
            shift,
        )
    )
