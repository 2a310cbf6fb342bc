"""Numbers as people read them: a few digits, and a unit with a prefix."""

from __future__ import annotations

import math

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))


def significant(value: float, digits: int = 3) -> str:
    """`value` to some significant digits, never in exponent form between 1e-4 and 1e15."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    # rounded first: 0.9996 is 1.00, not 1.000
    value = float(f"{value:.{digits - 1}e}")
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits - 1}e}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, decimals)}f}"


def si(value: float, unit: str, digits: int = 3) -> str:
    """`value` with an SI prefix: `si(1.5e6, "cycles")` is `1.50 Mcycles`."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    for factor, prefix in (*_PREFIXES, *_SMALL):
        if abs(value) >= factor * (1 - 0.5 * 10**-digits):
            return f"{significant(value / factor, digits)} {prefix}{unit}"
    factor, prefix = _SMALL[-1]
    return f"{significant(value / factor, digits)} {prefix}{unit}"


def tally(value: float, unit: str) -> str:
    """A number of things: exact where it is small, else `si`."""
    return f"{value:,.0f} {unit}" if value < 1000 else si(value, unit)
