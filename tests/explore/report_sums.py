"""Whether everything that a report says of time and energy adds up to its headline, read from what it writes.

The headline is recomputed from what a study keeps, in plain arithmetic: costs of layers, and the rows of what programs do
beside them. Views are read as a user's own program would: JSON, Parquet, the page's blocks of data.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import zlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import baco
from baco.accel.config import Accelerator
from baco.exploration.candidate import Candidate
from baco.exploration.cost.model import make_cost_model
from baco.exploration.report.study_report import write_study_report
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.exploration.task_layers import layers_of_tasks
from tests.explore.report.test_report_page import Engine, Page, size_of_unit


def off(found: float, expected: float) -> float:
    """Relative deviation."""
    return abs(found - expected) / abs(expected) if expected else abs(found)


def raw_headline(study: StudyRecord, candidate: Candidate) -> tuple[float, float]:
    """Cycles and pJ of a design, from rows of numbers."""
    machine, workload = candidate.accelerator, study.workload()
    layers = layers_of_tasks(candidate.tasks, workload)
    model = make_cost_model(study.cost_model, layers, study.space(), None)
    own = model.layer_costs(candidate.mappings, machine)
    alone = [float(task.count) for task in candidate.tasks]
    cycles, energy = [], []
    if study.rest is not None:
        kept = study.rest.to_json()
        for network, weight in zip(workload.networks, workload.weights, strict=True):
            rows, inside = _rows(kept, network.name, machine)
            for taken, fixed, accumulator, scratchpad, _ in rows:
                cycles.append(weight * taken)
                energy.append(weight * _energy(machine, taken, fixed, accumulator, scratchpad))
            places = [n for n, task in enumerate(candidate.tasks) if task.network == network.name]
            for place, runs in zip(places, inside or [0.0] * len(places), strict=True):
                alone[place] -= weight * runs
    for one, runs in zip(own, alone, strict=True):
        cycles.append(runs * one.latency_cycles)
        energy.append(runs * one.energy_pj)
    return math.fsum(cycles), math.fsum(energy)


def _rows(kept: Any, network: str, machine: Accelerator) -> tuple[list[list[Any]], list[float]]:
    """Costs of what a network's program does beside its layers on a machine, groups included; runs of its tasks in groups."""
    sizes = machine.accumulator_kib, machine.scratchpad_kib
    units = machine.features.row_functions
    rows = kept["operators"][network][str(machine.dim)] if not units else []
    if units:
        for sized in kept["with_units"][network][str(machine.dim)]:
            if sized["accumulator_kib"] <= sizes[0] and sized["scratchpad_kib"] <= sizes[1]:
                rows = sized["operators"]  # of those that fit, the last holds
    assert all(operator["runs"] > 0 for operator in rows)
    costs, fused = [operator["cost"] for operator in rows], kept["fused"]
    for point, places in fused["points"]:
        if tuple(point) != (machine.dim, *sizes, units):
            continue
        if network in fused["choices"]:
            place = places[sorted(fused["choices"]).index(network)]
            fusion = fused["choices"][network][place]
            negative = [[-value for value in operator["cost"]] for operator in fusion["replaced"]]
            return [*costs, *negative, *(group["cost"] for group in fusion["groups"])], fusion["runs"]
    return costs, []


def _energy(
    machine: Accelerator, cycles: float, fixed: float, accumulator: float, scratchpad: float
) -> float:
    law = machine.energy_law
    own = float(law.accumulator_pj(machine.accumulator_kib, machine.dim))
    shared = float(law.scratchpad_pj(machine.scratchpad_kib, machine.dim))
    return fixed + own * accumulator + shared * scratchpad + machine.static_pj(cycles)


