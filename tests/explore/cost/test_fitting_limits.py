"""No mapping that fits goes below: brute force, searches of random layers, and what is known of designs."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from baco.bench.exhaustive import all_mappings
from baco.bench.sets.spaces import published_space
from baco.compiler.analysis.traffic import bytes_per_cycle, channel_bytes_per_cycle
from baco.compiler.latency.model import constants
from baco.compiler.layers.layer import Layer
from baco.exploration.cost import fitting_limits
from baco.exploration.cost.fitting_limits import Fitting, Prices, least_edp
from baco.exploration.cost.genome import COLUMNS, MACRO_ORDERS, ONCE, ORDER, ORDERS, ROWS, plain_copies
from baco.exploration.cost.layer_work import BlockTiles, LayerWork
from baco.exploration.cost.limits import LeastCosts, limits_of
from baco.exploration.cost.model import make_cost_model
from baco.exploration.objective import METRICS, Objective
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.archive import Archive
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace, in_technology
from baco.exploration.space.points import HardwarePoints
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.network import Task
from baco.workloads.problem import Problem
from tests.explore.cost.random_layers import random_layer
from tests.explore.study_helpers import small_workload
from tests.seeds import some

Floats = NDArray[np.float64]

GEMMINI = published_space().without_units()
#: Where memory outruns the port: as the default space but for that, and with all prices of a slow technology.
NARROW = dataclasses.replace(GEMMINI, base=GEMMINI.base.replace(dram_bytes_per_cycle=118.0))
IHP = in_technology(GEMMINI, "ihp-sg13g2")
TINY = dataclasses.replace(GEMMINI, dim=(2, 4), accumulator_kib=(1, 2), scratchpad_kib=(1, 2, 4))
#: Cycles per pJ: latency alone, some in between, energy alone.
WEIGHINGS = np.array([0.0, 1e-4, 1e-3, 1e-2, 0.1, np.inf])


def weighed(archive: Archive, where: HardwarePoints) -> Floats:
    """Least weighing * energy + latency of a layer's evaluated mappings, (H, weighings)."""
    pj, cycles = archive.costs(0, where)
    fits = np.isfinite(pj)
    pj, cycles = np.where(fits, pj, 0.0), np.where(fits, cycles, 0.0)
    values = [pj if math.isinf(one) else one * pj + cycles for one in WEIGHINGS.tolist()]
    return np.stack([np.where(fits, one, np.inf).min(1, initial=np.inf) for one in values], 1)


def ratios(layer: Layer, space: DesignSpace, where: HardwarePoints, found: Floats) -> Floats:
    """What was found over what is claimed, wherever something fits."""
    fitting = Fitting([layer], space)
    claimed = []
    for h in range(len(where)):
        side, accumulator, scratchpad = where.row(h)
        dim = int(side)
        at = Prices.of(space, dim, accumulator, scratchpad, bool(where.units[h]))
        claimed.append(fitting.least(0, dim, at, WEIGHINGS))
    fits = np.isfinite(found)
    assert np.isfinite(np.array(claimed)[fits]).all(), layer
    return np.asarray(found[fits] / np.array(claimed)[fits])


#: In eighths of channels, so that rows in memory are whole beats.
SMALL = (
    Problem(P=4, C=2, K=3),
    Problem(P=3, C=3, K=2),
    Problem(R=2, P=3, C=2, K=2),
    Problem(S=2, P=2, Q=2, K=2, stride_w=2, stride_h=2),
    Problem(S=3, Q=4, C=2, groups=3),
)
#: Reuse of weights, inputs and sums, and both orders of the macros.
SOME_ORDERS = [ORDERS.index(one) for one in (*ORDERS[:3], *MACRO_ORDERS)]


def check_all_mappings(problem: Problem, side: int, base: DesignSpace = GEMMINI) -> float:
    """Every tiling in several orders, tensors held once or twice, and as macros, on machines of a few rows of memory. Returns how
    near the limit the nearest is."""
    layer = Layer(dataclasses.replace(problem, C=8 * problem.C, K=8 * problem.K), bias=side > 2)
    space = dataclasses.replace(base, dim=(8 * side,))
    model, task = make_cost_model("instruction", [layer], space), Task("net", layer.problem, 1.0)
    room = itertools.product((1, 2, 4, 8), (16, 24, 40, 64, 96, 512))
    where = space.points_of([(8 * side, acc * side / 32, sp * side / 128) for acc, sp in room])
    found = np.full((len(where), len(WEIGHINGS)), np.inf)
    for rows in all_mappings(problem, side, space):
        if rows[0, ORDER] != 0:  # of the orders, all that are looked at
            continue
        rows[:, [ROWS, COLUMNS]] *= 8
        for order, once in itertools.product(SOME_ORDERS, range(8)):
            rows[:, ORDER], rows[:, ONCE] = order, once
            kept = plain_copies(rows, problem.groups)
            kept = kept[kept[:, ONCE] == once]
            if not once:
                kept = np.concatenate([kept, model.styled(np.zeros(len(rows), np.int64), rows)])
            archive = Archive((task,), space, model)
            archive.add(np.zeros(len(kept), np.int64), kept)
            found = np.minimum(found, weighed(archive, where))
    every = ratios(layer, space, where, found)
    assert every.min() >= 1 - 1e-9
    assert len(every) > 0.5 * found.size, "on many of these machines something fits"
    return float(every.min())


