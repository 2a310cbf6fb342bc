"""The instruction set, Gemmini-compatible: one description that everything which knows commands derives from."""

from __future__ import annotations

from baco.accel.isa.address import GARBAGE, LocalAddress, is_garbage, local_address_bits
from baco.accel.isa.coding import (
    command_named,
    command_type,
    decode,
    disassemble,
    encode,
    find_command_type,
    float32_bits,
    float32_value,
    float64_bits,
    gives_result,
)
from baco.accel.isa.command import Command, CommandType, Field
from baco.accel.isa.commands import COMMANDS, FUNCT, IDENTITY_SCALE, KEEP_SCALE
from baco.accel.isa.instruction import CUSTOM_OPCODES, RoccInstruction

__all__ = [
    "COMMANDS",
    "CUSTOM_OPCODES",
    "FUNCT",
    "GARBAGE",
    "IDENTITY_SCALE",
    "KEEP_SCALE",
    "Command",
    "CommandType",
    "Field",
    "LocalAddress",
    "RoccInstruction",
    "command_named",
    "command_type",
    "decode",
    "disassemble",
    "encode",
    "find_command_type",
    "float32_bits",
    "float32_value",
    "float64_bits",
    "gives_result",
    "is_garbage",
    "local_address_bits",
]
