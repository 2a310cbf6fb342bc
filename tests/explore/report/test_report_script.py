"""What a reader does with `report.html`: choosing, filtering, comparing, opening layers, keeping files."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import yaml

from baco.accel.config import Accelerator
from baco.compiler.mapping.text import parse_mapping
from baco.exploration.breakdown import CostEntry, DesignCosts, layer_entries
from baco.exploration.candidate import LayerCost
from baco.exploration.measure.choose import choose_candidates
from baco.exploration.report import ReportData, write_report
from baco.exploration.report.axes import metric_axis
from baco.exploration.report.network_graph import network_units
from baco.exploration.report.page import page_html
from baco.exploration.report.payload import payload
from baco.exploration.report.resources import RESOURCES
from baco.main import run
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Network, Workload
from tests.explore import report_helpers as helpers
from tests.explore.report.test_report_page import Engine, size_of_unit


def shared(data: ReportData) -> ReportData:
    """The same report with one accelerator for every second design (whether it holds the mappings does not matter)."""
    one = data.candidates[0].accelerator
    candidates = [
        replace(c, accelerator=one) if index % 2 == 0 else c for index, c in enumerate(data.candidates)
    ]
    return replace(data, candidates=candidates, best=candidates[data.best_index])


def shown_points(engine: Engine) -> set[int]:
    traces = engine.get("plots['plot-front'].traces")
    return {i for trace in traces for i in trace.get("customdata", [])}


def test_one_point_an_accelerator() -> None:
    data = shared(helpers.report_data(candidates=8))
    engine = Engine(page_html(data))
    engine.change("zoom-all", "on")
    head = min(range(0, 8, 2), key=lambda i: data.candidates[i].objective)
    assert shown_points(engine) == {head, 1, 3, 5, 7, 8, data.best_index}
    assert engine.text("designs-count") == "6 accelerators"
    rows = {row.split(" | ")[1]: row.split(" | ")[4] for row in engine.rows("designs")}
    assert rows[f"#{head}"] == "4"
    engine.change("every-mapping", "on")
    assert shown_points(engine) == set(range(9))
    # the panel lists the others, best first
    engine.do(f"elements['plot-front'].fire('plotly_click', {{points: [{{customdata: {head}}}]}})")
    assert "4 mappings on this accelerator" in engine.text("design")
    order = sorted(range(0, 8, 2), key=lambda i: data.candidates[i].objective)
    listed = engine.text("design").split("EDP", 2)[-1]
    assert [listed.index(f"#{i}") for i in order] == sorted(listed.index(f"#{i}") for i in order)


def test_the_picture_shows_what_is_near_and_gemminis_machine() -> None:
    data = helpers.report_data(candidates=30, seed=4)
    engine = Engine(page_html(data))
    best = data.best.cost
    near = {
        i
        for i, c in enumerate(data.candidates)
        if c.cost.latency_cycles <= 5 * best.latency_cycles and c.cost.energy_pj <= 5 * best.energy_pj
    }
    heads = {
        min(
            (i for i, c in enumerate(data.candidates) if c.accelerator == one.accelerator),
            key=lambda i: data.candidates[i].objective,
        )
        for one in data.candidates
    }
    assert shown_points(engine) == (near & heads) | {data.best_index, 30}
    assert 1 < len(near) < 30
    assert "outside the picture" in engine.text("front-note")
    assert "gemmini-default" in [t.get("name") for t in engine.get("plots['plot-front'].traces")]


def test_filters() -> None:
    data = helpers.report_data(candidates=12)
    engine = Engine(page_html(data))
    engine.change("zoom-all", "on")
    engine.change("filter-dim", "32")
    kept = {i for i, c in enumerate(data.candidates) if c.accelerator.dim == 32}
    assert kept <= shown_points(engine) <= kept | {data.best_index, 12}
    engine.change("filter-dim", "")
    areas = sorted(c.cost.area_mm2 for c in data.candidates)
    engine.change("filter-area", str(areas[4]))
    assert len(shown_points(engine) - {data.best_index, 12}) in (4, 5)
    engine.change("filter-area", "")
    engine.change("only-front", "on")
    assert shown_points(engine) == {i for i, c in enumerate(data.candidates) if c.front} | {
        12,
        data.best_index,
    }


def test_best_first() -> None:
    data = helpers.report_data(candidates=9)
    rows = Engine(page_html(data)).rows("designs")
    costs = [float(row.split(" | ")[10]) for row in rows]
    assert costs == sorted(costs)
    assert "best" in next(row for row in rows if f"#{data.best_index} " in row)


def test_designs_side_by_side() -> None:
    data = helpers.report_data(candidates=6, layers=7)
    engine = Engine(page_html(data), address="#design=2&pin=2,4,gemmini")
    assert engine.get("document.body.dataset.shown") == "2"
    assert engine.get("elements['compare-section'].hidden") is False
    assert data.baseline is not None
    costs = [data.candidates[2].cost, data.candidates[4].cost, data.baseline.cost]
    (area,) = (row for row in engine.rows("compare") if row.startswith("Area"))
    for cell, cost in zip(area.split(" | ")[1:], costs, strict=True):
        assert float(cell.split("×")[0][:4]) == pytest.approx(cost.area_mm2, rel=0.1)
    rows = engine.rows("compare-layers")
    assert len(rows) == len(data.tasks)
    layers = [one.layer_costs for one in (data.costs[2], data.costs[4], data.baseline.costs) if one]
    for row, i in zip(rows, range(len(rows)), strict=True):
        for cell, of in zip(row.split(" | ")[1:], layers, strict=True):
            assert of is not None
            value, unit = cell.split()[:2]
            scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(unit, 1.0)
            assert float(value) * scale == pytest.approx(of[i].latency_cycles * data.tasks[i].count, rel=6e-3)
    # four at most, and the address says what is seen
    for index in (0, 1):
        engine.do(f"elements['plot-front'].fire('plotly_click', {{points: [{{customdata: {index}}}]}})")
        engine.do(
            "elements['design'].children.find((e) => e.getAttribute('class') === 'buttons').children[0].fire('click')"
        )
    assert engine.get("location.hash") == "#design=1&pin=4,gemmini,0,1"
    engine.do("location.hash = '#design=3'; for (const action of windowListeners.hashchange) action()")
    assert engine.get("document.body.dataset.shown") == "3"
    assert engine.get("elements['compare-section'].hidden") is True


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("#design=99999", "design 99999. The best design is shown."),
        ("#design=x&pin=a,b,,7,7,-1", "design x, pinned design a, pinned design b, pinned design 7"),
        ("#pin=1,99", "pinned design 99."),
        ("#desing=1", "desing=1."),
        ("#%%%", None),
        ("#h-layers", None),
        ("#design=2&pin=1,gemmini", None),
        ("#pin=" + "1," * 99, None),
    ],
)
def test_an_address_that_names_what_is_not_there_is_answered(address: str, words: str | None) -> None:
    data = helpers.report_data(candidates=4)
    engine = Engine(page_html(data), address=address)
    shown = 2 if "design=2" in address else data.best_index
    assert engine.get("document.body.dataset") == {"shown": str(shown), "ready": "yes"}
    assert engine.get("elements['address'].hidden") is (words is None)
    if words is not None:
        assert words in engine.text("address")
    # another design, chosen by the reader, needs no such words
    other = next(i for i in range(4) if i != shown)
    engine.do(f"elements['plot-front'].fire('plotly_click', {{points: [{{customdata: {other}}}]}})")
    assert engine.get("elements['address'].hidden") is True
    engine.do("location.hash = '#design=77'; windowListeners.hashchange.forEach((act) => act())")
    assert "design 77" in engine.text("address")
    assert engine.get("document.body.dataset.shown") == str(data.best_index)


def nest_of(text: str) -> list[str]:
    """A loop nest as Timeloop prints it, from the mapping's text alone."""
    lines, depth = [], 0
    names = {"L3": "DRAM", "L2": "scratchpad", "L1": "accumulator", "L0": "registers"}
    words = {"W": "weights", "I": "inputs", "O": "outputs"}
    for level in text.split(" - "):
        head, *loops = level.split()
        lines.append("  " * depth + f"{names[head[:2]]} [ {', '.join(words[t] for t in head[3:-1])} ]")
        for loop in loops:
            factor = int(loop[1:].rstrip("X"))
            if factor > 1:
                kind, where = (
                    ("parallel-for", "  (rows)" if head[1] == "1" else "  (columns)")
                    if loop.endswith("X")
                    else ("for", "")
                )
                lines.append("  " * depth + f"| {kind} {loop[0]} in [0:{factor}){where}")
                depth += 1
    return [*lines, "  " * depth + "multiply-accumulate"]


