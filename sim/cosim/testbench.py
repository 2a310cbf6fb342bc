"""Programs for the testbench of `baco.accel.package`: random legal streams, with main memory as the functional model leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from baco.accel.config import Accelerator
from baco.accel.package.testbench import Stimulus
from baco.common.scratch import scratch_folder
from baco.sim.build import Report
from baco.sim.cosim.macros import MacroGenerator
from baco.sim.cosim.stream import BASE, MEMORY_BYTES, Item, item_line
from baco.sim.engines.base import run_job
from baco.sim.job import Job

_ORDINARY, _MACROS = 60, 4


def stimulus(accelerator: Accelerator, seed: int = 0, report: Report | None = None) -> Stimulus:
    """Loads, products, stores, functions of rows and macros: whatever the accelerator has, in random legal order.

    Before, every row of both memories and every register of the array is written. Simulators with unknown values would
    otherwise see them in results: a product of something unknown by 0 is unknown to them.

    `report` is told how building the functional simulator goes on. Raises BuildError where that fails.
    """
    generator = MacroGenerator(accelerator, f"testbench-{accelerator.config_hash}-{seed}")
    generator.initialise(whole=True)
    generator.initialise_units()
    generator.ordinary(_ORDINARY)
    generator.mixed(_MACROS)
    before = Random(seed).randbytes(MEMORY_BYTES)
    return Stimulus(
        generator.items, BASE, before, _played(accelerator, generator.items, before, report), seed
    )


def _played(accelerator: Accelerator, steps: Sequence[Item], before: bytes, report: Report | None) -> bytes:
    """Main memory behind the commands, by the functional model."""
    lines = [f"write {BASE:x} {before.hex()}"]
    lines += [*map(item_line, steps), "fence", f"dump {BASE:x} {len(before):x}"]
    with scratch_folder() as folder:
        stream = folder / "stream.txt"
        stream.write_text("\n".join(lines) + "\n", encoding="ascii")
        done = run_job(Job(machine=accelerator, stream=stream, report=report), engine="functional")
    return done.memory_dumps[0]
