"""Programs of the path of Gemmini's library: its code where it has some, and every operator equal to integers."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.library import LibraryAddition, plan_library_addition
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.ops.elementwise import Addition
from baco.compiler.ops.views import View, dense
from baco.sim.engines.program import run_program
from baco.workloads.inputs.load import load_network
from tests.compiler.network.library_model import write_model

STOCK = load_accelerator("gemmini-default").replace(timing="gemmini")


def ran(path: Path, engine: str, accelerator: Accelerator = STOCK) -> NetworkProgram:
    network = load_network(str(path))
    quantised = quantise(network)
    data = quantise_inputs(quantised, random_inputs(network, 3))
    program = compile_network(
        quantised,
        accelerator,
        data=data,
        reference=reference(quantised, data),
        check_layers=True,
        library=True,
    )
    _, result = run_program(program.program, None, engine)
    assert result.exit_code == 0, result.console
    return program


@pytest.mark.parametrize("engine", ["functional", "gemmini-model"])
def test_every_operator_equals_integers(tmp_path: Path, engine: str) -> None:
    program = ran(write_model(tmp_path), engine)
    called = [step.function for step in program.lowered.steps]
    assert {"library_normalise", "library_map", "library_softmax"} <= set(called)
    (code,) = program.lowered.codes.values()
    assert isinstance(code, LibraryAddition)
    assert (code.rows, code.columns) == (25, 40)


def test_the_accelerator_of_another_side(tmp_path: Path) -> None:
    machine = load_accelerator("gemmini-default").replace(dim=8)
    assert any(
        isinstance(code, LibraryAddition)
        for code in ran(write_model(tmp_path), "functional", machine).lowered.codes.values()
    )


@pytest.mark.parametrize(
    ("rows", "columns", "tile"), [(3136, 256, (49, 96)), (49, 2048, (49, 128)), (16, 16, (16, 16))]
)
def test_tiles_of_additions_are_the_librarys(rows: int, columns: int, tile: tuple[int, int]) -> None:
    code = LibraryAddition(rows, columns, (columns,) * 3, relu=False)
    assert code.tile(STOCK) == tile
    blocks = [-(-size // STOCK.dim) for size in tile]
    assert blocks[0] * blocks[1] * STOCK.dim <= STOCK.accumulator_rows // 2


def test_operands_that_are_no_matrices_are_added_as_in_other_programs() -> None:
    view = View("x", (2, 3, 16), (400, 32, 1))
    op = Addition("a", (), dense("y", (2, 3, 16)), view, dense("z", (2, 3, 16)), 1.0, 1.0, 0.5, False)
    assert plan_library_addition(op, STOCK) is None
    whole = Addition("a", (), *(dense(name, (2, 3, 16)) for name in "yxz"), 1.0, 1.0, 0.5, relu=True)
    assert plan_library_addition(whole, STOCK) == LibraryAddition(6, 16, (16, 16, 16), relu=True)


@pytest.mark.parametrize(("image", "channels", "calls"), [(10, 24, 1), (56, 256, 28)])
def test_windows_of_one_pixel_become_rows_where_that_is_faster(
    tmp_path: Path, image: int, channels: int, calls: int
) -> None:
    program = ran(write_model(tmp_path, image=image, channels=channels, outs=2 * channels), "functional")
    steps = [one for one in program.lowered.steps if one.operator == "shortcut" and one.accelerator]
    assert len(steps) == calls
    assert len({one.function for one in steps}) == 1
