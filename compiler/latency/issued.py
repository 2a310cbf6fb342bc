"""Explicit code on the original, command by command: what waits for what, which the closed form of `baco.compiler.latency.model` cannot say.

Commands come to the reservation station in the program's order, so that one whose class has no free entry keeps all behind it waiting:
stores that wait for lines to be filled keep passes from the array, and with these the loads that would have filled the next block
meanwhile. So the first visits of a mapping are gone through in the order of the code (`baco.compiler.styles.explicit.code`): every
command is issued by the host core, finds an entry, waits for the commands whose rows it reads or overwrites, and is done when its unit
is. Sizes are those of `count_commands`; visits are alike but for the lines of the cache that their tiles are the first to touch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import torch
from torch import Tensor

from baco.accel.dataflows import RELEVANT
from baco.compiler.analysis.profile import TimingProfile
from baco.compiler.latency.commands import Commands
from baco.compiler.latency.issued_counts import CodeNumbers, TileMoves, code_totals
from baco.compiler.latency.issued_units import Units
from baco.compiler.latency.tiling import BatchTiling
from baco.compiler.styles.explicit.code import LOADS_TOGETHER, RESULTS_TOGETHER
from baco.compiler.styles.explicit.jobs import Turns

#: Commands that are gone through, about; of visits at least so many, and at most.
_COMMANDS, _FEWEST, _MOST = 2000, 4, 64
#: Shares of what the program costs the host core by itself: before everything, before loads, first passes, and the first store, where
#: code comes for the first time.
_FIRST_TIMES = (0.05, 0.3, 0.25, 0.2)
#: Cycles behind the last store.
_END = 20.0
#: A move of a job that is issued a few at a time: operand or copy, its number, and cycles of memory's refills.
_Move: TypeAlias = tuple[int, int, float]


def issued_cycles(
    t: BatchTiling, c: Commands, host: Dictionary[str, float], which: Tensor | None = None
) -> Tensor:
    """Cycles (B,) from the first command to the end of the last store; NaN for output-stationary code, and where sums go through main
    memory or results are pooled.

    Args:
        host: cycles by `HOST_FEATURES`.
        which: (B,) those that are asked for; of others NaN.
    """
    zero = torch.zeros_like(c.visits)
    covered = (t.weights_stay | (zero > 0)) & (c.sum_stores < 0.5) & (t.layer.pool_size < 0.5)
    if which is not None:
        covered &= which
    numbers, moves, loops = code_totals(t, c, host)
    cycles = torch.full_like(zero, math.nan)
    for at in covered.nonzero().flatten().tolist():
        program = _Program(numbers[at], [kind[at] for kind in moves], loops[at], t.hardware.profile)
        cycles[at] = program.cycles()
    return cycles


@lru_cache(maxsize=4096)
def _shares(
    pitch: int, width: int, piece: int, line: int, beat: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of the lines of many rows, and of their bytes in whole beats, the shares that each piece of the columns has, where all rows of a
    piece come before the next piece."""
    seen: set[int] = set()
    fresh, widths = [], []
    for begin in range(0, width, piece):
        size = min(piece, width - begin)
        touched = {
            number
            for row in range(line)
            for number in range((row * pitch + begin) // line, (row * pitch + begin + size - 1) // line + 1)
        }
        fresh.append(len(touched - seen))
        widths.append(-(-size // beat))
        seen |= touched
    return tuple(n / len(seen) for n in fresh), tuple(n / sum(widths) for n in widths)


@lru_cache(maxsize=65_536)
def _fresh(start: int, size: int, whole: int, step: int, line: int) -> float:
    """Share of the lines of rows of `whole` bytes, which begin at any multiple of `step`, that `size` bytes from `start` on are the first to
    touch."""

    def lines(width: int) -> int:
        return sum(-(-(begin + width) // line) for begin in range(0, line, step)) if width else 0

    return (lines(start + size) - lines(start)) / lines(whole)


@dataclass
class _Tile:
    """A copy of a tile: when its commands are done, those that bring it and those that read it, the first first."""

    brought: list[float]
    used: list[float]


class _Program:
    """The code of a mapping."""

    def __init__(
        self, n: CodeNumbers, moves: list[TileMoves], loops: list[tuple[str, int]], profile: TimingProfile
    ) -> None:
        self.n, self.profile, self.line = n, profile, round(profile.line_bytes)
        self.weights, self.inputs, self.opening, self.stores = moves
        inside = max(1, round(n.visits / n.blocks))
        self.loops = [("tiles", inside), *loops] if inside > 1 else loops
        self.visits = math.prod(count for _, count in self.loops)
        #: Visits of the outermost loop's first step.
        self.first = self.visits // self.loops[-1][1] if self.loops else 1
        self.counts = dict(loops)
        self._passes()
        self._pacing()
        self.parts = [
            self._parts(self.weights, n.block_k, n.bound_k),
            self._parts(self.inputs, n.block_c, n.bound_c),
        ]
        self.store_parts = self._parts(self.stores, n.tile_k * n.result_size, n.bound_k * n.result_size)

    def _passes(self) -> None:
        n, side = self.n, self.n.dim
        self.blocks = max(1, round(n.weight_blocks / n.visits))
        runs = max(1, round(n.runs / n.weight_blocks))
        each = max(1, round(n.passes / n.weight_blocks / runs))
        last = n.pixels / runs - side * (each - 1)
        rows = [side] * (each - 1) + [last] if last >= 1.0 else [n.pixels / runs / each] * each
        #: Rows of the passes of a block of weights.
        self.rows = rows * runs
        self.passes = self.blocks * len(self.rows)

    def _pacing(self) -> None:
        n = self.n
        beats = self.blocks if n.by_blocks else self.passes
        loads = [moves.count for moves in (self.weights, self.inputs) if moves.paced]
        steps = self.stores.count * (bool(self.stores.paced) + bool(self.opening.paced and n.opens_ahead))
        turns = (
            Turns([], max(loads, default=0), round(beats * n.visits / n.blocks), LOADS_TOGETHER),
            Turns([], steps, round(beats * n.visits / n.tiles), RESULTS_TOGETHER),
        )
        #: Beats from turn to turn and steps at a turn, of loads of blocks and of moves of results.
        self.run = [moves.run for moves in (self.weights, self.inputs, self.stores)]
        self.every, self.steps = [turn.every for turn in turns], [turn.count for turn in turns]

    def _parts(self, moves: TileMoves, block: float, bound: float) -> list[tuple[float, float]]:
        """Shares of the lines and of the port's cycles that each command of a tile has."""
        count = moves.count
        width = max(1, round(min(block, bound)))
        lines, port = _shares(
            round(moves.pitch), width, max(1, round(moves.width)), self.line, round(self.n.beat)
        )
        of = [at * len(lines) // count for at in range(count)]
        return [(lines[part] / of.count(part), port[part] / of.count(part)) for part in of]

    # ---------------------------------------------------------------- visits

    def cycles(self) -> float:
        """Of all visits: of many, only some of the outermost loop's first step and of its others."""
        moves = (self.weights, self.inputs, self.opening, self.stores)
        each = 2 * self.passes + sum(one.commands for one in moves) / self.n.visits
        most = min(_MOST, max(_FEWEST, round(_COMMANDS / each)))
        if self.visits <= most:
            return self._through(range(self.visits))[-1] + _END
        half = most // 2
        if self.first <= half:
            sent = self._through(range(most))
            return sent[-1] + (self.visits - most) * self._pace(sent[self.first : -1]) + _END
        sent = self._through([*range(half), *range(self.first, self.first + half)])
        paces = self._pace(sent[:half]), self._pace(sent[half:-1])
        rest = self.first - half, self.visits - self.first - half
        return sent[-1] + sum(map(float.__mul__, paces, map(float, rest))) + _END

    def _pace(self, sent: list[float]) -> float:
        """Cycles of a visit, of whole rounds of the inner loops where there are some, without the first half."""
        count = len(sent) // 2
        rounds = 1
        for _, steps in self.loops:
            rounds *= steps
            if 1 < rounds < len(sent):
                count = max(rounds, count // rounds * rounds)
        return (sent[-1] - sent[-1 - count]) / count

    def _at(self, visit: int) -> dict[str, int]:
        """Place of a visit in the loops."""
        at = {}
        for name, count in self.loops:
            visit, at[name] = divmod(visit, count)
        return at

    def _through(self, visits: range | list[int]) -> list[float]:
        """When the last command of each visit came to the reservation station, and at last when all is done."""
        n, units = self.n, Units(self.n, self.profile)
        self.units = units
        self.tiles = [
            [_Tile([0.0] * m.count, [0.0] * self.blocks) for _ in range(2)]
            for m in (self.weights, self.inputs)
        ]
        results = [_Tile([], [0.0] * max(1, self.stores.count)) for _ in range(2)]
        self.results, self.written = results, [[0.0] * self.blocks for _ in range(2)]
        self.copy = [0, 0, 0]
        self.loading: list[list[_Move]] = [[], []]
        self.leaving: list[_Move] = []
        self.opening_steps: list[_Move] = []
        before, begin, passing, storing = (share * n.host_program for share in _FIRST_TIMES)
        units.host += before + begin
        first, both = self._at(visits[0]), (self.weights, self.inputs)
        changing = [self._changes(operand, set(self.counts)) for operand in (0, 1)]
        for which in (1, 0):
            if both[which].ahead or not changing[which]:
                self._load(which, self.copy[which], self._filling(which, first, 0))
        if n.opens_ahead:
            self._open(0)
        due, sent = [True, True, True], []
        units.host += passing
        for visit in visits:
            at = self._at(visit)
            after = self._at(visit + 1) if visit + 1 < self.visits else {}
            changed = {name for name in after if after[name] != at[name]}
            changes = [self._changes(which, changed) for which in (0, 1, 2)]
            self._begin(visit, at, after, due, changes, changing)
            self._multiply(due[2])
            if changes[2] or not after:
                self._finish(self.leaving, self._store)
                if storing:
                    units.host, storing = units.host + storing, 0.0
                steps = [
                    (self.copy[2], step, self._filling(2, at, visit)) for step in range(self.stores.count)
                ]
                self.leaving = steps
                if not (self.stores.ahead and self.stores.paced and after):
                    self._finish(self.leaving, self._store)
            for which, moves in enumerate((self.weights, self.inputs, self.stores)):
                self.copy[which] ^= changes[which] and moves.ahead
            due = changes
            sent.append(units.sent)
        self._finish(self.leaving, self._store)
        return [*sent, units.end]

    def _changes(self, which: int, changed: set[str]) -> bool:
        """Whether weights, inputs or results are others where some loops go on."""
        names = {*RELEVANT["WIO"[which]], "groups", *(("tiles",) if which == 2 else ())}
        return bool(changed & names)

    def _filling(self, which: int, at: dict[str, int], visit: int) -> float:
        """Cycles in which memory fills lines for the weights, inputs or results of a visit."""
        n = self.n
        moves = (self.weights, self.inputs, self.stores)[which]
        if not moves.fresh:
            return 0.0
        name, block, bound = (
            ("K", n.block_k, n.bound_k),
            ("C", n.block_c, n.bound_c),
            ("K", n.block_k, n.bound_k),
        )[which]
        element = n.result_size if which == 2 else 1.0
        steps = self.counts.get(name, 1)
        size, whole, step = round(block * element), round(bound * element), max(1, round(moves.step))
        start = at.get(name, 0) * size
        if visit >= self.first and self.loops and self.loops[-1][0] == name and start and self.first > 1:
            # of the outermost loop only a few steps are gone through, which stand for all but the first
            share = (1.0 - _fresh(0, size, whole, step, self.line)) / (steps - 1)
        else:
            share = _fresh(start, min(size, whole - start), whole, step, self.line)
        if which == 2:
            return moves.fresh * share * steps / n.tiles + moves.lost / n.tiles
        others = math.prod(
            count for d, count in self.counts.items() if d in RELEVANT["WI"[which]] and d != name
        )
        comes_again = any(
            place for d, place in at.items() if d not in (*RELEVANT["WI"[which]], "groups", "tiles")
        )
        return moves.fresh / n.groups / others * share * (moves.again if comes_again else 1.0)

    # ---------------------------------------------------------------- what a visit issues

    def _begin(
        self,
        visit: int,
        at: dict[str, int],
        after: dict[str, int],
        due: list[bool],
        changes: list[bool],
        changing: list[bool],
    ) -> None:
        """What comes before the passes of a visit: what was not loaded ahead, what is loaded ahead, and what the tile opens with."""
        n, units, both = self.n, self.units, (self.weights, self.inputs)
        fill = n.host_fills / (self.weights.fills + self.inputs.fills)
        for which in (0, 1):
            self._finish(self.loading[which], self._step)
        for which in (1, 0):
            if due[which] and changing[which] and not both[which].ahead:
                units.host += fill
                self._load(which, 0, self._filling(which, at, visit))
        for which in (1, 0):
            if changes[which] and both[which].ahead:
                units.host += fill
                filling = self._filling(which, after, visit + 1)
                if both[which].paced:
                    self.loading[which] = [(which, step, filling) for step in range(both[which].count)]
                else:
                    self._load(which, 1 - self.copy[which], filling)
        units.host += n.host_visits / n.visits
        if n.opens_ahead:
            self._finish(self.opening_steps, self._opened)
            if changes[2]:
                if self.opening.paced:
                    self.opening_steps = [(1 - self.copy[2], step, 0.0) for step in range(self.opening.count)]
                else:
                    self._open(1 - self.copy[2])
        elif due[2]:
            self._open(self.copy[2])

    def _multiply(self, fresh: bool) -> None:
        """The passes of a visit, and what goes between them. `fresh`: the tile begins with it."""
        n, units, each = self.n, self.units, len(self.rows)
        w, i, result = self.tiles[0][self.copy[0]], self.tiles[1][self.copy[1]], self.results[self.copy[2]]
        column = max(1, round(self.blocks / max(1.0, n.columns)))
        host = n.host_passes / n.visits / self.passes
        heard = 0
        for block in range(self.blocks):
            weights = _at_share(w.brought, block + 1, self.blocks)
            for number, rows in enumerate(self.rows):
                through = (block % column) * each + number + 1
                inputs = i.brought[-1] if block >= column else _at_share(i.brought, through, column * each)
                sums = 0.0
                if fresh and block % column == 0:
                    # what the tile begins with, and what is stored of the one before
                    done, whole = block // column * each + number + 1, self.blocks // column * each
                    sums = max(_at_share(result.brought, done, whole), _at_share(result.used, done, whole))
                done_at = units.multiply(host, rows, None if number else weights, inputs, sums)
                if n.by_blocks and number + 1 < each:
                    continue
                heard += 1
                if heard % self.every[0] == 0:
                    for which in (0, 1):
                        self._turn(self.loading[which], self.steps[0], self.run[which], self._step)
                if heard % self.every[1] == 0:
                    self._turn(self.leaving, self.steps[1], self.run[2], self._store)
                    if not self.leaving:
                        self._turn(self.opening_steps, self.steps[1], self.run[2], self._opened)
            w.used[block] = i.used[block] = self.written[self.copy[2]][block] = done_at

    def _turn(self, steps: list[_Move], count: int, run: int, step: Callable[..., None]) -> None:
        """Steps of a job whose turn it is: a few times as many as a run has at most (`baco.compiler.styles.explicit.jobs`)."""
        if not steps:
            return
        most = max(1, min(count, run))
        for _ in range(-(-count // most)):
            for _ in range(most):
                if not steps:
                    return
                taken = steps.pop(0)
                step(*taken)
                if (taken[1] + 1) % run == 0:
                    break

    def _finish(self, steps: list[_Move], step: Callable[..., None]) -> None:
        """All that are left."""
        while steps:
            step(*steps.pop(0))

    def _load(self, which: int, copy: int, filling: float) -> None:
        """All loads of a block."""
        moves = (self.weights, self.inputs)[which]
        for step in range(moves.count):
            self._load_step(which, copy, step, filling)

    def _step(self, which: int, step: int, filling: float) -> None:
        """A load of the next block."""
        self._load_step(which, 1 - self.copy[which], step, filling)

    def _load_step(self, which: int, copy: int, step: int, filling: float) -> None:
        moves, tile = (self.weights, self.inputs)[which], self.tiles[which][copy]
        lines, port = self.parts[which][step]
        # weights are overwritten as passes are done with them, inputs when all are
        after = _at_share(tile.used, step + 1, moves.count) if which == 0 else tile.used[-1]
        busy = max(moves.port * port, moves.rows / moves.count) / moves.fills
        host = moves.host / moves.commands
        tile.brought[step] = self.units.load(host, busy, filling * lines, after)

    def _open(self, copy: int) -> None:
        self.results[copy].brought = []
        for step in range(self.opening.count):
            self._opened(copy, step, 0.0)

    def _opened(self, copy: int, step: int, _: float) -> None:
        """A load of what a tile begins with."""
        moves, tile = self.opening, self.results[copy]
        if step == 0:
            tile.brought = []
        host, busy, filling = (
            total / moves.commands for total in (moves.host, max(moves.port, moves.rows), moves.fresh)
        )
        after = _at_share(tile.used, step + 1, moves.count)
        tile.brought.append(self.units.load(host, busy, filling, after))

    def _store(self, copy: int, step: int, filling: float) -> None:
        moves = self.stores
        after = _at_share(self.written[copy], step + 1, moves.count)
        host, port, rows = (total / moves.commands for total in (moves.host, moves.port, moves.rows))
        lines, _ = self.store_parts[step]
        self.results[copy].used[step] = self.units.store(host, port, rows, filling * lines, after)


def _at_share(times: list[float], step: int, steps: int) -> float:
    """Of some times in order, that of the last which the first `step` of `steps` have to do with; 0 if there are none."""
    return times[min(len(times), -(-step * len(times) // steps)) - 1] if times else 0.0
