"""Programs of several harts, each with its own accelerator or none, on one memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from baco.accel.system import System, SystemUnit
from baco.common.errors import InputError
from baco.compiler.codegen.elf_symbols import elf_symbols
from baco.compiler.codegen.toolchain import kept_objects, link_program, runtime_objects
from baco.sim.engines.base import check_job, run_job
from baco.sim.job import Job, Limits, Simulation, SimulationError, Watchpoint
from tests.machines import PAIR, SMALL

FOLDER = Path(__file__).parent
HEADER = FOLDER.parents[2] / "compiler/codegen/runtime/runtime.h"


def linked(name: str, text: str, folder: Path) -> Path:
    """A program whose harts all call its `baco_main`."""
    objects = kept_objects({"runtime.h": HEADER.read_text(), f"{name}.c": text})
    link_program([*runtime_objects(harts=True), *objects], folder / f"{name}.elf")
    return folder / f"{name}.elf"


def small_matrices(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 4, (3, 4, 4)).astype(np.int8)


def run_pipeline(folder: Path, engine: str, **settings: object) -> tuple[Simulation, np.ndarray]:
    """Of the first matrices: what was measured, and c0, c1, d."""
    program = linked("pipeline", (FOLDER / "pipeline.c").read_text(), folder)
    symbols = elf_symbols(program.read_bytes())
    named = dict(zip(("a", "b0", "b1"), small_matrices(1), strict=True))
    job = Job(
        machine=PAIR,
        program=program,
        images=tuple((symbols[name], array.tobytes()) for name, array in named.items()),
        dumps=tuple((symbols[name], 16) for name in ("c0", "c1", "d")),
        watches=(Watchpoint(symbols["baco_main"]),),
        **settings,  # type: ignore[arg-type]
    )
    done = run_job(job, engine=engine)
    return done, np.stack([np.frombuffer(dump, np.int8).reshape(4, 4) for dump in done.memory_dumps])


@pytest.mark.parametrize("engine", ["functional", "timed", "rtl"])
def test_harts_hand_results_of_their_accelerators_to_each_other(tmp_path: Path, engine: str) -> None:
    done, (c0, c1, d) = run_pipeline(tmp_path, engine)
    a, b0, b1 = small_matrices(1).astype(int)
    expected = np.zeros((4, 4), int)
    expected[:2, :2] = (a @ b0)[:2, :2] @ b1[:2, :2]
    np.testing.assert_array_equal(c0, (a @ b0).clip(-128, 127))
    np.testing.assert_array_equal(c1, expected.clip(-128, 127))
    np.testing.assert_array_equal(d, (expected.clip(-128, 127) + 1).astype(np.int8))
    assert done.exit_code == 7
    assert [mark.unit for mark in done.marks] == [0, 1, 2]
    assert [sum(unit.commands.values()) for unit in done.units] == [8, 8, 0]
    assert [unit.macs for unit in done.units] == [64, 8, 0]
    assert (done.macs, done.commands["MVIN"], done.config_hash) == (72, 4, PAIR.config_hash)


def test_the_accelerator_of_a_core_without_one_is_an_illegal_instruction(tmp_path: Path) -> None:
    text = '#include "runtime.h"\nint baco_main(int hart) { if (hart == 2) __asm__(".word 0x0e00307b"); while (1); }'
    run = run_job(Job(machine=PAIR, program=linked("illegal", text, tmp_path)), engine="functional")
    assert run.exit_code
    assert "cause 2" in run.console
    assert "0xe00307b" in run.console


def test_harts_that_wait_for_nothing_reach_the_limit(tmp_path: Path) -> None:
    text = 'int baco_main(int hart) { while (1) __asm__ volatile(""); }'
    program = linked("waiting", text, tmp_path)
    with pytest.raises(SimulationError, match="limit of 10000 cycles"):
        run_job(Job(machine=PAIR, program=program, limits=Limits(max_cycles=10_000)), engine="functional")


def test_what_simulates_one_accelerator_refuses_a_system(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a single accelerator, not the system 'pair'"):
        check_job(Job(machine=PAIR, program=tmp_path), "spike")


def test_a_program_is_bound_to_its_system() -> None:
    alone = System("one", (SystemUnit("small", SMALL),))
    turned = System("pair", PAIR.units[::-1])
    assert alone.config_hash == SMALL.config_hash
    assert len({alone.config_hash, PAIR.config_hash, turned.config_hash}) == 3
