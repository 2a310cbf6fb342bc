"""Searching with the instruction-aware model: against brute force, the compiler, and the model itself."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.compiler.choice.choose import choose
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.styles.registry import mapping_of
from baco.exploration.candidate import Candidate
from baco.exploration.cost.choice import check_cost_model, default_cost_model
from baco.exploration.cost.genome import (
    C_AXIS,
    COLUMNS,
    FLOW,
    K_AXIS,
    MACRO_ORDER_INDEX,
    ONCE,
    ORDER,
    ORDERS,
    ROWS,
    T1,
    T2,
    T3,
    Genomes,
    macro_flow,
    tighten,
    to_mapping,
    trivial,
)
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.objective import Objective
from baco.exploration.report.study_report import report_data
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.archive import Archive
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.search.tilings import in_macro_form
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.network import Network, Operator, Task, Tensor, Workload
from baco.workloads.problem import Problem
from tests.explore.genome_helpers import random_rows
from tests.explore.study_helpers import content, small_workload

EDP = Objective.parse("edp")
WORKLOAD = small_workload(32)
SPACE = DesignSpace(
    name="small",
    rules="gemmini",
    base=load_accelerator("gemmini-default"),
    dim=(4, 8, 16),
    scratchpad_kib=(8, 16, 64),
    accumulator_kib=(4, 16),
    dataflows=("WS",),
    double_buffer=True,
)


def model_of(workload: Workload, space: DesignSpace) -> InstructionModel:
    model = make_cost_model("instruction", layers_of_tasks(workload.tasks, workload), space)
    assert isinstance(model, InstructionModel)
    return model


def search(workload: Workload, space: DesignSpace, samples: int, seed: int = 0) -> Candidate:
    tasks = workload.tasks
    searcher = make_searcher(
        "gradient",
        SearchSetup(tasks, space, EDP, samples * len(tasks), seed, model_of(workload, space)),
    )
    best: Candidate | None = None
    while True:
        result = searcher.step()
        assert result.evaluations <= samples * len(tasks)
        for candidate in result.candidates:
            if best is None or candidate.objective < best.objective:
                best = candidate
        if result.done:
            assert best is not None
            return best


def one_layer(problem: Problem) -> Workload:
    given, made = Tensor("in", (problem.P, problem.C)), Tensor("out", (problem.P, problem.K))
    return Workload.of([Network("one", (given,), (Operator("mm", "matmul", ("in",), made, problem),))])


def test_what_the_archive_says_is_what_the_model_predicts_of_the_mapping() -> None:
    model = model_of(WORKLOAD, SPACE)
    archive = Archive(WORKLOAD.tasks, SPACE, model)
    rng = np.random.default_rng(0)
    task = rng.integers(0, len(WORKLOAD.tasks), 160)
    bounds = archive.problems.bounds[task]
    rows = random_rows(bounds, 16, rng)
    rows[:, FLOW] = 0
    tighten(rows, bounds)
    dim = rng.choice(np.array([4, 8, 16]), len(rows))
    rows = np.concatenate([model.styled(task, rows), in_macro_form(rows, bounds, dim)])
    task = np.concatenate([task, task])
    archive.add(task, rows)
    compared = {"macro": 0, "explicit": 0}
    for point in ((4, 16, 64), (8, 16, 64), (16, 16, 64)):
        accelerator = SPACE.accelerator(*point)
        for layer in range(len(WORKLOAD.tasks)):
            groups = WORKLOAD.tasks[layer].problem.groups
            energy, cycles = archive.costs(layer, archive.point(point))
            usable = np.flatnonzero(np.isfinite(cycles[0]))
            mappings = [to_mapping(archive.genomes[layer][k], groups, True) for k in usable]
            predicted = predict_layers([model.layers[layer]] * len(mappings), mappings, accelerator)
            for k, mapping, one in zip(usable, mappings, predicted, strict=True):
                assert cycles[0, k] == pytest.approx(float(one.cycles), rel=1e-6), mapping
            own = InstructionModel([model.layers[layer]] * len(mappings), SPACE)
            for k, cost in zip(usable, own.layer_costs(mappings, accelerator), strict=True):
                assert cost.latency_cycles == pytest.approx(cycles[0, k], rel=1e-6)
                assert cost.energy_pj == pytest.approx(energy[0, k])
                assert cost.style is not None
                compared[cost.style] += 1
                assert cost.bottleneck in ("compute", "memory", "load", "store", "issue")
    assert min(compared.values()) > 30


def every_row(problem: Problem, side: int) -> Genomes:
    """All tight mappings of a matrix product for an array of `side`, weight-stationary: of explicit code and macros."""
    splits = {}
    for axis, bound, most in (("P", problem.P, 1), ("C", problem.C, side), ("K", problem.K, side)):
        found = set()
        for spatial, inner, middle in itertools.product(
            range(1, most + 1), range(1, bound + 1), range(1, bound + 1)
        ):
            if spatial * inner * middle < 2 * bound:
                found.add((spatial, inner, middle, -(-bound // (spatial * inner * middle))))
        # none that covers the bound with a larger factor than it needs
        splits[axis] = [
            s
            for s in found
            if all(np.prod([*s[:n], s[n] - 1, *s[n + 1 :]]) < bound for n in range(4) if s[n] > 1)
        ]
    rows = []
    axes = {"P": 4, "C": C_AXIS, "K": K_AXIS}
    for combination in itertools.product(*splits.values()):
        row = trivial(1)[0]
        for (axis, place), (spatial, *levels) in zip(axes.items(), combination, strict=True):
            if axis != "P":
                row[ROWS if axis == "C" else COLUMNS] = spatial
            for block, factor in zip((T1, T2, T3), levels, strict=True):
                row[block.start + place] = factor
        rows.append(row)
    plain = np.stack(rows)
    orders = np.repeat(plain, len(ORDERS), axis=0)
    orders[:, ORDER] = np.tile(np.arange(len(ORDERS)), len(plain))
    tilings = np.repeat(plain[(plain[:, T2] == 1).all(1)], 2, axis=0)
    tilings[:, FLOW] = macro_flow(np.array(side))
    tilings[:, ORDER] = np.tile(MACRO_ORDER_INDEX, len(tilings) // 2)
    return np.concatenate([orders, tilings])


@pytest.mark.slow
def test_finds_the_optimum_of_a_small_layer() -> None:
    workload = one_layer(Problem(P=9, C=10, K=6))
    space = DesignSpace(
        name="tiny",
        rules="gemmini",
        base=load_accelerator("gemmini-default"),
        dim=(2, 4),
        scratchpad_kib=(1, 2),
        accumulator_kib=(1, 2),
        dataflows=("WS",),
        double_buffer=True,
    )
    archive = Archive(workload.tasks, space, model_of(workload, space))
    for side in space.dim:
        rows = every_row(workload.tasks[0].problem, side)
        archive.add(np.zeros(len(rows), dtype=np.int64), rows)
    hardware = space.hardware().floats()
    energy, cycles = archive.costs(0, hardware)
    optimum = np.nanmin(energy * cycles) * 1e-6
    found = search(workload, space, 4000)
    assert optimum * (1 - 1e-9) <= found.cost.edp <= optimum * 1.002


def powers_of_two(problem: Problem, side: int) -> Genomes:
    """All mappings of a matrix product that fill an array of `side` with factors that are powers of two, explicit code,
    every tensor held once or twice."""
    splits = [
        [
            (1 << a, 1 << b, blocks >> (a + b))
            for a in range(blocks.bit_length())
            for b in range(blocks.bit_length() - a)
        ]
        for blocks in (problem.P, problem.C // side, problem.K // side)
    ]
    plain = trivial(len(splits[0]) * len(splits[1]) * len(splits[2]))
    plain[:, [ROWS, COLUMNS]] = side
    for row, factors in zip(plain, itertools.product(*splits), strict=True):
        for axis, levels in zip((4, C_AXIS, K_AXIS), factors, strict=True):
            for block, factor in zip((T1, T2, T3), levels, strict=True):
                row[block.start + axis] = factor
    rows = np.repeat(plain, 8 * len(ORDERS), axis=0)
    rows[:, ORDER] = np.tile(np.repeat(np.arange(len(ORDERS)), 8), len(plain))
    rows[:, ONCE] = np.tile(np.arange(8), len(plain) * len(ORDERS))
    return rows


def test_finds_tiles_that_are_better_held_once() -> None:
    """In memories this small, room for larger tiles is worth more than loading ahead."""
    workload = one_layer(Problem(P=32, C=128, K=64))
    space = DesignSpace(
        name="tight",
        rules="gemmini",
        base=load_accelerator("gemmini-default"),
        dim=(8,),
        scratchpad_kib=(1,),
        accumulator_kib=(1,),
        dataflows=("WS",),
        double_buffer=True,
    )
    archive = Archive(workload.tasks, space, model_of(workload, space))
    rows = powers_of_two(workload.tasks[0].problem, 8)
    accumulator, scratchpad = archive.load(
        np.zeros(len(rows), dtype=np.int64), rows, np.tile([8.0, 1.0, 1.0], (len(rows), 1))
    )
    rows = rows[(accumulator <= 1) & (scratchpad <= 1)]
    archive.add(np.zeros(len(rows), dtype=np.int64), rows)
    energy, cycles = archive.costs(0, archive.point((8.0, 1.0, 1.0)))
    edp = (energy * cycles)[0] * 1e-6
    twice = archive.genomes[0][:, ONCE] == 0
    assert np.nanmin(edp) < 0.6 * np.nanmin(edp[twice])
    found = search(workload, space, 3000)
    assert found.cost.edp <= np.nanmin(edp) * (1 + 1e-9)
    assert 1 in found.mappings[0].buffering


def test_the_best_of_all_mappings_with_any_copies_is_found() -> None:
    """Every mapping of a product that a scratchpad of 64 rows does not hold, each tensor held once or twice: the best
    needs single copies, and the search ends at it."""
    workload = one_layer(Problem(P=36, C=17))
    space = dataclasses.replace(SPACE, name="one", dim=(16,), scratchpad_kib=(1,), accumulator_kib=(2,))
    plain = every_row(workload.tasks[0].problem, 16)
    rows = np.repeat(plain, 8, axis=0)
    rows[:, ONCE] = np.tile(np.arange(8), len(plain))
    rows = rows[(rows[:, FLOW] == 0) | (rows[:, ONCE] == 0)]  # macros hold everything twice
    archive = Archive(workload.tasks, space, model_of(workload, space))
    load = archive.load(np.zeros(len(rows), dtype=np.int64), rows, np.tile([16.0, 2.0, 1.0], (len(rows), 1)))
    rows = rows[np.maximum(*load) <= 1]
    archive.add(np.zeros(len(rows), dtype=np.int64), rows)
    energy, cycles = archive.costs(0, archive.point((16.0, 2.0, 1.0)))
    edp = (energy * cycles)[0] * 1e-6
    assert edp.min() < 0.98 * edp[archive.genomes[0][:, ONCE] == 0].min()
    found = search(workload, space, 500)
    assert found.cost.edp == pytest.approx(edp.min(), rel=1e-9)
    assert 1 in found.mappings[0].buffering


@pytest.mark.parametrize("samples", [60, 1500])
def test_is_never_worse_than_the_compilers_own_schedules(samples: int) -> None:
    found = search(WORKLOAD, SPACE, samples)
    layers = layers_of_tasks(WORKLOAD.tasks, WORKLOAD)
    schedules = [choose(layer, found.accelerator) for layer in layers]
    mappings = [
        mapping_of(layer, schedule, found.accelerator)
        for layer, schedule in zip(layers, schedules, strict=True)
    ]
    costs = model_of(WORKLOAD, SPACE).layer_costs(mappings, found.accelerator)
    counts = [task.count for task in WORKLOAD.tasks]
    latency = sum(n * one.latency_cycles for n, one in zip(counts, costs, strict=True))
    energy = sum(n * one.energy_pj for n, one in zip(counts, costs, strict=True))
    assert found.cost.edp <= latency * energy * 1e-6 * (1 + 1e-9)


@pytest.mark.slow
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    class Stop:
        def update(self, summary: object, budget: object) -> None:
            raise KeyboardInterrupt

        def note(self, text: str) -> None:
            pass

    def explore(out: Path, **changes: object) -> Path:
        return run_exploration(
            WORKLOAD, SPACE, EDP, "gradient", 1500, seed=6, out=out, cost_model="instruction",
            **changes,  # type: ignore[arg-type]
        ).path  # fmt: skip

    expected = content(explore(tmp_path / "straight"))
    phases = {row[3] for row in expected["batches"]}
    assert {"compiler's schedules", "tilings", "local search", "seeding"} <= phases
    for _ in range(12):
        try:
            explore(tmp_path / "broken", resume=True, progress=Stop())
        except KeyboardInterrupt:
            continue
        break
    assert content(explore(tmp_path / "broken", resume=True)) == expected


def test_the_model_is_part_of_a_study(tmp_path: Path) -> None:
    def explore(**changes: object) -> Path:
        return run_exploration(
            WORKLOAD, SPACE, EDP, "random", 20, out=tmp_path, **changes  # type: ignore[arg-type]
        ).path  # fmt: skip

    path = explore(cost_model="instruction")
    with StudyRecord.open(path, read_only=True) as study:
        assert study.cost_model == "instruction"
    data = report_data(path)
    costs = data.costs[data.best_index]
    assert costs is not None
    total = sum(t.count * one.latency_cycles for t, one in zip(data.tasks, data.best_layers, strict=True))
    total += sum(one.total_cycles for one in costs.beside)
    assert data.search.whole
    assert total == pytest.approx(data.best.cost.latency_cycles, rel=1e-6)
    assert data.search.cost_model == "instruction"
    assert data.resources == ("compute", "memory", "load", "store", "issue")
    assert [bound.name for bound in data.bounds] == ["compulsory work", "capacity"]
    with pytest.raises(InputError, match="cost model is instruction in the study, reference now"):
        explore(cost_model="reference", resume=True)


def test_a_model_that_cannot_predict_a_space_is_refused() -> None:
    assert default_cost_model(load_space("gemmini")) == "instruction"
    assert default_cost_model(load_space("reference")) == "reference"
    assert check_cost_model("reference", SPACE) == "reference"
    with pytest.raises(InputError, match="space 'reference'"):
        check_cost_model("instruction", load_space("reference"))
    with pytest.raises(InputError, match="unknown cost model 'exact'"):
        check_cost_model("exact", SPACE)


def test_every_side_keeps_a_mapping_of_every_layer() -> None:
    model = model_of(WORKLOAD, SPACE)
    kept = np.array([[1.0, np.inf], [np.inf, 2.0], [3.0, 4.0]])
    assert [group.tolist() for group in model.groups(kept)] == [[True, False], [False, True], [True, True]]
    dim = np.array([[4.0], [8.0], [16.0], [5.0]])
    assert model.cycles(kept[:, None, :], dim).tolist() == [
        [1.0, np.inf],
        [np.inf, 2.0],
        [3.0, 4.0],
        [np.inf, np.inf],
    ]


def test_tasks_of_small_channels_run_on_every_side() -> None:
    task = Task("net", Problem(R=3, S=3, P=6, Q=6, C=1, K=1, groups=8), 1.0, ("dw",))
    workload = Workload.of(
        [Network("net", (), (Operator("dw", "conv2d", ("x",), Tensor("y", (1,)), task.problem),))]
    )
    model = model_of(workload, SPACE)
    row = trivial(1)
    row[:, T3] = Archive(workload.tasks, SPACE).problems.bounds
    archive = Archive(workload.tasks, SPACE, model)
    archive.add(np.zeros(1, dtype=np.int64), row)
    _, cycles = archive.costs(0, SPACE.points(SPACE.dim, 16, 64))
    assert np.isfinite(cycles).all()


def test_nothing_is_predicted_faster_than_its_tensors_cross_the_memory_channel() -> None:
    # windows of one pixel on an image of several rows: their pixels become one long row
    layer = Layer(Problem(P=28, Q=28, C=32, K=16))
    task = Task("net", layer.problem, 1.0, ("pointwise",))
    archive = Archive((task,), SPACE, InstructionModel([layer], SPACE))
    rng = np.random.default_rng(1)
    rows = random_rows(np.repeat(archive.problems.bounds, 300, axis=0), 16, rng)
    rows[:, FLOW] = 0
    rows[:150, T1.start + 4] = 28  # whole rows of pixels
    tighten(rows, np.repeat(archive.problems.bounds, 300, axis=0))
    archive.add(np.zeros(300, dtype=np.int64), rows)
    _, cycles = archive.costs(0, archive.point((16, 16, 64)))
    fits = cycles[np.isfinite(cycles)]
    words = layer.input_extent + layer.weight_extent + layer.output_extent
    assert len(fits) > 20
    assert fits.min() >= 0.99 * words / SPACE.base.dram_bytes_per_cycle
