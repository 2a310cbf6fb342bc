"""The tutorial notebook runs from top to bottom, and mistakes in it stay short."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import nbformat
import pytest

from tests import notebook


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    return notebook.executed(tmp_path_factory.mktemp("notebook"))


def texts(cell: nbformat.NotebookNode) -> str:
    """What a cell printed and showed as plain text."""
    return "\n".join(one.get("text") or one.get("data", {}).get("text/plain", "") for one in cell.outputs)


def cell(notebook: nbformat.NotebookNode, words: str) -> nbformat.NotebookNode:
    (found,) = (one for one in notebook.cells if one.cell_type == "code" and words in one.source)
    return found


@pytest.mark.slow
def test_the_notebook_is_kept_with_what_its_cells_show(executed: nbformat.NotebookNode) -> None:
    """After changing it, or what searches find: python -m tests.notebook."""
    kept = nbformat.read(notebook.NOTEBOOK, as_version=4)
    nbformat.validate(kept)
    cells = [one for one in kept.cells if one.cell_type == "code"]
    assert [one.execution_count for one in cells] == list(range(1, len(cells) + 1))
    assert notebook.shown(kept) == notebook.shown(notebook.tidy(copy.deepcopy(executed)))
    assert sum(bool(text) for text in notebook.shown(kept)) >= len(cells) - 1
    text = notebook.NOTEBOOK.read_text("utf-8")
    assert "/tmp" not in text
    assert str(Path.home()) not in text
    assert len(text) < 100_000


@pytest.mark.slow
def test_every_cell_says_what_the_text_promises(executed: nbformat.NotebookNode) -> None:
    (shown,) = cell(executed, 'objective="edp"').outputs
    assert re.search(r"<table>.*\d+×\d+ WS.*predicted", shown.data["text/html"])
    bar, printed = cell(executed, "small_or_fast = ").outputs
    assert bar.data["text/html"] == "", "the bar goes when the search is done"
    assert re.fullmatch(r"best  <Candidate .*>\nknee  <Candidate .*>\n", printed.text)
    (front,) = cell(executed, "plot_front").outputs
    assert front.data["application/vnd.plotly.v1+json"]["data"][2]["name"] == "best"
    own = texts(cell(executed, "def price"))
    assert re.search(r"^<Candidate .*>\nbatches: seeding, ", own)
    assert re.search(r"^1[2-9]\d samples, price [1-9][\d,]+", texts(cell(executed, "study.samples")))
    assert re.search(
        r"^[\d,]+ cycles, bound by \w+: explicit .*\s+[\d,]+ cycles, bound by",
        texts(cell(executed, "Mapping.parse")),
    )
    assert "right" in texts(cell(executed, "program.run()"))
    assert "right" in texts(cell(executed, "whole = "))
    kernel = texts(cell(executed, "@baco.jit"))
    assert re.search(r"^<functional: exit code 0, [1-9]\d* accelerator commands, 262,144 MACs>$", kernel)
    assert "report.html" in texts(cell(executed, "save_report"))


@pytest.mark.slow
def test_a_mistake_is_the_users_line_and_one_message(executed: nbformat.NotebookNode) -> None:
    (error,) = cell(executed, 'baco.explore("resnet5")').outputs
    assert error.ename == "InputError"
    assert len(error.traceback) == 2
    line, message = error.traceback
    assert line.endswith('line 1: baco.explore("resnet5")')
    assert message.startswith("InputError: unknown network 'resnet5'\n  hint: did you mean 'resnet50'?")
    assert message.count("\n") == 1


def test_a_bar_between_parts_of_a_line_leaves_no_trace() -> None:
    """Kernels flush what is printed by the clock: a bar may come before a line's end."""
    new = nbformat.v4
    bar = new.new_output("display_data", {"text/html": ""})
    line, end = (new.new_output("stream", name="stdout", text=text) for text in ("9 cycles", "\n"))
    cell = new.new_code_cell("run", outputs=[line, bar, end])
    outputs = notebook.tidy(new.new_notebook(cells=[cell])).cells[0].outputs
    assert [(output.name, output.text) for output in outputs] == [("stdout", "9 cycles\n")]