def test_a_layer_opens_with_what_the_models_say() -> None:
    data = helpers.report_data(candidates=3, layers=6)
    engine = Engine(page_html(data))
    for index in range(len(data.tasks)):
        engine.do(f"elements['layers'].tBodies[0].children[{index}].fire('click')")
        assert engine.get("elements['layer'].open") is True
        text = engine.text("layer")
        mapping = data.mapping_texts[data.best_index][index]
        assert "\n".join(nest_of(mapping)) in text
        assert f"--mapping '{mapping}'" in text
        cost, detail = data.best_layers[index], data.details[data.best_index][index]
        machine = data.best.accelerator
        for memory, kib in (("scratchpad", machine.scratchpad_kib), ("accumulator", machine.accumulator_kib)):
            used = sum(one.bytes * one.copies for one in detail.held if one.memory == memory)
            share = used / (kib * 1024)
            assert 0 < share <= 1
            shown = re.search(rf"{memory}[^%]* of [^%]*\((<?[\d.]+)%\)", text)
            assert shown is not None
            assert float(shown[1].lstrip("<")) / 100 == pytest.approx(share, rel=0.02, abs=0.006)
        limit = {"compute": "array (MACs)", "dram": "DRAM"}.get(cost.bottleneck, cost.bottleneck)
        assert f"{limit} (binds)" in text
        gain = 1 - detail.doubled[cost.resources.index(cost.bottleneck)] / cost.latency_cycles
        assert "with twice of it " in text or gain < 0.0006
        assert "Words and bytes" in text
    engine.do("elements['layer'].all((e) => e.textContent === 'close')[0].fire('click')")
    assert engine.get("elements['layer'].open") is False


