"""Validations whose workers and drivers are killed over and over: what is lost, what is done twice, is the study valid?

As a program (`python -m baco.bench.kills STUDY LOG EXECUTOR WORKERS`) it is the driver that is killed: it validates a study, and
tells in LOG what workers begin and end, and what it has acknowledged.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from baco.accel.presets import load_accelerator
from baco.common.errors import BacoError
from baco.common.processes import python_children
from baco.exploration._json import to_json
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.exploration.executors.tasks import Executor, Finished, Need, Shelf, WorkItem
from baco.exploration.measure.job import Measurable
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.session import STORE_NAME, ValidationOptions, measured_designs, validate_file
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.objective import Objective
from baco.exploration.space import DesignSpace
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from baco.workloads.network import Network, Operator, Tensor, Workload
from baco.workloads.problem import Problem

_WORKERS = 2
#: Layers for each kill, so that a validation is not finished before the last.
_LAYERS_A_KILL, _MORE_LAYERS = 3, 10
#: A driver that acknowledges nothing for so long hangs.
_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True)
class KillResult:
    """What kills did.

    Attributes:
        drivers, workers: that were killed.
        measurements: that the study needs.
        lost: acknowledged ones that were missing later, or others than had been acknowledged.
        repeated: begun again after they had been acknowledged.
        ended_twice: ended by two workers: a kill came between the end of the measurement and its record.
        same: the validated designs are those of a run that nobody disturbed.
    """

    executor: str
    drivers: int
    workers: int
    measurements: int
    lost: int
    repeated: int
    ended_twice: int
    same: bool
    seconds: float

    def __add__(self, other: KillResult) -> KillResult:
        """Of both."""
        sums = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return replace(self, **sums | {"executor": self.executor, "same": self.same and other.same})


@dataclass(frozen=True)
class _Told:
    """A task that tells when it begins and ends."""

    task: WorkItem[Any]
    log: Path

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def key(self) -> str:
        return self.task.key

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.task.needs

    def run(self) -> Any:
        _tell(self.log, f"begin {self.key}")
        found = self.task.run()
        _tell(self.log, f"end {self.key}")
        return found


class _TellingExecutor:
    """Another executor, whose tasks tell."""

    def __init__(self, inner: AbstractContextManager[Executor], log: Path) -> None:
        self._entered, self._log = inner, log

    def __enter__(self) -> Executor:
        self._inner = self._entered.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)

    @property
    def workers(self) -> int:
        return self._inner.workers

    def close(self) -> None:
        self._inner.close()

    def run(self, tasks: Iterable[Any], shelf: Shelf[Any] | None = None) -> Iterator[Finished[Any, Any]]:
        with closing(self._inner.run((_Told(task, self._log) for task in tasks), shelf)) as found:  # type: ignore[type-var]
            for done in found:
                yield Finished(done.index, done.task.task, done.value, done.worker, done.seconds)


@dataclass(frozen=True)
class _TellingEngine(ExecutorChoice):
    log: Path = Path()

    def executor(self) -> AbstractContextManager[Executor]:
        return _TellingExecutor(super().executor(), self.log)


class _Acknowledged:
    """The validation's progress: what it says is in the study."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def begin(self, designs: object, jobs: int, cycles: float) -> None:
        _tell(self._log, f"jobs {jobs}")

    def measured(self, finished: int, result: Measurement, job: Measurable, predicted: float | None) -> None:
        _tell(self._log, f"acknowledged {job.key} {result.seconds!r}")

    def note(self, text: str) -> None:
        """Of no interest."""


