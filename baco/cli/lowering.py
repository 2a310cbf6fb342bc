"""Lowering what `baco compile` and `baco run` were given, level by level."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from baco.api.unit import Observer, Unit, to_instgem
from baco.cli.ir_input import show_after
from baco.common.errors import InputError
from baco.compiler.codegen.pipeline import FRONT_END
from baco.compiler.codegen.program import BACK_END, lower_to_ir, program_assembly
from baco.compiler.ir.text import LEVELS, Level, check_level, write_ir

if TYPE_CHECKING:
    from baco.accel.config import Accelerator

__all__ = ["EMITS", "elf_path", "emit_text", "needs_text", "observer", "prediction_text"]

EMITS = (*LEVELS, "llvm-ir", "asm", "elf")


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


def emit_text(unit: Unit, emit: str, accelerator: Accelerator, observe: Observer | None) -> str:
    """The unit at a lower level, as text. Raises InputError for a level above its own."""
    if emit in LEVELS and LEVELS.index(emit) < LEVELS.index(unit.level):
        raise InputError(
            f"what begins at the level '{unit.level}' cannot be shown at '{emit}'",
            hint="kernels begin at 'baco', layers and networks at 'instgem', text at the level it is written in",
        )
    module = unit.module
    if emit == unit.level:
        return write_ir(module)
    to_instgem(unit, accelerator, observe, until="linalg" if emit == "linalg" else "instgem")
    if emit == "linalg":
        return write_ir(module)
    if emit == "instgem":
        check_level(module, "instgem")
        return write_ir(module)
    ir = lower_to_ir(module, observe)
    if emit == "llvm":
        return write_ir(module)
    return ir if emit == "llvm-ir" else program_assembly(ir)


def needs_text(least: Mapping[str, int] | None) -> str:
    """A line on what a program needs, for people."""
    if least is None:
        return "needs           not known"
    names = {
        "dim": "array of side",
        "scratchpad_rows": "scratchpad rows",
        "accumulator_rows": "accumulator rows",
    }
    return "needs           " + ", ".join(
        f"{names.get(name, name)} {value:,}" for name, value in least.items()
    )


def prediction_text(cycles: float | None, macs: int | None, dim: int) -> str:
    """A line on the cycles that a program will take, for people; utilisation as simulations measure it."""
    if cycles is None:
        return "predicted       nothing: cycles of kernels and of text are measured, by --engine rtl"
    share = "" if not macs or not cycles else f", utilisation {100 * macs / (cycles * dim * dim):.1f} %"
    return f"predicted       {cycles:,.0f} cycles{share}"
