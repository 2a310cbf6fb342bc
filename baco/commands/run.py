"""`baco run`: compile, simulate, and compare the results with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baco.cli import compile_options as options

if TYPE_CHECKING:
    import numpy as np

    from compiler.codegen.buffer import Buffer


def run_program(
    source: options.Input = None,
    engine: Annotated[
        str, typer.Option("--engine", "-e", help="functional: results. rtl: the Verilog, cycle by cycle.")
    ] = "functional",
    accelerator: options.Accelerator = options.DEFAULT_ACCELERATOR,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect", metavar="NAME=FILE.npy", help="What an array must hold at the end. Repeatable."
        ),
    ] = None,
    save: Annotated[
        list[str] | None,
        typer.Option(
            "--save", metavar="NAME=FILE.npy", help="Write an array as it is at the end. Repeatable."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what is wrong.")] = False,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE.csv", help="Log every command; `baco trace` draws it."),
    ] = None,
    dump_after: options.DumpAfter = None,
    seed: options.Seed = 0,
    level: options.From = None,
    entry: options.Entry = None,
    arguments: options.Arguments = None,
    grid: options.Grid = None,
    gemm: options.Gemm = None,
    conv: options.Conv = None,
    bias: options.Bias = False,
    relu: options.Relu = False,
    scale: options.Scale = None,
    raw: options.Raw = False,
    residual: options.Residual = None,
    pool: options.Pool = None,
    transposed: options.Transposed = False,
    mapping: options.MappingText = None,
    style: options.Style = "auto",
    baseline: options.Baseline = False,
    network: options.Network = None,
    layers: options.Layers = None,
    scales: options.Scales = "float",
    mappings: options.Mappings = "study",
    check_layers: options.CheckLayers = False,
    report: options.Report = None,
) -> None:
    """Compile a kernel, a layer, a network or text of the IR, run it, and compare its results with numpy's.

    Layers and networks are compared with numpy integers, kernels with their interpretation, text of the IR with the
    files of --expect. Exit code 0: all is right. 1: a result is wrong, or the program ended with another code.
    """
    from accel.presets import load_accelerator
    from baco.api.arrays import save_array
    from baco.api.unit import lower_unit, run_unit
    from baco.cli.compile_input import prepare
    from baco.cli.compile_request import Request, named_files
    from baco.cli.ir_input import level_named
    from baco.cli.layer_input import LayerOptions
    from baco.cli.lowering import needs_text, observer, prediction_text
    from baco.cli.network_input import only_networks
    from baco.display.console import print_json, stderr, stdout
    from common.errors import InputError
    from explore.measure.energy import energy_uj

    layer = LayerOptions(
        gemm, conv, bias, relu, scale, raw, residual, pool, transposed, mapping, style, baseline
    )
    if network is not None:
        from baco.cli.network_commands import run_network_command
        from baco.cli.network_input import network_request

        run_network_command(
            network_request(
                network,
                accelerator,
                mappings,
                layer,
                others={
                    "FILE": source,
                    "--from": level,
                    "--entry": entry,
                    "--grid": grid,
                    "--expect": expect,
                },
                layers=layers,
                scales=scales,
                seed=seed,
                arguments=tuple(arguments or ()),
                check_layers=check_layers,
                observe=observer(dump_after, "instgem"),
            ),
            engine,
            save or [],
            log=log,
            report=report,
            json=json,
            quiet=quiet,
        )
        return
    if report is not None:
        raise InputError("--report goes with --network", hint="--log FILE.csv and `baco trace` draw programs")
    only_networks({"--mappings": mappings != "study", "--layers": layers, "--check-layers": check_layers})
    request = Request(
        source,
        layer,
        load_accelerator(accelerator),
        level=level_named(level),
        entry=entry,
        arguments=tuple(arguments or ()),
        grid=grid,
        seed=seed,
        compare=True,
    )
    unit = prepare(request)
    observe = observer(dump_after, unit.level)
    buffers = {one.name: one for one in unit.buffers or ()}
    expected = {name: one.expected for name, one in buffers.items() if one.expected is not None}
    expected |= _expected_files(named_files("--expect", expect or [], buffers), buffers)
    files = named_files("--save", save or [], buffers)
    program = lower_unit(unit, request.accelerator, check=False, observe=observe)
    notes = stderr()
    talkative = not (json or quiet)
    outputs, result, mistakes = run_unit(
        program, expected, engine, log=log, report=notes.print if talkative else None
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
            needs_text(program.requirement),
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
    from baco.api.arrays import load_array

    return {
        name: replace(buffers[name], expected=load_array(path)).expected  # type: ignore[misc]
        for name, path in files.items()
    }
