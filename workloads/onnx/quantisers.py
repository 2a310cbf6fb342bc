"""Quantisers of QONNX (Brevitas, FINN, hls4ml): rounding to a grid and back, on weights and activations.

Those of at most 8 bits, to nearest, are QuantizeLinear and DequantizeLinear of the same numbers, between limits that fewer bits set.
"""

from __future__ import annotations

import numpy as np

from baco.workloads.onnx.expansion import Expansion, RefusedError

_ROUNDING = {"ROUND": "Round", "HALF_EVEN": "Round", "CEIL": "Ceil", "FLOOR": "Floor"}
#: Whole numbers of a byte.
_SIGNED, _UNSIGNED = (-128, 127), (0, 255)


def quant(e: Expansion) -> None:
    """scale * (clip(round(x / scale + zero)) - zero), limits from the number of bits."""
    bits = float(e.value(3, "bit width").reshape(-1)[0])
    signed, narrow = e.attribute("signed", 1), e.attribute("narrow", 0)
    rounding = e.attribute("rounding_mode", "ROUND")
    if rounding not in _ROUNDING:
        raise RefusedError(f"rounding_mode={rounding}")
    if not bits > 0:
        raise RefusedError(f"a bit width of {bits:g}")
    low = -(2 ** (bits - 1)) + (1 if narrow else 0) if signed else 0.0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - (2 if narrow else 1)
    if _ROUNDING[rounding] == "Round" and _as_pair(e, low, high):
        return
    y = e.add("Add", e.add("Div", e.input(0), e.input(1)), e.input(2))
    y = e.add(_ROUNDING[rounding], y)
    y = e.add("Clip", y, e.constant(float(low)), e.constant(float(high)))
    e.finish("Mul", e.add("Sub", y, e.input(2)), e.input(1))


def _as_pair(e: Expansion, low: float, high: float) -> bool:
    """Write it as QuantizeLinear and DequantizeLinear; False where scale or zero point are computed, or are of no byte."""
    scale, zero = (e.facts.known.get(e.input(index)) for index in (1, 2))
    if scale is None or zero is None or not (np.isfinite(scale) & (scale > 0)).all():
        return False
    scale, zero = np.broadcast_arrays(scale.astype(np.float32), zero.astype(np.float32))
    wide = [axis for axis, size in enumerate(scale.shape) if size > 1]
    kinds = [kind for kind in (_SIGNED, _UNSIGNED) if kind[0] <= low and high <= kind[1]]
    if not kinds or len(wide) > 1 or (zero != np.rint(zero)).any():
        return False
    if zero.min() < kinds[0][0] or zero.max() > kinds[0][1]:
        return False
    axis = wide[0] - scale.ndim + len(e.shape(0)) if wide else 0
    kind = np.int8 if kinds[0] == _SIGNED else np.uint8
    line = () if not wide else (-1,)
    pair = e.constant(scale.reshape(line), np.float32), e.constant(zero.reshape(line), kind)
    limits = [e.constant(kind(limit), kind) for limit in (low, high)] if (low, high) != kinds[0] else []
    whole = e.add("QuantizeLinear", e.input(0), *pair, axis=axis)
    if limits:
        whole = e.add("Clip", whole, *limits)
    e.finish("DequantizeLinear", whole, *pair, axis=axis)
    return True


def bipolar(e: Expansion) -> None:
    """scale where x is not negative, -scale elsewhere."""
    negative = e.add("Cast", e.add("Less", e.input(0), e.constant(0.0)), to=1)
    signs = e.add("Sub", e.constant(1.0), e.add("Mul", negative, e.constant(2.0)))
    scale = e.facts.known.get(e.input(1))
    if scale is None or scale.size != 1 or not scale.reshape(-1)[0] > 0:
        e.finish("Mul", signs, e.input(1))
        return
    one, zero = e.constant(np.float32(1)), e.constant(np.int8(0), np.int8)
    by = e.constant(np.float32(scale.reshape(-1)[0]))
    if e.is_constant(0):
        e.finish("DequantizeLinear", e.add("QuantizeLinear", signs, one, zero), by, zero)
    else:
        e.finish("DequantizeLinear", e.add("QuantizeLinear", e.add("Mul", signs, by), by, zero), by, zero)


def trunc(e: Expansion) -> None:
    """The upper bits: scale * (rounded(round(x / scale + zero) / 2**(bits in - bits out)) - zero)."""
    before, after = (float(e.value(index, "bit width").reshape(-1)[0]) for index in (3, 4))
    rounding = e.attribute("rounding_mode", "FLOOR")
    if rounding not in _ROUNDING:
        raise RefusedError(f"rounding_mode={rounding}")
    if after > before:
        raise RefusedError(f"{after:g} bits of {before:g}")
    y = e.add("Round", e.add("Add", e.add("Div", e.input(0), e.input(1)), e.input(2)))
    y = e.add(_ROUNDING[rounding], e.add("Div", y, e.constant(float(2 ** (before - after)))))
    e.finish("Mul", e.add("Sub", y, e.input(2)), e.input(1))
