"""Random streams on the accelerators of a system side by side: Verilog against the functional model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from baco.accel.system import System, SystemUnit
from baco.sim.cosim.run import Simulator, StreamOutcome, system_stream
from tests.machines import MIXED, PAIR, PLAIN
from tests.seeds import some
from tests.sim.cosim_streams import faulty_sources

#: Twice the smallest array, for faults that are planted: each takes a build.
TWICE = System("twice", (SystemUnit("first", PLAIN), SystemUnit("second", PLAIN)))
#: Lines of the Verilog, and what stands there instead.
FAULTS = {
    "beats go to the one after": (
        "baco_memory_arbiter",
        "assign unit_rd_resp_valid = receiver &",
        "assign unit_rd_resp_valid = {receiver[UNITS-2:0], receiver[UNITS-1]} &",
    ),
    "a grant is not held": ("baco_arbiter", "held <= !accepted;", "held <= 1'b0;"),
    "a unit never gets its turn again": (
        "baco_arbiter",
        "behind == {UNITS{1'b0}} ? waiting : behind",
        "behind == {UNITS{1'b0}} && granted == {UNITS{1'b0}} ? waiting : behind",
    ),
}


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("system", [PAIR, MIXED], ids=lambda one: one.name)
@pytest.mark.parametrize(("count", "seed"), some(1, [(8, 0), (10_000, 1)]), ids=["some", "many"])
def test_all_units_leave_what_the_functional_model_does(system: System, count: int, seed: int) -> None:
    simulator = Simulator(system, checked=True, brief=count < 100)
    played = 0
    for first in range(0, count, 100):
        streams = [system_stream(system, seed, index) for index in range(first, min(first + 100, count))]
        found = simulator.play(streams)
        assert [one.describe() for one in found if one.kind != "same"] == []
        played += len(found)
    assert played == count


def test_streams_of_a_system_share_what_is_only_read() -> None:
    stream = system_stream(PAIR, 0, 0)
    text = stream.text()
    assert text.count("unit ") == len(stream.parts) == 2
    assert stream == system_stream(PAIR, 0, 0)
    assert stream != system_stream(PAIR, 0, 1)


def outcomes(sources: Path | None, count: int) -> list[StreamOutcome]:
    simulator = Simulator(TWICE, sources=sources, checked=True, brief=True)
    return simulator.play([system_stream(TWICE, 3, index) for index in range(count)])


@pytest.mark.parametrize("fault", some(1, FAULTS))
def test_faults_of_the_arbiter_show(fault: str, tmp_path: Path) -> None:
    kinds = Counter(one.kind for one in outcomes(faulty_sources(tmp_path, FAULTS[fault]), 10))
    assert kinds["same"] < 10, kinds


@pytest.mark.slow  # without a fault, PAIR is played every time
def test_two_equal_units_without_a_fault() -> None:
    assert {one.kind for one in outcomes(None, 10)} == {"same"}
