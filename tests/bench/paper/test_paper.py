"""The published evaluation: ratios by hand, systems against each other, pieces kept, pages complete."""

import dataclasses
import json
import math

import numpy as np
import pytest

from baco.bench.paper import networks as paper_networks
from baco.bench.paper import operators as paper_operators
from baco.bench.paper import report
from baco.bench.paper import run as paper
from baco.bench.paper.accuracy import log_correlation, predictions, score_table
from baco.bench.paper.cache import RecordCache
from baco.bench.paper.charts import accuracy_chart, networks_chart, operators_chart
from baco.bench.paper.designs import NetworkLayers, make_design, predicted
from baco.bench.paper.efficiency import efficiency_rows
from baco.bench.paper.operators import Case, summarise
from baco.bench.paper.published import OPERATOR_RATIOS
from baco.bench.paper.shapes import Shape
from baco.bench.paper.systems import SYSTEMS, SystemCost, evaluate_system
from baco.bench.runs import RunKey, SearchRun
from baco.bench.sets.dataset import read_dataset
from baco.common.errors import InputError
from baco.compiler.layers.layer import Layer
from baco.exploration.cost.layer_costs import layer_costs
from baco.exploration.cost.schedules import schedule_costs
from baco.workloads.network import Task
from baco.workloads.problem import Problem


def found(edp: float) -> SystemCost:
    """A cost with that EDP in µJ·cycles."""
    return SystemCost(edp * 1e6 / 10, 10.0, "x")


# ---------------------------------------------------------------------------------------------- tables


def test_ratios_are_geometric_means_over_cases():
    shapes = [Shape("GEMM", "range", True, Problem(P=n)) for n in (2, 3)]
    cases = [
        Case(
            shapes[0],
            {"eyeriss": found(8.0), "baco": found(2.0), "dosa-free": found(3.0), "baco-free": found(1.0)},
        ),
        Case(shapes[1], {"eyeriss": found(9.0), "baco": found(1.0)}),
    ]
    rows = {row.system: row for row in summarise(cases)}
    assert rows["eyeriss"].ratio == pytest.approx(math.sqrt(4 * 9))
    assert rows["eyeriss"].free_ratio == pytest.approx(8.0)  # on the one case that was searched there
    assert rows["dosa-free"].free_ratio == pytest.approx(3.0)
    assert rows["dosa-free"].ratio == pytest.approx(1.5)
    assert rows["baco"].ratio == pytest.approx(1.0)
    assert (rows["eyeriss"].cases, rows["eyeriss"].free_cases) == (2, 1)
    assert rows["eyeriss"].published == 13.95
    assert rows["dosa-free"].published == 1.48  # called "dosa" in the publication
    assert rows["baco"].published is None
    assert rows["eyeriss"].cycles == pytest.approx(10.0)
    assert rows["eyeriss"].energy_uj == pytest.approx(math.sqrt(0.8 * 0.9))


def test_ablation_compares_with_its_first_stage():
    stages = {
        ("default", 0): [found(9.0)],
        ("partition", 0): [found(3.0)],
        ("importance", 500): [found(1.0), found(4.0)],
    }
    rows = paper_networks.ablation_rows(stages, "rtl", "measured")
    assert [row.improvement for row in rows] == pytest.approx([1.0, 3.0, 4.5])
    assert [row.published for row in rows] == [1.0, 1.44, 2.32]
    assert (rows[2].worst, rows[2].best) == pytest.approx((9 / 4, 9))
    assert [row.samples for row in rows] == [0, 0, 500]
    assert {row.source for row in rows} == {"measured"}
    assert paper_networks.ablation_rows({("partition", 0): [found(3.0)]}, "rtl", "measured") == []


