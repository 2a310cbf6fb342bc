"""Compiles the small RISC-V programs of these tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.sim.compiled import compiled

FOLDER = Path(__file__).parent / "programs"
#: Bare metal, everything in one file, no library; no build identifier so that equal sources give equal files.
FLAGS = (
    *("-target", "riscv64-freestanding-none", "-mcpu=generic_rv64+m+a+f+d+c"),
    *("-mabi=lp64d", "-mcmodel=medany", "-O2", "-static", "-nostdlib", "-ffreestanding"),
    *("-fno-sanitize=all", "-fno-stack-protector", "-Wl,--build-id=none"),
)


def compile_program(target: Path, source: str | Path, *flags: str) -> Path:
    """Compile a C file of `programs`, or C text, with the start-up code to an ELF file."""
    path = target.with_suffix(".c")
    path.write_text(
        '#include "commands.h"\n' + source if isinstance(source, str) else (FOLDER / source).read_text()
    )
    sources = [FOLDER / "start.S", path]
    shutil.copyfile(
        compiled("cc", sources, flags=[*FLAGS, *flags], folders=[FOLDER], script=FOLDER / "link.ld"), target
    )
    return target
