"""Running passes by name, the module checked after each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from common.errors import BacoError, InputError
from compiler.ir_text import check_ir
from compiler.passes import pass_named

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

__all__ = ["run_pass", "run_passes"]


def run_passes(
    module: ModuleOp,
    passes: Sequence[str],
    observe: Callable[[str, ModuleOp], None] | None = None,
    context: Context | None = None,
) -> None:
    """Apply passes, named as in `compiler.passes`, with their default options; `observe` sees the module after each.

    Raises InputError for an unknown pass, and what the passes raise.
    """
    if context is None:
        from compiler.dialects.context import all_dialects

        context = all_dialects()
    for name in passes:
        run_pass(module, pass_named(name)(), context)
        if observe is not None:
            observe(name, module)


def run_pass(module: ModuleOp, one: ModulePass, context: Context) -> None:
    """Apply one pass and check what it left. Raises InputError where the pass cannot be applied to the module."""
    from xdsl.utils.exceptions import DiagnosticException

    try:
        one.apply(context, module)
    except BacoError:
        raise
    except (DiagnosticException, NotImplementedError) as error:
        reason = str(error).strip().splitlines()
        raise InputError(f"the pass '{one.name}' cannot be applied: {reason[0] if reason else ''}") from None
    check_ir(module)
