"""Fit the law of structure counts to Yosys: `python -m baco.bench.fit.structure`.

Yosys counts a set of small accelerators: the default with one parameter changed at a time, and random ones. A
linear fit of least squared relative error gives the coefficients; random accelerators that the fit has not
seen, larger ones among them, give its error. Takes about 10 s of one core for each of about 70 accelerators.

Features that are off in Gemmini's default are fitted by themselves, each to what it adds to accelerators that are otherwise
equal, so that they leave the law of all others alone: `--additions` fits them anew to a law that is there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from baco.accel.config import Accelerator, Features
from baco.accel.structure_law import QUANTITIES, StructureLaw, terms
from baco.accel.verilog.generate import rtl_problems, verilog
from baco.accel.verilog.structure import ModuleStructure, Structure, check_yosys, structure
from baco.common.errors import BacoError, InputError
from baco.common.files import atomic_write
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.exploration.executors.tasks import Call, gather

__all__ = ["fit", "held_out", "main", "quantities", "random_accelerator", "training"]

SEED = 0
#: Values that random accelerators choose from.
CHOICES: dict[str, tuple[Any, ...]] = {
    "dataflow": ("WS", "OS", "both"),
    "tile_rows": (1, 2, 4),
    "partial_sum_bits": (16, 20, 24, 32),
    "scratchpad_banks": (1, 2, 4, 8),
    "accumulator_banks": (1, 2, 4),
    "dma_bits": (32, 64, 128, 256),
    "dma_max_bytes": (32, 64, 128),
    "dma_requests": (4, 16, 64),
    "load_queue": (2, 8, 16),
    "execute_queue": (3, 8, 16),
    "store_queue": (1, 2, 8),
    "load_entries": (4, 8, 16),
    "execute_entries": (8, 16, 32),
    "store_entries": (2, 4, 8),
    "counters": (0, 4, 8, 16),
}
#: Values that every parameter is changed to by itself: one or two, by what the terms need.
CHANGES: dict[str, tuple[Any, ...]] = {
    "tile_rows": (2,),
    "scratchpad_banks": (8,),
    "accumulator_banks": (4,),
    "dma_bits": (32, 256),
    "dma_max_bytes": (128,),
    "dma_requests": (64,),
    "load_queue": (16,),
    "execute_queue": (16,),
    "store_queue": (8,),
    "load_entries": (16,),
    "execute_entries": (32,),
    "store_entries": (8,),
    "counters": (0, 16),
}
#: Features whose hardware is in part repeated for every column, and so changed at two sides.
LANE_FEATURES = (
    "max_pool",
    "activations",
    "mvin_scale",
    "mvin_scale_acc",
    "accumulator_scale",
    "read_small_width",
    "read_full_width",
    "first_layer",
    "preload_d",
    "write_to_scratchpad",
)
_MEMORY_TERMS = ("1", "dim", "{} banks", "{} banks dim")
_MVIN_TERMS = ("mvin_scale", "mvin_scale dim", "mvin_scale_acc", "mvin_scale_acc dim")
#: Terms that the counts of a module depend on, by its ports, parameters and conditional blocks. What is not
#: named here has `OTHER_TERMS`, or those of the last entry that its name starts with.
MODULE_TERMS: dict[str, tuple[str, ...]] = {
    "baco_mesh": ("1", "tiles", "dim", "dim psum", "dim tiles", "dim tiles psum"),
    "baco_mesh_row": (
        *("dim", "dim^2", "dim^2 psum", "dim tiles", "dim tiles psum"),
        *("WS only dim^2", "WS only dim^2 psum", "OS only dim^2", "OS only dim^2 psum"),
    ),
    "baco_shift_round": ("1", "dim", "dim psum", "WS only", "WS only dim", "WS only dim psum"),
    "baco_transposer": ("1", "dim", "dim^2"),
    "baco_scratchpad": tuple(term.format("scratchpad") for term in _MEMORY_TERMS),
    "baco_accumulator": tuple(term.format("accumulator") for term in _MEMORY_TERMS),
    "baco_counters": ("counters", "counters built"),
    "baco_reservation": ("1", "load entries", "execute entries", "store entries", "entries^2"),
    "baco_fifo": (
        *("1", "dim", "tiles", "dma bits", "slice", "dma bytes", "dma requests"),
        *("load queue", "execute queue", "store queue", "WS only", "OS only", "first_layer", *_MVIN_TERMS),
    ),
    "baco_scale": (*_MVIN_TERMS, "accumulator_scale", "accumulator_scale lanes"),
    "baco_load": ("1", "dim", "dma bits", "dma bytes", "mvin_scale", "mvin_scale_acc", "first_layer"),
    "baco_load_scale": ("1", "dim", *_MVIN_TERMS),
    "baco_load_rows": ("1", "dim", "dma bits", "dma bytes"),
    "baco_aligner": ("1", "dim", "dma bits", "dma bits log", "slice"),
    "baco_dma_read": ("1", "dim", "dma bits", "dma bytes", "dma requests"),
    "baco_pixel_repeat": ("first_layer", "first_layer dim"),
    "baco_store": ("1", "dim", "dma bits", "slice", "max_pool", "activations"),
    "baco_store_convert": (
        *("1", "dim", "dma bits", "lanes", "slice", "accumulator_scale", "accumulator_scale lanes"),
        *("max_pool", "max_pool dim", "max_pool lanes", "read_small_width", "read_full_width"),
    ),
    "baco_store_packer": ("1", "dma bits", "dma bits log", "slice", "counters built"),
    "baco_execute": (
        *("1", "dim", "tiles", "dim psum", "WS only", "OS only", "preload_d", "activations"),
        *("write_to_scratchpad", "write_to_scratchpad dim"),
    ),
    "baco_operands": (
        *("1", "first_layer", "max_pool", "WS only", "OS only", "preload_d"),
        *("read_small_width", "read_full_width", "write_to_scratchpad"),
    ),
    "baco_in_place": ("write_to_scratchpad",),
    "baco_loop_ws": ("loop_ws", "loop_ws dim"),
    "baco_loop_conv": (
        *("loop_conv", "loop_conv dim", "loop_conv training_convs", "loop_conv depthwise_convs"),
        *("loop_conv first_layer", "loop_conv max_pool"),
    ),
}
OTHER_TERMS = ("1", "dim")


@dataclass(frozen=True)
class AddedFeature:
    """A feature that is fitted by itself.

    Attributes:
        terms: of the law.
        points: sides, widths of the bus, and whether there is LOOP_WS, of what it is fitted to, so that no term is a
            multiple of others.
        held_out: likewise, of what the fit does not see.
    """

    terms: tuple[str, ...]
    points: tuple[tuple[int, int, bool], ...]
    held_out: tuple[tuple[int, int, bool], ...]


_POINTS = ((4, 128, True), (8, 128, True), (16, 128, True), (8, 32, True), (16, 64, True))
_HELD_OUT = ((16, 32, True), (32, 128, True))
ADDITIONS = {
    "row_functions": AddedFeature(
        ("row_functions", "row_functions dim", "row_functions lanes", "row_functions slice"),
        _POINTS,
        _HELD_OUT,
    ),
    "normalizations": AddedFeature(
        ("normalizations", "normalizations dim", "normalizations lanes", "normalizations loop_ws"),
        (*_POINTS, (4, 128, False), (16, 64, False)),
        (*_HELD_OUT, (8, 64, False)),
    ),
}
#: The other features: the law of all accelerators is fitted to them.
FEATURES = tuple(name for name in Features.model_fields if name not in ADDITIONS)
#: The module that scratchpad and accumulator are made of.
SRAM = "baco_sram"
#: Memory that grows with the side keeps the address widths, which the law leaves out, the same.
ROWS = 512
#: Weight of keeping coefficients small against errors: decides only between terms that the data cannot separate.
RIDGE = 1e-9

Floats = npt.NDArray[np.float64]
#: Quantities by module.
ModuleCounts = dict[str, dict[str, float]]


def quantities(report: Structure) -> dict[str, dict[str, float]]:
    """`QUANTITIES` of every module in a report but the memories, which the area law has its own account of.

    Every bit of any other memory is a register and is selected once in reading.
    """
    return {
        one.module: {
            "register_bits": float(one.flip_flop_bits + one.memory_bits),
            "partial_products": sum(n * width * width / 4 for width, n in one.multipliers.items()),
            "adder_bits": float(_bits(one.adders) + _bits(one.comparators)),
            "multiplexer_bits": float(one.multiplexer_bits + one.memory_bits + _shifter_bits(one)),
        }
        for one in report.modules
        if one.module != SRAM
    }


def totals(counts: ModuleCounts) -> dict[str, float]:
    """Sums over the modules of what `quantities` gives."""
    return {quantity: sum(one[quantity] for one in counts.values()) for quantity in QUANTITIES}


def _bits(units: dict[int, int]) -> int:
    return sum(width * count for width, count in units.items())


def _shifter_bits(one: ModuleStructure) -> int:
    """A shifter is a row of multiplexers for each bit of the distance."""
    return sum(width * (width - 1).bit_length() * count for width, count in one.shifters.items())


def _accelerator(dim: int, **changes: Any) -> Accelerator:
    features = {name: changes.pop(name) for name in list(changes) if name in Features.model_fields}
    return Accelerator(
        dim=dim,
        scratchpad_kib=max(1, dim * ROWS // 1024),
        accumulator_kib=max(1, dim * ROWS // 1024),
        features=Features(**features),
        **changes,
    )


def random_accelerator(rng: np.random.Generator, sides: tuple[int, ...], changed: float) -> Accelerator:
    """An accelerator that can be built, each parameter changed with the probability given."""
    while True:
        dim = int(rng.choice(sides))
        values: dict[str, Any] = {
            name: choices[rng.integers(len(choices))]
            for name, choices in CHOICES.items()
            if rng.random() < changed
        }
        values |= {
            name: not Features.model_fields[name].default for name in FEATURES if rng.random() < changed
        }
        if values.get("tile_rows", 1) > dim:
            continue
        if values.get("dma_bits", 128) > 8 * values.get("dma_max_bytes", 64):
            continue
        found = _accelerator(dim, **values)
        if not rtl_problems(found):
            return found


def training() -> list[Accelerator]:
    """What the law is fitted to: the default changed one parameter at a time, then random ones."""
    found = [_accelerator(dim) for dim in (2, 4, 8, 16)]
    for dim in (4, 8):
        for flow in ("WS", "OS"):
            found.append(_accelerator(dim, dataflow=flow, partial_sum_bits=20))
        for name in FEATURES if dim == 4 else LANE_FEATURES:
            found.append(_accelerator(dim, **{name: not Features.model_fields[name].default}))
    for name, values in CHANGES.items():
        found += [_accelerator(4, **{name: value}) for value in values]
    rng = np.random.default_rng(SEED)
    found += [random_accelerator(rng, (4, 8, 16), 0.35) for _ in range(20)]
    return list(dict.fromkeys(found))


def held_out(count: int = 6, sides: tuple[int, ...] = (4, 8, 16, 32)) -> list[Accelerator]:
    """Random accelerators that no fit has seen."""
    rng = np.random.default_rng(SEED + 1)
    return [random_accelerator(rng, sides, 0.35) for _ in range(count)]


def additions(feature: str, points: Iterable[tuple[int, int, bool]]) -> list[Accelerator]:
    """Accelerators without and with one of `ADDITIONS`, in turn; points as there."""
    return [
        _accelerator(dim, dma_bits=bits, loop_ws=loops, **{feature: built})
        for dim, bits, loops in points
        for built in (False, True)
    ]


def added(counts: list[ModuleCounts]) -> list[dict[str, float]]:
    """What each pair of `additions` differs by."""
    return [
        {quantity: totals(more)[quantity] - totals(less)[quantity] for quantity in QUANTITIES}
        for less, more in zip(counts[::2], counts[1::2], strict=True)
    ]


def fit_addition(
    names: Iterable[str], accelerators: list[Accelerator], counts: list[ModuleCounts]
) -> StructureLaw:
    """Coefficients of an addition's terms with the least squared relative error of what each pair differs by."""
    names = tuple(names)
    design = np.array([[float(terms(one, one.dim)[name]) for name in names] for one in accelerators[1::2]])
    found = {}
    for quantity in QUANTITIES:
        target = np.array([one[quantity] for one in added(counts)])
        weight = 1 / np.maximum(target, 1.0)
        solution = np.linalg.lstsq(design * weight[:, None], target * weight)[0]
        found[quantity] = {name: float(f"{value:.6g}") for name, value in zip(names, solution, strict=True)}
    return StructureLaw(found)


