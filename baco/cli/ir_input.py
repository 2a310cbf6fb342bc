"""What the commands that work on the IR share: reading its text, levels, dumps between passes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from baco.compiler.ir.text import Level


def level_named(name: str | None) -> Level | None:
    """The level of the IR that an option names. Raises InputError for an unknown one."""
    from baco.common.errors import InputError, did_you_mean
    from baco.compiler.ir.text import LEVELS

    for level in LEVELS:
        if level == name:
            return level
    if name is not None:
        raise InputError(f"there is no level '{name}'", hint=did_you_mean(name, LEVELS))
    return None


def read_module(file: Path, context: Context, level: Level | None) -> ModuleOp:
    """The checked module of a file, or of standard input for `-`. Raises InputError with line and reason."""
    from baco.common.files import decode_text, read_input_text
    from baco.compiler.ir.limits import MOST_TEXT_BYTES
    from baco.compiler.ir.text import read_ir

    if str(file) == "-":
        # one byte more than is allowed shows that there is too much
        return read_ir(
            decode_text(sys.stdin.buffer.read(MOST_TEXT_BYTES + 1), "<stdin>"), "<stdin>", context, level
        )
    return read_ir(read_input_text(file, limit_bytes=MOST_TEXT_BYTES), str(file), context, level)


def show_after(wanted: str | None, passes: Sequence[str]) -> Callable[[str, ModuleOp], None]:
    """What to call after each pass for the option --dump-after; raises InputError for a pass that will not run."""
    from baco.common.errors import InputError, did_you_mean
    from baco.compiler.ir.text import write_ir

    if wanted is not None and wanted != "all" and wanted not in passes:
        raise InputError(f"the pass '{wanted}' is not run", hint=did_you_mean(wanted, [*passes, "all"]))

    def show(name: str, module: ModuleOp) -> None:
        if wanted in ("all", name):
            sys.stderr.write(f"// after {name}\n{write_ir(module)}\n")

    return show
