"""`baco bench compiler`: programs of the compiler on the RTL, against a bound and against Gemmini's default tiling."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.bench.cycle_bound import bound
from baco.bench.layer_shapes import NamedLayer, layer_shapes
from baco.common.errors import BacoError, InfeasibleError, InputError
from baco.common.files import atomic_write, output_folder
from baco.compiler.choice.choose import choose
from baco.compiler.choice.gemmini import gemmini_paths
from baco.compiler.codegen.program import Buffer, Program, build_program
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles import Operands, emit_layer, workspaces
from baco.sim.engines.program import run_program
from baco.sim.job import MainMemory, Simulation

__all__ = ["MeasuredProgram", "Row", "bench_compiler", "layer_program", "report_text"]

Progress = Callable[[str], None]


@dataclass(frozen=True)
class MeasuredProgram:
    """One program on the RTL.

    Attributes:
        schedule: how it computes the layer.
        cycles: from reset to the end.
        compile_seconds: from the layer to the ELF file.
        dram_bytes: read and written.
        array_cycles: in which the array multiplies.
        host_cycles: before the first command and after the last result, the accelerator idle.
        memory_cycles: in which memory moves data; requests larger than what they are for included.
        digest: of the results; programs of one layer agree.
    """

    schedule: str
    cycles: int
    compile_seconds: float
    dram_bytes: int
    array_cycles: int
    host_cycles: int
    memory_cycles: int
    digest: str


@dataclass(frozen=True)
class Row:
    """A layer: the compiler's choice, the default tiling, and the bound.

    Attributes:
        array_bound, memory_bound: cycles, see `baco.bench.cycle_bound`; the bound is the larger one.
        heuristic: the better of the paths that Gemmini's library offers; None where none can be compiled.
    """

    set: str
    layer: str
    macs: int
    array_bound: int
    memory_bound: float
    ours: MeasuredProgram
    heuristic: MeasuredProgram | None
    heuristic_reason: str = ""

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


def bench_compiler(
    accelerator: Accelerator,
    sets: Sequence[str] = ("resnet50", "gemm"),
    *,
    only: str | None = None,
    out: Path | None = None,
    memory: MainMemory | None = None,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Cycles of compiled layers on the RTL, against a bound and against Gemmini's default tiling.

    Args:
        accelerator: that is compiled for.
        sets (--set): resnet50, gemm; repeatable; by default both.
        only: layers whose name contains this text.
        out: folder for compiler-quality.md and compiler-quality.json.

    `memory` is its timing, by default with the accelerator's bandwidth; `progress` gets a line for each layer.

    Raises InputError for an unknown set or when nothing is left to run, BacoError when the two programs of a layer, or
    RTL and functional model, disagree, and whatever compiling and simulating raise.
    """
    layers = [one for one in layer_shapes(sets) if only is None or only in one.name]
    if not layers:
        raise InputError(f"no layer of {', '.join(sets)} is called like '{only}'")
    rows = []
    tools: dict[str, str] = {}
    for named in layers:
        row, tools = _row(named, accelerator, memory, progress)
        rows.append(row)
        against = f", {row.against:.3f} of the default tiling" if row.against else ""
        progress(f"{row.set} {row.layer}: {row.ours.cycles:,} cycles, {row.ratio:.3f} of the bound{against}")
    ratios = [row.against for row in rows if row.against]
    result = {
        "accelerator": accelerator.name,
        "config_hash": accelerator.config_hash,
        "tools": tools,
        "geometric_mean": geometric_mean([row.ratio for row in rows]),
        "worst_against_heuristic": max(ratios, default=None),
        "best_against_heuristic": min(ratios, default=None),
        "geometric_mean_against_heuristic": geometric_mean(ratios) if ratios else None,
        "layers": [
            asdict(row) | {"bound": row.bound, "ratio": row.ratio, "against": row.against} for row in rows
        ],
    }
    if out is not None:
        folder = output_folder(out)
        page = f"# Programs of the compiler on the RTL\n\n{report_text(result)}"
        atomic_write(folder / "compiler-quality.md", page)
        atomic_write(folder / "compiler-quality.json", json.dumps(result, indent=2, allow_nan=False) + "\n")
    return result


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))


def layer_program(
    layer: Layer, schedule: Schedule, accelerator: Accelerator, name: str = "layer", seed: int = 1
) -> Program:
    """A program of one layer on random tensors. Raises as `baco.compiler.styles.emit_layer` and `build_program`."""
    random = np.random.default_rng(seed)
    p = layer.problem
    buffers = [
        Buffer("input", (layer.input_extent,), "int8", data=_bytes(random, layer.input_extent)),
        Buffer(
            "weight", (layer.weight_extent,), "int8", "constant", data=_bytes(random, layer.weight_extent)
        ),
        Buffer("output", (layer.output_extent,), "int8" if layer.scale is not None else "int32", "output"),
    ]
    if layer.bias:
        values = random.integers(-4000, 4000, p.groups * p.K, dtype=np.int32)
        buffers.append(Buffer("bias", values.shape, "int32", "constant", data=values))
    if layer.residual_scale is not None:
        buffers.append(
            Buffer("residual", (layer.residual_extent,), "int8", data=_bytes(random, layer.residual_extent))
        )
    scratch = workspaces(layer, schedule, accelerator)
    buffers += [Buffer(label, (size,), "int8", "workspace") for label, size in scratch]
    e = Emitter(name, [one.name for one in buffers])
    address = dict(zip((one.name for one in buffers), e.arguments, strict=True))
    operands = Operands(
        address["input"],
        address["weight"],
        address["output"],
        address.get("bias", 0),
        address.get("residual", 0),
        {label: address[label] for label, _ in scratch},
    )
    emit_layer(e, layer, schedule, accelerator, operands)
    e.fence()
    return build_program(e.finish(), name, buffers, accelerator, slack_bytes=_slack(layer, accelerator))


