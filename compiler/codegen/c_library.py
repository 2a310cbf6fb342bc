"""Programs as functions of a user's own C program: C source, or an object to link, with a header.

`NAME_run` takes a pointer for every array that the caller has, by its name, and gives a code back. Constants and memory between
operators belong to the library; nothing but `NAME_run` and the symbols of constants, which begin with NAME, can be seen outside.
The object is that C source, compiled: what is shown is what runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.elf_note import SECTION, note_bytes
from baco.common.errors import InputError
from baco.common.files import atomic_write
from baco.common.scratch import scratch_folder
from baco.common.text import one_line
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.c_commands import COMMANDS_HEADER, commands_header
from baco.compiler.codegen.c_expressions import C_WORDS, HELPERS
from baco.compiler.codegen.c_library_header import ALIGN, library_header, status_names
from baco.compiler.codegen.c_text import c_functions
from baco.compiler.codegen.data_object import DataSection, data_object
from baco.compiler.codegen.pipeline import run_passes
from baco.compiler.codegen.toolchain import C_SEMANTICS, compile_source, join_objects, memory_source
from baco.compiler.main_memory import check_memory

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

#: Passes at the `instgem` level that programs get.
_PASSES = ("instgem-hoist-config", "instgem-elide-config")
_FUNCTION = re.compile(r"^void (\w+)\(([^)]*)\)", re.M)
#: Characters of a library's name.
_LONGEST_NAME = 60
#: Names whose header would stand in for one that programs include.
_HEADERS = frozenset(
    (
        f"{Path(COMMANDS_HEADER).stem} gemmini gemmini_params xcustom rocc assert complex ctype errno fenv float inttypes limits "
        "locale math setjmp signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads "
        "time uchar wchar wctype"
    ).split()
)


@dataclass(frozen=True)
class CLibrary:
    """A program as a C function.

    Attributes:
        name: of the library, a C identifier: `NAME_run` is the function.
        code: text of NAME.c.
        header: text of NAME.h.
        constants: of each array that the library brings along its symbol, its bytes, and how many are readable at least.
        accelerator: that it is for.
    """

    name: str
    code: str
    header: str
    constants: tuple[tuple[str, bytes, int], ...]
    accelerator: Accelerator

    def save_c(self, folder: str | Path) -> tuple[Path, ...]:
        """Write NAME.c, NAME.h, `baco_gemmini.h`, and what constants there are as NAME_constants.S with a .bin file that it includes.

        Raises StorageError where that fails.
        """
        files: dict[str, str | bytes] = {
            f"{self.name}.c": self.code,
            f"{self.name}.h": self.header,
            COMMANDS_HEADER: commands_header(),
        }
        if self.constants:
            text, content = _constants_source(self.name, self.constants)
            files |= {f"{self.name}_constants.S": text, f"{self.name}_constants.bin": content}
        return _save(folder, files)

    def save_object(self, folder: str | Path) -> tuple[Path, ...]:
        """Write NAME.o and NAME.h: an object for RV64GC, ABI lp64d, code model medany.

        Raises as `save_c`, and CompileError where Clang refuses the code.
        """
        with scratch_folder() as scratch:
            for name, text in (
                (f"{self.name}.c", self.code),
                (f"{self.name}.h", self.header),
                (COMMANDS_HEADER, commands_header()),
                ("memory.c", memory_source()),
            ):
                (scratch / name).write_text(text, encoding="utf-8")
            compile_source(scratch / f"{self.name}.c", scratch / "code.o", flags=C_SEMANTICS)
            compile_source(scratch / "memory.c", scratch / "memory.o")
            note = note_bytes(self.accelerator.config_hash)
            sections = [
                DataSection(SECTION, [("", len(note), note)], align=4, writable=False, note=True),
                DataSection(
                    f".rodata.{self.name}_constants",
                    [(symbol, room, data) for symbol, data, room in self.constants],
                    ALIGN,
                    writable=False,
                ),
            ]
            with open(scratch / "data.o", "wb") as file:
                file.writelines(data_object(sections))
            joined = scratch / "joined.o"
            join_objects([scratch / one for one in ("code.o", "memory.o", "data.o")], joined)
            return _save(folder, {f"{self.name}.o": joined.read_bytes(), f"{self.name}.h": self.header})


def _save(folder: str | Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    for name, content in files.items():
        atomic_write(Path(folder) / name, content)
    return tuple(Path(folder) / name for name in files)


def library_name(text: str) -> str:
    """A C identifier that is like a text: letters, digits and _, beginning with a letter.

    Raises InputError for a text without a letter or digit of ASCII.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    if not name or len(name) > _LONGEST_NAME:
        raise InputError(
            f"no function in C is called after '{one_line(text[:60])}'",
            hint="a name has letters, digits and _, at most 60 of them",
        )
    return name if name[0].isalpha() and name not in _HEADERS else f"net_{name}"