def deviations(folder: Path, *, script: bool = True) -> dict[str, float]:
    """Write the report of a study into its folder; the largest deviation of every view from the headline, by name.

    Args:
        script: run the page's script, too, for what it draws and the files that it saves.
    """
    write_study_report(folder / FILE_NAME, folder)
    result = baco.load_study(folder)
    data = result.data
    found: dict[str, float] = {}

    def note(name: str, value: float, expected: float) -> None:
        found[name] = max(found.get(name, 0.0), off(value, expected))

    with StudyRecord.open(folder / FILE_NAME, read_only=True) as study:
        kept = study.candidates() or study.nearest()
        for index, candidate in enumerate(kept):
            cycles, energy = raw_headline(study, candidate)
            note("study", cycles, candidate.cost.latency_cycles)
            note("study", energy, candidate.cost.energy_pj)
            note("prediction", data.prediction(index).latency_cycles, candidate.cost.latency_cycles)
            note("prediction", data.prediction(index).energy_pj, candidate.cost.energy_pj)
    page = Page((folder / "report.html").read_text("utf-8"))
    plain = json.loads(page.script("data"))
    packed = json.loads(zlib.decompress(base64.b64decode(page.script("packed"))))
    _check_payload(plain, packed, note)
    _check_files(folder, plain, note)
    for index in {result.data.best_index, 0}:
        _check_table(result, index, note)
    if script:
        _check_script((folder / "report.html").read_text("utf-8"), plain, result, note)
    return found


def _check_payload(plain: Any, packed: Any, note: Any) -> None:
    assert packed["rows"].keys() == packed["beside"].keys() == packed["bottlenecks"].keys()
    for block, where in ((plain["shown"], "page"), (packed, "packed page")):
        for name, layers in block["rows"].items():
            design = plain["candidates"][int(name)]
            headline = design.get("was", design)
            if design.get("label") and design["source"] == "measured":
                continue  # the baseline's prediction is not in the page
            others = block["besides"][block["beside"][name]]
            rows = [*layers, *(others if plain["whole"] else [])]
            note(where, math.fsum(row["cycles"] * row["runs"] for row in rows), headline["latency"])
            note(
                where,
                math.fsum(math.fsum(row["energy"].values()) * row["runs"] for row in rows),
                headline["energy"],
            )
            waits = block["bottlenecks"][name]
            note(
                f"{where}, bottlenecks",
                math.fsum(bottleneck["cycles"] for bottleneck in waits),
                headline["latency"],
            )
            gains = [
                bottleneck["doubled_cycles"]
                for bottleneck in waits
                if bottleneck["doubled_cycles"] is not None
            ]
            assert all(doubled <= headline["latency"] * (1 + 1e-9) for doubled in gains)
            assert gains == sorted(gains)
            if "was" in design:
                measured = [row.get("measured") for row in (*layers, *others)]
                total = math.fsum(part["cycles"] for part in measured if part is not None)
                note(f"{where}, measured", total, design["latency"])


def _check_files(folder: Path, plain: Any, note: Any) -> None:
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    best = summary["best"]["cost"]
    design = plain["candidates"][plain["best"]]
    headline = design.get("was", design)
    predicted = [part["predicted"] for part in summary["parts"]]
    note("summary.json", math.fsum(cost["latency_cycles"] for cost in predicted), headline["latency"])
    note("summary.json", math.fsum(cost["energy_uj"] for cost in predicted), headline["energy"] * 1e-6)
    waits = math.fsum(bottleneck["latency_cycles"] for bottleneck in summary["bottlenecks"])
    note("summary.json, bottlenecks", waits, headline["latency"])
    parts = math.fsum(summary["energy"]["predicted_uj"].values())
    note("summary.json, components", parts, headline["energy"] * 1e-6)
    networks = [network["cost"] for network in summary["networks"]]
    note(
        "summary.json, networks",
        math.fsum(cost["latency_cycles"] for cost in networks),
        best["latency_cycles"],
    )
    note("summary.json, networks", math.fsum(cost["energy_uj"] for cost in networks), best["energy_uj"])
    note("summary.json, area", math.fsum(summary["area_mm2"].values()), best["area_mm2"])
    program = summary["program"]
    whole = program["accelerator_cycles"] + program["host_cycles"]
    note("summary.json, program", whole, program["latency_cycles"])
    if plain["whole"]:
        note("summary.json, program", whole, best["latency_cycles"])
        host = [part for part in summary["parts"] if part["on"] == "host"]
        source = program["host_source"]
        cycles = math.fsum((part[source] or {"latency_cycles": 0.0})["latency_cycles"] for part in host)
        note("summary.json, host", cycles, program["host_cycles"])
    if best["source"] == "measured":
        measured = [part["measured"] for part in summary["parts"] if part["measured"] is not None]
        cycles = math.fsum(cost["latency_cycles"] for cost in measured)
        note("summary.json, measured", cycles, best["latency_cycles"])
        if summary["energy"]["measured_uj"] is not None:
            energy = math.fsum(summary["energy"]["measured_uj"].values())
            note("summary.json, measured", energy, best["energy_uj"])
    rows = pq.read_table(folder / "candidates.parquet").to_pylist()
    for row, candidate in zip(rows, plain["candidates"], strict=False):
        before = candidate.get("was", candidate)
        assert (row["latency_cycles"], row["energy_uj"]) == (candidate["latency"], candidate["energy"] * 1e-6)
        assert (row["edp_uj_cycles"], row["area_mm2"]) == (candidate["edp"], candidate["area"])
        assert row["predicted_latency_cycles"] == before["latency"]
        assert row["predicted_energy_uj"] == before["energy"] * 1e-6
        assert (row["source"], row["config_hash"]) == (candidate["source"], candidate["hash"])


