"""`baco compile`: a kernel, a layer, a network or text of the IR becomes a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from baco.cli import compile_options as options


def compile_(
    source: options.Input = None,
    emit: Annotated[
        str,
        typer.Option("--emit", metavar="WHAT", help="baco, linalg, instgem, llvm, llvm-ir, asm or elf."),
    ] = "elf",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where the result goes; default: standard output, for elf NAME.elf.",
        ),
    ] = None,
    accelerator: options.Accelerator = options.DEFAULT_ACCELERATOR,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="The program compares its results itself and exits with 1 where they differ."
        ),
    ] = False,
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
    image: options.Image = None,
) -> None:
    """Compile a kernel, a layer, a network or text of the IR.

    The ELF file holds code and data: it runs on the accelerator's host core, and on any simulator of it.
    """
    from accel.presets import load_accelerator
    from baco.api.unit import lower_unit
    from baco.cli.compile_input import prepare
    from baco.cli.compile_request import Request
    from baco.cli.ir_input import level_named
    from baco.cli.layer_input import LayerOptions
    from baco.cli.lowering import EMITS, elf_path, emit_text, needs_text, observer, prediction_text
    from baco.cli.network_input import only_networks
    from baco.display.console import stderr
    from common.errors import InputError, did_you_mean
    from common.files import atomic_write
    from common.text import one_line

    if emit not in EMITS:
        raise InputError(f"nothing called '{emit}' can be emitted", hint=did_you_mean(emit, EMITS))
    layer = LayerOptions(
        gemm, conv, bias, relu, scale, raw, residual, pool, transposed, mapping, style, baseline
    )
    if network is not None:
        from baco.cli.network_commands import compile_network_command
        from baco.cli.network_input import network_request

        compile_network_command(
            network_request(
                network,
                accelerator,
                mappings,
                layer,
                others={"FILE": source, "--from": level, "--entry": entry, "--grid": grid},
                layers=layers,
                scales=scales,
                seed=seed,
                arguments=tuple(arguments or ()),
                check_layers=check_layers,
                compare=check,
                observe=observer(dump_after, "instgem"),
            ),
            emit,
            out,
            image,
            check=check or check_layers,
        )
        return
    only_networks(
        {
            "--mappings": mappings != "study",
            "--layers": layers,
            "--check-layers": check_layers,
            "--image": image,
        }
    )
    request = Request(
        source,
        layer,
        load_accelerator(accelerator),
        level=level_named(level),
        entry=entry,
        arguments=tuple(arguments or ()),
        grid=grid,
        seed=seed,
        compare=check,
    )
    unit = prepare(request)
    observe = observer(dump_after, unit.level)
    if emit != "elf":
        text = emit_text(unit, emit, request.accelerator, observe)
        if out is None:
            sys.stdout.write(text)
        else:
            atomic_write(out, text)
        return
    path = elf_path(unit.name, out)
    program = lower_unit(unit, request.accelerator, check=check, observe=observe)
    atomic_write(path, program.elf)
    notes = stderr()
    if unit.schedule is not None:
        notes.print(f"schedule: {unit.schedule}")
    notes.print(needs_text(program.requirement))
    notes.print(prediction_text(unit.predicted_cycles, unit.macs, request.accelerator.dim))
    size = len(program.elf)
    notes.print(
        f"{one_line(str(path))}: {size:,} bytes, for the accelerator {program.accelerator.config_hash}"
    )