def test_bottlenecks_and_what_doubling_gives() -> None:
    """From the headline down; what gives most by doubling comes first."""
    data = helpers.report_data(candidates=3, layers=16)
    head, *rows = Engine(page_html(data)).rows("bottlenecks")
    assert head.startswith("all layers | ")
    assert amount(head.split(" | ")[1]) == pytest.approx(data.best.cost.latency_cycles, rel=6e-3)
    found = Counter(cost.bottleneck for cost in data.best_layers)
    assert len(rows) == len(data.resources)
    words = {"compute": "array", "dram": "DRAM"}
    details, doubled = data.details[data.best_index], []
    for name in data.resources:
        (row,) = (row for row in rows if row.startswith(words.get(name, name)))
        assert row.split(" | ")[3] == str(found[name])
        k = data.resources.index(name)
        total = sum(t.count * d.doubled[k] for t, d in zip(data.tasks, details, strict=True))
        assert amount(row.split(" | ")[1]) == pytest.approx(total, rel=6e-3)
        own = sum(
            t.count * c.latency_cycles
            for t, c in zip(data.tasks, data.best_layers, strict=True)
            if c.bottleneck == name
        )
        assert amount(row.split(" | ")[2]) == pytest.approx(own, rel=6e-3)
        doubled.append((total, rows.index(row)))
    assert [place for _, place in sorted(doubled)] == [
        place for _, place in sorted(doubled, key=lambda p: p[1])
    ]


def amount(text: str) -> float:
    """Cycles, from text as `12.3 kcycles…`."""
    found = re.match(r"([\d.]+) ([kMG]?)cycles", text)
    assert found is not None, text
    return float(found[1]) * {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}[found[2]]


def saved(engine: Engine) -> str:
    return str(engine.get("saved[saved.length - 1].text"))


def press(engine: Engine, label: str) -> None:
    engine.do(
        f"elements['design'].all((e) => e.tag === 'button' && e.textContent === '{label}')[0].fire('click')"
    )


