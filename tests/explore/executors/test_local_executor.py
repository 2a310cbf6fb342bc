"""Measuring by local processes: order, progress, what is known already, workers and parents that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from baco.common.errors import BacoError, InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.text import parse_mapping_text
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.exploration.executors import local
from baco.exploration.executors.base import Progress, gather
from baco.exploration.executors.local import LocalExecutor
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import MeasurementStore
from baco.workloads.problem import Problem
from tests.machines import SMALL

#: Runs all jobs of this file and says which are finished, a line each, as it is told.
_SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from tests.explore.executors.test_local_executor import jobs
from baco.exploration.executors.base import gather
from baco.exploration.executors.local import LocalExecutor
from baco.exploration.measure.store import MeasurementStore
if __name__ == "__main__":
    with MeasurementStore(sys.argv[1]) as store, LocalExecutor(2) as two:
        gather(two, jobs(10), store, lambda n, total, one: print(one.task.key, flush=True))
"""


def jobs(count: int) -> list[MeasurementJob]:
    """Products of one channel more each, as one tile."""
    found = []
    for n in range(count):
        mapping = parse_mapping_text(
            f"L3[WIO] N1 - L2[WI] N1 K4X - L1[O] N1 C4X - L0[W] P{n + 2} buffers 1,1,1"
        )
        layer = Layer(Problem(P=n + 2, C=4, K=4))
        found.append(MeasurementJob(layer, ExplicitSchedule(mapping), SMALL, name=f"job {n}"))
    return found


def measure(
    jobs: Iterable[MeasurementJob],
    workers: int,
    store: MeasurementStore,
    progress: Progress[MeasurementJob, Measurement] | None = None,
) -> list[Measurement]:
    with LocalExecutor(workers) as executor:
        return gather(executor, jobs, store, progress)


def infeasible() -> MeasurementJob:
    """A tile beyond the scratchpad."""
    mapping = parse_mapping_text("L3[WIO] N1 - L2[WI] N1 K4X - L1[O] N1 C4X - L0[W] P9999 buffers 1,1,1")
    return MeasurementJob(Layer(Problem(P=9999, C=4, K=4)), ExplicitSchedule(mapping), SMALL)


def test_all_jobs_in_their_order(tmp_path: Path) -> None:
    wanted = [*jobs(3), infeasible()]
    lines: list[tuple[int, int, str, str]] = []
    with MeasurementStore(tmp_path / "store") as store:
        found = measure(
            wanted, 2, store, lambda n, total, one: lines.append((n, total, one.task.name, one.value.status))
        )
        assert [one.status for one in found] == ["measured"] * 3 + ["infeasible"]
        assert [one.schedule for one in found[:3]] == [f"explicit {_text(n)}" for n in range(3)]
        assert sorted(line[0] for line in lines) == [1, 2, 3, 4]
        assert {line[1] for line in lines} == {4}
        assert store.all() == {job.key: one for job, one in zip(wanted, found, strict=True)}
        # the same again, drawn one by one, is only read; one is new and is measured in this process
        more = measure(iter([*wanted, *jobs(4)[3:]]), 0, store)
        assert more[:4] == found
        assert more[4].status == "measured"


def _text(n: int) -> str:
    return f"L3[WIO] N1 - L2[WI] N1 K4X - L1[O] N1 C4X - L0[W] P{n + 2} buffers 1,1,1"


def test_jobs_are_drawn_as_workers_become_free(tmp_path: Path) -> None:
    drawn: list[int] = []
    ahead: list[int] = []

    def source() -> Iterator[MeasurementJob]:
        for n, job in enumerate(jobs(5)):
            drawn.append(n)
            yield job

    with MeasurementStore(tmp_path / "store") as store:
        measure(source(), 1, store, lambda n, total, _: ahead.append(len(drawn) - n))
    assert max(ahead) <= 1


def test_errors_of_users_end_it_and_what_is_finished_stays(tmp_path: Path) -> None:
    short = jobs(3)[2]
    bad = MeasurementJob(Layer(Problem(P=9, C=4, K=4)), short.schedule, SMALL)  # not covered
    for workers in (0, 1):
        path = tmp_path / f"store{workers}"
        with MeasurementStore(path) as store:
            with pytest.raises(InputError, match="less than its bound"):
                measure([short, bad, *jobs(2)], workers, store)
            assert list(store.all()) == [short.key]


