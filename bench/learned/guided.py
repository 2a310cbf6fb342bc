"""Tuning with few measurements: a learned model alone, the analytical one alone, and one pre-trained on the other (ALCOP, 5.5.3).

Spaces are the measured set `ranking`: schedules of a layer on an accelerator, with cycles of the RTL. Trials are measurements.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, each, over_seeds, page_of, silent, table
from baco.bench.learned.measured_set import measured_set
from baco.bench.learned.trees import grow
from baco.bench.sets.dataset import read_dataset
from baco.common import portable
from baco.exploration.cost.learned.boosting import Booster, BoostingOptions
from baco.exploration.cost.learned.protocol import Floats

#: What is known of a schedule without asking the analytical model: features up to this one.
_LAST = "intensity"
#: Trees that have seen a space's predictions, and those that learn from measurements: few rows each.
_BEFORE = BoostingOptions("squared", trees=80, depth=4, rate=0.2, least=1, columns=0.5, penalty=0.1)
_MEASURED = BoostingOptions("squared", trees=25, depth=3, rate=0.2, least=1, columns=0.5, penalty=1.0)
#: Random trials of a model that knows nothing yet, and how often any model tries something at random.
_BEGIN, _RANDOM = 2, 0.05
METHODS = ("random", "learned", "analytical", "analytical + learned")
#: Trials after which methods are compared: of a space by itself, and of all operators of an accelerator together.
_ALONE, _TOGETHER = (1, 2, 5, 10), (10, 50)


@dataclass(frozen=True)
class TrialSpace:
    """Schedules that are compared, B in all.

    Attributes:
        name: of the space.
        features: (B, F) known of schedules, layers and accelerators before anything is measured or predicted.
        predicted, measured: (B,) cycles of the analytical model, and of the RTL.
        operators: (B,) the number of each row's operator.
    """

    name: str
    features: Floats
    predicted: Floats
    measured: Floats
    operators: NDArray[np.int64]


class _Model:
    """Logarithms of cycles of a space's schedules, learned from those measured."""

    def __init__(self, space: TrialSpace, seed: int, *, guided: bool) -> None:
        self.space, self.seed = space, seed
        self.before = np.zeros(len(space.measured))
        if guided:
            self.before = self._learned(_BEFORE, slice(None), portable.log(space.predicted))

    def costs(self, rows: list[int]) -> Floats:
        """(B,) from measured rows: trees that go on from what was there before."""
        if not rows:
            return self.before
        left = portable.log(self.space.measured[rows]) - self.before[rows]
        return self.before + self._learned(_MEASURED, rows, left)

    def _learned(self, options: BoostingOptions, rows: list[int] | slice, y: Floats) -> Floats:
        booster = Booster(options)
        grow(booster, self.space.features[rows], y, self.seed)
        return booster.predict(self.space.features)


def tune(space: TrialSpace, method: str, trials: int, seed: int) -> list[int]:
    """Rows of a space in the order in which a method measures them, `trials` of them."""
    return _trials(space, method, trials, seed, [np.arange(len(space.measured))])[0]


def tune_together(space: TrialSpace, method: str, trials: int, seed: int) -> float:
    """The mean, over the operators of a space, of the least cycles over those of the schedule that is built after so many trials
    of all operators in turn, with one model for all: the best measured one, or the best one predicted where none was."""
    each = [np.flatnonzero(space.operators == one) for one in np.unique(space.operators)]
    rows, costs = _trials(space, method, trials, seed, each)
    found = []
    for own in each:
        tried = [row for row in rows if row in own]
        built = min(tried, key=lambda row: space.measured[row]) if tried else own[np.argmin(costs[own])]
        found.append(space.measured[own].min() / space.measured[built])
    return float(np.mean(found))


