"""Cycles of a tile tree on a machine that brings, computes and writes tiles as a pipeline.

Iterations of the innermost tiles of the on-chip memory are *passes*: what one needs of main memory is brought, the array
works through it, results are written back once nothing more is added to them. The three overlap as far as there is
room: a tile with n copies has the loads of n passes under way, loads are brought in the order of the passes, one array
computes one pass after the other. What a pass takes is

    words / reads_per_cycle + transfer_cycles     for each tensor brought
    temporal iterations + pass_cycles             on the array
    words / writes_per_cycle + transfer_cycles    for each block of results

Words are those of blocks where they stand, less what is still there of the block before (`Machine.reuses_blocks`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.machine import Machine
from baco.compiler.mapping.rows import row_problems
from baco.compiler.mapping.slices import LoopTrip, Placed, place, product
from baco.compiler.mapping.tree import Tile

#: Place of a block: iterations of the loops around it give its first element.
_Offset = tuple[int, ...]


@dataclass(frozen=True)
class PipelineRun:
    """What a run takes.

    Attributes:
        cycles: from the first load to the last result written.
        passes: by operator.
        array_cycles: of these, the array works.
        read_words, written_words: of main memory, elements.
    """

    cycles: float
    passes: dict[str, int]
    array_cycles: float
    read_words: int
    written_words: int


def run_pipeline(tree: Tile, operators: Sequence[Contraction], machine: Machine) -> PipelineRun:
    """Go through all passes of a tree; time grows with their number.

    Args and errors as `baco.compiler.mapping.slices.place`; also InputError for a machine without rates of its main memory, for
    a tree that cuts the rows of a softmax, for one whose tiles are to run at the same time (`Pipe`, `Para`, spatial loops over passes) on a machine with one array,
    and for one in which an operator has no tile on chip.
    """
    root = place(tree, operators)
    impossible, online = row_problems(root)
    for one in (*impossible, *online):
        raise InputError(f"passes of this tree are not known: {one}", hint="keep whole rows")
    return _Run(root, machine).run()


@dataclass
class _Held:
    """A tensor in the tile that keeps it: where its block is, the pass that last used each block, and its open sums."""

    keeper: Placed
    offset: _Offset | None = None
    ends: list[float] = field(default_factory=list)
    open: dict[_Offset, float] = field(default_factory=dict)


class _Run:
    def __init__(self, root: Placed, machine: Machine) -> None:
        self.root, self.machine = root, machine
        self.chip = len(machine.levels) - 2
        memory = machine.levels[-1]
        if memory.reads_per_cycle is None or memory.writes_per_cycle is None:
            raise InputError(f"machine '{machine.name}' says not how fast {memory.name} is read and written")
        self.reads, self.writes = memory.reads_per_cycle, memory.writes_per_cycle
        self.made = {one.output.operand for one in root.operators.values()}
        self.held: dict[tuple[int, str], _Held] = {}
        self.visits: dict[tuple[str, _Offset], int] = {}
        self.load_end = self.array_end = self.store_end = self.array_busy = 0.0
        self.words_in = self.words_out = 0
        self.passes = dict.fromkeys(root.extents, 0)

    def run(self) -> PipelineRun:
        for at, tile in self._walk(self.root, {}):
            self._pass(tile, at)
        for (_, tensor), held in self.held.items():
            self._flush(held, tensor)
        end = max(self.array_end, self.store_end) + 1
        return PipelineRun(end, self.passes, self.array_busy, self.words_in, self.words_out)

    def _walk(self, tile: Placed, at: dict[int, int]) -> Iterator[tuple[dict[int, int], Placed]]:
        """Passes in order, with the iteration of every loop around (by the loop's identity)."""
        on_chip = tile.tile.level <= self.chip
        if on_chip and not any(child.tile.level == self.chip for child in tile.children):
            if len(tile.extents) > 1:
                raise InputError("several operators lie in one tile of the array", hint="one tile for each")
            yield at, tile
            return
        if not tile.children:
            raise InputError(
                f"operator '{tile.tile.operator}' has no tile in {self.machine.levels[self.chip].name}"
            )
        parallel = tile.tile.relation in ("Pipe", "Para") or any(t.loop.spatial for t in tile.trips)
        if parallel and self.machine.arrays == 1:
            raise InputError(
                f"machine '{self.machine.name}' has one array: tiles of level {tile.tile.level} cannot run at the same time",
                hint="Seq or Shar",
            )
        if parallel:
            raise InputError("cycles of tiles that run at the same time are not known")
        for numbers in itertools.product(*(range(trip.factor) for trip in tile.trips)):
            inside = at | {id(trip): number for trip, number in zip(tile.trips, numbers, strict=True)}
            for child in tile.children:
                yield from self._walk(child, inside)

    def _pass(self, tile: Placed, at: dict[int, int]) -> None:
        ((name, operator),) = ((name, tile.operators[name]) for name in tile.extents)
        reads: list[_Held] = []
        for access in operator.inputs:
            if access.operand not in self.made:
                reads.append(self._bring(tile, access.operand, at))
        output = operator.output.operand
        stored = any(one.tensor == output for one in self.root.tile.keeps)
        sums = self._held(tile, output)
        piece = _offset(tile, output, at)
        if stored:
            self._open(sums, tile, output, piece, at)
        start = max(self.load_end, self.array_end)
        cycles = _steps(tile) + self.machine.pass_cycles
        self.array_end = start + cycles
        self.array_busy += cycles
        self.passes[name] += 1
        for held in reads:
            held.ends[-1] = self.array_end
        if stored:
            self.visits[output, piece] = self.visits.get((output, piece), 0) + 1
            sums.open[piece] = self.array_end
            if self.visits[output, piece] == _visits(tile, output):
                self._store(int(product(tile.block(output))), sums.open.pop(piece))

    def _held(self, tile: Placed, tensor: str) -> _Held:
        keepers = [
            one
            for one in (tile, *tile.around)
            if one.tile.level <= self.chip and any(kept.tensor == tensor for kept in one.tile.keeps)
        ]
        if not keepers:
            raise InputError(f"no tile of {self.machine.levels[self.chip].name} keeps {tensor}")
        keeper = keepers[-1]  # the outermost: what main memory serves
        return self.held.setdefault((id(keeper), tensor), _Held(keeper))

    def _bring(self, tile: Placed, tensor: str, at: dict[int, int]) -> _Held:
        """Load what the block of an input lacks, once the oldest copy is free."""
        held = self._held(tile, tensor)
        offset, block = _offset(held.keeper, tensor, at), [int(n) for n in held.keeper.block(tensor)]
        same = held.keeper is not tile or self.machine.reuses_blocks
        if same and held.offset == offset:
            return held
        words = product(block)
        if same and held.offset is not None:
            moved = zip(block, offset, held.offset, strict=True)
            words -= product([max(0, size - abs(now - then)) for size, now, then in moved])
        copies = next(one.copies for one in held.keeper.tile.keeps if one.tensor == tensor)
        free = held.ends[-copies] if len(held.ends) >= copies else 0.0
        self._load(words, free)
        held.offset = offset
        held.ends.append(0.0)
        return held

    def _open(self, sums: _Held, tile: Placed, tensor: str, piece: _Offset, at: dict[int, int]) -> None:
        """Have the sums of a pass on chip: others make room, and what was written before comes back."""
        offset = _offset(sums.keeper, tensor, at)
        if sums.offset != offset:
            self._flush(sums, tensor)
            sums.offset = offset
        if piece not in sums.open and self.visits.get((tensor, piece)):
            self._load(int(product(tile.block(tensor))), 0.0)

    def _flush(self, held: _Held, tensor: str) -> None:
        """Write all sums that are not complete."""
        tile = next((one for one in self.root.all if _is_pass_of(one, tensor, self.chip)), None)
        for ready in held.open.values():
            assert tile is not None
            self._store(int(product(tile.block(tensor))), ready)
        held.open.clear()

    def _load(self, words: int, free: float) -> None:
        self.load_end = max(self.load_end, free) + words / self.reads + self.machine.transfer_cycles
        self.words_in += words

    def _store(self, words: int, ready: float) -> None:
        self.store_end = max(self.store_end, ready) + words / self.writes + self.machine.transfer_cycles
        self.words_out += words


def _is_pass_of(tile: Placed, tensor: str, chip: int) -> bool:
    """Whether a tile's iterations are passes that make a tensor."""
    innermost = tile.tile.level == chip and not any(child.tile.level == chip for child in tile.children)
    return innermost and any(tile.operators[name].output.operand == tensor for name in tile.extents)


def _trips_around(tile: Placed) -> list[LoopTrip]:
    return [trip for one in tile.around for trip in one.trips]


def _offset(tile: Placed, tensor: str, at: dict[int, int]) -> _Offset:
    """First element of the tensor's block in a tile."""
    offset = [0] * len(tile.block(tensor))
    for trip in _trips_around(tile):
        step = tile.step(trip, tensor)
        offset = [old + at[id(trip)] * by for old, by in zip(offset, step, strict=True)]
    return tuple(offset)


def _visits(tile: Placed, tensor: str) -> int:
    """How many passes add to one block of a result."""
    return int(product([trip.factor for trip in _trips_around(tile) if not tile.moved_by(trip, tensor)]))


def _steps(tile: Placed) -> int:
    """Temporal iterations of one pass."""
    return int(product([trip.factor for one in tile.all for trip in one.trips if not trip.loop.spatial]))
