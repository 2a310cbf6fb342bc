"""Fits the constants of the instruction-aware model: `python -m baco.bench.fit.explicit [SET ...]`.

Two steps, both deterministic. First what each piece of code costs the host core: cycles in which it neither waits for
the accelerator to accept a command nor in a fence, as the simulator counts them, are a sum of counts
(`host.HOST_FEATURES`) times constants that are not negative, by least squares of the relative error with a weak pull
towards the number of instructions. Then the few constants of timing (`model.TIMING`), one after the other over factors of
their value, for the least mean of absolute and squared logarithmic errors of the cycles.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import nnls

from baco.bench.fit.fitting import by_factors, error_text, rounded, write_entry
from baco.bench.sets.dataset import Dataset, read_dataset
from baco.common.portable import Floats
from baco.compiler import latency
from baco.compiler.latency.arrays import TensorArrays
from baco.compiler.latency.batch import HardwareBatch, LayerBatch
from baco.compiler.latency.commands import Commands, count_commands
from baco.compiler.latency.host import HOST_FEATURES, host_features
from baco.compiler.latency.model import TIMING, BusyCycles, Constants, explicit_latency, joined, measure_work
from baco.compiler.latency.tiling import BatchTiling, make_tiling
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.styles.macros.estimate import expansion_cycles
from baco.compiler.styles.packed import packed_layer

#: Sets that the committed constants come from; neither shares a shape or an accelerator with the test set.
SETS = ("micro", "train", "packed")
#: Pull of the host's constants to their instruction counts, and rounds in which outliers lose weight.
_PULL, _ROUNDS = 0.003, 8
#: Relative error from which on a row counts less.
_OUTLIER = 0.08
#: Cycles below which relative errors say little.
_LEAST_HOST_CYCLES = 200.0
#: Factors by which a constant is tried, coarse to fine.
_FACTORS = ((0.25, 0.5, 2.0, 4.0), (0.7, 1.4), (0.85, 1.18), (0.93, 1.07), (0.97, 1.03))


@dataclass(frozen=True)
class ExplicitRows:
    """Rows of a set in explicit code.

    Attributes:
        tiling, commands: of each row.
        cycles: measured.
        host_cycles: those in which the host core worked.
        before: those that the expansion of weights is predicted to take, where several groups run at once, part of both.
    """

    tiling: BatchTiling
    commands: Commands
    cycles: Floats
    host_cycles: Floats
    before: Floats


def sample_of(data: Dataset) -> ExplicitRows:
    """What the explicit rows of a set say."""
    rows = data.where([row.style in ("explicit", "packed") for row in data.rows])
    layers, before = [], []
    for layer, schedule in zip(rows.layers, rows.schedules, strict=True):
        packed = schedule.groups_at_once
        layers.append(packed_layer(layer, packed) if packed > 1 else layer)
        before.append(expansion_cycles(layer, packed) if packed > 1 else 0.0)
    tiling = make_tiling(
        LayerBatch.of(layers),
        MappingBatch.of(rows.mappings),
        HardwareBatch.of(rows.accelerators),
        TensorArrays(),
    )
    # cycles count from the first command on, the program's from reset; waiting is no work
    waiting = rows.numbers("host_stall_command") + rows.numbers("host_stall_fence")
    host = np.maximum(rows.cycles - waiting, _LEAST_HOST_CYCLES)
    return ExplicitRows(tiling, count_commands(tiling), rows.cycles, host, np.array(before))


def fit(
    samples: Sequence[ExplicitRows],
    *,
    timing: bool = True,
    start: Constants | None = None,
    pull: float = _PULL,
) -> Constants:
    """The constants that fit some samples best, every row counting the same.

    Args:
        timing: fit the constants of timing, too.
        start: what both fits begin from; by default numbers of instructions and `TIMING`.
        pull: of the host's constants to those.
    """
    start = start or Constants(HOST_FEATURES, TIMING)
    features = np.concatenate(
        [np.stack(host_features(sample.tiling, sample.commands)) for sample in samples], axis=1
    )
    host = np.concatenate([sample.host_cycles for sample in samples])
    before = np.concatenate([sample.before for sample in samples])
    begin = np.array([start.host[name] for name in HOST_FEATURES])
    costs = _host_costs(features, host, before, begin, pull)
    found = {name: rounded(cost) for name, cost in zip(HOST_FEATURES, costs, strict=True)}
    work = [
        measure_work(sample.tiling, sample.commands, Constants(found, start.timing)) for sample in samples
    ]
    factors = _FACTORS if timing else ()
    return Constants(
        found, by_factors(start.timing, factors, lambda timing: _objective(samples, work, timing))
    )


def _host_costs(features: Floats, cycles: Floats, before: Floats, start: Floats, strength: float) -> Floats:
    """Non-negative costs by feature, near `start`, of cycles of which some are known."""
    known = before / cycles
    share = (features * start[:, None] / cycles).T
    weight = np.ones(len(cycles))
    scale = np.ones(len(start))
    pull = strength * len(cycles) / len(start)
    for _ in range(_ROUNDS):
        weighted = share * weight[:, None]
        rows = np.vstack([weighted, pull**0.5 * np.eye(len(start))])
        target = np.concatenate([weight * (1 - known), np.full(len(start), pull**0.5)])
        scale, _ = nnls(rows, target)
        error = np.abs(share @ scale + known - 1)
        weight = 1 / np.sqrt(np.maximum(error / _OUTLIER, 1.0))
    # outliers lie on one side: without this the mean error would not be 0
    found: Floats = scale * start * (1 - known).mean() / (share @ scale).mean()
    return found


def _objective(
    samples: Sequence[ExplicitRows], work: Sequence[BusyCycles], timing: dict[str, float]
) -> float:
    """Mean absolute and root mean square logarithmic error of all rows."""
    errors = []
    with torch.no_grad():
        for one, busy in zip(samples, work, strict=True):
            predicted = joined(one.tiling, one.commands, busy, timing).cycles.numpy() + one.before
            errors.append(np.log(predicted / one.cycles))
    every = np.concatenate(errors)
    return float(np.abs(every).mean() + 0.5 * np.sqrt((every**2).mean()))


def report(name: str, sample: ExplicitRows, constants: Constants) -> str:
    """A line with the errors of host and total cycles."""
    features = np.stack(host_features(sample.tiling, sample.commands))
    host = np.array(list(constants.host.values())) @ features + sample.before
    host = host / sample.host_cycles - 1
    with torch.no_grad():
        predicted = explicit_latency(sample.tiling, sample.commands, constants).cycles.numpy()
    errors = np.asarray((predicted + sample.before) / sample.cycles - 1)
    return f"{name}: {len(errors)} rows; host {error_text(host)}; cycles {error_text(errors)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print residual errors and write `constants.json`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=SETS, help="measured sets or files")
    parser.add_argument("--out", type=Path, default=Path(latency.__file__).with_name("constants.json"))
    parser.add_argument("--rough", action="store_true", help="leave the constants of timing as they are")
    options = parser.parse_args(arguments)
    samples = {name: sample_of(read_dataset(name)) for name in options.sets}
    found = fit(list(samples.values()), timing=not options.rough)
    for name, sample in samples.items():
        print(report(name, sample, found))
    rows = {name: len(sample.cycles) for name, sample in samples.items()}
    write_entry(options.out, "baco", {"sets": rows, "host": found.host, "timing": found.timing})
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
