"""What executors cost and survive (`baco bench executors`): short tasks, many workers, recording, equal results, kills."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import PositiveInt

from baco.bench.kills import KillResult, kill_runs
from baco.bench.runs import RunKey, RunTask, SearchRun
from baco.bench.sleeping import Sleep
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import atomic_write, output_folder, read_input_text
from baco.common.scratch import scratch_folder
from baco.exploration.candidate import Candidate
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.tasks import Executor, gather
from baco.exploration.objective import Objective
from baco.exploration.space import load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

__all__ = ["EXECUTORS", "STAGES", "bench_executors", "executors_page"]

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
_KILL_COLUMNS = ("drivers", "workers", "measurements", "lost", "repeated", "ended_twice")

Note = Callable[[str], None]
#: From what was kept before to what is to be kept, once or more.
_Measure = Callable[[dict[str, Any] | None], Iterable[dict[str, Any]]]


def bench_executors(
    out: str | Path = "baco-bench",
    executors: Sequence[str] = EXECUTORS,
    stages: Sequence[str] = STAGES,
    *,
    tasks: PositiveInt = 10_000,
    kills: Annotated[int, Interval(ge=0, le=10_000)] = 50,
    many: Annotated[int, Interval(ge=1, le=1024)] = _MANY,
    note: Note = lambda _: None,
) -> dict[str, Any]:
    """What executors cost and survive: short tasks, many workers, equal results of searches, kills, recording.

    Finished stages are kept in the output folder's files: those that run replace their own figures only.

    Args:
        executors (--executor): local, ray; repeatable; by default both.
        stages (--only): short, many, searches, kills, recorded; repeatable; by default all stages.
        tasks: short tasks that two workers share.
        kills: of workers and drivers, for each executor, in studies of a few each; those that were kept before count.
        many: workers that sleep: a simulated cluster.
        out: folder for executors.md and executors.json.

    Returns what is in `executors.json`: by stage, and in it by executor.

    Raises InputError for other stages and executors, where Ray is wanted and not installed, and for a file of results that is none.
    """
    for name in executors:
        ExecutorChoice(name)  # raises for others
    for stage in stages:
        if stage not in STAGES:
            raise InputError(f"there is no stage '{stage}'", hint=did_you_mean(stage, STAGES))
    folder = output_folder(out)
    result = _earlier(folder / "executors.json")

    wanted = [
        (stage, name, *one)
        for name in executors
        for stage, one in _measurements(name, tasks, kills, many, note).items()
    ]
    wanted.append(
        ("recorded", "study", f"{_RECORDED:,} candidates of {_RECORDED_NETWORK}", lambda _: [recorded()])
    )
    for stage, name, doing, measure in wanted:
        if stage in stages:
            note(f"{name}: {doing}")
            load = os.getloadavg()[0]
            for found in measure(result.get(stage, {}).get(name)):
                result.setdefault(stage, {})[name] = found | {"load": load}
                atomic_write(folder / "executors.json", json.dumps(result, indent=2) + "\n")
                atomic_write(folder / "executors.md", executors_page(result))
    return result


def _measurements(
    name: str, tasks: int, kills: int, many: int, note: Note
) -> dict[str, tuple[str, _Measure]]:
    """What is measured of an executor, by stage: in words, and what measures it."""
    two = ExecutorChoice(name, _WORKERS)
    return {
        "short": (f"{tasks:,} tasks of {1000 * _SHORT_SECONDS:g} ms", lambda _: [short_tasks(two, tasks)]),
        "many": (f"{many} workers that sleep", lambda _: [many_workers(name, many)]),
        "searches": (
            f"{_SEARCHES} searches, compared with those of one process",
            lambda _: [same_searches(name)],
        ),
        "kills": (f"{kills} kills", lambda before: _more_kills(name, kills, before, note)),
    }


def _more_kills(name: str, kills: int, before: dict[str, Any] | None, note: Note) -> Iterator[dict[str, Any]]:
    """Results with those before, study after study, until there were so many kills."""
    known = {field.name for field in fields(KillResult)}
    total = None if before is None else KillResult(**{key: before[key] for key in known})
    with scratch_folder() as scratch:
        while (done := 0 if total is None else total.drivers + total.workers) < kills:
            one = kill_runs(scratch, name, min(_KILLS_A_STUDY, kills - done), seed=done, note=note)
            total = one if total is None else total + one
            yield asdict(total)


def _earlier(path: Path) -> dict[str, Any]:
    """Results of stages that ran before. Raises InputError for a file of something else."""
    if not path.exists():
        return {}
    try:
        found = json.loads(read_input_text(path))
    except ValueError as error:
        raise InputError(f"these are no results: {error}", location=Location(str(path))) from None
    if not isinstance(found, dict) or not set(found) <= set(STAGES):
        raise InputError(
            "these are no results of executors", location=Location(str(path)), hint="name another --out"
        )
    return found


def _timed(executor: Executor, tasks: Sequence[Sleep]) -> tuple[float, float]:
    """Seconds that it took, and seconds of all workers that went into tasks."""
    busy = 0.0

    def add(_: int, __: int, one: Any) -> None:
        nonlocal busy
        busy += one.seconds

    begun = time.perf_counter()
    found = gather(executor, tasks, None, add)
    seconds = time.perf_counter() - begun
    assert found == [task.number for task in tasks]
    return seconds, busy


def _warm(executor: Executor, workers: int) -> None:
    """Start all workers: more tasks than there are, so long that no worker gets them all."""
    gather(executor, [Sleep(number, 1.0) for number in range(2 * workers)])


def short_tasks(engine: ExecutorChoice, count: int) -> dict[str, float]:
    """The share of the workers' time that goes into short tasks; `nominal` counts what tasks sleep, not what sleeping takes."""
    with engine.executor() as executor:
        workers = executor.workers
        _warm(executor, workers)
        seconds, busy = _timed(executor, [Sleep(number, _SHORT_SECONDS) for number in range(count)])
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
    tasks = [Sleep(number, _LONG_SECONDS) for number in range(workers * _LONG_TASKS_A_WORKER)]
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


