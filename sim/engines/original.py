"""The cycles of the original Gemmini, by a model of its units, buses and caches in a Rocket system. No Verilog is simulated."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.sim.engines.functional import check_functional, run_functional
from baco.sim.job import Job, MainMemory, Simulation

#: What the original's ExecuteController demands of its queue, and lines of the inclusive cache.
_VISIBLE_COMMANDS, _LINE_BYTES = 3, 64


@dataclass(frozen=True)
class MemoryConstants:
    """What of the original's memory system was fitted (`python -m baco.bench.fit.original_memory`), in cycles.

    Attributes:
        hit_cycles: from a request's arrival at the second-level cache to the first beat of its answer.
        memory_cycles: from the cache's request to memory to the first beat of its data.
        fill_cycles: from the last of these to the first beat of the answer.
        release_cycles: from the order to release a victim to where it is answered.
        burst_write_cycles: of the cache's pipeline, beside the data of a write of several beats.
    """

    hit_cycles: int
    memory_cycles: int
    fill_cycles: int
    release_cycles: int
    burst_write_cycles: int


@cache
def memory_constants() -> MemoryConstants:
    """Those of `original.json`."""
    text = resources.files("baco.sim.engines").joinpath("original.json").read_text("utf-8")
    return MemoryConstants(**json.loads(text))


class OriginalEngine:
    """Results are the functional model's, cycles those of sim/cpp/gemmini_*.cpp."""

    def check(self, job: Job) -> None:
        """As `Engine.check`. Refuses recordings and memories that this model has not."""
        if job.recording.waves is not None:
            raise InputError(
                "a model of the original Gemmini has no waveforms",
                hint="it is a model of the original's units, not Verilog: leave out --timing gemmini",
            )
        if job.memory != MainMemory(base=job.memory.base, size_bytes=job.memory.size_bytes):
            raise InputError(
                "the model of the original Gemmini has a memory system of its own",
                hint="leave out --memory-latency, --memory-bandwidth, --memory-burst and the options of --l2-kib",
            )
        check_original(job.accelerator)
        check_functional(job)

    def run(self, job: Job) -> Simulation:
        """As `Engine.run`."""
        return run_original(job, memory_constants())


def run_original(job: Job, constants: MemoryConstants) -> Simulation:
    """As `Engine.run`, by some constants of the memory system."""
    named = {f"--gemmini-{name.replace('_', '-')}": value for name, value in asdict(constants).items()}
    return run_functional(job, "gemmini-model", [str(text) for pair in named.items() for text in pair])


def check_original(accelerator: Accelerator) -> None:
    """Raises InfeasibleError for a machine that the original's generator refuses to build."""
    if accelerator.features.row_functions:
        raise InfeasibleError(
            "the original Gemmini has no row functions: there are no cycles of its to count",
            hint="leave --timing out, or take an accelerator without row_functions",
        )
    if accelerator.features.normalizations:
        raise InfeasibleError(
            "the model of the original Gemmini's cycles has no normaliser",
            hint="leave --timing out, or take an accelerator without normalizations",
        )
    if accelerator.execute_queue < _VISIBLE_COMMANDS:
        raise InfeasibleError(
            f"the original Gemmini looks at {_VISIBLE_COMMANDS} commands for products at a time: execute_queue ="
            f" {accelerator.execute_queue} is too short",
            hint=f"set execute_queue to {_VISIBLE_COMMANDS} or more",
        )
    if accelerator.dma_max_bytes > _LINE_BYTES:
        raise InfeasibleError(
            f"the original's second-level cache takes requests of at most {_LINE_BYTES} bytes, not of dma_max_bytes ="
            f" {accelerator.dma_max_bytes}",
            hint=f"set dma_max_bytes to {_LINE_BYTES} or less",
        )
    if accelerator.features.requantization:
        raise InfeasibleError(
            "the original Gemmini does not requantise by column: there are no cycles of its to count",
            hint="leave --timing out, or take an accelerator without requantization",
        )
    accelerator.check_integers("the original's cycles are counted of arrays")
    if accelerator.features.packed_weights:
        raise InfeasibleError(
            "the original Gemmini loads no elements of 4 bits: there are no cycles of its to count",
            hint="leave --timing out, or take an accelerator without packed_weights",
        )
