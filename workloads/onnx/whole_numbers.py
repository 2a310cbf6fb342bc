"""Operators of deployers for embedded machines (Quantlib, Deeploy), whose models hold whole numbers throughout, stored as real ones."""

from __future__ import annotations

import math

import numpy as np

from baco.workloads.encoding import Encoding
from baco.workloads.onnx.node import Handler, OnnxNode
from baco.workloads.semantics import Semantics

#: Whole numbers of an input whose range no such model declares.
BYTES = Encoding(1.0, 0, 0, 255)
#: Bits that a product of 32 bits is shifted by at most.
_MOST_SHIFT = 62


def whole_input(imp: OnnxNode, name: str) -> None:
    """An input of the model, which is of whole numbers."""
    x = imp.values[name]
    semantics = Semantics("decode", (x,), {"encoding": BYTES})
    label = imp.builder.unique(f"{name}.numbers")
    imp.values[name] = imp.builder.op("requantize", (x,), x.shape, name=label, semantics=semantics)


def _number(imp: OnnxNode, name: str, value: np.ndarray | None) -> float:
    """An attribute's one number. Raises InputError without it."""
    if value is None or value.size != 1:
        raise imp.error(f"{imp.node.op_type} lacks its attribute '{name}'")
    return float(value.reshape(-1)[0])


def requant_shift(imp: OnnxNode) -> None:
    """RequantShift: x, multipliers, offsets; (x * multiplier + offset) / div, rounded to the nearest (halves up) by a shift to the
    right, between the limits of n_levels numbers from 0 on, or around it where they are signed.

    Raises InputError, at the node, for a divisor that is no power of two, other than 2 to 256 levels, and numbers that are not whole.
    """
    x = imp.tensor(0)
    count = imp.array("n_levels_out")
    levels = _number(imp, "n_levels_out", imp.array("n_levels") if count is None else count)
    divisor, signed = _number(imp, "div", imp.array("div")), _number(imp, "signed", imp.array("signed"))
    if not divisor >= 1 or divisor != 2.0 ** round(math.log2(divisor)) or divisor > 2**_MOST_SHIFT:
        raise imp.error(f"its divisor {divisor:g} is no power of two up to 2^{_MOST_SHIFT}")
    if not 2 <= levels <= 256 or levels % 1:
        raise imp.error(f"{levels:g} levels are not supported, only 2 to 256")
    low = -int(levels) // 2 if signed else 0
    constants = []
    for index, what in ((1, "multipliers"), (2, "offsets")):
        if not imp.has(index):
            raise imp.error(f"{imp.node.op_type} lacks its {what} (input {index})")
        imp.reads(index)
        if imp.constant(index) is None:
            imp.refuse(f"{what} that are computed are not supported")
            imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name))
            return
        constants.append(imp.parameter(imp.node.input[index]))
        value = constants[-1].value()
        if value is not None and (value != np.rint(value)).any():
            raise imp.error(f"its {what} are not whole numbers")
    encoding = Encoding(1.0, 0, low, low + int(levels) - 1)
    attributes = {"shift": round(math.log2(divisor)), "encoding": encoding}
    semantics = Semantics("shift", (x, *constants), attributes)
    imp.emit(imp.builder.op("requantize", (x,), x.shape, name=imp.name, semantics=semantics))


#: By name; a model that has one of them is of whole numbers throughout.
WHOLE_OPERATORS: dict[str, Handler] = {"RequantShift": requant_shift}
