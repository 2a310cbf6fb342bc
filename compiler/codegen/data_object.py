"""Data as a relocatable RISC-V object file, written directly.

An assembler would do (`.incbin`), but compilers' caches do not look into included files, and keep copies of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE, _RISCV = 1, 243
#: EF_RISCV_RVC and EF_RISCV_FLOAT_ABI_DOUBLE, as every other object of a program.
_FLAGS = 0x1 | 0x4
_PROGBITS, _SYMTAB, _STRTAB, _NOTE, _NOBITS = 1, 2, 3, 7, 8
_WRITE, _ALLOC = 1, 2
_GLOBAL_OBJECT = 1 << 4 | 1


@dataclass(frozen=True)
class DataSection:
    """A section and the objects in it, one behind the other.

    Attributes:
        name: of the section.
        objects: of each its symbol, its size in bytes, and its bytes, as many or fewer (zeros follow), or None in a
            section without content.
        align: of every object, a power of two.
        slack: bytes that follow every object at least.
        writable: for programs.
        content: False for a section that takes no room in the file.
        note: an ELF note, without alignment between objects.
    """

    name: str
    objects: Sequence[tuple[str, int, bytes | memoryview | None]]
    align: int = 64
    slack: int = 0
    writable: bool = True
    content: bool = True
    note: bool = False

    def offsets(self) -> tuple[list[int], int]:
        """Where each object begins, and the size of all."""
        at, offsets = 0, []
        for _, size, _ in self.objects:
            at = -(-at // self.align) * self.align
            offsets.append(at)
            at += size + self.slack
        return offsets, -(-at // self.align) * self.align


def data_object(sections: Sequence[DataSection]) -> list[bytes | memoryview]:
    """The file's content, in pieces to be written one after the other; empty sections are left out."""
    sections = [one for one in sections if one.objects]
    names, strings = _Strings(), _Strings()
    symbols = [_SYMBOL.pack(0, 0, 0, 0, 0, 0)]
    headers = [_SECTION_HEADER.pack(*[0] * 10)]
    pieces: list[bytes | memoryview] = []
    at = _ELF_HEADER.size
    for index, section in enumerate(sections, 1):
        offsets, size = section.offsets()
        padding = -at % section.align
        pieces.append(b"\0" * padding)
        at += padding
        start = at
        filled = 0
        for (symbol, length, data), offset in zip(section.objects, offsets, strict=True):
            if not section.note:
                symbols.append(_SYMBOL.pack(strings.add(symbol), _GLOBAL_OBJECT, 0, index, offset, length))
            if section.content and data is not None:
                pieces += [b"\0" * (offset - filled), data]
                filled = offset + len(data)
        if section.content:
            pieces.append(b"\0" * (size - filled))
            at += size
        kind = _NOTE if section.note else _PROGBITS if section.content else _NOBITS
        flags = _ALLOC | (_WRITE if section.writable else 0)
        headers.append(
            _SECTION_HEADER.pack(names.add(section.name), kind, flags, 0, start, size, 0, 0, section.align, 0)
        )
    table, text = b"".join(symbols), strings.data()
    count = len(sections)
    for name, data, kind, link, info, entry in (
        (".symtab", table, _SYMTAB, count + 2, 1, _SYMBOL.size),
        (".strtab", text, _STRTAB, 0, 0, 0),
        (".shstrtab", b"", _STRTAB, 0, 0, 0),
    ):
        named = names.add(name)
        content = names.data() if name == ".shstrtab" else data
        padding = -at % 8
        pieces += [b"\0" * padding, content]
        headers.append(
            _SECTION_HEADER.pack(named, kind, 0, 0, at + padding, len(content), link, info, 8, entry)
        )
        at += padding + len(content)
    padding = -at % 8
    pieces += [b"\0" * padding, *headers]
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = _ELF_HEADER.pack(
        *(identity, _RELOCATABLE, _RISCV, 1, 0, 0, at + padding, _FLAGS, _ELF_HEADER.size, 0, 0),
        *(_SECTION_HEADER.size, len(headers), len(headers) - 1),
    )
    return [header, *pieces]


class _Strings:
    """An ELF string table."""

    def __init__(self) -> None:
        self._parts, self._size = [b"\0"], 1

    def add(self, text: str) -> int:
        """Where the text begins."""
        data = text.encode() + b"\0"
        self._parts.append(data)
        self._size += len(data)
        return self._size - len(data)

    def data(self) -> bytes:
        return b"".join(self._parts)
