"""Numbers as people read them: a few digits, a unit, a prefix."""

from __future__ import annotations

from baco.common.units import si, significant

__all__ = ["milliseconds", "scientific", "share", "si", "significant", "watts"]


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
