"""Lowering what `baco compile` and `baco run` were given, level by level."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from baco.api.network_unit import NetworkUnit
from baco.api.program_options import Prepared
from baco.api.programs import Compiled, library, library_file
from baco.api.unit import Observer, Unit, to_instgem
from baco.cli.ir_input import show_after
from baco.common.errors import InputError
from baco.common.text import one_line
from baco.compiler.codegen.c_library import library_name
from baco.compiler.codegen.pipeline import FRONT_END
from baco.compiler.codegen.program import BACK_END, lower_to_ir, program_assembly
from baco.compiler.ir.text import LEVELS, Level, check_level, write_ir

#: Functions for C programs, and the suffixes of their files.
FUNCTIONS = {"c": ".c", "object": ".o"}
EMITS = (*LEVELS, "llvm-ir", "asm", "elf", *FUNCTIONS)


def observer(dump_after: str | None, level: Level) -> Observer | None:
    """What the option --dump-after wants to see of what begins at `level`; None without it.

    Raises InputError for a pass that does not come below that level.
    """
    if dump_after is None:
        return None
    below = LEVELS[LEVELS.index(level) :]
    passes = [name for one in below for name in FRONT_END.get(one, ())]
    return show_after(dump_after, [*passes, *BACK_END])


def elf_path(name: str, out: Path | None) -> Path:
    """Where a program goes: to `out`, else to a file of its name in the current folder.

    Raises InputError for a name, which can be that of any function of a text, that is more than the name of a file.
    """
    if out is None and not re.fullmatch(r"\w[\w.-]{0,199}", name):
        raise InputError(f"no file is called after '{name[:60]}'", hint="name the file by --out")
    return out or Path(f"{name}.elf")


def library_place(path: Path, emit: str) -> str:
    """Name of the library whose C or object goes to a file. Raises InputError for a file that is called otherwise."""
    return library_file(path, FUNCTIONS[emit])


def emit_library(prepared: Prepared, emit: str, out: Path | None) -> Iterator[str]:
    """Write a function for C programs, with its header; what was written, a line a file.

    Raises InputError for what has no form in C, StorageError where a file cannot be written.
    """
    path = out or Path(f"{library_name(prepared.name)}{FUNCTIONS[emit]}")
    made = library(prepared.unit, prepared.accelerator, library_place(path, emit), prepared.observe)
    for file in made.save_c(path.parent) if emit == "c" else made.save_object(path.parent):
        yield f"{one_line(str(file))}: {file.stat().st_size:,} bytes"
    yield f"{made.name}_run is for the accelerator {prepared.accelerator.config_hash}"


def emit_text(prepared: Prepared, emit: str) -> str:
    """What is prepared at a lower level, as text. Raises InputError for a level above its own."""
    unit, observe = prepared.unit, prepared.observe
    module, level = (unit.module, unit.level) if isinstance(unit, Unit) else (unit.code().module, "instgem")
    if emit in LEVELS and LEVELS.index(emit) < LEVELS.index(level):
        raise InputError(
            f"what begins at the level '{level}' cannot be shown at '{emit}'",
            hint="kernels begin at 'baco', layers and networks at 'instgem', text at the level it is written in",
        )
    if emit == level:
        return write_ir(module)
    if isinstance(unit, Unit):
        until = "linalg" if emit == "linalg" else "instgem"
        to_instgem(unit, prepared.accelerator, observe, until=until)
    if emit == "instgem":
        check_level(module, "instgem")
    if emit in ("linalg", "instgem"):
        return write_ir(module)
    ir = lower_to_ir(module, observe)
    if emit == "llvm":
        return write_ir(module)
    return ir if emit == "llvm-ir" else program_assembly(ir)


def program_lines(built: Compiled) -> Iterator[str]:
    """What a program consists of, needs, and is predicted to take, for people; utilisation as simulations measure it."""
    if built.schedule is not None:
        yield f"schedule: {built.schedule}"
    elif isinstance(built._unit, NetworkUnit):
        yield from built.report
    names = {
        "dim": "array of side",
        "scratchpad_rows": "scratchpad rows",
        "accumulator_rows": "accumulator rows",
    }
    needs = (f"{names.get(name, name)} {value:,}" for name, value in (built.needs or {}).items())
    yield "needs           " + ("not known" if built.needs is None else ", ".join(needs))
    if built.predicted_cycles is None:
        yield "predicted       nothing: cycles of kernels and of text are measured, by --engine rtl"
        return
    use = built.predicted_utilisation
    share = "" if use is None else f", utilisation {100 * use:.1f} %"
    yield f"predicted       {built.predicted_cycles:,.0f} cycles{share}"
