"""A run of a program for people and for programs: what `baco run` prints and writes."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco.api.programs import Compiled, Run
from baco.cli.lowering import program_lines
from baco.cli.result_text import energy_text, result_lines
from baco.display.console import print_json, stderr, stdout


def write_report(built: Compiled, run: Run, folder: Path) -> None:
    """Charts and all figures of a network's run. Raises StorageError."""
    from baco.common.files import atomic_write
    from baco.compiler.network.program import NetworkProgram
    from baco.sim.network.chart import draw_network_html, draw_network_image

    assert run._measured is not None
    assert isinstance(built._built, NetworkProgram)
    if not run._measured.steps:
        stderr().print("there is nothing to report: the program ended before its end")
        return
    draw_network_html(built._built, run._measured, folder / "network.html")
    draw_network_image(built._built, run._measured, folder / "network.png")
    atomic_write(folder / "network.json", json_format.dumps(_plain(built, run), indent=1) + "\n")


def print_run(built: Compiled, run: Run, *, json: bool, quiet: bool) -> None:
    """What was measured, and on standard error what is wrong."""
    notes, network = stderr(), run._measured is not None
    if json:
        print_json(_plain(built, run))
    elif not quiet:
        for line in _lines(built, run):
            stdout().print(line)
    if not json:
        warning = run.agreement.warning() if run.agreement else None
        if warning:
            notes.print(warning, style="bold")
        for text in run.wrong:
            notes.print(text)
    code = run.simulation.exit_code
    if code:
        console = f": {run.simulation.console}" if network else ""
        notes.print(f"the program ended with exit code {code}{console}")


def _plain(built: Compiled, run: Run) -> dict[str, Any]:
    """All that was measured, for JSON."""
    from baco.compiler.network.program import NetworkProgram
    from baco.sim.network.table import run_to_dict

    measured = {"compared": sorted(run.compared), "wrong": list(run.wrong), "energy_uj": run.energy_uj}
    if run._measured is None or not isinstance(built._built, NetworkProgram):
        return run.simulation.to_dict() | measured | {"predicted_cycles": run.predicted_cycles}
    whole = {
        "report": built.report,
        "agreement": run.agreement.to_dict() if run.agreement else None,
        "accuracy": run.accuracy.to_dict() if run.accuracy else None,
        **run_to_dict(built._built, run._measured),
    }
    return replace(run.simulation, marks=()).to_dict() | measured | whole


def _lines(built: Compiled, run: Run) -> Iterator[Any]:
    """Lines and tables, the verdict last."""
    lines = list(program_lines(built))
    yield from lines[:-2]
    if run._measured is not None:
        yield from _steps(built, run)
    yield from (
        *lines[-2:],
        *result_lines(run.simulation),
        energy_text(run.energy_uj, run.simulation),
        *(f"model           {line}" for line in (run.agreement.summary() if run.agreement else ())),
        *(f"accuracy        {line}" for line in (run.accuracy.sentences() if run.accuracy else ())),
        f"results         {_verdict(built, run)}",
    )


def _steps(built: Compiled, run: Run) -> Iterator[Any]:
    from rich.table import Table

    from baco.compiler.network.program import NetworkProgram
    from baco.sim.network.table import COLUMNS, kind_errors, table_rows

    assert run._measured is not None
    assert isinstance(built._built, NetworkProgram)
    rows = table_rows(run._measured)
    if not rows:
        return
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in COLUMNS:
        left = name in ("operator", "what")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "what")
    for row in rows:
        table.add_row(*row)
    yield table
    errors = ", ".join(
        f"{kind} {100 * (predicted / cycles - 1):+.1f} %"
        for kind, _, cycles, predicted in kind_errors(built._built, run._measured)
        if cycles
    )
    yield f"predictions     by kind of step: {errors}"


def _verdict(built: Compiled, run: Run) -> str:
    if not run.right:
        return "WRONG"
    names = ", ".join(sorted(run.compared))
    if run._measured is not None:
        form = built.accelerator.input_format
        return (
            f"right: what {len(run._measured.checked)} operators wrote, and {names} at the end, equal the {form} reference,"
            " element by element"
        )
    if not names:
        return "not compared: nothing says what they must be"
    return f"right: {names} equal numpy's, element by element"
