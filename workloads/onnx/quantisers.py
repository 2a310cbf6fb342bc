"""Quantisers of QONNX (Brevitas, FINN, hls4ml): rounding to a grid and back, on weights and activations."""

from __future__ import annotations

from baco.workloads.onnx.expansion import Expansion, RefusedError

__all__ = ["bipolar", "quant"]

_ROUNDING = {"ROUND": ["Round"], "CEIL": ["Ceil"], "FLOOR": ["Floor"], "HALF_EVEN": ["Round"]}


def quant(e: Expansion) -> None:
    """scale * (clip(round(x / scale + zero)) - zero), limits from the number of bits."""
    bits = float(e.value(3, "bit width").reshape(-1)[0])
    signed, narrow = e.attribute("signed", 1), e.attribute("narrow", 0)
    rounding = e.attribute("rounding_mode", "ROUND")
    if rounding not in _ROUNDING:
        raise RefusedError(f"rounding_mode={rounding}")
    low = -(2 ** (bits - 1)) + (1 if narrow else 0) if signed else 0.0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - (2 if narrow else 1)
    y = e.add("Add", e.add("Div", e.input(0), e.input(1)), e.input(2))
    for operator in _ROUNDING[rounding]:
        y = e.add(operator, y)
    y = e.add("Clip", y, e.constant(float(low)), e.constant(float(high)))
    e.finish("Mul", e.add("Sub", y, e.input(2)), e.input(1))


def bipolar(e: Expansion) -> None:
    """scale where x is not negative, -scale elsewhere."""
    negative = e.add("Cast", e.add("Less", e.input(0), e.constant(0.0)), to=1)
    signs = e.add("Sub", e.constant(1.0), e.add("Mul", negative, e.constant(2.0)))
    e.finish("Mul", signs, e.input(1))
