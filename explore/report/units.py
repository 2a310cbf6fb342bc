"""Numbers as people read them: a few digits, a unit, a prefix."""

from __future__ import annotations

from baco.common.units import si, significant

__all__ = [
    "UNKNOWN",
    "count",
    "milliseconds",
    "quantity",
    "ratio",
    "scientific",
    "share",
    "si",
    "significant",
    "watts",
]

#: What stands for a figure that is not known.
UNKNOWN = "–"


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


def count(value: float | None) -> str:
    """All digits of a whole number."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def quantity(value: float | None, unit: str, factor: float = 1.0) -> str:
    """A figure with its unit and the prefix that fits; `factor` is that of its own unit: 1e-12 of pJ shown in J."""
    return UNKNOWN if value is None else si(value * factor, unit)


def ratio(one: float | None, other: float | None) -> str:
    """One figure over another."""
    return significant(one / other) if one is not None and other else UNKNOWN
