"""Reading RISC-V programs: an ELF file becomes bytes at addresses, an entry point, and the HTIF mailboxes."""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from baco.accel.elf_note import SECTION, read_note
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import read_input

#: Programs reach no more than that (`baco.compiler.main_memory`).
_LIMIT_BYTES = 1 << 31
#: Real programs have a few segments, some thousand symbols and notes of some dozen bytes.
_MOST_SEGMENTS, _MOST_SYMBOLS, _MOST_NOTE_BYTES = 1000, 200_000, 4096
#: Flags of the ELF format.
_SEGMENT_EXECUTABLE, _SECTION_EXECUTABLE = 1, 4
_BUILD_HINT = "compile with -static -nostdlib or a bare-metal library for rv64gc, linked at 0x80000000"


@dataclass(frozen=True)
class Segment:
    """Bytes loaded at a physical address; `size` counts the zeros behind them as well."""

    address: int
    data: bytes | memoryview
    size: int

    @property
    def end(self) -> int:
        """First address behind the segment."""
        return self.address + self.size


@dataclass(frozen=True)
class ElfProgram:
    """A program ready to run.

    Attributes:
        path: file it came from.
        entry: address of the first instruction.
        segments: by ascending address, not overlapping, within memory.
        tohost, fromhost: addresses of the HTIF mailboxes, `fromhost` 0 if there is none.
        config_hash: of the accelerator it was compiled for; None for programs built elsewhere.
    """

    path: str
    entry: int
    segments: tuple[Segment, ...]
    tohost: int
    fromhost: int
    config_hash: str | None

    def image(self) -> Iterator[bytes | memoryview]:
        """The segments as the simulator loads them, in parts: address, byte count (both 64-bit), bytes, and so on."""
        for segment in self.segments:
            if segment.data:
                yield struct.pack("<QQ", segment.address, len(segment.data))
                yield segment.data


def load_elf(path: str | Path, *, memory_base: int, memory_bytes: int) -> ElfProgram:
    """Read and check an executable.

    Raises InputError, naming the file, unless it is a statically linked 64-bit little-endian RISC-V executable whose
    segments lie in [memory_base, memory_base + memory_bytes) without overlap, whose entry point is in executable
    memory (of segments, or of sections where no segment has permissions), and which has the symbol `tohost` (without which it could never end).
    """
    here = Location(str(path))
    data = read_input(path, limit_bytes=_LIMIT_BYTES)
    if data[:4] != b"\x7fELF":
        raise InputError("this is no ELF file", location=here, hint=_BUILD_HINT)
    try:
        elf = ELFFile(io.BytesIO(data))
        _check_kind(elf, here)
        loads = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_memsz"]]
        if len(loads) > _MOST_SEGMENTS:
            raise InputError(f"the program has {len(loads):,} segments to load", location=here)
        segments = tuple(sorted((_segment(s, data, here) for s in loads), key=lambda s: s.address))
        entry = int(elf["e_entry"])
        code = _executable(elf, loads)
        symbols = _mailboxes(elf, here)
        config_hash = _config_hash(elf)
    except InputError:
        raise
    except (ELFError, Exception) as error:  # damaged files make the library fail in many ways
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"the ELF file is damaged: {reason}", location=here) from None
    _check_placement(segments, memory_base, memory_bytes, here)
    if entry % 2 or not any(first <= entry < end for first, end in code):
        raise InputError(
            f"the entry point {entry:#x} is not in executable memory", location=here, hint=_BUILD_HINT
        )
    return ElfProgram(
        str(path), entry, segments, _tohost(symbols, here), symbols.get("fromhost", 0), config_hash
    )


def _executable(elf: Any, loads: Sequence[Any]) -> list[tuple[int, int]]:
    """First address and end of all that may be executed.

    The linker scripts of many bare-metal programs leave the permissions of all segments empty, and simulators take no notice
    of them: then those of sections count, and without sections everything may be executed.
    """
    if any(segment["p_flags"] for segment in loads):
        return [
            _extent(segment["p_vaddr"], segment["p_memsz"])
            for segment in loads
            if segment["p_flags"] & _SEGMENT_EXECUTABLE
        ]
    sections = [
        _extent(section["sh_addr"], section["sh_size"])
        for section in elf.iter_sections()
        if section["sh_flags"] & _SECTION_EXECUTABLE
    ]
    return sections or [_extent(segment["p_vaddr"], segment["p_memsz"]) for segment in loads]


def _extent(first: int, count: int) -> tuple[int, int]:
    return int(first), int(first) + int(count)


