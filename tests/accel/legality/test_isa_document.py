"""What is written from the instruction set: documentation and Verilog constants."""

import re

from baco.accel.isa import COMMANDS
from baco.accel.legality.document import reference, verilog_constants, verilog_header
from baco.accel.legality.errors import ERRORS
from baco.accel.legality.language import Refuse
from baco.accel.legality.rules import COMMON, RULES


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


def test_every_rule_says_what_the_original_makes_of_it() -> None:
    """A rule that takes away what the original defines could give no reason of these kinds."""
    rules = [step for steps in RULES.values() for step in steps if isinstance(step, Refuse)]
    originals = [rule.original for rule in rules] + [original for _, _, original in COMMON]
    assert len(originals) > 100
    for original in originals:
        assert original.standing in ("forbidden", "undefined", "absent")
        assert len(original.why.split()) >= 4, original
        assert not original.why.endswith(".")
    text = reference()
    for name in COMMANDS:
        section = text.split(f"## {name}\n")[1].split("\n## ")[0]
        for rule in (step for step in RULES[name] if isinstance(step, Refuse)):
            told = f"| {rule.error} | {rule.rule} | *{rule.original.standing}*: {rule.original.why} |"
            assert told in section


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
