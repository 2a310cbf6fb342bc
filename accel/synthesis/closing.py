"""A clock as short as buffers, stronger cells and another mapping of the modules on the longest paths make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from baco.accel.synthesis.flat import Flat
from baco.accel.synthesis.liberty import Library
from baco.accel.synthesis.mapping import Mapped
from baco.accel.synthesis.sizing import resized
from baco.accel.synthesis.timing import Assumptions, Timing, analyse

#: Paths into modules, as long as this part of the worst one, that are mapped again together.
_LONG, _PATHS = 0.8, 30
#: Part of a path's delay from which on a module is worth mapping again.
_SHARE = 0.1
#: What another mapping should gain, in parts of the period: less is not worth its area.
_GAIN = 0.005


@dataclass(frozen=True)
class Closed:
    """A design at its clock: mapped, flat with buffers and strengths, timed; `fast`: keys of the modules mapped for short paths."""

    mapped: Mapped
    flat: Flat
    timing: Timing
    fast: frozenset[str]


def close(
    design: Callable[[Collection[str]], tuple[Mapped, Flat]],
    library: Library,
    assumed: Assumptions,
    progress: Callable[[str], None] = lambda text: None,
) -> Closed:
    """Shorten a design's clock until its worst path has nothing left to try.

    Modules that take much of long paths are mapped for short paths, buffers and strengths chosen anew, and the result is kept
    if the clock is shorter; where it is not, the modules on the worst path alone are tried.

    Args:
        design: mapped, and flat without buffers, with some modules mapped for short paths.
        progress: told what is being done.
    """
    best = _at(design, frozenset(), library, assumed)
    tried: set[frozenset[str]] = set()
    while True:
        for long in (_LONG, 1.0):
            names = _modules(best, long) - best.fast
            if names and names not in tried:
                break
        else:
            return best
        tried.add(names)
        progress(f"{best.timing.clock_mhz:.4g} MHz so far; mapping {len(names)} modules on long paths again")
        again = _at(design, best.fast | names, library, assumed)
        if again.timing.need_s < best.timing.need_s * (1 - _GAIN):
            best = again


def _at(
    design: Callable[[Collection[str]], tuple[Mapped, Flat]],
    fast: frozenset[str],
    library: Library,
    assumed: Assumptions,
) -> Closed:
    mapped, flat = design(fast)
    flat = resized(flat, library, assumed)
    return Closed(mapped, flat, analyse(flat, library, assumed, _PATHS), fast)


def _modules(found: Closed, long: float) -> frozenset[str]:
    """Keys of the modules that take a part of the paths worth telling, of those as long as a part of the worst one."""
    key_of = {id(module): key for key, module in found.mapped.modules.items()}
    result: set[str] = set()
    for path in found.timing.paths:
        if path.need_s < long * found.timing.need_s:
            continue
        taken: Counter[str] = Counter()
        before = 0.0
        for step in path.steps:
            if step.scope >= 0:
                taken[key_of[id(found.flat.modules[step.scope])]] += step.arrival_s - before
            before = step.arrival_s
        result |= {key for key, delay in taken.items() if delay >= _SHARE * path.need_s}
    return frozenset(result)
