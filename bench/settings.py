"""What settings of an accelerator beside its sizes do to cycles, predicted and measured: `python -m baco.bench.settings`.

Layers run as the compiler maps them to one accelerator, on that and on accelerators that differ from it in one setting. The
model of cycles is to go the measured way wherever that is more than a percent, and a setting that moves nothing by a percent
need not be searched. A simulator is built for every accelerator, which takes most of the time (about an hour of one core).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import Say, each, plain, silent, table
from baco.common.errors import BacoError
from baco.common.files import atomic_write
from baco.compiler.choice.choose import AllowedStyles, choices
from baco.compiler.latency import schedule_cycles
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.exploration.measure.layer import measure_layer
from baco.workloads.problem import Problem

#: What is changed, one at a time. Bandwidths are in bytes a cycle.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "dma_bits": (32, 64, 128, 256),
    "dma_max_bytes": (16, 32, 64, 128),
    "dma_requests": (1, 2, 4, 8, 16, 32),
    "dram_bytes_per_cycle": (4.0, 8.0, 16.0, 32.0),
    "load_entries": (2, 4, 8, 16),
    "execute_entries": (4, 8, 16, 32),
    "store_entries": (1, 2, 4, 8),
    "load_queue": (1, 8),
    "execute_queue": (3, 8),
    "store_queue": (1, 2, 8),
    "scratchpad_banks": (2, 4, 8),
    "accumulator_banks": (1, 2, 4),
    "scale_lanes": (1, 2, 4, 8, 128),
}


def machine() -> Accelerator:
    """What the settings are changed of: the default, with a memory as fast as its port."""
    return load_accelerator("gemmini-default").replace(dram_bytes_per_cycle=16.0)


def layers() -> dict[str, Layer]:
    """Small layers: bound by the array, by memory, by stores, and by commands."""
    return {
        "convolution 3x3": Layer(Problem(R=3, S=3, P=14, Q=14, C=64, K=64), scale=2**-8, padding=(0, 0)),
        "convolution 1x1": Layer(Problem(R=1, S=1, P=28, Q=28, C=64, K=128), scale=2**-8),
        "product": Layer(Problem(R=1, S=1, P=64, Q=1, C=256, K=256), scale=2**-8),
        "residual": Layer(Problem(R=1, S=1, P=28, Q=28, C=16, K=128), scale=2**-5, residual_scale=2**-1),
        "vector": Layer(Problem(R=1, S=1, P=1, Q=1, C=512, K=512), scale=2**-8),
    }


@dataclass(frozen=True)
class SettingCycles:
    """Cycles of one layer in one code style with one value of one setting."""

    layer: str
    style: AllowedStyles
    setting: str
    value: float
    predicted: float
    measured: float


def measured(settings: Iterable[str] = SETTINGS, say: Say = silent) -> list[SettingCycles]:
    """Cycles of all layers with all values of the settings. Raises BacoError for an output that is wrong."""
    base, found = machine(), []
    plans: list[tuple[str, AllowedStyles, Layer, Schedule]] = []
    for name, layer in layers().items():
        for style in ("macro", "explicit"):
            plans.append((name, style, layer, choices(layer, base, style=style)[0].schedule))  # type: ignore[arg-type]
    for setting in settings:
        for value in SETTINGS[setting]:
            accelerator = base.replace(**{setting: value})
            for name, style, layer, schedule in plans:
                result = measure_layer(layer, schedule, accelerator)
                if result.status != "measured":
                    raise BacoError(f"{name}, {style}, {setting} {value}: {result.reason}")
                predicted = schedule_cycles(layer, schedule, accelerator)
                found.append(
                    SettingCycles(name, style, setting, float(value), predicted, float(result.cycles))
                )
                say(f"{name}, {style}, {setting} {value:g}: {predicted:,.0f}, {result.cycles:,}")
    return found


def summary(rows: Sequence[SettingCycles]) -> list[dict[str, Any]]:
    """Of every setting: what its values change measured cycles by at most, the error of predictions, and how often the
    prediction goes the other way where the measurement moves by more than a percent."""
    found = []
    for setting in dict.fromkeys(row.setting for row in rows):
        mine = [row for row in rows if row.setting == setting]
        default = float(getattr(machine(), setting))
        base = {(row.layer, row.style): row for row in mine if row.value == default}
        moves = []
        for row in mine:
            before = base[row.layer, row.style]
            moves.append((row.measured / before.measured - 1, row.predicted / before.predicted - 1))
        errors = [abs(row.predicted / row.measured - 1) for row in mine]
        found.append(
            {
                "setting": setting,
                "fastest": min(seen for seen, _ in moves),
                "slowest": max(seen for seen, _ in moves),
                "mean_error": sum(errors) / len(errors),
                "largest_error": max(errors),
                "moves": sum(abs(seen) > 0.01 for seen, _ in moves),
                "wrong_way": sum(abs(seen) > 0.01 and seen * said < 0 for seen, said in moves),
                "not_seen": sum(abs(seen) > 0.01 and abs(said) < 0.001 for seen, said in moves),
            }
        )
    return found


def page(rows: Sequence[SettingCycles]) -> str:
    """A table for people."""
    percent = {"fastest": "fastest", "slowest": "slowest", "error": "mean_error", "at most": "largest_error"}
    counts = {"moves": "moves", "wrong way": "wrong_way", "not seen": "not_seen"}
    return table(
        summary(rows),
        {
            "setting": lambda line: line["setting"],
            **each(percent, lambda name, line: f"{line[name]:+.1%}"),
            **each(counts, lambda name, line: line[name]),
        },
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write a report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", choices=[*SETTINGS, []], help="all by default")
    parser.add_argument("--out", type=Path, default=Path("results/settings.json"))
    options = parser.parse_args(arguments)
    rows = measured(options.settings or SETTINGS, print)
    content = {"machine": "gemmini-default, 16 bytes a cycle", "rows": plain(rows), "summary": summary(rows)}
    atomic_write(options.out, json.dumps(content, indent=1) + "\n")
    print(page(rows))


if __name__ == "__main__":
    main()
