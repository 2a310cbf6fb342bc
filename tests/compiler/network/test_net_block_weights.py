"""Networks of bfloat16 whose weights are blocks with shared powers: which numbers these are, and that programs compute with them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.weight_blocks import BLOCK_WEIGHTS
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.reference import reference
from baco.sim.engines.program import run_program
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network
from tests.compiler.layers.layer_oracle import rounded_to_blocks
from tests.compiler.network import net_quant_networks as small
from tests.machines import BLOCKS, FLOATS, SMALL
from tests.seeds import some

ROOMY = BLOCKS.replace(name="roomy", scratchpad_kib=32, accumulator_kib=8)
PLAIN = ROOMY.replace(name="plain", features=ROOMY.features.model_copy(update={"block_weights": False}))


def deep() -> Network:
    """Channels of more than a block and products of more than two, groups and results that are no multiple of anything."""
    g = GraphBuilder("deep")
    x = g.input("x", (1, 5, 6, 6))
    y = g.relu(g.conv2d(x, 37, 3, padding=1))
    y = g.relu(g.conv2d(y, 40, 3, stride=2))
    y = g.relu(g.conv2d(y, 40, 3, padding=1, groups=5))
    g.linear(g.linear(g.reshape(y, (1, 160)), 70), 9)
    return g.build()


def compiled(network: Network, form: str, machine: Accelerator, engine: str) -> NetworkProgram:
    """Compiled with checks of every operator, run and compared."""
    quantised = quantise(network, quantiser=Quantiser(weight_format=form).on(machine), seed=3)  # type: ignore[arg-type]
    given = {n: a for n, a in random_inputs(network, 4).items() if n in quantised.inputs}
    data = quantise_inputs(quantised, given)
    program = compile_network(
        quantised, machine, data=data, reference=reference(quantised, data), check_layers=True
    )
    _, result = run_program(program.program, engine=engine)
    assert result.exit_code == 0, result.console
    return program


@pytest.mark.parametrize("form", some(2, BLOCK_WEIGHTS))
def test_weights_are_numbers_of_blocks_and_lie_so(form: str) -> None:
    """The same numbers on machines that load blocks and on others; groups of channels stay as they are."""
    usual = quantise(deep(), quantiser=DEFAULT.on(ROOMY), seed=3)
    programs = [compiled(deep(), form, machine, "functional") for machine in (ROOMY, PLAIN)]
    for program in programs:
        assert program.network.values.keys() == usual.values.keys()
        blocked = [name for name, value in program.network.values.items() if value.blocks]
        assert len(blocked) == 5
        for name in blocked:
            before, numbers = (
                one.constants[name].view(ml_dtypes.bfloat16).astype(np.float64)
                for one in (usual, program.network)
            )
            assert np.array_equal(rounded_to_blocks(form, numbers), program.network.constants[name])
            assert 0 < np.abs(numbers - before).max() < np.abs(before).max() / 4
    layers = [code.layer for code in programs[0].lowered.layers.values()]
    assert len([layer for layer in layers if layer.weight_blocks is not None]) == 4
    assert {code.layer.weight_blocks for code in programs[1].lowered.layers.values()} == {None}


@pytest.mark.parametrize("engine", some(1, ["timed", "rtl"]))
def test_networks_run(engine: str) -> None:
    for form in ("mxfp4", "mxint8") if engine == "timed" else ("mxfp4",):
        program = compiled(small.convolutions(), form, ROOMY, engine)
        blocks = [code.layer.weight_blocks for code in program.lowered.layers.values()]
        assert any(one is not None and one.form == form for one in blocks)


def test_what_weights_in_blocks_need() -> None:
    for machine in (SMALL, FLOATS):
        with pytest.raises(InfeasibleError, match="weights in mxfp4 are for arrays of bf16"):
            Quantiser(weight_format="mxfp4").on(machine)
    with pytest.raises(InputError, match="weights in mxint8 are for arrays of bf16"):
        quantise(small.convolutions(), quantiser=Quantiser(weight_format="mxint8"))
    with pytest.raises(InfeasibleError, match="weight_scales cannot be chosen for roomy"):
        Quantiser(weight_format="mxfp4", weight_scales="channel").on(ROOMY)
    with pytest.raises(InputError, match="weights cannot be 'mxfp3'"):
        Quantiser(weight_format="mxfp3")  # type: ignore[arg-type]
    assert Quantiser(weight_format="mxfp4").on(ROOMY).label == "bf16, mxfp4 weights"
