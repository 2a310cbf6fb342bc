"""`baco run`: compile, simulate, and compare the results with numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.compile_options import NETWORK_PANEL, NetworkOptions, ProgramOptions, Timing
from baco.cli.layer_input import LayerOptions


def run_program(
    program: ProgramOptions,
    layer: LayerOptions,
    network: NetworkOptions,
    engine: str = "functional",
    timing: Timing = None,
    expect: list[str] | None = None,
    save: list[str] | None = None,
    outputs: Path | None = None,
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
            of a model of the original Gemmini, which is what rtl stands for with --timing gemmini. soc: the Verilog of the
            core CVA6 and the accelerator together (baco[soc]).
        expect (NAME=FILE.npy): What an array must hold at the end. Repeatable.
        save (NAME=FILE.npy): Write an array as it is at the end. Repeatable.
        outputs (FILE.npz): Write all outputs of a network, by the model's own names, in the types that it declares.
        quiet (-q): Only what is wrong.
        log (FILE.csv): Log every command; `baco trace` draws it.
    """
    from baco.api.arrays import save_array, save_arrays
    from baco.api.programs import compiled
    from baco.api.unit import check_run
    from baco.cli.lowering import observer
    from baco.cli.program_input import compile_options, expected_arrays, files_to_save
    from baco.cli.run_text import print_run, write_report
    from baco.common.errors import InputError
    from baco.common.files import output_folder
    from baco.display.console import stderr
    from baco.sim.engines.base import timing_of

    timing = timing_of(engine, timing)
    if report is not None and network.network is None:
        raise InputError("--report goes with --network", hint="--log FILE.csv and `baco trace` draw programs")
    asked = compile_options(
        program,
        layer,
        network,
        timing,
        of_networks={"--outputs": outputs},
        of_others={"--expect": expect},
        save=save or (),
    )
    if report is not None and engine not in ("rtl", "gemmini-model"):
        raise InputError("--report draws what the engine 'rtl' measures", hint="add --engine rtl")
    if report is not None:
        output_folder(report)
    check_run(asked.machine(), engine, timing=timing, log=log)
    report_line = None if json or quiet else stderr().print
    prepared = asked.prepared(observe=observer(program.dump_after, asked.level), report=report_line)
    files = files_to_save(prepared, save or ())
    expected = expected_arrays(prepared, expect or ())
    built = compiled(prepared)
    found = built.run(engine, timing=timing, log=log, report=report_line, expected=expected)
    for name, path in files.items():
        save_array(path, found.arrays[name])
    if outputs is not None:
        save_arrays(outputs, found.outputs)
    if report is not None:
        write_report(built, found, report)
    print_run(built, found, json=json, quiet=quiet)
    if not found.right:
        raise typer.Exit(1)
