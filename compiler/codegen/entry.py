"""Where a program begins: the entry function is called with the buffers' addresses, results are checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.llvm_text import quoted_symbol

#: As in runtime/runtime.h.
_SIGNED, _FLOAT = 0x10, 0x20


def entry_ir(entries: Sequence[str], buffers: Sequence[Buffer], checked: Sequence[Buffer]) -> str:
    """LLVM IR text of `baco_main`, to stand behind the module's own: every hart runs its entry, and hart 0 checks then."""
    lines = [f"@{buffer.symbol} = external global i8, align 64" for buffer in buffers]
    for buffer in checked:
        name = buffer.name.encode() + b"\0"
        lines += [
            f"@expected_{buffer.name} = external constant i8, align 64",
            f'@name.{buffer.name} = private unnamed_addr constant [{len(name)} x i8] c"{buffer.name}\\00"',
        ]
        if buffer.shape:
            sizes = ", ".join(f"i64 {size}" for size in buffer.shape)
            lines.append(f"@shape.{buffer.name} = private constant [{len(buffer.shape)} x i64] [{sizes}]")
    if checked:
        lines.append("%check = type { ptr, ptr, ptr, i64, i64, i64, ptr }")
        rows = ", ".join(_row(buffer) for buffer in checked)
        lines.append(f"@checks = private constant [{len(checked)} x %check] [{rows}]")
        lines.append("declare i32 @check_buffers(ptr, i64)")
    arguments = ", ".join(f"i64 ptrtoint (ptr @{buffer.symbol} to i64)" for buffer in buffers)
    calls = [f"  call void {quoted_symbol(entry)}({arguments}) noinline" for entry in entries]
    lines.append(f"define i32 @baco_main({'i64 %hart' if calls[1:] else ''}) nounwind {{")
    if calls[1:]:
        harts = " ".join(f"i64 {hart}, label %hart{hart}" for hart in range(1, len(calls)))
        lines.append(f"  switch i64 %hart, label %hart0 [ {harts} ]")
        for hart, call in enumerate(calls[1:], 1):
            lines += [f"hart{hart}:", call, "  ret i32 0"]
        lines.append("hart0:")
    lines += [calls[0], '  call void asm sideeffect "fence", "~{memory}"()']
    if checked:
        lines.append(f"  %wrong = call i32 @check_buffers(ptr @checks, i64 {len(checked)})")
    lines += [f"  ret i32 {'%wrong' if checked else '0'}", "}", ""]
    return "\n".join(lines)


def _row(buffer: Buffer) -> str:
    dtype = np.dtype(buffer.dtype)
    element = dtype.itemsize | _SIGNED * (dtype.kind == "i") | _FLOAT * (dtype.kind == "f")
    count = int(np.prod(buffer.shape, dtype=np.int64))
    shape = f"ptr @shape.{buffer.name}" if buffer.shape else "ptr null"
    pointers = f"ptr @name.{buffer.name}, ptr @{buffer.symbol}, ptr @expected_{buffer.name}"
    return f"%check {{ {pointers}, i64 {count}, i64 {element}, i64 {len(buffer.shape)}, {shape} }}"
