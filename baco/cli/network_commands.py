"""`baco compile --network` and `baco run --network`."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from baco.api.arrays import save_array
from baco.api.network_unit import (
    NetworkRequest,
    NetworkUnit,
    network_macs,
    predicted_cycles,
    prepare_network,
)
from baco.api.unit import check_run
from baco.cli.compile_request import named_files
from baco.cli.lowering import elf_path, needs_text, prediction_text
from baco.common.errors import InputError
from baco.common.files import atomic_write, output_folder
from baco.common.text import one_line
from baco.display.console import print_json, stderr, stdout
from baco.sim.energy import energy_uj

if TYPE_CHECKING:
    from baco.compiler.network.agreement import Agreement
    from baco.compiler.network.program import NetworkProgram
    from baco.sim.network.run import NetworkRun

__all__ = ["compile_network_command", "run_network_command"]

#: What the program of a network can be written as.
_NETWORK_LEVELS = ("instgem", "llvm", "llvm-ir", "asm", "elf")


def compile_network_command(
    request: NetworkRequest, emit: str, out: Path | None, image: Path | None, *, check: bool
) -> None:
    """Write the program, or the text of a level below; `image`: where the weights go as well."""
    if emit not in _NETWORK_LEVELS:
        raise InputError(f"a network has no '{emit}' form", hint="allowed: " + ", ".join(_NETWORK_LEVELS))
    unit = prepare_network(request)
    if emit != "elf":
        _emit_text(unit, emit, out)
        return
    path = elf_path(unit.network.name, out)
    built = unit.compile(check=check)
    atomic_write(path, built.program.elf)
    notes = stderr()
    for line in (*built.report(), needs_text(built.program.requirement), _predicted(built)):
        notes.print(line)
    if image is not None:
        atomic_write(image, built.image.tobytes())
        notes.print(f"{one_line(str(image))}: {built.image.nbytes:,} bytes at the symbol buffer_constants")
    notes.print(
        f"{one_line(str(path))}: {len(built.program.elf):,} bytes, for the accelerator {request.accelerator.config_hash}",
    )


def _emit_text(unit: NetworkUnit, emit: str, out: Path | None) -> None:
    from baco.compiler.codegen.program import lower_to_ir, program_assembly
    from baco.compiler.ir.text import write_ir

    module = unit.code().module
    if emit == "instgem":
        text = write_ir(module)
    else:
        ir = lower_to_ir(module, unit.request.observe)
        text = write_ir(module) if emit == "llvm" else ir if emit == "llvm-ir" else program_assembly(ir)
    if out is None:
        sys.stdout.write(text)
    else:
        atomic_write(out, text)


def run_network_command(
    request: NetworkRequest,
    engine: str,
    save: Sequence[str],
    *,
    timing: str | None = None,
    log: Path | None,
    report: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    """Compile, simulate, and compare with the integer reference what every operator wrote, and every output.

    Exit code 1 at a difference. `report`: folder for charts and figures.
    """
    from baco.sim.network.chart import draw_network_html, draw_network_image

    check_run(request.accelerator, engine, timing=timing, log=log)
    if report is not None:
        if engine not in ("rtl", "gemmini-model"):
            raise InputError("--report draws what the engine 'rtl' measures", hint="add --engine rtl")
        output_folder(report)
    files: dict[str, Path] = {}

    def check_outputs(names: Sequence[str]) -> None:
        files.update(named_files("--save", save, names, "output"))

    unit = prepare_network(request, check_outputs)
    built = unit.compile(check=False)
    notes = stderr()
    talkative = not (json or quiet)
    run, outputs, wrong, near = unit.run(
        built, engine, timing=timing, log=log, report=notes.print if talkative else None
    )
    for name, path in files.items():
        save_array(path, outputs[name])
    plain = _plain(built, run, wrong) | {"agreement": near.to_dict() if near else None}
    if report is not None and not run.steps:
        notes.print("there is nothing to report: the program ended before its end")
    elif report is not None:
        draw_network_html(built, run, report / "network.html")
        draw_network_image(built, run, report / "network.png")
        atomic_write(report / "network.json", json_format.dumps(plain, indent=1) + "\n")
    if json:
        print_json(plain)
    elif talkative:
        _print_run(built, run, near, wrong=bool(wrong))
    warning = near.warning() if near and not json else None
    if warning:
        notes.print(warning, style="bold")
    for text in wrong if not json else ():
        notes.print(text)
    result = run.result
    if result.exit_code:
        notes.print(f"the program ended with exit code {result.exit_code}: {result.console}")
    if wrong or result.exit_code:
        raise typer.Exit(1)


def _plain(built: NetworkProgram, run: NetworkRun, wrong: Sequence[str]) -> dict[str, Any]:
    """All that was measured, for JSON."""
    from baco.sim.network.table import run_to_dict

    result = replace(run.result, marks=()).to_dict()
    compared = {"compared": sorted(run.values), "wrong": list(wrong), "report": built.report()}
    energy = {"energy_uj": energy_uj(run.result, built.program.accelerator)}
    return result | compared | energy | run_to_dict(built, run)


def _print_run(built: NetworkProgram, run: NetworkRun, near: Agreement | None, *, wrong: bool) -> None:
    from rich.table import Table

    from baco.cli.result_text import energy_text, result_lines
    from baco.sim.network.table import COLUMNS, kind_errors, table_rows

    out = stdout()
    for line in built.report():
        out.print(line)
    rows = table_rows(run)
    if rows:
        table = Table(box=None, padding=(0, 1), pad_edge=False)
        for name in COLUMNS:
            left = name in ("operator", "what")
            table.add_column(name, justify="left" if left else "right", no_wrap=name != "what")
        for row in rows:
            table.add_row(*row)
        out.print(table)
        errors = ", ".join(
            f"{kind} {100 * (predicted / cycles - 1):+.1f} %"
            for kind, _, cycles, predicted in kind_errors(built, run)
            if cycles
        )
        out.print(f"predictions     by kind of step: {errors}")
    outputs = ", ".join(sorted(run.values))
    right = (
        f"right: what {len(run.checked)} operators wrote, and {outputs} at the end, equal the integer reference,"
        " element by element"
    )
    verdict = "WRONG" if wrong or run.result.exit_code else right
    needs = needs_text(built.program.requirement)
    energy = energy_text(energy_uj(run.result, built.program.accelerator), run.result)
    model = [f"model           {line}" for line in near.summary()] if near else []
    for line in (
        needs,
        _predicted(built),
        *result_lines(run.result),
        energy,
        *model,
        f"results         {verdict}",
    ):
        out.print(line)


def _predicted(built: NetworkProgram) -> str:
    return prediction_text(predicted_cycles(built), network_macs(built), built.program.accelerator.dim)
