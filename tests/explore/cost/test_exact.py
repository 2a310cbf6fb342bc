"""The exact solver, certificates and bounds against brute force over all mappings."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from baco.bench.exhaustive import all_mappings, enumerate_all
from baco.bench.optimality import small_space
from baco.compiler.mapping.nest import requirement
from baco.exploration.cost.bound import capacity_bound, compulsory_bound
from baco.exploration.cost.certificate import certify, least_product
from baco.exploration.cost.exact import LayerSolver, minimal_splits
from baco.exploration.cost.genome import to_mapping
from baco.exploration.cost.layer_costs import layer_costs
from baco.exploration.cost.tiles import Point, Region, TileGrid, least_counts
from baco.exploration.space import DesignSpace, load_space
from baco.workloads.network import Task
from baco.workloads.problem import Problem
from tests.seeds import seeds

GEMMINI = load_space("gemmini")
REFERENCE = dataclasses.replace(load_space("reference"), dataflows=("WS", "OS"))
SINGLE_WS = dataclasses.replace(GEMMINI, dataflows=("WS",), double_buffer=False)
SPACES = {"gemmini": GEMMINI, "reference": REFERENCE, "single-buffered": SINGLE_WS}
WEIGHINGS = (0.0, 1e-3, 1e-2, 1e-1, float("inf"))


def random_problem(rng: np.random.Generator) -> Problem:
    """Few enough mappings to try them all."""
    while True:
        dims = dict.fromkeys("RSPQCKN", 1)
        for name in rng.choice(list("RSPQCKN"), 3, replace=False):
            dims[str(name)] = int(rng.integers(2, 7))
        size = np.prod([v ** (2.4 if d in "CKP" else 1.7) for d, v in dims.items()])
        if size < 6000:
            break
    stride, dilation = (int(x) for x in rng.integers(1, 3, 2))
    return Problem(**dims, stride_w=stride, dilation_h=dilation, groups=int(rng.integers(1, 3)))


def tiny_points(rng: np.random.Generator) -> list[Point]:
    """Capacities of a few words, which most tiles do not fit."""
    dim = int(rng.choice([2, 4]))
    words = rng.choice([1, 2, 3, 4, 6, 8, 16], 3)
    lines = rng.choice([2, 3, 4, 6, 8, 16, 40], 3)
    return [
        Point(dim, float(a) * dim * 4 / 1024, float(s) * dim / 1024)
        for a, s in zip(words, lines, strict=True)
    ]


@pytest.mark.parametrize("seed", seeds(2, of=24))
@pytest.mark.parametrize("name", list(SPACES))
def test_the_solver_finds_what_brute_force_finds(name: str, seed: int) -> None:
    space = SPACES[name]
    rng = np.random.default_rng(seed)
    problem, points = random_problem(rng), tiny_points(rng)
    truth = enumerate_all(problem, points, space, WEIGHINGS)
    solver = LayerSolver(problem, space)
    for i, point in enumerate(points):
        cheap = solver.bounds(Region.of(point), np.array(WEIGHINGS))
        for g, weighing in enumerate(WEIGHINGS):
            solution = solver.solve(point, weighing)
            least = truth.least[i, g]
            assert solution.value == pytest.approx(least, rel=1e-12), (problem, point, weighing)
            assert solution.bound <= solution.value * (1 + 1e-12)
            assert solution.bound == pytest.approx(least, rel=1e-9)
            assert cheap[g] <= least * (1 + 1e-12) or (np.isinf(cheap[g]) and np.isinf(least))


def test_brute_force_includes_every_factorisation() -> None:
    problem, sizes = Problem(P=3, C=2, K=2), {"P": 3, "C": 2, "K": 2}
    space = dataclasses.replace(GEMMINI, dataflows=("WS",))
    seen = {tuple(row[1:24]) for chunk in all_mappings(problem, 2, space) for row in chunk}
    products = itertools.product(*(range(1, 4) for _ in range(3)))
    p_ways = {(a, b, c) for a, b, c in products if a * b * c >= 3 and a * b * (c - 1) < 3 and a * (b - 1) < 3}
    assert {(row[2 + 4], row[9 + 4], row[16 + 4]) for row in seen} == p_ways
    assert all(np.prod([row[0], row[2 + 2], row[9 + 2], row[16 + 2]]) >= sizes["C"] for row in seen)
    assert {row[:2] for row in seen} == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_solutions_are_feasible_and_cost_what_they_say() -> None:
    accelerator = GEMMINI.accelerator(16, 64, 256)
    point = Point(accelerator.dim, accelerator.accumulator_kib, accelerator.scratchpad_kib)
    problems = [
        Problem(R=3, S=3, P=14, Q=14, C=100, K=130),
        Problem(P=384, C=768, K=768),
        Problem(R=3, P=28, groups=32),
    ]
    for problem in problems:
        solution = LayerSolver(problem, GEMMINI).solve(point, 1e-2)
        assert solution.genome is not None
        mapping = to_mapping(solution.genome, problem.groups, True)
        mapping.check(problem)
        need = requirement(mapping, problem)
        assert need.dim <= point.dim
        assert need.accumulator_kib(point.dim) <= point.accumulator_kib
        assert need.scratchpad_rows * point.dim <= point.scratchpad_kib * 1024
        (cost,) = layer_costs([problem], [mapping], accelerator)
        assert cost.energy_pj == pytest.approx(solution.energy_pj, rel=1e-12)
        assert cost.latency_cycles == solution.latency_cycles
        assert solution.value == pytest.approx(1e-2 * cost.energy_pj + cost.latency_cycles, rel=1e-12)


def test_a_problem_that_fits_nowhere_has_no_solution() -> None:
    solution = LayerSolver(Problem(P=4, C=4), GEMMINI).solve(Point(4, 16 / 1024, 1 / 1024), 1e-2)
    assert solution.genome is None
    assert solution.value == solution.bound == np.inf


def test_tolerance_and_limits_keep_the_bound_valid() -> None:
    problem, point = Problem(R=3, S=3, P=30, Q=30, C=60, K=50), Point(16, 16, 32)
    solver = LayerSolver(problem, GEMMINI)
    exact = solver.solve(point, 3e-3)
    for quick in (solver.solve(point, 3e-3, tolerance=0.05), solver.solve(point, 3e-3, node_limit=1)):
        assert quick.bound <= exact.value <= quick.value
        assert quick.nodes <= exact.nodes
    assert solver.solve(point, 3e-3, tolerance=0.05).value <= exact.bound * 1.05 * (1 + 1e-9)


def test_a_region_bounds_all_its_points() -> None:
    problem = Problem(R=3, S=3, P=28, Q=28, C=60, K=100)
    weighings = np.array(WEIGHINGS)
    for space in SPACES.values():
        solver = LayerSolver(problem, space)
        low, high = Point(8, 8, 16), Point(32, 64, 128)
        region = solver.bounds(Region(low, high), weighings)
        for dim, acc, sp in itertools.product((8, 16, 32), (8, 64), (16, 128)):
            assert (region <= solver.bounds(Region.of(Point(dim, acc, sp)), weighings)).all()


def test_least_counts_and_splits() -> None:
    for bound in (1, 2, 7, 12, 97):
        counts = least_counts(bound).tolist()
        sizes = {-(-bound // n) for n in range(1, bound + 1)}
        assert counts == sorted(min(n for n in range(1, bound + 1) if -(-bound // n) == s) for s in sizes)
        pairs = set(minimal_splits(bound, bound))
        minimal = {
            (a, b)
            for a in range(1, bound + 1)
            for b in range(1, bound + 1)
            if a * b >= bound and (a - 1) * b < bound and a * (b - 1) < bound
        }
        assert pairs == minimal
    assert minimal_splits(10, 3) == [(3, 4), (2, 5), (1, 10)]


def test_blocks_open_to_all_nodes() -> None:
    grid = TileGrid(Problem(R=3, S=3, P=56, Q=56, C=64, K=48), GEMMINI)
    blocks = int(np.prod(grid.shape))
    assert blocks < np.prod([len(c) for c in grid.counts]) / 5
    nodes = grid.open(np.arange(blocks))
    assert len(np.unique(nodes, axis=0)) == len(nodes) == np.prod([len(c) for c in grid.counts])
    some = np.random.default_rng(0).integers(0, blocks, 30)
    for flow in GEMMINI.dataflows:
        region = Region.of(Point(16, 16, 64))
        by_block = grid.block_bounds(flow, region, np.array([1e-2]))[0]
        for block in some:
            inside = grid.node_bounds(flow, region, np.array([1e-2]), grid.open(np.array([block])))
            assert by_block[block] <= inside.min() * (1 + 1e-12)


def small_tasks(count: float = 3.0) -> tuple[Task, ...]:
    return (
        Task("net", Problem(P=4, C=5, K=3), count),
        Task("net", Problem(R=3, P=4, K=4), 1.0),
    )


def brute_edp(tasks: tuple[Task, ...], space: DesignSpace) -> float:
    """Least EDP of a network on any point, from the (energy, latency) of every mapping of every layer."""
    import torch

    from baco.exploration.cost.genome import ProblemSet, count, needs
    from baco.exploration.cost.reference import energy_terms, latency_terms

    hardware = space.hardware()
    points = list(zip(hardware.dim, hardware.accumulator_kib, hardware.scratchpad_kib, strict=True))
    table = space.base.energy
    # at 1 GHz, a cycle of a milliwatt is a pJ
    idle_pj = {
        point: space.accelerator(*map(int, point)).area_mm2
        * (table.leakage_mw_per_mm2 + table.clock_pj_per_mm2)
        for point in points
    }
    fronts = {(task, point): np.zeros((0, 2)) for task in tasks for point in points}
    for task, dim in itertools.product(tasks, sorted({dim for dim, _, _ in points})):
        problems = ProblemSet([task.problem])
        for rows in all_mappings(task.problem, int(dim), space):
            which = np.zeros(len(rows), dtype=np.int64)
            words, _, lines = needs(problems, which, rows, space.double_buffer)
            for point in (one for one in points if one[0] == dim):
                keep = (words * 4 * dim <= point[1] * 1024) & (lines * dim <= point[2] * 1024)
                if not keep.any():
                    continue
                counts = count(problems, which[keep], rows[keep], space.double_buffer)
                side, a, s = (torch.tensor(float(v), dtype=torch.float64) for v in point)
                pj = energy_terms(counts, side, a, s, table).sum(0).numpy()
                cycles = latency_terms(counts, side, space.base.dram_bytes_per_cycle).amax(0).numpy()
                pj = pj + idle_pj[point] * cycles
                pairs = np.concatenate([fronts[task, point], np.stack([pj, cycles], axis=1)])
                pairs = pairs[np.lexsort(pairs.T[::-1])]
                earlier = np.minimum.accumulate(np.concatenate([[np.inf], pairs[:-1, 1]]))
                fronts[task, point] = pairs[pairs[:, 1] < earlier]
    best = np.inf
    for point in points:
        for choice in itertools.product(*(fronts[task, point] for task in tasks)):
            e = sum(t.count * c[0] for t, c in zip(tasks, choice, strict=True))
            latency = sum(t.count * c[1] for t, c in zip(tasks, choice, strict=True))
            best = min(best, e * 1e-6 * latency)
    return best


def test_certificates_meet_brute_force_over_hardware_and_mappings() -> None:
    space = dataclasses.replace(small_space(), dim=(4,), accumulator_kib=(1,), dataflows=("WS",))
    # the second does not fit the smaller scratchpad as a whole
    tasks = (small_tasks()[0], Task("net", Problem(P=24, C=24), 2.0))
    truth = brute_edp(tasks, space)
    found = certify(tasks, space, tolerance=0.0)
    assert found.complete
    assert found.best == pytest.approx(truth, rel=1e-9)
    assert found.bound == pytest.approx(truth, rel=1e-6)
    assert found.bound <= truth * (1 + 1e-12)
    judged = certify(tasks, space, incumbent=truth * 1.1, tolerance=0.0)
    assert judged.gap == pytest.approx(0.1, rel=1e-5)
    assert judged.mappings is not None
    assert judged.point is not None
    compulsory = compulsory_bound(tasks, space.base.energy, space.base.dram_bytes_per_cycle)
    capacity = capacity_bound(tasks, space)
    assert compulsory <= capacity.edp <= truth
    assert (capacity.edp_by_point >= capacity.edp).all()
    both, tasks = dataclasses.replace(space, dataflows=("WS", "OS")), small_tasks()
    energy, rate = both.base.energy, both.base.dram_bytes_per_cycle
    least = compulsory_bound(tasks, energy, rate, dataflows=both.dataflows)
    assert least <= min(compulsory_bound(tasks, energy, rate), brute_edp(tasks, both))


def test_certificates_of_spaces_too_large_to_list() -> None:
    """The boxes of hardware must give what listing the points gives."""
    tasks = small_tasks()
    space = dataclasses.replace(
        REFERENCE, dim=tuple(range(2, 7)), scratchpad_kib=(1, 2, 3, 5), accumulator_kib=(1, 2, 4)
    )

    class Unlisted(DesignSpace):
        enumerable = False  # type: ignore[assignment]

    unlisted = Unlisted(**{f.name: getattr(space, f.name) for f in dataclasses.fields(space)})
    assert space.enumerable
    listed = certify(tasks, space, tolerance=0.0)
    boxed = certify(tasks, unlisted, tolerance=0.0)
    assert boxed.best == pytest.approx(listed.best, rel=1e-9)
    assert boxed.bound == pytest.approx(listed.bound, rel=1e-6)
    assert boxed.regions > 1


def test_an_incumbent_that_is_optimal_stands_and_early_ends_are_honest() -> None:
    tasks = (
        Task("net", Problem(R=3, S=3, P=28, Q=28, C=60, K=50), 1.0),
        Task("net", Problem(P=100, C=300, K=70), 2.0),
    )
    optimum = certify(tasks, GEMMINI, tolerance=1e-4)
    assert optimum.complete
    assert optimum.bound * (1 + 1e-4) >= optimum.best >= optimum.bound
    stands = certify(tasks, GEMMINI, incumbent=optimum.best, tolerance=1e-3)
    assert stands.point is None
    assert stands.best == optimum.best
    assert 0 <= stands.gap <= 1e-3 * (1 + 1e-9)
    early = certify(tasks, GEMMINI, incumbent=optimum.best, tolerance=1e-4, max_regions=1)
    assert not early.complete
    assert early.regions == 1
    assert capacity_bound(tasks, GEMMINI).edp <= early.bound < optimum.bound
    seen: list[tuple[float, float]] = []
    stopped = certify(
        tasks,
        GEMMINI,
        tolerance=1e-4,
        progress=lambda bound, best: seen.append((bound, best)),
        stop=lambda: len(seen) >= 2,
    )
    assert not stopped.complete
    assert len(seen) == 2
    assert seen[0][0] <= seen[1][0] == stopped.bound <= optimum.best


def test_an_area_limit_is_respected() -> None:
    tasks = small_tasks()
    space = small_space()
    free = certify(tasks, space, tolerance=0.0)
    areas = space.hardware().area_mm2
    limited = certify(tasks, space.constrain(area_mm2=float(np.sort(areas)[0]) * 1.0001), tolerance=0.0)
    assert limited.best > free.best
    assert limited.point is not None
    smallest = space.hardware().take([int(areas.argmin())])
    assert limited.point.dim == smallest.dim[0]


def test_the_least_product_is_at_a_vertex() -> None:
    # energy >= 2, latency >= 3, and 1 E + L >= 10: vertices (2, 8) and (7, 3)
    weighings, values = np.array([0.0, np.inf, 1.0]), np.array([3.0, 2.0, 10.0])
    product, energy, latency = least_product(weighings, values)
    assert (energy, latency) == (2.0, 8.0)
    assert product == pytest.approx(16e-6)
    rng = np.random.default_rng(1)
    for _ in range(20):
        slopes = np.concatenate([[0.0, np.inf], rng.uniform(0.1, 5, 3)])
        limits = np.concatenate([rng.uniform(1, 3, 2), rng.uniform(2, 20, 3)])
        product, _, _ = least_product(slopes, limits)
        grid_e = np.linspace(limits[1], 60, 20_001)
        finite = np.isfinite(slopes)
        grid_l = (limits[finite, None] - slopes[finite, None] * grid_e).max(0)
        assert product <= (grid_e * grid_l).min() * 1e-6 * (1 + 1e-9)
        assert product == pytest.approx((grid_e * grid_l).min() * 1e-6, rel=2e-2)
    assert least_product(np.array([0.0, np.inf]), np.array([1.0, np.inf]))[0] == np.inf
