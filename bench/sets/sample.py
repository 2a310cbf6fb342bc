"""Random legal mappings, and a rough guess of what binds them.

Mappings are drawn uniformly in the logarithm of their factors and kept when the accelerator holds them, in two forms:
any (realised by explicit moves, mostly) and macro form. The guess serves to draw equally often what is rare: nothing
measured or fitted is in it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from baco.accel.config import Accelerator
from baco.accel.dataflows import Dataflow
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import REGISTER_DIMS, ROW_DIM, Mapping
from baco.compiler.mapping.text import mapping_text, parse_mapping_text
from baco.compiler.schedules.schedule import DepthwiseSchedule, ExplicitSchedule, Schedule
from baco.compiler.styles.explicit.extents import REDUCTION, RESULT
from baco.compiler.styles.explicit.plan import ExplicitPlan, make_plan
from baco.compiler.styles.registry import plan_layer, realise
from baco.workloads.problem import DIMS

#: What a layer may wait for most: the array, loads, stores, or the host that issues commands.
Stratum = Literal["compute", "load", "store", "issue"]
STRATA: tuple[Stratum, ...] = ("compute", "load", "store", "issue")
#: DRAM orders with names (method specification, section 2): weight-, input- and output-stationary, innermost first.
_NAMED_ORDERS = ("PQNRSCK", "KRSPQCN", "RSCKPQN")
_NAMED, _FULL_ARRAY, _WHOLE_WINDOW = 0.5, 0.7, 0.7
#: Rough costs: cycles in which the host writes a command, and in which it goes from tile to tile; latency of memory.
_HOST_CYCLES, _VISIT_CYCLES, _LATENCY = 11.0, 300.0, 60.0


def draw_mapping(
    random_: random.Random, layer: Layer, accelerator: Accelerator, *, macro: bool, attempts: int = 200
) -> tuple[Mapping, Schedule] | None:
    """A random mapping that the accelerator can carry out, and the schedule that does it.

    Args:
        macro: draw among mappings in macro form (those that macros carry out).
        attempts: drawings before giving up.

    Returns None when nothing legal was found.
    """
    for _ in range(attempts):
        drawn = _macro(random_, layer, accelerator) if macro else _any(random_, layer, accelerator)
        mapping = parse_mapping_text(mapping_text(drawn))  # what a row of a table can say
        schedule = legal_schedule(layer, mapping, accelerator)
        if schedule is not None and (not macro or not isinstance(schedule, ExplicitSchedule)):
            return mapping, schedule
    return None


def draw_packed(
    random_: random.Random, layer: Layer, accelerator: Accelerator, *, attempts: int = 200
) -> tuple[Mapping, DepthwiseSchedule] | None:
    """A random mapping that runs several groups of a grouped layer at once, and its schedule.

    As many groups as the array has room for, mostly, else fewer. Returns None when nothing legal was found.
    """
    p = layer.problem
    most = min(p.groups, accelerator.dim // max(p.C, p.K))
    if most < 2:
        return None
    for _ in range(attempts):
        packed = most if random_.random() < _FULL_ARRAY else random_.randint(2, most)
        levels: list[dict[str, int]] = [{}, {}, {}, {}]
        for name in "PQNRS":
            low = 0 if name in REGISTER_DIMS["WS"] else 1
            for level, factor in zip(range(low, 4), _split(random_, getattr(p, name), 4 - low), strict=True):
                levels[level][name] = factor
        if random_.random() < _WHOLE_WINDOW:  # windows are seldom cut
            for name in "RS":
                for factors in levels:
                    factors[name] = 1
                levels[1][name] = getattr(p, name)
        orders = (*(_permutation(random_, DIMS) for _ in range(3)), _outer_order(random_))
        buffering = (2, 2, 2) if random_.random() < 0.5 else _buffering(random_)
        drawn = _mapping("WS", packed * p.C, packed * p.K, levels, orders, buffering)
        mapping = parse_mapping_text(mapping_text(drawn))
        schedule = legal_schedule(layer, mapping, accelerator)
        if isinstance(schedule, DepthwiseSchedule):
            return mapping, schedule
    return None


def legal_schedule(layer: Layer, mapping: Mapping, accelerator: Accelerator) -> Schedule | None:
    """The schedule of a mapping if the accelerator holds it, else None."""
    try:
        schedule = realise(layer, mapping, accelerator)
        plan_layer(layer, schedule, accelerator)
    except (InfeasibleError, InputError):
        return None
    return schedule


def _log_uniform(random_: random.Random, most: int) -> int:
    """1 to `most`, uniform in the logarithm."""
    return min(most, int(math.exp(random_.uniform(0.0, math.log(most + 1)))))


def _spatial(random_: random.Random, bound: int, dim: int) -> int:
    most = min(bound, dim)
    return most if random_.random() < _FULL_ARRAY else _log_uniform(random_, most)


def _split(random_: random.Random, size: int, places: int) -> list[int]:
    """`size` in so many factors of a product that is at least `size`, cut uniformly in the logarithm."""
    cuts = sorted(random_.uniform(0.0, math.log(size)) for _ in range(places - 1)) if size > 1 else []
    factors, rest = [], size
    for low, high in zip([0.0, *cuts], cuts, strict=False):
        factor = min(rest, max(1, round(math.exp(high - low))))
        factors.append(factor)
        rest = -(-rest // factor)
    return [*factors, *[1] * (places - 1 - len(factors)), rest]


def _any(random_: random.Random, layer: Layer, accelerator: Accelerator) -> Mapping:
    p = layer.problem
    dataflow: Dataflow = random_.choice(accelerator.dataflows)
    bounds = dict(zip(DIMS, p.bounds, strict=True))
    row = ROW_DIM[dataflow]
    rows, columns = (_spatial(random_, bounds[name], accelerator.dim) for name in (row, "K"))
    left = dict(bounds)
    left[row] = -(-left[row] // rows)
    left["K"] = -(-left["K"] // columns)
    levels: list[dict[str, int]] = [{}, {}, {}, {}]
    for name in DIMS:
        low = 0 if name in REGISTER_DIMS[dataflow] else 1
        for level, factor in zip(range(low, 4), _split(random_, left[name], 4 - low), strict=True):
            levels[level][name] = factor
    outer = _outer_order(random_)
    orders = (*(_permutation(random_, DIMS) for _ in range(3)), outer)
    return _mapping(dataflow, rows, columns, levels, orders, _buffering(random_))


def _outer_order(random_: random.Random) -> str:
    named = random_.random() < _NAMED
    return random_.choice(_NAMED_ORDERS) if named else _permutation(random_, DIMS)


def _buffering(random_: random.Random) -> tuple[int, int, int]:
    return random_.randint(1, 2), random_.randint(1, 2), random_.randint(1, 2)


def _macro(random_: random.Random, layer: Layer, accelerator: Accelerator) -> Mapping:
    """In macro form: pixels of a tile at level 0, window, depth and column blocks at level 1, tiles at level 3."""
    p, dim = layer.problem, accelerator.dim
    rows, columns = min(p.C, dim), min(p.K, dim)
    blocks = {"C": -(-p.C // rows), "K": -(-p.K // columns)}
    levels: list[dict[str, int]] = [{}, {}, {}, {}]
    for name, bound in zip(DIMS, p.bounds, strict=True):
        size = blocks.get(name, bound)
        if name in "RS" and random_.random() < 0.7:
            tile = size  # windows are seldom cut
        else:
            tile = size if random_.random() < 0.2 else _log_uniform(random_, size)
        levels[0 if name in "PQN" else 1][name] = tile
        levels[3][name] = -(-size // tile)
    order = _permutation(random_, REDUCTION) + _permutation(random_, RESULT)
    return _mapping("WS", rows, columns, levels, ("RSCPQNK",) * 3 + (order,), (2, 2, 2))


def _permutation(random_: random.Random, names: Iterable[str]) -> str:
    shuffled = list(names)
    random_.shuffle(shuffled)
    return "".join(shuffled)


def _mapping(
    dataflow: Dataflow,
    rows: int,
    columns: int,
    levels: list[dict[str, int]],
    orders: tuple[str, ...],
    buffering: tuple[int, int, int],
) -> Mapping:
    temporal = tuple(tuple(level.get(name, 1) for name in DIMS) for level in levels)
    inner, one, two, outer = orders
    return Mapping(dataflow, rows, columns, temporal, (inner, one, two, outer), buffering)


# -------------------------------------------------------------------- a rough guess


@dataclass(frozen=True)
class Guess:
    """Cycles for which each resource is busy, roughly."""

    compute: float
    load: float
    store: float
    issue: float

    @property
    def cycles(self) -> float:
        """Of the busiest one: what a layer takes at least."""
        return max(self.compute, self.load, self.store, self.issue)

    @property
    def stratum(self) -> Stratum:
        """The busiest one."""
        return max(STRATA, key=lambda name: float(getattr(self, name)))


def guess(layer: Layer, mapping: Mapping, accelerator: Accelerator, *, macro: bool) -> Guess:
    """What a mapping keeps busy for how long; macros take next to nothing of the host.

    Raises as `make_plan`.
    """
    plan = make_plan(layer, mapping, accelerator)
    dim, bandwidth = accelerator.dim, accelerator.dram_bytes_per_cycle
    groups = plan.layer.problem.groups
    tiles = groups * math.prod(-(-plan.bounds[name] // plan.tile[name]) for name in RESULT)
    pixels, columns = plan.pixels_out, plan.tile_columns
    depth = plan.bounds["R"] * plan.bounds["S"] * plan.steps["C"] * plan.depth_blocks
    chunks = -(-pixels // dim)
    passes = tiles * columns * depth * chunks
    waves = dim if mapping.dataflow == "OS" else max(dim, pixels) / chunks
    w_fills, i_fills = _fills(plan, "W"), _fills(plan, "I")
    load = _transfer(w_fills * plan.window_rows * plan.block_columns, min(dim, plan.block["K"]), 1, bandwidth)
    load += _transfer(i_fills * plan.input_rows, min(plan.depth, plan.block["C"]), 1, bandwidth)
    result_rows = plan.result_rows * tiles
    lanes = min(dim, plan.tile["K"])
    sums = math.prod(trip.count for trip in plan.blocks if trip.name in plan.revisits) - 1
    out_bytes = layer.output_bits // 8
    store = _transfer(result_rows, lanes, out_bytes, bandwidth) + _transfer(
        sums * result_rows, lanes, 4, bandwidth
    )
    load += _transfer(sums * result_rows, lanes, 4, bandwidth)
    if layer.bias:
        load += _transfer(result_rows, lanes, 4, bandwidth)
    commands = 2.0 * passes + (w_fills * plan.weight_rows + i_fills * plan.input_rows) / dim
    commands += (1 + 2 * sums) * result_rows / dim
    issue = commands * _HOST_CYCLES + plan.visits * _VISIT_CYCLES
    if macro:
        issue = 30.0 * _HOST_CYCLES * math.prod(trip.count for trip in plan.blocks)
    load += _LATENCY * math.prod(trip.count for trip in plan.blocks) * (1 in plan.copies[:2])
    return Guess(compute=passes * waves, load=load, store=store, issue=issue)


def _fills(plan: ExplicitPlan, tensor: str) -> int:
    """How often a tile of W or I is loaded."""
    last = plan.innermost(plan.changes(tensor))
    return 1 if last is None else math.prod(trip.count for trip in plan.blocks[: last + 1])


def _transfer(rows: float, lanes: int, size: int, bandwidth: float) -> float:
    """Cycles of rows that come one by one: the channel's, but at least one a row."""
    return rows * max(1.0, lanes * size / bandwidth)
