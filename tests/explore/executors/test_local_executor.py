"""What local processes do beside what all executors do: interrupts, the current folder, parents that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import MeasurementStore
from tests.hostile_folder import hostile_folder
from tests.seeds import some

_ROOT = str(Path(__file__).parents[3])
_JOBS = 10
#: Whether SIGINT is blocked in workers, a line each.
_INTERRUPTS = """
import signal
from baco.exploration.executors.tasks import Call, gather
from baco.exploration.executors.local import LocalExecutor
if __name__ == "__main__":
    with LocalExecutor(2) as two:
        for held in gather(two, [Call(n, signal.pthread_sigmask, (signal.SIG_BLOCK, ())) for n in "ab"]):
            print(signal.SIGINT in held)
"""
#: Measures a layer on the RTL.
_LAYER = """
import sys
from baco.accel.config import Accelerator
from baco.compiler.choice.choose import choose
from baco.compiler.layers.layer import Layer
from baco.exploration.executors.tasks import gather
from baco.exploration.executors.local import LocalExecutor
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.store import MeasurementStore
from baco.workloads.problem import Problem
if __name__ == "__main__":
    small, layer = Accelerator(name="small", dim=4, scratchpad_kib=16, accumulator_kib=8), Layer(Problem(P=2, C=4, K=4))
    with MeasurementStore(sys.argv[1]) as store, LocalExecutor(1) as one:
        print(gather(one, [MeasurementJob(layer, choose(layer, small), small)], store)[0].status)
"""
#: Says which tasks are finished, a line each, as it is told.
_MADE_UP = """
import sys
from baco.exploration.executors.tasks import gather
from baco.exploration.executors.local import LocalExecutor
from baco.exploration.measure.store import MeasurementStore
from tests.explore.executors.executor_tasks import MadeUp
if __name__ == "__main__":
    with MeasurementStore(sys.argv[1]) as store, LocalExecutor(2) as two:
        gather(two, [MadeUp(n, 0.2) for n in range(int(sys.argv[2]))], store, lambda n, total, one: print(one.task.key, flush=True))
"""


def start(folder: Path, script: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    path = folder / "run.py"
    path.write_text(script)
    return subprocess.Popen(
        [sys.executable, str(path), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": _ROOT},
        stdout=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def told(run: subprocess.Popen[str]) -> list[str]:
    out, _ = run.communicate(timeout=300)
    assert run.returncode == 0
    return out.split()


def test_an_interrupt_of_the_group_reaches_no_worker(tmp_path: Path) -> None:
    """In a fresh process: the first worker used to be started with interrupts let through again."""
    assert told(start(tmp_path, _INTERRUPTS)) == ["True", "True"]


def test_workers_run_nothing_of_the_current_folder(tmp_path: Path) -> None:
    """From their first import on, and in their simulators and compilers."""
    folder, trace = hostile_folder(tmp_path)
    assert told(start(tmp_path, _LAYER, tmp_path / "store", cwd=folder)) == ["measured"]
    assert trace.read_text() == ""


def kept(file: Path) -> dict[str, Measurement]:
    with MeasurementStore(file) as store:
        return store.all()


@pytest.mark.parametrize("kills", some(0, [3, 20]))
def test_killed_runs_lose_nothing(tmp_path: Path, kills: int) -> None:
    """Killed at random times, now the parent alone, now everything: nothing that was told to be finished is missing, nothing is made
    again, and one more run finishes the rest."""
    file, clock = tmp_path / "store", random.Random(kills)
    known: dict[str, Measurement] = {}
    for kill in range(kills):
        run = start(tmp_path, _MADE_UP, file, _JOBS, start_new_session=True)
        time.sleep(clock.uniform(0.5, 3.0))
        if kill % 2:
            os.killpg(run.pid, signal.SIGKILL)
        else:
            run.kill()
        assert run.stdout is not None
        finished = set(run.stdout.read().split())  # workers that still live hold the other end until they end
        run.wait()
        now = kept(file)
        assert finished <= set(now)
        assert {key: now[key] for key in known} == known
        known = now
    assert sorted(told(start(tmp_path, _MADE_UP, file, _JOBS))) == [str(n) for n in range(_JOBS)]
    final = kept(file)
    assert {key: final[key] for key in known} == known
    assert sorted(final) == [str(n) for n in range(_JOBS)]