def addition_errors(
    law: StructureLaw, accelerators: list[Accelerator], counts: list[ModuleCounts]
) -> dict[str, Floats]:
    """Relative error of what is added in every pair, by quantity."""
    pairs = [
        (law.difference(more, less, more.dim), count)
        for less, more, count in zip(accelerators[::2], accelerators[1::2], added(counts), strict=True)
    ]
    return {q: np.array([abs(found[q] / count[q] - 1) for found, count in pairs]) for q in QUANTITIES}


def fit(accelerators: Iterable[Accelerator], counts: Iterable[ModuleCounts]) -> StructureLaw:
    """The law of least squared relative error on the accelerators with their counts (`quantities`).

    Each module is fitted to its own terms (`MODULE_TERMS`), so that a parameter cannot stand in for another
    that the same accelerators happen to change; the sum over the modules is the law.
    """
    rows = [terms(one, one.dim) for one in accelerators]
    measured = list(counts)
    if not rows or len(rows) != len(measured):
        raise InputError(
            f"{len(rows)} accelerators and {len(measured)} counts: there must be as many, and some"
        )
    coefficients = {quantity: dict.fromkeys(rows[0], 0.0) for quantity in QUANTITIES}
    for module in sorted(set().union(*measured)):
        names = _terms_of(module)
        design = np.array([[float(row[name]) for name in names] for row in rows])
        scale = np.abs(design).max(axis=0)
        scale[scale == 0] = 1.0
        for quantity in QUANTITIES:
            whole = np.array([totals(one)[quantity] for one in measured])
            target = np.array([one[module][quantity] if module in one else 0.0 for one in measured])
            size = max(float(np.abs(target).max()), 1.0)
            ridge = np.sqrt(RIDGE) * np.eye(len(names))
            relative = design / scale * (whole.min() / whole)[:, None]
            solution = np.linalg.lstsq(
                np.vstack([relative, ridge]),
                np.concatenate([target / size * whole.min() / whole, np.zeros(len(names))]),
            )[0]
            for name, value in zip(names, solution * size / scale, strict=True):
                coefficients[quantity][name] += float(value)
    return StructureLaw(
        {
            quantity: {name: float(f"{value:.6g}") for name, value in factors.items()}
            for quantity, factors in coefficients.items()
        }
    )