def test_files_to_keep(tmp_path: Path) -> None:
    text = '=HYPERLINK("http://127.0.0.1") \'é" #: - {x}'
    data = helpers.hostile(helpers.report_data(candidates=5, layers=4), text)
    engine = Engine(page_html(data), address="#design=3")
    press(engine, "accelerator.yaml")
    (tmp_path / "accelerator.yaml").write_text(saved(engine), "utf-8")
    assert Accelerator.from_yaml(tmp_path / "accelerator.yaml") == data.candidates[3].accelerator
    press(engine, "mappings.yaml")
    content = yaml.safe_load(saved(engine))
    assert content["accelerator"] == data.candidates[3].accelerator.config_hash
    for entry, task, mapping in zip(content["layers"], data.tasks, data.candidates[3].mappings, strict=True):
        assert (entry["network"], entry["count"]) == (text, task.count)
        copies = tuple(2 if name in entry["double_buffered"] else 1 for name in "WIO")
        again = replace(parse_mapping(entry["mapping"]), buffering=copies)
        assert (again.temporal, again.buffering) == (mapping.temporal, mapping.buffering)
    press(engine, "layers.csv")
    rows = list(csv.DictReader(io.StringIO(saved(engine))))
    assert data.costs[3] is not None
    costs = data.costs[3].layer_costs
    assert [row["network"] for row in rows] == ["'" + text] * len(data.tasks)  # no spreadsheet runs it
    assert [float(row["latency_cycles"]) for row in rows] == [c.latency_cycles for c in costs]
    assert [float(row["energy_uj"]) for row in rows] == pytest.approx(
        [c.energy_pj * 1e-6 for c in costs], rel=1e-12
    )
    assert [row["limited_by"] for row in rows] == [c.bottleneck for c in costs]
    engine.change("every-mapping", "on")
    engine.do("elements['save-designs'].fire('click')")
    rows = list(csv.DictReader(io.StringIO(saved(engine))))
    assert sorted(row["design"] for row in rows) == ["0", "1", "2", "3", "4", "gemmini-default"]
    for row in rows:
        if row["design"].isdigit():
            cost = data.candidates[int(row["design"])].cost
            assert float(row["latency_cycles"]) == cost.latency_cycles
            assert (float(row["energy_uj"]), float(row["edp_uj_cycles"])) == (cost.energy_uj, cost.edp)
            assert row["source"] == cost.source


def costs_of(network: Network, beside: Sequence[CostEntry] = ()) -> DesignCosts:
    """Of a program of layers of 10 cycles, and of what is beside them."""
    tasks = Workload.of([network]).tasks
    cost = LayerCost(10.0, 5.0, 1.0, (1.0,) * 4, (10.0, 0.0, 0.0, 0.0), (5.0, 0.0, 0.0, 0.0, 0.0))
    runs = [
        task.count - sum(name in one.operators for one in beside for name in task.operators) for task in tasks
    ]
    return DesignCosts(layer_entries(tasks, [cost] * len(tasks), runs, beside), tuple(beside), whole=True)


def group(network: str, *names: str) -> CostEntry:
    return CostEntry(
        network, " > ".join(names), "group", "group", "accelerator", 1.0, 7.0, {"array": 3.0}, names
    )


def test_units_of_networks() -> None:
    # what `baco networks` counts: tensor operators, those that cost nothing beside them, the others
    for name, counts in (("resnet50", (54, 119, 1)), ("mobilenet_v2", (53, 97, 1))):
        network = load_network(name)
        units = network_units(network, costs_of(network))
        where = Counter(unit.on for unit in units)
        rides = sum(len(unit.rides) for unit in units)
        assert (where["accelerator"], rides, where["nothing"]) == counts
        for place, unit in enumerate(units):
            assert all(-1 <= source < place for source in unit.sources)
    # an addition waits for both of its inputs, wherever they come from
    resnet = load_network("resnet50")
    units = network_units(resnet, costs_of(resnet))
    places = {unit.name: place for place, unit in enumerate(units)}
    last = units[places["layer1.1.conv3"]]
    assert last.rides[-2:] == ["layer1.1.add (add)", "layer1.1.relu (relu)"]
    assert last.sources == {places["layer1.1.conv2"], places["layer1.0.downsample"]}


