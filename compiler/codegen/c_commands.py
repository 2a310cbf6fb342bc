"""Commands in C: by the macros of Gemmini's own header, and a header that defines these for who has none.

Names and orders of parameters are those of `gemmini.h` (the version with `gemmini_extended5_config_ld`); what each packs where is
the instruction set's (`baco.accel.isa`). What no macro says is written as the instruction that all of them are made of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from baco.accel.isa import COMMANDS, float32_bits, float32_value
from baco.accel.isa.command import CommandType, Field
from baco.common.errors import InputError

#: Name of the header that `commands_header` is the text of.
COMMANDS_HEADER = "baco_gemmini.h"


@dataclass(frozen=True)
class CommandMacro:
    """A macro of `gemmini.h`: its name and, in their order, its parameters, each with the field of the command that it gives."""

    name: str
    parameters: tuple[tuple[str, str], ...]


_MOVED = (("spad_addr", "local"), ("cols", "cols"), ("rows", "rows"))
_OPERANDS = (
    *(("A", "a"), ("BD", "bd"), ("A_cols", "a_cols"), ("A_rows", "a_rows")),
    *(("BD_cols", "bd_cols"), ("BD_rows", "bd_rows")),
)
MACROS: Mapping[str, CommandMacro] = {
    "CONFIG_EX": CommandMacro(
        "gemmini_extended3_config_ex",
        (
            *(("dataflow", "dataflow"), ("sys_act", "activation"), ("sys_shift", "in_shift")),
            *(("sys_acc_scale", "acc_scale"), ("C_stride", "c_stride"), ("A_stride", "a_stride")),
            *(("A_transpose", "a_transpose"), ("B_transpose", "b_transpose")),
            ("set_only_strides", "set_only_strides"),
        ),
    ),
    "CONFIG_LD": CommandMacro(
        "gemmini_extended5_config_ld",
        (
            *(("stride", "stride"), ("scale", "scale"), ("shrunk", "shrink")),
            *(("block_mvin_stride", "block_stride"), ("pixel_repeats", "pixel_repeats"), ("id", "state")),
        ),
    ),
    "CONFIG_ST": CommandMacro(
        "gemmini_extended2_config_st",
        (
            *(("stride", "stride"), ("acc_act", "activation"), ("acc_scale", "acc_scale")),
            *((name, name) for name in ("pool_stride", "pool_size", "pool_out_dim", "porows", "pocols")),
            *((name, name) for name in ("orows", "ocols", "upad", "lpad")),
        ),
    ),
    "MVIN": CommandMacro("gemmini_extended_mvin", (("dram_addr", "address"), *_MOVED)),
    "MVIN2": CommandMacro("gemmini_extended_mvin2", (("dram_addr", "address"), *_MOVED)),
    "MVIN3": CommandMacro("gemmini_extended_mvin3", (("dram_addr", "address"), *_MOVED)),
    "MVOUT": CommandMacro("gemmini_extended_mvout", (("dram_addr", "address"), *_MOVED)),
    "PRELOAD": CommandMacro(
        "gemmini_extended_preload",
        (
            *(("BD", "bd"), ("C", "c"), ("BD_cols", "bd_cols"), ("BD_rows", "bd_rows")),
            *(("C_cols", "c_cols"), ("C_rows", "c_rows")),
        ),
    ),
    "COMPUTE_PRELOADED": CommandMacro("gemmini_extended_compute_preloaded", _OPERANDS),
    "COMPUTE_ACCUMULATED": CommandMacro("gemmini_extended_compute_accumulated", _OPERANDS),
    "FLUSH": CommandMacro("gemmini_flush", (("skip", "skip"),)),
}
#: How `gemmini.h` calls the function codes of commands that programs write without a macro; others are written as numbers.
_CODES = {name: f"k_{name}" for name in COMMANDS if name.startswith("LOOP_") and "SPAD" not in name}
#: Conversions of a scale to the bits of a command, and back, by the field.
_TO_BITS = {"scale": "scale_t_to_scale_t_bits", "acc_scale": "acc_scale_t_to_acc_scale_t_bits"}
_FROM_BITS = {"scale": "scale_t_bits_to_scale_t", "acc_scale": "acc_scale_t_bits_to_acc_scale_t"}


def command_statement(kind: CommandType, fields: Mapping[str, int | str]) -> str:
    """The statement that issues a command.

    Args:
        fields: of each field its bits where they are known, else the expression, of type int64_t, that gives them.

    Raises InputError for a command that answers with a value.
    """
    if kind.response:
        raise InputError(f"{kind.name} answers with a value, which has no form in C here")
    macro = MACROS.get(kind.name)
    if macro is None or not _says_all(kind, macro, fields):
        return _instruction(kind, fields)
    arguments = [_argument(kind.field(field), fields[field]) for _, field in macro.parameters]
    if kind.name.startswith(
        "CONFIG"
    ):  # not all of Gemmini's macros of these put parentheses around what they take
        arguments = [text if re.fullmatch(r"[\w.+-]+|\w+\(.*\)", text) else f"({text})" for text in arguments]
    return f"{macro.name}({', '.join(arguments)});"


def _says_all(kind: CommandType, macro: CommandMacro, fields: Mapping[str, int | str]) -> bool:
    """Whether the macro's parameters can give all fields: others have their defaults, and scales are numbers."""
    said = {field for _, field in macro.parameters}
    for field in kind.fields:
        value = fields[field.name]
        if field.name not in said and value != 0:
            return False
        if field.kind == "float32" and isinstance(value, int) and not _is_finite(value):
            return False
    return True


