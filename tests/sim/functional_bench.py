"""Builds the driver of the functional model and runs command streams through it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from baco.accel.legality.cpp import cpp_sources
from tests.gemmini.config import GemminiConfig
from tests.sim.compiled import compiled

SOURCES = Path(__file__).parents[2] / "baco" / "sim" / "cpp"
DRIVER = Path(__file__).parent / "functional_driver.cpp"
PARTS = (
    "functional functional_counters functional_move functional_rows normaliser functional_matmul functional_loop_ws functional_loop_conv"
    " float_elements block_elements stream config memory"
)


@dataclass
class Outcome:
    """What the driver printed.

    Attributes:
        output: `dump` and `response` lines in stream order.
        error: code and message of the first refused command, None if there is none.
        commands: (funct, rs1, rs2) of every command after unrolling, when asked for.
    """

    output: list[str] = field(default_factory=list)
    error: tuple[int, str] | None = None
    statistics: dict[str, int] = field(default_factory=dict)
    commands: list[tuple[int, int, int]] = field(default_factory=list)


@cache
def driver() -> Path:
    """The executable."""
    return compiled(
        "c++",
        [*(SOURCES / f"{name}.cpp" for name in PARTS.split()), DRIVER],
        flags=["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"],
        folders=[SOURCES],
        written=cpp_sources(),
    )


def run(
    config: GemminiConfig, stream: str, folder: Path, *, base: int, size: int, commands: bool = False
) -> Outcome:
    """Replay a command stream (sim/cpp/stream.h) with main memory of `size` bytes at `base`."""
    (folder / "config").write_text(config.lines())
    call = [str(driver()), str(folder / "config"), f"{base:x}", f"{size:x}"]
    done = subprocess.run(
        [*call, *(["--commands"] if commands else [])],
        input=stream,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    outcome = Outcome()
    for line in done.stdout.splitlines():
        kind, rest = line.split(" ", 1)
        if kind in ("dump", "response"):
            outcome.output.append(line)
        elif kind == "error":
            code, text = rest.split(" ", 1)
            outcome.error = int(code), text
        elif kind == "statistic":
            name, value = rest.split()
            outcome.statistics[name] = int(value)
        else:
            assert kind == "command", line
            funct, rs1, rs2 = (int(word, 16) for word in rest.split())
            outcome.commands.append((funct, rs1, rs2))
    return outcome
