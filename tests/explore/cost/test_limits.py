"""Limits are below everything: brute force, both models in both spaces, and all that was ever measured on the RTL."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from baco.accel.input_format import InputFormat
from baco.accel.presets import load_accelerator
from baco.accel.technology import PUBLISHED
from baco.bench.exhaustive import all_mappings, enumerate_all
from baco.bench.sets.dataset import dataset_path, read_dataset
from baco.bench.sets.spaces import published_space
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import parse_layer
from baco.exploration.candidate import BatchSummary, Candidate, CostModelName
from baco.exploration.cost import limits
from baco.exploration.cost.fitting_limits import least_edp
from baco.exploration.cost.genome import ProblemSet, count
from baco.exploration.cost.infeasible import impossible
from baco.exploration.cost.limits import LeastCosts, limits_of, touched
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.proof import BOUND, PHASE
from baco.exploration.cost.reference import energy_terms, latency_terms
from baco.exploration.cost.tiles import Point
from baco.exploration.objective import METRICS, Objective, metric
from baco.exploration.report.study_report import _bounds as shown_bounds
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.archive import Archive
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.space.constraints import Constraints
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network, network_names
from baco.workloads.network import Task, Workload
from baco.workloads.problem import Problem
from tests.explore.cost.random_layers import random_layer
from tests.explore.study_helpers import small_workload
from tests.seeds import seeds

GEMMINI, REFERENCE = load_space("gemmini"), load_space("reference")
FLOWS = (("WS",), ("OS",), ("WS", "OS"))
Floats = NDArray[np.float64]


def test_touched_is_the_size_of_the_set() -> None:
    cases = itertools.product(range(1, 8), range(1, 6), range(1, 5), range(1, 5))
    for results, window, stride, dilation in cases:
        pixels = {x * stride + y * dilation for x in range(results) for y in range(window)}
        assert touched(results, window, stride, dilation) == len(pixels)
        for before, size in ((0, 3), (1, 4), (2, 9), (5, 2)):
            inside = sum(before <= pixel < before + size for pixel in pixels)
            assert limits._inside(results, window, stride, dilation, before, size) <= inside
    # as networks have it, little is given away
    for stride, window, pixels, size in ((1, 3, 56, 56), (2, 3, 28, 56), (1, 1, 14, 14), (2, 7, 112, 224)):
        before = (window - 1) // 2
        whole = {x * stride + y for x in range(pixels) for y in range(window)}
        inside = sum(before <= pixel < before + size for pixel in whole)
        found = limits._inside(pixels, window, stride, 1, before, size)
        assert found >= 0.9 * inside


def random_problem(rng: np.random.Generator, most: int = 6000) -> Problem:
    """Few enough mappings to try them all."""
    while True:
        dims = dict.fromkeys("RSPQCKN", 1)
        for name in rng.choice(list("RSPQCKN"), 3, replace=False):
            dims[str(name)] = int(rng.integers(2, 7))
        if np.prod([v ** (2.4 if d in "CKP" else 1.7) for d, v in dims.items()]) < most:
            break
    stride, dilation = (int(x) for x in rng.integers(1, 4, 2))
    return Problem(**dims, stride_w=stride, dilation_w=dilation, groups=int(rng.integers(1, 3)))


def own(
    problem: Problem, space: DesignSpace, point: Point, layer: Layer | None = None
) -> tuple[float, float]:
    """Least energy and cycles of one run of a problem on one accelerator."""
    found = limits_of((Task("net", problem, 1.0),), space, None if layer is None else [layer])
    point_ = space.points(*([size] for size in (point.dim, point.accumulator_kib, point.scratchpad_kib)))
    energy, cycles = found.at(point_)
    return float(energy[0, 0]), float(cycles[0, 0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("flows", FLOWS)
def test_no_mapping_of_the_reference_model_is_below(flows: tuple[str, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 1000)
    for base in (GEMMINI, REFERENCE):
        space = dataclasses.replace(base, dim=(2, 4), dataflows=flows)
        points = [Point(2, 1, 1), Point(4, 2, 4)]
        truth = enumerate_all(problem, points, space, (0.0, math.inf))
        for point, (cycles, energy) in zip(points, truth.least, strict=True):
            least_energy, least_cycles = own(problem, space, point)
            assert least_energy <= energy * (1 + 1e-12), problem
            assert least_cycles <= cycles * (1 + 1e-12), problem


def test_limits_are_reached() -> None:
    """A product that fits whole costs nothing beyond its limit in the reference model."""
    space = dataclasses.replace(REFERENCE, dim=(4,), dataflows=("WS",))
    problem, point = Problem(P=4, C=4, K=4), Point(4, 64, 64)
    truth = enumerate_all(problem, [point], space, (0.0, math.inf)).least[0]
    energy, cycles = own(problem, space, point)
    assert cycles == pytest.approx(truth[0], rel=1e-9)
    assert energy == pytest.approx(truth[1], rel=1e-9)


def test_limits_in_units_are_rows_of_the_array() -> None:
    """In a unit nothing but the array counts: a row of it for every pixel, position and block, of products half (attention may leave
    out what lies behind the diagonal)."""
    space = dataclasses.replace(GEMMINI, dim=(4, 16), dataflows=("WS",))
    for problem, share in (
        (Problem(R=3, S=2, P=5, Q=7, C=32, K=48), 1.0),
        (Problem(P=40, C=64, K=16, groups=3), 0.5),
    ):
        least = limits_of((Task("net", problem, 1.0),), space, [Layer(problem)], fused=True)
        for side, cycles in zip(space.dim, least.cycles[0], strict=True):
            rows = sum(
                len(range(0, problem.C, side)) * len(range(0, problem.K, side))
                for _ in range(problem.groups * problem.P * problem.Q * problem.R * problem.S)
            )
            assert cycles == pytest.approx(share * rows)


def check_layers(flows: tuple[str, ...], number: int, form: InputFormat = "integer") -> None:
    """What the first batches of searches predict for random layers, on all accelerators, against limits."""
    rng = np.random.default_rng(len(flows[0]) + len(flows))
    base = GEMMINI.base if form == "integer" else GEMMINI.base.replace(technology=PUBLISHED)
    space = dataclasses.replace(GEMMINI, base=base, dim=(4, 16), dataflows=flows).of_format(form)
    hardware = space.hardware().floats()
    compared = packed = 0
    while compared < number:
        layer = random_layer(rng)
        if form != "integer":
            scale = None if layer.scale is None else 0.5
            layer = dataclasses.replace(layer, elements=form, residual_scale=None, scale=scale)
        task = Task("net", layer.problem, 1.0)
        model = make_cost_model("instruction", [layer], space)
        setup = SearchSetup((task,), space, Objective.parse("edp"), None, compared, model)
        searcher = make_searcher("local", setup)
        searcher.step()
        archive: Archive = searcher.archive  # type: ignore[attr-defined]
        energy, cycles = limits_of((task,), space, [layer]).at(hardware)
        pj, latency = archive.costs(0, hardware)
        ran = np.isfinite(pj)
        assert ran.any()
        assert (cycles[0][:, None] <= latency)[ran].all(), layer
        assert (energy[0][:, None] <= pj)[ran].all(), layer
        rows = archive.genomes[0]
        packed += int((archive.problems.packed(np.zeros(len(rows), np.int64), rows) > 1).any())
        compared += 1
    assert packed > 0 or flows == ("OS",) or form != "integer"


@pytest.mark.parametrize("flows", FLOWS)
def test_no_mapping_of_the_instruction_aware_model_is_below(flows: tuple[str, ...]) -> None:
    check_layers(flows, 7)


def test_elements_of_16_bits() -> None:
    """Limits know how many bytes cross the channel, and nothing that is predicted is below."""
    layer = Layer(Problem(P=64, C=48, K=32), elements="bf16")
    least = limits._compiled(
        layer, np.array([16.0]), load_accelerator("gemmini-default").in_format("bf16"), "WS"
    )
    assert least.a3 == 2 * (64 * 48 + 48 * 32 + 64 * 32)
    raw = dataclasses.replace(layer, scale=None)
    least = limits._compiled(
        raw, np.array([16.0]), load_accelerator("gemmini-default").in_format("bf16"), "WS"
    )
    assert least.a3 == 2 * (64 * 48 + 48 * 32) + 4 * 64 * 32
    check_layers(("WS",), 6, "bf16")


@pytest.mark.slow
@pytest.mark.parametrize("flows", FLOWS)
def test_no_mapping_of_many_layers_is_below(flows: tuple[str, ...]) -> None:
    check_layers(flows, 400)


@pytest.mark.parametrize("name", ["micro", "train", "test"])
def test_nothing_measured_is_below(name: str) -> None:
    """Cycles and counted energy of every row of the shipped sets, term by term."""
    data = read_dataset(dataset_path(name))
    assert len(data) > 500
    nearest = math.inf
    for row in data.rows:
        layer, accelerator, n = parse_layer(row.layer), data.configurations[row.accelerator], row.numbers
        sides = np.array([float(accelerator.dim)])
        flow = "OS" if "L0[O]" in row.mapping else "WS"
        least = limits._compiled(layer, sides, accelerator, flow)
        counted = {
            "macs": n["macs"],
            "a0": n["macs"] + n["stationary_words"],
            "a1": n["accumulator_read_words"] + n["accumulator_write_words"],
            "a2": n["scratchpad_read_bytes"] + n["scratchpad_write_bytes"],
            "a3": n["dram_read_bytes"] + n["dram_write_bytes"],
            "cycles": n["cycles"],
        }
        for what, value in counted.items():
            assert float(np.max(getattr(least, what))) <= value, (name, row.index, what)
        nearest = min(nearest, n["cycles"] / float(least.cycles[0]))
    assert nearest < 1.02, "some row is all but at its limit"


def seeded_ratios(
    network: str, base: DesignSpace, model_name: str, objective: str, batches: int
) -> list[float]:
    """EDP over its limit of every design that the first batches of a search find."""
    workload = Workload.of([load_network(network)], [1.0])
    layers = layers_of_tasks(workload.tasks, workload)
    model = make_cost_model(model_name, layers, base)  # type: ignore[arg-type]
    compiled = model_name == "instruction"
    limits = limits_of(workload.tasks, base, layers if compiled else None)
    searcher = make_searcher(
        "local", SearchSetup(workload.tasks, base, Objective.parse(objective), None, 0, model)
    )
    found = [metric(one.cost, "edp") for _ in range(batches) for one in searcher.step().candidates]
    limit = least_edp(limits, layers, min(found)) if compiled else limits.edp
    return [edp / limit for edp in found]


@pytest.mark.usefixtures("short_networks")
@pytest.mark.parametrize("network", ["mobilenet_v2", "deepbench_face"])
@pytest.mark.parametrize(
    ("space", "model"), [("gemmini", "instruction"), ("gemmini", "reference"), ("reference", "reference")]
)
def test_designs_of_networks_are_above_their_limit(network: str, space: str, model: str) -> None:
    flows = ("WS",) if model == "instruction" else ("WS", "OS")
    base = dataclasses.replace(load_space(space), dataflows=flows, dim=(4, 16, 64))
    assert min(seeded_ratios(network, base, model, "edp", 1)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("network", network_names())
def test_designs_of_all_networks_spaces_dataflows_and_objectives_are_above(network: str) -> None:
    pairs = [("gemmini", "instruction"), ("gemmini", "reference"), ("reference", "reference")]
    for (space, model), flows, objective in itertools.product(pairs, FLOWS, METRICS):
        base = dataclasses.replace(load_space(space), dataflows=flows)
        assert min(seeded_ratios(network, base, model, objective, 3)) >= 1, (space, model, flows, objective)


def test_only_limits_that_hold_for_the_best_design_are_shown() -> None:
    """Of one design: predicted by either model, and measured, whatever model the search believed."""
    space = dataclasses.replace(GEMMINI, dim=(4, 8), scratchpad_kib=(16, 32), accumulator_kib=(4, 8))
    workload = small_workload(32)
    layers = layers_of_tasks(workload.tasks, workload)
    model = make_cost_model("reference", layers, space)
    searcher = make_searcher(
        "local", SearchSetup(workload.tasks, space, Objective.parse("edp"), None, 0, model)
    )
    best = searcher.step().candidates[0]
    measured = dataclasses.replace(best, cost=dataclasses.replace(best.cost, source="measured"))
    proof = BatchSummary(0, 1, 1.0, best.objective, PHASE, {BOUND: best.cost.edp * 0.99})

    def shown(candidate: Candidate, cost_model: CostModelName, *history: BatchSummary) -> dict[str, bool]:
        bounds = shown_bounds(candidate, space, layers, history, cost_model, None)
        assert bounds == sorted(bounds, key=lambda bound: bound.edp)
        return {bound.name: bound.predicted for bound in bounds}

    assert shown(best, "reference") == {"compulsory traffic": True, "capacity": True}
    assert shown(best, "reference", proof) == {"compulsory traffic": True, "proven": True}
    assert shown(best, "instruction") == {"compulsory work": True, "capacity": True}
    assert shown(measured, "instruction") == {"compulsory work": True}
    assert shown(measured, "reference", proof) == {"compulsory work": False}


# ---------------------------------------------------------------------- impossible constraints


def all_costs(problem: Problem, space: DesignSpace) -> Floats:
    """(n, 3) of every mapping on every accelerator: pJ, cycles, mm²; by brute force, with the reference model, by published energies."""
    problems, points, found = ProblemSet([problem]), space.hardware(), []
    for dim, acc, sp, area in zip(
        points.dim, points.accumulator_kib, points.scratchpad_kib, points.area_mm2, strict=True
    ):
        for rows in all_mappings(problem, int(dim), space):
            counts = count(problems, np.zeros(len(rows), np.int64), rows, space.double_buffer)
            side, a, s = (torch.tensor(float(v), dtype=torch.float64) for v in (dim, acc, sp))
            pj = energy_terms(counts, side, a, s, space.base.energy).sum(0).numpy()
            cycles = latency_terms(counts, side, space.base.dram_bytes_per_cycle).amax(0).numpy()
            watts = area * (
                space.base.energy.leakage_mw_per_mm2 * 1e-3 + space.base.energy.clock_pj_per_mm2 * 1e-3
            )
            pj = pj + watts * 1e3 * cycles  # at 1 GHz, a cycle of a watt is 1,000 pJ
            found.append(np.stack([pj, cycles, np.full(len(pj), area)], 1))
    return np.concatenate(found)


@pytest.mark.parametrize("seed", seeds(1, of=3))
def test_what_is_called_impossible_is(seed: int) -> None:
    """Bounds all around what can be reached: never is one called impossible that some mapping meets."""
    rng = np.random.default_rng(seed)
    base = dataclasses.replace(
        published_space(), dim=(2, 4), accumulator_kib=(1, 2), scratchpad_kib=(1, 4), dataflows=("WS", "OS")
    )
    problem = random_problem(rng, 500)
    costs = all_costs(problem, base)
    task = Task("net", problem, 1.0)
    claims = refuted = 0
    for _ in range(200):
        pj, cycles, area = costs[rng.integers(len(costs))] * rng.uniform(0.3, 1.3, 3)
        power = pj / cycles * base.base.clock_mhz * 1e-3
        every = {"latency_cycles": cycles, "energy_uj": pj * 1e-6, "power_mw": power, "area_mm2": area}
        chosen = {name: value for name, value in every.items() if rng.random() < 0.6}
        space = dataclasses.replace(base, constraints=Constraints(**chosen))
        if not len(space.hardware()):
            continue
        values = {
            "latency_cycles": costs[:, 1],
            "energy_uj": costs[:, 0] * 1e-6,
            "power_mw": costs[:, 0] / costs[:, 1] * base.base.clock_mhz * 1e-3,
            "area_mm2": costs[:, 2],
        }
        meets = np.logical_and.reduce(
            [np.ones(len(costs), bool), *(values[n] <= b for n, b in chosen.items())]
        ).any()
        proof = impossible(limits_of((task,), space, None))
        refuted += not meets
        if proof is not None:
            claims += 1
            assert not meets, (problem, chosen, proof)
            for path, least in proof.least.items():
                assert least > chosen[path]
    assert claims > 0.2 * refuted


def test_the_power_of_what_must_be_fast() -> None:
    """Beyond what idle silicon takes, power is bounded by latency alone; networks that each are bounded bound the workload."""
    tasks = (Task("a", Problem(P=64, C=64, K=64), 2.0, weight=2.0), Task("b", Problem(P=32, C=64, K=64), 1.0))
    free: LeastCosts = limits_of(tasks, GEMMINI, None)
    energy, cycles = free.at(free.points())
    pj, needed = free.workload(energy), free.workload(cycles)
    slow = float(needed.max())
    points = free.points()
    idle = GEMMINI.static_pj_of(
        np.ones(len(points)), points.dim, points.accumulator_kib, points.scratchpad_kib, points.units
    )

    def proof(**bounds: object) -> bool:
        constraints = Constraints.model_validate(bounds)
        return (
            impossible(limits_of(tasks, dataclasses.replace(GEMMINI, constraints=constraints), None))
            is not None
        )

    assert proof(power_mw=1e-6)  # less than any accelerator takes that does nothing
    # in the time that is left, what work takes, and idle silicon all the while
    watts = float(((pj - idle * needed) / slow + idle).min()) * GEMMINI.base.clock_mhz * 1e-3
    assert proof(power_mw=watts * 0.99, latency_cycles=slow)
    assert not proof(power_mw=watts * 0.99)
    assert not proof(power_mw=watts * 1.01, latency_cycles=slow)
    both = {"a": {"latency_cycles": slow / 4}, "b": {"latency_cycles": slow / 2}}
    assert proof(power_mw=watts * 0.99, networks=both)
    assert not proof(power_mw=watts * 0.99, networks={"a": {"latency_cycles": slow / 4}})
