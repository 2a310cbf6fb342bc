"""Campaigns: parts of a configuration are put together in order, whoever ends first; mistakes of the generator are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from baco.accel.config import Accelerator
from baco.common.errors import BacoError
from baco.exploration import cosim as campaign
from baco.exploration.cosim import run_campaign
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.exploration.executors.tasks import Executor, Finished
from baco.sim.cosim.minimise import Minimised
from baco.sim.cosim.run import StreamOutcome
from baco.sim.cosim.stream import Stream
from tests.machines import PLAIN, SCARCE

STREAMS, FAILING = 250, {30, 110, 249}


@dataclass(frozen=True)
class FakeSimulator:
    """Says of a stream what its number tells."""

    accelerator: Accelerator
    checked: bool = False

    def play(self, streams: Sequence[Stream]) -> list[StreamOutcome]:
        return [outcome(one) for one in streams]


def outcome(stream: Stream) -> StreamOutcome:
    index = number(stream)
    if index in FAILING:
        return StreamOutcome(stream.name, "memory", f"{index:x} 1 2")
    return StreamOutcome(stream.name, "same", "", cycles=index, commands=1)


def number(stream: Stream) -> int:
    return int(stream.name.rpartition("-")[2])


class Backwards:
    """An executor that ends all tasks in the opposite order."""

    workers = 1

    def run(self, tasks: Iterable[Any], shelf: object = None) -> Iterator[Finished[Any, Any]]:
        for index, task in reversed(list(enumerate(tasks))):
            yield Finished(index, task, task.run(), "", 0.0)

    def close(self) -> None:
        pass


class BackwardsChoice(ExecutorChoice):
    def executor(self) -> AbstractContextManager[Executor]:
        return nullcontext(Backwards())


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "_simulator", FakeSimulator)


@pytest.mark.parametrize("engine", [ExecutorChoice("here"), BackwardsChoice()])
def test_parts_are_put_together_in_order(engine: ExecutorChoice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "minimise", lambda stream, _: Minimised(stream, outcome(stream), None, 7))
    said: list[str] = []
    results = list(run_campaign([PLAIN, SCARCE], STREAMS, 5, engine=engine, report=said.append))
    assert [one.machine for one in results] == [PLAIN, SCARCE]
    for one in results:
        assert [number(failure.stream) for failure in one.failures] == sorted(FAILING)
        assert [failure.minimised is not None for failure in one.failures] == [True, False, False]
        assert one.streams == one.commands == STREAMS - len(FAILING)
        assert one.cycles == sum(set(range(STREAMS)) - FAILING)
    assert f"{PLAIN.name}: streams 100 to 200 of 250: 1 mismatches" in said
    assert sum("shortening" in line for line in said) == 2


def test_a_legal_stream_that_races_is_a_mistake_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FakeSimulator, "play", lambda _, streams: [StreamOutcome(one.name, "raced", "") for one in streams]
    )
    with pytest.raises(BacoError, match="is not legal: raced"):
        list(run_campaign([PLAIN], 1, 5))
