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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from baco.accel.config import Accelerator, Features
from baco.accel.input_format import InputFormat, element_bits
from baco.accel.number_formats import FLOATS
from baco.accel.structure_law import QUANTITIES, StructureLaw, terms
from baco.accel.verilog.generate import rtl_problems, verilog
from baco.accel.verilog.structure import ModuleStructure, Structure, structure
from baco.accel.verilog.yosys import yosys_command
from baco.bench.fit.fitting import percent_errors
from baco.common.errors import BacoError, InputError
from baco.common.files import atomic_write
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.exploration.executors.tasks import Call, gather

SEED = 0
_DATA: dict[str, Any] = yaml.safe_load(
    resources.files(__package__).joinpath("structure.yaml").read_text(encoding="utf-8")
)
#: Values that random accelerators choose from, that every parameter is changed to by itself, and features changed at two sides.
CHOICES, CHANGES, LANE_FEATURES = _DATA["choices"], _DATA["changes"], _DATA["lane_features"]
#: Terms that the counts of a module depend on. What is not named has `OTHER_TERMS`, or those of the last entry that its name
#: starts with.
MODULE_TERMS: dict[str, list[str]] = _DATA["module_terms"]
OTHER_TERMS = ["1", "dim"]


@dataclass(frozen=True)
class AddedFeature:
    """A feature that is fitted by itself.

    Attributes:
        terms: of the law.
        points: sides, widths of the bus, and whether there is LOOP_WS, of what it is fitted to, so that no term is a
            multiple of others.
        held_out: likewise, of what the fit does not see.
        machine: what else accelerators that may have it are, by field or feature.
    """

    terms: tuple[str, ...]
    points: tuple[tuple[int, int, bool], ...]
    held_out: tuple[tuple[int, int, bool], ...]
    machine: Mapping[str, Any] = field(default_factory=dict)