def executors_page(result: dict[str, Any]) -> str:
    """As Markdown: a table of each stage that was run."""
    lines = [
        "# Executors",
        "",
        "Made by `baco bench executors`. Load is that of the machine in the minute before, by other programs and earlier stages.",
    ]

    def table(stage: str, header: str, row: Callable[[dict[str, Any]], str]) -> None:
        if found := result.get(stage):
            columns = header.count("|") + 2
            lines.extend(["", f"| executor | {header} | load |", "|---|" + "--:|" * (columns - 1)])
            lines.extend(f"| {name} | {row(one)} | {one['load']:.1f} |" for name, one in found.items())

    table(
        "short",
        "tasks of 10 ms | workers | seconds | share of the workers' time in tasks | the same of 10 ms each",
        lambda one: (
            f"{one['tasks']:,} | {one['workers']} | {one['seconds']:.1f} | {one['share']:.1%} | {one['nominal_share']:.1%}"
        ),
    )
    table(
        "many",
        "tasks that sleep 1 s | workers | seconds | of ideal",
        lambda one: f"{one['tasks']:,} | {one['workers']} | {one['seconds']:.1f} | {one['of_ideal']:.3f}",
    )
    table(
        "searches",
        "searches | as in one process, by 1 worker | by 2",
        lambda one: " | ".join([str(one["searches"]), *(_yes(same) for same in one["same"].values())]),
    )
    table(
        "kills",
        "drivers killed | workers killed | measurements | lost | begun again after being kept | ended twice | designs as undisturbed | seconds",
        lambda one: (
            " | ".join(str(one[name]) for name in _KILL_COLUMNS)
            + f" | {_yes(one['same'])} | {one['seconds']:.0f}"
        ),
    )
    for one in result.get("recorded", {}).values():
        lines += [
            "",
            f"Candidates of {one['network']} ({one['layers']} layers) recorded in a study, {one['batch']} a batch, each with an"
            f" accelerator of its own, all members of the front: {one['a_second']:,.0f} a second,"
            f" {one['a_processor_second']:,.0f} in a second of one processor (load {one['load']:.1f}).",
        ]
    return "\n".join(lines) + "\n"


def _yes(true: bool) -> str:
    return "yes" if true else "NO"
