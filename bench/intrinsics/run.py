"""Operators without a rule of their own on the RTL: cycles against the pass-granularity bound, and how well matchings are ranked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.cycle_bound import pass_cycles
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, page_of, silent, table
from baco.bench.intrinsics.operators import KINDS, Kind
from baco.common.errors import InfeasibleError
from baco.compiler.abstraction import gemmini, matchings
from baco.compiler.mapping.contraction_text import tensor_shapes
from baco.compiler.network.contraction_choice import (
    ContractionChoice,
    choose_matching,
    model_cycles,
    predicted_matching,
)
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.program import compile_network, scheduler
from baco.compiler.network.reference import reference
from baco.compiler.network.tensor_program import TensorProgram
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor
from baco.compiler.ops.views import View
from baco.sim.network.run import run_network

MACHINE = "gemmini-transformer"
#: Small layers whose matchings are all measured: their extents, by kind.
RANKED: Sequence[tuple[str, Mapping[str, int]]] = (
    ("C2D", {"n": 2, "p": 4, "q": 4, "k": 16, "c": 16}),
    ("C2D", {"n": 2, "p": 4, "q": 4, "k": 16, "c": 3}),
    ("C1D", {"n": 2, "p": 32, "k": 32, "c": 16}),
    ("DEP", {"n": 1, "c": 16, "p": 8, "q": 8, "k": 1}),
)


def program_of(kind: Kind, sizes: Mapping[str, int] | None = None) -> TensorProgram:
    """A kind's expression with random trained tensors."""
    contraction = kind.contraction(**(sizes or {}))
    shapes = tensor_shapes(contraction, kind.shapes)
    random = np.random.default_rng(1)
    constants = {
        name: random.integers(-128, 128, shapes[name], dtype=np.int8) if make is None else make(shapes[name])
        for name, make in kind.constants.items()
    }
    return TensorProgram(contraction, constants, shapes, scale=2.0**-8)


def joined(networks: Sequence[QuantisedNetwork]) -> QuantisedNetwork:
    """Networks of the same inputs as one, names of operators and of all other values with the network's number in front."""
    inputs = networks[0].inputs
    values: dict[str, IntegerTensor] = {}
    constants: dict[str, np.ndarray] = {}
    outputs: dict[str, View] = {}
    operators: list[IntegerOperator] = []

    def renamed(number: int, name: str) -> str:
        return name if name in inputs else f"{number}.{name}"

    for number, network in enumerate(networks):
        for name, value in network.values.items():
            values[renamed(number, name)] = replace(value, name=renamed(number, name))
        constants |= {renamed(number, name): array for name, array in network.constants.items()}
        for name, view in network.outputs.items():
            assert isinstance(view, View)
            outputs[renamed(number, name)] = replace(view, value=renamed(number, view.value))
        for op in network.operators:
            views = {
                one.name: replace(view, value=renamed(number, view.value))
                for one in fields(op)
                if isinstance(view := getattr(op, one.name), View)
            }
            operators.append(replace(op, name=f"{number}.{op.name}", **views))  # type: ignore[arg-type]
    return QuantisedNetwork("joined", values, tuple(operators), constants, inputs, outputs)


def measured_together(
    program: TensorProgram,
    choices: Sequence[ContractionChoice],
    accelerator: Accelerator,
    engine: str = "rtl",
) -> list[int]:
    """Cycles of the steps of every choice, all in one program. Raises ArithmeticError where a result differs from the definition's."""
    network = joined([one.network for one in choices])
    random = np.random.default_rng(2)
    data = {
        view.value: random.integers(-128, 128, view.shape, dtype=np.int8) for view in network.inputs.values()
    }
    expected = reference(network, data)
    for name in network.outputs:
        expected[name] = program.result(data)
    built = compile_network(network, accelerator, data=data, reference=expected, check=True)
    run = run_network(built, expected, engine)
    if run.wrong or run.result.exit_code != 0:
        raise ArithmeticError(f"{program.contraction} is wrong: {'; '.join(map(str, run.wrong))}")
    cycles = [0] * len(choices)
    for step, one in zip(built.lowered.steps, run.steps, strict=True):
        cycles[int(step.operator.partition(".")[0])] += one.cycles
    return cycles