def test_what_costs_something_is_a_unit_and_groups_stand_together() -> None:
    resnet = load_network("resnet50")
    add = CostEntry(
        "resnet50", "layer1.1.add", "operator", "addition", "accelerator", 1.0, 2.0, {}, ("layer1.1.add",)
    )
    pool = CostEntry(
        "resnet50", "avgpool", "operator", "average", "host", 1.0, 9.0, {"host": 1.0}, ("avgpool",)
    )
    start = CostEntry("resnet50", "start", "operator", "start", "host", 1.0, 9.0, {"host": 1.0})
    one = group("resnet50", "layer1.0.conv2", "layer1.0.conv3", "layer1.0.add")
    costs = costs_of(resnet, [add, pool, one, start])
    entries = (*costs.layers, *costs.beside)
    units = network_units(resnet, costs)
    places = {unit.name: place for place, unit in enumerate(units)}
    inside = [unit.name for unit in units if unit.group == one.name]
    assert inside == list(one.operators)
    assert [places[name] - places[inside[0]] for name in inside] == [0, 1, 2]
    # its last member reads the downsampled image too, which is made in between
    assert places["layer1.0.downsample"] < places["layer1.0.conv2"]
    assert units[places["layer1.0.add"]].sources == {places["layer1.0.conv3"], places["layer1.0.downsample"]}
    assert units[places["layer1.1.add"]].sources == {places["layer1.1.conv3"], places["layer1.0.add"]}
    for unit in units:
        assert unit.entry is None or unit.name in (entries[unit.entry].operators or ("start",))
    assert units[places["avgpool"]].on == "host"
    assert units[-1].name == "start"
    assert all(source < place for place, unit in enumerate(units) for source in unit.sources)


def test_the_graph_on_the_page() -> None:
    data = helpers.report_data(layers=80)
    engine = Engine(page_html(data))
    assert len(engine.get("elements['graph'].children.map((e) => 1)")) == 61  # a note says how many more
    assert "more below" in engine.get("elements['graph'].children[60].textContent")
    engine.change("graph-all", "on")
    assert len(engine.get("elements['graph'].children.map((e) => 1)")) == 81
    assert engine.get("elements['graph'].children[80].textContent").startswith("softmax")
    first = engine.get("elements['graph'].children[0].textContent")
    assert first.startswith("layer0 conv2d")
    assert "accelerator" in first


def test_headline_and_whole_program() -> None:
    data = helpers.report_data()
    cards = {one["label"]: (one["value"], one["remark"]) for one in payload(data)["cards"]}
    host = sum(one.runs * one.cycles for one in data.best_costs.beside)
    assert list(cards)[:3] == ["Whole program", "Accelerator", "Host"]
    assert "4.10 kcycles" in cards["Host"][1]
    assert host == 4096
    assert "Against gemmini-default" in cards
    assert json.loads(json.dumps(payload(data)))["workload"][0]["host"] == host


def test_reports_without_a_baseline_or_details() -> None:
    data: Any = replace(helpers.report_data(candidates=3), baseline=None, details={})
    engine = Engine(page_html(data))
    assert engine.get("document.body.dataset.ready") == "yes"
    engine.do("elements['layers'].tBodies[0].children[0].fire('click')")
    assert "nearest to the best only" in engine.text("layer")
    assert all(row.split(" | ")[1] == "–" for row in engine.rows("bottlenecks")[1:])


HEADS = "[...elements['{}'].tHead.children[0].children]"


def press_heading(engine: Engine, table: str, title: str) -> None:
    engine.do(
        f"{HEADS.format(table)}.find((e) => e.textContent.startsWith('{title}')).children[0].fire('click')"
    )


def sorted_by(engine: Engine, table: str) -> list[list[str]]:
    """Titles of the columns by which a table says that it is sorted, with the direction."""
    return list(
        engine.get(
            f"{HEADS.format(table)}.filter((e) => e.getAttribute('aria-sort'))"
            ".map((e) => [e.textContent, e.getAttribute('aria-sort')])"
        )
    )