@pytest.mark.parametrize("problem", some(3, SMALL), ids=str)
def test_no_mapping_of_all_is_below(problem: Problem) -> None:
    assert check_all_mappings(problem, 2) < 1.03, "the energy of the best is all but the limit"


@pytest.mark.parametrize(
    "problem",
    some(2, (*SMALL[1::2], *SMALL[::2])),
    ids=str,
)
def test_no_mapping_of_all_is_below_where_memory_outruns_the_port(problem: Problem) -> None:
    assert check_all_mappings(problem, 2, NARROW) < 1.03, "the energy of the best is all but the limit"


@pytest.mark.slow
@pytest.mark.parametrize("problem", some(3, SMALL), ids=str)
def test_no_mapping_of_all_is_below_on_a_larger_array(problem: Problem) -> None:
    check_all_mappings(problem, 4)


def search_layers(seeds: range, batches: int, base: DesignSpace = GEMMINI) -> list[float]:
    """Least ratio of what the searches of one random layer each evaluate to what is claimed, of every layer."""
    space = dataclasses.replace(base, dim=(4, 16, 64))
    where, least = space.hardware().floats(), []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        layer = random_layer(rng)
        task, model = Task("net", layer.problem, 1.0), make_cost_model("instruction", [layer], space)
        objective = Objective.parse(METRICS[seed % len(METRICS)])
        searcher = make_searcher("local", SearchSetup((task,), space, objective, 2000, seed, model))
        found = np.full((len(where), len(WEIGHINGS)), np.inf)
        for _ in range(batches):
            done = searcher.step().done
            found = np.minimum(found, weighed(searcher.archive, where))  # type: ignore[attr-defined]
            if done:
                break
        every = ratios(layer, space, where, found)
        assert every.min() >= 1 - 1e-9, (seed, layer)
        least.append(float(every.min()))
    return least


@pytest.mark.parametrize("base", [GEMMINI, IHP], ids=["published", "ihp"])
def test_no_search_of_a_random_layer_goes_below(base: DesignSpace) -> None:
    assert min(search_layers(range(5), 1, base)) < 1.05, "of some layer the limit is all but reached"


@pytest.mark.slow
@pytest.mark.parametrize("base", [GEMMINI, IHP], ids=["published", "ihp"])
def test_no_search_of_a_thousand_goes_below(base: DesignSpace) -> None:
    assert len(search_layers(range(1000), 3, base)) == 1000


@pytest.mark.parametrize("problem", [Problem(P=3136, C=64, K=256), Problem(P=49, C=512, K=2048)], ids=str)
def test_layers_that_wait_for_the_port_come_near_the_limit(problem: Problem) -> None:
    """One by what it writes, one by what it reads: on a large machine they take the cycles of the port and little else."""
    assert bytes_per_cycle(IHP.base) < channel_bytes_per_cycle(IHP.base) / 2
    space = dataclasses.replace(IHP, dim=(64,), accumulator_kib=(256,), scratchpad_kib=(512,))
    layer, objective = Layer(problem), Objective.parse("latency")
    model, task = make_cost_model("instruction", [layer], space), Task("net", problem, 1.0)
    searcher = make_searcher("local", SearchSetup((task,), space, objective, 2000, 0, model))
    searcher.step()
    where = space.hardware().floats()
    cycles = weighed(searcher.archive, where)[0, 0]  # type: ignore[attr-defined]
    at = Prices.of(space, 64, 256, 512, units=False)
    claimed = float(Fitting([layer], space).least(0, 64, at, np.zeros(1))[0])
    assert claimed <= cycles < 1.07 * claimed
    moved = problem.input_words + problem.weight_words + problem.output_words
    assert cycles > 2 * moved / channel_bytes_per_cycle(space.base)


@pytest.mark.parametrize(
    ("window", "stride", "dilation"), itertools.product((1, 2, 3, 5), (1, 2, 3), (1, 2, 3))
)
def test_tiles_read_no_fewer_pixels_than_claimed(window: int, stride: int, dilation: int) -> None:
    """Pixels of the image inside of the least box that has the windows of w x h results, counted: never fewer, and of squares of
    square windows just as many."""

    def extent(results: int, positions: int, step: int) -> int:
        read = {x * step + y * dilation for x in range(results) for y in range(positions)}
        return max(read) - min(read) + 1

    for other, turned, images in itertools.product((1, window, window + 1), (stride, stride + 1), (1, 2)):
        p = Problem(
            R=window, S=other, P=9, Q=9, C=1, K=1, N=images,
            stride_w=stride, stride_h=turned, dilation_w=dilation, dilation_h=dilation,
        )  # fmt: skip
        linear, root, constant = LayerWork.of(Layer(p), 4, GEMMINI.base).reach
        near = []
        for w, h, n in itertools.product(range(1, 10), range(1, 10), range(1, images + 1)):
            results, box = w * h * n, n * extent(w, window, stride) * extent(h, other, turned)
            claimed = linear * results + root * math.sqrt(results) + constant
            assert claimed <= box * (1 + 1e-12), (p, w, h, n)
            near.append(claimed / box if w == h else 0.0)
        if images == 1 and other == window and turned == stride and (window - 1) * dilation + 1 >= stride:
            assert min(one for one in near if one) == pytest.approx(1)


