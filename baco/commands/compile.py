"""`baco compile`: a kernel, a layer, a network or text of the IR becomes a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from baco.cli.compile_options import NETWORK_PANEL, NetworkOptions, ProgramOptions, Timing
from baco.cli.layer_input import LayerOptions


def compile_(
    program: ProgramOptions,
    layer: LayerOptions,
    network: NetworkOptions,
    emit: str = "elf",
    timing: Timing = None,
    out: Path | None = None,
    check: bool = False,
    image: Annotated[
        Path | None,
        typer.Option(
            "--image",
            metavar="FILE",
            help="Write weights and tables here as well.",
            rich_help_panel=NETWORK_PANEL,
        ),
    ] = None,
) -> None:
    """Compile a kernel, a layer, a network or text of the IR.

    The ELF file holds code and data: it runs on the accelerator's host core, and on any simulator of it.

    Args:
        emit (WHAT): baco, linalg, instgem, llvm, llvm-ir, asm or elf.
        out (-o, FILE): Where the result goes; default: standard output, for elf NAME.elf.
        check: The program compares its results itself and exits with 1 where they differ.
    """
    from baco.api.unit import lower_unit
    from baco.cli.compile_input import check_request, prepare
    from baco.cli.compile_request import timed
    from baco.cli.lowering import EMITS, elf_path, emit_text, needs_text, observer, prediction_text
    from baco.cli.network_input import only_networks
    from baco.common.errors import InputError, did_you_mean, only_with
    from baco.common.files import atomic_write
    from baco.common.text import one_line
    from baco.display.console import stderr

    if emit not in EMITS:
        raise InputError(f"nothing called '{emit}' can be emitted", hint=did_you_mean(emit, EMITS))
    only_with("--emit elf", {"--check": check, "--image": image} if emit != "elf" else {})
    if network.network is not None:
        from baco.cli.network_commands import compile_network_command
        from baco.cli.network_input import network_request

        asked = timed(network_request(program, layer, network, compare=check), timing)
        compile_network_command(asked, emit, out, image, check=check or network.check_layers)
        return
    only_networks(network, {"--image": image})
    request = timed(program.request(layer, compare=check), timing)
    check_request(request)
    unit = prepare(request)
    observe = observer(program.dump_after, unit.level)
    if emit != "elf":
        text = emit_text(unit, emit, request.accelerator, observe)
        if out is None:
            sys.stdout.write(text)
        else:
            atomic_write(out, text)
        return
    path = elf_path(unit.name, out)
    made = lower_unit(unit, request.accelerator, check=check, observe=observe)
    atomic_write(path, made.elf)
    notes = stderr()
    if unit.schedule is not None:
        notes.print(f"schedule: {unit.schedule}")
    notes.print(needs_text(made.requirement))
    notes.print(prediction_text(unit.predicted_cycles, unit.macs, request.accelerator.dim))
    size = len(made.elf)
    notes.print(f"{one_line(str(path))}: {size:,} bytes, for the accelerator {made.accelerator.config_hash}")
