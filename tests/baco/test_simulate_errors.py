"""What `baco simulate` says to programs that cannot be run: one message, exit code 2, on both engines the same fault."""

import os
import struct
from pathlib import Path

import pytest

from baco.accel.config import Accelerator
from baco.main import run
from tests.machines import SMALL
from tests.sim.accel_programs import build_source

YAML = "name: small\ndim: 4\nscratchpad_kib: 16\naccumulator_kib: 8\n"
ENGINES = ("functional", "rtl")
#: Statements, the kind of refusal, and the command that is named.
REFUSED = {
    "unknown": ("COMMAND(99, 1, 2);", "unknown command", "funct=99 rs1=0x1 rs2=0x2"),
    "normalisation": ("COMMAND(0, 3, 0);", "feature not built", "CONFIG_NORM"),
    "transposes": ("config_ex(.a_transpose = 1, .b_transpose = 1);", "illegal transposes", "CONFIG_EX"),
    "transposed B": (
        "config_ex(.dataflow = OUTPUT_STATIONARY, .b_transpose = 1);",
        "illegal transposes",
        "b_transpose=1",
    ),
    "no rows": ("mvin(buffer, SP(0), 1, 0);", "bad size", "MVIN"),
    "rows": ("mvin(buffer, SP(0), 1, 256);", "bad size", "rows=256"),
    "columns": ("mvin(buffer, SP(0), 200, 1);", "bad size", "cols=200"),
    "operand": (
        "config_ex(); preload(ACC(0), DIM, DIM, ACC(4), DIM, DIM);",
        "illegal flags",
        "PRELOAD bd=acc[0]",
    ),
    "copy": ("mvout_spad(ACC(0), 1, SP(0), DIM, DIM);", "illegal flags", "MVOUT_SPAD destination=acc[0]"),
    "PRELOAD without CONFIG_EX": (
        "preload(SP(0), DIM, DIM, ACC(0), DIM, DIM);",
        "used before its configuration",
        "PRELOAD bd=spad[0]",
    ),
    "COMPUTE alone": (
        "config_ex(); compute_preloaded(SP(0), DIM, DIM, SP(0), DIM, DIM);",
        "PRELOAD and COMPUTE not in pairs",
        "COMPUTE_PRELOADED a=spad[0]",
    ),
    "PRELOAD twice": (
        "config_ex(); for (int n = 0; n < 2; n++) preload(SP(n), DIM, DIM, ACC(0), DIM, DIM);",
        "PRELOAD and COMPUTE not in pairs",
        "PRELOAD bd=spad[1]",
    ),
    "CONFIG_EX between": (
        "config_ex(); preload(SP(0), DIM, DIM, ACC(0), DIM, DIM); config_ex();",
        "PRELOAD and COMPUTE not in pairs",
        "CONFIG_EX",
    ),
    "no sums": (
        """config_ex(.dataflow = OUTPUT_STATIONARY);
          preload(SP(0), DIM, DIM, ACC(0), DIM, DIM);
          compute_preloaded(SP(0), DIM, DIM, SP(0), DIM, DIM);
          preload(SP(0), DIM, DIM, ACC(0), DIM, DIM);
          compute_accumulated(SP(0), DIM, DIM, SP(0), DIM, DIM);""",
        "no sums to accumulate on",
        "COMPUTE_ACCUMULATED a=spad[0]",
    ),
    "scratchpad row": (
        "mvin(buffer, SP(SP_ROWS), DIM, DIM);",
        "local address beyond the memory",
        "local=spad[4096]",
    ),
    "last rows": (
        "mvin(buffer, SP(SP_ROWS - 1), DIM, DIM);",
        "local address beyond the memory",
        "local=spad[4095]",
    ),
    "accumulator row": (
        "mvout(buffer, ACC(ACC_ROWS), DIM, DIM);",
        "local address beyond the memory",
        "local=acc[512]",
    ),
}


def program(folder: Path, statements: str, accelerator: Accelerator = SMALL) -> Path:
    text = f"""#include "accel.h"
        extern volatile uint64_t tohost;
        static char buffer[4096];
        int main(void) {{
          config_ld(.stride = DIM);
          config_st(.stride = DIM);
          {statements}
          fence();
          return buffer[0];
        }}
        """
    return build_source("program", text, accelerator, folder)


