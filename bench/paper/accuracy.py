"""Model accuracy (Figure 6.12): cycles measured on the RTL against what models predict of the same programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from baco.bench.harness.experiment import Say, silent
from baco.bench.learned.scores import scores
from baco.bench.sets.dataset import Dataset
from baco.common.portable import Floats
from baco.exploration.cost.layer_costs import layer_costs
from baco.exploration.cost.predicted import by_instructions

ALL = "all"


@dataclass(frozen=True)
class AccuracyRow:
    """One model on one stratum of a measured set; errors in percent of what was measured.

    Attributes:
        quantity: `cycles`, or `energy`: counted activity times the energy table against predicted accesses times it.
        model: `macs` (multiply-accumulates over the array's elements), `reference`, `instruction`.
        stratum: what the layer waited for, by measured counters; `all` for all rows.
        spearman: None where it is not defined.
        log_correlation: Pearson's, of the logarithms.
    """

    quantity: str
    model: str
    stratum: str
    rows: int
    spearman: float | None
    log_correlation: float | None
    mean_percent: float
    median_percent: float
    bias_percent: float


def predictions(data: Dataset, say: Say = silent) -> dict[str, dict[str, Floats]]:
    """What every model predicts of every row, (rows,), by quantity and model: cycles, and energy in pJ.

    The instruction-aware model knows schedules as they were run.
    """
    found = {
        quantity: {model: np.zeros(len(data)) for model in ("reference", "instruction")}
        for quantity in ("cycles", "energy")
    }
    found["cycles"] = {"macs": data.mac_cycles, **found["cycles"]}
    order = sorted(range(len(data)), key=lambda i: data.rows[i].accelerator)
    for name, members in groupby(order, key=lambda i: data.rows[i].accelerator):
        index = list(members)
        accelerator = data.accelerators[index[0]]
        layers, schedules = [data.layers[i] for i in index], [data.schedules[i] for i in index]
        mappings, problems = [data.mappings[i] for i in index], [layer.problem for layer in layers]
        costs = {
            "reference": layer_costs(problems, mappings, accelerator),
            "instruction": by_instructions(
                layer_costs(problems, mappings, accelerator, padded=False),
                layers,
                schedules,
                [accelerator] * len(layers),
            ),
        }
        for model, ones in costs.items():
            found["cycles"][model][index] = [one.latency_cycles for one in ones]
            found["energy"][model][index] = [one.energy_pj for one in ones]
        say(f"accuracy: {len(index):,} rows of {name}")
    return found


def score_table(
    predicted: dict[str, Floats], measured: Floats, strata: Sequence[str], quantity: str = "cycles"
) -> list[AccuracyRow]:
    """Errors of every model, over all rows and stratum by stratum."""
    labels = np.array(strata)
    rows = []
    for model, values in predicted.items():
        for stratum in (ALL, *dict.fromkeys(strata)):
            keep = np.ones(len(labels), dtype=bool) if stratum == ALL else labels == stratum
            found = scores(values[keep], measured[keep])
            correlation = log_correlation(values[keep], measured[keep])
            errors = (found.mean_percent, found.median_percent, found.bias_percent)
            rows.append(
                AccuracyRow(quantity, model, stratum, found.rows, found.spearman, correlation, *errors)
            )
    return rows


def log_correlation(one: Floats, other: Floats) -> float | None:
    """Pearson's correlation of the logarithms; None where either is constant."""
    a, b = np.log(one), np.log(other)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])
