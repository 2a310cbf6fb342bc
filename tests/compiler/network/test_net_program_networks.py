"""Whole networks as programs: every operator and every output equals the integer reference."""

import pytest

from baco.accel.presets import load_accelerator
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.program import NetworkProgram, compile_network, scheduler
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.compiler.network.reference import reference
from baco.compiler.ops.products import Convolution
from baco.sim.engines.program import run_program
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Network
from baco.workloads.networks import llama


def run(
    spec: str | Network,
    layers: int | None = None,
    accelerator: str = "gemmini-default",
    quantiser: Quantiser = DEFAULT,
    baseline: bool = False,
) -> NetworkProgram:
    machine = load_accelerator(accelerator)
    network = load_network(spec) if isinstance(spec, str) else spec
    quantised = quantise(network, layers=layers, quantiser=quantiser)
    inputs = {n: a for n, a in random_inputs(network, 1).items() if n in quantised.inputs}
    data = quantise_inputs(quantised, inputs)
    expected = reference(quantised, data)
    program = compile_network(
        quantised, machine, data=data, reference=expected, check_layers=True,
        schedule=scheduler(machine, baseline=baseline),
    )  # fmt: skip
    outputs, result = run_program(program.program)
    assert result.exit_code == 0, result.console
    for value, buffer in program.buffer_names.items():
        if quantised.values[value].role == "output":
            assert (outputs[buffer] == expected[value]).all()
    # nothing can do with less memory, and the plan needs no more than a third above that
    assert program.memory.live_bytes <= program.memory.nbytes <= program.memory.live_bytes * 4 / 3
    return program


def on_accelerator(program: NetworkProgram) -> int:
    return sum(step.accelerator for step in program.lowered.steps)


def test_depthwise_convolutions() -> None:
    program = run("mobilenet_v2:image=32")
    depthwise = [op for op in program.network.operators if isinstance(op, Convolution) and op.groups > 1]
    assert len(depthwise) == 17
    assert not program.lowered.notes  # all tensor operators run on the accelerator
    assert on_accelerator(program) == 63


def test_an_encoder() -> None:
    program = run("bert_base:seq=9", layers=1)
    assert not program.lowered.notes
    assert not [step for step in program.lowered.steps if step.function == "net_copy"]


def test_heads_that_share_keys_and_values() -> None:
    """Their results go where the next product reads them, and RMS norms go side by side as layer norms do."""
    network = llama._llama("small", llama._Size(1, 512, 8, 2, 192, 50), 1, 8, "prefill", 0)
    steps = run(network).lowered.steps
    assert not [step for step in steps if step.function == "net_copy"]
    works = [step.work for step in steps if step.function == "net_normalise" and step.work is not None]
    assert [work.variant for work in works] == 3 * ["net_normalise dense"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "layers"),
    [
        ("resnet18", None),
        ("resnet50", None),
        ("bert_base", 2),
        ("mobilenet_v2", None),
        ("vit_b16", 2),
        ("gpt2:seq=40", 2),
        ("retinanet", None),
        ("unet:image=188", None),
    ],
)
def test_built_in_networks(spec: str, layers: int | None) -> None:
    assert not run(spec, layers).lowered.notes


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", ["gemmini-lean", "gemmini-large"])
def test_other_accelerators(accelerator: str) -> None:
    run("resnet18", accelerator=accelerator)


@pytest.mark.slow
def test_scales_that_are_powers_of_two() -> None:
    run("resnet18", quantiser=Quantiser(scales="power-of-two"))


@pytest.mark.slow
def test_the_tiling_of_gemminis_library() -> None:
    run("resnet18", baseline=True)
