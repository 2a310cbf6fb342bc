"""Timing facts: figures of the original's microarchitecture (`facts.csv`), and what ours takes.

Columns of the table: what takes the time, where in the description of the original it comes from, cycles there as a formula in the
array's side `dim`, their unit, and how the figure was derived or why ours differs. Less is better.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from baco.bench.harness.experiment import Say, silent
from baco.bench.rtl.execute_facts import EXECUTE_FACTS
from baco.bench.rtl.load_facts import LOAD_FACTS
from baco.bench.rtl.probe import Probe
from baco.bench.rtl.store_facts import STORE_FACTS

#: What measures each fact, by its key.
FACTS: dict[str, Callable[[Probe], float]] = EXECUTE_FACTS | LOAD_FACTS | STORE_FACTS
#: Relative difference below which two figures are the same.
_SAME = 0.005


@dataclass(frozen=True)
class MeasuredFact:
    """A line of the table with both figures, cycles."""

    key: str
    what: str
    section: str
    unit: str
    note: str
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
        return vars(self) | {"verdict": self.verdict}


def measure(keys: Iterable[str], probe: Probe, say: Say = silent) -> list[MeasuredFact]:
    """Measure facts one after the other. Raises as `Probe.run`."""
    text = resources.files(__package__).joinpath("facts.csv").read_text(encoding="utf-8")
    known = {row["key"]: row for row in csv.DictReader(text.splitlines())}
    found = []
    for key in keys:
        row = known[key]
        say(f"timing: {row['what']}")
        # a formula of our own table
        original = eval(row["original"], {"__builtins__": {}}, {"dim": probe.accelerator.dim, "max": max})
        about = {name: row[name] for name in ("key", "what", "section", "unit", "note")}
        found.append(MeasuredFact(**about, original=float(original), ours=FACTS[key](probe)))
    return found
