"""Reference documentation and Verilog constants, written from the instruction set's data and rules."""

from __future__ import annotations

from baco.accel.isa.address import NORM_COMMANDS
from baco.accel.isa.coding import command_named
from baco.accel.isa.command import FIELD_KINDS, CommandType
from baco.accel.isa.commands import COMMANDS
from baco.accel.legality.errors import ERRORS
from baco.accel.legality.language import Refuse
from baco.accel.legality.original import Original, undefined
from baco.accel.legality.rules import COMMON, RULES

_UNITS = {
    "ld": "load controller",
    "ex": "execute controller",
    "st": "store controller",
    "loop": "loop unrollers",
    "front": "front end",
}


def reference() -> str:
    """The instruction set as a Markdown document: command table, then the fields of every command."""
    lines = [
        "# Accelerator commands",
        "",
        "RoCC instructions on opcode custom-3 (0x7b): `funct7 rs2 rs1 xd xs1 xs2 rd opcode`. The operands are the",
        "64-bit values of the registers rs1 and rs2; bits that no field lists are ignored.",
        "",
        "| funct | command | class | feature | meaning |",
        "|---|---|---|---|---|",
    ]
    for one in COMMANDS.values():
        number = str(one.funct) if one.subtype is None else f"{one.funct}, rs1[1:0]={one.subtype}"
        lines.append(f"| {number} | {one.name} | {one.unit} | {one.feature or ''} | {one.meaning} |")
    lines += ["", "Classes: " + ", ".join(f"{key} = {value}" for key, value in _UNITS.items()) + "."]
    lines += ["", *_local_address(), "", *_illegal()]
    for one in COMMANDS.values():
        lines += ["", *_command(one)]
    return "\n".join(lines) + "\n"


def _local_address() -> list[str]:
    norm = ", ".join(f"{code} {name}" for code, name in enumerate(NORM_COMMANDS))
    return [
        "## Local address word",
        "",
        "| bits | name | meaning |",
        "|---|---|---|",
        "| 31 | accumulator | 0 scratchpad, 1 accumulator |",
        "| 30 | accumulate | accumulator writes add to the row instead of replacing it |",
        "| 29 | read_full | accumulator stores take raw elements instead of scaled ones |",
        f"| 28:26 | norm | normaliser command of accumulator stores: {norm} |",
        "| 25:0 | row | row index; all bits of the word set is the garbage address: no row |",
    ]


def _illegal() -> list[str]:
    return [
        "## Illegal commands",
        "",
        "A run ends at the first illegal command in program order. Every engine names this command and the code of its",
        "error; which one, where several apply, is the first in the order of the command's rules, behind those of all",
        "commands. A macro (LOOP_WS, LOOP_CONV_WS) is one command: it is judged as a whole when it is to run, main memory",
        "included. What memory holds after an error is not specified: commands before it may be unfinished, those behind it",
        "under way.",
        "",
        "DIM are the rows and columns of the array, ROW_BYTES the most bytes of main memory in a row of a load or store: 64,",
        "the largest memory request or 4 * DIM, whichever is more.",
        "",
        "What no engine can see in time is no error: where main memory is written and read without a fence between, or",
        "written twice by one convolution, its contents are not specified.",
        "",
        "| code | error | meaning |",
        "|---|---|---|",
        *(f"| {one.code} | {one.name} | {one.meaning} |" for one in ERRORS),
        "",
        "What is legal on the original Gemmini is legal here. The last column of the rules says what the original makes of",
        "a command that breaks them: *forbidden*, it asserts, stops or hangs; *undefined*, what comes of it depends on timing,",
        "on what was there before, or differs between its RTL and its functional simulator; *absent*, it has nothing of the",
        "kind.",
        "",
        "| error | rule of all commands | the original |",
        "|---|---|---|",
        *(_row(error, rule, original) for error, rule, original in COMMON),
        _row(
            "MAIN_MEMORY",
            "main memory has every byte that is loaded or stored; this is looked at last",
            undefined("what answers there is the system's matter"),
        ),
    ]


def _rules(one: CommandType) -> list[str]:
    rules = [step for step in RULES[one.name] if isinstance(step, Refuse)]
    if not rules:
        return []
    rows = [_row(rule.error, rule.rule, rule.original) for rule in rules]
    return ["", "| error | rule | the original |", "|---|---|---|", *rows]


def _row(error: str, rule: str, original: Original) -> str:
    return f"| {error} | {rule} | *{original.standing}*: {original.why} |"


def _command(one: CommandType) -> list[str]:
    lines = [f"## {one.name}", "", one.meaning[0].upper() + one.meaning[1:] + "."]
    if one.response:
        lines[-1] += " Answers in rd (xd set)."
    if not one.fields:
        return lines + _rules(one)
    lines += ["", "| field | bits | kind | default | meaning |", "|---|---|---|---|---|"]
    for field in one.fields:
        default = "1.0" if field.kind == "float32" and field.default else str(field.default)
        needs = f" (needs {field.feature})" if field.feature else ""
        lines.append(
            f"| {field.name} | {field.bits} | {FIELD_KINDS[field.kind]} | {default} | {field.meaning}{needs} |"
        )
    return lines + _rules(one)


def command_reference(name: str) -> str:
    """The section of one command. Raises InputError for an unknown name."""
    return "\n".join(_command(command_named(name))) + "\n"


def verilog_constants() -> dict[str, str]:
    """Values of the Verilog macros by name.

    `BACO_ISA_<COMMAND>` is the function code (for CONFIG subtypes `BACO_ISA_CONFIG`, with
    `BACO_ISA_SUBTYPE_<COMMAND>` for rs1[1:0]); `BACO_ISA_<COMMAND>_<FIELD>` is the bit range, to be written
    ``rs1[`BACO_ISA_MVIN_ADDRESS]``. `BACO_ERROR_<NAME>` is the code of an error, `BACO_ERROR_NONE` none.
    """
    constants = {"BACO_ISA_CONFIG": "7'd0"}
    for one in COMMANDS.values():
        if one.subtype is None:
            constants[f"BACO_ISA_{one.name}"] = f"7'd{one.funct}"
        else:
            constants[f"BACO_ISA_SUBTYPE_{one.name}"] = f"2'd{one.subtype}"
        for field in one.fields:
            constants[f"BACO_ISA_{one.name}_{field.name.upper()}"] = f"{field.high}:{field.low}"
    constants["BACO_ERROR_NONE"] = "4'd0"
    constants |= {f"BACO_ERROR_{error.name}": f"4'd{error.code}" for error in ERRORS}
    return constants


def verilog_header() -> str:
    """All of `verilog_constants` as a file to include."""
    lines = ["// Function codes and bit-fields of the accelerator's commands."]
    lines += ["`ifndef BACO_ISA", "`define BACO_ISA"]
    lines += [f"`define {name} {value}" for name, value in verilog_constants().items()]
    return "\n".join([*lines, "`endif"]) + "\n"
