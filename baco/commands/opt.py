"""`baco opt`: run passes of the compiler on the text of the IR."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def opt(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE.mlir",
            help="Text of the IR, at any level; - for standard input.",
            show_default=False,
        ),
    ] = None,
    passes: Annotated[
        list[str] | None,
        typer.Option("--pass", "-p", metavar="PASSES", help="As 'one,another{option=1}'; repeatable."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="LEVEL", help="Level that the text must be at: baco, linalg, instgem, llvm."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--to", metavar="LEVEL", help="Level that the result must be at.")
    ] = None,
    out: Path | None = None,
    dump_after: str | None = None,
    list_: Annotated[bool, typer.Option("--list", help="List the passes and their options.")] = False,
) -> None:
    """Check a module and transform it by passes of your choice.

    Without passes the module is read, checked and written again. A module that is not well formed, before or after
    a pass, is an error that names the line and the reason.

    Args:
        out (-o, FILE): Where the result goes; default: standard output.
        dump_after (PASS|all): Show the module after a pass, on standard error.
    """
    from baco.cli.ir_input import level_named, read_module, show_after
    from baco.common.errors import InputError
    from baco.compiler.codegen.pipeline import parse_passes, run_pass
    from baco.compiler.dialects.context import all_dialects
    from baco.compiler.ir.text import check_level, write_ir

    if list_:
        _list_passes()
        return
    if file is None:
        raise InputError("name the file to read", hint="see 'baco opt --help'")
    before, after = level_named(source), level_named(target)
    chosen = [ir_pass for text in passes or [] for ir_pass in parse_passes(text)]
    show = show_after(dump_after, [ir_pass.name for ir_pass in chosen])
    context = all_dialects()
    module = read_module(file, context, before)
    for ir_pass in chosen:
        run_pass(module, ir_pass, context)
        show(ir_pass.name, module)
    if after is not None:
        check_level(module, after)
    _write(out, write_ir(module))


def _write(out: Path | None, text: str) -> None:
    from baco.common.files import atomic_write

    if out is None:
        sys.stdout.write(text)
    else:
        atomic_write(out, text)


def _list_passes() -> None:
    from xdsl.passes import get_pass_option_infos

    from baco.compiler.passes import PASSES, pass_named, summary_of

    for name in PASSES:
        cls = pass_named(name)
        sys.stdout.write(f"{name:<24} {summary_of(name)}\n")
        for option in get_pass_option_infos(cls):
            default = f", default {option.default_value}" if option.default_value is not None else ""
            sys.stdout.write(f"    {option.name.replace('_', '-')}: {option.expected_type}{default}\n")
