"""The accelerator on a bus: registers of the AXI4 wrapper (`accel/rtl/baco_axi4.v`), for Verilog, C and readers alike.

A program that has no RoCC port writes a command's operands and then COMMAND, with loads and stores of 32 bits to these
registers; main memory is reached by bursts of the accelerator's own. What is said here once becomes macros of the Verilog,
constants of the C driver, and the page `registers.md` of a package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from baco.common.errors import InputError, did_you_mean
from baco.common.provenance import versions

#: What an accelerator is reached by: its own ports (RoCC commands, main memory), or AXI4.
Bus = Literal["rocc", "axi4"]
#: Top module of the Verilog by bus.
BUS_TOPS: dict[Bus, str] = {"rocc": "baco_accelerator", "axi4": "baco_axi4"}
#: The first register: "BACO" in ASCII.
IDENTIFIER = 0x4241434F


def bus_named(name: str) -> Bus:
    """A bus by its name. Raises InputError where there is none of it."""
    for bus in BUS_TOPS:
        if bus == name:
            return bus
    raise InputError(f"there is no bus '{name}'", hint=did_you_mean(name, list(BUS_TOPS)))


@dataclass(frozen=True)
class BitField:
    """Bits `high` to `low` of a register."""

    name: str
    high: int
    low: int
    meaning: str


@dataclass(frozen=True)
class BusRegister:
    """One register of 32 bits.

    Attributes:
        offset: bytes from the first register.
        access: R, W or RW.
    """

    name: str
    offset: int
    access: Literal["R", "W", "RW"]
    meaning: str
    fields: tuple[BitField, ...] = ()


def _halves(name: str, offset: int, access: Literal["R", "W", "RW"], meaning: str) -> tuple[BusRegister, ...]:
    return (
        BusRegister(f"{name}_LOW", offset, access, f"{meaning}, bits 31 to 0"),
        BusRegister(f"{name}_HIGH", offset + 4, access, f"{meaning}, bits 63 to 32"),
    )


REGISTERS: tuple[BusRegister, ...] = (
    BusRegister("ID", 0x00, "R", f"0x{IDENTIFIER:08X}"),
    BusRegister("VERSION", 0x04, "R", "of this interface: 1"),
    *_halves("HASH", 0x08, "R", "hash of the configuration"),
    *_halves("RS1", 0x10, "RW", "first operand of the next command"),
    *_halves("RS2", 0x18, "RW", "second operand of the next command"),
    BusRegister(
        "COMMAND", 0x20, "W", "sends a command with the operands; answered when the queue has room for it",
        (
            BitField("FUNCT", 6, 0, "function code"),
            BitField("RD", 12, 8, "number that a result comes back with"),
            BitField("RESULT", 16, 16, "the command gives a result"),
        ),
    ),
    BusRegister(
        "STATUS", 0x24, "R", "what goes on",
        (
            BitField("BUSY", 0, 0, "commands wait or are under way: a fence waits until it is 0"),
            BitField("HAS_RESULT", 1, 1, "a result waits to be taken"),
            BitField("ILLEGAL", 2, 2, "a command was illegal (ERROR); until reset"),
            BitField("BUS_FAILED", 3, 3, "main memory answered with an error (BUS_ERROR)"),
            BitField("RESETTING", 4, 4, "a reset by CONTROL is under way"),
            BitField("FREE", 15, 8, "commands that the queue has room for"),
            BitField("RESULT_RD", 20, 16, "number that the result came with"),
        ),
    ),
    *_halves("RESULT", 0x28, "R", "the result that waits"),
    BusRegister(
        "CONTROL", 0x30, "W", "each bit that is 1 does something once",
        (
            BitField("RESET", 0, 0, "transactions end, then the accelerator and its queue are reset"),
            BitField("TAKE_RESULT", 1, 1, "the result has been read"),
            BitField("FORGET_BUS_ERROR", 2, 2, "the next error of the bus is kept instead"),
        ),
    ),
    BusRegister(
        "INTERRUPT", 0x34, "RW", "the interrupt is high while one of these is enabled and true",
        (
            BitField("ON_IDLE", 0, 0, "not busy"),
            BitField("ON_RESULT", 1, 1, "a result waits"),
            BitField("ON_ILLEGAL", 2, 2, "a command was illegal"),
            BitField("ON_BUS_ERROR", 3, 3, "main memory answered with an error"),
        ),
    ),
    BusRegister(
        "ERROR", 0x38, "R", "the first illegal command since reset, if STATUS says that there is one",
        (
            BitField("CODE", 3, 0, "why: commands.md lists the reasons"),
            BitField("FUNCT", 14, 8, "its function code"),
        ),
    ),
    *_halves("ERROR_RS1", 0x40, "R", "its first operand"),
    *_halves("ERROR_RS2", 0x48, "R", "its second operand"),
    BusRegister(
        "BUS_ERROR", 0x50, "R", "the first error of main memory that is not forgotten",
        (
            BitField("VALID", 0, 0, "there is one"),
            BitField("WRITE", 1, 1, "of a write"),
            BitField("RESPONSE", 3, 2, "AXI's response: 2 SLVERR, 3 DECERR"),
        ),
    ),
    *_halves("BUS_ADDRESS", 0x58, "R", "address of the first byte of its burst"),
)  # fmt: skip


def bus_constants() -> dict[str, str]:
    """Values of the Verilog macros by name: `BACO_AXI_<REGISTER>` its offset, `BACO_AXI_<REGISTER>_<FIELD>` a range of bits."""
    found = {"BACO_AXI_IDENTIFIER": f"32'h{IDENTIFIER:08X}"}
    for register in REGISTERS:
        found[f"BACO_AXI_{register.name}"] = f"12'h{register.offset:03x}"
        for field in register.fields:
            bits = f"{field.high}:{field.low}" if field.high > field.low else f"{field.low}"
            found[f"BACO_AXI_{register.name}_{field.name}"] = bits
    return found


def registers_page() -> str:
    """The registers for readers, Markdown."""
    lines = [
        "# Registers",
        "",
        "Registers of 32 bits on AXI4-Lite, written whole: a write of some of the bytes changes nothing and is answered with",
        "SLVERR. Other addresses read as 0. A command is sent by writing RS1, RS2 and then COMMAND; operands stay. The interrupt",
        "is a level. After an error of the bus everything under way still ends: STATUS becomes idle, what memory holds is not",
        "defined, and CONTROL's RESET brings the accelerator back to where it was after power-up.",
        "",
        "| offset | register | access | bits | meaning |",
        "|---|---|---|---|---|",
    ]
    for one in REGISTERS:
        lines.append(f"| 0x{one.offset:02X} | `{one.name}` | {one.access} | | {one.meaning} |")
        lines += [
            f"| | | | {f'{field.high}:{field.low}' if field.high > field.low else field.low} `{field.name}` | {field.meaning} |"
            for field in one.fields
        ]
    return "\n".join(lines) + "\n"


def register_header() -> str:
    """C header `baco_registers.h`: offsets of registers, shifts and masks of their fields."""
    lines = [
        f"// Generated by baco {versions().get('baco', '(not installed)')}: registers of an accelerator on AXI4-Lite.",
        "#ifndef BACO_REGISTERS_H",
        "#define BACO_REGISTERS_H",
        f"#define BACO_AXI_IDENTIFIER 0x{IDENTIFIER:08X}u",
    ]
    for one in REGISTERS:
        lines.append(f"#define BACO_AXI_{one.name} 0x{one.offset:02X}u  // {one.access}: {one.meaning}")
        for field in one.fields:
            mask = (1 << field.high - field.low + 1) - 1
            lines.append(f"#define BACO_AXI_{one.name}_{field.name} {field.low}  // {field.meaning}")
            lines.append(f"#define BACO_AXI_{one.name}_{field.name}_MASK 0x{mask:X}u")
    return "\n".join([*lines, "#endif  // BACO_REGISTERS_H"]) + "\n"
