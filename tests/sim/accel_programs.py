"""Compiles the C programs of tests/programs for an accelerator."""

from __future__ import annotations

from pathlib import Path

from baco.accel.c_header import c_header
from baco.accel.config import Accelerator
from tests.sim.compiled import compiled

FOLDER = Path(__file__).parents[1] / "programs"
SHARED = ("crt.S", "runtime.c")
#: All programs, each of which ends with exit code 0 and a line that says it is right.
PROGRAMS = tuple(sorted(path.stem for path in FOLDER.glob("*.c") if path.name not in SHARED))
_FLAGS = (
    *("-target", "riscv64-freestanding-none", "-mcpu=generic_rv64+m+a+f+d+c"),
    *("-mabi=lp64d", "-mcmodel=medany", "-std=c11", "-O2"),
    *("-static", "-nostdlib", "-ffreestanding", "-fno-sanitize=all", "-fno-stack-protector"),
    # a default followed by the caller's value is how the macros of accel.h take named arguments
    *("-Wall", "-Wextra", "-Werror", "-Wno-initializer-overrides", "-Wl,--build-id=none"),
)


def build_program(name: str, accelerator: Accelerator) -> Path:
    """The ELF file of one of `PROGRAMS`, compiled with the accelerator's generated header."""
    return _build(FOLDER / f"{name}.c", accelerator)


def build_source(name: str, text: str, accelerator: Accelerator, folder: Path) -> Path:
    """As `build_program`, from C text, which is written into a folder."""
    path = folder / f"{name}.c"
    path.write_text(text)
    return _build(path, accelerator)


def _build(source: Path, accelerator: Accelerator) -> Path:
    sources = [*(FOLDER / name for name in SHARED), source]
    header = {"gemmini_params.h": c_header(accelerator)}
    return compiled("cc", sources, flags=_FLAGS, folders=[FOLDER], written=header, script=FOLDER / "link.ld")
