"""Running what the compiler built: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.common.errors import InputError, did_you_mean
from baco.common.scratch import scratch_folder
from baco.sim.engines.base import run_job
from baco.sim.job import Job, Limits, MainMemory, Recording, Simulation, Watchpoint

if TYPE_CHECKING:
    from baco.compiler.codegen.buffer import Buffer
    from baco.compiler.codegen.program import Program


Array = np.ndarray[Any, Any]
#: Main memory grows in steps of this size where a program needs more than the default.
_STEP_BYTES = 64 << 20


def run_program(
    program: Program,
    inputs: Mapping[str, Array] | None = None,
    engine: str = "functional",
    *,
    memory: MainMemory | None = None,
    timing: str | None = None,
    limits: Limits | None = None,
    recording: Recording | None = None,
    report: Callable[[str], None] | None = None,
    console: Callable[[str], None] | None = None,
    read_all: bool = False,
    watches: Sequence[Watchpoint] = (),
) -> tuple[dict[str, Array], Simulation]:
    """Run a compiled program and read its results back.

    Args:
        inputs: new contents of buffers by name, of each buffer's shape and type; the others start with their data.
        engine: functional or rtl.
        memory: timing of main memory; it is enlarged where the program needs more.
        timing: whose cycles the engine rtl counts, one of `baco.accel.config.TIMINGS`; by default the accelerator's.
        read_all: give back every buffer, workspaces too, not only outputs.
        watches: instructions at which counters are noted, for `Simulation.marks`.

    Returns the buffers of role output and inout by name, and what was measured. An exit code other than 0 is in the
    result. Raises InputError for inputs that do not fit, and as `baco.sim.engines.base.Engine.run`.
    """
    buffers = {buffer.name: buffer for buffer in program.buffers}
    images = []
    for name, array in (inputs or {}).items():
        if name not in buffers:
            raise InputError(f"the program has no buffer '{name}'", hint=did_you_mean(name, buffers))
        images.append((program.symbols[name], _content(buffers[name], array)))
    read = [buffer for buffer in program.buffers if read_all or buffer.role in ("output", "inout")]
    room = memory or MainMemory()
    needed = -(-program.memory_bytes // _STEP_BYTES) * _STEP_BYTES
    if needed > room.size_bytes:
        room = replace(room, size_bytes=needed)
    with scratch_folder() as folder:
        path = folder / "program.elf"
        path.write_bytes(program.elf)
        job = Job(
            machine=program.machine,
            program=path,
            memory=room,
            timing=timing,
            limits=limits or Limits(),
            recording=recording or Recording(),
            images=tuple(images),
            dumps=tuple((program.symbols[buffer.name], buffer.nbytes) for buffer in read),
            watches=tuple(watches),
            report=report,
            console=console,
        )
        result = run_job(job, engine=engine)
    outputs = {
        buffer.name: np.frombuffer(data, dtype=np.dtype(buffer.dtype)).reshape(buffer.shape).copy()
        for buffer, data in zip(read, result.memory_dumps, strict=True)
    }
    return outputs, result


def _content(buffer: Buffer, array: Array) -> bytes:
    given = np.asarray(array)
    if given.shape != tuple(buffer.shape) or given.dtype != np.dtype(buffer.dtype):
        raise InputError(
            f"buffer '{buffer.name}' takes {buffer.dtype}{list(buffer.shape)},"
            f" not {given.dtype}{list(given.shape)}"
        )
    return np.ascontiguousarray(given).tobytes()
