"""What interactive sessions and notebooks show of objects: a line, and a table, of what people ask for first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baco
from baco.exploration.space import load_space
from baco.workloads.tensor_builder import TensorBuilder

pytestmark = pytest.mark.usefixtures("short_reports")


@baco.jit
def copied(x, y, n, BLOCK: baco.const = 16):
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    baco.store(y + i, baco.load(x + i))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> baco.Result:
    out = tmp_path_factory.mktemp("studies") / "face"
    return baco.explore("deepbench_face", samples=20, search="random", out=out, progress=False)


def objects(result: baco.Result) -> dict[str, Any]:
    """One of every public class whose objects users get, and what hangs on them."""
    compiled = baco.compile(baco.gemm(64, 64, 64, relu=True))
    run = compiled.run()
    arrays = np.zeros(16, np.int8), np.zeros(16, np.int8)
    return {
        "Network": baco.network("resnet50"),
        "Accelerator": baco.accelerator("gemmini-transformer,dim=8"),
        "Layer": baco.gemm(64, 64, 64),
        "TensorProgram": baco.expression("c[m,n] += a[m,k] * b[k,n]", m=8, n=8, k=8),
        "Compiled": compiled,
        "Run": run,
        "Simulation": run.simulation,
        "Result": baco.Result(result.folder),
        "Study": result,
        "Space": baco.Space.load("gemmini"),
        "Candidate": result.best,
        "ReportData": result.data,
        "Workload": result.data.workload,
        "DesignSpace": load_space("gemmini"),
        "BoundLaunch": copied[1].bind(*arrays, 16),
    }


def test_everything_is_a_line_and_a_table(result: baco.Result) -> None:
    for name, one in objects(result).items():
        assert type(one).__name__ == name
        line = repr(one)
        assert len(line) <= 260, name
        assert line.startswith("<"), name
        assert "\n" not in line, name
        html = one._repr_html_()
        assert len(html) < 8000, name
        assert html.startswith("<p>"), name
        # tags are balanced
        opened, closed = re.findall(r"<(\w+)", html), re.findall(r"</(\w+)", html)
        assert sorted(opened) == sorted(closed), name
    for other in (copied, copied[1], copied[lambda meta: 1]):
        assert re.fullmatch(r"<(Kernel|Launcher) .{1,80}>", repr(other))


def test_lines_say_what_is_asked_for_first(result: baco.Result) -> None:
    shown = {name: repr(one) for name, one in objects(result).items()}
    # 4.09 G multiply-accumulates and 25.6 M weights: the published figures of ResNet-50
    assert (
        shown["Network"]
        == "<Network resnet50: 174 operators, 24 different layers, 4.09 GMACs, 25.6 M weights>"
    )
    machine = baco.accelerator("gemmini-transformer,dim=8")
    assert shown["Accelerator"] == (
        f"<Accelerator gemmini-transformer+dim-8: 8×8 both, 256+64 KiB, 1000 MHz, {machine.config_hash}>"
    )
    assert str(machine) == shown["Accelerator"]
    assert "gemm P64 C64 K64" in shown["Layer"]
    assert "262 kMACs" in shown["Compiled"]  # 64³
    assert "right" in shown["Run"]


def test_tables_escape_what_comes_from_users() -> None:
    builder = TensorBuilder("<b>bold</b>")
    x = builder.input("<i>x</i>", (1, 8))
    builder.linear(x, 4, name="<u>y</u>")
    html = builder.build()._repr_html_()
    for tag in ("<b>", "<i>", "<u>"):
        assert tag not in html
        assert tag.replace("<", "&lt;").replace(">", "&gt;") in html


def test_long_tables_are_cut_and_say_so() -> None:
    html = baco.network("resnet50")._repr_html_()
    assert html.count("<tr>") == 1 + 20 + html.count("scope='row'")
    assert html.endswith("<p>and 4 more</p>")  # 24 different layers


def test_dir_holds_what_users_may_use() -> None:
    names = [name for name in dir(baco) if not name.startswith("__")]
    assert names == sorted(
        [*(name for name in baco.__all__ if not name.startswith("__")), "compile", "language"]
    )
    assert not hasattr(baco, "sys")


def test_small_figures_are_no_zeros(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from baco.main import run

    (tmp_path / "small.yaml").write_text("layers:\n  - {name: a, type: gemm, M: 4, K: 8, N: 8}\n")
    assert run("baco", ["networks", str(tmp_path / "small.yaml")]) == 0
    out = capsys.readouterr().out
    # 4 * 8 * 8 multiply-accumulates in the overview (GMACs) and in the table of layers (MMACs)
    assert "2.56e-07" in out
    assert "0.000256" in out
