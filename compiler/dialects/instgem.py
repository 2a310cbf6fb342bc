"""The `instgem` dialect: accelerator commands, one operation for each command of the instruction set.

The operations derive from `baco.accel.isa.COMMANDS`: `instgem.mvin` has the fields of MVIN, and so on. A field is either
known (an integer) or computed (an i64 value); what is left out has the field's default:

    instgem.mvin address = %a, local = 128, cols = 16, rows = %rows
    instgem.loop_ws ex_accumulate = 1

`instgem.fence` is the host's fence: it waits until the accelerator is idle. Addresses of main memory are bytes in an
i64, local addresses the 32-bit words of the instruction set in an i64, scales the bits of a float32.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from baco.accel.isa import COMMANDS
from baco.accel.isa.command import CommandType
from baco.common.errors import did_you_mean

#: Attribute of an `scf.if` whose condition seldom holds.
RARELY = "instgem.rarely"
#: Stands in `known` for a field that an operand gives.
COMPUTED = -(1 << 63)
#: How a field begins.
_FIELD = re.compile(r"[A-Za-z_]\w*\s*=")


class CommandOp(IRDLOperation):
    """One accelerator command.

    `known` has one number a field, in the order of the command's fields: its bits, or `COMPUTED` for a field whose
    value is the next of `values`.
    """

    KIND: ClassVar[CommandType]

    values = var_operand_def(i64)
    known = prop_def(DenseArrayBase.constr(i64))
    response = var_result_def(i64)

    def __init__(self, fields: Mapping[str, int | SSAValue | Operation] | None = None) -> None:
        """The command with the given fields; the others take their defaults. Raises KeyError for an unknown name."""
        given = dict(fields or {})
        for name in given:
            self.KIND.field(name)
        known, values = [], []
        for field in self.KIND.fields:
            value = given.get(field.name, field.default)
            if isinstance(value, int):
                known.append(_signed(value))
            else:
                known.append(COMPUTED)
                values.append(SSAValue.get(value))
        super().__init__(
            operands=[values],
            properties={"known": DenseArrayBase.from_list(i64, known)},
            result_types=[[i64] if self.KIND.response else []],
        )

    @property
    def fields(self) -> dict[str, int | SSAValue]:
        """Every field by name: its bits if known, else the value that gives them."""
        values = iter(self.values)
        numbers = self.known.get_values()
        return {
            field.name: next(values) if number == COMPUTED else int(number) & field.mask
            for field, number in zip(self.KIND.fields, numbers, strict=True)
        }

    def verify_(self) -> None:
        """As many numbers as fields, as many values as fields computed, and every number fits its field."""
        numbers = self.known.get_values()
        if len(numbers) != len(self.KIND.fields):
            raise VerifyException(
                f"{self.KIND.name} has {len(self.KIND.fields)} fields, `known` lists {len(numbers)}"
            )
        computed = sum(number == COMPUTED for number in numbers)
        if computed != len(self.values):
            raise VerifyException(
                f"{computed} computed fields of {self.KIND.name}, but {len(self.values)} values"
            )
        for field, number in zip(self.KIND.fields, numbers, strict=True):
            if (
                number != COMPUTED
                and number != _signed(int(number) & field.mask)
                and int(number) & ~field.mask
            ):
                raise VerifyException(
                    f"field '{field.name}' of {self.KIND.name} has {field.width} bits, {number} does not fit"
                )
        illegal = _illegal(self.KIND.name, self.fields)
        if illegal:
            raise VerifyException(illegal)

    def print(self, printer: Printer) -> None:
        """Fields that differ from their defaults."""
        first = True
        for name, value in self.fields.items():
            default = self.KIND.field(name).default
            if isinstance(value, int) and value == default:
                continue
            printer.print_string(" " if first else ", ")
            first = False
            printer.print_string(f"{name} = ")
            if isinstance(value, int):
                printer.print_string(str(value))
            else:
                printer.print_operand(value)
        if self.response:
            printer.print_string(" -> i64")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> CommandOp:
        """What `print` writes, fields in any order."""
        names = {field.name: field for field in cls.KIND.fields}
        given: dict[str, int | SSAValue] = {}
        position = parser.pos
        # a command without fields may be followed by another operation, whose name is no field
        while given or _FIELD.match(parser.lexer.input.content, position):
            name = parser.expect(parser.parse_optional_identifier, "expected the name of a field")
            if name not in names:
                hint = did_you_mean(name, names) if names else "it has none"
                parser.raise_error(f"{cls.KIND.name} has no field '{name}'; {hint}", position, parser.pos)
            if name in given:
                parser.raise_error(f"field '{name}' is given twice", position, parser.pos)
            parser.parse_punctuation("=")
            number = parser.parse_optional_integer()
            if number is None:
                given[name] = parser.parse_operand(
                    i64, msg=f"expected an integer or a value for field '{name}'"
                )
            elif number & ~names[name].mask or _signed(number) == COMPUTED:
                width = names[name].width
                parser.raise_error(
                    f"field '{name}' has {width} bits, {number} does not fit", position, parser.pos
                )
            else:
                given[name] = number
            if parser.parse_optional_punctuation(",") is None:
                break
            position = parser.pos
        if cls.KIND.response:
            parser.parse_punctuation("->")
            parser.parse_type()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        operation = cls(given)
        if attributes is not None:
            operation.attributes = dict(attributes.data)
        return operation


@irdl_op_definition
class FenceOp(IRDLOperation):
    """Wait until the accelerator is idle and its memory accesses are visible."""

    name = "instgem.fence"
    assembly_format = "attr-dict"


def _illegal(name: str, fields: Mapping[str, int | SSAValue]) -> str | None:
    """What no accelerator accepts, as far as the known fields tell (instruction set, 4 and 5)."""
    if name == "CONFIG_LD" and fields["state"] == 3:
        return "there is no load state 3; there are 0, 1 and 2"
    if name == "CONFIG_EX" and fields["set_only_strides"] == 0:
        transposes = (fields["dataflow"], fields["a_transpose"], fields["b_transpose"])
        if transposes == (1, 1, 1):
            return "weight-stationary products cannot transpose both A and B"
        if transposes == (0, 0, 1):
            return "output-stationary products transpose B only together with A"
    if name.startswith(("MVIN", "MVOUT")):
        for size in ("rows", "cols"):
            if fields[size] == 0:
                return f"{name} moves at least one of its {size}"
    return None


def _define(kind: CommandType) -> type[CommandOp]:
    """The operation class of a command."""
    class_name = "".join(part.capitalize() for part in kind.name.split("_")) + "Op"
    members = {
        "name": f"instgem.{kind.name.lower()}",
        "KIND": kind,
        "__doc__": f"{kind.name}: {kind.meaning}.",
        "__module__": __name__,
        "__annotations__": {"KIND": ClassVar[CommandType]},
    }
    return irdl_op_definition(type(class_name, (CommandOp,), members))


def _signed(number: int) -> int:
    """The 64 bits of a number as i64 holds them."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


#: Operation class by the command's name in lower case.
OPERATIONS: dict[str, type[CommandOp]] = {kind.name.lower(): _define(kind) for kind in COMMANDS.values()}

InstGem = Dialect("instgem", [FenceOp, *OPERATIONS.values()], [])
