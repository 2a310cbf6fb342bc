"""Which schedule a layer gets: the least estimated cycles over the styles and all their tilings."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.choice.equal_parts import equal_parts
from baco.compiler.choice.explicit import explicit_mappings
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.choice.neighbours import MacroSchedule, climb
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import (
    DepthwiseSchedule,
    ExplicitSchedule,
    LoopConvSchedule,
    LoopWsSchedule,
    Schedule,
)
from baco.compiler.styles.macros.cycles import MacroCycles
from baco.compiler.styles.macros.estimate import (
    commands_share,
    conv_cycles,
    expansion_cycles,
    macro_choice_cycles,
    product_cycles,
)
from baco.compiler.styles.macros.loop_conv_check import AXES, downsamples, plan_loop_conv
from baco.compiler.styles.macros.loop_conv_style import packed_pixels
from baco.compiler.styles.macros.loop_ws import check_loop_ws
from baco.compiler.styles.packed import packed_layer
from baco.compiler.styles.registry import plan_layer

Integers = NDArray[np.int64]
#: Tilings of a convolution that are looked at; beyond that the longest axes are thinned out.
_MOST_TILINGS = 200_000
#: Whole passes of rows that are longer are not listed one by one.
_MOST_COLUMNS = 1 << 16
#: Share by which estimates of tilings have to differ to mean something, and share of bytes that is worth further runs of a macro.
_ALIKE, _WORTH = 0.01, 0.2
#: Tilings of a macro whose runs are looked at one by one.
LOOKED_AT = 48
#: The fastest of them, commands of whose runs are looked at one by one.
_BY_COMMANDS = 8
#: Runs of the original's loop macros that are this many times shorter than the memories allow begin sooner and leave the array
#: waiting less at the end.
_SHARES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
#: Explicit code is chosen where it is predicted to be faster than a macro by this factor: its predictions are right to a
#: tenth, those of macros to a hundredth.
DOUBT = 1.1
#: The same by a timing whose macros' runs wait: of 90 layers by the model of the original, 1.2 loses least.
_DOUBT_WHERE_RUNS_WAIT = 1.2
#: The smallest tile of a convolution: if not even that can be done, none can.
_ONE_RESULT = LoopConvSchedule(1, 1, 1, 1, 1, 1, 1)
#: By so much another schedule has to be predicted to be faster than Gemmini's default tiling: cycles, and a share of them, single
#: commands more, since of 374 published operators they won twice by less than this, and lost on the RTL.
_AHEAD_CYCLES, _AHEAD, _AHEAD_EXPLICIT = 20.0, 0.01, 0.05


#: Code styles: explicit moves and products, the loop macros, or whichever is faster.
AllowedStyles = Literal["auto", "explicit", "macro"]


#: Rows, columns and depth of a product's blocks, in elements.
Blocks: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class ScheduleChoice:
    """A schedule, the cycles it is estimated to take, and the bytes that it moves to and from main memory, if it is a macro's."""

    schedule: Schedule
    cycles: float
    bytes: float | None = None


def choose(
    layer: Layer, accelerator: Accelerator, *, style: AllowedStyles = "auto", blocks: Blocks | None = None
) -> Schedule:
    """The schedule with the least estimated cycles. Raises InfeasibleError when no style asked for can do the layer."""
    found = choices(layer, accelerator, style=style, blocks=blocks)
    if not found and blocks is not None:
        raise InfeasibleError(
            f"no tile of {accelerator.name} is made of whole blocks of {' x '.join(map(str, blocks))}",
            hint="take smaller blocks",
        )
    if not found:
        reasons = "; ".join(_reasons(layer, accelerator))
        what = "no code style can" if style == "auto" else f"the style '{style}' cannot"
        raise InfeasibleError(f"{what} compute {layer.problem} on {accelerator.name}: {reasons}")
    return found[0].schedule


