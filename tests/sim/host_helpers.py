"""Builds the host core's driver and the programs it runs, with the compiler of the `ziglang` package."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tests.sim.compiled import compiled, zig

HERE = Path(__file__).parent
CPP = HERE.parents[1] / "baco" / "sim" / "cpp"
SOURCES = (
    *("host.cpp", "host_csr.cpp", "host_execute.cpp", "host_float.cpp", "htif.cpp", "softfloat.cpp"),
    *("riscv_decode.cpp", "riscv_compressed.cpp", "memory.cpp"),
)
BASE = 0x80000000
RISCV = ("-target", "riscv64-freestanding-none", "-mabi=lp64d", "-mcmodel=medany")
FULL = "-mcpu=generic_rv64+m+a+f+d+c"


@cache
def driver() -> Path:
    """The compiled host_driver.cpp."""
    sources = [*(CPP / name for name in SOURCES), HERE / "host_driver.cpp"]
    return compiled("c++", sources, flags=["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"], folders=[CPP])


def assemble(folder: Path, lines: list[str]) -> list[int]:
    """The encodings of assembly lines, one instruction each, of 2 or 4 bytes."""
    source, target = folder / "lines.s", folder / "lines.o"
    text = [".option norelax"]
    for line in lines:  # without the option an assembler would shorten what can be shortened
        text += [".option rvc" if line.startswith("c.") else ".option norvc", line]
    source.write_text("\n".join(text) + "\n")
    zig("cc", *RISCV, FULL, "-c", source, "-o", target)
    with target.open("rb") as file:
        code = ELFFile(file).get_section_by_name(".text").data()
    words = []
    at = 0
    while at < len(code):
        size = 4 if code[at] & 3 == 3 else 2
        words.append(int.from_bytes(code[at : at + size], "little"))
        at += size
    assert len(words) == len(lines)
    return words


def table(cases: list[str]) -> list[list[int]]:
    """Result lines of the driver's table mode, as integers."""
    done = subprocess.run(
        [driver(), "table"], input="\n".join(cases) + "\n", capture_output=True, text=True, check=True
    )
    return [[int(field, 16) for field in line.split()] for line in done.stdout.splitlines()]


@dataclass
class Run:
    """What a program did: console text, the summary's values by name, and the error that stopped it, if any."""

    console: str
    values: dict[str, str]
    error: str

    def number(self, name: str) -> int:
        return int(self.values[name])


def compile_program(folder: Path, source: str, *flags: str, cpu: str = FULL) -> Path:
    """An ELF file from C text, linked with the start-up code and the console of host_runtime.c."""
    path, target = folder / "program.c", folder / "program.elf"
    path.write_text(source)
    options = ("-O2", "-ffreestanding", "-nostdlib", "-static", "-fno-sanitize=all")
    sources = [HERE / "host_runtime.c", path]
    shutil.copyfile(
        compiled(
            "cc", sources, flags=[*RISCV, cpu, *options, *flags], folders=[HERE], script=HERE / "host_link.ld"
        ),
        target,
    )
    return target


def run(elf: Path, max_cycles: int = 20_000_000, alone: bool = False) -> Run:
    """Run an ELF file on the host core with the driver's toy accelerator."""
    image = bytearray()
    with elf.open("rb") as file:
        parsed = ELFFile(file)
        for segment in parsed.iter_segments("PT_LOAD"):
            start = segment["p_paddr"] - BASE
            image.extend(bytes(max(0, start + segment["p_memsz"] - len(image))))
            image[start : start + segment["p_filesz"]] = segment.data()
        symbols = {s.name: s["st_value"] for s in parsed.get_section_by_name(".symtab").iter_symbols()}
        entry = parsed["e_entry"]
    flat = elf.with_suffix(".bin")
    flat.write_bytes(image)
    arguments = [BASE, entry, symbols["tohost"], symbols["fromhost"], max_cycles]
    command = [str(driver()), "run", str(flat), *map(str, arguments), *(["alone"] if alone else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    console, summary, error = done.stdout.rsplit("\n", 3)[:3]
    return Run(console, dict(item.split("=", 1) for item in summary.split()), error)
