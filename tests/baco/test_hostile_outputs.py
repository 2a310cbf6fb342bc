"""What is written and printed of names that others chose: files of every kind stay what they are."""

import csv
import html.parser
import io
import json
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml

from baco.common.figure import figure_bytes, figure_text
from baco.display.console import FitConsole
from baco.main import run
from baco.workloads.inputs.tables import COLUMNS
from tests.baco.hostile import ODD_NAMES, processor_seconds

pytestmark = pytest.mark.usefixtures("no_neighbours")

#: Bytes of a file's name: not UTF-8, a line break, a sequence for terminals, a mark of direction.
FILE = os.fsdecode(b"m\xf6d\x1b[31m\nerror: forged\xe2\x80\xae")
NETWORK = "=cmd|' /C calc'!A0 [red]$x^{1$ $\\frac$ <b>&\u6f22"


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with processor_seconds(60):
        code = run("baco", list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def shown(text: str) -> None:
    """Nothing of the odd characters reached the terminal."""
    assert not {"\x1b", "\u202e", "\udcf6", "\x9b"} & set(text)
    assert "\nerror: forged" not in text


@pytest.fixture(scope="module")
def table() -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*COLUMNS, "stride_h", "stride_w", "dilation_h", "dilation_w", "count", "name"])
    for number, name in enumerate(ODD_NAMES):
        writer.writerow([NETWORK, 1, 1, 8 + number, 1, 16, 16, 1, 1, 1, 1, 1, 1, name])
    return text.getvalue()


class Text(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_search_on_odd_names(tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str) -> None:
    (tmp_path / f"{FILE}.csv").write_text(table, "utf-8")
    file, out = str(tmp_path / f"{FILE}.csv"), tmp_path / f"{FILE}.out"
    code, printed, _ = call(capsys, "networks", file)
    assert code == 0
    shown(printed)
    assert all(name in printed for name in (NETWORK, *ODD_NAMES))  # neither markup nor emoji codes
    space = tmp_path / "space.yaml"
    space.write_text("dim: [8, 16]\nscratchpad_kib: [64]\naccumulator_kib: [32]\n")
    code, printed, err = call(
        capsys, "explore", "-n", file, "--space", str(space), "--samples", "10", "--out", str(out)
    )
    assert code == 0, err
    shown(printed)
    shown(err)
    assert "Glyph" not in err
    for name in ("pareto.svg",):
        ElementTree.parse(out / name)
    with (out / "best" / "mappings.csv").open(newline="", encoding="utf-8") as content:
        rows = list(csv.DictReader(content))
    assert {row["layer"].removeprefix("'") for row in rows} == set(ODD_NAMES)
    assert {row["network"] for row in rows} == {"'" + NETWORK}
    assert not [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "-", "@")]
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert [name for layer in summary["layers"] for name in layer["operators"]] == list(ODD_NAMES)
    assert summary["networks"][0]["name"] == NETWORK
    layers = yaml.safe_load((out / "best" / "mappings.yaml").read_text("utf-8"))["layers"]
    assert [name for layer in layers for name in layer["operators"]] == list(ODD_NAMES)
    page = Text((out / "report.html").read_text("utf-8"))
    assert "b" not in page.tags
    assert NETWORK in page.text
    code, printed, err = call(
        capsys, "evaluate", str(out / "best" / "mappings.csv"), "--out", str(tmp_path / "again.csv")
    )
    assert code == 0, err
    with (tmp_path / "again.csv").open(newline="", encoding="utf-8") as content:
        assert not [cell for row in csv.reader(content) for cell in row if cell[:1] in ("=", "+", "-", "@")]


def test_names_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / FILE)
    Path(f"{place}.yaml").write_text("dim: 4\nscratchpad_kib: 16\naccumulator_kib: 8\n")
    Path(f"{place}.layers.yaml").write_text("layers:\n  - {type: gemm, M: 2, K: 2, N: 2}\n")
    Path(f"{place}.log").write_text(
        "# baco command log 1, dim 16\nunit,id,funct,rs1,rs2,allocated,issued,done\nload,0,2,0x0,0x0,1,2,3\n"
    )
    for arguments in (
        ("networks", f"{place}.layers.yaml"),
        ("rtl", f"{place}.yaml", "-o", f"{place}.v", "--header", f"{place}.h"),
        ("export-chipyard", f"{place}.yaml", "-o", f"{place}.folder"),
        ("trace", f"{place}.log", "-o", f"{place}.html"),
        ("trace", f"{place}.log", "-o", f"{place}.svg"),
        ("compile", "--gemm", "2x2x2", "-a", f"{place}.yaml", "-o", f"{place}.elf"),
        ("compile", "--gemm", "2x2x2", "-a", f"{place}.yaml", "--emit", "instgem", "-o", f"{place}.mlir"),
        ("opt", f"{place}.mlir", "-p", "instgem-hoist-config"),
    ):
        code, out, err = call(capsys, *arguments)
        assert code == 0, err
        shown(out)
        shown(err)
    for suffix in (".v", ".h", ".html", ".svg", ".elf", ".mlir"):
        assert Path(f"{place}{suffix}").stat().st_size > 0
    ElementTree.parse(f"{place}.svg")
    code, out, _ = call(capsys, "rtl", f"{place}.yaml", "-o", f"{place}.v", "--json")
    assert (code, json.loads(out)["verilog"]) == (0, f"{place}.v")
    for arguments in (
        ("rtl", f"{place}.none.yaml", "-o", "x"),
        ("simulate", f"{place}.none"),
        ("evaluate", f"{place}.v", "--out", "x"),
    ):
        code, out, err = call(capsys, *arguments)
        assert code == 2
        assert err.startswith("error: ")
        shown(err)
        assert "m\\xf6d\\x1b[31m\\nerror: forged\\u202e" in err


def test_consoles_show_text_as_it_is() -> None:
    from rich.table import Table

    text = "[red]x[/red] :bug: \x1b[31m\u202e [link=https://example.org]y[/link]"
    wanted = "[red]x[/red] :bug: \\x1b[31m\\u202e [link=https://example.org]y[/link]"
    stream = io.StringIO()
    console = FitConsole(stream, width=200, soft_wrap=True)
    console.print(text)
    table = Table(box=None)
    table.add_column(text)
    table.add_row(text)
    console.print(table)
    assert stream.getvalue().count(wanted) == 3
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        # each name in one kind of file every time
        pytest.param(kind, name, marks=[pytest.mark.slow] * ((i + j) % 3 > 0))
        for i, kind in enumerate(("png", "svg", "pdf"))
        for j, name in enumerate((*ODD_NAMES, NETWORK, "$", "$$", "\\$", "a\x00b\x1b\ufffe\ud800\u2028"))
    ],
)
def test_figures_take_any_name(kind: str, name: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 2))
    axes = figure.add_subplot()
    axes.set_title(figure_text(name))
    axes.set_xticks([0], [figure_text(name)])
    data = figure_bytes(figure, kind, dpi=50)
    assert len(data) > 1000
    if kind == "svg":
        ElementTree.fromstring(data)
