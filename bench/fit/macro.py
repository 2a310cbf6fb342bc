"""Fits the constants of the macros' cycles: `python -m baco.bench.fit.macro [SET ...]`.

One constant after the other is tried at factors of its value, coarse to fine, for the least mean of absolute, root mean
square and mean logarithmic errors of the cycles, every measured set and each of the two macros counting the same.
Deterministic.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import baco.compiler.styles.macros
from baco.accel.config import Accelerator
from baco.bench.fit.fitting import by_factors, error_text, write_entry
from baco.bench.sets.dataset import Dataset, read_dataset
from baco.common.portable import Floats
from baco.compiler.analysis.arrays import NUMPY
from baco.compiler.analysis.traffic import MachineRates
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.macros.cycles import (
    ConvTile,
    MacroConstants,
    MacroLayer,
    ProductTile,
    macro_runs,
)
from baco.compiler.styles.macros.estimate import macro_numbers

_Numbers = TypeVar("_Numbers", MachineRates, MacroLayer, ProductTile, ConvTile)
#: Sets that the committed constants come from; neither shares a shape or an accelerator with the test set.
SETS = ("micro", "train")
#: What the fit starts from, and its pull towards it: most constants have little to do with most rows.
_START = {
    "start": 160.0, "change": 8.0, "host_ws": 77.5, "host_conv": 59.0, "pass_latency": 15.0, "join_ws": 0.11,
    "power_ws": 6.6, "join_conv": 0.22, "power_conv": 4.5, "slot_ws": 25.0, "slot_conv": 53.0, "slot_side": 3.2,
    "switch": 0.3, "switch_stride": 0.7, "reload": 30.0, "write_delay": 0.9, "drain": 0.0, "drain_hidden": 0.0,
}  # fmt: skip
_PULL = 0.003
_FACTORS = ((0.5, 2.0), (0.7, 1.4), (0.85, 1.18), (0.93, 1.07), (0.97, 1.03))


@dataclass(frozen=True)
class MacroSample:
    """Rows of one macro: what their cycles depend on, stacked, the cycles measured, and those of them that are known to pass
    beside the macro."""

    machine: MachineRates
    layer: MacroLayer
    tile: ProductTile | ConvTile
    cycles: Floats
    before: Floats | float = 0.0

    def errors(self, constants: MacroConstants) -> Floats:
        """Relative errors of the predicted cycles."""
        found = macro_runs(NUMPY, self.machine, self.layer, self.tile, constants)
        return np.asarray((found.total + self.before) / self.cycles - 1)


def samples_of(data: Dataset) -> dict[str, MacroSample]:
    """The rows of a set that macros carried out, by macro."""
    found = {}
    for kind, name in ((LoopWsSchedule, "loop_ws"), (LoopConvSchedule, "loop_conv")):
        rows = {n: schedule for n, schedule in enumerate(data.schedules) if isinstance(schedule, kind)}
        if not rows:
            continue
        layers, accelerators = [data.layers[n] for n in rows], [data.accelerators[n] for n in rows]
        found[name] = macro_sample(
            layers, list(rows.values()), accelerators, np.asarray(data.cycles)[list(rows)]
        )
    return found


def macro_sample(
    layers: Sequence[Layer],
    schedules: Sequence[LoopWsSchedule | LoopConvSchedule],
    accelerators: Sequence[Accelerator],
    cycles: Floats,
    before: Floats | float = 0.0,
) -> MacroSample:
    """Rows of one macro, one entry each, on accelerators of one timing."""
    pairs = [macro_numbers(*row) for row in zip(layers, schedules, accelerators, strict=True)]
    return MacroSample(
        _stacked([MachineRates.of(one) for one in accelerators]),
        _stacked([pair[0] for pair in pairs]),
        _stacked([pair[1] for pair in pairs]),  # type: ignore[type-var]
        cycles,
        before,
    )


def _stacked(rows: Sequence[_Numbers]) -> _Numbers:
    """One object of arrays from many of numbers."""
    names = [f.name for f in fields(rows[0]) if f.name != "timing"]
    columns: dict[str, Any] = {name: np.array([float(getattr(row, name)) for row in rows]) for name in names}
    return replace(rows[0], **columns)


def fit_macro(
    samples: Sequence[MacroSample], start: MacroConstants | None = None, pull: float = _PULL
) -> MacroConstants:
    """The constants that fit some samples best, every sample counting the same.

    Args:
        start: what the fit begins from; constants that are 0 there stay so.
        pull: towards that.
    """
    start = start or MacroConstants(**_START)

    def objective(values: dict[str, float]) -> float:
        return _objective(samples, MacroConstants(**values), start, pull)

    return MacroConstants(**by_factors(asdict(start), _FACTORS, objective))


def _objective(
    samples: Sequence[MacroSample], constants: MacroConstants, start: MacroConstants, strength: float
) -> float:
    total = 0.0
    for sample in samples:
        errors = np.log1p(sample.errors(constants))
        total += np.abs(errors).mean() + 0.3 * np.sqrt((errors**2).mean()) + 0.5 * abs(errors.mean())
    pull = sum(
        np.log(getattr(constants, name) / value) ** 2 for name, value in asdict(start).items() if value > 0
    )
    return float(total / len(samples) + strength * pull)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print residual errors and write `constants.json` of `baco.compiler.styles.macros`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sets", nargs="*", default=SETS, help="measured sets or files")
    place = Path(baco.compiler.styles.macros.__file__).with_name("constants.json")
    parser.add_argument("--out", type=Path, default=place)
    options = parser.parse_args(arguments)
    samples = {
        f"{name} {kind}": sample
        for name in options.sets
        for kind, sample in samples_of(read_dataset(name)).items()
    }
    found = fit_macro(list(samples.values()))
    for name, sample in samples.items():
        errors = sample.errors(found)
        print(f"{name}: {len(errors)} rows; {error_text(errors)}")
    write_entry(options.out, "baco", asdict(found))
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
