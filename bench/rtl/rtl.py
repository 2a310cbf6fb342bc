"""`baco bench rtl`: everything about the RTL and its simulation that is measured, as plain values and as text."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import ResultFiles, Say, each, page_of, silent, table
from baco.bench.rtl.facts import FACTS, measure
from baco.bench.rtl.layers import Matmul, PlainConvolution
from baco.bench.rtl.probe import Probe
from baco.bench.rtl.speed import cycle_costs, shares, timed_build, timed_layer, timed_program
from baco.common.errors import InputError
from baco.common.scratch import scratch_folder
from baco.compiler.choice.gemmini import gemmini_matmul_tile
from baco.sim.job import MainMemory

#: Sides of the arrays measured by default, and the cycles a second that a simulation should reach.
DIMS = (16, 32)
TARGETS = {16: 300_000, 32: 80_000}
#: Timing facts are measured on the original's default configuration.
FACTS_DIM = 16
_SIZE = 512


@dataclass(frozen=True)
class _Case:
    """A layer that is run, with the bandwidth of memory (None: the accelerator's)."""

    layer: Matmul | PlainConvolution
    what: str
    bytes_per_cycle: float | None = None


def run(
    dims: Sequence[int] = DIMS,
    *,
    build: bool = True,
    facts: bool = True,
    out: Path | None = None,
    say: Say = silent,
) -> dict[str, Any]:
    """Simulation speed, use of the array, build time, and how the RTL's timing compares with the original's.

    Args:
        dims (--dim): side of the array; repeatable; by default 16 and 32.
        build: build every simulator anew, in an empty cache, and time that; otherwise the user's cache is used.
        facts: also measure single timing facts (at dim 16).
        out: folder for rtl-timing.md and rtl-bench.json.

    Raises InputError for a side that is no benchmark, and whatever building and simulating raise.
    """
    for dim in dims:
        if dim not in _TILES:
            raise InputError(f"no benchmark for dim {dim}", hint=f"there are: {', '.join(map(str, _TILES))}")
    files = ResultFiles(out, "rtl-bench", page, "rtl-timing")
    result: dict[str, Any] = {"processor": platform.machine(), "arrays": []}
    for dim in dims:
        accelerator = benchmark_accelerator(dim)
        with scratch_folder() as scratch:
            seconds, program = None, None
            if build:
                say(f"dim {dim}: building")
                program, seconds = timed_build(accelerator, scratch, say)
            probe = Probe(accelerator, say, program)
            result["tools"] = probe.tools.versions
            result["arrays"].append(_array(probe, seconds, say))
            if facts and dim == FACTS_DIM:
                result["facts"] = [one.to_dict() for one in measure(FACTS, probe, say)]
    files.keep(result)
    return result


def benchmark_accelerator(dim: int) -> Accelerator:
    """The preset of that side, or the default one with another array and at least as many rows of local memory."""
    if dim == 16:
        return load_accelerator("gemmini-default")
    if dim == 32:
        return load_accelerator("gemmini-large")
    scale = max(1, dim // 16)
    return load_accelerator("gemmini-default").replace(
        name=f"gemmini-default-{dim}", dim=dim, scratchpad_kib=256 * scale, accumulator_kib=64 * scale
    )


#: Tiles of the product in blocks, for each side: halves of the local memories are filled.
_TILES = {4: (16, 32, 32), 8: (8, 16, 32), 16: (4, 8, 32), 32: (4, 4, 16), 64: (2, 4, 8)}


def _cases(accelerator: Accelerator) -> list[_Case]:
    """The first is the product that the speed is measured with."""
    dim = accelerator.dim
    size = _SIZE if dim >= 16 else _SIZE // 4
    best = tuple(min(n, size // dim) for n in _TILES[dim])
    product = Matmul(size, size, size, (best[0], best[1], best[2]))
    cases = [_Case(product, "tile of ours")]
    if dim < 16:
        return cases
    gemmini = Matmul(size, size, size, gemmini_matmul_tile(accelerator, size, size, size))
    cases.append(_Case(gemmini, "tile of Gemmini's library"))
    if dim > 16:
        return [*cases, _Case(product, "memory as fast as the bus", accelerator.dma_bits / 8)]
    for rows, cols, inner in ((128, 512, 512), (512, 64, 512), (3136, 64, 64)):
        tile = gemmini_matmul_tile(accelerator, rows, cols, inner)
        cases.append(_Case(Matmul(rows, cols, inner, tile), "tile of Gemmini's library"))
    cases.append(
        _Case(
            PlainConvolution(1, 56, 64, 64, (1, 8, 56, 16)), "tile of ours: images, rows, columns, channels"
        )
    )
    cases.append(_Case(PlainConvolution(4, 56, 64, 64, (4, 8, 16, 16)), "tile of Gemmini's library"))
    return cases


def _array(probe: Probe, seconds: dict[str, float] | None, say: Say) -> dict[str, Any]:
    accelerator = probe.accelerator
    cases = _cases(accelerator)
    found: list[dict[str, Any]] = []
    speed: dict[str, Any] = {}
    for n, case in enumerate(cases):
        layer = case.layer.layer(accelerator)
        say(f"dim {accelerator.dim}: {layer.name} in tiles of {layer.tile}")
        memory = MainMemory(bytes_per_cycle=case.bytes_per_cycle)
        run = timed_layer(probe, layer, memory, repeats=2 if n == 0 else 1)
        found.append({"layer": layer.name, "tile": layer.tile, "what": case.what, "by": "stream",
                      "memory_bytes_per_cycle": case.bytes_per_cycle or accelerator.dram_bytes_per_cycle} | run.to_dict())  # fmt: skip
        if n:
            continue
        costs = cycle_costs(probe, lambda what: say(f"dim {accelerator.dim}: {what}"))
        speed = {
            "cycles_per_cpu_s": run.cycles / run.cpu_seconds,
            "cycles_per_wall_s": run.cycles / run.result.wall_seconds,
            "target": TARGETS.get(accelerator.dim),
            "nanoseconds_per_cycle": costs,
            "shares": shares(costs, run),
        }
        if isinstance(case.layer, Matmul):
            say(f"dim {accelerator.dim}: {layer.name} as a program")
            program = timed_program(probe, case.layer, memory)
            found.append(found[0] | {"by": "RISC-V program"} | program.to_dict())
    return {
        "accelerator": accelerator.name,
        "dim": accelerator.dim,
        "speed": speed,
        "layers": found,
        "build": seconds,
    }


def page(result: dict[str, Any]) -> str:
    """Speed, utilisation and build time of every array, and the timing facts; `worse` stands out."""
    versions = ", ".join(f"{name} {version}" for name, version in result["tools"].items())
    return page_of(
        "Speed and timing of the RTL",
        *(_array_text(array) for array in result["arrays"]),
        _facts_text(result["facts"]) if "facts" in result else "",
        f"Tools: {versions}; processor: {result['processor']}.",
    )


def _array_text(array: dict[str, Any]) -> str:
    speed, build = array["speed"], array["build"]
    target = f" (target {speed['target']:,})" if speed["target"] else ""
    costs = each(speed["nanoseconds_per_cycle"], lambda value, _: f"{value:,.0f}")
    shares_text = ", ".join(f"{name} {value:.0%}" for name, value in speed["shares"].items())
    built = (
        f"Build: {build['cold_s']:.1f} s cold ({build['cold_cpu_s']:.1f} s of processor time), {build['warm_s']:.2f} s from the"
        f" cache; {build['shared_s']:.1f} s once for what all simulators share."
        if build
        else ""
    )
    parts = [
        f"## {array['accelerator']}, dim {array['dim']}",
        f"{array['layers'][0]['layer']}: {speed['cycles_per_cpu_s']:,.0f} cycles a second of processor time{target},"
        f" {speed['cycles_per_wall_s']:,.0f} a second of wall time.",
        table(["ns per simulated cycle"], {"": str, **costs}),
        f"Where the time of that run goes: {shares_text}.",
        built,
        table(
            array["layers"],
            {
                "layer": lambda row: row["layer"],
                "tile, blocks": lambda row: f"{row['tile']} ({row['what']})",
                "by": lambda row: row["by"],
                "memory, B/cycle": lambda row: f"{row['memory_bytes_per_cycle']:g}",
                "used": lambda row: f"{row['dram_bytes_per_cycle']:.1f}",
                "cycles": lambda row: f"{row['cycles']:,}",
                "utilisation": lambda row: f"{row['utilisation']:.2%}",
            },
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _facts_text(facts: Sequence[dict[str, Any]]) -> str:
    verdicts = Counter(fact["verdict"] for fact in facts)
    counts = ", ".join(f"{verdicts[name]} {name}" for name in ("reproduced", "beaten", "worse"))
    rows = table(
        facts,
        {
            "what": lambda fact: fact["what"],
            "section": lambda fact: fact["section"],
            "original": lambda fact: f"{fact['original']:g}",
            "ours": lambda fact: f"{fact['ours']:g}",
            "unit": lambda fact: fact["unit"],
            "verdict": lambda fact: "**worse**" if fact["verdict"] == "worse" else fact["verdict"],
            "note": lambda fact: fact["note"],
        },
    )
    return (
        f"## Single timing facts at dim {FACTS_DIM}\n\nOriginal: figures read from Gemmini's sources, most of them derived, none"
        f" measured. {counts}.\n\n{rows}"
    )
