"""Fits the constants of the loop macros' runs one by one (`baco.compiler.styles.macros.pipeline`) to cycles of the original."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from baco.accel.config import Accelerator
from baco.bench.fit.fitting import by_factors
from baco.common.portable import Floats
from baco.compiler.analysis.traffic import MachineRates
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.macros.conv_pipeline import conv_pipeline
from baco.compiler.styles.macros.cycles import ProductTile
from baco.compiler.styles.macros.estimate import macro_numbers
from baco.compiler.styles.macros.pipeline import PIPELINES, PipelineConstants
from baco.compiler.styles.macros.product_pipeline import product_pipeline

_FACTORS = ((0.8, 1.25), (0.93, 1.07))
#: Pull towards what the fit begins with, of each constant.
_PULL = 0.003


@dataclass(frozen=True)
class PipelineSample:
    """Rows of one macro, `loop_ws` or `loop_conv`, on the original, and their cycles from the first command to the last work."""

    macro: str
    layers: Sequence[Layer]
    schedules: Sequence[LoopWsSchedule | LoopConvSchedule]
    accelerator: Accelerator
    cycles: Floats

    def predicted(self, constants: PipelineConstants) -> Floats:
        """Cycles of each row; NaN for runs that are not gone through one by one."""
        machine, found = MachineRates.of(self.accelerator), []
        for layer, schedule in zip(self.layers, self.schedules, strict=True):
            numbers, tile = macro_numbers(layer, schedule, self.accelerator)
            if isinstance(tile, ProductTile):
                found.append(product_pipeline(machine, numbers, tile, constants))
            else:
                found.append(conv_pipeline(machine, numbers, tile, schedule.order, constants))
        return np.array([np.nan if total is None else total for total in found])


def fit_pipeline(sample: PipelineSample) -> PipelineConstants:
    """The constants that fit a sample best, pulled to the committed ones."""
    start = asdict(PIPELINES[sample.macro])

    def objective(values: dict[str, float]) -> float:
        errors = np.log(sample.predicted(PipelineConstants(**values)) / sample.cycles)
        errors = errors[~np.isnan(errors)]
        pull = sum(np.log(values[name] / value) ** 2 for name, value in start.items() if value > 0)
        return float(np.abs(errors).mean() + 0.3 * np.sqrt((errors**2).mean()) + _PULL * pull)

    return PipelineConstants(**by_factors(start, _FACTORS, objective))