def test_a_table_stays_sorted_while_designs_are_pinned_and_chosen() -> None:
    data = helpers.report_data(candidates=9, layers=12)
    engine = Engine(page_html(data))
    for _ in range(2):
        press_heading(engine, "designs", "Area")
    press_heading(engine, "layers", "Energy")
    areas = [c.cost.area_mm2 for c in data.candidates]
    assert data.baseline is not None
    areas.append(data.baseline.cost.area_mm2)
    order = [str(i) for i in sorted(range(len(areas)), key=areas.__getitem__)]

    def listed() -> list[str]:
        names = [row.split(" | ")[1].removeprefix("#") for row in engine.rows("designs")]
        return [name if name.isdigit() else str(len(data.candidates)) for name in names]

    assert listed() == order
    boxes = "elements['designs'].tBodies[0].all((e) => e.tag === 'input')"
    engine.do(f"{boxes}[3].checked = true; {boxes}[3].fire('change')")
    engine.do(f"{boxes}[5].checked = true; {boxes}[5].fire('change')")
    assert engine.get("elements['compare-section'].hidden") is False
    assert engine.get(f"{boxes}.map((e) => e.checked)").count(True) == 2
    engine.do("elements['designs'].tBodies[0].children[4].fire('click')")
    assert engine.get("document.body.dataset.shown") == order[4]
    assert listed() == order
    assert sorted_by(engine, "designs") == [["Area, mm² ± 2.5%", "ascending"]]
    # the layers are now another design's, in the order that was asked for
    assert sorted_by(engine, "layers") == [["Energy ± 70%", "descending"]]
    place = int(order[4])
    of_design = data.costs[place] if place < len(data.candidates) else data.baseline.costs
    assert of_design is not None
    energies = [
        task.count * one.energy_pj for task, one in zip(data.tasks, of_design.layer_costs, strict=True)
    ]
    expected = sorted(range(len(energies)), key=lambda i: -energies[i])
    assert [int(row.split(" | ")[0]) - 1 for row in engine.rows("layers")] == expected


def test_on_a_narrow_page_what_a_design_costs_comes_first() -> None:
    data = helpers.report_data(candidates=5)
    page = page_html(data)
    titles = f"{HEADS.format('designs')}.map((e) => e.textContent)"
    narrow = Engine(page, before="document.documentElement.clientWidth = 390;")
    wide = Engine(page, before="document.documentElement.clientWidth = 1440;")
    costs = ["Design", "Latency, cycles ± 81%", "Energy ± 70%", "EDP, µJ·cycles ± 209%", "Area, mm² ± 2.5%"]
    assert narrow.get(titles)[:5] == costs
    assert sorted(narrow.get(titles)) == sorted(wide.get(titles))
    assert [title for title in wide.get(titles) if title in costs] == costs
    # cells follow their headings
    places = [narrow.get(titles).index(title) for title in wide.get(titles)]
    for before, after in zip(wide.rows("designs"), narrow.rows("designs"), strict=True):
        assert [after.split(" | ")[place] for place in places] == before.split(" | ")
    layers = narrow.get(f"{HEADS.format('layers')}.map((e) => e.textContent)")
    assert layers[:3] == ["Part", "Latency, cycles ± 81%", "Energy ± 70%"]


def test_paper_gets_every_row_and_plots_of_its_width() -> None:
    data = helpers.report_data(candidates=15, layers=280)
    engine = Engine(page_html(data))
    press_heading(engine, "designs", "Area")
    units = len(network_units(data.workload.networks[0], data.best_costs))
    on_screen = {table: len(engine.rows(table)) for table in ("designs", "layers")}
    assert on_screen == {"designs": 10, "layers": 200}
    assert len(data.tasks) > 200
    engine.do("windowListeners.beforeprint.forEach((act) => act())")
    assert len(engine.rows("designs")) == len(
        {c.accelerator.config_hash for c in data.candidates} | {"gemmini"}
    )
    assert sorted_by(engine, "designs") == [["Area, mm² ± 2.5%", "descending"]]
    assert len(engine.rows("layers")) == len(data.tasks)
    assert "more" not in engine.text("designs") + engine.text("layers")
    assert len(engine.get("elements['graph'].children.map((e) => 1)")) == units
    widths = {name: plot["layout"].get("width") for name, plot in engine.get("plots").items()}
    assert set(widths.values()) == {680}  # A4 has 718 pixels between its margins
    engine.do("windowListeners.afterprint.forEach((act) => act())")
    assert {table: len(engine.rows(table)) for table in ("designs", "layers")} == on_screen
    assert all(plot["layout"].get("width") != 680 for plot in engine.get("plots").values())


