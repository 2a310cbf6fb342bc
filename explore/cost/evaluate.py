"""Predict the cost of given mappings, and compare with published or measured costs (`baco evaluate`)."""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from baco.accel.config import TIMINGS
from baco.accel.energy import EnergyTable
from baco.common.door import argument
from baco.common.errors import InputError, Location, StorageError, did_you_mean
from baco.common.files import atomic_write
from baco.common.portable import Floats
from baco.common.table import csv_text
from baco.common.text import one_line
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.exploration.candidate import CostModelName
from baco.exploration.cost.choice import COST_MODELS
from baco.exploration.cost.reference import access_counts, latency_terms, total_energy
from baco.exploration.mapping_rows import TARGETS, MappingTable, read_mapping_table

#: predicted.edp and target.edp are in J·cycles.
_UJ_PER_J = 1e6
PREDICTED = ("predicted.cycle", "predicted.energy", "predicted.edp")
#: Words a cycle from DRAM in the published accelerators.
DRAM_BYTES_PER_CYCLE = 8.0
#: The models in words.
MODEL_WORDS: dict[CostModelName, str] = {
    "instruction": "instruction-aware model",
    "reference": "published reference model",
}
_CHUNK = 32_768
_WORST = 5


@dataclass(frozen=True)
class Error:
    """How far predictions of one quantity are from its targets; relative errors in percent.

    Attributes:
        rows: compared.
        mean_percent, median_percent, max_percent: of the absolute relative error.
        bias_percent: mean of the signed relative error.
        spearman: rank correlation; None when either side is constant.
        worst_rows: (line, signed error in percent), worst first.
        worst_layers: (bounds, rows, mean absolute error in percent), worst first.
    """

    rows: int
    mean_percent: float
    median_percent: float
    max_percent: float
    bias_percent: float
    spearman: float | None
    worst_rows: tuple[tuple[int, float], ...]
    worst_layers: tuple[tuple[str, int, float], ...]

    @classmethod
    def of(cls, lines: Sequence[int], layers: Sequence[object], predicted: Floats, target: Floats) -> Error:
        """Of predictions (B,) for rows at `lines` of `layers`; rows whose target is NaN are left out."""
        rows = np.flatnonzero(np.isfinite(target))
        signed = 100 * (predicted[rows] / target[rows] - 1)
        size = np.abs(signed)
        by_layer: dict[str, list[float]] = {}
        for row, error in zip(rows.tolist(), size.tolist(), strict=True):
            by_layer.setdefault(str(layers[row]), []).append(error)
        means = [(layer, len(errors), float(np.mean(errors))) for layer, errors in by_layer.items()]
        worst = np.argsort(-size, kind="stable")[:_WORST]
        return cls(
            rows=len(rows),
            mean_percent=float(size.mean()),
            median_percent=float(np.median(size)),
            max_percent=float(size.max()),
            bias_percent=float(signed.mean()),
            spearman=spearman(predicted[rows], target[rows]),
            worst_rows=tuple((lines[rows[i]], float(signed[i])) for i in worst),
            worst_layers=tuple(sorted(means, key=lambda m: -m[2])[:_WORST]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; the keys are the attributes' names."""
        return {
            **{k: v for k, v in vars(self).items() if not k.startswith("worst")},
            "worst_rows": [{"line": line, "percent": percent} for line, percent in self.worst_rows],
            "worst_layers": [
                {"layer": layer, "rows": rows, "mean_percent": percent}
                for layer, rows, percent in self.worst_layers
            ],
        }

    def text(self, name: str) -> list[str]:
        """Lines for people; `name` is the quantity's."""
        rank = "undefined" if self.spearman is None else f"{self.spearman:.6f}"
        return [
            f"{name}, {self.rows:,} rows: error mean {self.mean_percent:.5f}%, median {self.median_percent:.5f}%, "
            f"max {self.max_percent:.4g}%, bias {self.bias_percent:+.5f}%; Spearman {rank}",
            "  worst rows: " + ", ".join(f"line {line} {p:+.4g}%" for line, p in self.worst_rows),
            "  worst layers: "
            + "; ".join(f"{layer} ({rows:,} rows) {p:.4g}%" for layer, rows, p in self.worst_layers),
        ]


@dataclass(frozen=True)
class NetworkTotal:
    """Rows with a `count` column as one network.

    Attributes:
        energy_uj, latency_cycles: totals, counts included.
        edp, target_edp: µJ·cycles; `target_edp` is None without targets for all rows.
        mean_percent: mean absolute relative error by target (empty without targets).
    """

    rows: int
    energy_uj: float
    latency_cycles: float
    edp: float
    target_edp: float | None
    mean_percent: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics:
    """What `evaluate_file` found.

    Attributes:
        cost_model: what predicted, a name of `baco.exploration.cost.choice.COST_MODELS`.
        rows: predicted.
        rows_not_fitting: rows whose mapping needs more than the accelerator of the row has (single buffers).
        errors: by target column, for those in the file.
        networks: by the `network` column ("" without one), if there is a `count` column.
        out: the file written.
    """

    cost_model: CostModelName
    rows: int
    rows_not_fitting: int
    errors: dict[str, Error]
    networks: dict[str, NetworkTotal]
    out: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; the keys are the attributes' names."""
        return {
            "cost_model": self.cost_model,
            "rows": self.rows,
            "rows_not_fitting": self.rows_not_fitting,
            "errors": {name: error.to_dict() for name, error in self.errors.items()},
            "networks": {name: dict(vars(total)) for name, total in self.networks.items()},
            "out": self.out,
        }

    def text(self) -> str:
        """For people."""
        lines = [
            f"{self.rows:,} rows predicted by the {MODEL_WORDS[self.cost_model]} (--cost-model {self.cost_model}): "
            f"{one_line(self.out)}"
        ]
        if self.rows_not_fitting:
            lines.append(f"{self.rows_not_fitting:,} of them need more than the accelerator of their row has")
        for name, error in self.errors.items():
            lines += error.text(name)
        for name, total in self.networks.items():
            line = (
                f"{one_line(name, 100) or 'network'}: {total.rows} rows, {total.energy_uj:.6g} µJ x "
                f"{total.latency_cycles:.6g} cycles = EDP {total.edp:.6g} µJ·cycles"
            )
            if total.target_edp is not None:
                line += f" (target {total.target_edp:.6g}, {100 * (total.edp / total.target_edp - 1):+.4g}%)"
            lines.append(line)
        return "\n".join(lines)


def evaluate_file(
    path: str | Path, out: str | Path, cost_model: str = "reference", timing: str | None = None
) -> Statistics:
    """Predict every row of a table of mappings and write it with the predictions added.

    Args:
        path: CSV, or gzipped CSV if its name ends in `.gz`; columns as in `baco.exploration.mapping_rows`.
        cost_model: `reference`, with the constants of the published evaluation, or `instruction`
            (`baco.exploration.cost.row_costs.predict_instruction`).
        timing: one of `baco.accel.config.TIMINGS`, which the model `instruction` alone knows.
        out: written with all columns of the input and `predicted.cycle` (cycles), `predicted.energy` (µJ),
            `predicted.edp` (J·cycles, as `target.edp`); gzipped if its name ends in `.gz`.

    Raises InputError naming file, line and column of what is wrong, StorageError when `out` cannot be written.
    """
    if cost_model not in COST_MODELS:
        raise InputError(
            f"unknown cost model '{cost_model}'",
            location=Location(argument("cost_model")),
            hint=did_you_mean(cost_model, COST_MODELS),
        )
    model: CostModelName = "instruction" if cost_model == "instruction" else "reference"
    if timing is not None and timing not in TIMINGS:
        raise InputError(f"there is no timing '{timing}'", hint=did_you_mean(timing, TIMINGS))
    if timing not in (None, "baco") and model == "reference":
        raise InputError(
            f"the reference cost model knows no timing '{timing}'", hint="take --cost-model instruction"
        )
    table = read_mapping_table(path)
    cycles, energy_uj, fits = predict(table)
    if model == "instruction":
        from baco.exploration.cost.row_costs import predict_instruction

        cycles, energy_uj = predict_instruction(table, timing or "baco")
    edp = cycles * energy_uj / _UJ_PER_J
    predicted = dict(zip(TARGETS, (cycles, energy_uj, edp), strict=True))
    write_predictions(table, dict(zip(PREDICTED, (cycles, energy_uj, edp), strict=True)), out)
    errors = {
        name: Error.of(table.lines, table.problems, predicted[name], target)
        for name, target in table.targets.items()
        if np.isfinite(target).any()
    }
    return Statistics(model, len(table), int((~fits).sum()), errors, _networks(table, predicted), str(out))


def predict(table: MappingTable) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Cycles and µJ of every row (B,), and whether its mapping fits the accelerator of the row.

    Method specification section 3, with the constants of the published evaluation.
    """
    energy = EnergyTable()
    cycles, microjoules = np.empty((2, len(table)))
    fits = np.empty(len(table), dtype=np.bool_)
    for start in range(0, len(table), _CHUNK):
        part = slice(start, start + _CHUNK)
        counts = access_counts(ProblemBatch.of(table.problems[part]), MappingBatch.of(table.mappings[part]))
        dim, words, scratchpad = torch.from_numpy(table.arch[part].T.copy())
        picojoules = total_energy(counts, dim, words * dim * 4 / 1024, scratchpad / 1024, energy)
        cycles[part] = latency_terms(counts, dim, DRAM_BYTES_PER_CYCLE).amax(0).numpy()
        microjoules[part] = (picojoules * 1e-6).numpy()
        holds = (torch.maximum(counts.rows, counts.columns) <= dim) & (counts.accumulator_words <= words)
        fits[part] = (holds & (counts.scratchpad_words <= scratchpad)).numpy()
    return cycles, microjoules, fits


def write_predictions(table: MappingTable, predicted: dict[str, Floats], out: str | Path) -> None:
    """Write a table with columns of predictions (B,) in place of earlier ones of any name in `PREDICTED`, or at the end.

    Raises StorageError when `out`, gzipped if its name ends in `.gz`, cannot be written.
    """
    write_table(_written(table, predicted), out)


def write_table(text: str, out: str | Path) -> None:
    """Write a table, gzipped if the name ends in `.gz`. Raises StorageError when it cannot be written."""
    if os.path.isdir(out):
        raise StorageError(
            "this is a folder", location=Location(str(out)), hint=f"give {argument('out')} the name of a file"
        )
    # Without a time stamp, equal content gives equal bytes.
    data = gzip.compress(text.encode(), compresslevel=6, mtime=0) if str(out).endswith(".gz") else text
    atomic_write(out, data)


def _written(table: MappingTable, predicted: dict[str, Floats]) -> str:
    kept = [i for i, name in enumerate(table.header) if name not in PREDICTED]
    columns = zip(*(map(repr, values.tolist()) for values in predicted.values()), strict=True)
    rows = (
        [*(fields[i] for i in kept), *values] for fields, values in zip(table.fields, columns, strict=True)
    )
    return csv_text(itertools.chain([[*(table.header[i] for i in kept), *predicted]], rows))


def spearman(one: Floats, other: Floats) -> float | None:
    """Rank correlation of two samples, ties sharing their mean rank; None when either is constant."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    from scipy.stats import spearmanr  # takes long to load

    return float(spearmanr(one, other).statistic)


def _networks(table: MappingTable, predicted: dict[str, Floats]) -> dict[str, NetworkTotal]:
    if table.count is None:
        return {}
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table.column("network") or [""] * len(table)):
        rows.setdefault(name, []).append(row)
    result = {}
    for name, own in rows.items():
        mine = np.array(own)
        count = table.count[mine]

        def total(
            values: dict[str, Floats], column: str, mine: NDArray[np.int64] = mine, count: Floats = count
        ) -> float:
            return float(values[column][mine] @ count)

        energy, latency = total(predicted, "target.energy"), total(predicted, "target.cycle")
        target: float | None = None
        if {"target.energy", "target.cycle"} <= set(table.targets):
            product = total(dict(table.targets), "target.energy") * total(dict(table.targets), "target.cycle")
            target = product if np.isfinite(product) else None
        errors = {
            column: 100 * float(np.nanmean(np.abs(predicted[column][mine] / values[mine] - 1)))
            for column, values in table.targets.items()
            if np.isfinite(values[mine]).any()
        }
        result[name] = NetworkTotal(len(own), energy, latency, energy * latency, target, errors)
    return result
