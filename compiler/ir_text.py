"""Reading, checking and writing the text of the IR, at any level; errors name the line and the reason."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Literal, get_args

from xdsl.context import Context
from xdsl.dialects import cf, llvm
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator
from xdsl.utils.exceptions import ParseError

from common.errors import InputError, Location
from compiler.location import location_of

__all__ = ["LEVELS", "Level", "check_ir", "check_level", "level_of", "read_ir", "write_ir"]

Level = Literal["baco", "linalg", "instgem", "llvm"]
#: From the highest to the lowest.
LEVELS: tuple[Level, ...] = get_args(Level)

#: Operations of each level, by their whole name or by their dialect.
_ALLOWED: dict[Level, frozenset[str]] = {
    "baco": frozenset(("builtin", "baco", "func", "scf", "arith", "math")),
    "linalg": frozenset(
        ("builtin", "linalg", "tensor", "bufferization", "memref", "func", "scf", "arith", "math", "cf")
    ),
    "instgem": frozenset(
        (
            *("builtin", "instgem", "func", "scf", "arith", "math", "cf"),
            *("memref.alloca", "memref.load", "memref.store"),
            *("llvm.inttoptr", "llvm.ptrtoint", "llvm.load", "llvm.store", "llvm.call_intrinsic"),
        )
    ),
    "llvm": frozenset(("builtin", "llvm")),
}
#: Deeper nesting of regions than any program needs would exhaust Python's stack.
_DEEPEST = 200
_OPEN, _CLOSE = frozenset("([{<"), frozenset(")]}>")
#: Comments, whole strings (as the parser knows them, in linear time), arrows, brackets, and quotes that begin nothing.
_TOKEN = re.compile(r'//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"|->|[()\[\]{}<>"]')


def read_ir(text: str, name: str, context: Context, level: Level | None = None) -> ModuleOp:
    """The module that a text holds, checked, every operation with its line.

    Args:
        text: what `write_ir`, or any MLIR tool, wrote.
        name: of the file, for messages.
        context: the dialects known.
        level: what operations may occur; None for any.

    Raises InputError with line and reason for a text that is no well-formed module of that level.
    """
    _check_tokens(text, name)
    parser = None
    try:
        parser = _Parser(context, text, name)
        module = parser.parse_module()
    except ParseError as error:
        position = _culprit(text, error, parser.started if parser else [])
        raise InputError(_one_line(error.msg), location=_at(text, name, position)) from None
    except RecursionError:
        raise InputError("the text is nested too deeply", location=Location(name)) from None
    except Exception as error:  # operations and attributes check themselves in many ways while they are made
        started = parser.started if parser else []
        raise InputError(_reason(error), location=_at(text, name, started[-1] if started else 0)) from None
    check_ir(module)
    if level is not None:
        check_level(module, level)
    return module


def write_ir(module: ModuleOp) -> str:
    """The text of a module, ending with a newline."""
    stream = io.StringIO()
    Printer(stream).print_op(module)
    return stream.getvalue() + "\n"


def check_ir(module: ModuleOp) -> None:
    """Raises InputError, with the line if it is known, unless every operation is well formed.

    Beyond each operation's own rules: definitions dominate uses, terminators end their blocks.
    """
    _check_symbols(module)
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except Exception as error:  # verifiers raise more than VerifyException
            raise InputError(f"{op.name}: {_reason(error)}", location=location_of(op)) from None
        if op.has_trait(IsTerminator, value_if_unregistered=False) and op.next_op is not None:
            raise InputError(
                f"{op.name} must be the last operation of its block, {op.next_op.name} follows",
                location=location_of(op),
            )
        for region in op.regions:
            _check_region(op, region)
        _check_branch(op)
    for region in module.regions:
        _check_definitions(region, set())


def check_level(module: ModuleOp, level: Level) -> None:
    """Raises InputError, with the line if it is known, for an operation that does not belong to a level."""
    allowed = _ALLOWED[level]
    for op in module.walk():
        if op.name not in allowed and op.dialect_name() not in allowed:
            levels = [one for one in LEVELS if op.name in _ALLOWED[one] or op.dialect_name() in _ALLOWED[one]]
            hint = f"it belongs to the level {' or '.join(levels)}" if levels else None
            raise InputError(
                f"{op.name} cannot occur at the level '{level}'", location=location_of(op), hint=hint
            )


def level_of(module: ModuleOp) -> Level:
    """The highest level that has all operations of a module.

    Raises InputError, naming the operation, when there is none.
    """
    fitting = list(LEVELS)
    for op in module.walk():
        left = [one for one in fitting if op.name in _ALLOWED[one] or op.dialect_name() in _ALLOWED[one]]
        if not left:
            raise InputError(
                f"{op.name} cannot occur beside what precedes it: no level has both", location=location_of(op)
            )
        fitting = left
    # a module without operations of its own kind, as plain arithmetic, needs nothing above `instgem`
    return fitting[0] if len(fitting) == 1 else next(one for one in ("instgem", *fitting) if one in fitting)


def _check_region(op: Operation, region: Region) -> None:
    for block in region.blocks:
        if block.last_op is None and not op.has_trait(NoTerminator, value_if_unregistered=True):
            raise InputError(
                f"{op.name} has an empty block, which lacks a terminator", location=location_of(op)
            )


def _check_branch(op: Operation) -> None:
    """A branch passes what the arguments of its targets are."""
    passed: list[Sequence[SSAValue]]
    if isinstance(op, (cf.BranchOp, llvm.BrOp)):
        passed = [op.arguments]
    elif isinstance(op, (cf.ConditionalBranchOp, llvm.CondBrOp)):
        passed = [op.then_arguments, op.else_arguments]
    else:
        return
    for block, values in zip(op.successors, passed, strict=True):
        wanted, given = [one.type for one in block.args], [one.type for one in values]
        if wanted != given:
            texts = [", ".join(map(str, types)) or "nothing" for types in (wanted, given)]
            raise InputError(
                f"{op.name} passes {texts[1]} to a block that takes {texts[0]}", location=location_of(op)
            )


def _check_definitions(region: Region, visible: set[SSAValue]) -> None:
    """Every operand is among `visible`, or defined before its use in a block that dominates the use's."""
    blocks = list(region.blocks)
    own = {block: [*block.args, *(result for op in block.ops for result in op.results)] for block in blocks}
    dominance = DominanceInfo(region) if len(blocks) > 1 else None
    for block in blocks:
        added: list[SSAValue] = []
        if dominance is not None:
            above = [one for one in blocks if dominance.strictly_dominates(one, block)]
            added = [value for one in above for value in own[one]]
        added += block.args
        visible.update(added)
        for op in block.ops:
            for index, operand in enumerate(op.operands):
                if operand not in visible:
                    name = f"%{operand.name_hint}" if operand.name_hint else f"operand {index + 1}"
                    raise InputError(
                        f"{op.name} uses {name}, which is not defined there", location=location_of(op)
                    )
            isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
            for inner in op.regions:
                _check_definitions(inner, set() if isolated else visible)
            visible.update(op.results)
            added += op.results
        visible.difference_update(added)


