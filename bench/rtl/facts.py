"""A timing fact: one figure of the original's microarchitecture, and the stream that measures ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from baco.bench.rtl.probe import Probe

__all__ = ["Fact", "MeasuredFact", "measure"]

#: Relative difference below which two figures are the same.
_SAME = 0.005


@dataclass(frozen=True)
class Fact:
    """Something that takes time; less is better.

    Attributes:
        key: one word, for JSON and tests.
        what: what takes the time, for people.
        section: where in the description of the original's microarchitecture it comes from.
        original: cycles there, as a function of dim.
        unit: `cycles`, or cycles for what.
        measure: cycles here.
        note: how the figure of the original was derived, or why ours differs.
    """

    key: str
    what: str
    section: str
    original: Callable[[int], float]
    unit: str
    measure: Callable[[Probe], float]
    note: str = ""


@dataclass(frozen=True)
class MeasuredFact:
    """A fact with both figures, cycles."""

    fact: Fact
    original: float
    ours: float

    @property
    def verdict(self) -> str:
        """`reproduced`, `beaten` or `worse`."""
        if abs(self.ours - self.original) <= _SAME * max(abs(self.original), 1.0):
            return "reproduced"
        return "beaten" if self.ours < self.original else "worse"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "key": self.fact.key,
            "what": self.fact.what,
            "section": self.fact.section,
            "unit": self.fact.unit,
            "original": self.original,
            "ours": self.ours,
            "verdict": self.verdict,
            "note": self.fact.note,
        }


def measure(
    facts: Iterable[Fact], probe: Probe, progress: Callable[[str], None] = lambda _: None
) -> list[MeasuredFact]:
    """Measure facts one after the other. Raises as `Probe.run`."""
    found = []
    for fact in facts:
        progress(fact.what)
        found.append(MeasuredFact(fact, fact.original(probe.accelerator.dim), fact.measure(probe)))
    return found
