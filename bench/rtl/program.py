"""The matrix product as a RISC-V program: a host core issues the macros' commands."""

from __future__ import annotations

import subprocess
from importlib import resources
from pathlib import Path

from baco.bench.rtl.layers import Matmul
from baco.sim.build import BuildError
from baco.sim.toolchain import toolchain

_TARGET = (
    *("-target", "riscv64-freestanding-none", "-mcpu=generic_rv64+m+a+f+d+c", "-mabi=lp64d"),
    *("-mcmodel=medany", "-O2", "-static", "-nostdlib", "-ffreestanding", "-fno-sanitize=all"),
    *("-fno-stack-protector", "-Wl,--build-id=none"),
)
_SECONDS = 120
_OPERANDS = """.section .data
.balign 4096
.global operand_a, operand_b
operand_a: .incbin "{a}"
.balign 4096
operand_b: .incbin "{b}"
"""


def matmul_program(matmul: Matmul, dim: int, folder: Path) -> Path:
    """Compile the product to an ELF file in `folder`, with the same operands and scale as its stream.

    Raises InputError when the package `ziglang` is missing, BuildError when it fails.
    """
    sources = Path(str(resources.files("baco.bench") / "rtl"))
    names = {}
    for name, operand in zip("ab", matmul.operands(), strict=True):
        names[name] = folder / f"{name}.bin"
        names[name].write_bytes(operand.tobytes())
    (folder / "operands.S").write_text(_OPERANDS.format(**names), encoding="utf-8")
    sizes = zip(
        ("DIM", "ROWS", "COLS", "INNER", "TILE_I", "TILE_J", "TILE_K"),
        (dim, matmul.rows, matmul.cols, matmul.inner, *matmul.tile),
        strict=True,
    )
    target = folder / "matmul.elf"
    command = [toolchain("package").compiler[0], "cc", *_TARGET, f"-Wl,-T,{sources / 'matmul.ld'}"]
    command += [f"-D{name}={value}ull" for name, value in sizes]
    command += [str(sources / "matmul.c"), str(folder / "operands.S"), "-o", str(target)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"the compiler does not run: {error}") from error
    if done.returncode:
        raise BuildError(f"compiling the matrix product failed: {done.stderr.strip()[-500:]}")
    return target
