"""What executors cost and survive (`baco bench executors`): short tasks, many workers, recording, equal results, kills."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, page_of, silent, table
from baco.bench.kills import KillResult, kill_runs
from baco.bench.runs import RunKey, RunTask, SearchRun
from baco.common.scratch import scratch_folder
from baco.exploration.candidate import Candidate
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.tasks import Call, Executor, gather
from baco.exploration.objective import Objective
from baco.exploration.space import load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

EXECUTORS = ("local", "ray")
STAGES = ("short", "many", "searches", "kills", "recorded")
#: Of the first measurement: the workers, and how long one of many tasks sleeps.
_WORKERS, _SHORT_SECONDS = 2, 0.01
#: Of the simulated cluster.
_MANY, _LONG_SECONDS, _LONG_TASKS_A_WORKER = 64, 1.0, 20
_MACHINES, _SHARED_BYTES = 4, 80 << 20
#: Searches whose results are compared, and candidates recorded.
_SEARCHES, _SAMPLES = 4, 300
#: Candidates that are recorded, in all and at a time.
_RECORDED, _BATCH, _RECORDED_NETWORK = 10_000, 50, "resnet50"

#: Kills of one study: finished ones are kept, so that an interrupted benchmark goes on.
_KILLS_A_STUDY = 10

#: From what was kept before to what is to be kept, once or more.
_Measure = Callable[[dict[str, Any] | None], Iterable[dict[str, Any]]]


def run(
    out: str | Path = FOLDER,
    executors: Sequence[str] = EXECUTORS,
    only: Sequence[str] = STAGES,
    *,
    tasks: PositiveInt = 10_000,
    kills: Annotated[int, Interval(ge=0, le=10_000)] = 50,
    many: Annotated[int, Interval(ge=1, le=1024)] = _MANY,
    say: Say = silent,
) -> dict[str, Any]:
    """What executors cost and survive: short tasks, many workers, equal results of searches, kills, recording.

    Finished stages are kept in the output folder's files: those that run replace their own figures only.

    Args:
        executors (--executor): local, ray; repeatable; by default both.
        only: short, many, searches, kills, recorded; repeatable; by default all stages.
        tasks: short tasks that two workers share.
        kills: of workers and drivers, for each executor, in studies of a few each; those that were kept before count.
        many: workers that sleep: a simulated cluster.
        out: folder for executors.md and executors.json.

    Returns by stage, and in it by executor.

    Raises InputError for other stages and executors, where Ray is wanted and not installed, and for a file of results that is none.
    """
    check_names(only, STAGES, "stage")
    for name in executors:
        ExecutorChoice(name)  # raises for others
    files = ResultFiles(out, "executors", page)
    result = files.before() or {}
    if not isinstance(result, dict) or not set(result) <= set(STAGES):
        raise files.foreign("these are no results of executors")
    wanted = [
        (stage, name, *one)
        for name in executors
        for stage, one in _measurements(name, tasks, kills, many, say).items()
    ]
    wanted.append(
        ("recorded", "study", f"{_RECORDED:,} candidates of {_RECORDED_NETWORK}", lambda _: [recorded()])
    )
    for stage, name, doing, measure in wanted:
        if stage in only:
            say(f"{name}: {doing}")
            load = os.getloadavg()[0]
            for found in measure(result.get(stage, {}).get(name)):
                result.setdefault(stage, {})[name] = found | {"load": load}
                files.keep(result)
    return result


def _measurements(name: str, tasks: int, kills: int, many: int, say: Say) -> dict[str, tuple[str, _Measure]]:
    """What is measured of an executor, by stage: in words, and what measures it."""
    two = ExecutorChoice(name, _WORKERS)
    return {
        "short": (f"{tasks:,} tasks of {1000 * _SHORT_SECONDS:g} ms", lambda _: [short_tasks(two, tasks)]),
        "many": (f"{many} workers that sleep", lambda _: [many_workers(name, many)]),
        "searches": (
            f"{_SEARCHES} searches, compared with those of one process",
            lambda _: [same_searches(name)],
        ),
        "kills": (f"{kills} kills", lambda before: _more_kills(name, kills, before, say)),
    }


def _more_kills(name: str, kills: int, before: dict[str, Any] | None, say: Say) -> Iterator[dict[str, Any]]:
    """Results with those before, study after study, until there were so many kills."""
    known = {field.name for field in fields(KillResult)}
    total = None if before is None else KillResult(**{key: before[key] for key in known})
    with scratch_folder() as scratch:
        while (done := 0 if total is None else total.drivers + total.workers) < kills:
            one = kill_runs(scratch, name, min(_KILLS_A_STUDY, kills - done), seed=done, note=say)
            total = one if total is None else total + one
            yield asdict(total)


def _timed(executor: Executor, tasks: Sequence[Call[None]]) -> tuple[float, float]:
    """Seconds that it took, and seconds of all workers that went into tasks."""
    busy = 0.0

    def add(_: int, __: int, one: Any) -> None:
        nonlocal busy
        busy += one.seconds

    begun = time.perf_counter()
    found = gather(executor, tasks, None, add)
    seconds = time.perf_counter() - begun
    assert len(found) == len(tasks)
    return seconds, busy


def _sleeping(count: int, seconds: float) -> list[Call[None]]:
    """Tasks that only sleep, for many workers on few processors."""
    return [Call(f"sleep {number}", time.sleep, (seconds,)) for number in range(count)]


def _warm(executor: Executor, workers: int) -> None:
    """Start all workers: more tasks than there are, so long that no worker gets them all."""
    gather(executor, _sleeping(2 * workers, 1.0))


def short_tasks(engine: ExecutorChoice, count: int) -> dict[str, float]:
    """The share of the workers' time that goes into short tasks; "nominal" counts what tasks sleep, not what sleeping takes."""
    with engine.executor() as executor:
        workers = executor.workers
        _warm(executor, workers)
        seconds, busy = _timed(executor, _sleeping(count, _SHORT_SECONDS))
    return {
        "tasks": count,
        "workers": workers,
        "seconds": seconds,
        "share": busy / (workers * seconds),
        "nominal_share": count * _SHORT_SECONDS / (workers * seconds),
    }