def test_a_search_that_finds_nothing_better_keeps_the_design_before_it(tmp_path, monkeypatch):
    edps = {
        "default": 8.0,
        "partition": 6.0,
        "hardware": 4.0,
        "analytical": 5.0,
        "importance": 2.0,
        "reference": 7.0,
    }
    monkeypatch.setattr(paper_networks, "cached_design", lambda *given: given[2])
    monkeypatch.setattr(
        paper_networks,
        "predicted",
        lambda design, tasks: dataclasses.replace(found(edps[design]), accelerator=design),
    )
    rows = paper_networks.run_ablation(
        RecordCache(tmp_path / "x.jsonl"), network="deepbench_face", samples=(10,), seeds=1
    )
    assert [(row.stage, row.accelerator) for row in rows] == [
        ("default", "default"),
        ("partition", "partition"),
        ("hardware", "hardware"),
        ("analytical", "hardware"),
        ("importance", "importance"),
        ("reference", "reference"),
    ]
    assert rows[3].improvement == pytest.approx(2.0)


def test_efficiency_is_relative_to_where_ours_ends():
    def runs(network, searcher, *curves):
        return [
            SearchRun(RunKey(network, "reference", searcher, seed, 100), 1, 100, 2.0, curve)
            for seed, curve in enumerate(curves)
        ]

    found = [
        *runs("a", "gradient", ((1, 0.1, 8.0), (90, 0.9, 2.0)), ((1, 0.1, 8.0), (90, 0.9, 2.0))),
        *runs("a", "random", ((25, 0.2, 16.0), (90, 0.9, 4.0)), ((25, 0.2, 16.0),)),
    ]
    ours, other = efficiency_rows(found, ["a"], 100)
    assert (ours.searcher, other.searcher, other.seconds) == ("gradient", "random", 2.0)
    assert ours.ratios == pytest.approx((4.0, 1.0))  # after 20 samples, and 100
    assert other.ratios == (None, pytest.approx(math.sqrt(4 * 16) / 2))
    assert other.low[1] == pytest.approx(2.0)
    assert other.high[1] == pytest.approx(8.0)
    more = [
        *found, *runs("b", "gradient", ((1, 0.1, 1.0),)), *runs("b", "random", ((1, 0.1, 3.0),)),
    ]  # fmt: skip
    assert efficiency_rows(more, ["a", "b"], 100)[1].ratios[1] == pytest.approx(math.sqrt(4 * 3))


def test_accuracy_by_stratum():
    measured = np.array([100.0, 200.0, 400.0, 1000.0])
    predicted_cycles = {"macs": np.array([110.0, 180.0, 400.0, 500.0])}
    rows = {r.stratum: r for r in score_table(predicted_cycles, measured, ["load", "load", "store", "store"])}
    assert rows["all"].rows == 4
    assert rows["all"].spearman == pytest.approx(1.0)
    assert rows["all"].mean_percent == pytest.approx((10 + 10 + 0 + 50) / 4)
    assert rows["load"].bias_percent == pytest.approx(0.0)
    assert rows["store"].bias_percent == pytest.approx(-25.0)
    assert log_correlation(measured, measured**2) == pytest.approx(1.0)
    assert log_correlation(measured, np.full(4, 7.0)) is None


# ---------------------------------------------------------------------------------------------- systems


def test_systems_are_ordered_as_their_freedom_is():
    task = [Task("one", Problem(P=100, C=50, K=200), 1.0)]
    cost = {
        name: evaluate_system(name, task, samples=200).edp for name in SYSTEMS if not name.endswith("free")
    }
    assert cost["proof"] <= cost["baco"] * 1.005
    assert cost["proof"] <= cost["gemmini-best"] * 1.005 <= cost["gemmini-random"] * 1.005
    assert all(cost[name] <= cost[f"{name}-random"] for name in ("eyeriss", "nvdla-small", "nvdla-large"))
    assert cost["gemmini-best"] <= cost["gemmini-default"] * 1.005
    assert min(cost[name] for name in ("eyeriss", "nvdla-small", "nvdla-large")) > 0


