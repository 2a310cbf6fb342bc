"""The rules of illegal commands, evaluated in Python: what the engines, which have them in C++ and Verilog, are held against."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from baco.accel.config import MOVE_BYTES, Accelerator, Features
from baco.accel.isa.address import local_address_bits
from baco.accel.isa.coding import find_command_type
from baco.accel.isa.command import Command
from baco.accel.legality.errors import ERRORS, ErrorCode
from baco.accel.legality.expression import RuleExpression
from baco.accel.legality.language import FUNCTIONS, STATE, Let, Refuse
from baco.accel.legality.rules import COMMON, RULES

#: A number, or an array of them.
Value = int | Sequence[int]

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class Refusal:
    """Why a command is illegal.

    Attributes:
        error: the code.
        command: name of the command.
        rule: what does not hold.
        values: of the names in the rule's condition.
    """

    error: ErrorCode
    command: str
    rule: str
    values: dict[str, int]


class Legality:
    """Follows the commands of a program in order.

    It sees them as software gives them, macros before they are unrolled. Main memory is not its matter: that a
    command reaches bytes which are not there (MAIN_MEMORY) depends on the system around the accelerator.
    """

    def __init__(self, parameters: Mapping[str, int]) -> None:
        """`parameters`: of the accelerator, see `parameters`."""
        self.parameters = dict(parameters)
        self.state: dict[str, int | list[int]] = {
            name: [one.reset] * one.size if one.size else one.reset for name, one in STATE.items()
        }

    def check(self, command: Command, result: bool | None = None) -> Refusal | None:
        """Why the next command is illegal; None when it is legal, which brings the state up to date.

        `result`: a register is to receive a result (xd); None: as the command's kind does.
        """
        kind = find_command_type(command.funct, command.rs1)
        if kind is None:
            return self._common(0, f"function code {command.funct}")
        if kind.feature and not self.parameters[kind.feature]:
            return self._common(1, kind.name)
        if result and not kind.response:
            return self._common(2, kind.name)
        values: dict[str, Value] = {**self.parameters, **self.state}
        values |= {field.name: field.extract(command) for field in kind.fields}
        for step in RULES[kind.name]:
            if isinstance(step, Let):
                values[step.name] = self._of(step.expression, values)
            elif isinstance(step, Refuse):
                if self._of(step.expression, values):
                    return Refusal(error_named(step.error), kind.name, step.rule, _shown(step, values))
            elif self._of(step.condition, values):
                value = self._of(step.expression, values)
                if step.place is None:
                    self.state[step.target] = values[step.target] = value
                else:
                    array = self.state[step.target]
                    assert isinstance(array, list)
                    array[self._of(step.place, values)] = value
        return None

    def _of(self, expression: RuleExpression, values: Mapping[str, Value]) -> int:
        return _evaluate(expression.tree, values, self._call)

    @staticmethod
    def _common(index: int, command: str) -> Refusal:
        error, rule, _ = COMMON[index]
        return Refusal(error_named(error), command, rule, {})

    def _call(self, name: str, arguments: list[int]) -> int:
        if name in ("min", "max"):
            return min(arguments) if name == "min" else max(arguments)
        if name == "overtakes":
            result, result_stride, first, stride, rows = arguments
            later = {(first + j * stride, i) for j in range(rows) for i in range(j)}
            return any((result + i * result_stride, i) in later for i in range(rows))
        function = FUNCTIONS[name]
        values = {**self.parameters, **self.state, **dict(zip(function.parameters, arguments, strict=True))}
        return self._of(function.expression, values)


def _shown(step: Refuse, values: dict[str, Value]) -> dict[str, int]:
    return {name: value for name in step.shown if isinstance(value := values[name], int)}


def _evaluate(node: ast.expr, values: Mapping[str, Value], call: Callable[[str, list[int]], int]) -> int:
    def of(one: ast.expr) -> int:
        return _evaluate(one, values, call)

    match node:
        case ast.Constant(value=int() as number):
            return int(number)
        case ast.Name(id=name):
            found = values[name]
            assert isinstance(found, int), f"{name} is an array"
            return found
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            array = values[name]
            assert not isinstance(array, int), f"{name} is no array"
            return array[of(index)]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](of(left), of(right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return int(not of(operand))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -of(operand)
        case ast.BoolOp(op=ast.And(), values=parts):
            return int(all(of(part) for part in parts))
        case ast.BoolOp(op=ast.Or(), values=parts):
            return int(any(of(part) for part in parts))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return int(_COMPARE[type(op)](of(left), of(right)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return of(body) if of(test) else of(orelse)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return call(name, [of(one) for one in arguments])
    raise ValueError(f"rules have no {ast.unparse(node)}")


def parameters(accelerator: Accelerator) -> dict[str, int]:
    """Values of `PARAMETERS` and of all features, as rules name them."""
    values = {
        "DIM": accelerator.dim,
        "SCRATCHPAD_ROWS": accelerator.scratchpad_rows,
        "ACCUMULATOR_ROWS": accelerator.accumulator_rows,
        "ROW_BITS": local_address_bits(accelerator),
        "ELEMENT_BYTES": accelerator.element_bytes,
        "ROW_BYTES": max(MOVE_BYTES, accelerator.dma_max_bytes, 4 * accelerator.dim),
        "WS": int("WS" in accelerator.dataflows),
        "OS": int("OS" in accelerator.dataflows),
    }
    return values | {name: int(getattr(accelerator.features, name)) for name in Features.model_fields}


def error_named(name: str) -> ErrorCode:
    """The code of that name. Raises KeyError when there is none."""
    for one in ERRORS:
        if one.name == name:
            return one
    raise KeyError(name)
