"""What a command of the instruction set is: its number, its class and the bit-fields of its two registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

CommandClass = Literal["ld", "ex", "st", "loop", "front"]
FieldKind = Literal["unsigned", "float32", "address", "local"]

#: What a field of each kind holds.
FIELD_KINDS: dict[str, str] = {
    "unsigned": "unsigned number",
    "float32": "bits of an IEEE 754 single-precision number",
    "address": "byte address in main memory",
    "local": "local address word (see there)",
}


class Command(NamedTuple):
    """One encoded command: the function code and the values of the two source registers.

    `funct` is the 7-bit funct7 of the RoCC instruction; `rs1` and `rs2` are 64-bit register *values*,
    as unsigned integers.
    """

    funct: int
    rs1: int
    rs2: int


@dataclass(frozen=True)
class Field:
    """One bit-field of a command.

    Args:
        name: keyword of `encode`.
        register: the register value that holds it.
        high, low: inclusive bit range.
        meaning: one line for the reference documentation.
        kind: how the bits are read.
        default: bits when `encode` is not given the field.
        feature: field of `baco.accel.config.Features` without which the field is ignored.
    """

    name: str
    register: Literal["rs1", "rs2"]
    high: int
    low: int
    meaning: str
    kind: FieldKind = "unsigned"
    default: int = 0
    feature: str | None = None

    @property
    def width(self) -> int:
        """Number of bits."""
        return self.high - self.low + 1

    @property
    def mask(self) -> int:
        """Ones in the lowest `width` bits."""
        return (1 << self.width) - 1

    @property
    def bits(self) -> str:
        """The range as documents write it: `rs1[31:16]` or `rs1[2]`."""
        span = str(self.high) if self.high == self.low else f"{self.high}:{self.low}"
        return f"{self.register}[{span}]"

    def extract(self, command: Command) -> int:
        """The field's bits in an encoded command."""
        value = command.rs1 if self.register == "rs1" else command.rs2
        return value >> self.low & self.mask


@dataclass(frozen=True)
class CommandType:
    """One command of the instruction set.

    Args:
        name: as documents and `encode` write it, upper case.
        funct: funct7 of the RoCC instruction.
        unit: the class: load, execute and store controller, loop unroller, or front end.
        meaning: one line for the reference documentation.
        fields: bit-fields in the order of their registers and bits.
        subtype: CONFIG commands share a funct and are told apart by this value of rs1[1:0].
        feature: field of `baco.accel.config.Features` without which the command is not built.
        response: the instruction writes a register (xd set).
    """

    name: str
    funct: int
    unit: CommandClass
    meaning: str
    fields: tuple[Field, ...] = ()
    subtype: int | None = None
    feature: str | None = None
    response: bool = False

    def field(self, name: str) -> Field:
        """The field of that name. Raises KeyError when there is none."""
        for one in self.fields:
            if one.name == name:
                return one
        raise KeyError(name)
