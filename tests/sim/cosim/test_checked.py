"""Verilog that is checked while it runs: random contents at power-up, and ports that keep to their protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from baco.accel.config import Accelerator
from baco.exploration.cosim import run_campaign
from baco.sim.cosim.minimise import minimise
from baco.sim.cosim.run import Simulator, StreamOutcome, powered_stream, random_stream
from baco.sim.cosim.stream import BASE, MEMORY_BYTES, Stream, parse_stream
from tests.machines import NORMAL, PLAIN, WHOLE
from tests.sim.cosim_streams import faulty_sources

#: What is right, and what hides where memory never waits and registers start as zeros.
FAULTS = (
    (
        "baco_dma_read",
        "  assign rd_req_valid = span_valid && in_flight != LIMIT;\n",
        "  reg tired;\n  always @(posedge clock) tired <= rd_req_valid && !rd_req_ready && !reset;\n"
        "  assign rd_req_valid = span_valid && in_flight != LIMIT && !tired;\n",
    ),
    ("baco_reservation", "      used <= {N{1'b0}};\n", ""),
)


@pytest.fixture(scope="module")
def sound() -> Simulator:
    return Simulator(PLAIN, checked=True)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Simulator:
    sources = faulty_sources(tmp_path_factory.mktemp("faulty"), *FAULTS)
    return Simulator(PLAIN, sources=sources, checked=True, brief=True)


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


def test_powered_streams_have_memory_anywhere() -> None:
    bases = {powered_stream(PLAIN, 0, index).settings.get("base", BASE) for index in range(30)}
    assert len(bases) > 10
    assert BASE in bases
    assert 1 << 32 < max(bases) < (1 << 40) - MEMORY_BYTES


def test_where_main_memory_begins_changes_nothing_but_addresses(sound: Simulator) -> None:
    carrying = (1 << 37) - MEMORY_BYTES // 2
    for index in range(8):
        here, there = sound.play(
            [random_stream(PLAIN, 3, index), random_stream(PLAIN, 3, index, base=carrying)]
        )
        assert here.kind == there.kind == "same"
        assert (here.cycles, here.digest) == (there.cycles, there.digest)


def test_a_shortened_stream_keeps_what_defines_random_contents(sound: Simulator, faulty: Simulator) -> None:
    quick = {"stall": 0, "reads": 256}
    streams = [powered_stream(PLAIN, 0, index) for index in range(10)]
    streams = [replace(stream, settings=stream.settings | quick) for stream in streams]
    failing = [one for one, outcome in zip(streams, faulty.play(streams), strict=True) if outcome.failed]
    small = minimise(failing[0], faulty)
    assert small.outcome.failed
    assert small.stream.settings["power"] == failing[0].settings["power"]  # from zeros on it does not fail
    kept = failing[0].groups[: failing[0].setup]
    assert small.stream.groups[: len(kept)] == kept
    assert len(small.stream.groups) < len(failing[0].groups)
    # it blames the fault, not what nothing has defined
    assert [one.kind for one in sound.play([small.stream])] == ["same"]
    assert parse_stream(small.stream.text(comments=True), "file") == small.stream


def test_a_fault_that_zeros_show_is_shortened_from_zeros_on() -> None:
    stream = powered_stream(PLAIN, 0, 0)
    small = minimise(stream, FailsAlways())  # type: ignore[arg-type]
    assert {"power", "setup"}.isdisjoint(small.stream.settings)
    assert len(small.stream.groups) == 1


class FailsAlways:
    """Says that every stream leaves other contents."""

    def play(self, streams: Sequence[Stream]) -> list[StreamOutcome]:
        return [StreamOutcome(stream.name, "memory", "80000000 1 2") for stream in streams]


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
