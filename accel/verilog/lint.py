"""Verilator on generated Verilog: its preprocessor, and its opinion."""

from __future__ import annotations

import os
import subprocess

from baco.accel.verilog.generate import TOP
from baco.common.errors import BacoError
from baco.common.scratch import scratch_folder

_LIMIT_S = 600


def preprocess(verilog: str, verilator: str, verilator_root: str) -> str:
    """The text with macros expanded and comments removed.

    Args:
        verilog: the whole design.
        verilator, verilator_root: the program `verilator_bin` and the folder with its files.

    Raises BacoError when Verilator refuses the text or takes too long.
    """
    done = _run(["-E", "-P"], "design.v", verilog, verilator, verilator_root)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["(no message)"]
        raise BacoError(f"Verilator refuses the Verilog: {lines[0]}")
    return done.stdout


def lint(verilog: str, verilator: str, verilator_root: str, top: str = TOP) -> list[str]:
    """Errors and warnings of `verilator --lint-only -Wall`, one text each; empty when there are none.

    Args:
        verilog, verilator, verilator_root: as `preprocess` takes them.
        top: name of the top module.

    Raises BacoError when Verilator takes too long or fails without saying why.
    """
    # named after its top, as Verilator likes it
    done = _run(["--lint-only", "-Wall", "--top-module", top], f"{top}.v", verilog, verilator, verilator_root)
    lines = [line[1:] for line in done.stderr.splitlines() if line.startswith(("%Error", "%Warning"))]
    # the last error only says that there were some
    lines = [line for line in lines if not line.startswith("Error: Exiting due to")]
    if done.returncode and not lines:
        raise BacoError(f"Verilator failed: {done.stderr.strip()[:300] or f'exit code {done.returncode}'}")
    return lines


def _run(
    arguments: list[str], file: str, verilog: str, verilator: str, verilator_root: str
) -> subprocess.CompletedProcess[str]:
    with scratch_folder() as folder:
        (folder / file).write_text(verilog, encoding="utf-8")
        try:
            return subprocess.run(
                [verilator, *arguments, file],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LIMIT_S,
                env={**os.environ, "VERILATOR_ROOT": verilator_root},
            )
        except subprocess.TimeoutExpired:
            raise BacoError(f"Verilator took more than {_LIMIT_S} seconds to check the Verilog") from None