def choices(
    layer: Layer,
    accelerator: Accelerator,
    best: int = 1,
    style: AllowedStyles = "auto",
    blocks: Blocks | None = None,
    *,
    climbing: bool = False,
) -> list[ScheduleChoice]:
    """Up to `best` schedules of every way to write code in a style, the fastest by estimate first, explicit code with some
    doubt; but Gemmini's default tiling stands before those that are hardly faster.

    Args:
        blocks: of a product: tiles are to be made of whole blocks of so many rows, columns and depth.
        climbing: where a timing's macro runs wait, look at shorter runs, and at what differs a little from the fastest: estimates that
            pick among so many are often too low, so that this is for who measures.
    """
    candidates: list[ScheduleChoice] = []
    defaults: list[ScheduleChoice] = []
    waits = PROFILES[accelerator.timing].runs_wait
    if style != "explicit":
        several = max(best, _BY_COMMANDS) if waits else best
        found = [_products(layer, accelerator, several, blocks, climbing=climbing)]
        if blocks is None:
            found += [
                _convolutions(layer, accelerator, several, climbing=climbing),
                _default(layer, accelerator),
            ]
        if waits:
            found = _by_commands(layer, accelerator, found)
        candidates += [choice for choices_of in found[:2] for choice in choices_of[:best]]
        defaults = [choice for choices_of in found[2:] for choice in choices_of]
    if style != "macro":
        candidates += _explicit(layer, accelerator, best, blocks)
        if blocks is None:
            candidates += _packed(layer, accelerator, best)
    doubt = _DOUBT_WHERE_RUNS_WAIT if waits else DOUBT
    candidates = sorted([*candidates, *defaults], key=lambda one: _doubted(one, doubt))
    default = min(defaults, key=lambda one: one.cycles, default=None)
    if default is not None and not _ahead(candidates[0], default, doubt):
        candidates.remove(default)
        candidates.insert(0, default)
    return candidates


def _ahead(one: ScheduleChoice, default: ScheduleChoice, doubt: float) -> bool:
    """Whether a schedule is predicted to be faster than the default tiling by as much as predictions can tell, or as fast with
    clearly fewer bytes."""
    if one.bytes is not None and default.bytes is not None and one.bytes * (1.0 + _WORTH) < default.bytes:
        return one.cycles <= default.cycles
    share = _AHEAD_EXPLICIT if _is_explicit(one) else _AHEAD
    return _doubted(one, doubt) * (1.0 + share) + _AHEAD_CYCLES < default.cycles


def _is_explicit(one: ScheduleChoice) -> bool:
    return not one.schedule.by_macros


def _doubted(one: ScheduleChoice, doubt: float) -> float:
    return one.cycles * (doubt if _is_explicit(one) else 1.0)


def _reasons(layer: Layer, accelerator: Accelerator) -> list[str]:
    """Why each style cannot do the layer."""
    mappings = [mapping for _, mapping in itertools.islice(explicit_mappings(layer, accelerator), 1)]
    reasons = [] if mappings else ["not even the smallest tile of explicit moves fits"]
    smallest = [LoopWsSchedule(1, 1, 1), _ONE_RESULT, *(ExplicitSchedule(mapping) for mapping in mappings)]
    for schedule in smallest:
        try:
            plan_layer(layer, schedule, accelerator)
        except InfeasibleError as error:
            reasons.append(error.message)
    return list(dict.fromkeys(reasons))


def _by_commands(
    layer: Layer, accelerator: Accelerator, found: Sequence[list[ScheduleChoice]]
) -> list[list[ScheduleChoice]]:
    """The same, each sorted, with cycles by the commands of runs one by one, unless those of one are too many to be looked at."""
    closer: list[list[ScheduleChoice]] = []
    for choices_of in found:
        closer.append([])
        for choice in choices_of:
            assert isinstance(choice.schedule, LoopWsSchedule | LoopConvSchedule)
            share = commands_share(layer, choice.schedule, accelerator)
            if share is None:
                return list(found)
            closer[-1].append(replace(choice, cycles=choice.cycles * share))
    return [sorted(choices_of, key=lambda choice: choice.cycles) for choices_of in closer]


def _default(layer: Layer, accelerator: Accelerator) -> list[ScheduleChoice]:
    """Gemmini's default tilings, which can be among those that the quick estimate leaves out."""
    found = []
    for schedule in gemmini_paths(layer, accelerator):
        with contextlib.suppress(InfeasibleError):
            cost = macro_choice_cycles(layer, schedule, accelerator)
            found.append(ScheduleChoice(schedule, float(cost.total), float(cost.bytes)))
    return found


# -------------------------------------------------------------------- explicit moves


def _explicit(
    layer: Layer, accelerator: Accelerator, best: int, blocks: Blocks | None = None
) -> list[ScheduleChoice]:
    mappings = explicit_mappings(layer, accelerator, blocks)
    options = ((cycles, ExplicitSchedule(mapping)) for cycles, mapping in mappings)
    return carried_out(layer, accelerator, best, options)


