"""What the loop macros have in common: mappings in macro form, and room for two tiles.

A mapping has *macro form* when the loop macros do what it says: weights are stationary, one tile in the scratchpad is
one tile in the accumulator (every factor of level 2 is 1), its pixels run at level 0 and its window, depth and blocks
of columns at level 1, the array is spread as the macros spread it, every tile has a second copy, and the loops that sum
run inside all others over main memory (products may keep partial sums there instead). Such mappings become runs of
LOOP_WS (products) or LOOP_CONV_WS (the rest).

What a mapping does not say, the macros' fastest way decides: operands that the loop order lets stay do stay in the
scratchpad, first layers pack pixels, windows of one pixel and stride 2 are downsampled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from baco.accel.config import Accelerator, memory_rows
from baco.accel.dataflows import MACRO_DATAFLOW
from baco.common.errors import InfeasibleError
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.schedules.style import LayerPlan, Style
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.macros.reuse import plan_reuse
from baco.workloads.problem import DIMS

#: The macros have two slots, each in a half of the memories.
SLOTS = 2
PIXELS, REDUCTION = "PQN", "RSC"
#: Order at the inner levels: sums stay in the accumulator as long as they can, and K is outermost as in the macros.
_INNER = "RSCPQNK"
MacroSchedule = TypeVar("MacroSchedule", bound=Schedule)


def macro_plan(
    accelerator: Accelerator,
    rows: tuple[int, int, int],
    lanes: tuple[int, int],
    emit: Callable[[Emitter, Operands], None],
    workspaces: tuple[tuple[str, int], ...] = (),
) -> LayerPlan:
    """Runs of a macro whose tiles take so many rows of the local memories for weights, inputs and results.

    The macros place tiles in halves of whatever memory there is: the least hardware is the smallest power of two below the
    accelerator's capacity that still holds the tiles, in KiB steps.
    """
    weights, inputs, results = rows
    a = accelerator
    requirement = {
        "dim": a.dim,
        "scratchpad_rows": _least(weights + inputs, a.scratchpad_kib, a.dim * a.input_bits),
        "accumulator_rows": _least(results, a.accumulator_kib, a.dim * a.accumulator_bits),
    }
    return LayerPlan(
        ((weights, SLOTS), (inputs, SLOTS), (results, SLOTS)), lanes, requirement, workspaces, emit
    )


def _least(tile: int, kib: int, row_bits: int) -> int:
    """Rows of a memory that has been halved as often as its slots have room for a tile of so many rows."""
    while kib > 1 and memory_rows(kib // 2, row_bits) // SLOTS >= tile:
        kib //= 2
    return memory_rows(kib, row_bits)


class MacroStyle(Style[MacroSchedule]):
    """Runs of one of the macros: mappings in macro form, where halves of the local memories hold the tiles."""

    def recognise(self, layer: Layer, mapping: Mapping, accelerator: Accelerator) -> MacroSchedule | None:
        schedule = self.form(layer, mapping, accelerator)
        if schedule is not None:
            try:
                self.plan(layer, schedule, accelerator)
            except InfeasibleError:
                return None
        return schedule

    def form(self, layer: Layer, mapping: Mapping, accelerator: Accelerator) -> MacroSchedule | None:
        """The schedule that a mapping stands for; None if it has no macro form.

        Only shapes are looked at: whether the accelerator has the macro, and room for the tiles, is not. Tiles of a
        product are whole blocks of the array's side: parts of blocks are rounded up, which never makes more tiles.
        """
        tile = _tile(layer, mapping, accelerator.dim)
        if tile is None:
            return None
        bounds = dict(zip(DIMS, layer.problem.bounds, strict=True))
        busy = [name for name in reversed(mapping.order[3]) if -(-bounds[name] // tile[name]) > 1]
        return self._of_tile(layer, mapping, tile, busy, accelerator)

    @abstractmethod
    def _of_tile(
        self, layer: Layer, mapping: Mapping, tile: dict[str, int], busy: list[str], accelerator: Accelerator
    ) -> MacroSchedule | None:
        """The schedule with a tile of so many elements by dimension; None if the macro cannot run over tiles like that.

        Args:
            busy: the loops over tiles that run more than once, outermost first.
        """


def _tile(layer: Layer, mapping: Mapping, dim: int) -> dict[str, int] | None:
    """The tile of a mapping that the macros' slots can have; None if they can have none."""
    if mapping.dataflow != MACRO_DATAFLOW or mapping.buffering != (2, 2, 2):
        return None
    if any(factor > 1 for factor in mapping.temporal[2]):
        return None
    if any(mapping.factor(name, 1) > 1 for name in PIXELS):
        return None
    bounds = dict(zip(DIMS, layer.problem.bounds, strict=True))
    tile = {name: min(extent, bounds[name]) for name, extent in mapping.tile(2).items()}
    for name, side in (("C", mapping.rows), ("K", mapping.columns)):
        if side > dim or mapping.factor(name, 1) > -(-tile[name] // dim):
            return None
    return tile


def kept(loops: list[Trip], relevant: str, others: str) -> bool:
    """Whether an operand that the axes `relevant` choose serves several runs of the loops `others`."""
    counts = {trip.name: trip.count for trip in loops}
    return any(counts[axis] > 1 for axis in others) and plan_reuse(loops, relevant) is not None


def mapping_of_tiles(
    rows: int,
    columns: int,
    pixels: dict[str, int],
    blocks: dict[str, int],
    trips: dict[str, int],
    order: str,
) -> Mapping:
    """A mapping in macro form: pixels of a tile at level 0, its blocks at level 1, tiles at level 3."""
    temporal = tuple(
        tuple(level.get(name, 1) for name in DIMS) for level in (pixels, blocks, dict[str, int](), trips)
    )
    return Mapping(MACRO_DATAFLOW, rows, columns, temporal, (_INNER, _INNER, _INNER, order), (2, 2, 2))
