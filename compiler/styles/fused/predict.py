"""Cycles, bytes and accesses of a chain of products as its schedule says, and the schedule that takes least."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.fused.chain import SOFTMAX_PARTS, ChainSchedule, ProductChain, place_chain

#: Cycles measured on our RTL and fitted to 382 runs on arrays of side 8, 16 and 32 (mean error 4%): of a step beside its passes, of
#: each change between operands that are stored transposed and not, of a store of rows beside its blocks, of a pass that the host
#: core writes, of a step that it begins, and more of a step whose strips are higher than the array, and not all of the same rows.
_STEP, _TURN, _STORE, _PASS, _STEP_HOST, _HIGH, _RAGGED = 32.0, 15.0, 48.0, 5.0, 145.0, 55.0, 137.0
#: The same where scores come in tiles: of a store of a tile beside its blocks, of changes of the store unit's function, and by how
#: much a softmax in the scratchpad takes longer than its rows, since the array reads there, too.
_COPY, _FUNCTION, _SHARED = 20.0, 50.0, 1.1
#: Blocks of scores of a tile: of fewer the array waits for the last tile's way to the scratchpad, which no prediction has (1.8 times the
#: cycles with one block, 32 x 32).
_SCORE_BLOCKS = range(4, 17)
#: Part of the loads of further weights that nothing hides where there is one copy.
_EXPOSED = 0.4
#: Schedules whose predicted cycles differ by less than so much are told apart by the bytes that they move.
ALIKE = 1.01
#: Passes of a store over the blocks of its rows, and cycles of the unit of quotients for a row.
_SOFTMAX_PASSES, _SOFTMAX_ROW = 3, 18
#: Strips of fewer rows than a fourth of the array's side are not looked at: most of the array would idle.
_LEAST_SHARE = 4
#: A softmax's table.
_TABLE_BYTES = 512


@dataclass(frozen=True)
class UnitCost:
    """Predicted cost of layers that run as one unit.

    Attributes:
        cycles: from the first command to the last result.
        read_bytes, written_bytes: of main memory.
        macs, stationary_words: multiplications, and weights that the array takes in.
        accumulator_words, scratchpad_bytes: accesses, both ways, whole rows each.
        softmax_elements: that go through the unit.
    """

    cycles: float
    read_bytes: float
    written_bytes: float
    macs: float
    stationary_words: float
    accumulator_words: float
    scratchpad_bytes: float
    softmax_elements: float


def predict_chain(chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator) -> UnitCost:
    """Of all groups. Raises InfeasibleError for a schedule that does not fit."""
    place_chain(chain, schedule, accelerator)
    if schedule.staged(chain):
        return _predict_staged(chain, schedule, accelerator)
    dim = accelerator.dim
    weights = schedule.copies[0]
    strips, tiles = math.ceil(chain.rows / schedule.rows), chain.between // schedule.columns
    steps = chain.groups * strips * tiles
    depth, ends = math.ceil(chain.depth / dim), math.ceil(chain.columns / dim)
    rows = min(schedule.rows, chain.rows)
    last = chain.rows - (strips - 1) * schedule.rows
    seen = schedule.seen(chain, dim)
    found = {blocks: _step(chain, schedule, accelerator, blocks) for blocks in set(seen)}
    step = found[seen[0]].cycles
    if len(found) > 1:
        step = sum(found[blocks].cycles * n for blocks, n in sorted(Counter(seen).items())) / strips
    begins, ended = found[seen[0]], found[seen[-1]]
    # blocks of columns that strips take, once, and as many times as they have rows
    blocks, row_blocks = sum(seen), sum(seen[:-1]) * rows + seen[-1] * last
    units = steps if schedule.weights == "tile" and tiles > 1 else chain.groups
    right = chain.depth * chain.between + chain.between * chain.columns  # of a group
    times = strips if units == steps else 1
    right_cycles = sum(_right_cycles(chain, accelerator))
    replaced = chain.groups * times * right_cycles
    memory = replaced
    memory += read_cycles(accelerator, chain.groups * chain.rows, chain.depth, chain.first.input.pitch)
    written = float(chain.groups * chain.rows * chain.columns)
    memory += written / bytes_per_cycle(accelerator)
    # the first strip and the first columns of weights; from then on the array works on what has come
    weights_begin = right_cycles * (1 if units == chain.groups else 1 / tiles)
    lead = read_cycles(accelerator, rows, chain.depth, chain.first.input.pitch)
    lead += read_cycles(accelerator, chain.depth, min(4 * dim, chain.between), chain.first.weight.pitch)
    begin = max(lead, weights_begin - (2 * begins.first + begins.second / 2))
    body = max(steps * step, memory - begin)
    if weights == 1 and units > 1:  # nothing comes while what it replaces is in use
        body = max(body, steps * step + _EXPOSED * (replaced - begin))
    end = ended.store + ended.second + rows * chain.columns / bytes_per_cycle(accelerator)
    latency = PROFILES[accelerator.timing].begin_and_end
    results, between = float(chain.groups * chain.rows), float(chain.groups * row_blocks * tiles * dim)
    looks = _SOFTMAX_PASSES if chain.softmax else 1
    stationary = chain.groups * tiles * blocks * (depth + ends) * dim * dim
    seen_columns = chain.rows * chain.between
    if chain.causal is not None:
        widths = [min(chain.between, one * dim) for one in seen]
        seen_columns = sum(widths[:-1]) * rows + widths[-1] * last
    return UnitCost(
        cycles=begin + body + end + latency,
        read_bytes=float(
            chain.groups * (times * right + chain.rows * chain.depth) + _TABLE_BYTES * chain.softmax
        ),
        written_bytes=written,
        macs=float(chain.groups * seen_columns * (chain.depth + chain.columns)),
        stationary_words=float(stationary),
        # the sums of results: written, but for the first time read before, and read once
        accumulator_words=between * (2 * depth - 1 + looks + 2 * ends),
        scratchpad_bytes=results * depth * dim
        + between * depth  # strips in, and to the array
        + between * (1 + ends)
        + stationary
        + float(chain.groups * times * right),
        softmax_elements=between if chain.softmax else 0.0,
    )


def _predict_staged(chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator) -> UnitCost:
    """As `predict_chain`, of scores that come in tiles: the array makes those of a strip while the store unit softmaxes the strip
    before, whose results follow."""
    dim = accelerator.dim
    depth, ends = math.ceil(chain.depth / dim), math.ceil(chain.columns / dim)
    blocks = schedule.columns // dim
    tiles = schedule.seen(chain, dim)
    strips = [min(schedule.rows, chain.rows - n * schedule.rows) for n in range(len(tiles))]
    load_first, load_second = (
        cycles * schedule.columns / chain.between for cycles in _right_cycles(chain, accelerator)
    )
    left = read_cycles(accelerator, schedule.rows, chain.depth, chain.first.input.pitch)
    rate = bytes_per_cycle(accelerator)
    turn = _TURN * (chain.first.weights_transposed != chain.second.weights_transposed)
    softmaxed = [
        _staged_softmax(rows, count * blocks, dim) for rows, count in zip(strips, tiles, strict=True)
    ]
    cycles = 0.0
    for n, (rows, count) in enumerate(zip(strips, tiles, strict=True)):
        chunks = math.ceil(rows / dim)
        passed = max(dim, rows) * blocks
        copied = count * (rows * blocks + chunks * _COPY)
        host = count * (blocks * chunks * depth * _PASS + _STEP_HOST)
        cycles += max(count * passed * depth, copied + softmaxed[n - 1], count * load_first + left, host)
        host += count * blocks * chunks * (ends - depth) * _PASS
        cycles += max(count * passed * ends, count * load_second + rows * chain.columns / rate, host)
        cycles += 2 * (_STEP + turn)
    begin = left + load_first
    end = softmaxed[-1] + schedule.rows * chain.columns / rate
    latency = PROFILES[accelerator.timing].begin_and_end
    between = float(chain.groups * schedule.columns * sum(a * b for a, b in zip(strips, tiles, strict=True)))
    taken = float(chain.groups * sum(tiles) * schedule.columns * (chain.depth + chain.columns))
    stationary = float(chain.groups * sum(tiles) * schedule.columns * (depth + ends) * dim)
    results = float(chain.groups * chain.rows)
    return UnitCost(
        cycles=begin + chain.groups * cycles + end + latency,
        read_bytes=taken + results * chain.depth + _TABLE_BYTES,
        written_bytes=results * chain.columns,
        macs=between * (chain.depth + chain.columns),
        stationary_words=stationary,
        accumulator_words=between * 2 * (depth + ends),
        # scores are written, and looked at in every pass
        scratchpad_bytes=results * depth * dim
        + between * (depth + 2 + _SOFTMAX_PASSES + ends)
        + stationary
        + taken,
        softmax_elements=between,
    )


def _staged_softmax(rows: int, blocks: int, dim: int) -> float:
    """Cycles in which so many rows are softmaxed from scratchpad to scratchpad."""
    pieces = math.ceil(rows / max(1, dim // SOFTMAX_PARTS))
    return _SHARED * _SOFTMAX_PASSES * rows * blocks + pieces * (_STORE + 2 * _SOFTMAX_ROW + _FUNCTION)


@dataclass(frozen=True)
class _StepCost:
    """Cycles of a step, and in it of the array for the first and for the second product, and of the store unit."""

    cycles: float
    first: float
    second: float
    store: float


def _step(chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator, columns: int) -> _StepCost:
    """Of a step with so many blocks of columns, the mean of a group's strips by their rows."""
    dim, sums = accelerator.dim, schedule.copies[1]
    strips, tiles = math.ceil(chain.rows / schedule.rows), chain.between // schedule.columns
    depth, ends = math.ceil(chain.depth / dim), math.ceil(chain.columns / dim)
    rows = min(schedule.rows, chain.rows)
    # rows of a strip, and how many strips of a group have them
    kinds = [(rows, strips - 1), (chain.rows - (strips - 1) * schedule.rows, 1)]
    blocks = columns * depth + ends * columns
    slices = math.ceil(
        dim / min(dim, accelerator.dma_bits // 8, accelerator.scale_lanes)
    )  # of a row, one a cycle
    store = sum(n * _store(chain, height, slices * columns, dim) for height, n in kinds) / strips
    height = sum(n * max(dim, one) for one, n in kinds) / strips
    first, second = columns * depth * height, ends * columns * height
    passes = blocks * sum(n * math.ceil(one / dim) for one, n in kinds) / strips
    array = max(first + second, store) if sums > 1 else first + max(second, store)
    # more stores than the reservation station takes keep the passes behind them waiting
    chunks = math.ceil(rows / dim)
    beyond = max(0, chunks - accelerator.store_entries) / chunks
    wide_ends = chunks * math.ceil(ends / 4)
    array += (
        beyond * store
        + max(0, wide_ends - accelerator.store_entries) * (rows * ends / wide_ends + _STORE) / tiles
    )
    turns = 2 * _TURN * (chain.first.weights_transposed != chain.second.weights_transposed)
    beside = _STEP + turns + _HIGH * (chunks > 1) + _RAGGED * (chain.rows % schedule.rows != 0)
    return _StepCost(max(array + beside, passes * _PASS + _STEP_HOST), first, second, store)


def _store(chain: ProductChain, rows: int, blocks: int, dim: int) -> float:
    """Cycles in which a strip's tile goes to the scratchpad."""
    chunks = math.ceil(rows / dim)
    if not chain.softmax:
        return rows * blocks + chunks * _STORE
    return _SOFTMAX_PASSES * rows * blocks + chunks * (_STORE + 2 * _SOFTMAX_ROW)


def _right_cycles(chain: ProductChain, accelerator: Accelerator) -> tuple[float, float]:
    """Cycles to load each of the right operands of a group."""

    def loaded(layer: Layer) -> float:
        shape = (layer.problem.C, layer.problem.K)
        rows, columns = shape[::-1] if layer.weights_transposed else shape
        return read_cycles(accelerator, rows, columns, layer.weight.pitch)

    return loaded(chain.first), loaded(chain.second)


def chain_schedules(
    chain: ProductChain, accelerator: Accelerator, blocks: int = 1
) -> Iterator[ChainSchedule]:
    """Schedules worth looking at on arrays of the accelerator's side, whether they fit its memories or not; of strips of whole
    `blocks` of so many rows."""
    dim = accelerator.dim
    most = math.ceil(chain.rows / dim)
    rows = sorted({min(2**n, most) * dim for n in range(most.bit_length() + 1)})
    if chain.softmax:
        rows = [*range(dim // _LEAST_SHARE, dim, 2), *rows]
    if blocks > 1:
        whole = math.lcm(blocks, dim)
        rows += [n * whole for n in (1, 2, 4, 8) if n * whole < chain.rows + whole]
        rows = sorted({one for one in rows if one % blocks == 0 or one >= chain.rows})
    columns = [chain.between]
    if chain.between % dim == 0:
        blocks = chain.between // dim
        sizes = _SCORE_BLOCKS if chain.softmax else range(1, blocks)
        columns += [n * dim for n in sizes if n < blocks and blocks % n == 0]
    for height, width, weights, *copies in itertools.product(
        rows, columns, ("group", "tile"), (2, 1), (2, 1), (2, 1)
    ):
        if weights == "tile" and width == chain.between:
            continue
        if copies[0] > 1 and weights == "group" and chain.groups == 1:
            continue
        if height < dim and copies[1] > 1:
            continue  # what room there is, more rows need
        if (
            chain.softmax
            and width < chain.between
            and (weights == "group" or height < dim or copies[:2] != [2, 2])
        ):
            continue  # `place_chain` refuses them
        yield ChainSchedule(height, width, weights, (copies[0], copies[1], copies[2]))  # type: ignore[arg-type]


def choose_chain(chain: ProductChain, accelerator: Accelerator, blocks: int = 1) -> ChainSchedule:
    """Of the schedules of about the fewest predicted cycles the one that reads least; `blocks` as of `chain_schedules`. Raises
    InfeasibleError where none fits."""
    found: list[tuple[UnitCost, ChainSchedule]] = []
    reason = ""
    for schedule in chain_schedules(chain, accelerator, blocks):
        try:
            found.append((predict_chain(chain, schedule, accelerator), schedule))
        except InfeasibleError as error:
            reason = error.message
    if not found:
        raise InfeasibleError(f"no tiles of the chain fit: {reason}")
    return found[preferred([cost for cost, _ in found])][1]


def preferred(costs: Sequence[UnitCost]) -> int:
    """Which of some schedules is taken: of those of about the fewest cycles the one that reads least."""
    fastest = min(cost.cycles for cost in costs)
    alike = [n for n, cost in enumerate(costs) if cost.cycles <= ALIKE * fastest]
    return min(alike, key=lambda n: (costs[n].read_bytes, costs[n].cycles))
