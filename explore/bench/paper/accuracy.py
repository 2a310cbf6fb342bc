"""Model accuracy (Figure 6.12): cycles measured on the RTL against what models predict of the same programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from explore.cost.learned.scores import scores
from explore.cost.reference import MappingBatch, ProblemBatch, access_counts, energy_terms, latency_terms
from explore.measure.dataset import Dataset

Floats = NDArray[np.float64]
Note = Callable[[str], None]
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


def predictions(data: Dataset, note: Note = lambda _: None) -> dict[str, Floats]:
    """Cycles of every row by every model, (rows,)."""
    macs = np.array([p.macs / a.dim**2 for p, a in zip(data.problems, data.accelerators, strict=True)])
    found = {"macs": macs, "reference": reference_cycles(data)}
    found["instruction"] = instruction_cycles(data)
    for name, values in found.items():
        note(f"accuracy: {name} on {len(values):,} rows")
    return found


def instruction_cycles(data: Dataset) -> Floats:
    """Cycles by the instruction-aware model, (rows,); schedules are known as they were run."""
    from explore.cost.instruction import predict_layers

    cycles = np.zeros(len(data))
    order = sorted(range(len(data)), key=lambda i: data.rows[i].accelerator)
    for _, members in groupby(order, key=lambda i: data.rows[i].accelerator):
        index = list(members)
        costs = predict_layers(
            [data.layers[i] for i in index], [data.schedules[i] for i in index], data.accelerators[index[0]]
        )
        cycles[index] = [float(cost.cycles[0]) for cost in costs]
    return cycles


def reference_cycles(data: Dataset) -> Floats:
    """Cycles of every row by the reference model, (rows,)."""
    counts = access_counts(ProblemBatch.of(data.problems), MappingBatch.of(data.mappings))
    dims = torch.tensor([float(a.dim) for a in data.accelerators], dtype=torch.float64)
    # Of its four resources only DRAM depends on more of the accelerator than its side.
    terms = latency_terms(counts, dims, 1.0).numpy()
    terms[3] /= np.array([a.dram_bytes_per_cycle for a in data.accelerators])
    return np.asarray(terms.max(0))


def reference_energy(data: Dataset) -> Floats:
    """Energy of every row by the reference model in pJ, (rows,)."""
    counts = access_counts(ProblemBatch.of(data.problems), MappingBatch.of(data.mappings))
    found = np.zeros(len(data))
    names = np.array([row.accelerator for row in data.rows])
    for name, a in data.configurations.items():
        dim, acc, sp = (
            torch.tensor(float(v), dtype=torch.float64) for v in (a.dim, a.accumulator_kib, a.scratchpad_kib)
        )
        mine = names == name
        found[mine] = energy_terms(counts, dim, acc, sp, a.energy).sum(0).numpy()[mine]
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
            rows.append(
                AccuracyRow(
                    quantity,
                    model,
                    stratum,
                    found.rows,
                    found.spearman,
                    log_correlation(values[keep], measured[keep]),
                    found.mean_percent,
                    found.median_percent,
                    found.bias_percent,
                )
            )
    return rows


def log_correlation(one: Floats, other: Floats) -> float | None:
    """Pearson's correlation of the logarithms; None where either is constant."""
    a, b = np.log(one), np.log(other)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])
