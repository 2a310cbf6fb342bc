"""The files of a report that programs read."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml

from baco.accel.config import Accelerator
from baco.common.errors import StorageError
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import parse_mapping
from baco.exploration.objective import Objective
from baco.exploration.report import ReportData, SearchRecord, figures, write_report
from baco.exploration.report.summary import SCHEMA_PATH, summary, summary_json, summary_text
from baco.exploration.report.tables import EXTRA_COLUMNS, PUBLISHED_COLUMNS, arch_columns, mappings_csv
from baco.exploration.report.units import scientific, share, si, significant
from baco.workloads.network import Network, Operator, Task, Tensor, Workload
from baco.workloads.problem import DIMS, Problem
from tests.explore import report_helpers as helpers
from tests.explore.report_oracle import row_cost

SHARED_DATA = Path(__file__).parents[4] / "shared" / "data"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def single(problem: Problem, mapping: Mapping, dim: int, repeat: int = 1) -> ReportData:
    """A report of one layer under one mapping."""
    op = Operator("only", "linear", ("x",), Tensor("y", (1,)), problem, repeat=repeat)
    workload = Workload.of([Network("net", (Tensor("x", (1,)),), (op,))])
    found, layers = helpers.candidate(workload.tasks, (mapping,), dim, 7)
    search = SearchRecord("by hand", 0, "none")
    return ReportData(
        workload,
        Objective(("edp",)),
        [found],
        found,
        [helpers.design_costs(workload.tasks, layers)],
        (),
        search,
        {},
        "baco explore",
    )


def test_a_row_worked_out_by_hand() -> None:
    """GEMM 8×4×4 on a 2×2 array; every number below was counted on paper from the specification."""
    mapping = parse_mapping("L3[WIO] K2 - L2[WI] N1 K2X - L1[O] C2 C2X - L0[W] P8")
    data = single(Problem(P=8, C=4, K=4), mapping, dim=2, repeat=3)
    (row,) = rows_of(mappings_csv(data))
    # fills: W 16 at the registers and 16 at the scratchpad, I 32, O 32 = the output
    a0, a1, a2, a3 = 144, 128, 128, 80
    energy = 0.5608 * 128 + 0.48746 * a0 + (1.94 + 0.1005 / 2) * a1 + (0.49 + 0.02513) * a2 + 100 * a3
    assert row["target.cycle"] == "32"
    assert float(row["target.energy"]) == pytest.approx(energy * 1e-6, rel=1e-12)
    assert float(row["target.edp"]) == pytest.approx(32 * energy * 1e-12, rel=1e-12)
    assert (row["count"], row["network"], row["layer"]) == ("3", "net", "only")
    assert row["mapping.mapping"] == "L3[WIO] K2 - L2[WI] N1 K2X - L1[O] C2 C2X - L0[W] P8"
    hardware = {k.removeprefix("arch."): v for k, v in row.items() if k.startswith("arch.")}
    assert hardware["pe"] == "4"
    assert (hardware["mem1_entries"], hardware["mem2_entries"]) == ("128", "1024")  # 1 KiB each
    assert row_cost(row) == (32, pytest.approx(energy, rel=1e-12))


@pytest.mark.parametrize("seed", range(6))
def test_network_edp_recomputed_from_the_table(seed: int) -> None:
    data = helpers.report_data(candidates=3, layers=16, networks=("a", "b"), seed=seed)
    rows = rows_of(mappings_csv(data))
    assert {row["network"] for row in rows} == {"a", "b"}
    assert any(int(float(row["count"])) >= 128 for row in rows)  # groups are runs
    cycles = energy = listed_cycles = listed_energy = 0.0
    for row in rows:
        one_cycles, one_energy = row_cost(row)
        count = float(row["count"])
        assert float(row["target.cycle"]) == pytest.approx(one_cycles, rel=1e-9)
        assert float(row["target.energy"]) == pytest.approx(one_energy * 1e-6, rel=1e-9)
        cycles += count * one_cycles
        energy += count * one_energy * 1e-6
        listed_cycles += count * float(row["target.cycle"])
        listed_energy += count * float(row["target.energy"])
    best = summary(data)["best"]["cost"]
    assert cycles * energy == pytest.approx(best["edp_uj_cycles"], rel=1e-9)
    assert listed_cycles * listed_energy == pytest.approx(best["edp_uj_cycles"], rel=1e-9)
    assert cycles == pytest.approx(best["latency_cycles"], rel=1e-9)


def test_columns_are_the_published_ones() -> None:
    path = SHARED_DATA / "timeloop-mappings.csv.gz"
    if not path.exists():
        pytest.skip("the published measurements are not next to this checkout")
    with gzip.open(path, "rt", newline="") as file:
        reader = csv.DictReader(file)
        assert tuple(reader.fieldnames or ()) == PUBLISHED_COLUMNS
        published = {
            (row["arch.meshX"], row["arch.mem1_entries"], row["arch.mem2_entries"]): row for row in reader
        }
    checked = 0
    for (side, entries, words), row in published.items():
        accumulator, scratchpad = int(entries) * int(side) * 4 / 1024, int(words) / 1024
        if not (accumulator.is_integer() and scratchpad.is_integer()):
            continue
        mine = arch_columns(
            Accelerator(
                dim=int(side),
                accumulator_kib=int(accumulator),
                scratchpad_kib=int(scratchpad),
                scratchpad_banks=1,  # the published machine has one bank
            )
        )
        assert {k: str(v) for k, v in mine.items()} == {k: v for k, v in row.items() if k.startswith("arch.")}
        checked += 1
    assert checked > 50
    header = mappings_csv(helpers.report_data()).splitlines()[0].split(",")
    assert tuple(header) == PUBLISHED_COLUMNS + EXTRA_COLUMNS


def test_capacities_that_do_not_divide_are_whole_entries() -> None:
    columns = arch_columns(Accelerator(dim=127, accumulator_kib=100, scratchpad_kib=257))
    assert columns["arch.mem1_entries"] == 201  # 100 KiB / 4 bytes / 127 columns = 201.57
    assert columns["arch.mem2_entries"] == 257 * 1024


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportData, Path]:
    """A report, and the folder that its files are in."""
    data, folder = helpers.report_data(candidates=9, layers=8), tmp_path_factory.mktemp("report")
    paths = write_report(data, folder)
    assert paths[0] == folder / "summary.json"
    assert all(path.stat().st_size > 0 for path in paths)
    return data, folder


def test_mappings_yaml_tells_all(written: tuple[ReportData, Path]) -> None:
    data, folder = written
    content = yaml.safe_load((folder / "best/mappings.yaml").read_text("utf-8"))
    assert content["accelerator"] == data.best.accelerator.config_hash
    assert Accelerator.from_yaml(folder / "best/accelerator.yaml") == data.best.accelerator
    for entry, task, mapping in zip(content["layers"], data.tasks, data.best.mappings, strict=True):
        assert Problem(**entry["problem"]) == task.problem
        assert (entry["network"], entry["count"]) == (task.network, task.count)
        copies = tuple(2 if name in entry["double_buffered"] else 1 for name in "WIO")
        again = replace(parse_mapping(entry["mapping"]), buffering=copies)
        assert again.temporal == mapping.temporal
        assert again.buffering == mapping.buffering
        again.check(task.problem)


def test_candidates_parquet(written: tuple[ReportData, Path]) -> None:
    data, folder = written
    table = pq.read_table(folder / "candidates.parquet")
    rows = table.to_pylist()
    assert [row["id"] for row in rows] == list(range(9))
    assert [row["id"] for row in rows if row["best"]] == [data.best_index]
    for row, candidate in zip(rows, data.candidates, strict=True):
        assert row["source"] == "predicted"
        assert row["edp_uj_cycles"] == candidate.cost.energy_pj * 1e-6 * candidate.cost.latency_cycles
        assert row["accelerator.dim"] == candidate.accelerator.dim
        assert row["front"] == candidate.front
        for text, mapping in zip(row["mappings"], candidate.mappings, strict=True):
            assert parse_mapping(text).padded_bounds == mapping.padded_bounds
    tasks = json.loads(table.schema.metadata[b"baco.tasks"])
    assert [Problem(**task["problem"]) for task in tasks] == [task.problem for task in data.tasks]


def schema() -> dict[str, Any]:
    return dict(json.loads(SCHEMA_PATH.read_text("utf-8")))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"candidates": 1, "layers": 1},
        {"networks": ("a", "b")},
        {"objective": "latency,area"},
        {"layers": 30},
    ],
)
def test_summary_follows_its_schema(options: dict[str, Any]) -> None:
    data = helpers.report_data(**options)
    content = json.loads(summary_json(data))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(content, schema())
    best = content["best"]
    assert best["cost"]["source"] == "predicted"
    assert best["cost"]["edp_uj_cycles"] == pytest.approx(
        best["cost"]["energy_uj"] * best["cost"]["latency_cycles"]
    )
    # at 1 GHz a cycle is a nanosecond, and pJ/ns are mW
    assert best["cost"]["edp_js"] == pytest.approx(best["cost"]["edp_uj_cycles"] * 1e-15)
    assert best["cost"]["latency_ms"] == pytest.approx(best["cost"]["latency_cycles"] * 1e-6)
    power = best["cost"]["energy_uj"] * 1e6 / best["cost"]["latency_cycles"] * 1e-3
    assert best["cost"]["power_w"] == pytest.approx(power)
    total = sum(layer["count"] * layer["cost"]["latency_cycles"] for layer in content["layers"])
    assert total == pytest.approx(best["cost"]["latency_cycles"])
    assert sum(n["cost"]["latency_cycles"] for n in content["networks"]) == pytest.approx(total)
    assert [c["id"] for c in content["front"]] == [
        i
        for i in sorted(range(len(data.candidates)), key=lambda i: data.candidates[i].cost.latency_cycles)
        if data.candidates[i].front
    ]
    program, host = content["program"], content["host"]["latency_cycles"]
    assert program["latency_cycles"] == pytest.approx(total + host)
    for layer in content["layers"]:
        busy = layer["cost"]["busy_cycles"]
        assert busy[layer["bottleneck"]] == max(busy.values()) == layer["cost"]["latency_cycles"]


def test_the_schema_describes_every_field() -> None:
    def walk(node: Any, path: str) -> None:
        for name, child in node.get("properties", {}).items():
            if "enum" not in child and "$ref" not in child:
                assert child.get("description"), f"{path}.{name} has no description"
            walk(child, f"{path}.{name}")
        if "items" in node:
            walk(node["items"], path + "[]")

    walk(schema(), "summary")
    walk(schema()["$defs"]["candidate"], "candidate")


def test_hostile_names_are_data_everywhere(tmp_path: Path) -> None:
    text = "é\"'</script><b>$x^2$\n{{data}}: - #!!python/object\\u0000"
    data = helpers.hostile(helpers.report_data(), text)
    write_report(data, tmp_path)
    content = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    jsonschema.validate(content, schema())
    assert content["networks"][0]["name"] == text
    entries = yaml.safe_load((tmp_path / "best/mappings.yaml").read_text("utf-8"))["layers"]
    assert entries[0]["operators"] == [text, text + "2"]
    with (tmp_path / "best/mappings.csv").open(newline="", encoding="utf-8") as file:
        assert next(csv.DictReader(file))["network"] == text
    ElementTree.parse(tmp_path / "pareto.svg")


def test_pictures(written: tuple[ReportData, Path]) -> None:
    png, svg = (written[1] / f"pareto.{kind}" for kind in ("png", "svg"))
    header = png.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    width, height = (int.from_bytes(header[i : i + 4], "big") for i in (16, 20))
    assert width > height > 500
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert "date" not in svg.read_text("utf-8").lower()


def test_pictures_say_the_unit_that_their_numbers_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks are plain numbers, which times the unit in the axis' title are the costs."""
    data = helpers.report_data(candidates=12, objective="latency,energy")
    seen: dict[str, Any] = {}

    def look(figure: Any, *_: Any, **__: Any) -> bytes:
        figure.draw_without_rendering()
        axes = figure.axes[0]
        seen["titles"] = [axes.get_xlabel(), axes.get_ylabel()]
        seen["ticks"] = [
            text.get_text() for axis in (axes.xaxis, axes.yaxis) for text in axis.get_ticklabels()
        ]
        *_, seen["best"] = (list(one.get_offsets()[0]) for one in axes.collections)
        return b""

    monkeypatch.setattr(figures, "figure_bytes", look)
    figures.pareto_figures(data)
    sizes = []
    for title, name, unit in zip(seen["titles"], ("latency", "energy"), ("cycles", "J"), strict=True):
        found = re.fullmatch(rf"{name}, (.?){unit} \(predicted\)", title)
        assert found is not None, title
        sizes.append({"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "m": 1e-3, "µ": 1e-6}[found[1]])
    assert seen["best"][0] * sizes[0] == pytest.approx(data.best.cost.latency_cycles)
    assert seen["best"][1] * sizes[1] == pytest.approx(data.best.cost.energy_pj * 1e-12)
    assert len(seen["ticks"]) >= 4
    assert all(re.fullmatch(r"[0-9.]*", text) for text in seen["ticks"])


def test_equal_data_give_equal_files(written: tuple[ReportData, Path], tmp_path: Path) -> None:
    write_report(helpers.report_data(candidates=9, layers=8), tmp_path)
    for path in written[1].rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / path.relative_to(written[1])).read_bytes(), path.name
    assert not list(tmp_path.rglob(".*"))  # nothing half written is left


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    data = helpers.report_data()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError):
        write_report(data, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "out/summary.json").mkdir(parents=True)
    with pytest.raises(StorageError) as caught:
        write_report(data, tmp_path / "out")
    assert caught.value.location is not None
    assert "summary.json" in caught.value.location.file
    assert not list(tmp_path.rglob(".*"))  # nothing half written is left