def test_blocks_take_what_is_counted_by_hand() -> None:
    """Of 6 x 6 results of 3 x 3 windows, quarters of 3 x 3 read 5 x 5 pixels, whose 10 channels take 3 rows of an array of side 4 each;
    7 columns are two blocks. With a fifth of what is summed up, windows may be cut: a result reads a pixel, of 2 channels."""
    work = LayerWork.of(Layer(Problem(R=3, S=3, P=6, Q=6, C=10, K=7)), 4, GEMMINI.base)
    one, quarters, depths = np.array([1.0]), np.array([4.0]), np.array([1.0, 5.0])
    found = BlockTiles.of(work, (quarters, quarters), (depths, depths), (one, one))
    assert found.pixels.tolist() == [4, 4]
    assert found.depth.tolist() == [1, 5]
    assert found.columns.tolist() == [1, 1]
    assert found.weight_rows.tolist() == [90 * 2, 18 * 2]
    assert found.input_rows.tolist() == pytest.approx([25 * 3, 9])
    assert found.sum_rows.tolist() == [9 * 2, 9 * 2]
    # an interval of numbers of blocks stands for the smallest blocks in it
    wide = BlockTiles.of(work, (one, quarters), (one, one * 5), (one, one * 2))
    assert (wide.pixels[0], wide.depth[0], wide.columns[0]) == (1, 1, 1)
    assert (wide.weight_rows[0], wide.sum_rows[0]) == (18, 9)
    assert wide.input_rows[0] == pytest.approx(25)


@pytest.mark.parametrize("channels", [3, 4, 5])
@pytest.mark.parametrize("columns", [3, 4, 5])
def test_what_fills_the_array_is_no_larger_than_it(channels: int, columns: int) -> None:
    work = LayerWork.of(Layer(Problem(P=8, C=channels, K=columns)), 4, GEMMINI.base)
    assert work.small == (channels <= 4 and columns <= 4)


def limits_and_designs() -> tuple[LeastCosts, list[Layer], list[float]]:
    space = dataclasses.replace(TINY, dim=(4, 8), scratchpad_kib=(4, 16), accumulator_kib=(2, 8))
    workload = small_workload(32)
    layers = layers_of_tasks(workload.tasks, workload)
    model = make_cost_model("instruction", layers, space)
    setup = SearchSetup(workload.tasks, space, Objective.parse("edp"), None, 0, model)
    searcher = make_searcher("local", setup)
    found = [one.cost.edp for _ in range(4) for one in searcher.step().candidates]
    return limits_of(workload.tasks, space, layers), layers, found


def test_the_limit_of_a_space_is_that_of_its_best_accelerator() -> None:
    limits, layers, found = limits_and_designs()
    least = least_edp(limits, layers)
    points, fitting = limits.points(), Fitting(layers, limits.space)
    each = [fitting_limits._edp_at(limits, fitting, points.take([h]), math.inf) for h in range(len(points))]
    assert least == pytest.approx(max(min(each), limits.edp))
    assert limits.edp < least <= min(found)
    assert least_edp(limits, layers, min(found)) == least


def test_what_lies_below_is_not_worse_together_than_apart() -> None:
    """Least energy and latency of one accelerator bound its least product, which one and the same tilings bound better."""
    limits, layers, _ = limits_and_designs()
    point = limits.points().take([0])
    runs, *_ = limits.parts(point)
    space, fitting = limits.space, Fitting(layers, limits.space)
    sizes = int(point.dim[0]), int(point.accumulator_kib[0]), int(point.scratchpad_kib[0])
    at = Prices.of(space, *sizes, False)
    apart = sum(
        count * fitting.least(task, sizes[0], at, np.array([0.0, np.inf])) for task, count in enumerate(runs)
    )
    together = fitting_limits._edp_at(limits, fitting, point, math.inf)
    assert together >= apart[0] * apart[1] * 1e-6 * (1 - 1e-9)


def test_nothing_is_said_of_other_programs() -> None:
    limits, layers, _ = limits_and_designs()
    for changed in ({"dataflows": ("WS", "OS")}, {"base": limits.space.base.replace(timing="gemmini")}):
        space = dataclasses.replace(limits.space, **changed)
        assert not Fitting.knows(space)
        other = limits_of(limits.tasks, space, layers)
        assert least_edp(other, layers) == other.edp


def test_the_models_constants_are_such_that_parts_are_below_the_whole() -> None:
    fitted = constants("baco")
    assert min(*fitted.host.values(), fitted.timing["phases"]) >= 0
    assert fitted.timing["overlap"] >= 1