def _is_finite(bits: int) -> bool:
    return bits >> 23 & 0xFF != 0xFF


def _argument(field: Field, value: int | str) -> str:
    if field.kind == "float32":
        if isinstance(value, int):
            return _number(value)
        return f"{_FROM_BITS[field.name]}((uint32_t)({value}))"
    if isinstance(value, str):
        return value
    return f"{value:#x}" if field.kind == "local" else str(value)


def _number(bits: int) -> str:
    """A float32 number, exactly."""
    value = float32_value(bits)
    short = f"{value:g}"
    if float32_bits(float(short)) != bits:
        return f"{value.hex()}f"
    return f"{short}f" if "." in short or "e" in short else f"{short}.0f"


def _instruction(kind: CommandType, fields: Mapping[str, int | str]) -> str:
    registers = {}
    for register in ("rs1", "rs2"):
        known = kind.subtype or 0 if register == "rs1" else 0
        computed = []
        for field in kind.fields:
            if field.register != register:
                continue
            value = fields[field.name]
            if isinstance(value, int):
                known |= value << field.low
            elif field.low:
                computed.append(f"((uint64_t)({value}) << {field.low})")
            else:
                computed.append(f"(uint64_t)({value})")
        if known or not computed:
            computed.append(f"{known:#x}" if known else "0")
        registers[register] = " + ".join(computed)
    code = _CODES.get(kind.name, str(kind.funct))
    shown = [f"{name} = {value}" for name, value in fields.items() if isinstance(value, int) and value]
    said = "" if kind.name in _CODES else f"{kind.name}{': ' if shown else ''}"
    comment = f"  // {said}{', '.join(shown)}" if said or shown else ""
    return f"ROCC_INSTRUCTION_RS1_RS2(XCUSTOM_ACC, {registers['rs1']}, {registers['rs2']}, {code});{comment}"


def commands_header() -> str:
    """Text of a header with the part of `gemmini.h` that programs in C consist of: C99 with GNU assembly, also C++."""
    lines = [
        "// The accelerator's commands, by the names and parameters of Gemmini's own gemmini.h, which can stand in for this file.",
        "// Generated by baco.",
        "#ifndef BACO_GEMMINI_H",
        "#define BACO_GEMMINI_H",
        "#include <stdint.h>",
        "",
        "#define XCUSTOM_ACC 3",
        "typedef float scale_t;",
        "typedef float acc_scale_t;",
        "",
    ]
    for conversion in (*_TO_BITS.values(), *_FROM_BITS.values()):
        given, _, wanted = conversion.partition("_to_")
        types = {
            kind: "uint32_t" if kind.endswith("_bits") else kind
            for kind in (given.removesuffix("_to"), wanted)
        }
        source, target = types[given], types[wanted]
        lines += [
            f"static inline __attribute__((unused)) {target} {conversion}({source} x) {{",
            f"  {target} y;",
            "  __builtin_memcpy(&y, &x, sizeof y);",
            "  return y;",
            "}",
        ]
    lines += [
        "",
        "#define ROCC_INSTRUCTION_RS1_RS2(x, rs1, rs2, funct) \\",
        '  __asm__ volatile(".insn r 0x7b, 3, %0, x0, %1, %2" \\',
        '                   : : "i"(funct), "r"((uint64_t)(rs1)), "r"((uint64_t)(rs2)) : "memory")',
        '#define gemmini_fence() __asm__ volatile("fence" : : : "memory")',
        "",
    ]
    lines += [f"#define {code} {COMMANDS[name].funct}" for name, code in _CODES.items()]
    for name, macro in MACROS.items():
        lines += ["", *_definition(COMMANDS[name], macro)]
    return "\n".join([*lines, "", "#endif  // BACO_GEMMINI_H", ""])


def _definition(kind: CommandType, macro: CommandMacro) -> list[str]:
    packed = {}
    for register in ("rs1", "rs2"):
        parts = [str(kind.subtype)] if register == "rs1" and kind.subtype else []
        for parameter, name in macro.parameters:
            field = kind.field(name)
            if field.register == register:
                value = f"({parameter})"
                if field.kind == "float32":
                    value = f"{_TO_BITS[name]}{value}"
                # fields are next to one another, so that their sum is their union
                parts.append(f"((uint64_t){value} << {field.low})" if field.low else f"(uint64_t){value}")
        packed[register] = " + ".join(parts) or "0"
    parameters = ", ".join(parameter for parameter, _ in macro.parameters)
    return [
        f"#define {macro.name}({parameters}) \\",
        f"  ROCC_INSTRUCTION_RS1_RS2(XCUSTOM_ACC, {packed['rs1']}, \\",
        f"                           {packed['rs2']}, {kind.funct})",
    ]
