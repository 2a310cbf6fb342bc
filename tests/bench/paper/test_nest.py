"""Costs of loop nests on analytical accelerators, and the search for good ones."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from baco.accel.analytical import (
    AnalyticalAccelerator,
    Axis,
    Memory,
    Store,
    analytical_names,
    load_analytical,
)
from baco.bench.paper.nest import NEST_ORDERS, NestBatch, NestModel
from baco.bench.paper.nest_search import search_nests, search_network
from baco.common.errors import InputError
from baco.compiler.mapping.batch import AXES
from baco.exploration.cost.certificate import certify
from baco.exploration.cost.genome import (
    COLUMNS,
    INNER_ORDER,
    ORDER,
    ROWS,
    T1,
    T2,
    T3,
    ProblemSet,
    count,
    tighten,
    trivial,
)
from baco.exploration.cost.reference import energy_terms, latency_terms
from baco.exploration.space import load_space
from baco.workloads.network import Task
from baco.workloads.problem import Problem
from tests.seeds import some

ALL = tuple("RSPQCKN")


def gemmini_structure(dim: int, accumulator_kib: int, scratchpad_kib: int) -> AnalyticalAccelerator:
    """The reference model's own machine, said as a stack of memories."""
    return AnalyticalAccelerator(
        name="gemmini",
        levels=(
            Memory(
                name="registers",
                stores=(Store(tensors=("W",), words=1),),
                loops=("P", "Q", "N"),
                energy="register",
            ),
            Memory(
                name="accumulator",
                stores=(Store(tensors=("O",), words=accumulator_kib * 256 // dim),),
                loops=("R", "S", "C", "K"),
                axes=(Axis(size=dim, dims=("C",)),),
                energy="accumulator",
                capacity_kib=accumulator_kib / dim,
                words_per_cycle=2,
            ),
            Memory(
                name="scratchpad",
                stores=(Store(tensors=("W", "I"), words=scratchpad_kib * 1024),),
                loops=ALL,
                axes=(Axis(size=dim, dims=("K",)),),
                energy="scratchpad",
                capacity_kib=scratchpad_kib,
                words_per_cycle=2 * dim,
            ),
            Memory(
                name="DRAM",
                stores=(Store(tensors=("W", "I", "O")),),
                loops=ALL,
                energy="dram",
                words_per_cycle=8,
            ),
        ),
    )


@pytest.mark.parametrize(
    "problem",
    [
        Problem(R=3, S=3, P=12, Q=10, C=20, K=24, N=2, stride_w=2),
        Problem(P=30, C=20, K=40, groups=3),
        Problem(R=2, S=5, P=9, Q=9, C=7, K=5, dilation_h=2, stride_h=3),
    ],
    ids=str,
)
def test_costs_are_those_of_the_reference_model_on_its_own_machine(problem):
    """Another implementation of the same rules, which reproduces published results."""
    dim, acc, sp, size = 8, 16, 64, 500
    rng = np.random.default_rng(1)
    problems = ProblemSet([problem])
    genomes = trivial(size)
    genomes[:, ROWS], genomes[:, COLUMNS] = rng.integers(1, dim + 1, (2, size))
    genomes[:, T1] = rng.integers(1, 5, (size, 7))
    genomes[:, T2] = rng.integers(1, 4, (size, 7))
    genomes[:, ORDER] = rng.integers(0, len(NEST_ORDERS) - 1, size)
    tighten(genomes, np.repeat(problems.bounds, size, 0))
    counts = count(problems, np.zeros(size, dtype=np.int64), genomes, False)
    registers = np.array([axis in "PQN" for axis in AXES])[:, None]
    temporal, spatial = np.ones((4, 7, size), dtype=np.int64), np.ones((2, 7, size), dtype=np.int64)
    temporal[0] = np.where(registers, genomes[:, T1].T, 1)
    temporal[1] = np.where(registers, 1, genomes[:, T1].T)
    temporal[2], temporal[3] = genomes[:, T2].T, genomes[:, T3].T
    spatial[0, AXES.index("C")], spatial[1, AXES.index("K")] = genomes[:, ROWS], genomes[:, COLUMNS]
    order = np.full((4, size), NEST_ORDERS.index(INNER_ORDER))
    order[3] = genomes[:, ORDER]
    accelerator = gemmini_structure(dim, acc, sp)
    found = NestModel(problem, accelerator).cost(NestBatch(temporal, spatial, order))
    for level, accesses in enumerate((counts.a0, counts.a1, counts.a2, counts.a3)):
        np.testing.assert_allclose((found.reads + found.writes)[level], accesses.numpy(), rtol=1e-12)
    sizes = [torch.tensor(float(v), dtype=torch.float64) for v in (dim, acc, sp)]
    cycles = latency_terms(counts, sizes[0]).amax(0).numpy()
    np.testing.assert_allclose(found.latency_cycles, cycles, rtol=1e-12)
    energy = energy_terms(counts, *sizes, accelerator.energy).sum(0).numpy()
    np.testing.assert_allclose(found.energy_pj, energy, rtol=1e-12)


# ------------------------------------------------------------------------------------------- walking


class Walk:
    """Accesses of one nest by walking its loops, every instance of every level on its own, in plain Python.

    What an instance holds are sets of elements. The rule of reuse is the model's: while only the innermost loop
    that matters to the input moves, what was brought stays; when a loop further out moves, all comes afresh.
    """

    def __init__(self, problem, accelerator, temporal, spatial, order):
        self.problem = problem
        self.keeps = [memory.kept for memory in accelerator.levels]
        self.levels = len(self.keeps)
        axes = [level for level, memory in enumerate(accelerator.levels) for _ in memory.axes]
        # (level, is temporal, dimension, factor), outermost first; a level's axes lie inside its loops
        self.loops = []
        for level in reversed(range(self.levels)):
            for name in reversed(NEST_ORDERS[order[level]]):
                self.loops.append((level, True, name, int(temporal[level][AXES.index(name)])))
            for axis, own in enumerate(axes):
                if own == level:
                    self.loops += [(level, False, n, int(spatial[axis][i])) for i, n in enumerate(AXES)]
        self.loops = [loop for loop in self.loops if loop[3] > 1]

    def extent(self, level):
        """Extent of each dimension of the tile at a level."""
        size = dict.fromkeys(ALL, 1)
        for own, _, name, factor in self.loops:
            if own <= level:
                size[name] *= factor
        return size

    def elements(self, tensor, origin, size):
        """What a tile of a tensor holds; an input tile is the rectangle from its first to its last row and column."""
        p = self.problem
        spans = {name: range(origin[name], origin[name] + size[name]) for name in ALL}
        if tensor == "W":
            return set(itertools.product(*(spans[n] for n in "RSCK")))
        if tensor == "O":
            return set(itertools.product(*(spans[n] for n in "KPQN")))
        left = origin["P"] * p.stride_w + origin["R"]
        top = origin["Q"] * p.stride_h + origin["S"]
        width = (size["P"] - 1) * p.stride_w + size["R"]
        height = (size["Q"] - 1) * p.stride_h + size["S"]
        return set(
            itertools.product(spans["C"], spans["N"], range(left, left + width), range(top, top + height))
        )

    def brought(self, tensor, level, parent):
        """Words that instances of `level` take in, and words that instances of `parent` give for it."""
        relevant = {"W": "RSCK", "I": "RSCNPQ", "O": "KPQN"}[tensor]
        outside = [loop for loop in self.loops if loop[0] > level]
        # `outside` are the first of the loops; what a step of one is worth are all later ones of its dimension
        inner = [
            math.prod(f for *_, n, f in self.loops[i + 1 :] if n == outside[i][2])
            for i in range(len(outside))
        ]
        moving = [i for i, loop in enumerate(outside) if loop[1]]
        matter = [i for i in moving if outside[i][2] in relevant]
        innermost = matter[-1] if matter else None
        size = self.extent(level)
        own, given = {}, {}
        for place in itertools.product(*(range(loop[3]) for loop in outside)):
            origin = dict.fromkeys(ALL, 0)
            for i, at in enumerate(place):
                origin[outside[i][2]] += at * inner[i]
            # An epoch ends when a loop outside the innermost one that matters moves ...
            epoch = tuple(place[i] for i in moving if innermost is not None and i < innermost)
            if tensor != "I" and innermost is not None:
                epoch += (place[innermost],)  # ... for weights and outputs also when that one itself does.
            instance = tuple(place[i] for i, loop in enumerate(outside) if not loop[1])
            above = tuple(place[i] for i, loop in enumerate(outside) if not loop[1] and loop[0] > parent)
            held = self.elements(tensor, origin, size)
            own.setdefault((epoch, instance), set()).update(held)
            given.setdefault((epoch, above), set()).update(held)
        return sum(map(len, own.values())), sum(map(len, given.values()))

    def accesses(self):
        """(reads, writes) of every level."""
        steps = math.prod(f for _, temporal, _, f in self.loops if temporal)
        everything = math.prod(f for *_, f in self.loops)
        whole = self.extent(self.levels - 1)
        outputs = whole["K"] * whole["P"] * whole["Q"] * whole["N"]
        reads, writes = [0] * self.levels, [0] * self.levels
        for tensor, relevant in (("W", "RSCK"), ("I", "RSCNPQ"), ("O", "KPQN")):
            keepers = [level for level in range(self.levels) if tensor in self.keeps[level]]
            lanes = math.prod(
                f
                for level, temporal, name, f in self.loops
                if not temporal and (level > keepers[0] or name in relevant)
            )
            served = steps * lanes
            assert served <= everything
            for level, parent in itertools.zip_longest(keepers, keepers[1:]):
                own = given = 0
                if parent is not None:
                    own, given = self.brought(tensor, level, parent)
                if tensor == "O":
                    summed = math.prod(
                        f
                        for own_level, temporal, name, f in self.loops
                        if not temporal and own_level > level and name in "RSC"
                    )
                    writes[level] += served
                    reads[level] += served - outputs * summed + own
                else:
                    writes[level] += own
                    reads[level] += served
                served = given
        return reads, writes


TINY = [
    Problem(R=3, S=2, P=4, Q=4, C=2, K=4),
    Problem(R=2, S=3, P=3, Q=4, C=4, K=2, stride_w=2, stride_h=2),
    Problem(P=6, C=4, K=6),
    Problem(S=3, Q=6, C=2, K=2, N=2, stride_h=4),
]


@pytest.mark.parametrize("name", ["eyeriss", "nvdla-small"])
@pytest.mark.parametrize("problem", TINY, ids=str)
def test_accesses_are_those_of_walking_the_loops(name, problem):
    accelerator = load_analytical(name)
    model = NestModel(problem, accelerator)
    rng = np.random.default_rng(7)
    tried = 0
    while tried < 12:
        temporal = np.ones((model.levels, 7, 1), dtype=np.int64)
        spatial = np.ones((len(model.axis_size), 7, 1), dtype=np.int64)
        left = model.bounds.copy()
        for dim in range(7):  # exact factors, so that walking and padding agree
            for factors, allowed in [
                *zip(spatial, model.axis_dims, strict=True),
                *zip(temporal[:-1], model.loop_dims[:-1], strict=True),
            ]:
                divisors = [f for f in range(1, int(left[dim]) + 1) if left[dim] % f == 0]
                factors[dim, 0] = rng.choice(divisors) if allowed[dim] else 1
                left[dim] //= factors[dim, 0]
        order = rng.integers(0, len(NEST_ORDERS), (model.levels, 1))
        nest = model.close(NestBatch(temporal, spatial, order))
        if not model.fits(nest)[0]:
            continue
        tried += 1
        found = model.cost(nest)
        walk = Walk(problem, accelerator, nest.temporal[..., 0], nest.spatial[..., 0], order[:, 0])
        reads, writes = walk.accesses()
        np.testing.assert_array_equal(found.reads[:, 0], reads)
        np.testing.assert_array_equal(found.writes[:, 0], writes)
        assert found.macs[0] == problem.macs


def test_energy_and_latency_of_a_nest_by_hand():
    """4x4x4 product on NVDLA-small: one pass of the array holds all weights, pixels stream past."""
    accelerator = load_analytical("nvdla-small")
    model = NestModel(Problem(P=4, C=4, K=4), accelerator)
    temporal = np.ones((4, 7, 1), dtype=np.int64)
    spatial = np.ones((2, 7, 1), dtype=np.int64)
    temporal[0, AXES.index("P")] = 4
    spatial[0, AXES.index("C")] = spatial[1, AXES.index("K")] = 4
    nest = NestBatch(temporal, spatial, np.zeros((4, 1), dtype=np.int64))
    assert model.fits(nest)[0]
    found = model.cost(nest)
    # registers: 64 reads, 16 writes; accumulators: 16 updates, first ones read nothing, 16 leave;
    # buffer: 16 + 16 words in, 16 weights and 16 inputs out; DRAM: 32 read, 16 written, no partial sum returns
    np.testing.assert_array_equal(found.reads[:, 0], [64, 16, 32, 32])
    np.testing.assert_array_equal(found.writes[:, 0], [16, 16, 32, 16])
    expected = 0.5608 * 64 + 0.48746 * 80 + (1.94 + 0.1005 * 2) * 32 + (0.49 + 0.02513 * 128) * 64 + 100 * 48
    assert found.energy_pj[0] == pytest.approx(expected, rel=1e-12)
    assert found.latency_cycles[0] == 48 / 8  # DRAM binds; computing takes 4 cycles


def test_what_does_not_fit_is_refused():
    model = NestModel(Problem(P=4, C=32, K=32), load_analytical("nvdla-small"))

    def nest(level, axis, dim, factor):
        temporal, spatial = np.ones((4, 7, 1), dtype=np.int64), np.ones((2, 7, 1), dtype=np.int64)
        (spatial if axis is not None else temporal)[axis if axis is not None else level, AXES.index(dim)] = (
            factor
        )
        return model.fits(model.close(NestBatch(temporal, spatial, np.zeros((4, 1), dtype=np.int64))))[0]

    assert nest(None, 0, "C", 8)
    assert not nest(None, 0, "C", 9)  # wider than the array
    assert not nest(None, 0, "K", 2)  # channels of input only
    assert nest(0, None, "P", 512)
    assert not nest(0, None, "P", 513)  # more than an accumulator holds
    assert not nest(0, None, "K", 2)  # a multiplier has one weight


# ------------------------------------------------------------------------------------------- searching


def _splits(size, parts):
    """All ways to cover `size` by products of that many factors, the last one as small as possible."""
    if parts == 1:
        yield (size,)
        return
    for first in range(1, size + 1):
        for rest in _splits(-(-size // first), parts - 1):
            yield (first, *rest)


@pytest.mark.parametrize("name", some(1, analytical_names()))
def test_search_finds_what_trying_all_nests_finds(name):
    problem = Problem(P=6, C=10, K=5)
    model = NestModel(problem, load_analytical(name))
    dims = [AXES.index(n) for n in "PCK"]
    places = {
        d: [("t", level) for level in range(model.levels - 1) if model.loop_dims[level, d]]
        + [("s", axis) for axis in range(len(model.axis_size)) if model.axis_dims[axis, d]]
        for d in dims
    }
    ways = [[w[:-1] for w in _splits(int(model.bounds[d]), len(places[d]) + 1)] for d in dims]
    best = np.inf
    chosen = list(itertools.product(*ways))
    for start in range(0, len(chosen), 20_000):
        part = chosen[start : start + 20_000]
        temporal = np.ones((model.levels, 7, len(part)), dtype=np.int64)
        spatial = np.ones((len(model.axis_size), 7, len(part)), dtype=np.int64)
        for i, d in enumerate(dims):
            for k, (kind, where) in enumerate(places[d]):
                (temporal if kind == "t" else spatial)[where, d] = [factors[i][k] for factors in part]
        base = model.close(NestBatch(temporal, spatial, np.zeros((model.levels, len(part)), dtype=np.int64)))
        base = base.take(model.fits(base))
        for orders in itertools.product(
            range(3), repeat=model.levels - 1
        ):  # of products, three orders differ
            base.order[1:] = np.array(orders)[:, None]
            costs = model.cost(base)
            best = min(best, float((costs.energy_pj * 1e-6 * costs.latency_cycles).min()))
    assert search_nests(problem, load_analytical(name)).edp == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize(
    "problem",
    some(
        2, [Problem(R=3, S=3, P=14, Q=14, C=256, K=256), Problem(K=250, C=3000), Problem(P=100, K=200, C=50)]
    ),
    ids=str,
)
def test_search_comes_near_the_proven_optimum(problem):
    space = dataclasses.replace(
        load_space("reference"), dim=(16,), accumulator_kib=(64,), scratchpad_kib=(256,)
    )
    optimum = certify([Task("one", problem, 1.0)], space, tolerance=1e-4)
    found = search_nests(problem, gemmini_structure(16, 64, 256)).edp
    # The nests are a superset of the genomes of the exact solver (any order at any level).
    assert optimum.bound * 0.9 < found <= optimum.best * 1.02


def test_network_is_the_product_of_sums():
    small, large = Problem(P=20, C=16, K=16), Problem(P=50, C=64, K=32)
    accelerator = load_analytical("nvdla-small")
    one = search_network([Task("n", small, 1.0)], accelerator)
    twice = search_network([Task("n", small, 2.0)], accelerator)
    assert twice.edp == pytest.approx(4 * one.edp)
    assert one.edp == pytest.approx(search_nests(small, accelerator).edp, rel=0.01)
    both = search_network([Task("n", small, 3.0), Task("n", large, 1.0)], accelerator)
    fronts = [search_nests(p, accelerator) for p in (small, large)]
    least = min(
        (3 * a + b) * 1e-6 * (3 * c + d)
        for a, c in zip(fronts[0].energy_pj, fronts[0].latency_cycles, strict=True)
        for b, d in zip(fronts[1].energy_pj, fronts[1].latency_cycles, strict=True)
    )
    assert both.edp == pytest.approx(least, rel=0.01)


def test_same_seed_same_result():
    problem = Problem(R=3, S=3, P=20, Q=20, C=24, K=40)
    first, second = (search_nests(problem, load_analytical("eyeriss"), seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.energy_pj, second.energy_pj)
    np.testing.assert_array_equal(first.nests.temporal, second.nests.temporal)


# ------------------------------------------------------------------------------------------- descriptions


def test_multipliers_are_those_of_the_published_machines():
    assert {name: load_analytical(name).multipliers for name in analytical_names()} == {
        "eyeriss": 14 * 12,
        "nvdla-small": 8 * 8,
        "nvdla-large": 64 * 16,
    }


def test_an_unknown_name_is_an_error_with_a_hint():
    with pytest.raises(InputError, match="unknown analytical accelerator 'nvdla-smal'") as caught:
        load_analytical("nvdla-smal")
    assert "nvdla-small" in (caught.value.hint or "")


def test_the_outermost_level_keeps_everything():
    with pytest.raises(ValueError, match="outermost level must keep"):
        AnalyticalAccelerator(
            name="x",
            levels=(
                Memory(name="a", stores=(Store(tensors=("W",), words=1),), loops=("P",), energy="register"),
                Memory(name="b", stores=(Store(tensors=("W", "I")),), loops=ALL, energy="dram"),
            ),
        )
