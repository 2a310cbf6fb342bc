"""Compiles the small RISC-V programs of these tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from baco.sim.toolchain import toolchain

FOLDER = Path(__file__).parent / "programs"
#: Bare metal, everything in one file, no library; no build identifier so that equal sources give equal files.
FLAGS = (
    *(
        "-target",
        "riscv64-freestanding-none",
        "-mcpu=generic_rv64+m+a+f+d+c",
        "-mabi=lp64d",
        "-mcmodel=medany",
    ),
    *("-O2", "-static", "-nostdlib", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector"),
    *("-Wl,--build-id=none", f"-Wl,-T,{FOLDER / 'link.ld'}", "-I", str(FOLDER)),
)


def compile_program(target: Path, source: str | Path, *flags: str) -> Path:
    """Compile a C file of `programs`, or C text, with the start-up code to an ELF file."""
    if isinstance(source, str):
        path = target.with_suffix(".c")
        path.write_text('#include "commands.h"\n' + source)
    else:
        path = FOLDER / source
    zig = toolchain("package").compiler[0]
    command = [zig, "cc", *FLAGS, *flags, str(FOLDER / "start.S"), str(path), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target