def _tell(log: Path, line: str) -> None:
    """Append a line to a file that several processes write, on the disk when this returns."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def small_study(folder: Path, layers: int) -> Path:
    """The file of a study of so many small products on accelerators of side 4."""
    operators = tuple(
        Operator(f"product{i}", "layer", (f"x{i}",), Tensor(f"y{i}", (1,)), Problem(P=8 + i, C=8, K=8))
        for i in range(layers)
    )
    space = DesignSpace(
        name="small",
        rules="gemmini",
        base=load_accelerator("gemmini-default"),
        dataflows=("WS", "OS"),
        double_buffer=False,
        dim=(4,),
        scratchpad_kib=(16,),
        accumulator_kib=(8,),
    )
    run_exploration(
        Workload.of([Network("products", (), operators)]),
        space,
        Objective.parse("edp"),
        "random",
        30,
        seed=1,
        out=folder,
        cost_model="reference",
    )
    return folder / FILE_NAME


class _Runs:
    """Drivers that validate one study, one after the other, and what they said."""

    def __init__(self, study: Path, executor: str) -> None:
        self.study, self.executor = study, executor
        self.log = study.with_name("log")
        self.log.touch()
        self.driver: subprocess.Popen[bytes] | None = None
        self.lost = 0

    def lines(self, what: str) -> list[list[str]]:
        """Words of all lines of a kind."""
        found = (line.split() for line in self.log.read_text(encoding="ascii").splitlines())
        return [words for words in found if words[0] == what]

    @property
    def acknowledged(self) -> int:
        """Measurements that a driver has acknowledged."""
        return len({words[1] for words in self.lines("acknowledged")})

    def start(self) -> None:
        """Another driver."""
        call = [sys.executable, "-m", "baco.bench.kills", str(self.study), str(self.log), self.executor]
        with python_children(), open(self.log.with_name("errors"), "wb") as said:
            self.driver = subprocess.Popen(
                [*call, str(_WORKERS)],
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=Path(__file__).resolve().parents[1],
            )

    def wait_for(self, more: int) -> bool:
        """Until so many more measurements are acknowledged by a driver; False if it is done before."""
        if self.driver is None:
            self.start()
        assert self.driver is not None
        wanted = len(self.lines("acknowledged")) + more
        until = time.monotonic() + _PATIENCE_SECONDS
        while len(self.lines("acknowledged")) < wanted:
            if self.driver.poll() is not None:
                return False
            if time.monotonic() > until:
                raise BacoError(f"the driver with --executor {self.executor} does not get anywhere")
            time.sleep(0.02)
        return True

    def kill_driver(self) -> None:
        """With SIGKILL; then look what became of the study."""
        assert self.driver is not None
        self.driver.kill()
        self.driver.wait()
        self.driver = None
        self.check()

    def kill_worker(self, clock: random.Random) -> bool:
        """Some worker of the driver, if it has any now."""
        assert self.driver is not None
        workers = sorted(_workers_of(self.driver.pid))
        if not workers:
            return False
        try:
            os.kill(clock.choice(workers), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def check(self) -> None:
        """Count what was acknowledged and is not there, or is something else. Raises StorageError for a study that is none."""
        told = {(words[1], words[2]) for words in self.lines("acknowledged")}
        with StudyRecord.open(self.study, read_only=True) as study:
            kept = study.measurements()
        with MeasurementStore(self.study.with_name(STORE_NAME)) as store:
            for key, seconds in told:
                found = store.get(key)
                self.lost += found is None or repr(found.seconds) != seconds or key not in kept

    def finish(self) -> None:
        """Let a driver come to its end."""
        if self.driver is None:
            self.start()
        assert self.driver is not None
        if self.driver.wait() != 0:
            said = self.log.with_name("errors").read_text("utf-8", errors="replace").splitlines()
            raise BacoError(f"a validation with --executor {self.executor} failed", details=said[-20:])
        self.check()


def _workers_of(driver: int) -> list[int]:
    """Processes below a driver that run its tasks."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                commands[int(entry.name)] = (entry / "cmdline").read_text("utf-8", errors="replace")
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])

    def below(pid: int) -> bool:
        while pid in parents and pid != driver:
            pid = parents[pid]
        return pid == driver

    def works(command: str) -> bool:
        # without its agents a machine of Ray ends: that is not a worker that dies
        return "multiprocessing.spawn" in command or (command.startswith("ray::") and "Agent" not in command)

    return [pid for pid, command in commands.items() if works(command) and below(pid)]


def kill_runs(
    folder: Path, executor: str, kills: int, *, seed: int = 0, note: Callable[[str], None] = lambda _: None
) -> KillResult:
    """Validate a study, with a kill of a worker and of the driver in turn at random times until there were so many; then let
    it end, and compare with a validation of the same study that nobody disturbed.

    Args:
        folder: for studies, empty, or of runs with other seeds: studies of the same layers share the undisturbed one.
        executor: `local` or `ray`.
        note: told after each kill.

    Raises BacoError where a validation fails or hangs, StorageError for a study that a kill has damaged.
    """
    begun = time.monotonic()
    layers = kills * _LAYERS_A_KILL + _MORE_LAYERS
    study, expected = folder / str(seed) / FILE_NAME, folder / f"expected{layers}" / FILE_NAME
    new = not expected.exists()
    if new:
        small_study(expected.parent, layers)
        shutil.copytree(expected.parent, folder / f"new{layers}")
    shutil.copytree(folder / f"new{layers}", study.parent)
    if new:
        _Runs(expected, "local").finish()  # builds the simulator, too
    runs, clock = _Runs(study, executor), random.Random(seed)
    drivers = workers = 0
    while drivers + workers < kills and runs.wait_for(clock.randint(1, 2)):
        time.sleep(clock.uniform(0.0, 0.3))
        if clock.random() < 0.5 + 0.5 * (drivers > workers):
            if not runs.kill_worker(clock):
                continue
            workers += 1
        else:
            runs.kill_driver()
            drivers += 1
        note(f"{executor}: {drivers} drivers and {workers} workers killed, {runs.acknowledged} measurements")
    runs.finish()
    ended = Counter(words[1] for words in runs.lines("end"))
    with StudyRecord.open(expected, read_only=True) as one, StudyRecord.open(study, read_only=True) as other:
        pairs = list(zip(measured_designs(one), measured_designs(other), strict=True))
    return KillResult(
        executor=executor,
        drivers=drivers,
        workers=workers,
        measurements=runs.acknowledged,
        lost=runs.lost,
        repeated=_repeated(runs.log),
        ended_twice=sum(count > 1 for count in ended.values()),
        same=bool(pairs) and all(a.measured == b.measured and to_json(a) == to_json(b) for a, b in pairs),
        seconds=time.monotonic() - begun,
    )


def _repeated(log: Path) -> int:
    """Measurements begun after they had been acknowledged."""
    acknowledged: set[str] = set()
    count = 0
    for words in map(str.split, log.read_text(encoding="ascii").splitlines()):
        if words[0] == "acknowledged":
            acknowledged.add(words[1])
        count += words[0] == "begin" and words[1] in acknowledged
    return count


def main(arguments: list[str]) -> int:
    """The driver."""
    study, log, executor, workers = arguments
    engine = _TellingEngine(executor, int(workers), log=Path(log).absolute())
    try:
        validate_file(Path(study), ValidationOptions(1, 0, engine), progress=_Acknowledged(engine.log))
    except BacoError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