def _check_table(result: baco.Result, index: int, note: Any) -> None:
    table, headline = result.layers(index), result.data.prediction(index)
    cost = result.data.candidates[index].cost
    note("Result.layers", float((table["count"] * table["latency_cycles"]).sum()), headline.latency_cycles)
    note("Result.layers", float((table["count"] * table["energy_uj"]).sum()), headline.energy_uj)
    note("Result.layers", float(table["share"].sum()), 1.0)
    bars = [value for one in result.plot_layers(index).data for value in one.y]
    if len(table) <= 60:
        note("Result.plot_layers", math.fsum(bars), headline.latency_cycles)
    costs = result.data.costs[index]
    if costs is not None and costs.measured_terms_pj:
        cycles = float((table["measured_count"] * table["measured_cycles"]).sum())
        note("Result.layers, measured", cycles, cost.latency_cycles)


def _check_script(page: str, plain: Any, result: baco.Result, note: Any) -> None:
    engine = Engine(page)
    design = plain["candidates"][plain["best"]]
    headline = design.get("was", design)
    engine.change("all-bars", "on")
    traces = [trace for trace in engine.get("plots['plot-layers'].traces") if trace["type"] == "bar"]
    cycles = math.fsum(math.fsum(trace["x"]) for trace in traces if trace.get("xaxis") != "x2")
    joules = math.fsum(math.fsum(trace["x"]) for trace in traces if trace.get("xaxis") == "x2")
    titles = [
        str(engine.get(f"plots['plot-layers'].layout.{name}.title.text")) for name in ("xaxis", "xaxis2")
    ]
    factors = [size_of_unit(title, unit) for title, unit in zip(titles, ("cycles", "J"), strict=True)]
    note("bars", cycles * factors[0], headline["latency"])
    note("bars", joules * factors[1], headline["energy"] * 1e-12)
    engine.do(
        "elements['design'].all((e) => e.tag === 'button' && e.textContent === 'layers.csv')[0].fire('click')"
    )
    rows = list(csv.DictReader(io.StringIO(str(engine.get("saved[saved.length - 1].text")))))
    table = result.layers()
    table = table[(table["count"] > 0) | table["measured_count"].notna()]
    assert [row["part"].removeprefix("'") for row in rows] == list(table["layer"])
    for row, (_, expected) in zip(rows, table.iterrows(), strict=True):
        if expected["count"] > 0:
            assert float(row["runs"]) == expected["count"]
            assert float(row["latency_cycles"]) == expected["latency_cycles"]
            assert float(row["energy_uj"]) == expected["energy_uj"]
            assert row["limited_by"] == expected["bottleneck"]
        if row["measured_runs"]:
            assert float(row["measured_latency_cycles"]) == expected["measured_cycles"]
    total = math.fsum(float(row["runs"]) * float(row["latency_cycles"]) for row in rows)
    note("layers.csv", total, headline["latency"])
    energy = math.fsum(float(row["runs"]) * float(row["energy_uj"]) for row in rows)
    note("layers.csv", energy, headline["energy"] * 1e-6)
    engine.change("every-mapping", "on")
    engine.do("elements['save-designs'].fire('click')")
    rows = list(csv.DictReader(io.StringIO(str(engine.get("saved[saved.length - 1].text")))))
    assert rows
    for row in rows:
        candidate = next(c for c in plain["candidates"] if (c.get("label") or str(c["id"])) == row["design"])
        assert float(row["latency_cycles"]) == candidate["latency"]
        assert float(row["energy_uj"]) == candidate["energy"] * 1e-6
        assert float(row["edp_uj_cycles"]) == candidate["edp"]
        assert float(row["predicted_latency_cycles"]) == candidate.get("was", candidate)["latency"]