def _check_symbols(module: ModuleOp) -> None:
    seen: dict[str, Operation] = {}
    for op in module.body.block.ops:
        symbol = op.properties.get("sym_name")
        if not isinstance(symbol, StringAttr):
            continue
        if symbol.data in seen:
            first = location_of(seen[symbol.data])
            where = f" (first in line {first.line})" if first and first.line else ""
            raise InputError(f"@{symbol.data} is defined twice{where}", location=location_of(op))
        seen[symbol.data] = op


class _Parser(Parser):
    """Notes the line of every operation."""

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, text, name)
        self.file = StringAttr(name)
        self.text = text
        #: Where the operations begin that are being read.
        self.started: list[int] = []
        self._counted, self._line = 0, 1

    def parse_operation(self) -> Operation:
        """As the parser's, with the location where the text gives none."""
        start = self._current_token.span.start
        self.started.append(start)
        line = self._line_of(start)
        op = super().parse_operation()
        self.started.pop()
        if isinstance(op.location, UnknownLoc):
            column = start - self.text.rfind("\n", 0, start)
            op.location = FileLineColLoc(self.file, IntAttr(line), IntAttr(column))
        return op

    def _line_of(self, position: int) -> int:
        """Line of a position that is not before the one asked last."""
        if position < self._counted:
            return self.text.count("\n", 0, position) + 1
        self._line += self.text.count("\n", self._counted, position)
        self._counted = position
        return self._line


def _check_tokens(text: str, name: str) -> None:
    """What the parser would take for ever, or too much of the stack, to find out."""
    depth = 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token == '"':
            raise InputError(
                "the string that begins here is not closed, or has an unknown escape",
                location=_at(text, name, found.start()),
                hint='a string ends on its line; escapes are \\n, \\t, \\", \\\\ and two hexadecimal digits',
            )
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth > _DEEPEST:
            raise InputError("the text is nested too deeply", location=_at(text, name, found.start()))


def _culprit(text: str, error: ParseError, started: list[int]) -> int:
    """Position of a mistake that the parser noticed."""
    undefined = re.match(r"values used but not defined: \[(%[^,\]]+)", error.msg)
    if undefined:
        name = re.escape(undefined[1]) + r"(?![\w$.-])"
        uses = [one.start() for one in re.finditer(name + r"(?!\s*=)", text)] or [0]
        # a value that exists somewhere is used where it cannot be seen: more likely behind than before
        return uses[-1] if re.search(name + r"\s*=", text) else uses[0]
    position = int(error.span.start)
    before = text[:position].rstrip()
    # what an operation lacks at the end of its line is noticed at the next line's first word
    if started and "\n" in text[len(before) : position] and "{" not in text[started[-1] : position]:
        return max(len(before) - 1, started[-1])
    return position


def _at(text: str, name: str, position: int) -> Location:
    before = text[: max(0, min(position, len(text)))]
    return Location(name, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def _reason(error: BaseException) -> str:
    """What went wrong at first, without the wrapping that prints the whole module."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = _one_line(str(error))
    return text or f"the operation is malformed ({type(error).__name__})"


def _one_line(text: str) -> str:
    """The message only, where xDSL appends context in further lines."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return lines[0].removeprefix("Operation does not verify: ") if lines else ""
