"""Fits the constants of the original's memory system: `python -m baco.bench.fit.original_memory FOLDER`.

What its caches and buses do is in `sim/cpp/gemmini_l2.h` and `gemmini_bus.h`, from their sources; how many cycles pass on some ways
through them is fitted to programs measured on the original's RTL (`baco bench timing`), and to products whose weights are
streamed (`baco.bench.streaming`): the mean of absolute errors of both, added, is least. Constants are whole numbers of cycles, and
change by one, one after the other, as long as something improves. Deterministic.

Judged is by streamed products left out: for each, the constants, of all that were tried, that fit everything else best.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

import baco.sim.engines
from baco.accel.presets import load_accelerator
from baco.bench.fit.fitting import error_text
from baco.bench.streaming import TABLE
from baco.bench.timing import measured_programs
from baco.common.files import atomic_write
from baco.common.portable import Floats
from baco.common.scratch import scratch_folder
from baco.sim.engines.original import MemoryConstants, memory_constants, run_original
from baco.sim.job import Job

#: Signed relative errors: of the archive's programs, and of the streamed products.
Errors = tuple[Floats, Floats]


def objective(errors: Errors) -> float:
    """What is made least."""
    return sum(float(np.abs(part).mean()) for part in errors if part.size)


def fit(start: MemoryConstants, errors: Callable[[MemoryConstants], Errors]) -> dict[MemoryConstants, Errors]:
    """All constants that were tried, with their errors; `best` says which are."""
    tried = {start: errors(start)}
    current, improved = start, True
    while improved:
        improved = False
        for name in asdict(start):
            for step in (1, -1):
                trial = replace(current, **{name: getattr(current, name) + step})
                if getattr(trial, name) < 0:
                    continue
                if trial not in tried:
                    tried[trial] = errors(trial)
                if objective(tried[trial]) < objective(tried[current]):
                    current, improved = trial, True
                    break
    return tried


def best(tried: dict[MemoryConstants, Errors]) -> MemoryConstants:
    """Those of the least objective; of equal ones the first."""
    return min(tried, key=lambda one: objective(tried[one]))


def left_out(tried: dict[MemoryConstants, Errors]) -> Floats:
    """The error of each streamed product, by the constants that fit all but it best."""
    _, streamed = next(iter(tried.values()))
    found = []
    for at in range(streamed.size):
        others = {one: (programs, np.delete(rows, at)) for one, (programs, rows) in tried.items()}
        found.append(tried[best(others)][1][at])
    return np.array(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print how well rows are met, and write `sim/engines/original.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="of `baco bench timing`, with streaming.csv")
    parser.add_argument("--accelerator", default="gemmini-default")
    parser.add_argument(
        "--every", type=int, default=1, help="of the archive's programs, only each so many-th"
    )
    options = parser.parse_args(arguments)
    accelerator = load_accelerator(options.accelerator).replace(timing="gemmini")
    programs = measured_programs(options.folder, accelerator)
    streamed = [row for row in programs if row.table == TABLE]
    groups = ([row for row in programs if row.table != TABLE][:: options.every], streamed)
    with scratch_folder() as scratch:
        path = scratch / "program.elf"

        def cycles(program: bytes, constants: MemoryConstants) -> int:
            path.write_bytes(program)
            found = run_original(Job(accelerator, program=path, timing="gemmini"), constants).cycles
            assert found is not None  # this engine counts them
            return found

        def errors(constants: MemoryConstants) -> Errors:
            said = [
                np.array([cycles(row.program, constants) / row.measured - 1 for row in group])
                for group in groups
            ]
            print(
                f"{tuple(asdict(constants).values())}: programs {error_text(said[0])}; streamed {error_text(said[1])}",
                flush=True,
            )
            return said[0], said[1]

        tried = fit(memory_constants(), errors)
    found = best(tried)
    print(f"best of {len(tried)}: {asdict(found)}")
    print(f"programs: {error_text(tried[found][0])}")
    for row, fitted, other in zip(streamed, tried[found][1], left_out(tried), strict=True):
        print(f"{row.file}: {fitted:+.1%}, left out of the fit {other:+.1%}")
    print(f"streamed products left out of the fit: {error_text(left_out(tried))}")
    constants = Path(baco.sim.engines.__file__).with_name("original.json")
    atomic_write(constants, json.dumps(asdict(found), indent=2) + "\n")


if __name__ == "__main__":
    main()
