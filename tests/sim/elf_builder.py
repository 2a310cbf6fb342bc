"""Executables made byte by byte, right or wrong in any part."""

import struct

BASE = 0x80000000
#: One segment of harmless instructions.
GOOD = [(BASE, b"\x13\0\0\0" * 8, 64)]


def elf_bytes(
    segments: list[tuple[int, bytes, int]],
    *,
    entry: int = BASE,
    machine: int = 243,
    kind: int = 2,
    elf_class: int = 2,
    order: int = 1,
    symbols: dict[str, int] | None = None,
    align: int = 1,
    extra: tuple[int, ...] = (),
    notes: bytes = b"",
    flags: int = 5,
    text: tuple[int, int] | None = None,
) -> bytes:
    """An executable, byte for byte after the ELF specification.

    Args:
        segments: (address, bytes, size in memory) of each loaded segment.
        flags: their permissions; by default they may be read and executed.
        text: address and bytes of a section that may be executed.
        extra: types of further program headers, all empty.
        notes: content of a note segment.
    """
    names = {"tohost": BASE + 64} if symbols is None else symbols
    headers = len(segments) + len(extra) + bool(notes)
    at = 64 + 56 * headers
    program, body = b"", b""
    for address, data, size in segments:
        program += struct.pack(
            "<IIQQQQQQ", 1, flags, at + len(body), address, address, len(data), size, align
        )
        body += data
    for one in extra:
        program += struct.pack("<IIQQQQQQ", one, 4, at, 0, 0, 0, 0, 1)
    if notes:
        program += struct.pack("<IIQQQQQQ", 4, 4, at + len(body), 0, 0, len(notes), len(notes), 4)
        body += notes
    strings, table = bytearray(1), bytearray(24)
    for name, value in names.items():
        table += struct.pack("<IBBHQQ", len(strings), 0x10, 0, 0xFFF1, value, 8)
        strings += name.encode() + b"\0"
    section_names = b"\0.symtab\0.strtab\0.shstrtab\0"
    parts = [(1, 2, table, 2, 24), (9, 3, strings, 0, 0), (17, 3, section_names, 0, 0)]
    sections = b"\0" * 64
    for name, section_kind, content, link, unit in parts:
        where = at + len(body)
        sections += struct.pack(
            "<IIQQQQIIQQ", name, section_kind, 0, 0, where, len(content), link, 1, 1, unit
        )
        body += content
    if text:
        sections += struct.pack(
            "<IIQQQQIIQQ", 0, 8, 6, text[0], at, text[1], 0, 0, 1, 0
        )  # as one of zeros, .bss
    identity = b"\x7fELF" + bytes([elf_class, order, 1]) + b"\0" * 9
    header = struct.pack(
        "<HHIQQQIHHHHHH",
        kind,
        machine,
        1,
        entry,
        64,
        at + len(body),
        0,
        64,
        56,
        headers,
        64,
        len(sections) // 64,
        3,
    )
    return identity + header + program + body + sections
