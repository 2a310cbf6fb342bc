"""Accuracy and speed of the latency models against the RTL (`baco bench latency`)."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval

from baco.bench.harness.experiment import ResultFiles, page_of, table
from baco.bench.sets.dataset import Dataset, read_dataset
from baco.bench.sets.sample import STRATA
from baco.common.portable import Floats
from baco.compiler.latency import HardwareBatch, LayerBatch, latency
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.exploration.cost.evaluate import spearman
from baco.exploration.cost.reference import access_counts, latency_terms

#: What predicts, and how it is called in tables.
MODELS = {
    "instruction": "instruction-aware model",
    "reference": "reference model",
    "macs": "MACs / dim²",
}
#: Rows of a timed batch: enough for the time to be that of arithmetic and not of calls.
_BATCH = 131072


@dataclass(frozen=True)
class Accuracy:
    """How well cycles were predicted.

    Attributes:
        rows: how many.
        spearman: rank correlation with the measured cycles; None for less than three rows.
        mean_absolute_error, bias: mean of absolute and of signed relative errors.
        median_absolute_error: median of the absolute ones.
        calibrated_error: mean absolute relative error after division by the median of predicted over measured: what a
            model that is only good for comparisons is worth.
    """

    rows: int
    spearman: float | None
    mean_absolute_error: float
    bias: float
    median_absolute_error: float
    calibrated_error: float


def accuracy(predicted: Floats, measured: Floats) -> Accuracy:
    """Accuracy of some predictions; both (rows,) and positive."""
    ratio = predicted / measured
    errors = ratio - 1
    return Accuracy(
        rows=len(measured),
        spearman=spearman(predicted, measured) if len(measured) > 2 else None,
        mean_absolute_error=float(np.abs(errors).mean()),
        bias=float(errors.mean()),
        median_absolute_error=float(np.median(np.abs(errors))),
        calibrated_error=float(np.abs(ratio / np.median(ratio) - 1).mean()),
    )


def predictions(data: Dataset) -> dict[str, Floats]:
    """Cycles by model, (rows,) each."""
    mappings = MappingBatch.of(data.mappings)
    hardware = HardwareBatch.of(data.accelerators)
    with torch.no_grad():
        ours = latency(LayerBatch.of(data.layers), mappings, hardware, torch.from_numpy(data.macros)).cycles
        counts = access_counts(ProblemBatch.of(data.problems), mappings)
        terms = latency_terms(counts, hardware.dim)
        terms[3] = counts.a3 / hardware.bandwidth
    return {"instruction": ours.numpy(), "reference": terms.amax(0).numpy(), "macs": data.mac_cycles}


def run(
    name: str | Path = "test",
    seconds: Annotated[float, Interval(ge=0.0, le=600.0)] = 2.0,
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Cycles that the latency models predict against those measured on the RTL: rank correlation, errors, bias, by stratum, style,
    dataflow and accelerator; and evaluations a second.

    Args:
        name (--set): measured set (test, train, micro) or file.
        seconds: time to spend on each measurement of speed, on one thread; 0: none.
        out: folder for latency-model.md and latency-model.json.

    Raises InputError as `read_dataset`, StorageError.
    """
    data = read_dataset(name)
    found = predictions(data)
    measured = data.cycles
    parts: dict[str, list[str]] = {
        "stratum": list(data.strata),
        "style": [row.style for row in data.rows],
        "dataflow": [mapping.dataflow for mapping in data.mappings],
        "buffering": ["".join(map(str, mapping.buffering)) for mapping in data.mappings],
        "accelerator": [row.accelerator for row in data.rows],
    }
    result: dict[str, Any] = {
        "set": Path(str(name)).name.removesuffix(".csv.gz"),
        "rows": len(data),
        "accelerators": len({row.accelerator for row in data.rows}),
        "median_cycles": float(np.median(measured)),
        "failed_rows": len(data.unmeasured),
        "models": {model: asdict(accuracy(cycles, measured)) for model, cycles in found.items()},
    }
    for kind, values in parts.items():
        chosen = np.array(values)
        order = [one for one in STRATA if one in values] if kind == "stratum" else sorted(set(values))
        result[f"by_{kind}"] = {
            value: {
                model: asdict(accuracy(cycles[chosen == value], measured[chosen == value]))
                for model, cycles in found.items()
            }
            for value in order
        }
    if seconds > 0:
        result["evaluations_per_s"] = throughput(data, seconds)
    ResultFiles(out, "latency-model", page).keep(result)
    return result