def _slack(layer: Layer, accelerator: Accelerator) -> int:
    """LOOP_WS of other implementations fetches the last rows of B whole."""
    return 64 + accelerator.dim * layer.weight.pitch


def _bytes(random: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.int8]]:
    return random.integers(-128, 128, count, dtype=np.int8)


def _row(
    named: NamedLayer, accelerator: Accelerator, memory: MainMemory | None, progress: Progress
) -> tuple[Row, dict[str, str]]:
    layer = named.layer
    best = bound(layer, accelerator)
    ours, result = _measure(layer, None, accelerator, memory, progress)
    default, reason = None, ""
    for path in gemmini_paths(layer, accelerator):
        try:
            found, _ = _measure(layer, path, accelerator, memory, progress)
        except InfeasibleError as error:
            reason = str(error)
            continue
        if found.digest != ours.digest:
            raise BacoError(f"{named.name}: '{ours.schedule}' and '{found.schedule}' give different results")
        if default is None or found.cycles < default.cycles:
            default = found
    row = Row(
        named.set,
        named.name,
        layer.problem.macs,
        best.array_cycles,
        best.memory_cycles,
        ours,
        default,
        reason,
    )
    return row, result.tools


def _measure(
    layer: Layer,
    schedule: Schedule | None,
    accelerator: Accelerator,
    memory: MainMemory | None,
    progress: Progress,
) -> tuple[MeasuredProgram, Simulation]:
    start = time.perf_counter()
    schedule = schedule or choose(layer, accelerator)
    program = layer_program(layer, schedule, accelerator)
    seconds = time.perf_counter() - start
    expected, _ = run_program(program)
    outputs, result = run_program(program, engine="rtl", memory=memory, report=progress)
    if not np.array_equal(expected["output"], outputs["output"]):
        raise BacoError(f"RTL and functional model differ on '{schedule}'")
    if result.exit_code or result.cycles is None:
        raise BacoError(
            f"a program of '{schedule}' ended with exit code {result.exit_code}: {result.console[-500:]}"
        )
    moved = (result.dram_read_bytes or 0) + (result.dram_write_bytes or 0)
    counters = result.counters
    measured = MeasuredProgram(
        schedule=str(schedule),
        cycles=result.cycles,
        compile_seconds=seconds,
        dram_bytes=moved,
        array_cycles=counters["accelerator_mesh_cycles"],
        host_cycles=result.cycles - counters["accelerator_busy_cycles"],
        memory_cycles=counters["memory_channel_busy_cycles"],
        digest=_digest(outputs["output"]),
    )
    return measured, result


def _digest(array: np.ndarray[Any, Any]) -> str:
    import hashlib

    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def report_text(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    worst = result["worst_against_heuristic"]
    lines = [
        f"{result['accelerator']}: {len(result['layers'])} layers, cycles on the RTL over the bound:"
        f" {result['geometric_mean']:.3f} (geometric mean)."
        + (
            f" Over Gemmini's default tiling: {result['geometric_mean_against_heuristic']:.3f} (geometric mean),"
            f" {result['best_against_heuristic']:.3f} at best, {worst:.3f} at worst. The default tiling is the better of"
            " the paths of Gemmini's library: windows of one pixel as convolutions and, where they can be, as products."
            if worst
            else ""
        ),
        "",
        "The bound is the larger of two: weight-stationary passes (each at least 4 rows, one of them as long as the side"
        " of the array where new weights come in), and compulsory bytes at the memory's bandwidth. The remaining columns"
        " are cycles of our program: its array multiplies, waits while the accelerator is busy, or the accelerator is not;"
        " memory works beside that.",
        "",
        "| layer | bound by | bound | cycles | over bound | default tiling | over default | array | waits | idle | memory"
        " | compile s | schedule | default tiling's |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["layers"]:
        ours, default = row["ours"], row["heuristic"]
        what = "array" if row["array_bound"] >= row["memory_bound"] else "memory"
        theirs = f"{default['cycles']:,}" if default else row["heuristic_reason"]
        against = f"{row['against']:.3f}" if default else ""
        waits = ours["cycles"] - ours["array_cycles"] - ours["host_cycles"]
        lines.append(
            f"| {row['layer']} | {what} | {row['bound']:,.0f} | {ours['cycles']:,} | {row['ratio']:.3f} | {theirs}"
            f" | {against} | {ours['array_cycles']:,} | {waits:,} | {ours['host_cycles']:,} | {ours['memory_cycles']:,}"
            f" | {ours['compile_seconds']:.1f} | {ours['schedule']} | {default['schedule'] if default else ''} |"
        )
    versions = ", ".join(f"{name} {version}" for name, version in result["tools"].items())
    return "\n".join([*lines, "", f"Tools: {versions}."]) + "\n"
