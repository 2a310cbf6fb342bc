"""What is written from the instruction set: documentation and Verilog constants."""

import re

from baco.accel.isa import COMMANDS
from baco.accel.legality.document import reference, verilog_constants, verilog_header
from baco.accel.legality.errors import ERRORS


def test_reference_names_every_command_and_field() -> None:
    text = reference()
    for command in COMMANDS.values():
        assert f"| {command.name} |" in text
        section = text.split(f"## {command.name}\n")[1].split("\n## ")[0]
        rows = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if "| rs" in line]
        assert rows == [field.name for field in command.fields]


def test_reference_is_made_of_regular_tables() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", reference(), re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_verilog_constants() -> None:
    constants = verilog_constants()
    assert constants["BACO_ISA_MVIN"] == "7'd2"
    assert constants["BACO_ISA_SUBTYPE_CONFIG_ST"] == "2'd2"
    assert constants["BACO_ISA_CONFIG_LD_BLOCK_STRIDE"] == "31:16"
    assert constants["BACO_ERROR_BAD_SIZE"] == "4'd4"
    fields = sum(len(command.fields) for command in COMMANDS.values())
    errors = 1 + len(ERRORS)
    assert len(constants) == 1 + len(COMMANDS) + fields + errors, "two constants have one name"


def test_verilog_header_defines_them() -> None:
    defined = dict(re.findall(r"^`define (\w+) (\S+)$", verilog_header(), re.MULTILINE))
    assert defined == verilog_constants()
