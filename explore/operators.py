"""Costs of operators that are no layers, as searches and reports carry them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from baco.compiler.network.steps import StepCost
from baco.exploration._json import Amount, number

#: As read from a file.
_Cost = Annotated[StepCost, AfterValidator(lambda one: StepCost(*(number(value, 0) for value in one)))]


@dataclass(frozen=True)
class OperatorCost:
    """Predicted cost of an operator that is no layer, in one run of its network.

    Attributes:
        operator: of the network; of repeated blocks the first one stands for all.
        function: that computes it: a name of `compiler/ops/host/`, or what `lowered.step_kind` calls it.
        on_accelerator: who does.
        runs: in one run of the network.
        cost: of all of them.
    """

    operator: str
    function: str
    on_accelerator: bool
    runs: Amount
    cost: _Cost


def total(operators: Sequence[OperatorCost]) -> StepCost:
    """Sum of their costs."""
    found = [one.cost for one in operators] or [StepCost(0.0)]
    return StepCost(*(math.fsum(column) for column in zip(*found, strict=True)))
