"""Addresses of the symbols in a program that this compiler has just linked."""

from __future__ import annotations

import io

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection


def elf_symbols(elf: bytes) -> dict[str, int]:
    """Value of every global symbol. For files of our own linker only: nothing is checked (`baco.sim.elf` does that)."""
    table = ELFFile(io.BytesIO(elf)).get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    return {
        one.name: one["st_value"] for one in table.iter_symbols() if one["st_info"]["bind"] != "STB_LOCAL"
    }