def many_workers(name: str, workers: int) -> dict[str, float]:
    """How near to ideal many workers are, which only sleep, so that they need no processors: local ones, or those of a Ray
    cluster of simulated machines."""
    tasks = _sleeping(workers * _LONG_TASKS_A_WORKER, _LONG_SECONDS)
    cluster = _cluster(workers) if name == "ray" else None
    try:
        with ExecutorChoice(name, workers, cluster.address if cluster else None).executor() as executor:
            _warm(executor, workers)
            seconds, _ = _timed(executor, tasks)
    finally:
        if cluster:
            cluster.shutdown()
    ideal = _LONG_SECONDS * _LONG_TASKS_A_WORKER
    return {"workers": workers, "tasks": len(tasks), "seconds": seconds, "of_ideal": ideal / seconds}


def _cluster(workers: int) -> Any:
    """Several machines as Ray simulates them on this one."""
    made = importlib.import_module("ray.cluster_utils").Cluster()
    machines = min(_MACHINES, workers)
    for machine in range(machines):
        made.add_node(
            num_cpus=workers // machines + (machine < workers % machines), object_store_memory=_SHARED_BYTES
        )
    return made


def same_searches(name: str) -> dict[str, Any]:
    """Whether searches by an executor with 1 and with 2 workers find what they find in one process, bit for bit, whoever ends
    first."""
    keys = [RunKey("deepbench_face", "gemmini", "gradient", seed, _SAMPLES) for seed in range(_SEARCHES)]

    def found(one: ExecutorChoice) -> list[tuple[int, list[tuple[int, float]]]]:
        with one.executor() as executor:
            runs: list[SearchRun] = gather(executor, [RunTask(key) for key in keys])
        return [(run.evaluations, [(spent, edp) for spent, _, edp in run.curve]) for run in runs]

    expected = found(HERE)
    same = {
        str(workers): found(ExecutorChoice(name, workers)) == expected for workers in range(1, _WORKERS + 1)
    }
    return {"searches": _SEARCHES, "samples": _SAMPLES, "same": same}


