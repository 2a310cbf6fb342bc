"""Which executor is wanted: processes of this machine, Ray, or this process alone."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager
from dataclasses import dataclass

from baco.common.errors import InputError, did_you_mean
from baco.exploration.executors.local import LocalExecutor
from baco.exploration.executors.tasks import Executor

ENGINES = ("local", "ray", "here")


@dataclass(frozen=True)
class ExecutorChoice:
    """How many tasks run side by side, and where.

    Attributes:
        name: `local` (processes of this machine), `ray`, or `here` (one after the other in this process).
        workers: tasks side by side; None for as many as there are processors, of this machine or of the cluster.
        address: of a Ray cluster that runs already, `HOST:PORT` or `auto`; None starts one on this machine.
    """

    name: str = "local"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise InputError(f"there is no executor '{self.name}'", hint=did_you_mean(self.name, ENGINES))
        if self.workers is not None and self.workers < 1:
            raise InputError(f"at least 1 worker is needed, not {self.workers}")
        if self.address is not None and self.name != "ray":
            raise InputError("only a Ray cluster has an address", hint="add --executor ray")
        if self.name == "ray" and importlib.util.find_spec("ray") is None:
            raise InputError("Ray is not installed", hint="`pip install 'baco[ray]'`")

    def executor(self) -> AbstractContextManager[Executor]:
        """Nothing is started before there is something to run. Raises InputError where Ray is not installed."""
        if self.name == "ray":
            from baco.exploration.executors.rays import RayExecutor

            return RayExecutor(self.workers, self.address)
        return LocalExecutor(0 if self.name == "here" else self.workers)


#: As many local processes as there are processors.
LOCAL = ExecutorChoice()
#: One task after the other, in this process.
HERE = ExecutorChoice("here")
