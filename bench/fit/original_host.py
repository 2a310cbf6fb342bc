"""Fits what explicit code costs the host core of the original Gemmini: `python -m baco.bench.fit.original_host FOLDER`.

Its timed model counts the cycles in which the host core neither waits for the accelerator nor in a fence, of any program: of explicit
schedules of the layers that `baco bench choice` draws by other seeds than those it is judged by, good ones by our own timing and
random ones, and of the programs that were measured on the original, each of which counts as much as `_MEASURED` others. Constants of
timing stay as they are (`baco.bench.fit.original`).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.choice_gaps import drawn_layers
from baco.bench.fit.explicit import ExplicitRows, fit, report
from baco.bench.fit.fitting import write_entry
from baco.bench.fit.original import explicit_rows
from baco.bench.sets.sample import draw_mapping
from baco.bench.timing import bench_timing
from baco.common.errors import BacoError
from baco.compiler import latency
from baco.compiler.choice.choose import choices
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.latency.arrays import TensorArrays
from baco.compiler.latency.batch import HardwareBatch, LayerBatch
from baco.compiler.latency.commands import count_commands
from baco.compiler.latency.model import constants
from baco.compiler.latency.tiling import make_tiling
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors
from baco.compiler.layers.text import layer_text
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.exploration.executors.executor_choice import LOCAL
from baco.sim.engines.program import run_program
from baco.sim.job import Limits

#: Seeds of layers, layers of a seed, places of their schedules in our own timing's order, and cycles of a program at most.
_SEEDS, _LAYERS, _RANKS, _LIMITS = (13, 14, 15, 16), 39, (0, 2, 5, 11, 24), Limits(max_cycles=400_000)
#: How often a program that was measured counts, and the pull of constants to those of our host core.
_MEASURED, _PULL = 10, 0.003


@dataclass(frozen=True)
class HostProgram:
    """A layer's program, and cycles of the host core and of all, from the first command to the last work."""

    layer: Layer
    schedule: ExplicitSchedule
    host: int
    cycles: int


def programs_of(seeds: Sequence[int], machine: Accelerator) -> Iterator[HostProgram]:
    """Explicit schedules of drawn layers, on the timed model of the original; without those that take too long."""
    ours = machine.replace(timing="baco")
    for seed in seeds:
        for _, layer in drawn_layers(_LAYERS, seed):
            good = [one.schedule for one in choices(layer, ours, best=max(_RANKS) + 1, style="explicit")]
            schedules = [good[rank] for rank in _RANKS if rank < len(good)]
            random_ = random.Random(f"{seed} {layer_text(layer)}")
            if drawn := draw_mapping(random_, layer, ours, macro=False, attempts=5):
                schedules.append(drawn[1])
            for schedule in dict.fromkeys(schedules):
                if isinstance(schedule, ExplicitSchedule) and (found := _run(layer, schedule, machine)):
                    yield found


def _run(layer: Layer, schedule: ExplicitSchedule, machine: Accelerator) -> HostProgram | None:
    program = layer_program(layer, schedule, machine, draw_tensors(layer))
    try:
        _, result = run_program(program, engine="rtl", limits=_LIMITS)
    except BacoError:
        return None
    assert result.cycles is not None
    count = result.counters
    cycles = count["accelerator_last_work_cycle"] + 1 - count["accelerator_first_command_cycle"]
    waiting = count["host_stall_command"] + count["host_stall_fence"]
    return HostProgram(layer, schedule, cycles - waiting, cycles)


def rows_of(programs: Sequence[HostProgram], machine: Accelerator) -> ExplicitRows:
    """What the programs say."""
    tiling = make_tiling(
        LayerBatch.of([one.layer for one in programs]),
        MappingBatch.of([one.schedule.mapping for one in programs]),
        HardwareBatch.of([machine] * len(programs)),
        TensorArrays(),
    )
    host, cycles = (np.array([float(getattr(one, name)) for one in programs]) for name in ("host", "cycles"))
    return ExplicitRows(tiling, count_commands(tiling), cycles, host.clip(min=200.0), np.zeros(len(programs)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print how well host and total cycles are met, and write the host's constants of the timing `gemmini`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="of `baco bench timing`")
    parser.add_argument("--accelerator", default="gemmini-default")
    options = parser.parse_args(arguments)
    machine = load_accelerator(options.accelerator).replace(timing="gemmini")
    measured = explicit_rows(bench_timing(options.folder, machine, engine=LOCAL).programs, machine)
    # of the layer alone, as the others
    measured = replace(
        measured,
        host_cycles=(measured.host_cycles - measured.before).clip(min=200.0),
        before=0.0 * measured.before,
    )
    drawn = rows_of(list(programs_of(_SEEDS, machine)), machine)
    present = constants("gemmini")
    start = replace(present, host=constants("baco").host)
    found = replace(
        fit([drawn, *[measured] * _MEASURED], timing=False, start=start, pull=_PULL), timing=present.timing
    )
    for name, sample in (("drawn", drawn), ("measured", measured)):
        print(report(name, sample, found))
    rows = {"drawn": len(drawn.cycles), "measured": len(measured.cycles)}
    write_entry(
        Path(latency.__file__).with_name("constants.json"), "gemmini", {"rows": rows, **asdict(found)}
    )


if __name__ == "__main__":
    main()
