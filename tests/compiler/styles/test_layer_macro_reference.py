"""The macro styles on other implementations of the instruction set, as numpy models of them.

The reference functional simulator has one set of configuration registers, always takes half 0 unless a run names the
other, and LOOP_WS always the first rows of the accumulator (section 14, rows 13 and 35). Which slot LOOP_WS begins with
is undefined in hardware.
"""

import random
from itertools import product

import numpy as np
import pytest
from xdsl.dialects import func

from baco.accel.config import Accelerator
from baco.compiler.ir.emit import Emitter
from baco.compiler.styles import Operands, emit_layer, workspaces
from tests.compiler.ir.strict_machine import StrictGemmini, StrictMachine
from tests.compiler.layers.layer_oracle import draw_tensors, run_layer
from tests.compiler.styles.layer_programs import FILL, Case
from tests.compiler.styles.random_layers import (
    draw_conv_schedule,
    draw_convolution,
    draw_product,
    draw_product_schedule,
)

SMALL = Accelerator(name="small", dim=4, scratchpad_kib=4, accumulator_kib=2)
_NAMES = ("input", "weight", "output", "bias", "residual", "partial_sums")


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
        machine.gemmini.fence()  # between layers
        layer = case.layer
        tensors = draw_tensors(layer, numbers)
        spaces = workspaces(layer, case.schedule, SMALL)
        start = np.full(layer.output_extent, FILL, np.int8 if layer.scale is not None else np.int32)
        arrays = {**tensors, "output": start} | {name: np.zeros(size, np.int8) for name, size in spaces}
        at, places = 64, {}
        for name, array in arrays.items():
            places[name] = machine.base + at
            machine.bytes[at : at + array.nbytes] = array.view(np.uint8)
            at += (array.nbytes + 127) // 64 * 64
        e = Emitter("layer", _NAMES)
        address = dict(zip(_NAMES, e.arguments, strict=True))
        operands = Operands(
            address["input"],
            address["weight"],
            address["output"],
            address["bias"] if layer.bias else 0,
            address["residual"] if layer.residual_scale is not None else 0,
            {name: address[name] for name, _ in spaces},
        )
        emit_layer(e, layer, case.schedule, SMALL, operands)
        function = e.finish().body.block.first_op
        assert isinstance(function, func.FuncOp)
        machine.call(function, [places.get(name, 0) for name in _NAMES])
        offset = places["output"] - machine.base
        got = machine.bytes[offset : offset + start.nbytes].view(start.dtype)
        assert np.array_equal(got, run_layer(layer, tensors, fill=FILL)), str(case)