def test_counts_weigh_layers():
    problem = Problem(P=64, C=32, K=48)
    one, three = (evaluate_system("gemmini-default", [Task("n", problem, runs)]) for runs in (1.0, 3.0))
    assert three.energy_pj == pytest.approx(3 * one.energy_pj)
    assert three.edp == pytest.approx(9 * one.edp)


def test_default_tiling_of_a_small_product_by_hand():
    """64x64x64 fits the default machine: its tile is whole, weights stay while the pixels stream past."""
    cost = evaluate_system(
        "gemmini-default", [Task("n", Problem(P=64, C=64, K=64), 1.0)], [Layer(Problem(P=64, C=64, K=64))]
    )
    macs = 64**3
    # compute takes 64*64*64/256 cycles, DRAM 3 * 4096 words at 8 a cycle
    assert cost.latency_cycles == pytest.approx(max(macs / 256, 3 * 4096 / 8))
    # weights enter registers once for each of the 64x64; accumulator: an update for 16 MACs, first reads elided, one
    # read out; scratchpad: an input serves 16 columns, everything comes in once and weights go out once
    updates = macs / 16
    pj = 0.5608 * macs + 0.48746 * (macs + 4096)
    pj += (1.94 + 0.1005 * 64 / 16) * (2 * updates - 4096 + 4096)
    pj += (0.49 + 0.02513 * 256) * (macs / 16 + 3 * 4096)
    pj += 100 * 3 * 4096
    assert cost.energy_pj == pytest.approx(pj, rel=1e-9)


def test_designs_of_stages_by_the_reference_model():
    network = NetworkLayers(
        "toy", (Task("toy", Problem(P=60, C=40, K=50), 2.0),), (Layer(Problem(P=60, C=40, K=50)),)
    )
    costs = {
        stage: predicted(make_design(network, stage, "reference", 60), network.tasks).edp
        for stage in ("default", "partition", "hardware", "analytical", "reference")
    }
    assert costs["reference"] <= min(costs.values()) * 1.005  # optimal by the model that judges
    assert costs["hardware"] <= costs["partition"] * (1 + 1e-9)  # the default machine is among the largest
    with pytest.raises(ValueError, match="no design is called"):
        make_design(network, "magic", "reference", 60)


# ---------------------------------------------------------------------------------------------- pieces kept


def test_a_killed_run_loses_no_finished_piece(tmp_path):
    path = tmp_path / "parts" / "x.jsonl"
    cache = RecordCache(path)
    assert cache.get({"a": 1}, "baco.exploration.objective", lambda: {"v": 2}) == {"v": 2}
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "torn", "rec')  # as a kill in the middle of writing leaves it
    again = RecordCache(path)
    assert again.get({"a": 1}, "baco.exploration.objective", lambda: pytest.fail("made again")) == {"v": 2}
    assert again.get({"a": 2}, "baco.exploration.objective", lambda: {"v": 3}) == {"v": 3}
    # what other code made is not taken
    assert RecordCache(path).get({"a": 1}, "baco.exploration.front", lambda: {"v": 4}) == {"v": 4}
    assert RecordCache(path).get({"a": 2}, "baco.exploration.objective", lambda: pytest.fail("lost")) == {
        "v": 3
    }


@pytest.fixture
def small(monkeypatch):
    """One tiny shape instead of the list."""
    shapes = [Shape("Conv2D", "range", True, Problem(R=3, S=3, P=6, Q=6, C=4, K=8))]
    monkeypatch.setattr(paper_operators, "read_shapes", lambda: shapes)
    monkeypatch.setattr("baco.bench.paper.run._QUICK_SAMPLES", 20)


