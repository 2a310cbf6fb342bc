"""The rules applied to commands, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accel.isa.coding import find_command_type
from accel.isa.command import Command
from accel.legality.errors import ErrorCode, error_named
from accel.legality.expression import Value
from accel.legality.language import FUNCTIONS, STATE, Let, Refuse
from accel.legality.rules import COMMON, RULES

__all__ = ["Legality", "Refusal"]


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
        """`parameters`: of the accelerator, see `rules.parameters`."""
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
                values[step.name] = step.expression.value(values, self._call)
            elif isinstance(step, Refuse):
                if step.expression.value(values, self._call):
                    return Refusal(error_named(step.error), kind.name, step.rule, _shown(step, values))
            elif step.condition.value(values, self._call):
                value = step.expression.value(values, self._call)
                if step.place is None:
                    self.state[step.target] = values[step.target] = value
                else:
                    array = self.state[step.target]
                    assert isinstance(array, list)
                    array[step.place.value(values, self._call)] = value
        return None

    @staticmethod
    def _common(index: int, command: str) -> Refusal:
        error, rule = COMMON[index]
        return Refusal(error_named(error), command, rule, {})

    def _call(self, name: str, arguments: list[int]) -> int:
        if name in ("min", "max"):
            return min(arguments) if name == "min" else max(arguments)
        function = FUNCTIONS[name]
        values = {**self.parameters, **self.state, **dict(zip(function.parameters, arguments, strict=True))}
        return function.expression.value(values, self._call)


def _shown(step: Refuse, values: dict[str, Value]) -> dict[str, int]:
    return {name: value for name in step.shown if isinstance(value := values[name], int)}