def _terms_of(module: str) -> tuple[str, ...]:
    starts = [name for name in MODULE_TERMS if module.startswith(name)]
    return MODULE_TERMS[max(starts, key=len)] if starts else OTHER_TERMS


def errors(
    law: StructureLaw, accelerators: Iterable[Accelerator], counts: Iterable[ModuleCounts]
) -> dict[str, Floats]:
    """Relative error of every predicted total, by quantity."""
    pairs = [
        (law.counts(one, one.dim), totals(count)) for one, count in zip(accelerators, counts, strict=True)
    ]
    return {q: np.array([abs(found[q] / count[q] - 1) for found, count in pairs]) for q in QUANTITIES}


def _statistics(found: dict[str, Floats]) -> dict[str, dict[str, float]]:
    return {
        quantity: {
            "mean_percent": round(100 * float(e.mean()), 2),
            "max_percent": round(100 * float(e.max()), 2),
        }
        for quantity, e in found.items()
    }


def _count(accelerator: Accelerator) -> tuple[ModuleCounts, str]:
    """Quantities of an accelerator, and the version of Yosys."""
    report = structure(verilog(accelerator))
    return quantities(report), report.yosys


def _count_all(accelerators: list[Accelerator], jobs: int) -> tuple[list[ModuleCounts], str]:
    """Quantities of each accelerator, and the version of Yosys."""
    check_yosys()
    tasks = [Call(str(number), _count, (one,)) for number, one in enumerate(accelerators)]
    with ExecutorChoice(workers=jobs).executor() as executor:
        found: list[tuple[ModuleCounts, str]] = gather(
            executor, tasks, None, lambda done, of, _: print(f"{done} of {of} counted", file=sys.stderr)
        )
    return [counts for counts, _ in found], found[0][1]