def recorded() -> dict[str, Any]:
    """Candidates that a study takes in a second, each batch on the disk before the next. All of them are members of the front
    when they come, each with an accelerator of its own, so that all are written in full."""
    workload = Workload.of([load_network(_RECORDED_NETWORK)])
    with scratch_folder() as folder:
        objective = Objective.parse("latency,energy")
        run_exploration(
            workload,
            load_space("reference"),
            objective,
            "random",
            100,
            out=folder / "made",
            cost_model="reference",
        )
        with StudyRecord.open(folder / "made" / FILE_NAME, read_only=True) as made:
            candidate, summary, state = made.candidates()[0], made.summaries()[-1], made.state()
            setup, tasks, provenance = made.setup, made.tasks, made.provenance
        assert state is not None
        found = [_traded(candidate, number, objective) for number in range(_RECORDED)]
        with StudyRecord.create(folder / FILE_NAME, setup, tasks, provenance) as study:
            begun, used = time.perf_counter(), time.process_time()
            for batch in range(_RECORDED // _BATCH):
                part = found[batch * _BATCH : (batch + 1) * _BATCH]
                study.record(replace(summary, batch=batch), part, state)
            seconds, used = time.perf_counter() - begun, time.process_time() - used
    return {
        "network": _RECORDED_NETWORK,
        "layers": len(tasks),
        "candidates": _RECORDED,
        "batch": _BATCH,
        "a_second": _RECORDED / seconds,
        "a_processor_second": _RECORDED / used,
    }


def _traded(candidate: Candidate, number: int, objective: Objective) -> Candidate:
    """With more memory, and a little less energy for a little more latency, the higher the number: no two dominate each
    other."""
    cost, machine = candidate.cost, candidate.accelerator
    other = replace(
        cost,
        latency_cycles=cost.latency_cycles * (1 + 1e-6 * number),
        energy_pj=cost.energy_pj * (1 - 1e-6 * number),
    )
    larger = machine.model_copy(update={"scratchpad_kib": machine.scratchpad_kib + number})
    return replace(candidate, accelerator=larger, cost=other, objective=objective.scalar(other))


Columns = dict[str, Callable[[dict[str, Any]], Any]]

#: What the page says of each stage, by column.
_COLUMNS: dict[str, Columns] = {
    "short": {
        "tasks of 10 ms": lambda one: f"{one['tasks']:,}",
        "workers": lambda one: one["workers"],
        "seconds": lambda one: f"{one['seconds']:.1f}",
        "share of the workers' time in tasks": lambda one: f"{one['share']:.1%}",
        "the same of 10 ms each": lambda one: f"{one['nominal_share']:.1%}",
    },
    "many": {
        "tasks that sleep 1 s": lambda one: f"{one['tasks']:,}",
        "workers": lambda one: one["workers"],
        "seconds": lambda one: f"{one['seconds']:.1f}",
        "of ideal": lambda one: f"{one['of_ideal']:.3f}",
    },
    "searches": {
        "searches": lambda one: one["searches"],
        "as in one process, by 1 worker": lambda one: _yes(one["same"]["1"]),
        "by 2": lambda one: _yes(one["same"]["2"]),
    },
    "kills": {
        "drivers killed": lambda one: one["drivers"],
        "workers killed": lambda one: one["workers"],
        "measurements": lambda one: one["measurements"],
        "lost": lambda one: one["lost"],
        "begun again after being kept": lambda one: one["repeated"],
        "ended twice": lambda one: one["ended_twice"],
        "designs as undisturbed": lambda one: _yes(one["same"]),
        "seconds": lambda one: f"{one['seconds']:.0f}",
    },
}


def page(result: dict[str, Any]) -> str:
    """A table of each stage that was run."""
    tables = [
        table(
            ({"executor": name, **row} for name, row in result[stage].items()),
            {"executor": lambda row: row["executor"], **columns, "load": lambda row: f"{row['load']:.1f}"},
        )
        for stage, columns in _COLUMNS.items()
        if stage in result
    ]
    recorded = [
        f"Candidates of {study['network']} ({study['layers']} layers) recorded in a study, {study['batch']} a batch, each with an"
        f" accelerator of its own, all members of the front: {study['a_second']:,.0f} a second,"
        f" {study['a_processor_second']:,.0f} in a second of one processor (load {study['load']:.1f})."
        for study in result.get("recorded", {}).values()
    ]
    return page_of(
        "Executors",
        "Made by `baco bench executors`. Load is that of the machine in the minute before, by other programs and earlier stages.",
        *tables,
        *recorded,
    )


def _yes(true: bool) -> str:
    return "yes" if true else "NO"
