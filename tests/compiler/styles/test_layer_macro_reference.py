"""The macro styles on other implementations of the instruction set, as numpy models of them.

The reference functional simulator has one set of configuration registers, always takes half 0 unless a run names the
other, and LOOP_WS always the first rows of the accumulator (section 14, rows 13 and 35). Which slot LOOP_WS begins with
is undefined in hardware.
"""

import random
from itertools import product

import numpy as np
import pytest

from baco.accel.config import Accelerator
from tests.compiler.ir.strict_machine import StrictGemmini, StrictMachine
from tests.compiler.styles.layer_programs import Case, right_on
from tests.compiler.styles.random_layers import (
    draw_conv_schedule,
    draw_convolution,
    draw_product,
    draw_product_schedule,
)

SMALL = Accelerator(name="small", dim=4, scratchpad_kib=4, accumulator_kib=2)


class _ReferenceSimulator(StrictGemmini):
    def macro(self, funct: int, rs1: int, rs2: int) -> None:
        if funct == 8:
            self.ws.halves = dict.fromkeys(self.ws.halves, 0)
        super().macro(funct, rs1, rs2)
        self.ws.slot = self.conv.slot = 0


def _cases(r: random.Random) -> list[Case]:
    cases = []
    for size in r.sample(list(product(range(1, 15), repeat=3)), 8):
        layer = draw_product(r, *size)
        cases.append(Case(layer, draw_product_schedule(r, layer, SMALL)))
    while len(cases) < 16:
        layer = draw_convolution(r)
        schedule = draw_conv_schedule(r, layer, SMALL)
        if schedule is not None and layer.problem.macs < 20_000:
            cases.append(Case(layer, schedule))
    return cases


@pytest.mark.parametrize("kind", ["reference", "second slot first"])
def test_exact(kind):
    machine = StrictMachine(SMALL, 1 << 16)
    if kind == "reference":
        machine.gemmini.__class__ = _ReferenceSimulator
    else:
        machine.gemmini.ws.slot = 1
        machine.gemmini.ws.halves = dict.fromkeys(machine.gemmini.ws.halves, 1)
    numbers = np.random.default_rng(4)
    for case in _cases(random.Random(kind)):
        assert right_on(machine, SMALL, case, numbers), str(case)
