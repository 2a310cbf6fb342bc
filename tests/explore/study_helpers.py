"""What the tests of studies share: a small workload, spaces, and a study's content as plain values."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from baco.accel.presets import load_accelerator
from baco.exploration.candidate import BatchSummary, Candidate
from baco.exploration.objective import Objective
from baco.exploration.records import ProvenanceRecord
from baco.exploration.samplers import descent, searchers
from baco.exploration.search import finish, tiling_finish
from baco.exploration.search.searcher import SearchSetup, State
from baco.exploration.space import DesignSpace
from baco.exploration.space.constraints import Constraints
from baco.exploration.studies.preparation import describe_setup
from baco.exploration.studies.study import StudyRecord
from baco.workloads.network import Network, Operator, Tensor, Workload
from baco.workloads.problem import Problem
from tests.explore.fake_searcher import FakeSearch

FAKE = ("tests.explore.fake_searcher", "FakeSearch", "for tests")


def register_fake() -> None:
    """Make `fake` a searcher of this process."""
    searchers.SEARCHERS["fake"] = FAKE


@contextmanager
def early_phases() -> Iterator[None]:
    """Searches come to every phase within some 300 samples."""
    with contextlib.ExitStack() as stack:
        for module, name, samples in (
            (descent, "_WARM_UP", 20),
            (descent, "_STARTS", 2),
            (tiling_finish, "_AFTER", 80),
            (tiling_finish, "_LEAST", 40),
            (finish, "_AFTER", 200),
            (finish, "_LEAST", 40),
        ):
            stack.enter_context(mock.patch.object(module, name, samples))
        yield


def small_workload(width: int = 64) -> Workload:
    """One network of two tasks, one of them run three times, and one operator of the host."""
    tensors = [Tensor(f"t{i}", (1, width, 8, 8)) for i in range(5)]
    conv = Problem(R=3, S=3, P=8, Q=8, C=width, K=width)
    operators = tuple(
        Operator(f"conv{i}", "conv2d", (tensors[i].name,), tensors[i + 1], conv) for i in range(3)
    )
    fc = Operator("fc", "linear", ("t3",), tensors[4], Problem(P=1, C=width, K=10), weight_words=650)
    softmax = Operator("softmax", "softmax", ("t4",), Tensor("out", (1, 10)))
    return Workload.of([Network("tiny", (tensors[0],), (*operators, fc, softmax))])


def small_space(**constraints: float) -> DesignSpace:
    """Some sides and capacities; the constraints given."""
    return DesignSpace(
        name="small",
        rules="gemmini",
        base=load_accelerator("gemmini-default"),
        dim=(4, 8, 16, 32),
        scratchpad_kib=(32, 64, 128, 256),
        accumulator_kib=(16, 32, 64),
        dataflows=("WS",),
        double_buffer=False,
        constraints=Constraints(**constraints),
    )


#: Both dataflows and copies; and the rules of the published model.
GEMMINI = dataclasses.replace(small_space(), dataflows=("WS", "OS"), double_buffer=True)
REFERENCE = DesignSpace(
    name="small-reference",
    rules="reference",
    base=load_accelerator("gemmini-default"),
    dim=tuple(range(2, 65)),
    scratchpad_kib=tuple(range(1, 513)),
    accumulator_kib=tuple(range(1, 129)),
    dataflows=("WS",),
    double_buffer=False,
)


def setup(
    seed: int = 0, samples: int | None = 40, objective: str = "edp", **constraints: float
) -> SearchSetup:
    """A search of the small workload."""
    tasks = small_workload().tasks
    budget = None if samples is None else samples * len(tasks)
    return SearchSetup(tasks, small_space(**constraints), Objective.parse(objective), budget, seed)


PROVENANCE: ProvenanceRecord = {
    "command": "explore --network tiny",
    "seed": 0,
    "versions": {"baco": "0"},
    "configuration_hash": "00",
    "started": "2026-01-01T00:00:00+00:00",
    "platform": {"system": "Linux", "processors": 2},
}


def new_study(path: Path, objective: str = "edp") -> StudyRecord:
    """An empty study of the small workload."""
    workload = small_workload()
    setup = describe_setup(workload, small_space(), Objective.parse(objective), "fake", 0)
    return StudyRecord.create(path, setup, workload.tasks, PROVENANCE)


def batches(
    count: int, seed: int = 0, objective: str = "edp"
) -> list[tuple[BatchSummary, list[Candidate], Any]]:
    """The first `count` batches of the fake searcher, as `StudyRecord.record` takes them."""
    searcher = FakeSearch(setup(seed, None, objective))
    found, best = [], None
    for number in range(count):
        result = searcher.step()
        for candidate in result.candidates:
            score = searcher.setup.objective.scalar(candidate.cost)
            best = score if best is None else min(best, score)
        summary = BatchSummary(number, result.evaluations, 0.25 * number, best, result.phase, result.details)
        found.append((summary, list(result.candidates), searcher.state()))
    return found


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that must not depend on interruptions: all of a study but clock times and checksums of them."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return {
            "tasks": connection.execute("SELECT * FROM tasks ORDER BY 1").fetchall(),
            "setup": connection.execute("SELECT value FROM meta WHERE key = 'setup'").fetchall(),
            "candidates": connection.execute("SELECT * FROM candidates ORDER BY id").fetchall(),
            "batches": connection.execute(
                "SELECT batch, evaluations, best_objective, phase, details, done FROM batches ORDER BY 1"
            ).fetchall(),
            "snapshot": connection.execute("SELECT batch, arrays, digest FROM snapshot").fetchall(),
        }
    finally:
        connection.close()


def equal_states(one: State, other: State) -> bool:
    """Same names, types, shapes and bits."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name], equal_nan=False)
        for name in one
    )
