"""One layer measured: compiled for its accelerator, run on the accelerator's RTL, compared, counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from baco.accel.config import Accelerator
from baco.common.scratch import scratch_folder
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.codegen.program import Program
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors, layer_result
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import realise
from baco.exploration.measure.attempt import WrongResultError, attempt, check_exit, counted
from baco.exploration.measure.measurement import Measurement
from baco.sim.engines.base import CycleEngine
from baco.sim.engines.program import run_program
from baco.sim.job import Limits, MainMemory, Recording
from baco.sim.trace import read_log
from baco.sim.trace.writer import last_writer

Array: TypeAlias = "np.ndarray[Any, Any]"


def schedule_for(layer: Layer, how: Mapping | Schedule, accelerator: Accelerator) -> Schedule:
    """A mapping as it is realised on the accelerator (`baco.compiler.styles.registry.realise`); schedules stay what they are."""
    return realise(layer, how, accelerator) if isinstance(how, Mapping) else how


def measure_layer(
    layer: Layer,
    mapping_or_schedule: Mapping | Schedule,
    accelerator: Accelerator,
    *,
    engine: CycleEngine = "rtl",
    seed: int = 0,
    memory: MainMemory | None = None,
    limits: Limits | None = None,
) -> Measurement:
    """Compile a layer, run it with random tensors, compare all elements with numpy's integers, and count.

    Args:
        layer, mapping_or_schedule, accelerator: what, how (see `schedule_for`), and on what.
        engine: the RTL, or the model of its units in time, for what the RTL takes too long for.
        seed: of the tensors. Their values do not change cycles.
        memory: timing of main memory; by default the simulator's, with the accelerator's bandwidth.
        limits: of the simulation; one that is passed makes the measurement `failed`.

    What fails or is infeasible is a result, too. Raises InputError for a mapping that does not cover the layer, and
    BuildError or StorageError where simulators cannot be built at all.
    """

    def work() -> Measurement:
        tensors = draw_tensors(layer, seed)
        schedule = schedule_for(layer, mapping_or_schedule, accelerator)
        facts.update(style=schedule.style, schedule=schedule.text)
        program = layer_program(layer, schedule, accelerator, tensors)
        outputs, result = run_program(program, engine=engine, memory=memory, limits=limits or Limits())
        check_exit(result)
        got, expected = outputs["output"].ravel(), layer_result(layer, tensors, accelerator.dim)
        if wrong := first_difference(layer, got, expected):
            address = program.symbols["output"] + int(np.flatnonzero(got != expected)[0]) * got.itemsize
            raise WrongResultError(f"{wrong}; {_written_by(program, address, memory, limits)}")
        first, last = (
            result.counters[f"accelerator_{name}_cycle"] for name in ("first_command", "last_work")
        )
        return counted(result, accelerator, last + 1 - first)

    facts: dict[str, str] = {}
    return replace(attempt(accelerator, work), **facts)  # type: ignore[arg-type]


def _written_by(program: Program, address: int, memory: MainMemory | None, limits: Limits | None) -> str:
    """Which command wrote an address: found by running the program once more, with a log."""
    with scratch_folder() as scratch:
        log = scratch / "log"
        run_program(
            program, engine="rtl", memory=memory, limits=limits or Limits(), recording=Recording(log=log)
        )
        entry = last_writer(read_log(log), address)
    if entry is None:
        return "no command wrote it"
    return f"it was written by {entry.text}, issued in cycle {entry.issued}"


def first_difference(layer: Layer, got: Array, expected: Array) -> str:
    """The first element of a flat output that is wrong, by its place in the tensor; empty when none is."""
    places = np.flatnonzero(got != expected)
    if not places.size:
        return ""
    at = int(places[0])
    return (
        f"output[{at}]{_place(layer, at)} is {int(got[at])}, should be {int(expected[at])};"
        f" {places.size:,} of {expected.size:,} elements are wrong"
    )


def _place(layer: Layer, at: int) -> str:
    """Where an element of the flat output stands: image, row, column, channel; empty in gaps of the layout."""
    p, pool, layout = layer.problem, layer.pooling, layer.output
    rows, columns = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    for group in range(p.groups):
        pixel, channel = divmod(at - group * layout.group, layout.pitch)
        if 0 <= pixel < layer.pixels_stored and channel < p.K:
            image, rest = divmod(pixel, rows * columns)
            row, column = divmod(rest, columns)
            return f" (group {group}, n {image}, q {row}, p {column}, k {channel})"
    return ""
