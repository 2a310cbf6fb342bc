"""Options that say where the tasks of a command run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

if TYPE_CHECKING:
    from baco.exploration.executors.executor_choice import ExecutorChoice


@dataclass(frozen=True)
class EngineOptions:
    """Processes of this machine, or a cluster; see docs/many-machines.md.

    Attributes:
        executor (local|ray|here): Who runs it: processes of this machine, Ray (pip install 'baco[ray]'), or this process alone.
        address (HOST:PORT): With --executor ray: a cluster that runs already, or `auto`; by default one is started on this machine.
    """

    panel: ClassVar[str] = "Where tasks run"
    executor: str = "local"
    address: str | None = None

    def engine(self, workers: int | None) -> ExecutorChoice:
        """Raises InputError for what does not go together."""
        from baco.exploration.executors.executor_choice import ExecutorChoice

        return ExecutorChoice(self.executor, workers, self.address)


@dataclass(frozen=True)
class WorkerOptions(EngineOptions):
    """And how many run side by side, where that is as many as there are processors.

    Attributes:
        workers (N): Tasks side by side; by default one a processor.
    """

    workers: Annotated[int | None, typer.Option(max=1024)] = None

    @property
    def chosen(self) -> ExecutorChoice:
        """Raises InputError for what does not go together."""
        return self.engine(self.workers)


@dataclass(frozen=True)
class JobOptions(EngineOptions):
    """And how many run side by side, where that is one.

    Attributes:
        jobs (N): Tasks at the same time, a process of one thread each.
    """

    jobs: Annotated[int, typer.Option(min=1, max=1024)] = 1

    @property
    def chosen(self) -> ExecutorChoice:
        """Raises InputError for what does not go together. A single local task at a time runs in this process."""
        from baco.exploration.executors.executor_choice import HERE

        return HERE if self.jobs == 1 and self.executor == "local" else self.engine(self.jobs)
