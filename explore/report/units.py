"""Numbers as people read them: a few digits, a unit, a prefix."""

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


def scientific(value: float) -> str:
    """Three significant digits with an exponent: energy-delay products span too much for prefixes."""
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}e{int(exponent)}" if value else "0"


def share(part: float, whole: float) -> str:
    """`part` of `whole` in percent; what is small but there does not read as nothing."""
    value = part / whole if whole else 0.0
    if 0 < value < 0.0005:
        return "under 0.1%"
    return f"{value:.1%}" if 0 < value < 0.0995 else f"{value:.0%}"


def milliseconds(cycles: float, clock_mhz: float) -> float:
    """Duration of `cycles` at a clock frequency."""
    return cycles / (clock_mhz * 1e3)


def watts(energy_pj: float, cycles: float, clock_mhz: float) -> float:
    """Average power: energy over time (0 for a run of no cycles)."""
    return energy_pj * 1e-12 / (cycles / (clock_mhz * 1e6)) if cycles else 0.0