def _trials(
    space: TrialSpace, method: str, trials: int, seed: int, each: Sequence[NDArray[np.int64]]
) -> tuple[list[int], Floats]:
    """Rows measured, one of each operator in turn, and (B,) what decides between rows after the last."""
    drawn = np.random.default_rng(seed)
    order = drawn.permutation(len(each))
    rows: list[int] = []
    model = None
    if method in ("learned", "analytical + learned"):
        model = _Model(space, seed, guided=method != "learned")
    costs = space.predicted if method == "analytical" else drawn.random(len(space.measured))
    for trial in range(trials):
        blind = method == "random" or (method == "learned" and trial < _BEGIN)
        if model is not None and not blind:
            costs = model.costs(rows)
        own = each[order[trial % len(each)]]
        left = own[~np.isin(own, rows)]
        if not len(left):
            continue
        wander = method != "analytical" and rows and drawn.random() < _RANDOM
        rows.append(int(drawn.choice(left)) if blind or wander else int(left[np.argmin(costs[left])]))
    return rows, costs if model is None else model.costs(rows)


def _spaces() -> tuple[list[TrialSpace], list[TrialSpace]]:
    """A space for each layer on its accelerator, and one for each accelerator with all of its layers."""
    data = measured_set(read_dataset("ranking"))
    known = data.features.flat[:, : data.features.names.index(_LAST) + 1]
    known = known[:, np.ptp(np.nan_to_num(known), axis=0) > 0]

    def spaces(groups: NDArray[np.int64]) -> list[TrialSpace]:
        return [
            TrialSpace(str(one), known[rows], data.predicted[rows], data.cycles[rows], data.groups[rows])
            for one in np.unique(groups)
            if len(rows := np.flatnonzero(groups == one))
        ]

    return spaces(data.groups), spaces(data.machines)


def run(
    *, seeds: Annotated[int, Interval(ge=1, le=1000)] = 5, out: Path = FOLDER, say: Say = silent
) -> dict[str, Any]:
    """Tuning with few measurements: how near the fastest schedule each method is after 1 to 50 trials, on a measured set.

    Args:
        seeds: runs of each, with seeds 0, 1, ...
        out: folder for guided.md and guided.json.

    Returns mean parts of the best schedule's speed, by method: of spaces by themselves after so many trials, a list by seed; of spaces
    with all operators of an accelerator after so many trials in all.
    """
    results, (alone, together) = ResultFiles(out, "guided", page), _spaces()
    found: dict[str, Any] = {"spaces": len(alone), "accelerators": len(together), "alone": {}, "together": {}}
    for method in METHODS:
        begun = time.process_time()
        parts: dict[str, list[float]] = {str(number): [] for number in _ALONE}
        for seed in range(seeds):
            runs = [(space, tune(space, method, max(_ALONE), seed)) for space in alone]
            for number in _ALONE:
                best = [space.measured.min() / space.measured[rows[:number]].min() for space, rows in runs]
                parts[str(number)].append(float(np.mean(best)))
        found["alone"][method] = parts
        found["together"][method] = {
            str(number): [
                float(np.mean([tune_together(space, method, number, seed) for space in together]))
                for seed in range(seeds)
            ]
            for number in _TOGETHER
        }
        seconds = time.process_time() - begun
        say(f"{method}: {found['alone'][method]}, {found['together'][method]}, {seconds:.0f} s")
    results.keep(found)
    return found


def page(found: dict[str, Any]) -> str:
    """Percent of the best schedule's speed, means over spaces and seeds, and the range of the seeds."""
    heads = {"alone": "{} trials", "together": "{} in all"}
    titles = {
        text.format(number): (kind, number)
        for kind, text in heads.items()
        for number in next(iter(found[kind].values()))
    }

    def cell(key: tuple[str, str], method: str) -> str:
        kind, number = key
        return over_seeds([100 * one for one in found[kind][method][number]], ".1f")

    return page_of(
        "Tuning with few measurements",
        "Percent of the speed of a space's best schedule that is reached, in cycles of the RTL; the mean over spaces, and the range of\n"
        f"that mean over the seeds. Alone: {found['spaces']} operators with 20 schedules each. Together: the operators of each of\n"
        f"{found['accelerators']} accelerators (13 operators, 260 schedules), trials of all in turn, one model for all.",
        table(found["alone"], {"": str, **each(titles, cell)}),
        "`baco bench guided --out results` makes this page.",
    )
