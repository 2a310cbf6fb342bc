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
from baco.sim.job import Job, Limits, MainMemory, Simulation, SimulationError, Watchpoint
from tests.machines import MIXED, PAIR, SMALL, WHOLE_PLAIN
from tests.sim.accel_programs import build_program

FOLDER = Path(__file__).parent
HEADER = FOLDER.parents[2] / "compiler/codegen/runtime/runtime.h"


def linked(name: str, text: str, folder: Path) -> Path:
    """A program whose harts all call its `baco_main`."""
    objects = kept_objects({"runtime.h": HEADER.read_text(), f"{name}.c": text})
    link_program([*runtime_objects(harts=True), *objects], folder / f"{name}.elf")
    return folder / f"{name}.elf"


def small_matrices(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 4, (3, 4, 4)).astype(np.int8)


def pipeline_job(folder: Path, system: System, **settings: object) -> Job:
    """Products of the first matrices on two units."""
    program = linked("pipeline", (FOLDER / "pipeline.c").read_text(), folder)
    symbols = elf_symbols(program.read_bytes())
    named = dict(zip(("a", "b0", "b1"), small_matrices(1), strict=True))
    return Job(
        machine=system,
        program=program,
        images=tuple((symbols[name], array.tobytes()) for name, array in named.items()),
        dumps=tuple((symbols[name], 16) for name in ("c0", "c1", "d")),
        watches=(Watchpoint(symbols["baco_main"]),),
        **settings,  # type: ignore[arg-type]
    )


def run_pipeline(
    folder: Path, engine: str, system: System = PAIR, **settings: object
) -> tuple[Simulation, np.ndarray]:
    """Of the first matrices: what was measured, and c0, c1, d."""
    done = run_job(pipeline_job(folder, system, **settings), engine=engine)
    return done, np.stack([np.frombuffer(dump, np.int8).reshape(4, 4) for dump in done.memory_dumps])


@pytest.mark.parametrize(
    ("engine", "system"),
    [("functional", PAIR), ("timed", PAIR), ("timed", MIXED), ("rtl", PAIR), ("rtl", MIXED)],
    ids=lambda one: one.name if isinstance(one, System) else one,
)
def test_harts_hand_results_of_their_accelerators_to_each_other(
    tmp_path: Path, engine: str, system: System
) -> None:
    done, (c0, c1, d) = run_pipeline(tmp_path, engine, system)
    a, b0, b1 = small_matrices(1).astype(int)
    expected = np.zeros((4, 4), int)
    expected[:2, :2] = (a @ b0)[:2, :2] @ b1[:2, :2]
    np.testing.assert_array_equal(c0, (a @ b0).clip(-128, 127))
    np.testing.assert_array_equal(c1, expected.clip(-128, 127))
    np.testing.assert_array_equal(d, (expected.clip(-128, 127) + 1).astype(np.int8))
    assert done.exit_code == 7
    assert [mark.unit for mark in done.marks] == list(range(len(system.units)))
    assert [sum(unit.commands.values()) for unit in done.units[:3]] == [8, 8, 0]
    assert [unit.macs for unit in done.units[:3]] == [64, 8, 0]
    assert (done.macs, done.commands["MVIN"], done.config_hash) == (72, 4, system.config_hash)


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


@pytest.mark.parametrize("name", ["matmul", "tiled_matmul"])
def test_a_unit_that_has_memory_for_itself_takes_the_cycles_of_its_accelerator_alone(
    name: str, tmp_path: Path
) -> None:
    program = build_program(name, WHOLE_PLAIN)  # whose other harts stay where they are
    bound = tmp_path / "bound.elf"
    own, whole = (machine.config_hash.encode() for machine in (WHOLE_PLAIN, PAIR))
    bound.write_bytes(program.read_bytes().replace(own, whole))
    alone = run_job(Job(machine=WHOLE_PLAIN, program=program))
    beside = run_job(Job(machine=PAIR, program=bound))
    assert beside.cycles == alone.cycles
    assert beside.console == alone.console
    assert beside.units[0].commands == alone.commands
    assert [beside.units[0].counters[f"accelerator_{part}_cycles"] for part in ("busy", "mesh")] == [
        alone.counters[f"accelerator_{part}_cycles"] for part in ("busy", "mesh")
    ]
    assert not beside.units[1].commands


LOADS = """\
#include "runtime.h"
#define COMMAND(funct, a, b) \\
  __asm__ volatile(".insn r 0x7b, 3, " #funct ", x0, %0, %1" : : "r"((uint64_t)(a)), "r"((uint64_t)(b)) : "memory")
char data[2][4096] __attribute__((aligned(64)));
volatile int done[2][16];
static void work(int hart) {
  const uint64_t side = hart ? 2 : 4;
  COMMAND(0, 0x3f800000ull << 32 | side << 16 | 1u << 8 | 1, 64);
  for (int n = 0; n < ROUNDS; ++n) COMMAND(2, data[hart], side << 48 | 64ull << 32);
  __asm__ volatile("fence" : : : "memory");
  done[hart][0] = 1;
}
int baco_main(int hart) {
  if (hart < UNITS && hart >= FIRST) work(hart);
  if (hart == 0)
    for (int n = FIRST; n < UNITS; ++n)
      while (!done[n][0]) {
      }
  return 0;
}
"""


def test_units_share_the_channel_evenly(tmp_path: Path) -> None:
    def loaded(first: int, units: int, rounds: int) -> Simulation:
        text = f"#define FIRST {first}\n#define UNITS {units}\n#define ROUNDS {rounds}\n{LOADS}"
        program = linked(f"loads{first}{units}{rounds}", text, tmp_path)
        return run_job(Job(machine=PAIR, program=program, memory=MainMemory(bytes_per_cycle=2.0)))

    # requests of 64 bytes: rounds of 4 rows and of 2, the same bytes in all
    both = loaded(0, 2, 200)
    first, second = loaded(0, 1, 200), loaded(1, 2, 200)
    busy = [unit.counters["accelerator_busy_cycles"] for unit in both.units[:2]]
    alone = [one.units[at].counters["accelerator_busy_cycles"] for at, one in enumerate((first, second))]
    # nothing is lost: the channel moves all the time, and what both ask for is what each asks for alone
    assert both.dram_read_bytes is not None
    assert first.dram_read_bytes is not None
    assert second.dram_read_bytes is not None
    assert both.dram_read_bytes == first.dram_read_bytes + second.dram_read_bytes
    assert both.counters["memory_channel_busy_cycles"] > 0.97 * max(busy)
    # the one with half as much to load gets half of the channel until it is done
    assert busy[1] == pytest.approx(2 * alone[1], rel=0.05)
    assert busy[0] == pytest.approx(alone[0] + alone[1], rel=0.05)
