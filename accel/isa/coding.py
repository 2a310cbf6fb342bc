"""Commands to register values and back."""

from __future__ import annotations

import math
import operator
import struct
from typing import SupportsFloat, SupportsIndex

from baco.accel.isa.address import LocalAddress, is_garbage
from baco.accel.isa.command import Command, CommandType, Field
from baco.accel.isa.commands import COMMANDS
from baco.common.errors import InputError, did_you_mean

_MASK64 = (1 << 64) - 1
_BY_NUMBER = {(one.funct, one.subtype or 0): one for one in COMMANDS.values()}


def encode(command: str, **fields: SupportsIndex | SupportsFloat) -> Command:
    """The function code and register values of a command.

    Args:
        command: name of the command, as `MVIN` or `config_ld`.
        fields: values of its fields; what is left out takes the field's default. A float32 field takes a
            `float` (rounded to nearest) or, as an integer, the bits themselves; a local address takes a
            `LocalAddress` or its word.

    Raises InputError for an unknown command or field and for a value that the field cannot hold.
    """
    kind = command_named(command)
    known = {field.name: field for field in kind.fields}
    for name in fields:
        if name not in known:
            hint = did_you_mean(name, known) if known else "it has no fields"
            raise InputError(f"{kind.name} has no field '{name}'", hint=hint)
    registers = {"rs1": kind.subtype or 0, "rs2": 0}
    for name, field in known.items():
        bits = _bits(kind, field, fields[name]) if name in fields else field.default
        registers[field.register] |= bits << field.low
    return Command(kind.funct, registers["rs1"], registers["rs2"])


def command_named(command: str) -> CommandType:
    """The command of that name, in any case. Raises InputError when there is none."""
    kind = COMMANDS.get(command.upper())
    if kind is None:
        raise InputError(f"there is no command '{command}'", hint=did_you_mean(command, COMMANDS))
    return kind


def command_type(funct: int, rs1: int = 0) -> CommandType:
    """The command that a function code (for CONFIG: with rs1[1:0]) stands for.

    Raises InputError when there is none.
    """
    found = find_command_type(funct, rs1)
    if found is None:
        codes = sorted({one.funct for one in COMMANDS.values()})
        raise InputError(
            f"there is no command with function code {funct}", hint="codes: " + ", ".join(map(str, codes))
        )
    return found


def find_command_type(funct: int, rs1: int = 0) -> CommandType | None:
    """As `command_type`, but None when there is no such command."""
    return _BY_NUMBER.get((funct, rs1 & 3 if funct == 0 else 0))


def gives_result(funct: int) -> bool:
    """Whether a command answers with a value for a register."""
    kind = find_command_type(funct)
    return kind is not None and kind.response


def decode(funct: int, rs1: int, rs2: int) -> dict[str, int]:
    """Bits of every field of a command, by name; `encode` of them gives the command's known bits again.

    Raises InputError for an unknown function code or a register value of more than 64 bits.
    """
    kind = command_type(funct, rs1)
    for name, value in (("rs1", rs1), ("rs2", rs2)):
        if not 0 <= value <= _MASK64:
            raise InputError(f"{name} is an unsigned 64-bit value, not {value:#x}")
    command = Command(funct, rs1, rs2)
    return {field.name: field.extract(command) for field in kind.fields}


def disassemble(funct: int, rs1: int, rs2: int) -> str:
    """One line for people: the command and its fields that are not zero, addresses always.

    Never raises for a command of the right width: what is unknown is shown as numbers.
    """
    kind = find_command_type(funct, rs1)
    if kind is None:
        return f"UNKNOWN funct={funct} rs1={rs1:#x} rs2={rs2:#x}"
    command = Command(funct, rs1 & _MASK64, rs2 & _MASK64)
    shown = [kind.name]
    for field in kind.fields:
        bits = field.extract(command)
        if bits or field.kind in ("address", "local"):
            shown.append(f"{field.name}={_text(field, bits)}")
    return " ".join(shown)


def float32_bits(value: float) -> int:
    """Bits of the float32 number nearest to `value`. Raises InputError when it is too large for one."""
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        raise InputError(f"{value} is too large for a float32 number") from None
    return int(bits)


def float64_bits(x: float) -> int:
    """The bits of a float64 number, as a signed 64-bit word."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def float32_value(bits: int) -> float:
    """The number that 32 bits stand for."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _bits(kind: CommandType, field: Field, value: SupportsIndex | SupportsFloat) -> int:
    if isinstance(value, SupportsIndex):
        bits = operator.index(value)
    elif field.kind == "float32":
        bits = float32_bits(float(value))
    else:
        raise InputError(f"{kind.name} {field.name} is an integer, not {value!r}")
    if not 0 <= bits <= field.mask:
        raise InputError(
            f"{kind.name} {field.name} cannot be {bits}",
            hint=f"it has {field.width} bits, {field.bits}: 0..{field.mask}",
        )
    return bits


def _text(field: Field, bits: int) -> str:
    if field.kind == "address":
        return f"{bits:#x}"
    if field.kind == "local":
        return "garbage" if is_garbage(bits) else str(LocalAddress.from_word(bits))
    if field.kind == "float32":
        value = float32_value(bits)
        return (
            f"{value:g}"
            if math.isfinite(value) and float32_bits(float(f"{value:g}")) == bits
            else f"{bits:#010x}"
        )
    return str(bits)
