"""Programs of the compiler on the RTL, against a bound and against Gemmini's default tiling."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.bench.cycle_bound import bound
from baco.bench.harness.experiment import ResultFiles, Say, page_of, silent, table
from baco.bench.layer_shapes import NamedLayer, layer_shapes
from baco.bench.tilings import Measure, default_paths, kept_measurements, measuring
from baco.common.errors import InfeasibleError, InputError
from baco.common.provenance import versions
from baco.compiler.choice.choose import choose
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.layers.reference import draw_tensors
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.measure.measurement import Measurement


@dataclass(frozen=True)
class MeasuredProgram:
    """One program on the RTL.

    Attributes:
        schedule: how it computes the layer.
        cycles: from reset to the end.
        dram_bytes: read and written.
        array_cycles: in which the array multiplies.
        host_cycles: before the first command and after the last result, the accelerator idle.
        memory_cycles: in which memory moves data; requests larger than what they are for included.
    """

    schedule: str
    cycles: int
    dram_bytes: int
    array_cycles: int
    host_cycles: int
    memory_cycles: int

    @classmethod
    def of(cls, schedule: Schedule, found: Measurement) -> MeasuredProgram:
        """Of a measured layer."""
        counters, activity = found.counters, found.activity
        return cls(
            str(schedule),
            found.program_cycles,
            activity["dram_read_bytes"] + activity["dram_write_bytes"],
            counters["accelerator_mesh_cycles"],
            found.program_cycles - counters["accelerator_busy_cycles"],
            counters["memory_channel_busy_cycles"],
        )


@dataclass(frozen=True)
class Row:
    """A layer: the compiler's choice, the default tiling, and the bound.

    Attributes:
        array_bound, memory_bound: cycles, see `baco.bench.cycle_bound`; the bound is the larger one.
        compile_seconds: from the layer to the ELF file.
        heuristic: the better of the paths that Gemmini's library offers; None where none can be compiled.
    """

    set: str
    layer: str
    macs: int
    array_bound: int
    memory_bound: float
    compile_seconds: float
    ours: MeasuredProgram
    heuristic: MeasuredProgram | None

    @property
    def bound(self) -> float:
        """Cycles."""
        return max(float(self.array_bound), self.memory_bound)

    @property
    def ratio(self) -> float:
        """Our cycles over the bound's."""
        return self.ours.cycles / self.bound

    @property
    def against(self) -> float | None:
        """Our cycles over those of the default tiling."""
        return self.ours.cycles / self.heuristic.cycles if self.heuristic else None


def run(
    accelerator: Accelerator,
    sets: Sequence[str] = ("resnet50", "gemm"),
    *,
    only: str | None = None,
    store: Path | None = None,
    out: Path | None = None,
    say: Say = silent,
) -> dict[str, Any]:
    """Cycles of compiled layers on the RTL, against a bound and against Gemmini's default tiling.

    Args:
        accelerator: that is compiled for.
        sets (--set): resnet50, gemm; repeatable; by default both.
        only: layers whose name contains this text.
        store: file of finished measurements; by default in the cache of simulators.
        out: folder for compiler-quality.md and compiler-quality.json.

    Raises InputError for an unknown set or when nothing is left to run, BacoError for a program whose result is not what numpy's
    integers give, and whatever compiling and simulating raise.
    """
    layers = [one for one in layer_shapes(sets) if only is None or only in one.name]
    if not layers:
        raise InputError(f"no layer of {', '.join(sets)} is called like '{only}'")
    files, rows = ResultFiles(out, "compiler-quality", page), []
    with kept_measurements(store) as kept:
        for named in layers:
            row = _row(named, accelerator, measuring(accelerator, kept))
            rows.append(row)
            against = f", {row.against:.3f} of the default tiling" if row.against else ""
            say(f"{row.set} {row.layer}: {row.ours.cycles:,} cycles, {row.ratio:.3f} of the bound{against}")
    ratios = [row.against for row in rows if row.against]
    result = {
        "accelerator": accelerator.name,
        "config_hash": accelerator.config_hash,
        "versions": versions(),
        "geometric_mean": statistics.geometric_mean([row.ratio for row in rows]),
        "worst_against_heuristic": max(ratios, default=None),
        "best_against_heuristic": min(ratios, default=None),
        "geometric_mean_against_heuristic": statistics.geometric_mean(ratios) if ratios else None,
        "layers": [
            asdict(row) | {"bound": row.bound, "ratio": row.ratio, "against": row.against} for row in rows
        ],
    }
    files.keep(result)
    return result


