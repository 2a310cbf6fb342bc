"""The rules as C++: the class that the functional model asks before it executes a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from string import Template

from baco.accel.config import Features
from baco.accel.isa.command import CommandType, Field
from baco.accel.isa.commands import COMMANDS
from baco.accel.legality.errors import ERRORS
from baco.accel.legality.language import FUNCTIONS, PARAMETERS, STATE, Let, Refuse, Set, Step
from baco.accel.legality.rules import COMMON, RULES

#: Where `Config` (sim/cpp/config.h) has what rules call so; features have the same names in both.
_CONFIG = {
    "DIM": "config.dim",
    "SCRATCHPAD_ROWS": "config.scratchpad_rows",
    "ACCUMULATOR_ROWS": "config.accumulator_rows",
    "ROW_BITS": "local_row_bits(config)",
    "ELEMENT_BYTES": "config.element_bytes()",
    "ROW_BYTES": "std::max({64, config.dma_max_bytes, 4 * config.dim})",
    "WS": "config.ws",
    "OS": "config.os",
}

_HEADER = Template("""\
// What is illegal. Written by accel/legality/cpp.py from the instruction set's data and rules.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "command.h"
#include "config.h"

namespace baco {

// Why a command is refused: the codes of the accelerator's error port.
enum class Refusal : int {
  kNone = 0,
$codes
};

// A few words for people.
const char* reason(Refusal refusal);
// Name of a command; `unknown command` when there is none.
const char* name_of(const Command& command);
// The command without the bits that no field lists, which are ignored, and those of features that accelerators lack by default.
Command defined_bits(const Command& command);

// Follows commands in program order.
class Legality {
 public:
  explicit Legality(const Config& config);
  // Whether the next command is legal; if it is, the state is brought up to date.
  Refusal check(const Command& command);
  // What does not hold, after a refusal.
  const std::string& detail() const { return detail_; }

 private:
  Refusal refuse(Refusal why, const char* rule, std::initializer_list<std::pair<const char*, int64_t>> values = {});
$methods

$parameters
$state
  std::string detail_;
};

}  // namespace baco
""")

_SOURCE = Template("""\
// Written by accel/legality/cpp.py from the instruction set's data and rules.
#include "legality.h"

#include <algorithm>

#include "fields.h"

namespace baco {

namespace {

int64_t min(int64_t a, int64_t b) { return std::min(a, b); }
int64_t max(int64_t a, int64_t b) { return std::max(a, b); }
// Row i of a result falls on row j > i of an operand.
int64_t overtakes(int64_t result, int64_t result_stride, int64_t first, int64_t stride, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i + 1; j < rows; ++j)
      if (result + i * result_stride == first + j * stride) return 1;
  return 0;
}

}  // namespace

const char* reason(Refusal refusal) {
  switch (refusal) {
$reasons
    default: return "no reason";
  }
}

const char* name_of(const Command& command) {
$names
}

Command defined_bits(const Command& command) {
$bits
}

Legality::Legality(const Config& config)
    : $initial {}

Refusal Legality::refuse(Refusal why, const char* rule,
                         std::initializer_list<std::pair<const char*, int64_t>> values) {
  detail_ = rule;
  const char* separator = " (";
  for (const auto& [name, value] : values) {
    detail_ += std::string(separator) + name + " = " + std::to_string(value);
    separator = ", ";
  }
  if (values.size()) detail_ += ')';
  return why;
}

Refusal Legality::check(const Command& command) {
$dispatch
}