def test_a_worker_that_dies_is_replaced_and_one_that_always_does_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = local._start
    started = []

    def deadly(lives: int) -> local._Worker:
        worker = real()
        started.append(worker)
        if len(started) <= lives:
            worker.process.kill()
        return worker

    with MeasurementStore(tmp_path / "store") as store:
        monkeypatch.setattr(local, "_start", lambda: deadly(1))
        assert [one.status for one in measure(jobs(1), 1, store)] == ["measured"]
        assert len(started) == 2
        started.clear()
        monkeypatch.setattr(local, "_start", lambda: deadly(99))
        with pytest.raises(BacoError, match=r"'job 1' ended its process 10 times \(code -9\)"):
            measure(jobs(2), 1, store)
    assert all(not worker.process.is_alive() for worker in started)


def test_an_interrupt_of_the_group_reaches_no_worker(tmp_path: Path) -> None:
    """In a fresh process: the first worker used to be started with interrupts let through again."""
    script = """
import signal
from baco.exploration.executors.base import Call, gather
from baco.exploration.executors.local import LocalExecutor
if __name__ == "__main__":
    with LocalExecutor(2) as two:
        for held in gather(two, [Call(n, signal.pthread_sigmask, (signal.SIG_BLOCK, ())) for n in "ab"]):
            print(signal.SIGINT in held)
"""
    root = str(Path(__file__).parents[3])
    (tmp_path / "run.py").write_text(script)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py")],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", "True"]


def test_workers_run_nothing_of_the_current_folder(tmp_path: Path) -> None:
    """From their first import on, and in their simulators and compilers."""
    # here, since the scripts of this file, which import it, lack the folder of tests
    from tests.hostile_folder import hostile_folder

    folder, trace = hostile_folder(tmp_path)
    script = tmp_path / "run.py"
    script.write_text(_SCRIPT.format(tests=str(Path(__file__).parents[3])).replace("jobs(10)", "jobs(2)"))
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "store")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr, trace.read_text()) == (0, "", "")
    assert set(done.stdout.split()) == {job.key for job in jobs(2)}


def _killed_runs(folder: Path, kills: int, seed: int) -> None:
    """Kill a run at random times, now its parent alone, now everything, until so many kills are done or all is finished;
    nothing that was told to be finished may be missing, and one more run finishes the rest."""
    script = folder / "run.py"
    script.write_text(_SCRIPT.format(tests=str(Path(__file__).parents[3])))
    store_file = folder / "store"
    clock = random.Random(seed)
    measure(jobs(1), 0, MeasurementStore(folder / "other"))  # builds the simulator
    known: dict[str, Measurement] = {}
    for kill in range(kills):
        run = subprocess.Popen(
            [sys.executable, str(script), str(store_file)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        time.sleep(clock.uniform(0.5, 9.0))
        if kill % 2:
            os.killpg(run.pid, signal.SIGKILL)
        else:
            run.kill()
        assert run.stdout is not None
        told = set(run.stdout.read().split())  # workers that still live hold the other end until they end
        run.wait()
        with MeasurementStore(store_file) as store:
            now = store.all()
        assert told <= set(now)
        assert {key: now[key] for key in known} == known  # kept, and not measured again
        known = now
    done = subprocess.run(
        [sys.executable, str(script), str(store_file)], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {job.key for job in jobs(10)}
    with MeasurementStore(store_file) as store:
        final = store.all()
    assert {key: final[key] for key in known} == known
    assert {one.status for one in final.values()} == {"measured"}
    assert set(final) == {job.key for job in jobs(10)}


def test_killed_runs_lose_nothing(tmp_path: Path) -> None:
    _killed_runs(tmp_path, kills=3, seed=1)


@pytest.mark.slow
def test_many_killed_runs_lose_nothing(tmp_path: Path) -> None:
    _killed_runs(tmp_path, kills=20, seed=2)