def symbol_range(path: str | Path, name: str) -> tuple[int, int]:
    """Address and size of what a symbol of an executable names. Raises InputError when there is no such object."""
    here = Location(str(path))
    known: dict[str, tuple[int, int]] = {}
    try:
        elf = ELFFile(io.BytesIO(read_input(path, limit_bytes=_LIMIT_BYTES)))
        for symbol in _symbols(elf, here):
            if symbol["st_size"]:
                known[symbol.name] = int(symbol["st_value"]), int(symbol["st_size"])
    except InputError:
        raise
    except (ELFError, Exception) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"the ELF file is damaged: {reason}", location=here) from None
    if name not in known:
        raise InputError(
            f"the program has no symbol '{name}' with a size", location=here, hint=did_you_mean(name, known)
        )
    return known[name]


def _check_kind(elf: Any, here: Location) -> None:
    machine, kind = elf["e_machine"], elf["e_type"]
    if machine != "EM_RISCV":
        raise InputError(f"the program is for {machine}, not for RISC-V", location=here, hint=_BUILD_HINT)
    if elf.elfclass != 64:
        raise InputError("the program is for 32-bit RISC-V, not for 64-bit", location=here, hint=_BUILD_HINT)
    if not elf.little_endian:
        raise InputError("the program is big-endian", location=here, hint=_BUILD_HINT)
    if kind != "ET_EXEC":
        what = {"ET_REL": "an object file", "ET_DYN": "position-independent or a shared library"}
        raise InputError(
            f"the file is {what.get(kind, kind)}, not an executable at fixed addresses",
            location=here,
            hint="link it with -static and -no-pie",
        )
    if any(segment["p_type"] == "PT_INTERP" for segment in elf.iter_segments()):
        raise InputError(
            "the program is dynamically linked",
            location=here,
            hint="link it with -static; there is no loader",
        )


def _segment(header: Any, data: bytes, here: Location) -> Segment:
    address, size, stored = int(header["p_paddr"]), int(header["p_memsz"]), int(header["p_filesz"])
    offset, alignment, virtual = int(header["p_offset"]), int(header["p_align"]), int(header["p_vaddr"])
    where = f"the segment at {address:#x}"
    if stored > size:
        raise InputError(
            f"{where} has more bytes in the file ({stored}) than in memory ({size})", location=here
        )
    if offset + stored > len(data):
        raise InputError(f"{where} ends beyond the end of the file: the file is cut off", location=here)
    if alignment > 1 and (alignment & (alignment - 1) or (virtual - offset) % alignment):
        raise InputError(f"{where} is misaligned: its alignment is {alignment:#x}", location=here)
    # a view: programs are as large as main memory
    return Segment(address, memoryview(data)[offset : offset + stored], size)


def _check_placement(segments: tuple[Segment, ...], base: int, size: int, here: Location) -> None:
    if not segments:
        raise InputError("the program has nothing to load", location=here, hint=_BUILD_HINT)
    for one in segments:
        if one.address < base or one.end > base + size:
            raise InputError(
                f"the segment at {one.address:#x} ({one.size:,} bytes) is outside memory,"
                f" which is {base:#x} to {base + size - 1:#x}",
                location=here,
                hint="link the program elsewhere, or enlarge memory with --memory-mib",
            )
    for lower, upper in itertools.pairwise(segments):
        if lower.end > upper.address:
            raise InputError(
                f"the segments at {lower.address:#x} and {upper.address:#x} overlap by"
                f" {lower.end - upper.address:,} bytes",
                location=here,
            )


def _symbols(elf: Any, here: Location) -> Iterator[Any]:
    """Symbols that are defined. Raises InputError for more than anyone waits for."""
    left = _MOST_SYMBOLS
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection):
            left -= section.num_symbols()
            if left < 0:
                raise InputError(f"the program has more than {_MOST_SYMBOLS:,} symbols", location=here)
            yield from (symbol for symbol in section.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF")


def _mailboxes(elf: Any, here: Location) -> dict[str, int]:
    found: dict[str, int] = {}
    for symbol in _symbols(elf, here):
        if symbol.name in ("tohost", "fromhost"):
            found.setdefault(symbol.name, int(symbol["st_value"]))
    return found


def _tohost(symbols: dict[str, int], here: Location) -> int:
    if "tohost" not in symbols:
        raise InputError(
            "the program has no symbol 'tohost', so it could never tell that it has ended",
            location=here,
            hint="link it with HTIF start-up code, and do not strip it",
        )
    return symbols["tohost"]


def _config_hash(elf: Any) -> str | None:
    section = elf.get_section_by_name(SECTION)
    if section is not None and section["sh_size"] <= _MOST_NOTE_BYTES and not section.compressed:
        return read_note(bytes(section.data()))
    for segment in elf.iter_segments():  # sections may have been stripped
        if segment["p_type"] == "PT_NOTE" and segment["p_filesz"] <= _MOST_NOTE_BYTES:
            found = read_note(bytes(segment.data()))
            if found:
                return found
    return None
