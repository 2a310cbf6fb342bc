"""`baco isa`: the accelerator's instruction set, for reading and for taking commands apart."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def isa(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="Commands to show; the whole reference if none."),
    ] = None,
    disassemble: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            metavar="FUNCT RS1 RS2", help="Name the fields of a command with these register values."
        ),
    ] = None,
    word: Annotated[
        str | None, typer.Option(metavar="WORD", help="Take a 32-bit instruction word apart.")
    ] = None,
    verilog: bool = False,
    json: bool = False,
) -> None:
    """Print the instruction set's reference (Markdown), or take one command or instruction apart.

    Numbers are decimal, or 0x… hexadecimal.

    Args:
        verilog: Print the constants as a Verilog header.
    """
    from baco.accel.legality.document import command_reference, reference, verilog_header
    from baco.common.numbers import any_base_number
    from baco.display.console import print_json

    if disassemble is not None:
        funct, rs1, rs2 = (any_base_number("--disassemble", word) for word in disassemble)
        text, record = _command(funct, rs1, rs2)
    elif word is not None:
        text, record = _instruction(any_base_number("--word", word))
    elif verilog:
        text, record = verilog_header(), None
    elif command:
        text, record = "\n".join(command_reference(name) for name in command), None
    else:
        text, record = reference(), None
    if json:
        print_json(record if record is not None else _instruction_set(command or []))
    else:
        sys.stdout.write(text)


def _command(funct: int, rs1: int, rs2: int) -> tuple[str, dict[str, object]]:
    from baco.accel.isa import command_type, decode, disassemble

    kind = command_type(funct, rs1)
    fields = decode(funct, rs1, rs2)
    lines = [disassemble(funct, rs1, rs2)]
    for field in kind.fields:
        lines.append(f"  {field.bits:12} {field.name:20} {fields[field.name]:<#20x} {field.meaning}")
    return "\n".join(lines) + "\n", {"command": kind.name, "funct": funct, "fields": fields}


def _instruction(word: int) -> tuple[str, dict[str, object]]:
    from dataclasses import asdict

    from baco.accel.isa import COMMANDS, RoccInstruction

    one = RoccInstruction.from_word(word)
    names = [kind.name for kind in COMMANDS.values() if kind.funct == one.funct] or ["unknown command"]
    operands = ([f"x{one.rd}"] if one.xd else []) + [f"x{one.rs1}", f"x{one.rs2}"]
    # which CONFIG it is only the register's value says
    name = names[0] if len(names) == 1 else "CONFIG"
    text = f"{name} {', '.join(operands)} (funct {one.funct}, custom-{one.custom})\n"
    return text, {"commands": names, **asdict(one)}


def _instruction_set(names: list[str]) -> list[dict[str, object]]:
    from dataclasses import asdict

    from baco.accel.isa import COMMANDS, command_named
    from baco.accel.legality.language import Refuse
    from baco.accel.legality.rules import RULES

    kinds = [command_named(name) for name in names] or list(COMMANDS.values())
    rules = {
        name: [asdict(step) for step in steps if isinstance(step, Refuse)] for name, steps in RULES.items()
    }
    return [{**asdict(kind), "rules": rules[kind.name]} for kind in kinds]