def test_operators_part_writes_page_numbers_and_figure(tmp_path, small, monkeypatch):
    result = paper.run(only=["operators"], quick=True, out=tmp_path)
    rows = json.loads((tmp_path / "operators.json").read_text())["rows"]
    assert rows == json.loads(json.dumps(result["operators"]["rows"]))
    assert {row["system"] for row in rows} == set(SYSTEMS)
    assert {row["source"] for row in rows} == {"predicted"}
    page = (tmp_path / "operators.md").read_text()
    for number in ("8.49", "20.05"):
        assert number in page
    assert (tmp_path / "operators.png").read_bytes().startswith(b"\x89PNG")
    # a second run takes all from what was kept
    monkeypatch.setattr(paper_operators, "evaluate_system", lambda *a, **k: pytest.fail("evaluated again"))
    again = paper.run(only=["operators"], quick=True, out=tmp_path)
    assert again["operators"]["rows"] == result["operators"]["rows"]


# ---------------------------------------------------------------------------------------------- pages


def test_pages_name_source_and_published_figures():
    network = paper_networks.NetworkRow("n1", "gemmini-default", "rtl", "measured", "a", 1.0, 2.0, 2.0, 5.5)
    ours = dataclasses.replace(network, system="baco", ratio=1.0)
    page = report.networks_page([network, ours])
    assert "measured" in page
    assert "at most 5.50 (n1)" in page
    assert "published: at most 5.23" in page
    assert networks_chart([network, ours]).startswith(b"\x89PNG")
    assert accuracy_chart({"m": np.array([1.0, 2.0])}, np.array([1.0, 3.0])).startswith(b"\x89PNG")
    rows = [
        paper_operators.OperatorRow("GEMM", "eyeriss", 3, 0, 1.0, 1.0, 20.0, None, 13.95),
        paper_operators.OperatorRow("GEMM", "nvdla-small", 3, 0, 1.0, 1.0, 2.0, None, 28.87),
    ]
    page = report.operators_page(rows)
    assert "or larger, ours (published): GEMM eyeriss 20.00 (13.95)." in page
    assert "smaller than published: GEMM nvdla-small 2.00 (28.87)." in page
    assert operators_chart(rows).startswith(b"\x89PNG")


def test_published_ratios_are_those_of_the_specification():
    order = ("eyeriss", "nvdla-small", "nvdla-large", "gemmini-default", "dosa")
    assert [
        [OPERATOR_RATIOS[kind][name] for name in order] for kind in ("GEMM", "GEMV", "Conv1D", "Conv2D")
    ] == [
        [13.95, 28.87, 3.96, 4.89, 1.48],
        [16.72, 35.56, 4.18, 5.42, 1.91],
        [7.52, 19.81, 2.58, 3.47, 1.43],
        [8.49, 20.05, 3.42, 3.99, 1.28],
    ]


# ---------------------------------------------------------------------------------------------- command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ["operator"]}, "no part of the evaluation 'operator'"),
        ({"cost_models": ["instructions"]}, "no cost model 'instructions'"),
        ({"networks": ["resnet51"]}, "unknown network 'resnet51'"),
        ({"measure": ["nothing"]}, "unknown network 'nothing'"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        paper.run(out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_predictions_of_measured_rows_are_those_of_single_layers():
    data = read_dataset("micro")
    data = data.where([i % 97 == 0 for i in range(len(data))])
    found = predictions(data)
    for i, (problem, mapping, accelerator) in enumerate(
        zip(data.problems, data.mappings, data.accelerators, strict=True)
    ):
        cost = layer_costs([problem], [mapping], accelerator)[0]
        assert found["cycles"]["reference"][i] == pytest.approx(cost.latency_cycles, rel=1e-9)
        assert found["energy"]["reference"][i] == pytest.approx(cost.energy_pj, rel=1e-9)
        (own,) = schedule_costs([data.layers[i]], [data.schedules[i]], accelerator, "instruction")
        assert found["cycles"]["instruction"][i] == pytest.approx(own.latency_cycles, rel=1e-9)
    # what main memory moves is most of the energy, and predicted nearly exactly
    measured = data.numbers("energy_pj")
    errors = {model: np.abs(values / measured - 1).mean() for model, values in found["energy"].items()}
    assert errors["instruction"] < 0.05 < errors["reference"]