def test_every_table_says_what_it_holds() -> None:
    engine = Engine(page_html(helpers.report_data(candidates=5)), address="#pin=1,2")
    engine.do("elements['layers'].tBodies[0].children[0].fire('click')")
    tables = (
        "[...Object.values(elements).filter((e) => e.tBodies.length),"
        " ...elements['layer'].all((e) => e.tag === 'table')].map((e) => [e.children[0].tag, e.children[0].textContent])"
    )
    found = engine.get(tables)
    assert len(found) >= 9
    assert {tag for tag, _ in found} == {"caption"}
    assert all(len(text) > 10 for _, text in found)


def test_axes_say_the_unit_that_their_numbers_have() -> None:
    """Whatever is shown on an axis: its numbers times the unit in its title are the costs, and no tick adds a prefix."""
    data = helpers.report_data(candidates=12, layers=9, objective="energy")
    engine = Engine(page_html(data))
    engine.change("zoom-all", "on")
    engine.change("every-mapping", "on")
    units = {"latency": "cycles", "energy": "J", "power": "W", "area": "mm²"}
    for across, up in (("latency", "energy"), ("energy", "power"), ("power", "area")):
        engine.change("axis-x", across)
        engine.change("axis-y", up)
        plot = engine.get("plots['plot-front']")
        for trace in plot["traces"]:
            for place, index in enumerate(trace.get("customdata", [])):
                baseline = data.baseline
                assert baseline is not None
                design = data.candidates[index] if index < 12 else baseline
                seconds = design.cost.latency_cycles / (design.accelerator.clock_mhz * 1e6)
                joules = design.cost.energy_pj * 1e-12
                truth = {
                    "latency": design.cost.latency_cycles,
                    "energy": joules,
                    "power": joules / seconds,
                    "area": design.cost.area_mm2,
                }
                for axis, name in (("x", across), ("y", up)):
                    size = size_of_unit(plot["layout"][axis + "axis"]["title"]["text"], units[name])
                    assert trace[axis][place] * size == pytest.approx(truth[name], rel=1e-3)
    title = engine.get("plots['plot-history'].layout.yaxis.title.text")
    best = engine.get("plots['plot-history'].traces[0].y")[-1] * size_of_unit(title, "J")
    assert best == pytest.approx(data.best.cost.energy_pj * 1e-12, rel=1e-3)
    for plot in engine.get("plots").values():
        for name, axis in plot["layout"].items():
            if "axis" in name and re.search("cycles|J$|W$", axis.get("title", {}).get("text", "")):
                assert not axis.get("ticksuffix")
                assert "s" not in axis.get("tickformat", "")


def test_the_prefix_of_an_axis_fits_its_values() -> None:
    """In the page and in the figures of Python alike."""
    engine = Engine(page_html(helpers.report_data(candidates=1, layers=1)))
    for values, log, prefix in (
        ([5e-4, 1.5e-3], False, "m"),
        ([0, 9e-4], False, "µ"),
        ([2e-6, 3e-1], True, "µ"),  # the middle of the decades is 0.8 m
        ([2e-5, 3e-1], True, "m"),
        ([4e-3, 2e-2], True, "m"),
        ([1e6, 999e6], False, "M"),
        ([12, 900], False, ""),
        ([0], False, ""),
        ([], False, ""),
    ):
        found = engine.get(f"Baco.axisUnit({json.dumps(values)}, 'J', '{'log' if log else 'linear'}')")
        factor = {"": 1.0, "M": 1e6, "m": 1e-3, "µ": 1e-6}[prefix]
        assert found == {"factor": factor, "unit": prefix + "J"}, values
        if log or len(values) < 2 or max(values) <= 3 * min(values):  # figures choose the kind of axis
            axis = metric_axis("energy", [value * 1e12 for value in values])
            assert axis.title == f"energy, {prefix}J"
            assert axis.factor == pytest.approx(1e-12 / factor)
            assert axis.log is log


