"""A clock as short as buffers, stronger cells and another mapping of the modules on the longest paths make it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from baco.accel.synthesis.flat import Flat, Layout, flatten
from baco.accel.synthesis.liberty import Library, LibraryCell
from baco.accel.synthesis.mapping import Mapped, NetlistModule
from baco.accel.synthesis.sizing import resized
from baco.accel.synthesis.timing import Assumptions, Timing, timing

#: Paths into modules, as long as this part of the worst one, that are mapped again together.
_LONG, _PATHS = 0.8, 30
#: Part of a path's delay from which on a module is worth mapping again.
_SHARE = 0.1
#: What another mapping should gain, in parts of the period: less is not worth its area.
_GAIN = 0.005


@dataclass(frozen=True)
class Closed:
    """A design at its clock.

    Attributes:
        mapped: with the modules whose keys are in `fast` mapped for short paths.
        flat, timing: with buffers and strengths chosen.
        buffers, stronger: how many buffers were added, and how many cells have another strength than they were mapped to.
    """

    mapped: Mapped
    fast: frozenset[str]
    flat: Flat
    timing: Timing
    buffers: int
    stronger: int


def close(
    mapping: Callable[[Collection[str]], Mapped],
    cells: Mapping[str, LibraryCell],
    library: Library,
    assumed: Assumptions,
    progress: Callable[[str], None] = lambda text: None,
) -> Closed:
    """Shorten a design's clock until its long paths have nothing left to try.

    Modules that take much of long paths are mapped for short paths, buffers and strengths chosen anew, and the result is kept
    if the clock is shorter. Where it is not, those on long paths of that result are mapped so, too (behind a module that was mapped
    again signals may come later, and what was short beside it may be longest now), until the clock is shorter or nothing is left on
    the worst path; where this does not help, the same with the modules on worst paths alone.

    Args:
        mapping: maps the design, modules of given keys for short paths.
        cells: of the library and of the design's memories, by name.
        progress: told what is being done.

    Raises as `mapping`.
    """

    layouts: dict[int, tuple[NetlistModule, Layout]] = {}
    tried = {frozenset[str]()}

    def closed(fast: frozenset[str]) -> Closed:
        mapped = mapping(fast)
        before = flatten(mapped, cells, layouts)
        found = resized(before, library, assumed)
        after = found.graph.flat
        return Closed(
            mapped,
            fast,
            after,
            timing(found, assumed, _PATHS),
            after.nets - before.nets,
            _others(before, after, library),
        )

    def again(start: Closed, long: float, best: Closed) -> Closed | None:
        """A start with the modules on its long paths mapped again, too; None where that was tried, or leaves the worst path as it is."""
        fast = start.fast | _modules(start, long)
        if fast in tried or _modules(start, 1.0) <= start.fast:
            return None
        tried.add(fast)
        more = len(fast - best.fast)
        progress(f"{best.timing.clock_mhz:.4g} MHz so far, mapping {more} modules on long paths again")
        return closed(fast)

    def shorter(best: Closed) -> Closed | None:
        """What follows, where that is better."""
        for long in (_LONG, 1.0):
            made = again(best, long, best)
            while made:
                if _gains(made, best):
                    return made
                made = again(made, long, best)
        return None

    progress("choosing buffers and strengths of cells")
    best = closed(frozenset())
    while better := shorter(best):
        best = better
    return best


def _gains(found: Closed, best: Closed) -> bool:
    return found.timing.need_s < best.timing.need_s * (1 - _GAIN)


def _others(before: Flat, after: Flat, library: Library) -> int:
    """Cells that are of another strength: what each kind lost, buffers apart, which may be new."""
    buffers = {cell.name for cell in library.buffers()}
    return sum(
        max(0, len(one.nets) - (len(after.instances[name].nets) if name in after.instances else 0))
        for name, one in before.instances.items()
        if name not in buffers
    )


def _modules(found: Closed, long: float) -> frozenset[str]:
    """Keys of the modules that take a part of the paths worth telling, of those as long as a part of the worst one."""
    key_of = {id(module): key for key, module in found.mapped.modules.items()}
    result: set[str] = set()
    for path in found.timing.paths:
        if path.need_s < long * found.timing.need_s:
            continue
        taken: defaultdict[str, float] = defaultdict(float)
        before = 0.0
        for step in path.steps:
            if step.scope >= 0:
                taken[key_of[id(found.flat.modules[step.scope])]] += step.arrival_s - before
            before = step.arrival_s
        result |= {key for key, delay in taken.items() if delay >= _SHARE * path.need_s}
    return frozenset(result)