def check_name(name: str) -> str:
    """The name of a library. Raises InputError for one that is no C identifier."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII) or len(name) > _LONGEST_NAME:
        raise InputError(
            f"no function in C is called '{one_line(name[:60])}_run'",
            hint="a name begins with a letter, and has letters, digits and _, at most 60 of them",
        )
    if name in _HEADERS:
        raise InputError(
            f"the header {name}.h would stand in for another that programs include",
            hint=f"call it net_{name}",
        )
    return name


def build_library(
    module: ModuleOp,
    entry: str,
    buffers: Sequence[Buffer],
    accelerator: Accelerator,
    *,
    name: str,
    sources: Mapping[str, str] | None = None,
    slack_bytes: int = 64,
    notes: Mapping[str, str] | None = None,
    scales: Mapping[str, tuple[float, int]] | None = None,
) -> CLibrary:
    """A function that does what the program of `entry` does, on arrays of its caller.

    Arrays of the roles input, output and inout are the caller's; constants and workspaces are the library's.

    Args:
        module: at the `instgem` level; passes are applied to it in place.
        entry: a function of it that takes one i64 a buffer.
        name: of the library, see `library_name`.
        sources: texts of C files by name that the module calls functions of.
        slack_bytes: readable bytes behind every buffer.
        notes: of buffers, what the header says of them beside their shape and type.
        scales: of buffers, what a step between neighbouring integers is, and the integer that stands for 0.

    Raises InputError for names of arrays that are one in C, and for what has no form in C.
    """
    run_passes(module, _PASSES)
    members = _members(name, buffers)
    sources = sources or {}
    check_memory("the library's data", {one.name: one.nbytes + slack_bytes for one in buffers})
    constants = tuple(
        (f"{name}_{one.name}", _content(one), one.nbytes + slack_bytes)
        for one in buffers
        if one.role in ("constant", "workspace") and one.data is not None
    )
    prefix = f"{name}_code_"
    functions = c_functions(module, prefix, _parameter_types(sources))
    code = "\n".join(
        (
            *_preamble(name, accelerator),
            HELPERS,
            *_host_code(sources),
            functions,
            *_storage(name, buffers, slack_bytes),
            "",
            *_run_function(name, f"{prefix}{entry}", buffers, members),
        )
    )
    header = library_header(
        name,
        accelerator,
        [one for one in buffers if one.name in members],
        members,
        slack_bytes,
        notes or {},
        scales or {},
    )
    return CLibrary(name, code, header, constants, accelerator)


def _content(buffer: Buffer) -> bytes:
    assert buffer.data is not None
    return np.ascontiguousarray(buffer.data, dtype=buffer.data.dtype.newbyteorder("<")).tobytes()


def _members(name: str, buffers: Sequence[Buffer]) -> dict[str, str]:
    """Members of the caller's structures by buffer. Raises InputError for two that are one in C."""
    members: dict[str, str] = {}
    macros: dict[str, str] = {}
    for one in buffers:
        if one.role not in ("input", "output", "inout"):
            continue
        member = f"{one.name}_" if one.name in C_WORDS else one.name
        other = macros.setdefault(member.upper(), one.name)
        if other != one.name or member.upper() in status_names(name):
            what = f"'{other}' and '{one.name}'" if other != one.name else f"'{one.name}' and a status"
            raise InputError(
                f"the arrays {what} of {name} have one name in C's constants, {name.upper()}_{member.upper()}_BYTES",
                hint="rename one of them",
            )
        members[one.name] = member
    return members


def _preamble(name: str, accelerator: Accelerator) -> list[str]:
    upper = name.upper()
    return [
        f"// {name}_run, see {name}.h. Generated by baco for the accelerator {one_line(accelerator.name)}, {accelerator.config_hash}.",
        "//",
        "// For RV64GC with hardware floating point (lp64d). Float32 products round on their own, integers wrap around, and memory",
        f"// holds one type after another: compile with -O2 {' '.join(C_SEMANTICS)}",
        "//",
        f"// Commands are macros of Gemmini's: of {COMMANDS_HEADER} beside this file, or of your own gemmini.h by",
        f"// -D{upper}_GEMMINI_H='\"include/gemmini.h\"'",
        f"#ifdef {upper}_GEMMINI_H",
        f"#include {upper}_GEMMINI_H",
        f'_Static_assert(DIM == {accelerator.dim}, "this program is for an array of side {accelerator.dim}");',
        f'_Static_assert(BANK_NUM * BANK_ROWS >= {accelerator.scratchpad_rows}, "the scratchpad is too small");',
        f'_Static_assert(ACC_ROWS >= {accelerator.accumulator_rows}, "the accumulator is too small");',
        "#else",
        f'#include "{COMMANDS_HEADER}"',
        "#endif",
        "#include <stddef.h>",
        "#include <stdint.h>",
        f'#include "{name}.h"',
        *(
            f'#pragma GCC diagnostic ignored "-Wunused-{what}"'
            for what in ("function", "parameter", "variable", "but-set-variable")
        ),
        "#if !defined(__clang__)",
        '#pragma GCC optimize("wrapv", "no-strict-aliasing", "fp-contract=off")',
        "#endif",
        "",
    ]


