"""C programs that use the accelerator and check its results against integer arithmetic (tests/programs)."""

from typing import Any

import pytest

from baco.accel.config import Accelerator
from baco.api.simulation import simulate
from tests.machines import GEMMINI, SMALL, UNITS
from tests.sim.accel_programs import PROGRAMS, build_program

#: The small one and the preset are those of other tests, so that their simulators are built once.
ACCELERATORS = {
    "dim 4": SMALL,
    "dim 8": Accelerator(name="eight", dim=8, scratchpad_kib=64, accumulator_kib=16),
    "dim 16": GEMMINI,
    "dim 32": Accelerator(name="thirty-two", dim=32, scratchpad_kib=256, accumulator_kib=64),
}


#: The same with what programs of tests/programs/normalizations need.
NORMALIZED = {
    name: one.replace(features={**one.features.model_dump(), "normalizations": True})
    for name, one in ACCELERATORS.items()
} | {"dim 4": UNITS}
NORMALIZED_PROGRAMS = ("normalizations/layernorm", "normalizations/normalized_matmul")


def run(program: str, accelerator: Accelerator, engine: str) -> None:
    result = simulate(build_program(program, accelerator), accelerator, engine=engine)
    assert result.console.endswith(": right\n"), result.console
    assert result.exit_code == 0
    # the program carries the hash of the accelerator it was compiled for
    assert not any("configuration hash" in note for note in result.notes)


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 9


def on_one_side(first: int) -> list[Any]:
    """Every program on every accelerator; those of sides 4 and 16 take turns every time, beginning with the one or the other."""
    return [
        pytest.param(
            *(program, accelerator),
            id=f"{program}-{name}",
            marks=[pytest.mark.slow] * (name != ("dim 4", "dim 16")[(first + number) % 2]),
        )
        for number, program in enumerate(PROGRAMS)
        for name, accelerator in ACCELERATORS.items()
    ]


@pytest.mark.parametrize(("program", "accelerator"), on_one_side(0))
def test_on_the_functional_model(program: str, accelerator: Accelerator) -> None:
    run(program, accelerator, "functional")


@pytest.mark.parametrize(("program", "accelerator"), on_one_side(1))
def test_on_the_verilog(program: str, accelerator: Accelerator) -> None:
    run(program, accelerator, "rtl")


@pytest.mark.parametrize("accelerator", NORMALIZED.values(), ids=NORMALIZED)
@pytest.mark.parametrize("program", NORMALIZED_PROGRAMS)
def test_normalizations_on_the_functional_model(program: str, accelerator: Accelerator) -> None:
    run(program, accelerator, "functional")


@pytest.mark.parametrize("name", ["dim 4", pytest.param("dim 16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("program", NORMALIZED_PROGRAMS)
def test_normalizations_on_the_verilog(program: str, name: str) -> None:
    run(program, NORMALIZED[name], "rtl")


def test_a_wrong_result_is_told() -> None:
    """Hardware without ReLU, which its header cannot say."""
    without = SMALL.replace(features=SMALL.features.model_copy(update={"activations": False}))
    program = build_program("accumulator", without)
    result = simulate(program, without, engine="functional")
    assert result.exit_code == 1
    assert result.console.startswith("wrong: scaled store, case ")
