"""Cycles of the host's C functions on the simulated host cores, by constants per element, row and cache line.

The constants are in `host_constants.json`, for our host core and for the one before the original Gemmini, fitted on small
networks of random operators by `python -m baco.bench.fit.host`; none of them is taken from a network that somebody would
want predicted.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from baco.compiler.host_core import miss_cycles
from baco.compiler.ops.host_work import HostWork

CONSTANTS_FILE = "host_constants.json"


@functools.cache
def _constants() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    text = (resources.files("baco.compiler") / "ops" / CONSTANTS_FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return dict(found["timings"])


def host_cycles(work: HostWork, misses: float, timing: str = "baco") -> float:
    """Predicted cycles of a call by which so many lines come from memory, on the core of one of `baco.accel.config.TIMINGS`.

    A variant that was never measured counts as the slowest one of its function. Raises KeyError for a function without any.
    """
    waiting = miss_cycles(timing) * misses
    if work.cycles is not None:
        return sum(work.cycles[name] * amount for name, amount in work.amounts.items()) + waiting
    variants = _constants()[timing]
    function = work.variant.split()[0]
    chosen = (
        [variants[work.variant]]
        if work.variant in variants
        else [values for name, values in variants.items() if name.split()[0] == function]
    )
    if not chosen:
        raise KeyError(work.variant)
    cycles = (
        sum(values.get(name, 0.0) * amount for name, amount in work.amounts.items()) for values in chosen
    )
    return max(cycles) + waiting