def _parameter_types(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Types of the parameters of C functions by name."""
    found = {}
    for text in sources.values():
        for function, parameters in _FUNCTION.findall(text):
            kinds = (re.sub(r"\w+$", "", one.strip()).strip() for one in parameters.split(","))
            found[function] = [" ".join(kind.split()) for kind in kinds]
    return found


def _host_code(sources: Mapping[str, str]) -> list[str]:
    """C files as parts of one: functions are static, macros of a file end with it."""
    parts = []
    for name, text in sources.items():
        text = re.sub(r"^#(?:include|pragma) .*\n", "", text, flags=re.M)
        text = _FUNCTION.sub(r"static __attribute__((unused)) void \1(\2)", text)
        macros = [] if name.endswith(".h") else re.findall(r"^#define (\w+)", text, re.M)
        parts.append(text + "".join(f"#undef {one}\n" for one in dict.fromkeys(macros)))
    return parts


def _storage(name: str, buffers: Sequence[Buffer], slack: int) -> list[str]:
    lines = []
    for one in buffers:
        symbol = f"{name}_{one.name}"
        if one.role in ("constant", "workspace") and one.data is not None:
            lines.append(f'extern const int8_t {symbol}[] __attribute__((visibility("hidden")));')
        if one.role == "workspace":
            room = one.nbytes + slack
            lines.append(f"static int8_t {_room(one)}[{room}] __attribute__((aligned({ALIGN})));")
    return lines


def _room(buffer: Buffer) -> str:
    return f"{buffer.name}_room"


def _run_function(name: str, entry: str, buffers: Sequence[Buffer], members: Mapping[str, str]) -> list[str]:
    upper = name.upper()
    pointers = {
        one.name: f"{'outputs' if one.role == 'output' else 'inputs'}->{members[one.name]}"
        for one in buffers
        if one.name in members
    }
    lines = [
        f"int {name}_run(const struct {name}_inputs* inputs, const struct {name}_outputs* outputs) {{",
        f"  if (!inputs || !outputs) return {upper}_NULL;",
        *(f"  if (!{pointer}) return {upper}_NULL;" for pointer in pointers.values()),
    ]
    if pointers:
        bits = " | ".join(f"(uintptr_t){pointer}" for pointer in pointers.values())
        lines.append(f"  if (({bits}) & ({upper}_ALIGN - 1)) return {upper}_MISALIGNED;")
    for one in buffers:
        if one.role == "workspace" and one.data is not None:
            lines.append(f"  __builtin_memcpy({_room(one)}, {name}_{one.name}, {one.nbytes});")
    arguments = []
    for one in buffers:
        where = pointers.get(one.name) or (_room(one) if one.role == "workspace" else f"{name}_{one.name}")
        arguments.append(f"(int64_t){where}")
    return [
        *lines,
        "  uint64_t rounding;",
        '  __asm__ volatile("fsrmi %0, 0" : "=r"(rounding) : : "memory");  // to nearest even, whatever the caller does',
        "  gemmini_flush(0);  // addresses may be others than at the last call",
        "  barrier();",
        f"  {entry}({', '.join(arguments)});",
        "  wait_until_done();  // all results are in memory",
        '  __asm__ volatile("fsrm %0" : : "r"(rounding) : "memory");',
        f"  return {upper}_OK;",
        "}",
        "",
    ]


def _constants_source(name: str, constants: Sequence[tuple[str, bytes, int]]) -> tuple[str, bytes]:
    """An assembler's file, and the content of the binary file that it includes."""
    lines = [
        f"// Constants of {name}, from the file beside this one: name its folder to the assembler by -I.",
        f'  .section .rodata.{name}_constants, "a", @progbits',
    ]
    content = b""
    for symbol, data, room in constants:
        lines += [
            f"  .balign {ALIGN}",
            f"  .globl {symbol}",
            f"  .hidden {symbol}",
            f"  .type {symbol}, @object",
            f"  .size {symbol}, {len(data)}",
            f"{symbol}:",
            f'  .incbin "{name}_constants.bin", {len(content)}, {len(data)}',
            f"  .zero {room - len(data)}",
        ]
        content += data
    return "\n".join([*lines, '  .section .note.GNU-stack, "", @progbits', ""]), content
