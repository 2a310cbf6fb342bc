"""Costs of operators that are no layers, as searches and reports carry them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from baco.compiler.network.steps import StepCost
from baco.exploration._json import listed, number, text

__all__ = ["OperatorCost", "operators_from_json", "operators_to_json", "total"]


@dataclass(frozen=True)
class OperatorCost:
    """Predicted cost of an operator that is no layer, in one run of its network.

    Attributes:
        operator: of the network; of repeated blocks the first one stands for all.
        function: that computes it: a name of `compiler/network/host/`, or what `lowered.step_kind` calls it, `rotation` for an embedding's.
        on_accelerator: who does.
        runs: in one run of the network.
        cost: of all of them.
    """

    operator: str
    function: str
    on_accelerator: bool
    runs: float
    cost: StepCost


def total(operators: Sequence[OperatorCost]) -> StepCost:
    """Sum of their costs."""
    found = [one.cost for one in operators] or [StepCost(0.0)]
    return StepCost(*(math.fsum(column) for column in zip(*found, strict=True)))


def operators_to_json(costs: Sequence[OperatorCost]) -> list[list[Any]]:
    """Plain values; `operators_from_json` is the way back."""
    return [[*list(vars(one).values())[:-1], *one.cost] for one in costs]


def operators_from_json(rows: Any) -> tuple[OperatorCost, ...]:
    """Inverse of `operators_to_json`. Raises ValueError or TypeError for anything else."""
    return tuple(map(_operator_cost, listed(rows)))


def _operator_cost(row: list[Any]) -> OperatorCost:
    operator, function, on_accelerator, runs, *numbers = row
    if not isinstance(on_accelerator, bool) or len(numbers) != len(StepCost._fields):
        raise ValueError(f"{row!r} is no operator")
    cost = StepCost(*(number(one, 0) for one in numbers))
    return OperatorCost(text(operator), text(function), on_accelerator, number(runs, 0), cost)
