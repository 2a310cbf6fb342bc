"""Which cost model a search uses: names and defaults, without loading any of the models."""

from __future__ import annotations

from typing import get_args

from baco.common.door import argument
from baco.common.errors import InputError, Location, did_you_mean
from baco.exploration.candidate import CostModelName
from baco.exploration.space import DesignSpace

#: Names, the default first.
COST_MODELS: tuple[CostModelName, ...] = get_args(CostModelName)


def default_cost_model(space: DesignSpace) -> CostModelName:
    """The instruction-aware model where designs can be compiled, else the reference model."""
    return "instruction" if space.rules == "gemmini" else "reference"


def check_cost_model(name: str, space: DesignSpace) -> CostModelName:
    """`name` as one of `COST_MODELS`. Raises InputError for an unknown one, or one that cannot predict the space."""
    found = next((known for known in COST_MODELS if known == name), None)
    if found is None:
        raise InputError(
            f"unknown cost model '{name}'",
            location=Location(argument("cost_model")),
            hint=did_you_mean(name, COST_MODELS),
        )
    if found == "instruction" and space.rules != "gemmini":
        raise InputError(
            f"the instruction-aware cost model predicts compiled programs, and designs of the space '{space.name}' "
            "need not be such that programs can be compiled for them",
            location=Location(argument("cost_model")),
            hint="take --cost-model reference, or a space with the gemmini rules",
        )
    if found == "reference" and space.base.timing != "baco":
        raise InputError(
            f"the reference cost model knows no timing '{space.base.timing}'",
            location=Location(argument("cost_model")),
            hint="take --cost-model instruction, or leave --timing out",
        )
    if space.settings and (found == "reference" or space.base.timing != "baco"):
        raise InputError(
            f"the settings of the space '{space.name}' are searched with the instruction-aware model of our own hardware",
            location=Location(argument("cost_model")),
            hint="take --cost-model instruction and --timing baco, or a space without settings",
        )
    return found
