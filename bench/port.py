"""Cycles of layers where main memory outruns the memory port, as it does at slow clocks: predicted, and on the RTL, beside the same
programs with a memory that is slower than the port."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, page_of, silent, table
from baco.common.errors import BacoError
from baco.compiler.choice.choose import choices
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.exploration.measure.layer import measure_layer
from baco.exploration.space import in_technology, load_space
from baco.workloads.problem import Problem

#: A technology whose clock is slow beside main memory.
SLOW = "ihp-sg13g2"
_SCALE = 2**-8
#: Bound by what they read, by what they write, and by the array, with all that tiles may begin with.
LAYERS = {
    "stores": Layer(Problem(P=784, C=16, K=128), scale=_SCALE),
    "stores, convolution": Layer(Problem(R=1, S=1, P=28, Q=28, C=16, K=128), scale=_SCALE),
    "loads": Layer(Problem(P=32, C=512, K=256), scale=_SCALE),
    "loads, bias": Layer(Problem(P=49, C=256, K=512), bias=True, scale=_SCALE),
    "stores, bias": Layer(Problem(P=196, C=32, K=256), bias=True, scale=_SCALE),
    "convolution 3x3": Layer(Problem(R=3, S=3, P=14, Q=14, C=64, K=64), scale=_SCALE, padding=(0, 0)),
    "vector": Layer(Problem(C=512, K=512), scale=_SCALE),
    "residual": Layer(Problem(P=196, C=32, K=128), residual_scale=1.0, scale=_SCALE),
    "raw sums": Layer(Problem(P=128, C=64, K=128)),
}


def run(
    layers: Sequence[str] = tuple(LAYERS), *, out: Path = FOLDER, say: Say = silent
) -> list[dict[str, Any]]:
    """Run layers on the default machine with main memory as it is and as many bytes a cycle as at the clock of a slow technology.

    Args:
        layers (--layer): repeatable; by default all.
        out: folder for port.md and .json.

    Raises BacoError for an output that is wrong.
    """
    files, base = ResultFiles(out, "port", page), load_accelerator("gemmini-default")
    fast = round(in_technology(load_space("gemmini"), SLOW).base.dram_bytes_per_cycle, 1)
    rows: list[dict[str, Any]] = []
    for name, style in itertools.product(layers, ("macro", "explicit")):
        chosen = choices(LAYERS[name], base, best=3, style=style)  # type: ignore[arg-type]
        # some ways to write code end in the same program
        for text, schedule in {str(choice.schedule): choice.schedule for choice in chosen}.items():
            row: dict[str, Any] = {"layer": name, "style": style, "schedule": text}
            for kind, width in (("slow", base.dram_bytes_per_cycle), ("fast", fast)):
                machine = base.replace(dram_bytes_per_cycle=width)
                result = measure_layer(LAYERS[name], schedule, machine)
                if result.status != "measured":
                    raise BacoError(f"{name}, {style}, {width} bytes a cycle: {result.reason}")
                predicted = schedule_cycles(LAYERS[name], schedule, machine)
                row[kind] = {"bytes": width, "predicted": predicted, "measured": result.cycles}
            rows.append(row)
            say(f"{name}, {row['schedule']}: {row['fast']['predicted']:,.0f}, {row['fast']['measured']:,}")
            files.keep(rows)
    return rows


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each program, and errors of both memories."""
    kinds = ("slow", "fast")
    errors = {kind: [row[kind]["predicted"] / row[kind]["measured"] - 1 for row in rows] for kind in kinds}
    first = rows[0]

    def told(kind: str) -> str:
        sizes = [abs(error) for error in errors[kind]]
        mean, bias = sum(sizes) / len(sizes), sum(errors[kind]) / len(sizes)
        return f"{first[kind]['bytes']:g} bytes a cycle: {mean:.1%} off in the mean, {max(sizes):.1%} at worst, bias {bias:+.1%}"

    columns: dict[str, Any] = {"layer": lambda row: row["layer"], "program": lambda row: row["schedule"]}
    for kind in kinds:
        title = f"at {first[kind]['bytes']:g} bytes a cycle"
        columns[f"predicted {title}"] = lambda row, kind=kind: f"{row[kind]['predicted']:,.0f}"
        columns[f"measured {title}"] = lambda row, kind=kind: f"{row[kind]['measured']:,}"
    return page_of(
        "Where main memory outruns the memory port",
        f"`gemmini-default`, whose port moves 16 bytes a cycle each way, with its own memory and with one that has as many bytes a cycle as"
        f" at the clock that `{SLOW}` closes at; the same {len(rows)} programs of {len({row['layer'] for row in rows})} layers, cycles, every"
        " output compared.",
        "\n".join(f"* {told(kind)}." for kind in kinds),
        table(rows, columns),
    )
