"""Reading executables: what is loaded, and how everything else is refused."""

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco.accel.elf_note import note_bytes, read_note
from baco.common.errors import InputError
from baco.sim.elf import ElfProgram, Segment, load_elf
from baco.sim.engines.base import run_job
from baco.sim.job import Job
from tests.machines import SMALL
from tests.sim.elf_builder import BASE, GOOD, elf_bytes
from tests.sim.riscv_programs import compile_program

SIZE = 1 << 20


def load(folder: Path, data: bytes) -> ElfProgram:
    path = folder / "program.elf"
    path.write_bytes(data)
    return load_elf(path, memory_base=BASE, memory_bytes=SIZE)


def test_what_a_compiler_makes(tmp_path: Path) -> None:
    path = compile_program(tmp_path / "p.elf", "int zeros[100]; int main(void) { return zeros[3]; }")
    program = load_elf(path, memory_base=BASE, memory_bytes=SIZE)
    assert any(s.address <= program.entry < s.end for s in program.segments)
    assert all(BASE <= s.address < s.end <= BASE + SIZE for s in program.segments)
    assert any(s.address <= program.tohost < s.end for s in program.segments)
    assert program.fromhost == program.tohost + 64
    assert program.config_hash is None


def test_segments_symbols_and_image(tmp_path: Path) -> None:
    later = (BASE + 4096, b"data", 4)
    program = load(tmp_path, elf_bytes([later, *GOOD], symbols={"tohost": 5, "fromhost": 6}))
    assert program.segments == (Segment(BASE, GOOD[0][1], 64), Segment(BASE + 4096, b"data", 4))
    assert (program.entry, program.tohost, program.fromhost) == (BASE, 5, 6)
    expected = struct.pack("<QQ", BASE, 32) + GOOD[0][1] + struct.pack("<QQ", BASE + 4096, 4) + b"data"
    assert b"".join(program.image()) == expected


@pytest.mark.parametrize("text", [None, (BASE, 32)])
def test_segments_without_any_permissions(tmp_path: Path, text: tuple[int, int] | None) -> None:
    """As many bare-metal linker scripts write them: sections say what may be executed, else all may be."""
    assert load(tmp_path, elf_bytes(GOOD, flags=0, text=text)).entry == BASE


def test_a_program_without_permissions_runs(tmp_path: Path) -> None:
    path = compile_program(tmp_path / "p.elf", "int main(void) { return 7; }")
    data = bytearray(path.read_bytes())
    first, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for at in range(first, first + size * count, size):
        struct.pack_into("<I", data, at + 4, 0)
    path.write_bytes(data)
    assert run_job(Job(SMALL, program=path), engine="functional").exit_code == 7


def test_the_hash_of_a_note_segment(tmp_path: Path) -> None:
    program = load(tmp_path, elf_bytes(GOOD, notes=note_bytes("0123456789abcdef")))
    assert program.config_hash == "0123456789abcdef"


def test_notes_of_others_are_passed_over() -> None:
    other = struct.pack("<III", 4, 3, 1) + b"GNU\0" + b"abc\0"
    assert read_note(other) is None
    assert read_note(other + note_bytes("00ff")) == "00ff"
    assert read_note(note_bytes("00ff")[:-6]) is None
    assert read_note(struct.pack("<III", 1 << 31, 1 << 31, 1)) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no ELF file"),
        (b"MZ" + b"\0" * 100, "no ELF file"),
        (b"\x7fELF", "damaged"),
        (elf_bytes(GOOD)[:70], "damaged"),
        (elf_bytes(GOOD, machine=62), "for EM_X86_64, not for RISC-V"),
        (elf_bytes(GOOD, kind=1), "an object file"),
        (elf_bytes(GOOD, kind=3), "position-independent"),
        (elf_bytes(GOOD, extra=(3,)), "dynamically linked"),
        (elf_bytes([]), "nothing to load"),
        (elf_bytes(GOOD, symbols={}), "no symbol 'tohost'"),
        (elf_bytes(GOOD, entry=BASE + 64), "entry point 0x80000040 is not in executable memory"),
        (elf_bytes(GOOD, flags=4), "entry point 0x80000000 is not in executable memory"),
        (elf_bytes(GOOD, flags=4, text=(BASE, 32)), "entry point 0x80000000 is not in executable memory"),
        (elf_bytes(GOOD, flags=0, text=(BASE + 4, 28)), "entry point 0x80000000 is not in executable memory"),
        (elf_bytes(GOOD, flags=0, entry=BASE + 64), "entry point 0x80000040 is not in executable memory"),
        (elf_bytes(GOOD, entry=BASE + 1), "entry point 0x80000001"),
        (elf_bytes([(0x1000, b"1234", 4)]), "segment at 0x1000 .* is outside memory"),
        (elf_bytes([(BASE + SIZE - 4, b"12345678", 8)]), "is outside memory"),
        (elf_bytes([(2**64 - 4, b"12345678", 8)]), "is outside memory"),
        (elf_bytes([*GOOD, (BASE + 60, b"12345678", 8)]), "overlap by 4 bytes"),
        (elf_bytes([(BASE, b"12345678", 4)]), "more bytes in the file"),
        (elf_bytes(GOOD, align=4096), "misaligned"),
        (elf_bytes(GOOD, align=24), "misaligned"),
    ],
)
def test_what_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path, data)
    assert str(caught.value).startswith(str(tmp_path / "program.elf"))


def test_a_file_larger_than_programs_can_be(tmp_path: Path) -> None:
    """Code reaches 2 GiB; whatever is larger is not even read."""
    path = tmp_path / "large.elf"
    with path.open("wb") as file:
        file.truncate((2 << 30) + 1)  # takes no room
    with pytest.raises(InputError, match="2,147,483,649 bytes, more than the 2,147,483,648 allowed"):
        load_elf(path, memory_base=BASE, memory_bytes=1 << 20)


def test_a_cut_off_file_and_other_classes(tmp_path: Path) -> None:
    data = bytearray(elf_bytes(GOOD))
    struct.pack_into(
        "<QQ", data, 64 + 32, 1 << 20, 1 << 20
    )  # sizes of the segment, in the file and in memory
    with pytest.raises(InputError, match="cut off"):
        load(tmp_path, bytes(data))
    with pytest.raises(InputError):
        load(tmp_path, elf_bytes(GOOD, elf_class=1))
    with pytest.raises(InputError):
        load(tmp_path, elf_bytes(GOOD, order=2))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), min_size=1, max_size=6))
def test_damage_never_gives_anything_but_one_message(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(elf_bytes(GOOD, notes=note_bytes("00ff")))
    for at, value in changes:
        data[at % len(data)] = value
    with contextlib.suppress(InputError):  # the one allowed outcome besides a program
        load(tmp_path_factory.getbasetemp(), bytes(data))
