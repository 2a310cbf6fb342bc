"""The header of a program that C programs call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from baco.accel.config import Accelerator
from baco.common.text import one_line
from baco.compiler.codegen.buffer import Buffer

#: Bytes that arrays of the caller begin at multiples of: a line of caches, and the longest request to memory.
ALIGN = 64
_STATUSES = {
    "OK": "done",
    "NULL": "a pointer is NULL",
    "MISALIGNED": "an array does not begin at a multiple of {upper}_ALIGN",
}


def status_names(name: str) -> frozenset[str]:
    """What arrays cannot be called, in capitals."""
    return frozenset((*_STATUSES, "ALIGN", "H"))


def library_header(
    name: str,
    accelerator: Accelerator,
    buffers: Sequence[Buffer],
    members: Mapping[str, str],
    slack_bytes: int,
    notes: Mapping[str, str],
    scales: Mapping[str, tuple[float, int]],
) -> str:
    """Text of NAME.h, C11 or C++11.

    Args:
        buffers: the caller's arrays.
        members: what each is called in the structures.
        slack_bytes: that must be readable behind every array.
        notes, scales: as of `baco.compiler.codegen.c_library.build_library`.
    """
    upper = name.upper()
    lines = [
        f"// {name}_run: a program of baco's for the accelerator {one_line(accelerator.name)}, {accelerator.config_hash}.",
        "//",
        "// It gives the accelerator work and waits until all results are in memory. The caller may be bare metal or a program of an",
        "// operating system whose pages are locked (mlockall); mstatus.FS and mstatus.XS must be switched on. One call at a time: there",
        "// is one accelerator, and the library's own memory is static. Nothing remains from one call to the next.",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"#define {upper}_ALIGN {ALIGN}  // arrays begin at multiples of so many bytes",
        "",
        "// What the function returns.",
        "enum {",
        *(
            f"  {upper}_{status} = {code},  // {meaning.format(upper=upper)}"
            for code, (status, meaning) in enumerate(_STATUSES.items())
        ),
        "};",
        "",
        "// Arrays are dense and row-major. ELEMENTS and BYTES of each are its own; ROOM is what to set aside, since loads reach",
        "// beyond the end.",
    ]
    for one in buffers:
        lines += _array(upper, one, members[one.name], slack_bytes, notes.get(one.name), scales.get(one.name))
    given = [one for one in buffers if one.role != "output"]
    results = [one for one in buffers if one.role == "output"]
    lines += [
        "",
        *_structure(f"{name}_inputs", given, members),
        "",
        *_structure(f"{name}_outputs", results, members),
        "",
        "// 0, or what is wrong with the arguments, of which none may overlap another.",
        f"int {name}_run(const struct {name}_inputs* inputs, const struct {name}_outputs* outputs);",
        "",
        "#ifdef __cplusplus",
        "}",
        f'static_assert(sizeof(void*) == 8, "{name} is for 64-bit machines");',
        "#else",
        f'_Static_assert(sizeof(void*) == 8, "{name} is for 64-bit machines");',
        *(
            f"_Static_assert(sizeof *((struct {name}_{part}*)0)->{members[one.name]} * {upper}_{members[one.name].upper()}_ELEMENTS =="
            f' {upper}_{members[one.name].upper()}_BYTES, "{members[one.name]}");'
            for part, those in (("inputs", given), ("outputs", results))
            for one in those
        ),
        "#endif",
        f"#endif  // {upper}_H",
        "",
    ]
    return "\n".join(lines)


def _array(
    upper: str, buffer: Buffer, member: str, slack: int, note: str | None, scale: tuple[float, int] | None
) -> list[str]:
    macro = f"{upper}_{member.upper()}"
    room = -(-(buffer.nbytes + slack) // ALIGN) * ALIGN
    shape = ", ".join(map(str, buffer.shape))
    lines = [
        "",
        f"// {member}: {buffer.dtype}[{shape}]{'' if note is None else '; ' + one_line(note)}",
        f"#define {macro}_ELEMENTS {math.prod(buffer.shape)}",
        f"#define {macro}_BYTES {buffer.nbytes}",
        f"#define {macro}_ROOM {room}",
    ]
    if scale is not None:
        lines += [
            f"#define {macro}_SCALE {scale[0]!r}  // a real number is SCALE * (element - ZERO)",
            f"#define {macro}_ZERO {scale[1]}",
        ]
    return lines


def _structure(name: str, buffers: Sequence[Buffer], members: Mapping[str, str]) -> list[str]:
    lines = []
    for one in buffers:
        kind = np.dtype(one.dtype)
        word = {"float32": "float", "float64": "double"}.get(kind.name, f"{kind.name}_t")
        const = "const " if one.role == "input" else ""
        written = "  // read, and written as well" if one.role == "inout" else ""
        lines.append(f"  {const}{word}* {members[one.name]};{written}")
    return [f"struct {name} {{", *(lines or ["  int nothing;"]), "};"]