def simulate(
    capsys: pytest.CaptureFixture[str], folder: Path, program: Path, engine: str, *options: str
) -> tuple[int, str]:
    """Exit code and what was said, after checking that it is one message and that nothing else was printed."""
    (folder / "small.yaml").write_text(YAML)
    arguments = ["simulate", str(program), "-a", str(folder / "small.yaml"), "-e", engine, "-q", *options]
    code = run("baco", arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error: ") == 1
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return code, err


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", REFUSED)
def test_refused_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path, case: str, engine: str) -> None:
    statements, kind, named = REFUSED[case]
    code, message = simulate(capsys, tmp_path, program(tmp_path, statements), engine)
    assert code == 2
    first = message.splitlines()[0]
    assert f"the accelerator refused a command, {kind}: " in first
    assert named in first


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("statements", "command"),
    [
        ("mvin((void*)0x1000, SP(0), DIM, DIM);", "MVIN"),
        ("mvout((void*)0x1000, SP(0), DIM, DIM);", "MVOUT"),
        ("mvin((void*)(0x80000000 + (512ul << 20) - 4), SP(0), DIM, DIM);", "MVIN"),
    ],
)
def test_addresses_outside_main_memory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, statements: str, command: str, engine: str
) -> None:
    code, message = simulate(capsys, tmp_path, program(tmp_path, statements), engine)
    assert code == 2
    assert "outside m" in message.splitlines()[0]
    assert f" {command} address=" in message  # named, or among the last commands


@pytest.mark.parametrize("engine", ENGINES)
def test_programs_without_end(capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str) -> None:
    elf = program(tmp_path, "for (;;) (void)tohost;")
    code, message = simulate(capsys, tmp_path, elf, engine, "--max-cycles", "100000")
    assert code == 2
    assert "the limit of 100000 cycles is reached" in message
    assert "host core at 0x8" in message
    assert "hint: " in message
    code, message = simulate(capsys, tmp_path, elf, engine, "--max-cycles", "0", "--timeout", "0.3")
    assert code == 2
    assert "the time limit of 0.3 s is reached" in message


def test_other_executables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good = program(tmp_path, "").read_bytes()
    header = struct.unpack_from("<Q", good, 32)[0]  # of the first segment
    changed = tmp_path / "changed.elf"

    def with_bytes(at: int, data: bytes) -> bytes:
        return good[:at] + data + good[at + len(data) :]

    for data, message in (
        (with_bytes(18, struct.pack("<H", 62)), "not for RISC-V"),
        (with_bytes(16, struct.pack("<H", 3)), "not an executable at fixed addresses"),
        (with_bytes(16, struct.pack("<H", 1)), "an object file"),
        (with_bytes(header + 48, struct.pack("<Q", 3)), "misaligned"),
        (with_bytes(header + 24, struct.pack("<Q", 0x1000)), "outside memory"),
        (good[: len(good) // 3], ""),
        (b"", "no ELF file"),
    ):
        changed.write_bytes(data)
        code, said = simulate(capsys, tmp_path, changed, "functional")
        assert code == 2
        assert message in said
    assert simulate(capsys, tmp_path, tmp_path, "functional")[0] == 2  # a folder
    other = program(tmp_path, "", SMALL.replace(dim=8))
    code, said = simulate(capsys, tmp_path, other, "functional")
    assert code == 2
    assert "the program was compiled for the accelerator" in said
    huge = build_source("huge", "char room[700 << 20]; int main(void) { return room[5]; }", SMALL, tmp_path)
    code, said = simulate(capsys, tmp_path, huge, "functional")
    assert code == 2
    assert "enlarge memory with --memory-mib" in said


def test_missing_tools(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elf = program(tmp_path, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    code, said = simulate(capsys, tmp_path, elf, "rtl", "--tools", "system")
    assert code == 2
    assert "is missing" in said
    assert "hint: install" in said


def test_where_nothing_can_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elf = program(tmp_path, "")
    code, said = simulate(capsys, tmp_path, elf, "functional", "--log", str(tmp_path / "absent" / "log.csv"))
    assert code == 2
    assert "cannot be written" in said
    if os.path.exists("/dev/full"):
        code, said = simulate(capsys, tmp_path, elf, "functional", "--log", "/dev/full")
        assert code == 2
        assert "/dev/full: cannot be written: the disk is full" in said
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BACO_CACHE", str(tmp_path / "file" / "cache"))
    code, said = simulate(capsys, tmp_path, elf, "functional")
    assert code == 2
    assert "the cache of built programs cannot be written" in said
    assert "hint: set BACO_CACHE" in said


def test_a_build_on_a_full_disk(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that dies without a word where next to nothing is free."""
    elf = program(tmp_path, "")
    compiler = tmp_path / "c++"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo 1 && exit 0\nkill -6 $$\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("BACO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("baco.sim.build._free_bytes", lambda folder: 4096)
    code, said = simulate(capsys, tmp_path, elf, "functional", "--tools", "system")
    assert code == 2
    assert "the disk is full" in said
    assert "set BACO_CACHE to another folder" in said
    monkeypatch.setattr("baco.sim.build._free_bytes", lambda folder: 1 << 40)
    code, said = simulate(capsys, tmp_path, elf, "functional", "--tools", "system")
    assert code == 2
    assert "signal 6" in said
