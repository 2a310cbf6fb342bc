"""The Python interface: what it takes, what it gives, and what it says to mistakes."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import baco
from baco.api.sources import workload
from baco.common.errors import InfeasibleError, InputError, StorageError
from baco.exploration.measure.merge import merge
from baco.exploration.objective import metric
from tests.golden.document import pages

pytestmark = pytest.mark.usefixtures("short_reports")

ROOT = Path(__file__).resolve().parents[2]
TABLE = """
name: small
layers:
  - {name: window, type: conv, R: 3, S: 3, P: 6, Q: 6, C: 4, K: 8, count: 2}
  - {name: product, type: gemm, M: 12, K: 10, N: 9}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interface")
    (folder / "table.yaml").write_text(TABLE)
    return folder


@pytest.fixture(scope="module")
def result(folder: Path) -> baco.Result:
    found = baco.explore(
        folder / "table.yaml",
        objective="latency,area",
        constraints={"area_mm2": 40.0},
        samples=40,
        out=folder / "study",
        progress=False,
    )
    found.save_report()
    return found


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.window = torch.nn.Conv2d(3, 8, 3)
        self.dropout = torch.nn.Dropout()
        self.product = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(self.dropout(torch.relu(self.window(x)).mean((2, 3))))


def test_importing_loads_nothing_and_wrong_arguments_load_no_model() -> None:
    code = (
        "import sys, baco; early = [m for m in ('numpy', 'torch', 'typer', 'pydantic') if m in sys.modules]; "
        "assert not early, early; from baco.main import run; "
        "codes = [run('explore', a) for a in (['--network', 'resnet5'], ['--nonsense'], "
        "['-n', 'unet', '--samples', '0'], ['-n', 'unet', '--search', 'x'], ['-n', 'unet', '--cost-model', 'x'], "
        "['-n', 'unet', '--objective', 'speed'], ['-n', 'unet', '--constraint', 'x=1'])]; "
        "assert codes == [2] * 7, codes; "
        "late = [m for m in ('torch', 'pandas', 'matplotlib', 'plotly', 'xdsl') if m in sys.modules]; assert not late, late"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error: ") == 7


def test_every_name_is_there() -> None:
    assert len(baco.__all__) == len(set(baco.__all__)) > 40
    assert all(getattr(baco, name) is not None for name in baco.__all__)
    assert set(baco.__all__) <= set(dir(baco))
    for module in (baco, baco.language):
        assert not {*module.__all__} & {*dir(builtins)} - {"__doc__", "__name__"}, (
            "a star import shadows no builtin"
        )
    for name in ("dot", "load", "store", "max", "sum", "int8"):
        assert name not in baco.__all__
        assert getattr(baco, name) is getattr(baco.language, name)
    with pytest.raises(AttributeError, match="no attribute 'explor'"):
        _ = baco.explor  # type: ignore[attr-defined]


def test_the_reference_is_that_of_the_docstrings() -> None:
    """After changing them: python -m tests.golden.document docs/python."""
    written = {path.name: path.read_text("utf-8") for path in (ROOT / "docs/python").glob("*.md")}
    assert written == pages()


def test_networks_of_every_kind(folder: Path) -> None:
    model = Model()
    graph = baco.network(model, torch.zeros(2, 3, 10, 10), name="mine")
    window, product = graph.tasks
    assert (window.problem.macs, product.problem.macs) == (2 * 8 * 8 * 9 * 3 * 8, 2 * 8 * 5)
    assert graph.name == "mine"
    assert all(part.training for part in model.modules()), "the user's model stays as it was"
    assert baco.network(graph) is graph
    assert baco.network((model, {"x": torch.zeros(2, 3, 10, 10)})).tasks[0].problem == window.problem
    assert baco.network("resnet18:batch=2").options["batch"] == 2
    assert baco.network(folder / "table.yaml").name == "small"
    assert "resnet50" in baco.networks()
    mixed = workload({"resnet18": 3, "unet": 0.5})
    assert ([one.name for one in mixed.networks], mixed.weights) == (["resnet18", "unet"], (3.0, 0.5))
    assert [one.name for one in workload([graph, "unet"]).networks] == ["mine", "unet"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("resnet5", "did you mean 'resnet50'"),
        (7, "int is no network"),
        (Model(), "a model needs example inputs"),
        ((Model(), 7), "the example inputs of Model are int"),
        ((Model(), torch.zeros(3)), "torch.export cannot trace Model"),
        ((torch.nn.ReLU(), torch.zeros(3)), "holds no operator that the accelerator runs"),
        (["unet", "unet"], "given twice"),
        ({"unet": -1}, "a positive number"),
        ({"unet": math.nan}, "a positive number"),
        ("missing.onnx", "no such file"),
    ],
)
def test_wrong_networks(source: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        baco.explore(source, out=tmp_path / "x")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir()), "a mistake leaves nothing behind"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"objective": "speed"}, InputError, "unknown objective"),
        ({"space": "mars"}, InputError, "mars"),
        ({"samples": 0}, InputError, "at least 1"),
        ({"samples": 2.5}, InputError, "samples must be a whole number"),
        ({"time_limit": math.nan}, InputError, "positive number"),
        ({"seed": -1}, InputError, "a seed is a whole number"),
        ({"search": "luck"}, InputError, "unknown searcher"),
        ({"cost_model": "luck"}, InputError, "unknown cost model"),
        ({"constraints": {"area_mm2": math.inf}}, InputError, "area_mm2"),
        ({"constraints": {"colour": 1}}, InputError, "unknown constraint"),
        ({"constraints": {"area_mm2": 1e-6}}, InfeasibleError, "area"),
        ({"proof": True}, InputError, "nothing can be proven"),
    ],
)
def test_wrong_options(
    options: dict[str, object], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        baco.explore("deepbench_ocr", out=tmp_path / "x", **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_result_is_what_the_report_says(result: baco.Result) -> None:
    summary = json.loads((result.folder / "summary.json").read_text())
    table = result.designs()
    parquet = pd.read_parquet(result.folder / "candidates.parquet").set_index("id")
    pd.testing.assert_frame_equal(table, parquet)
    assert table.index[table["best"]].tolist() == [summary["best"]["id"]]
    assert (
        result.best.cost.latency_cycles
        == summary["best"]["cost"]["latency_cycles"]
        == table["latency_cycles"].min()
    )
    assert [one.cost.area_mm2 for one in result.front] == [
        one["cost"]["area_mm2"] for one in summary["front"]
    ]
    assert result.summary() == summary
    assert (result.networks, result.cost_model, result.front_metrics) == (
        ["small"],
        "instruction",
        ("latency", "area"),
    )
    assert result.samples == 40
    assert result.stopped == "budget"
    assert "small" in repr(result)
    assert len(repr(result)) < 400


def test_the_layers_of_any_design_add_up(result: baco.Result) -> None:
    for index in (None, 0, result.front[-1]):
        layers = result.layers(index)
        design = result.data.candidates[index] if isinstance(index, int) else index or result.best
        assert (layers["count"] * layers["latency_cycles"]).sum() == pytest.approx(design.cost.latency_cycles)
        assert (layers["count"] * layers["energy_uj"]).sum() == pytest.approx(design.cost.energy_uj)
        assert layers["share"].sum() == pytest.approx(1)
        assert layers["layer"].tolist() == ["window", "product"]
    with pytest.raises(InputError, match="numbered from 0"):
        result.layers(10**6)


def test_the_knee_is_the_nearest_to_the_ideal(result: baco.Result) -> None:
    """By a loop over the front, in words: logarithms, scaled to their range, distance to the least of each."""
    costs = [[math.log(metric(one.cost, name)) for name in ("latency", "area")] for one in result.front]
    assert len(costs) > 2
    spans = [(min(column), max(column)) for column in zip(*costs, strict=True)]
    distances = [
        sum(((value - low) / (high - low)) ** 2 for value, (low, high) in zip(row, spans, strict=True))
        for row in costs
    ]
    assert result.knee is result.front[distances.index(min(distances))]
    summary = json.loads((result.folder / "summary.json").read_text())
    assert summary["knee"]["cost"]["area_mm2"] == result.knee.cost.area_mm2
    assert merge(result.front, [], result.objective).best == 0, "while the best is at an end of the front"
    assert result.knee is not result.best


def test_a_log_is_drawn(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    baco.compile(baco.gemm(16, 16, 16)).run("rtl", log=log)
    baco.trace(log, tmp_path / "chart.html", perfetto=tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    units = {one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert {"load", "execute", "store"} <= units
    assert {"MVIN", "PRELOAD", "MVOUT"} <= {one["name"] for one in events if one["ph"] == "X"}
    assert "<script" in (tmp_path / "chart.html").read_text(encoding="utf-8")
    with pytest.raises(baco.InputError, match="nothing is to be written"):
        baco.trace(log)


def test_figures_show_the_designs(result: baco.Result) -> None:
    rest, front, best, knee = result.plot_front().data
    assert [trace.name for trace in (rest, front, best, knee)] == [
        "dominated",
        "Pareto front",
        "best",
        "knee",
    ]
    sizes = {"": 1.0, "k": 1e3, "M": 1e6, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
    prefix = result.plot_front().layout.xaxis.title.text.removeprefix("latency, ").removesuffix("cycles")
    cycles = [candidate.cost.latency_cycles for candidate in result.data.candidates if candidate.front]
    assert [x * sizes[prefix] for x in front.x] == pytest.approx(cycles)
    assert list(best.y) == [result.best.cost.area_mm2]
    of_energy = result.plot_front("energy", "edp")
    prefix = of_energy.layout.xaxis.title.text.removeprefix("energy, ").removesuffix("J")
    assert of_energy.data[2].x[0] * sizes[prefix] == pytest.approx(result.best.cost.energy_pj * 1e-12)
    for axis in (of_energy.layout.xaxis, of_energy.layout.yaxis):
        assert axis.exponentformat == "power"  # no tick brings a prefix of its own
    bars = [value for trace in result.plot_layers().data for value in trace.y]
    assert sum(bars) == pytest.approx(result.best.cost.latency_cycles)
    (history,) = result.plot_history().data
    assert list(history.y) == sorted(history.y, reverse=True)
    prefix = result.plot_history().layout.yaxis.title.text.removeprefix("best latency, ")
    prefix = prefix.removesuffix("cycles (predicted)")
    assert history.y[-1] * sizes[prefix] == pytest.approx(result.best.cost.latency_cycles)
    with pytest.raises(InputError, match="no metric 'colour'"):
        result.plot_front("colour")


def test_names_in_html_and_figures_are_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>&<b>x"
    table = tmp_path / "t.yaml"
    table.write_text(
        f"name: {json.dumps(hostile)}\nlayers: [{{type: gemm, M: 4, K: 4, N: 4, name: '<i>y'}}]\n"
    )
    found = baco.explore(table, samples=5, out=tmp_path / "out", progress=False)
    assert "<script>" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()
    for figure in (found.plot_front(), found.plot_layers()):
        text = figure.to_json()
        assert "<script>" not in text
        assert "<i>" not in text


def test_studies_are_read_again_and_compared(result: baco.Result, folder: Path) -> None:
    again = baco.load_study(folder / "study")
    pd.testing.assert_frame_equal(again.designs(), result.designs())
    assert again.stopped is None
    other = baco.explore(
        str(folder / "table.yaml"),
        objective="latency",
        samples=5,
        out=folder / "other",
        search="random",
        progress=False,
    )
    table = baco.compare([result, folder / "other", other])
    best = [result.best.cost.latency_cycles, *[other.best.cost.latency_cycles] * 2]
    assert table["ratio"].tolist() == pytest.approx([value / min(best) for value in best])
    edp = baco.explore(
        str(folder / "table.yaml"), samples=5, out=folder / "edp", search="random", progress=False
    )
    assert baco.compare([result, edp])["ratio"].tolist() == [1, 1], "another objective is not compared"
    with pytest.raises(InputError, match="nothing to compare"):
        baco.compare([])
    with pytest.raises(InputError, match="no study here"):
        baco.load_study(folder)
    with pytest.raises(StorageError, match="already here"):
        baco.explore("unet", out=folder / "study")


def test_accelerators_from_anything(result: baco.Result, folder: Path) -> None:
    best = result.best.accelerator
    found = [
        baco.accelerator(one) for one in (folder / "study", str(folder / "study"), result, result.best, best)
    ]
    assert {one.config_hash for one in found} == {best.config_hash}
    assert baco.accelerator(dim=8).dim == 8
    assert "module baco_accelerator" in baco.verilog(result)
    with pytest.raises(InputError, match="list is no accelerator"):
        baco.accelerator([])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"holds no best/accelerator\.yaml"):
        baco.accelerator(folder)


def test_layers_are_compiled_and_run() -> None:
    program = baco.compile(baco.gemm(12, 10, 9, bias=True, relu=True), seed=3)
    assert program.macs == 12 * 10 * 9
    assert program.predicted_cycles is not None
    assert program.predicted_utilisation == pytest.approx(program.macs / (program.predicted_cycles * 256))
    run = program.run()
    assert run.right
    assert (run.compared, run.wrong, run.cycles) == (("output",), (), None)
    assert run.outputs["output"].size == 12 * 9
    assert "right" in repr(run)
    explicit = baco.compile(baco.conv(6, 6, 4, 8, kernel=3, padding=1, stride=(1, 2)), style="explicit")
    assert str(explicit.schedule).startswith("explicit")
    assert explicit.run().outputs["output"].size == 6 * 3 * 8


def test_networks_are_compiled_and_run(folder: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 7), torch.nn.ReLU(), torch.nn.Linear(7, 5))
    data = np.random.default_rng(0).standard_normal((3, 12)).astype(np.float32)
    graph = baco.network(model, torch.from_numpy(data))
    (name,) = (one.name for one in graph.inputs)
    program = baco.compile(graph, inputs={name: data})
    assert program.macs == 3 * (12 * 7 + 7 * 5)
    run = program.run()
    assert run.right
    (found,) = run.outputs.values()
    exact = model(torch.from_numpy(data)).detach().numpy()
    assert np.abs(found - exact).max() < 0.1 * np.abs(exact).max(), "int8 is near the real numbers"
    assert len(run.operators) == 2  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no input 'z'"):
        baco.compile(graph, inputs={"z": data})


def test_a_design_is_compiled_with_its_mappings(folder: Path) -> None:
    """The same network explored and run: the accelerator of the best design, and its mappings where they are best."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(60, 70), torch.nn.ReLU(), torch.nn.Linear(70, 50))
    graph = baco.network(model, torch.zeros(33, 60))
    found = baco.explore(graph, samples=60, out=folder / "product", progress=False)
    program = baco.compile(graph, found)
    assert program.accelerator == found.best.accelerator
    run = program.run()
    assert run.right
    (mapped,) = (line for line in program.report if "as the search mapped them" in line)
    assert sum(map(int, re.findall(r"\d+", mapped))) == 2, "both layers, by one or the other"
    own = baco.compile(graph, found.folder, mappings="compiler")
    assert own.accelerator == found.best.accelerator
    assert not [line for line in own.report if "as the search mapped them" in line]
    assert own.run().right
    assert baco.compile(graph, found.best).elf == program.elf, "the same bytes, from the design alone"
    with pytest.raises(InputError, match="no mappings 'x'"):
        baco.compile(graph, found, mappings="x")
    with pytest.raises(InputError, match="`mappings` goes with a network"):
        baco.compile(baco.gemm(4, 4, 4), mappings="compiler")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: baco.gemm(0, 4, 4), "`m` is a whole number"),
        (lambda: baco.gemm(2.5, 4, 4), "m must be a whole number"),  # type: ignore[arg-type]
        (lambda: baco.conv(6, 6, 4, 8, kernel=9), "larger than the padded image"),
        (lambda: baco.conv(6, 6, 4, 8, kernel=(1, 2, 3)), "kernel must be a whole number or a tuple"),  # type: ignore[arg-type]
        (lambda: baco.compile(baco.gemm(4, 4, 4), layers=2), "`layers` goes with a network"),
        (lambda: baco.compile("deepbench_ocr", style="macro"), "`style` goes with a layer"),
        (lambda: baco.run(baco.gemm(4, 4, 4), engine="abacus"), "abacus"),
        (lambda: baco.run(baco.gemm(4, 4, 4), "nobody"), "no accelerator 'nobody'"),
    ],
)
def test_wrong_programs(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


def _documented(section: str) -> list[tuple[str, str]]:
    """Entries of the reference under a heading in bold: (name of the function or class, what is called so)."""
    found = []
    for text in pages().values():
        owner, heading = "", ""
        for line in text.splitlines():
            if title := re.match(r"#+ `(?:baco\.)?([\w.]+)`", line):
                owner, heading = title[1], ""
            elif bold := re.fullmatch(r"\*\*(\w+)\*\*", line):
                heading = bold[1]
            elif heading == section and (entry := re.match(r"\* `([^`]*)`:", line)):
                found += [(owner, name.strip(" *")) for name in entry[1].split(",")]
    return found


def _named(owner: str) -> Any:
    found: Any = baco
    for part in owner.split("."):
        found = getattr(found, part)
    return found


def test_the_reference_lists_parameters_and_nothing_else_as_such() -> None:
    documented = _documented("Args")
    assert len(documented) > 60
    for owner, name in documented:
        assert name in inspect.signature(_named(owner)).parameters, f"{owner}: {name}"
    for owner, name in _documented("Attributes"):
        thing = _named(owner)
        fields = (
            {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else set()
        )
        own = inspect.getsource(thing)
        assert (
            name in fields or hasattr(thing, name) or f"self.{name} = " in own or f"self.{name}, " in own
        ), name
    for owner, name in _documented("Raises"):
        assert name.endswith("Error"), f"{owner}: {name}"