def _packed(layer: Layer, accelerator: Accelerator, best: int) -> list[ScheduleChoice]:
    """Groups that share a pass; the host writes their expanded weights first."""
    p = layer.problem
    most = min(p.groups, accelerator.dim // max(p.C, p.K))
    carried: list[ScheduleChoice] = []
    # few pixels do not pay for the expansion of large matrices
    for packed in sorted({most, *(1 << n for n in range(1, most.bit_length()))} - {0, 1}):
        try:
            mappings = explicit_mappings(packed_layer(layer, packed), accelerator)
        except InfeasibleError:
            continue
        before = expansion_cycles(layer, packed)
        options = ((cycles + before, DepthwiseSchedule(mapping, packed)) for cycles, mapping in mappings)
        carried += carried_out(layer, accelerator, best, options)
    return sorted(carried, key=lambda choice: choice.cycles)[:best]


def carried_out(
    layer: Layer, accelerator: Accelerator, best: int, options: Iterable[tuple[float, Schedule]]
) -> list[ScheduleChoice]:
    """The first `best` schedules, with their cycles, that the accelerator carries out: what their code needs beyond
    `baco.compiler.mapping.nest.requirement` is not looked at before."""
    carried: list[ScheduleChoice] = []
    for cycles, schedule in options:
        try:
            plan_layer(layer, schedule, accelerator)
        except InfeasibleError:
            continue
        carried.append(ScheduleChoice(schedule, cycles))
        if len(carried) == best:
            break
    return carried


# -------------------------------------------------------------------- LOOP_WS


def _products(
    layer: Layer,
    accelerator: Accelerator,
    best: int,
    made_of: Blocks | None = None,
    *,
    climbing: bool = False,
) -> list[ScheduleChoice]:
    try:
        product = check_loop_ws(layer, LoopWsSchedule(1, 1, 1, keep_a=False), accelerator)
    except InfeasibleError:
        return []
    blocks, dim = product.blocks(accelerator.dim), accelerator.dim
    half_sp, half_acc = accelerator.scratchpad_rows // 2 // dim, accelerator.accumulator_rows // 2 // dim
    # blocks of the array's side that tiles grow by
    each = [math.lcm(size, dim) // dim for size in made_of] if made_of else [1, 1, 1]
    sizes = [np.minimum(_tiles(-(-n // by)) * by, n) for n, by in zip(blocks[:2], each[:2], strict=True)]
    i, j = (grid.ravel() for grid in np.meshgrid(*sizes, indexing="ij"))
    deepest = half_sp // (i + j)
    deepest = np.where(deepest < blocks[2], deepest // each[2] * each[2], blocks[2])
    fits = (i * j <= half_acc) & (deepest > 0)
    if not fits.any():
        return []
    # depth: as much as fits, the equal parts that this makes, and shares of these where short runs are worth a look
    i, j, most = i[fits], j[fits], deepest[fits]
    equal = -(-blocks[2] // -(-blocks[2] // most))
    depths = [most, equal]
    if climbing and PROFILES[accelerator.timing].runs_wait:
        depths += [-(-equal // parts) for parts in _SHARES]
    k = np.concatenate([most, *(np.minimum(-(-one // each[2]) * each[2], blocks[2]) for one in depths[1:])])
    i, j = np.tile(i, len(depths)), np.tile(j, len(depths))
    trips_i, trips_j, trips_k = (-(-whole // part) for whole, part in zip(blocks, (i, j, k), strict=True))
    orders, costs, kept = ("ijk", "jik"), [], []
    for order in orders:
        near_a, near_b = (trips_k, trips_j * trips_k) if order == "ijk" else (trips_i * trips_k, trips_k)
        kept.append(((near_a <= 2) & (trips_j > 1), (near_b <= 2) & (trips_i > 1)))
        costs.append(product_cycles(layer, accelerator, product, (i, j, k), order, kept[-1]))
    found = []
    for which, n in _tilings(costs, trips_i * trips_j * trips_k, accelerator):
        keep_a, keep_b = (bool(keep[n]) for keep in kept[which])
        schedule = LoopWsSchedule(int(i[n]), int(j[n]), int(k[n]), orders[which], keep_a, keep_b)
        found.append(_estimated(schedule, costs[which], n))
        if len(found) == _looked_at(accelerator, best):
            break
    return _closer(layer, accelerator, found, climbing=climbing)[:best]


def _looked_at(accelerator: Accelerator, best: int) -> int:
    """How many of the fastest tilings by the quick estimate are looked at, where the best so many are wanted."""
    return max(best, LOOKED_AT) if PROFILES[accelerator.timing].runs_wait else best


def _closer(
    layer: Layer, accelerator: Accelerator, found: list[ScheduleChoice], *, climbing: bool
) -> list[ScheduleChoice]:
    """The same tilings, and with `climbing` those near the fastest, their runs looked at one by one if the timing makes that worth
    while, the fastest first."""
    if not PROFILES[accelerator.timing].runs_wait:
        return found
    moved = {choice.schedule: choice.bytes for choice in found}

    def cycles(schedule: MacroSchedule) -> float | None:
        try:
            cost = macro_choice_cycles(layer, schedule, accelerator)
        except InfeasibleError:
            return None
        moved.setdefault(schedule, float(cost.bytes))
        return float(cost.total)

    known: dict[MacroSchedule, float] = {}
    for choice in found:
        assert isinstance(choice.schedule, LoopWsSchedule | LoopConvSchedule)
        took = cycles(choice.schedule)
        assert took is not None, "it was planned before"
        known[choice.schedule] = took
    if climbing:
        known = climb(layer, accelerator.dim, known, cycles)
    closer = [ScheduleChoice(schedule, took, moved[schedule]) for schedule, took in known.items()]
    return sorted(closer, key=lambda choice: choice.cycles)


def _estimated(schedule: Schedule, cost: MacroCycles, n: int) -> ScheduleChoice:
    return ScheduleChoice(schedule, float(cost.total[n]), float(cost.bytes[n]))


def _tilings(
    costs: Sequence[MacroCycles], runs: Integers, accelerator: Accelerator
) -> Iterator[tuple[int, int]]:
    """Tilings as (which order of loops, number), in the order in which they are taken: of those whose cycles the estimate
    cannot tell apart, those of about the fewest bytes first, of these that of the fewest runs. By the original's timing, bytes
    do not count: estimates of its many short loads are off by a fifth, and those tilings have them.

    Args:
        costs: of all tilings, by order of loops; cycles and bytes are (N,).
        runs: (N,) of the macro.
    """
    cycles, moved = (np.concatenate([getattr(one, what) for one in costs]) for what in ("total", "bytes"))
    alike = np.floor((cycles / cycles.min() - 1) / _ALIKE)
    if accelerator.timing != "baco":
        moved = np.ones_like(moved)
    fewer = np.floor((moved / moved[alike == 0].min() - 1) / _WORTH)
    ranked = np.lexsort((cycles, np.tile(runs, len(costs)), fewer, alike))
    return (divmod(int(n), len(runs)) for n in ranked)


def _tiles(blocks: int, most: int = 64) -> Integers:
    """Sizes of a tile worth a look: small ones, and those that cut the whole into equal parts."""
    equal = {-(-blocks // parts) for parts in range(1, min(blocks, 256) + 1)}
    return np.array(sorted(equal | set(range(1, min(blocks, most) + 1))), dtype=np.int64)


# -------------------------------------------------------------------- LOOP_CONV_WS


def _convolutions(
    layer: Layer, accelerator: Accelerator, best: int, *, climbing: bool
) -> list[ScheduleChoice]:
    p, pool, dim = layer.problem, layer.pooling, accelerator.dim
    try:
        plan_loop_conv(layer, _ONE_RESULT, accelerator)
    except InfeasibleError:
        return []
    stored = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    down = downsamples(layer)
    pixels = packed_pixels(layer, p.R, p.C, accelerator)
    one_row = (p.stride_h != p.stride_w and p.P > 1) or (p.dilation_h != p.dilation_w and p.R > 1 and p.S > 1)
    options = {
        "n": equal_parts(p.N),
        "q": np.array([1]) if one_row else equal_parts(stored[0]),
        "p": _columns(stored[1], dim),
        "k": _channels(p.K, dim),
        "s": np.array([1] if one_row and p.dilation_h != p.dilation_w else [p.S, 1]),
        "r": np.array([p.R, pixels]),
        "c": _channels(p.C, dim) if pixels == 1 else np.array([p.C]),
    }
    options = {axis: np.unique(values) for axis, values in options.items()}
    while math.prod(len(values) for values in options.values()) > _MOST_TILINGS:
        longest = max(options, key=lambda axis: len(options[axis]))
        options[longest] = np.append(options[longest][:-1:2], options[longest][-1])
    grids = np.meshgrid(*(options[axis] for axis in AXES), indexing="ij")
    tile = {axis: grid.ravel().astype(np.int64) for axis, grid in zip(AXES, grids, strict=True)}
    tile = _that_fit(layer, accelerator, tile, down)
    if not len(tile["n"]):
        return []
    sizes = dict(zip(AXES, (p.N, *stored, p.K, p.S, p.R, p.C), strict=True))
    trips = {axis: -(-sizes[axis] // tile[axis]) for axis in AXES}
    reduction, spatial = trips["s"] * trips["r"] * trips["c"], trips["n"] * trips["q"] * trips["p"]
    orders, costs, kept = ("nqpksrc", "knqpsrc"), [], []
    for order in orders:
        inner_k = order == "nqpksrc"
        near_in = reduction if inner_k else spatial * reduction
        near_w = trips["k"] * reduction if inner_k else reduction
        keep_in = (near_in <= 2) & (trips["k"] > 1) & (pixels == 1)
        keep_w = (near_w <= 2) & (spatial > 1) & (pixels == 1)
        kept.append((keep_in, keep_w))
        costs.append(conv_cycles(
            layer, accelerator, tile, pixels=pixels, downsample=down,
            input_loads=np.where(keep_in, 1, trips["k"]), weight_loads=np.where(keep_w, 1, spatial),
        ))  # fmt: skip
    found: list[ScheduleChoice] = []
    for which, n in _tilings(costs, spatial * reduction * trips["k"], accelerator):
        batch, rows, columns, channels, kernel_rows, kernel_columns, depth = (
            int(tile[axis][n]) for axis in AXES
        )
        keep_input, keep_weights = (bool(keep[n]) for keep in kept[which])
        schedule = LoopConvSchedule(
            batch, rows, columns, channels, kernel_rows, kernel_columns, depth, order=orders[which], pixels=pixels,
            downsample=down, keep_input=keep_input, keep_weights=keep_weights,
        )  # fmt: skip
        try:
            plan_loop_conv(layer, schedule, accelerator)
        except InfeasibleError:
            continue
        found.append(_estimated(schedule, costs[which], n))
        if len(found) == _looked_at(accelerator, best):
            break
    return _closer(layer, accelerator, found, climbing=climbing)[:best]


def _that_fit(
    layer: Layer, accelerator: Accelerator, tile: dict[str, Integers], down: bool
) -> dict[str, Integers]:
    """The tilings that fit halves of the local memories."""
    p, pool, dim = layer.problem, layer.pooling, accelerator.dim
    rows, columns = tile["q"], tile["p"]
    if pool:
        rows = np.minimum((rows - 1) * pool.stride + pool.size, p.Q)
        columns = np.minimum((columns - 1) * pool.stride + pool.size, p.P)
    height = rows * p.stride_h + (tile["s"] - 1) * p.dilation_h
    width = columns * p.stride_w + (tile["r"] - 1) * p.dilation_w
    inputs = -(-tile["c"] // dim) * tile["n"] * (height >> down) * (width >> down)
    out_blocks = -(-tile["k"] // dim)
    weights = out_blocks * tile["s"] * tile["r"] * tile["c"]
    fits = (inputs + weights <= accelerator.scratchpad_rows // 2) & (
        out_blocks * tile["n"] * rows * columns <= accelerator.accumulator_rows // 2
    )
    if layer.real:  # channels are added up within each position of the kernel
        fits &= (tile["c"] == p.C) | (tile["s"] * tile["r"] == 1)
    return {axis: values[fits] for axis, values in tile.items()}


def _columns(whole: int, dim: int) -> Integers:
    """All, equal parts, or whole passes of rows, as far as tiles may reach."""
    passes = np.arange(dim, min(whole, _MOST_COLUMNS), dim, dtype=np.int64)
    return np.unique(np.concatenate([[whole], passes, equal_parts(whole)]))


def _channels(whole: int, dim: int) -> Integers:
    """All channels, or equal numbers of whole blocks."""
    return np.unique([whole, *(dim * int(n) for n in equal_parts(-(-whole // dim)) if dim * n < whole)])
