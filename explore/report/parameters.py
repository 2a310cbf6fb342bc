"""The hardware parameters in which the designs of a report differ, and how much each matters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import PARAMETERS, Accelerator
from baco.exploration.report.data import ReportData
from baco.exploration.space.points import units_of

#: Accelerators for each column of the additive model, at least.
_ROWS_A_COLUMN = 3


@dataclass(frozen=True)
class HardwareParameter:
    """One that takes several values among the designs.

    Attributes:
        key: field of the accelerator or its setting, or `units`.
        label: for people, with its unit.
        description: as the accelerator's configuration has it.
        values: of each candidate.
    """

    key: str
    label: str
    description: str
    values: Sequence[int | float | str]

    @property
    def numeric(self) -> bool:
        """Whether its values are positive numbers."""
        return all(isinstance(value, int | float) and value > 0 for value in self.values)


@dataclass(frozen=True)
class Importance:
    """How much the objective varies with each parameter, the others aside.

    ln(objective) of the best design of each accelerator is fitted by a sum of one function a parameter: of numbers the best
    parabola over their logarithm, of names one value each. A parameter's share is that of its function's variance.

    Attributes:
        shares: by key, the largest first; they add up to 1.
        explained: part of the variance of ln(objective) that the sum explains (R²).
        accelerators: how many it was fitted to.
    """

    shares: dict[str, float]
    explained: float
    accelerators: int


def hardware_parameters(data: ReportData) -> list[HardwareParameter]:
    """Those in which the candidates differ, in the order of the accelerator's fields."""
    machines = [candidate.accelerator for candidate in data.candidates]
    found = []
    for key, field in Accelerator.model_fields.items():
        row = PARAMETERS.get(key)
        asked = row.setting or key if row else key
        values = [getattr(machine, asked) for machine in machines]
        if key != "name" and isinstance(values[0], int | float | str):
            label = ", ".join(filter(None, (row.label, row.unit))) if row else key.replace("_", " ")
            found.append(HardwareParameter(asked, label, field.description or "", values))
    units = [units_of(machine).replace("_", " ") for machine in machines]
    found.append(HardwareParameter("units", "units", "units for functions of rows", units))
    return [parameter for parameter in found if len(set(parameter.values)) > 1]


def parameter_importance(data: ReportData) -> Importance | None:
    """Of the designs that a report shows; None where they are too few, or equally good, to tell."""
    best: dict[str, int] = {}
    for index, candidate in enumerate(data.candidates):
        other = best.setdefault(candidate.accelerator.config_hash, index)
        if candidate.objective < data.candidates[other].objective:
            best[candidate.accelerator.config_hash] = index
    members = [index for index in best.values() if data.candidates[index].objective > 0]
    target = np.array([math.log(data.candidates[index].objective) for index in members])
    blocks = {
        parameter.key: _columns(parameter, [parameter.values[index] for index in members])
        for parameter in hardware_parameters(data)
    }
    blocks = {key: block for key, block in blocks.items() if block.shape[1]}
    width = sum(block.shape[1] for block in blocks.values())
    if not blocks or len(members) < _ROWS_A_COLUMN * width or not np.ptp(target) > 0:
        return None
    target = target - target.mean()
    fitted, *_ = np.linalg.lstsq(np.hstack(list(blocks.values())), target, rcond=None)
    effects, place = {}, 0
    for key, block in blocks.items():
        effects[key] = block @ fitted[place : place + block.shape[1]]
        place += block.shape[1]
    variances = {key: float(np.var(effect)) for key, effect in effects.items()}
    total = math.fsum(variances.values())
    if not total > 0:
        return None
    left = target - np.sum(list(effects.values()), axis=0)
    ranked = sorted(variances.items(), key=lambda pair: -pair[1])
    return Importance(
        {key: value / total for key, value in ranked},
        1 - float(np.var(left) / np.var(target)),
        len(members),
    )


def _columns(parameter: HardwareParameter, values: Sequence[int | float | str]) -> NDArray[np.float64]:
    """Centred columns whose sums are the functions that a parameter may have, (n, 0 to 2) of numbers."""
    distinct = sorted(set(values), key=str)
    if len(distinct) < 2:
        return np.zeros((len(values), 0))
    if parameter.numeric:
        logs = np.array([math.log(float(value)) for value in values])
        logs = (logs - logs.mean()) / np.std(logs)
        columns = [logs, logs * logs][: len(distinct) - 1]
    else:
        columns = [np.array([float(value == choice) for value in values]) for choice in distinct[1:]]
    return np.stack([column - column.mean() for column in columns], axis=1)
