"""Addresses of the symbols in a program that this compiler has just linked."""

from __future__ import annotations

import struct

__all__ = ["elf_symbols"]

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB = 2
#: Offsets in the header of a 64-bit file.
_SECTIONS_AT, _SECTION_COUNT_AT = 40, 60


def elf_symbols(elf: bytes) -> dict[str, int]:
    """Value of every global symbol. For files of our own linker only: nothing is checked (`sim.elf` does that)."""
    (table,) = struct.unpack_from("<Q", elf, _SECTIONS_AT)
    (count,) = struct.unpack_from("<H", elf, _SECTION_COUNT_AT)
    headers = [_SECTION.unpack_from(elf, table + index * _SECTION.size) for index in range(count)]
    symbols: dict[str, int] = {}
    for header in headers:
        if header[1] != _SYMTAB:
            continue
        strings = headers[header[6]][4]
        for at in range(header[4], header[4] + header[5], _SYMBOL.size):
            name, info, _, _, value, _ = _SYMBOL.unpack_from(elf, at)
            if info >> 4:
                start = strings + name
                symbols[elf[start : elf.index(b"\0", start)].decode()] = value
    return symbols
