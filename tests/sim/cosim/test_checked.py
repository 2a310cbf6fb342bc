"""Verilog that is checked while it runs: random contents at power-up, and ports that keep to their protocol."""

from __future__ import annotations

import shutil
from dataclasses import replace
from importlib import resources

import pytest

from baco.accel.config import Accelerator
from baco.exploration.cosim import run_campaign
from baco.sim.cosim.run import Simulator, powered_stream, random_stream
from baco.sim.cosim.stream import Stream
from tests.machines import NORMAL, PLAIN, WHOLE

#: What is right, and what hides where memory never waits and registers start as zeros.
FAULTS = {
    "baco_dma_read": (
        "  assign rd_req_valid = span_valid && in_flight != LIMIT;\n",
        "  reg tired;\n  always @(posedge clock) tired <= rd_req_valid && !rd_req_ready && !reset;\n"
        "  assign rd_req_valid = span_valid && in_flight != LIMIT && !tired;\n",
    ),
    "baco_reservation": ("      used <= {N{1'b0}};\n", ""),
}


@pytest.fixture(scope="module")
def sound() -> Simulator:
    return Simulator(PLAIN, checked=True)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Simulator:
    sources = tmp_path_factory.mktemp("faulty") / "rtl"
    shutil.copytree(str(resources.files("baco.accel") / "rtl"), sources)
    for name, (right, wrong) in FAULTS.items():
        path = sources / f"{name}.v"
        text = path.read_text()
        assert text.count(right) == 1
        path.write_text(text.replace(right, wrong))
    return Simulator(PLAIN, sources=sources, checked=True)


def without_waiting(stream: Stream) -> Stream:
    return replace(stream, settings=stream.settings | {"stall": 0, "reads": 256, "power": 0})


@pytest.mark.parametrize(
    ("accelerator", "count"),
    [
        (PLAIN, 60),
        pytest.param(WHOLE, 120, marks=pytest.mark.slow),
        pytest.param(NORMAL, 60, marks=pytest.mark.slow),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_streams_from_random_contents_of_all_registers_and_memories(
    accelerator: Accelerator, count: int
) -> None:
    (result,) = run_campaign([accelerator], count, seed=0, kind="powered", shorten=False)
    assert [failure.outcome.describe() for failure in result.failures] == []
    assert result.streams == count


def test_what_power_up_leaves_decides_neither_cycles_nor_memory(sound: Simulator) -> None:
    stream = powered_stream(PLAIN, 0, 0)
    seeds = [0, 1, 2, int(stream.settings["power"])]
    found = sound.play([replace(stream, settings=stream.settings | {"power": seed}) for seed in seeds])
    assert {(one.kind, one.cycles, one.digest) for one in found} == {
        ("same", found[0].cycles, found[0].digest)
    }


def test_an_offer_that_is_taken_back_is_found(sound: Simulator, faulty: Simulator) -> None:
    streams = [random_stream(PLAIN, 0, index) for index in range(5)]
    slow = [replace(stream, settings=stream.settings | {"stall": 50}) for stream in streams]
    assert {outcome.kind for outcome in sound.play(slow)} == {"same"}
    for outcome in faulty.play(slow):
        assert outcome.kind == "handshake"
        assert "port_read_request takes back or changes what it offers" in outcome.describe()
    assert {outcome.kind for outcome in faulty.play(list(map(without_waiting, streams)))} == {"same"}


def test_a_register_that_is_not_reset_is_found(sound: Simulator, faulty: Simulator) -> None:
    streams = [powered_stream(PLAIN, 0, index) for index in range(10)]
    quick = [replace(stream, settings=stream.settings | {"stall": 0, "reads": 256}) for stream in streams]
    assert {outcome.kind for outcome in sound.play(quick)} == {"same"}
    assert any(outcome.failed and outcome.kind != "handshake" for outcome in faulty.play(quick))
    assert {outcome.kind for outcome in faulty.play(list(map(without_waiting, streams)))} == {"same"}