def _row(named: NamedLayer, accelerator: Accelerator, measure: Measure) -> Row:
    layer, best = named.layer, bound(named.layer, accelerator)
    start = time.perf_counter()
    schedule = choose(layer, accelerator)
    layer_program(layer, schedule, accelerator, draw_tensors(layer, 0))
    seconds = time.perf_counter() - start
    ours = measure(layer, schedule)
    if ours is None:
        raise InfeasibleError(f"{named.name} by '{schedule}' cannot be carried out")
    default = min(
        (MeasuredProgram.of(*path) for path in default_paths(layer, accelerator, measure)),
        key=lambda program: program.cycles,
        default=None,
    )
    return Row(
        named.set,
        named.name,
        layer.problem.macs,
        best.array_cycles,
        best.memory_cycles,
        seconds,
        MeasuredProgram.of(schedule, ours),
        default,
    )


def page(result: dict[str, Any]) -> str:
    """Every layer, and where the cycles of its program go."""
    against = (
        f" Over Gemmini's default tiling: {result['geometric_mean_against_heuristic']:.3f} (geometric mean),"
        f" {result['best_against_heuristic']:.3f} at best, {result['worst_against_heuristic']:.3f} at worst. The default tiling is"
        " the better of the paths of Gemmini's library: windows of one pixel as convolutions and, where they can be, as products."
        if result["worst_against_heuristic"]
        else ""
    )
    columns = {
        "layer": lambda row: row["layer"],
        "bound by": lambda row: "array" if row["array_bound"] >= row["memory_bound"] else "memory",
        "bound": lambda row: f"{row['bound']:,.0f}",
        "cycles": lambda row: f"{row['ours']['cycles']:,}",
        "over bound": lambda row: f"{row['ratio']:.3f}",
        "default tiling": lambda row: f"{row['heuristic']['cycles']:,}" if row["heuristic"] else "none",
        "over default": lambda row: f"{row['against']:.3f}" if row["against"] else "",
        "array": lambda row: f"{row['ours']['array_cycles']:,}",
        "waits": lambda row: f"{_waits(**row['ours']):,}",
        "idle": lambda row: f"{row['ours']['host_cycles']:,}",
        "memory": lambda row: f"{row['ours']['memory_cycles']:,}",
        "compile s": lambda row: f"{row['compile_seconds']:.1f}",
        "schedule": lambda row: row["ours"]["schedule"],
        "default tiling's": lambda row: row["heuristic"]["schedule"] if row["heuristic"] else "",
    }
    tools = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return page_of(
        "Programs of the compiler on the RTL",
        f"{result['accelerator']}: {len(result['layers'])} layers, cycles on the RTL over the bound:"
        f" {result['geometric_mean']:.3f} (geometric mean).{against}",
        "The bound is the larger of two: weight-stationary passes (each at least 4 rows, one of them as long as the side"
        " of the array where new weights come in), and compulsory bytes at the memory's bandwidth. The remaining columns"
        " are cycles of our program: its array multiplies, waits while the accelerator is busy, or the accelerator is not;"
        " memory works beside that.",
        table(result["layers"], columns),
        f"Versions: {tools}.",
    )


def _waits(cycles: int, array_cycles: int, host_cycles: int, **_: Any) -> int:
    return cycles - array_cycles - host_cycles
