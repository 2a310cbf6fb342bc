"""Groups that share a pass, in the search: counted, predicted and proposed as they run, measured bit-exact."""

from __future__ import annotations

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.paper.systems import best_candidate
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import DepthwiseSchedule
from baco.compiler.styles.registry import realise
from baco.exploration.cost.genome import to_mapping, trivial
from baco.exploration.cost.model import make_cost_model
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.measure.layer import measure_layer
from baco.exploration.objective import Objective
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.archive import Archive
from baco.exploration.search.proposals import Proposals
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace
from baco.workloads.network import Task
from baco.workloads.problem import Problem

SPACE = DesignSpace(
    name="small",
    rules="gemmini",
    base=load_accelerator("gemmini-default"),
    dim=(4, 8, 16),
    scratchpad_kib=(16, 64),
    accumulator_kib=(8, 16),
    dataflows=("WS",),
    double_buffer=True,
)
LAYERS = (
    Layer(Problem(R=3, S=3, P=14, Q=14, C=1, K=1, groups=40), (14, 14), (1, 1), scale=0.02),
    Layer(Problem(R=3, S=3, P=7, Q=7, C=2, K=2, groups=12), (7, 7), (1, 1), scale=0.02),
    Layer(Problem(P=49, C=40, K=24), scale=0.02),
)
TASKS = tuple(Task("net", layer.problem, 1.0, (f"layer{n}",)) for n, layer in enumerate(LAYERS))


def model() -> InstructionModel:
    found = make_cost_model("instruction", LAYERS, SPACE)
    assert isinstance(found, InstructionModel)
    return found


def proposed(archive: Archive) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """New mappings and neighbours of them, for arrays of all sides: tasks and rows."""
    proposals = Proposals(archive, [0], np.random.default_rng(3), model())
    limit = np.array([(4.0, 8.0, 16.0), (8.0, 8.0, 16.0), (16.0, 16.0, 64.0)])
    task = np.tile(np.arange(len(TASKS)), 40)
    limit = limit[np.random.default_rng(1).integers(0, 3, len(task))]
    rows, good = proposals.construct(task, limit)
    task, rows, limit = task[good], rows[good], limit[good]
    more_tasks, more = proposals.neighbours(task, rows, limit)
    return np.concatenate([task, more_tasks]), np.concatenate([rows, more])


def test_rows_are_counted_and_predicted_as_they_run() -> None:
    archive = Archive(TASKS, SPACE, model())
    task, rows = proposed(archive)
    packed = archive.problems.packed(task, rows)
    # of both grouped layers, most; of the product, none
    assert [(packed[task == n] > 1).mean() > 0.4 for n in range(3)] == [True, True, False]
    assert packed[task == 2].max() == 1
    assert set(packed[task == 0]) >= {1, 2, 4, 8, 16}
    archive.add(task, rows)
    compared = 0
    for point in ((4.0, 8.0, 16.0), (8.0, 8.0, 16.0), (16.0, 16.0, 64.0)):
        accelerator = SPACE.accelerator(*map(int, point))
        for n, layer in enumerate(LAYERS):
            energy, cycles = archive.costs(n, archive.point(point))
            fits = np.flatnonzero(np.isfinite(cycles[0]))
            mappings = [to_mapping(archive.genomes[n][k], layer.problem.groups, True) for k in fits]
            alike = [layer] * len(mappings)
            predicted = predict_layers(alike, mappings, accelerator)
            assert cycles[0, fits] == pytest.approx(
                [float(prediction.cycles) for prediction in predicted], rel=1e-6
            )
            costs = InstructionModel(alike, SPACE).layer_costs(mappings, accelerator)
            assert energy[0, fits] == pytest.approx([cost.energy_pj for cost in costs])
            compared += sum(
                isinstance(realise(layer, mapping, accelerator), DepthwiseSchedule) for mapping in mappings
            )
    assert compared > 60


def test_words_of_packed_groups_by_hand() -> None:
    """Twelve groups of 2 x 2 channels, four at once: three matrices of 8 x 8 weights for each of 9 window positions.

    Each pixel is read as a row, and each result written as one, at every position; weights are rows, twice.
    """
    archive = Archive(TASKS, SPACE, model())
    row = trivial(1)
    row[0, [0, 1, 2, 24]] = 0, 8, 8, 0
    row[0, 3:5] = 3  # the window, and all pixels, in one tile
    row[0, 7:9] = 7
    counts = archive.add(np.array([1]), row)
    assert float(counts.macs[0]) == 3 * 9 * 49 * 8 * 8
    weights, inputs, outputs = 3 * 9 * 8 * 8, 3 * 9 * 9 * 8, 3 * 49 * 8
    assert float(counts.a3[0]) == weights + inputs + outputs
    assert float(counts.a1[0]) == float(counts.a2[0]) == 0
    assert float(counts.a2_rows[0]) == 3 * (9 * 49 + 2 * 9 * 8 + 9 * 9)
    assert float(counts.a1_rows[0]) == 3 * 2 * 9 * 49
    wide = counts.in_rows(16)
    assert float(wide.a2[0]) == 16 * float(counts.a2_rows[0])


def test_packed_predictions_against_the_rtl() -> None:
    accelerator = Accelerator(name="small", dim=8, scratchpad_kib=32, accumulator_kib=16)
    archive = Archive(TASKS, SPACE, model())
    task, rows = proposed(archive)
    packed = archive.problems.packed(task, rows)
    for n in (0, 1):
        # the one that a search would take
        usable = np.flatnonzero((task == n) & (packed == 4) & (rows[:, 1:3].max(1) <= 8))
        acc, sp = archive.load(task[usable], rows[usable], np.tile([8.0, 16.0, 32.0], (len(usable), 1)))
        usable = usable[(acc <= 1) & (sp <= 1)]
        mappings = [to_mapping(rows[k], LAYERS[n].problem.groups, True) for k in usable]
        cycles = [
            float(one.cycles) for one in predict_layers([LAYERS[n]] * len(usable), mappings, accelerator)
        ]
        mapping = mappings[int(np.argmin(cycles))]
        schedule = realise(LAYERS[n], mapping, accelerator)
        assert isinstance(schedule, DepthwiseSchedule)
        measured = measure_layer(LAYERS[n], mapping, accelerator)
        assert measured.status == "measured", measured.reason
        (predicted,) = predict_layers([LAYERS[n]], [mapping], accelerator)
        assert float(predicted.cycles) == pytest.approx(measured.cycles, rel=0.35)
        moved = measured.activity["dram_read_bytes"] + measured.activity["dram_write_bytes"]
        assert float(predicted.bytes) == pytest.approx(moved, rel=0.05)


def test_a_search_packs_groups() -> None:
    setup = SearchSetup(TASKS, SPACE, Objective.parse("edp"), 1200, 0, model())
    best = best_candidate(make_searcher("gradient", setup))
    schedules = [realise(*pair, best.accelerator) for pair in zip(LAYERS, best.mappings, strict=True)]
    # few pixels of few groups are hardly worth the expansion
    assert isinstance(schedules[0], DepthwiseSchedule)
    assert not isinstance(schedules[2], DepthwiseSchedule)
    styles = [one.style for one in model().layer_costs(best.mappings, best.accelerator)]
    assert (styles[0] == "packed", styles[2] == "packed") == (True, False)
    # far below what one group after the other takes: a pass of at least 14 pixels for each window position and line
    (cost,) = predict_layers(LAYERS[:1], schedules[:1], best.accelerator)
    assert float(cost.cycles) < 0.5 * 40 * 9 * 14 * 14
