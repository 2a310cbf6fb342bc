"""Cycles of the published FPGA measurements by the timing `gemmini`, with nothing fitted to them.

The measured machine is the original's with a memory system like that of the profile; what sets it apart from programs of ours
is the software, one tile a round of the DRAM loops, cut as `published_counts` says. Each of its tiles costs what the busiest
unit needs, and what a run of the original's unrollers takes that neither loads nor computes. All cycles are those of
`baco.compiler.analysis.profile` and of the macros' constants, which other programs and another simulator gave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from baco.accel.presets import load_accelerator
from baco.bench.learned.published_counts import (
    CONVOLUTION,
    PRODUCT,
    convolution_counts,
    is_product,
    product_counts,
)
from baco.common.portable import Floats
from baco.compiler.analysis.arrays import NUMPY
from baco.compiler.analysis.traffic import MachineRates
from baco.compiler.mapping.nest import Mapping
from baco.compiler.styles.macros.runs import CONSTANTS, shortest_pass
from baco.workloads.problem import Problem

_ACCELERATOR, _TIMING = "gemmini-default", "gemmini"


def unfitted_cycles(problems: Sequence[Problem], mappings: Sequence[Mapping]) -> Floats:
    """Cycles (B,) of published rows."""
    machine = MachineRates.of(load_accelerator(_ACCELERATOR).replace(timing=_TIMING))
    return np.array([_row(p, m, machine) for p, m in zip(problems, mappings, strict=True)])


def _row(problem: Problem, mapping: Mapping, machine: MachineRates) -> float:
    product = is_product(problem)
    names = [event for events in (PRODUCT if product else CONVOLUTION).values() for event in events]
    counts = (product_counts if product else convolution_counts)(problem, mapping)
    of = dict(zip(names, counts.tolist(), strict=True))
    constants, profile = CONSTANTS[_TIMING], machine.profile
    pace = float(shortest_pass(NUMPY, machine, constants))
    fill = profile.line_cycles / profile.line_bytes
    if product:
        # units that wait for each other pass through the array one by one
        latency = 2 * machine.dim + constants.pass_latency
        array = max(of["unit_rows"], of["units"] * pace) + of["waiting_units"] * latency
        unit = max(mapping.rows, mapping.columns)
        hits, fresh = of["weight_rows"] + of["input_rows"], of["kept_weight_rows"] * unit
        slot = constants.slot_ws
    else:
        array = max(of["pass_rows"], of["passes"] * pace, of["weight_blocks"] * machine.dim)
        hits = max(of["weight_bytes"] / machine.beat, of["weight_requests"]) + of["input_rows"]
        # of a request that fills its line, the beats are counted among the hits
        fresh = of["kept_weight_requests"] * profile.line_bytes * (1 - 1 / (fill * machine.beat))
        slot = constants.slot_conv
    loads = hits + (fresh + of["kept_input_bytes"] * (1 if product else 1 - 1 / (fill * machine.beat))) * fill
    stores = of["result_rows"] * profile.store_pace
    tiles = (slot + constants.slot_side * machine.dim) * of["tiles"]
    return float(max(array, loads, stores) + tiles)