_POINTS = ((4, 128, True), (8, 128, True), (16, 128, True), (8, 32, True), (16, 64, True))
_HELD_OUT = ((16, 32, True), (32, 128, True))
ADDITIONS = {
    "row_functions": AddedFeature(
        ("row_functions", "row_functions dim", "row_functions lanes", "row_functions slice"),
        _POINTS,
        _HELD_OUT,
    ),
    "requantization": AddedFeature(
        ("requantization", "requantization dim", "requantization lanes", "requantization slice"),
        _POINTS,
        _HELD_OUT,
    ),
    "packed_weights": AddedFeature(
        ("packed_weights", "packed_weights dim", "packed_weights loop_ws"),
        ((4, 128, True), (8, 128, True), (4, 128, False)),
        ((8, 64, False), (16, 64, True)),
    ),
    "block_weights": AddedFeature(
        ("block_weights", "block_weights dim", "block_weights columns"),
        ((4, 128, True), (8, 128, True), (8, 64, True), (16, 128, True), (32, 128, True)),
        ((8, 32, True), (16, 64, True)),
        {"input_format": "bf16", "dataflow": "WS", "mvin_scale": False},
    ),
    "normalizations": AddedFeature(
        ("normalizations", "normalizations dim", "normalizations lanes", "normalizations loop_ws"),
        (*_POINTS, (4, 128, False), (16, 64, False)),
        (*_HELD_OUT, (8, 64, False)),
    ),
}
#: Formats of elements, fitted likewise: in floating point side, width of the bus, banks of the accumulator, whether stores scale, and, of
#: formats of more than 8 bits, rows of a tile and banks of the scratchpad; of int16 what differs from the default.
FORMAT_POINTS: dict[str, dict[str, list[Any]]] = _DATA["format_points"]
WIDE_INTEGERS: InputFormat = "int16"
FORMS: tuple[InputFormat, ...] = (*FLOATS, WIDE_INTEGERS)
FORMAT_TERMS = {
    form: tuple(
        name
        for name in terms(Accelerator(dim=2, scratchpad_kib=1, accumulator_kib=1), 2)
        if name.split(" ")[0] == form
    )
    for form in FORMS
}
#: Few scaling lanes, fitted to what they differ by from an accelerator without a limit, beside what the law says of lanes: side, width of
#: the bus, lanes, whether loads to the accumulator are scaled.
LANE_POINTS = (
    (4, 128, 1, False),
    (4, 128, 2, True),
    (8, 128, 1, True),
    (8, 64, 4, False),
    (8, 32, 2, False),
    (16, 128, 4, True),
    (16, 64, 8, False),
    (16, 128, 1, False),
)
LANES_HELD_OUT = ((16, 128, 2, False), (8, 128, 4, True), (32, 64, 8, False))
SHARED = "scale_lanes"
SHARED_TERMS = tuple(
    name
    for name in terms(Accelerator(dim=2, scratchpad_kib=1, accumulator_kib=1), 2)
    if name.split(" ")[0] == SHARED
)
#: The other features: the law of all accelerators is fitted to them.
FEATURES = tuple(name for name in Features.model_fields if name not in ADDITIONS)
#: The module that scratchpad and accumulator are made of.
SRAM = "baco_sram"
#: Memory that grows with the side keeps the address widths, which the law leaves out, the same.
ROWS = 512
#: Share of an accelerator that an error of what a feature adds is told against at least.
_LEAST = 1e-3
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
    wide = element_bits(changes.get("input_format", "integer")) // 8
    return Accelerator(
        dim=dim,
        scratchpad_kib=max(1, wide * dim * ROWS // 1024),
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
    accelerators = [_accelerator(dim) for dim in (2, 4, 8, 16)]
    for dim in (4, 8):
        for flow in ("WS", "OS"):
            accelerators.append(_accelerator(dim, dataflow=flow, partial_sum_bits=20))
        for name in FEATURES if dim == 4 else LANE_FEATURES:
            accelerators.append(_accelerator(dim, **{name: not Features.model_fields[name].default}))
    for name, values in CHANGES.items():
        accelerators += [_accelerator(4, **{name: value}) for value in values]
    rng = np.random.default_rng(SEED)
    accelerators += [random_accelerator(rng, (4, 8, 16), 0.35) for _ in range(20)]
    return list(dict.fromkeys(accelerators))


def held_out(count: int = 6, sides: tuple[int, ...] = (4, 8, 16, 32)) -> list[Accelerator]:
    """Random accelerators that no fit has seen."""
    rng = np.random.default_rng(SEED + 1)
    return [random_accelerator(rng, sides, 0.35) for _ in range(count)]


def additions(feature: str, points: Iterable[tuple[int, int, bool]]) -> list[Accelerator]:
    """Accelerators without and with one of `ADDITIONS`, in turn; points as there."""
    return [
        _accelerator(dim, dma_bits=bits, loop_ws=loops, **ADDITIONS[feature].machine, **{feature: built})
        for dim, bits, loops in points
        for built in (False, True)
    ]


def formats(form: InputFormat, points: Iterable[Any]) -> list[Accelerator]:
    """Accelerators of int8 and of a format, in turn; points as in `FORMAT_POINTS`."""
    kinds: tuple[InputFormat, ...] = ("integer", form)
    changes = (point if form == WIDE_INTEGERS else _float_changes(*point) for point in points)
    return [_accelerator(**one, input_format=kind) for one in changes for kind in kinds]


def _float_changes(
    dim: int, bits: int, banks: int, scaled: bool, tile_rows: int = 1, scratchpad_banks: int = 4
) -> dict[str, Any]:
    return {
        "dim": dim,
        "dma_bits": bits,
        "accumulator_banks": banks,
        "dataflow": "WS",
        "mvin_scale": False,
        "accumulator_scale": scaled,
        "tile_rows": tile_rows,
        "scratchpad_banks": scratchpad_banks,
    }


def shared_lanes(points: Iterable[tuple[int, int, int, bool]]) -> list[Accelerator]:
    """Accelerators with lanes for whole rows and with fewer, in turn; points as `LANE_POINTS`."""
    return [
        _accelerator(dim, dma_bits=bits, mvin_scale_acc=wide, scale_lanes=lanes)
        for dim, bits, few, wide in points
        for lanes in (128, few)
    ]


def added(counts: list[ModuleCounts]) -> list[dict[str, float]]:
    """What each pair of `additions` differs by."""
    return [
        {quantity: totals(more)[quantity] - totals(less)[quantity] for quantity in QUANTITIES}
        for less, more in zip(counts[::2], counts[1::2], strict=True)
    ]


def fit_addition(
    names: Iterable[str], accelerators: list[Accelerator], counts: list[ModuleCounts], law: StructureLaw
) -> StructureLaw:
    """Coefficients of an addition's terms with the least squared relative error of what each pair differs by, beside what the other
    terms of `law` say."""
    names = tuple(names)
    pairs = [*zip(accelerators[::2], accelerators[1::2], strict=True)]
    values = [[terms(one, one.dim) for one in pair] for pair in pairs]
    design = np.array([[float(more[name] - less[name]) for name in names] for less, more in values])
    others = StructureLaw(
        {
            quantity: {name: factor for name, factor in factors.items() if name not in names}
            for quantity, factors in law.coefficients.items()
        }
    )
    known = [others.difference(more, less, more.dim) for less, more in pairs]
    found = {}
    for quantity in QUANTITIES:
        target = np.array(
            [count[quantity] - float(own[quantity]) for count, own in zip(added(counts), known, strict=True)]
        )
        weight = 1 / _sizes(counts, quantity)
        solution = np.linalg.lstsq(design * weight[:, None], target * weight)[0]
        found[quantity] = {name: float(f"{value:.6g}") for name, value in zip(names, solution, strict=True)}
    return StructureLaw(found)


def addition_errors(
    law: StructureLaw, accelerators: list[Accelerator], counts: list[ModuleCounts]
) -> dict[str, Floats]:
    """Relative error of what is added in every pair, by quantity, of the least that is worth telling (`_sizes`) where it is less."""
    pairs = [
        (law.difference(more, less, more.dim), count)
        for less, more, count in zip(accelerators[::2], accelerators[1::2], added(counts), strict=True)
    ]
    return {
        q: np.array([abs(found[q] - count[q]) for found, count in pairs]) / _sizes(counts, q)
        for q in QUANTITIES
    }


def _sizes(counts: list[ModuleCounts], quantity: str) -> Floats:
    """What each pair of `additions` differs by, but at least `_LEAST` of the whole accelerator."""
    target = np.array([abs(count[quantity]) for count in added(counts)])
    whole = np.array([totals(less)[quantity] for less in counts[::2]])
    return np.asarray(np.maximum(target, _LEAST * whole), dtype=np.float64)


def fit(accelerators: Iterable[Accelerator], counts: Iterable[ModuleCounts]) -> StructureLaw:
    """The law of least squared relative error on the accelerators with their counts (`quantities`).

    Each module is fitted to its own terms (`MODULE_TERMS`), so that a parameter cannot stand in for another
    that the same accelerators happen to change; the sum over the modules is the law.
    """
    rows = [terms(accelerator, accelerator.dim) for accelerator in accelerators]
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
            whole = np.array([totals(modules)[quantity] for modules in measured])
            target = np.array(
                [modules[module][quantity] if module in modules else 0.0 for modules in measured]
            )
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


def _terms_of(module: str) -> list[str]:
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
    return {quantity: percent_errors(errors) for quantity, errors in found.items()}


def _count(accelerator: Accelerator) -> tuple[ModuleCounts, str]:
    """Quantities of an accelerator, and the version of Yosys."""
    report = structure(verilog(accelerator))
    return quantities(report), report.yosys


def _count_all(accelerators: list[Accelerator], jobs: int) -> tuple[list[ModuleCounts], str]:
    """Quantities of each accelerator, and the version of Yosys."""
    yosys_command()
    different = {accelerator.config_hash: accelerator for accelerator in accelerators}
    tasks = [Call(name, _count, (accelerator,)) for name, accelerator in different.items()]
    with ExecutorChoice(workers=jobs).executor() as executor:
        found: list[tuple[ModuleCounts, str]] = gather(
            executor, tasks, None, lambda done, of, _: print(f"{done} of {of} counted", file=sys.stderr)
        )
    counts = {name: own for name, (own, _) in zip(different, found, strict=True)}
    return [counts[accelerator.config_hash] for accelerator in accelerators], found[0][1]


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
    """Fit some of `ADDITIONS` and `FORMAT_TERMS` and write them and their errors into the record of a law."""
    parts = []
    for feature in features:
        if feature in ADDITIONS:
            one = ADDITIONS[feature]
            parts.append(
                (feature, one.terms, additions(feature, one.points), additions(feature, one.held_out))
            )
        elif feature == SHARED:
            parts.append((feature, SHARED_TERMS, shared_lanes(LANE_POINTS), shared_lanes(LANES_HELD_OUT)))
        else:
            form = next(known for known in FORMS if known == feature)
            wide = form != WIDE_INTEGERS and element_bits(form) > 8
            kinds = ["floats", *(["wide floats"] if wide else [])] if form in FLOATS else [form]
            seen, unseen = (
                formats(form, [point for kind in kinds for point in FORMAT_POINTS[kind][which]])
                for which in ("seen", "held out")
            )
            parts.append((feature, FORMAT_TERMS[form], seen, unseen))
    counts, _ = _count_all([one for _, _, seen, unseen in parts for one in seen + unseen], jobs)
    for feature, names, seen, unseen in parts:
        known, others, counts = (
            counts[: len(seen)],
            counts[len(seen) : len(seen + unseen)],
            counts[len(seen + unseen) :],
        )
        fitted = fit_addition(names, seen, known, StructureLaw(record["coefficients"]))
        for quantity, factors in fitted.coefficients.items():
            record["coefficients"][quantity] = dict(record["coefficients"][quantity]) | dict(factors)
        law = StructureLaw(record["coefficients"])
        record["errors"] |= {
            feature: _statistics(addition_errors(law, seen, known)),
            f"{feature} held out": _statistics(addition_errors(law, unseen, others)),
        }


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
        choices=[*ADDITIONS, *FORMS, SHARED],
        help="some (without names: all) of what is fitted by itself only; the rest is kept",
    )
    options = parser.parse_args(arguments)
    try:
        only = options.additions is not None
        record = json.loads(options.out.read_text("utf-8")) if only else _fit_all(options.jobs)
        _fit_additions(record, options.additions or [*ADDITIONS, *FORMS, SHARED], options.jobs)
        atomic_write(options.out, json.dumps(record, indent=2) + "\n")
    except BacoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(record["errors"], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
