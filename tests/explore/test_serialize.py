"""Serialisation is exact, plain, and reads nothing malformed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.compiler.mapping.nest import REGISTER_DIMS, Mapping
from baco.exploration import serialize as s
from baco.exploration._json import to_json
from baco.exploration.candidate import BatchSummary, Candidate, Cost
from baco.workloads.network import Network, Operator, Task, Tensor, Unsupported, Workload
from baco.workloads.problem import DIMS, Problem
from tests.explore.fake_searcher import toy_mapping
from tests.explore.study_helpers import small_workload


def through_text(data: Any) -> Any:
    """As a file would keep it; standard JSON only."""
    return json.loads(json.dumps(data, allow_nan=False))


@st.composite
def mappings(draw: st.DrawFn) -> Mapping:
    flow = draw(st.sampled_from(["WS", "OS"]))
    factor = st.integers(1, 2**40)
    levels = [
        tuple(draw(factor) if level or d in REGISTER_DIMS[flow] else 1 for d in DIMS) for level in range(4)
    ]
    order = tuple("".join(draw(st.permutations(DIMS))) for _ in range(4))
    copies = tuple(draw(st.integers(1, 2)) for _ in range(3))
    return Mapping(flow, draw(st.integers(1, 128)), draw(st.integers(1, 128)), tuple(levels), order, copies)  # type: ignore[arg-type]


@given(mappings())
def test_mappings_round_trip(mapping: Mapping) -> None:
    assert s.read_json("a mapping", Mapping, through_text(to_json(mapping))) == mapping


bound = st.integers(1, 40)


@given(st.builds(Problem, *[bound] * 7, *[st.integers(1, 4)] * 4, st.integers(1, 8)), st.floats(1e-9, 1e9))
def test_problems_and_tasks_round_trip(problem: Problem, count: float) -> None:
    assert s.read_json("a problem", Problem, through_text(s.problem_to_json(problem))) == problem
    task = Task("net", problem, count, ("a", "b"))
    assert s.task_from_json(through_text(to_json(task))) == task


positive = st.floats(5e-324, 1.7e308)


@settings(max_examples=50)
@given(positive, positive, positive, st.integers(0, 2**53), positive, st.booleans())
def test_candidates_round_trip(
    latency: float, energy: float, area: float, samples: int, objective: float, front: bool
) -> None:
    tasks = small_workload().tasks
    chosen = tuple(toy_mapping(task, 16, 3) for task in tasks)
    cost = Cost(latency, energy, area, "measured")
    candidate = Candidate(load_accelerator("gemmini-default"), tasks, chosen, cost, samples, objective, front)
    assert s.candidate_from_json(through_text(s.candidate_to_json(candidate)), tasks) == candidate


def test_numbers_of_numpy_become_plain() -> None:
    tasks = small_workload().tasks
    mapping = toy_mapping(tasks[0], 16, 3)
    wide = Mapping(
        mapping.dataflow,
        np.int64(mapping.rows),  # type: ignore[arg-type]
        np.int32(mapping.columns),  # type: ignore[arg-type]
        tuple(tuple(np.int64(f) for f in level) for level in mapping.temporal),  # type: ignore[misc]
        mapping.order,
    )
    assert s.read_json("a mapping", Mapping, through_text(to_json(wide))) == mapping
    summary = BatchSummary(1, int(np.int64(5)), np.float64(0.1), np.float64(2.5), "x", {"a": np.float64(0.1)})
    assert s.read_json("a batch", BatchSummary, through_text(to_json(summary))) == summary
    nothing_yet = BatchSummary(0, 0, 0.0, None, "x")
    assert s.read_json("a batch", BatchSummary, through_text(to_json(nothing_yet))) == nothing_yet


def test_workloads_round_trip_as_whole_graphs() -> None:
    tiny = small_workload().networks[0]
    other = Network(
        "other</script>",
        (Tensor("x", (1, 2)),),
        (Operator("relu", "relu", ("x",), Tensor("y", (1, 2)), fused=True, repeat=12),),
        (Unsupported("Einsum", "node 3", "no rule"),),
        "model.onnx",
        {"batch": 2, "phase": "decode"},
    )
    workload = Workload((tiny, other), (1.0, 0.1))
    again = s.workload_from_json(through_text(s.workload_to_json(workload)))
    assert again == workload
    assert again.networks[1].options == other.options
    assert again.tasks == workload.tasks


def variants(data: Any) -> list[Any]:
    """`data` with each key left out and each value replaced by something of another kind."""
    changed: list[Any] = []
    if isinstance(data, dict):
        for key in data:
            changed.append({k: v for k, v in data.items() if k != key})
            for junk in (None, "junk", -1, 0.5, [], {}, [[]], True):
                if junk != data[key] or type(junk) is not type(data[key]):
                    changed.append({**data, key: junk})
            changed += [{**data, key: inner} for inner in variants(data[key])]
    if isinstance(data, list) and data:
        changed.append(data[:-1])
        changed += [[inner, *data[1:]] for inner in variants(data[0])]
    return changed


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (
            lambda: to_json(toy_mapping(small_workload().tasks[0], 8, 2)),
            partial(s.read_json, "a mapping", Mapping),
        ),
        (lambda: to_json(small_workload().tasks[0]), s.task_from_json),
        (lambda: s.workload_to_json(small_workload()), s.workload_from_json),
        (lambda: to_json(Cost(1.0, 2.0, 3.0)), partial(s.read_json, "a cost", Cost)),
        (
            lambda: to_json(load_accelerator("gemmini-lean")),
            partial(s.read_json, "an accelerator", Accelerator),
        ),
        (
            lambda: to_json(BatchSummary(1, 2, 3.0, 4.0, "p", {"a": 1.0})),
            partial(s.read_json, "a batch", BatchSummary),
        ),
    ],
)
def test_malformed_records_raise_input_errors_only(
    write: Callable[[], Any], read: Callable[[Any], Any]
) -> None:
    refused = 0
    for bad in [None, [], "text", 3, *variants(through_text(write()))]:
        try:
            read(bad)
        except InputError:
            refused += 1
    assert refused > 5


def test_messages_name_what_is_malformed() -> None:
    data = to_json(toy_mapping(small_workload().tasks[0], 8, 2))
    with pytest.raises(InputError, match="the record of a mapping has no 'rows'"):
        s.read_json("a mapping", Mapping, {k: v for k, v in data.items() if k != "rows"})
    with pytest.raises(InputError, match="mapping is malformed: rows: Input should be a valid integer"):
        s.read_json("a mapping", Mapping, {**data, "rows": 1.5})
    accelerator = to_json(load_accelerator("gemmini-lean"))
    with pytest.raises(InputError, match="an accelerator is malformed: dim"):
        s.read_json("an accelerator", Accelerator, {**accelerator, "dim": "wide"})
    with pytest.raises(InputError, match="a cost is malformed: source"):
        s.read_json("a cost", Cost, {**to_json(Cost(1.0, 1.0, 1.0)), "source": "guessed"})