def test_report_data_refuses_parts_that_do_not_fit() -> None:
    data = helpers.report_data()
    with pytest.raises(ValueError, match="5 costs for 6 candidates"):
        replace(data, costs=data.costs[:-1])
    without: list[Any] = list(data.costs)
    without[data.best_index] = None
    with pytest.raises(ValueError, match="cost are missing"):
        replace(data, costs=without)
    short: list[Any] = list(data.costs)
    short[0] = replace(short[0], layers=short[0].layers[:-1])
    with pytest.raises(ValueError, match="candidate 0 has 4 layers for 5 tasks"):
        replace(data, costs=short)
    other = replace(data.candidates[1], tasks=(Task("x", Problem(), 1.0),))
    with pytest.raises(ValueError, match="candidate 1 is for other tasks"):
        replace(data, candidates=[data.candidates[0], other, *data.candidates[2:]])


def test_summary_text_is_plain_and_complete() -> None:
    data = helpers.report_data()
    text = summary_text(data)
    accelerator = data.best.accelerator
    for part in (
        "For tiny",
        f"{accelerator.dim} × {accelerator.dim} array",
        f"{accelerator.scratchpad_kib:,} KiB of scratchpad",
        "predicted to need",
        "SRAM-aware bound",
        "a factor of 4.00",
        "host core",
    ):
        assert part in text
    shares = [int(value) for value in re.findall(r"(\d+)%", text.split("time goes to:")[1].split(".")[0])]
    assert sum(shares) in range(98, 103)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0 J"),
        (1.5e-6, "1.50 µJ"),
        (999.9, "1.00 kJ"),
        (2_500_000, "2.50 MJ"),
        (12, "12.0 J"),
        (3e-14, "0.0300 pJ"),
    ],
)
def test_si(value: float, expected: str) -> None:
    assert si(value, "J") == expected


def test_other_number_formats() -> None:
    assert [significant(v) for v in (0, 0.01234, 1.2345, 12345.6, 123456)] == [
        "0",
        "0.0123",
        "1.23",
        "12,300",
        "123,000",
    ]
    assert [scientific(v) for v in (0, 6.51e10, 123.0)] == ["0", "6.51e10", "1.23e2"]
    assert [share(v, 100) for v in (0, 0.01, 0.7, 45)] == ["0%", "under 0.1%", "0.7%", "45%"]
    assert share(1, 0) == "0%"
    assert math.isnan(float(significant(math.nan)))


def test_published_bounds_are_padded(tmp_path: Path) -> None:
    """A mapping may overhang its problem: the table states what it executes."""
    mapping = parse_mapping("L3[WIO] P3 - L2[WI] N1 K4X - L1[O] C1 C4X - L0[W] P4")
    data = single(Problem(P=10, C=3, K=4), mapping, dim=4)
    (row,) = rows_of(mappings_csv(data))
    assert [int(row[f"prob.{d}"]) for d in DIMS] == [1, 1, 12, 1, 4, 4, 1]
    assert float(row["target.cycle"]) == pytest.approx(row_cost(row)[0])