$definitions
}  // namespace baco
""")


@cache
def cpp_sources() -> Mapping[str, str]:
    """The C++ files by name: `legality.h` and `legality.cpp`."""
    header = _HEADER.substitute(
        codes=_lines(f"  k{_camel(error.name)} = {error.code},  // {error.meaning}" for error in ERRORS),
        methods=_lines(
            [
                *(f"  Refusal {name.lower()}(const Command& command);" for name in RULES if RULES[name]),
                *(f"  int64_t {_signature(name)};" for name in FUNCTIONS),
            ]
        ),
        parameters=_lines(f"  int64_t {name}_;" for name in _used_parameters()),
        state=_lines(map(_declaration, STATE)),
    )
    source = _SOURCE.substitute(
        reasons=_lines(
            f'    case Refusal::k{_camel(error.name)}: return "{error.reason}";' for error in ERRORS
        ),
        names=_switch(lambda command: f'return "{command.name}";', 'return "unknown command";'),
        bits=_switch(_defined_bits, "return command;"),
        initial=",\n      ".join(
            f"{name}_({_CONFIG.get(name, f'config.{name}')})" for name in _used_parameters()
        ),
        dispatch=_switch(_check, f"return {_common('UNKNOWN_COMMAND')};"),
        definitions="\n".join(
            [*map(_function, FUNCTIONS), *(_method(name) for name in RULES if RULES[name])]
        ),
    )
    return {"legality.h": header, "legality.cpp": source}


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _used_parameters() -> list[str]:
    names = {name for steps in RULES.values() for step in steps for name in _names(step)}
    names |= {name for function in FUNCTIONS.values() for name in function.expression.names}
    names |= {one.feature for one in COMMANDS.values() if one.feature}
    return [name for name in (*PARAMETERS, *Features.model_fields) if name in names]


def _names(step: Step) -> Iterable[str]:
    yield from step.expression.names
    if isinstance(step, Set):
        yield from step.condition.names
        yield from step.place.names if step.place else ()


def _declaration(name: str) -> str:
    one = STATE[name]
    if not one.size:
        return f"  int64_t {name}_ = {one.reset};  // {one.meaning}"
    return f"  std::array<int64_t, {one.size}> {name}_{{{', '.join([str(one.reset)] * one.size)}}};  // {one.meaning}"


def _switch(result: Callable[[CommandType], str], otherwise: str) -> str:
    """A switch over all commands, CONFIG by its subtype."""
    lines = ["  switch (command.funct) {", "    case 0:", "      switch (command.rs1 & 3) {"]
    configs = [command for command in COMMANDS.values() if command.subtype is not None]
    lines += [f"        case {command.subtype}: {result(command)}" for command in configs]
    lines += ["      }", f"      {otherwise}"]
    lines += [
        f"    case {command.funct}: {result(command)}"
        for command in COMMANDS.values()
        if command.subtype is None
    ]
    return "\n".join([*lines, f"    default: {otherwise}", "  }"])


def _defined_bits(one: CommandType) -> str:
    masks = {"rs1": 3 if one.subtype is not None else 0, "rs2": 0}
    for field in one.fields:
        # what only some accelerators have, others need not keep
        if not field.feature or Features.model_fields[field.feature].default:
            masks[field.register] |= field.mask << field.low
    values = ", ".join(f"command.{name} & {mask:#x}u" for name, mask in masks.items())
    return f"return {{command.funct, command.rd, command.xd, {values}}};"


def _check(one: CommandType) -> str:
    parts = []
    if one.feature:
        parts.append(f"if (!{one.feature}_) return {_common('NOT_BUILT')};")
    if not one.response:
        parts.append(f"if (command.xd) return {_common('NO_RESULT')};")
    parts.append(f"return {one.name.lower()}(command);" if RULES[one.name] else "return Refusal::kNone;")
    return " ".join(parts)


def _common(error: str) -> str:
    return f'refuse(Refusal::k{_camel(error)}, "{next(rule for code, rule, _ in COMMON if code == error)}")'


def _signature(name: str) -> str:
    return f"{name}({', '.join(f'int64_t {one}' for one in FUNCTIONS[name].parameters)}) const"


def _function(name: str) -> str:
    function = FUNCTIONS[name]
    body = function.expression.cpp(_renamer(function.parameters))
    return f"int64_t Legality::{_signature(name)} {{\n  return {body};\n}}\n"


def _method(name: str) -> str:
    steps = RULES[name]
    used = {name for step in steps for name in _names(step)}
    fields = [field for field in COMMANDS[name].fields if field.name in used]
    rename = _renamer(
        [field.name for field in fields] + [step.name for step in steps if isinstance(step, Let)]
    )
    lines = [f"Refusal Legality::{name.lower()}(const Command& command) {{"]
    lines += [f"  const int64_t {field.name} = {_extract(field)};" for field in fields]
    if not fields:
        lines.append("  (void)command;")
    lines += [_statement(step, rename) for step in steps]
    return "\n".join([*lines, "  return Refusal::kNone;", "}", ""])


def _statement(step: Step, rename: Callable[[str], str]) -> str:
    if isinstance(step, Let):
        return f"  const int64_t {step.name} = {step.expression.cpp(rename)};"
    if isinstance(step, Refuse):
        values = ", ".join(f'{{"{name}", {rename(name)}}}' for name in step.shown)
        refuse = f'return refuse(Refusal::k{_camel(step.error)}, "{step.rule}", {{{values}}});'
        return f"  if ({step.expression.cpp(rename)})\n    {refuse}"
    target = f"{step.target}_" + (f"[{step.place.cpp(rename)}]" if step.place else "")
    guard = "" if step.when == "1" else f"if ({step.condition.cpp(rename)}) "
    return f"  {guard}{target} = {step.expression.cpp(rename)};"


def _renamer(local: Iterable[str]) -> Callable[[str], str]:
    """What names are in C++: members end in an underscore. Raises ValueError for a name that nothing defines."""
    plain = {*local, *FUNCTIONS, "min", "max", "overtakes"}
    members = {*STATE, *PARAMETERS, *Features.model_fields}

    def rename(name: str) -> str:
        if name not in plain and name not in members:
            raise ValueError(f"a rule names {name}, which nothing defines")
        return name if name in plain else f"{name}_"

    return rename


def _extract(field: Field) -> str:
    return f"static_cast<int64_t>(bits(command.{field.register}, {field.high}, {field.low}))"
