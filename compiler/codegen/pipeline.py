"""Running passes by name, the module checked after each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from baco.common.errors import BacoError, InputError
from baco.compiler.ir.checks import check_ir
from baco.compiler.ir.text import Level
from baco.compiler.passes import pass_named

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


#: Passes from each level to the next, down to `instgem`.
FRONT_END: dict[Level, tuple[str, ...]] = {
    "baco": ("baco-to-linalg",),
    "linalg": ("linalg-pipeline", "linalg-to-instgem"),
}


def run_passes(
    module: ModuleOp,
    passes: Sequence[str],
    observe: Callable[[str, ModuleOp], None] | None = None,
) -> None:
    """Apply passes, named as in `baco.compiler.passes`, with their default options; `observe` sees the module after each.

    The module is checked before the first and after the last pass, and wherever somebody looks at it.
    Raises InputError for an unknown pass and an ill-formed module, and what the passes raise.
    """
    from baco.compiler.dialects.context import all_dialects

    context = all_dialects()
    check_ir(module)
    for name in passes:
        run_pass(module, pass_named(name)(), context, check=observe is not None or name == passes[-1])
        if observe is not None:
            observe(name, module)


def run_pass(module: ModuleOp, one: ModulePass, context: Context, *, check: bool = True) -> None:
    """Apply one pass and check what it left. Raises InputError where the pass cannot be applied to the module."""
    from xdsl.utils.exceptions import DiagnosticException

    try:
        one.apply(context, module)
    except BacoError:
        raise
    except (DiagnosticException, NotImplementedError) as error:
        reason = str(error).strip().splitlines()
        raise InputError(f"the pass '{one.name}' cannot be applied: {reason[0] if reason else ''}") from None
    except (ValueError, OverflowError) as error:
        # numbers of a text can be anything, what a pass computes from them beyond 64 bits: that is not its mistake
        if "is out of range for type" not in str(error) and "int too large" not in str(error):
            raise
        raise InputError(f"the pass '{one.name}' cannot be applied: {error}") from None
    if check:
        check_ir(module)


def parse_passes(text: str) -> list[ModulePass]:
    """The passes of a pipeline written `one,another{option=1 flag=true}`.

    Raises InputError for malformed text, an unknown pass or option, and an option's value of the wrong type.
    """
    from xdsl.passes import get_pass_option_infos
    from xdsl.utils.arg_spec import parse_pipeline
    from xdsl.utils.exceptions import ArgSpecParseError

    try:
        specs = list(parse_pipeline(text))
    except ArgSpecParseError as error:  # derives from BaseException
        lines = str(error).splitlines()
        reason = next((line.strip("^ ") for line in reversed(lines) if line.strip("^ ")), "")
        raise InputError(
            f"the passes '{text}' cannot be read: {reason}", hint="write them as 'one,another{option=1}'"
        ) from None
    passes = []
    for spec in specs:
        cls = pass_named(spec.name)
        try:
            passes.append(cls.from_spec(spec))
        except (ValueError, TypeError) as error:
            options = ", ".join(one.name.replace("_", "-") for one in get_pass_option_infos(cls)) or "none"
            reason = str(error).splitlines()[0].replace('"', "'")
            raise InputError(f"the pass '{spec.name}': {reason}", hint=f"its options: {options}") from None
    if not passes:
        raise InputError("there is no pass to run", hint="see 'baco opt --list'")
    return passes