def _fit_all(jobs: int) -> dict[str, Any]:
    """The record of the law without additions."""
    seen, unseen = training(), held_out()
    counts, yosys = _count_all(seen + unseen, jobs)
    law = fit(seen, counts[: len(seen)])
    return {
        "source": f"{yosys}: {len(seen)} accelerators fitted, {len(unseen)} held out",
        "command": "python -m baco.bench.fit.structure",
        "errors": {
            "fit": _statistics(errors(law, seen, counts[: len(seen)])),
            "held out": _statistics(errors(law, unseen, counts[len(seen) :])),
        },
        "coefficients": law.coefficients,
    }


def _fit_additions(record: dict[str, Any], features: Iterable[str], jobs: int) -> None:
    """Fit some of `ADDITIONS` and write them and their errors into the record of a law."""
    for feature in features:
        one = ADDITIONS[feature]
        seen, unseen = additions(feature, one.points), additions(feature, one.held_out)
        counts, _ = _count_all(seen + unseen, jobs)
        law = fit_addition(one.terms, seen, counts[: len(seen)])
        record["errors"] |= {
            feature: _statistics(addition_errors(law, seen, counts[: len(seen)])),
            f"{feature} held out": _statistics(addition_errors(law, unseen, counts[len(seen) :])),
        }
        for quantity, factors in law.coefficients.items():
            record["coefficients"][quantity] = dict(record["coefficients"][quantity]) | dict(factors)


def main(arguments: list[str] | None = None) -> int:
    """Count, fit, print the errors and write `structure.json` of `accel` (or --out)."""
    parser = argparse.ArgumentParser(prog="python -m baco.bench.fit.structure", description=main.__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path(str(resources.files("baco.accel") / "structure.json"))
    )
    parser.add_argument("--jobs", type=int, default=1, help="Yosys runs at the same time")
    parser.add_argument(
        "--additions",
        nargs="*",
        choices=list(ADDITIONS),
        help="some (without names: all) of what is fitted by itself only; the rest is kept",
    )
    options = parser.parse_args(arguments)
    try:
        only = options.additions is not None
        record = json.loads(options.out.read_text("utf-8")) if only else _fit_all(options.jobs)
        _fit_additions(record, options.additions or ADDITIONS, options.jobs)
        atomic_write(options.out, json.dumps(record, indent=2) + "\n")
    except BacoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(record["errors"], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
