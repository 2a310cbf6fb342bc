"""`baco run`: compile, simulate, and compare the results with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baco.cli.compile_options import NETWORK_PANEL, NetworkOptions, ProgramOptions, Timing
from baco.cli.layer_input import LayerOptions

if TYPE_CHECKING:
    import numpy as np

    from baco.compiler.codegen.buffer import Buffer


def run_program(
    program: ProgramOptions,
    layer: LayerOptions,
    network: NetworkOptions,
    engine: str = "functional",
    timing: Timing = None,
    expect: list[str] | None = None,
    save: list[str] | None = None,
    json: bool = False,
    quiet: bool = False,
    log: Path | None = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FOLDER",
            help="Of a run on RTL: charts (network.html, network.png) and all figures (network.json).",
            rich_help_panel=NETWORK_PANEL,
        ),
    ] = None,
) -> None:
    """Compile a kernel, a layer, a network or text of the IR, run it, and compare its results with numpy's.

    Layers and networks are compared with numpy integers, kernels with their interpretation, text of the IR with the
    files of --expect. Exit code 0: all is right. 1: a result is wrong, or the program ended with another code.

    Args:
        engine (-e): functional: results. rtl: the Verilog, cycle by cycle. timed: its cycles by a model. gemmini-model: those
            of a model of the original Gemmini, which is what rtl stands for with --timing gemmini.
        expect (NAME=FILE.npy): What an array must hold at the end. Repeatable.
        save (NAME=FILE.npy): Write an array as it is at the end. Repeatable.
        quiet (-q): Only what is wrong.
        log (FILE.csv): Log every command; `baco trace` draws it.
    """
    from baco.api.arrays import save_array
    from baco.api.unit import check_run, lower_unit, run_unit
    from baco.cli.compile_input import check_request, prepare
    from baco.cli.compile_request import named_files, timed
    from baco.cli.lowering import needs_text, observer, prediction_text
    from baco.cli.network_input import only_networks
    from baco.common.errors import InputError
    from baco.display.console import print_json, stderr, stdout
    from baco.sim.energy import energy_uj
    from baco.sim.engines.base import timing_of

    timing = timing_of(engine, timing)
    if network.network is not None:
        from baco.cli.network_commands import run_network_command
        from baco.cli.network_input import network_request

        asked = timed(network_request(program, layer, network, {"--expect": expect}), timing)
        run_network_command(
            asked, engine, save or [], timing=timing, log=log, report=report, json=json, quiet=quiet
        )
        return
    if report is not None:
        raise InputError("--report goes with --network", hint="--log FILE.csv and `baco trace` draw programs")
    only_networks(network)
    request = timed(program.request(layer, compare=True), timing)
    check_request(request)
    check_run(request.accelerator, engine, timing=timing, log=log)
    unit = prepare(request)
    observe = observer(program.dump_after, unit.level)
    buffers = {one.name: one for one in unit.buffers or ()}
    expected = {name: one.expected for name, one in buffers.items() if one.expected is not None}
    expected |= _expected_files(named_files("--expect", expect or [], buffers), buffers)
    files = named_files("--save", save or [], buffers)
    made = lower_unit(unit, request.accelerator, check=False, observe=observe)
    notes = stderr()
    talkative = not (json or quiet)
    outputs, result, mistakes = run_unit(
        made, expected, engine, timing=timing, log=log, report=notes.print if talkative else None
    )
    for name, path in files.items():
        save_array(path, outputs[name])
    energy = energy_uj(result, request.accelerator)
    if json:
        extra = {
            "compared": sorted(expected),
            "wrong": list(mistakes),
            "predicted_cycles": unit.predicted_cycles,
        }
        print_json(result.to_dict() | extra | {"energy_uj": energy})
    elif not quiet:
        from baco.cli.result_text import energy_text, result_lines

        if unit.schedule is not None:
            stdout().print(f"schedule: {unit.schedule}")
        predicted = prediction_text(unit.predicted_cycles, unit.macs, request.accelerator.dim)
        for line in (
            needs_text(made.requirement),
            predicted,
            *result_lines(result),
            energy_text(energy, result),
        ):
            stdout().print(line)
        stdout().print(_verdict(expected, mistakes, result.exit_code))
    for text in mistakes if not json else ():
        notes.print(text)
    if result.exit_code:
        notes.print(f"the program ended with exit code {result.exit_code}")
    if mistakes or result.exit_code:
        raise typer.Exit(1)


def _verdict(expected: dict[str, Any], mistakes: Sequence[str], exit_code: int) -> str:
    if mistakes or exit_code:
        return "results         WRONG"
    if not expected:
        return "results         not compared: nothing says what they must be"
    return f"results         right: {', '.join(sorted(expected))} equal numpy's, element by element"


def _expected_files(files: dict[str, Path], buffers: dict[str, Buffer]) -> dict[str, np.ndarray[Any, Any]]:
    from baco.workloads.inputs.arrays import load_array

    return {
        name: replace(buffers[name], expected=load_array(path)).expected  # type: ignore[misc]
        for name, path in files.items()
    }