def test_no_two_resources_look_alike() -> None:
    """Colours of one legend are apart, for readers who cannot tell red from green either (CIE 1976 distances)."""

    def lab(color: str, seen: Any) -> Any:
        level = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        light = np.clip(
            seen @ np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4), 0, 1
        )
        xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ light
        f = np.cbrt(xyz / [0.9505, 1, 1.089])
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    colors: dict[str, str] = {}
    for one in RESOURCES.values():
        assert colors.setdefault(one.label, one.color) == one.color  # one thing, one colour
    # linear light as protanopes and deuteranopes see it (Machado and others, 2009)
    protan = [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]
    deutan = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    for seen, least in ((np.eye(3), 20), (np.array(protan), 6), (np.array(deutan), 6)):
        for (a, first), (b, second) in itertools.combinations(colors.items(), 2):
            assert np.linalg.norm(lab(first, seen) - lab(second, seen)) > least, (a, b)


def commands_of(engine: Engine) -> list[str]:
    found = engine.get("elements['next'].all((e) => e.tag === 'pre').map((e) => e.textContent)")
    return list(found)


def test_commands_to_go_on_with_the_design_in_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They follow the design, name the folder of the page as a shell reads it, and are those of `baco`."""
    folder = tmp_path / "it's my study"
    write_report(helpers.report_data(candidates=6), folder)
    place = json.dumps(quote(str(folder / "report.html")))
    data = replace(
        helpers.report_data(candidates=6),
        command="explore --network 'my net.onnx' -n resnet18:batch=2 --network table.csv",
    )
    engine = Engine(page_html(data), before=f"location.protocol = 'file:'; location.pathname = {place};")
    ranked = sorted(range(6), key=lambda i: data.candidates[i].objective)
    lines = [shlex.split(line) for line in commands_of(engine)]
    assert lines == [
        ["baco", "run", "--network", "my net.onnx", "--accelerator", str(folder), "--engine", "timed"],
        ["baco", "run", "--network", "resnet18:batch=2", "--accelerator", str(folder), "--engine", "timed"],
        ["baco", "validate", str(folder), "--best", "1", "--spread", "0"],
        ["baco", "rtl", str(folder), "--out", "accelerator.v"],
    ]
    monkeypatch.chdir(tmp_path)
    assert run("baco", lines[-1][1:]) == 0
    assert "module baco_accelerator" in (tmp_path / "accelerator.v").read_text("utf-8")
    (chosen,) = [one for _, one in choose_candidates(data.candidates, data.objective, 3, 0)][2:]
    assert chosen is data.candidates[ranked[2]]
    # another design is no study's best: its configuration has to be saved
    third = ranked[2]
    engine.do(f"elements['plot-front'].fire('plotly_click', {{points: [{{customdata: {third}}}]}})")
    assert [shlex.split(line) for line in commands_of(engine)][1:] == [
        [
            "baco",
            "run",
            "--network",
            "resnet18:batch=2",
            "--accelerator",
            "accelerator.yaml",
            "--engine",
            "timed",
        ],
        ["baco", "validate", str(folder), "--best", "3", "--spread", "0"],
        ["baco", "rtl", "accelerator.yaml", "--out", "accelerator.v"],
    ]
    assert engine.text("next").startswith("Save accelerator.yaml of this design first")
    engine.do("elements['next'].all((e) => e.getAttribute('class') === 'link')[0].fire('click')")
    (tmp_path / "accelerator.yaml").write_text(saved(engine), "utf-8")
    machine = Accelerator.from_yaml(tmp_path / "accelerator.yaml")
    assert machine.config_hash == data.candidates[third].accelerator.config_hash
    assert run("baco", shlex.split(commands_of(engine)[-1])[1:]) == 0
    engine.do("elements['plot-front'].fire('plotly_click', {points: [{customdata: 6}]})")
    assert [shlex.split(line) for line in commands_of(engine)][2:] == [
        ["baco", "validate", str(folder), "--best", "1", "--spread", "0", "--baseline"],
        ["baco", "rtl", "gemmini-default", "--out", "accelerator.v"],
    ]
