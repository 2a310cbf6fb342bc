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

    The ELF file holds code and data: it runs on the accelerator's host core, and on any simulator of it. C and objects are functions
    for programs of your own.

    Args:
        emit (WHAT): baco, linalg, instgem, llvm, llvm-ir, asm or elf; or a function NAME_run for C programs: c (NAME.c) or object
            (NAME.o), with its header NAME.h.
        out (-o, FILE): Where the result goes; default: standard output, for elf, c and object NAME.elf, NAME.c and NAME.o.
        check: The program compares its results itself and exits with 1 where they differ.
    """
    from baco.api.programs import compiled
    from baco.cli.lowering import (
        EMITS,
        FUNCTIONS,
        elf_path,
        emit_library,
        emit_text,
        observer,
        program_lines,
    )
    from baco.cli.program_input import compile_options
    from baco.common.errors import InputError, only_with
    from baco.common.files import atomic_write
    from baco.common.text import one_line
    from baco.compiler.network.program import NetworkProgram
    from baco.display.console import stderr

    _check_outputs(emit, out, image)
    only_with("--emit elf", {"--check": check, "--image": image} if emit != "elf" else {})
    if emit in FUNCTIONS:
        only_with("--emit elf", {"--check-layers": network.check_layers})
    asked = compile_options(program, layer, network, timing, of_networks={"--image": image}, of_others={})
    if network.network is not None and emit in ("baco", "linalg"):
        allowed = ", ".join(one for one in EMITS if one not in ("baco", "linalg"))
        raise InputError(f"a network has no '{emit}' form", hint=f"allowed: {allowed}")
    prepared = asked.prepared(
        compare=check, observe=observer(program.dump_after, asked.level), report=stderr().print
    )
    if emit in FUNCTIONS:
        for line in emit_library(prepared, emit, out):
            stderr().print(line)
        return
    if emit != "elf":
        text = emit_text(prepared, emit)
        if out is None:
            sys.stdout.write(text)
        else:
            atomic_write(out, text)
        return
    path = elf_path(prepared.name, out)
    built = compiled(prepared, check=check or network.check_layers)
    built.save(path)
    lines = list(program_lines(built))
    if image is not None:
        assert isinstance(built._built, NetworkProgram)
        content = built._built.image
        atomic_write(image, content.tobytes())
        lines.append(f"{one_line(str(image))}: {content.nbytes:,} bytes at the symbol buffer_constants")
    made = f"{len(built.elf):,} bytes, for the accelerator {built.accelerator.config_hash}"
    for line in (*lines, f"{one_line(str(path))}: {made}"):
        stderr().print(line)


def _check_outputs(emit: str, out: Path | None, image: Path | None) -> None:
    """Raises InputError, before anything takes time, for results that cannot be written, or be asked for together."""
    from baco.cli.lowering import EMITS, FUNCTIONS, library_place
    from baco.common.errors import InputError, did_you_mean
    from baco.common.files import check_output

    if emit not in EMITS:
        raise InputError(f"nothing called '{emit}' can be emitted", hint=did_you_mean(emit, EMITS))
    for path in (out, image):
        if path is not None:
            check_output(path)
    if emit in FUNCTIONS and out is not None:
        library_place(out, emit)
