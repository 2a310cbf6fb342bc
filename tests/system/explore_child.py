"""A process to be killed: explores the small workload and logs what it starts and what is acknowledged.

Arguments: OUT LOG SEARCHER SAMPLES DELAY_SECONDS [FILE_SIZE_LIMIT_BYTES]
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from baco.common.errors import BacoError
from baco.exploration.candidate import BatchSummary
from baco.exploration.objective import Objective
from baco.exploration.progress import Budget
from baco.exploration.samplers import searchers
from baco.exploration.search.searcher import BatchResult, SearchSetup, State
from baco.exploration.studies import study as study_module
from baco.exploration.studies.engine import run_exploration
from tests.explore.study_helpers import register_fake, small_space, small_workload
from tests.system.durable_log import DurableLog

#: Small, so that folding the log in is killed as well.
study_module.CHECKPOINT_BYTES = 60_000


class Log(DurableLog):
    """The engine's progress display."""

    def update(self, summary: BatchSummary, budget: Budget) -> None:
        self.write(f"acknowledged {summary.batch}")


class Observed:
    """A searcher that logs the beginning of each batch, and takes its time."""

    log: Log
    name: str
    delay: float

    def __init__(self, setup: SearchSetup) -> None:
        self.inner = searchers.make_searcher(self.name, setup)
        self.steps = 0

    def step(self) -> BatchResult:
        self.log.write("started")
        time.sleep(self.delay)
        return self.inner.step()

    def state(self) -> State:
        return self.inner.state()

    def restore(self, state: State) -> None:
        self.inner.restore(state)


def main() -> int:
    out, log, name, samples, delay, *limit = sys.argv[1:]
    register_fake()
    Observed.log, Observed.name, Observed.delay = Log(log), name, float(delay)
    searchers.SEARCHERS["observed"] = (__name__, "Observed", "")
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit[0]), int(limit[0])))
    Observed.log.write("session")
    try:
        outcome = run_exploration(
            small_workload(),
            small_space(),
            Objective.parse("edp"),
            "observed",
            int(samples),
            out=Path(out),
            resume=True,
            cost_model="reference",
            progress=Observed.log,
        )
    except BacoError as error:
        print(error)
        return 2
    print(outcome.stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