def throughput(data: Dataset, seconds: float) -> dict[str, float]:
    """Evaluations in a second of processor time of the instruction-aware model, float32 on one thread, forward and with
    gradient: the best repetition. The rows of a set are repeated to fill a batch."""
    index = torch.arange(_BATCH) % len(data)
    layers = LayerBatch.of(data.layers, torch.float32).take(index)
    hardware = HardwareBatch.of(data.accelerators, torch.float32).take(index)
    repeated = [data.mappings[at] for at in index.tolist()]
    mappings = MappingBatch.of(repeated, torch.float32)
    macro = torch.from_numpy(data.macros)[index]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:

        def forward() -> None:
            with torch.no_grad():
                latency(layers, mappings, hardware, macro)

        def gradient() -> None:
            temporal = mappings.temporal.clone().requires_grad_()
            moved = MappingBatch(
                temporal,
                mappings.rows,
                mappings.columns,
                mappings.rank,
                mappings.flow,
                mappings.copies,
            )
            latency(layers, moved, hardware, macro).cycles.log().sum().backward()  # type: ignore[no-untyped-call]

        rates = {}
        for name, run in (("forward", forward), ("gradient", gradient)):
            run()
            best, end = float("inf"), time.perf_counter() + seconds
            while time.perf_counter() < end:
                begun = time.thread_time()
                run()
                best = min(best, time.thread_time() - begun)
            rates[name] = _BATCH / best
        return rates
    finally:
        torch.set_num_threads(threads)


def page(result: dict[str, Any]) -> str:
    """Errors by model, and those of the instruction-aware one by part."""
    rates = result.get("evaluations_per_s")
    models = table(
        result["models"].items(),
        {
            "model": lambda entry: MODELS[entry[0]],
            "Spearman": lambda entry: _number(entry[1]["spearman"]),
            "mean absolute error": lambda entry: f"{entry[1]['mean_absolute_error']:.1%}",
            "bias": lambda entry: f"{entry[1]['bias']:+.1%}",
            "median absolute error": lambda entry: f"{entry[1]['median_absolute_error']:.1%}",
            "calibrated error": lambda entry: f"{entry[1]['calibrated_error']:.1%}",
        },
    )
    parts = [
        table(
            result[f"by_{kind}"].items(),
            {
                kind: lambda entry: entry[0],
                "rows": lambda entry: entry[1]["instruction"]["rows"],
                "Spearman": lambda entry: _number(entry[1]["instruction"]["spearman"]),
                "mean absolute error": lambda entry: f"{entry[1]['instruction']['mean_absolute_error']:.1%}",
                "bias": lambda entry: f"{entry[1]['instruction']['bias']:+.1%}",
                "Spearman of MACs / dim²": lambda entry: _number(entry[1]["macs"]["spearman"]),
            },
        )
        for kind in ("stratum", "style", "dataflow", "buffering", "accelerator")
    ]
    return page_of(
        "Latency models against the RTL",
        f"Cycles predicted against cycles measured on the RTL: the {result['rows']:,} rows of the set"
        f" `{result['set']}`, {result['accelerators']} accelerators, median {result['median_cycles']:,.0f} cycles.\n"
        "Errors are predicted / measured - 1; the calibrated error is what is left when a constant factor is taken out.",
        models,
        *parts,
        f"One thread, float32: {rates['forward']:,.0f} evaluations in a second of processor time,"
        f" {rates['gradient']:,.0f} with gradient."
        if rates
        else "",
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
