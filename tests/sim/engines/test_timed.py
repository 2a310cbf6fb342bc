"""The timed model of our accelerator against its Verilog: every command's allocation, issue and end, in the same cycles."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.sim.cosim.run import in_place_stream, random_stream
from baco.sim.engines.base import run_job
from baco.sim.job import Job, MainMemory, Recording, Simulation
from tests.machines import BLOCKS, FEW_FLOATS, FLOATS, SCARCE, SMALL, WHOLE_PLAIN, WIDE_INTS
from tests.sim.accel_programs import PROGRAMS, build_program
from tests.sim.harness_helpers import command

#: What both count; the value of a counter that a program reads while others run is left to the Verilog.
COUNTED = ("accelerator_", "memory_")


def both(folder: Path, machine: Accelerator, **job: object) -> tuple[Simulation, Simulation]:
    """Run on the model and on the Verilog, and compare all that can be seen of time."""
    found, logs = [], []
    for engine in ("timed", "rtl"):
        log = folder / f"{engine}.log"
        found.append(run_job(Job(machine, recording=Recording(log=log), **job), engine=engine))  # type: ignore[arg-type]
        logs.append(log.read_text().splitlines())
    timed, rtl = found
    assert logs[0] == logs[1]
    assert timed.cycles == rtl.cycles
    assert timed.instructions == rtl.instructions
    for name, value in rtl.counters.items():
        if name.startswith(COUNTED) and name != "accelerator_evaluated_cycles":
            assert timed.counters[name] == value, name
    return timed, rtl


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "machine",
    [SMALL, SCARCE, WHOLE_PLAIN, FLOATS, FEW_FLOATS, BLOCKS, WIDE_INTS],
    ids=lambda machine: machine.name,
)
def test_random_streams(machine: Accelerator, times: int, tmp_path: Path) -> None:
    """Explicit commands of all kinds in both dataflows, LOOP_WS and LOOP_CONV_WS, on fast and slow memories."""
    memories = (
        MainMemory(),
        MainMemory(latency_cycles=1, bytes_per_cycle=64.0),
        MainMemory(latency_cycles=300, bytes_per_cycle=1.5, burst_bytes=64),
        MainMemory(l2_kib=16),
    )
    path = tmp_path / "stream.txt"
    count = times * (2 if machine in (SCARCE, FEW_FLOATS) else 8)  # whose streams take ten times as long
    for index in range(count):
        path.write_text(random_stream(machine, 7, index).text().split("\n", 1)[1])
        both(tmp_path, machine, stream=path, memory=memories[index % len(memories)])


@pytest.mark.parametrize("machine", [SMALL, SCARCE], ids=["small", "scarce"])
def test_products_in_place(machine: Accelerator, tmp_path: Path) -> None:
    """Some are looked at row by row before it is known that their results overwrite nothing that is still to be read."""
    path = tmp_path / "stream.txt"
    for index in range(8):
        path.write_text(in_place_stream(machine, 3, index).text().split("\n", 1)[1])
        both(tmp_path, machine, stream=path)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "counters"])
def test_programs(name: str, tmp_path: Path) -> None:
    timed, rtl = both(tmp_path, SMALL, program=build_program(name, SMALL))
    assert timed.exit_code == rtl.exit_code == 0
    assert timed.console == rtl.console


def test_what_it_does_not_cover(tmp_path: Path) -> None:
    path = tmp_path / "stream.txt"
    path.write_text(command("FLUSH"))
    for feature in ("row_functions", "normalizations"):
        machine = SMALL.replace(features={feature: True})
        with pytest.raises(InfeasibleError, match="timed model"):
            run_job(Job(machine, stream=path), engine="timed")
    with pytest.raises(InputError, match="waveforms"):
        run_job(Job(SMALL, stream=path, recording=Recording(waves=tmp_path / "a.vcd")), engine="timed")
    with pytest.raises(InputError, match="gemmini"):
        run_job(Job(SMALL.replace(timing="gemmini"), stream=path), engine="timed")