def least_cycles(program: TensorProgram, accelerator: Accelerator) -> float:
    """The pass-granularity bound of `baco.bench.cycle_bound`, of any contraction: its best matching's passes, were every
    operand free to lie in memory as that wants it, and every byte of the operands moved once.

    A matching's passes: for every outer iteration and every block of weights, all rows, while the next block shifts in.
    Where outer iterations choose elements of all three operands (groups), as many groups as fit share a block.
    """
    contraction, dim = program.products, accelerator.dim
    passes = math.inf
    for one in matchings(contraction, gemmini(dim)):
        rows, columns, depth = (one.extent(axis) for axis in ("m", "n", "k"))
        calls = math.prod(contraction.extents[name] for name in one.outer)
        shared = [
            contraction.extents[name]
            for name in one.outer
            if all(name in access.variables for access in contraction.accesses)
        ]
        together = min(math.prod(shared), max(1, dim // max(depth, columns)))
        blocks = math.ceil(calls / together) * one.tiles("n") * one.tiles("k")
        passes = min(passes, dim + (blocks - 1) * pass_cycles(rows, dim) + max(rows, 4))
    sizes = {name: math.prod(shape) for name, shape in program.shapes.items()}
    return max(float(passes), sum(sizes.values()) / accelerator.dram_bytes_per_cycle)


def kinds_table(accelerator: Accelerator, say: Say = silent) -> list[dict[str, Any]]:
    """Every kind by its chosen matching: predicted and measured cycles, and the bound."""
    rows = []
    for kind in KINDS.values():
        program = program_of(kind)
        choice = choose_matching(program, accelerator)
        (cycles,) = measured_together(program, [choice], accelerator)
        least = least_cycles(program, accelerator)
        rows.append(
            {
                "kind": kind.name,
                "what": kind.what,
                "sizes": dict(kind.sizes),
                "matching": str(choice.matching),
                "strict": kind.strict,
                "full": kind.full,
                "predicted": round(choice.cycles),
                "cycles": cycles,
                "bound": round(least),
                "ratio": cycles / least,
            }
        )
        say(f"{kind.name}: {cycles:,} cycles, {cycles / least:.3f} times the bound, by '{choice.matching}'")
    return rows


def ranking(accelerator: Accelerator, most: int = 49, say: Say = silent) -> list[dict[str, Any]]:
    """Predicted and measured cycles of the matchings of small layers: how many pairs are in the same order, and how many of
    the fastest 40% are among those that are predicted to be."""
    rows = []
    for name, sizes in RANKED:
        program = program_of(KINDS[name], sizes)
        schedule = scheduler(accelerator)
        choices = []
        for matching in itertools.islice(
            matchings(program.products, gemmini(accelerator.dim), swaps=(False,)), most
        ):
            try:
                choices.append(predicted_matching(program, matching, accelerator, schedule))
            except InfeasibleError:
                continue
        predicted = [choice.cycles for choice in choices]
        model = [model_cycles(choice.matching, accelerator) for choice in choices]
        cycles = measured_together(program, choices, accelerator)
        rows.append(
            {
                "kind": name,
                "sizes": dict(sizes),
                "matchings": len(choices),
                "pairs": _pairs(predicted, cycles),
                "recall": _recall(predicted, cycles),
                "model_pairs": _pairs(model, cycles),
                "model_recall": _recall(model, cycles),
            }
        )
        say(f"{name} {dict(sizes)}: {rows[-1]}")
    return rows


def _pairs(predicted: Sequence[float], cycles: Sequence[float]) -> float:
    """Of the pairs that were measured to differ, the share that is predicted in the same order; ties count half."""
    good = total = 0.0
    for (a, x), (b, y) in itertools.combinations(zip(predicted, cycles, strict=True), 2):
        if x != y:
            total += 1
            good += 0.5 if a == b else float((a < b) == (x < y))
    return good / total if total else 1.0


def _recall(predicted: Sequence[float], cycles: Sequence[float]) -> float:
    """Of the fastest 40%, the share that is among the 40% predicted to be fastest (or as fast as the last of these)."""
    count = max(1, round(0.4 * len(cycles)))
    last = sorted(predicted)[count - 1]
    fastest = sorted(range(len(cycles)), key=lambda at: cycles[at])[:count]
    return sum(predicted[at] <= last for at in fastest) / count


def run(
    accelerator: str = MACHINE, *, kinds_only: bool = False, out: Path = FOLDER, say: Say = silent
) -> dict[str, Any]:
    """Operators without a rule of their own on the RTL: cycles against a bound, and how well matchings are ranked.

    Args:
        accelerator: what they run on.
        kinds_only: leave out the ranking of all matchings of small layers.
        out: folder for intrinsics.md and intrinsics.json.
    """
    files, machine = ResultFiles(out, "intrinsics", page), load_accelerator(accelerator)
    result = {
        "accelerator": machine.name,
        "kinds": kinds_table(machine, say),
        "ranking": [] if kinds_only else ranking(machine, say=say),
    }
    files.keep(result)
    return result


def page(result: Mapping[str, Any]) -> str:
    """Cycles of every kind against its bound, and how matchings are ranked."""
    kinds = table(
        result["kinds"],
        {
            "kind": lambda row: f"{row['kind']}, {row['what']}",
            "matchings (strict / full)": lambda row: f"{row['strict']} / {row['full']}",
            "chosen": lambda row: f"`{row['matching']}`",
            "predicted": lambda row: f"{row['predicted']:,}",
            "cycles": lambda row: f"{row['cycles']:,}",
            "bound": lambda row: f"{row['bound']:,}",
            "ratio": lambda row: f"{row['ratio']:.2f}",
        },
    )
    ranked = table(
        result["ranking"],
        {
            "layer": lambda row: " ".join(
                [row["kind"], *(f"{n}={size}" for n, size in row["sizes"].items())]
            ),
            "matchings": lambda row: row["matchings"],
            "pairs": lambda row: f"{row['pairs']:.3f}",
            "recall": lambda row: f"{row['recall']:.3f}",
            "model: pairs": lambda row: f"{row['model_pairs']:.3f}",
            "model: recall": lambda row: f"{row['model_recall']:.3f}",
        },
    )
    return page_of(
        "Operators without a rule of their own",
        f"Fifteen kinds of operators (AMOS, ISCA 2022) on `{result['accelerator']}`, each compiled by the matching that is predicted"
        " to be fastest and measured on the RTL, every element compared with the definition. Bound: passes of the best matching,"
        " every byte once (`bench/intrinsics/run.py`).",
        kinds,
        "All matchings of small layers, measured: share of pairs in the right order, and of the fastest 40% that are among"
        " the 40% predicted to be fastest; by the prediction of whole programs, and by AMOS's model without copies.\n\n"
        + ranked
        if result["ranking"]
        else "",
    )
