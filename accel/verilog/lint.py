"""Verilator's opinion of generated Verilog."""

from __future__ import annotations

import os
import subprocess

from accel.verilog.generate import TOP
from common.errors import BacoError
from common.scratch import scratch_folder

__all__ = ["lint"]

_LIMIT_S = 600


def lint(verilog: str, verilator: str, verilator_root: str, top: str = TOP) -> list[str]:
    """Errors and warnings of `verilator --lint-only -Wall`, one text each; empty when there are none.

    Args:
        verilog: the whole design.
        verilator, verilator_root: the program `verilator_bin` and the folder with its files.
        top: name of the top module.

    Raises BacoError when Verilator takes too long or fails without saying why.
    """
    with scratch_folder() as folder:
        # named after its top, as Verilator likes it
        file = f"{top}.v"
        (folder / file).write_text(verilog, encoding="utf-8")
        command = [verilator, "--lint-only", "-Wall", "--top-module", top, file]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LIMIT_S,
                env={**os.environ, "VERILATOR_ROOT": verilator_root},
            )
        except subprocess.TimeoutExpired:
            raise BacoError(f"Verilator took more than {_LIMIT_S} seconds to check the Verilog") from None
    found = [line[1:] for line in done.stderr.splitlines() if line.startswith(("%Error", "%Warning"))]
    # the last error only says that there were some
    found = [line for line in found if not line.startswith("Error: Exiting due to")]
    if done.returncode and not found:
        raise BacoError(f"Verilator failed: {done.stderr.strip()[:300] or f'exit code {done.returncode}'}")
    return found
