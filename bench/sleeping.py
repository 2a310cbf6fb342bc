"""A task that sleeps: of a file that is quick to import, for many workers on few processors."""

from __future__ import annotations

import time
from dataclasses import dataclass

from baco.exploration.executors.tasks import Need

__all__ = ["Sleep"]


@dataclass(frozen=True)
class Sleep:
    """See `baco.exploration.executors.tasks.WorkItem`."""

    number: int
    seconds: float
    name: str = "sleep"

    @property
    def key(self) -> str:
        """Nothing is kept of it."""
        return str(self.number)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Nothing."""
        return ()

    def run(self) -> int:
        """Its number."""
        time.sleep(self.seconds)
        return self.number
