"""A process to be killed: validates a study and logs every measurement that is acknowledged.

Arguments: STUDY LOG WORKERS (0: in this process)
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from baco.common.errors import BacoError
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.exploration.measure.job import MeasurementJob
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.session import ValidationOptions, validate_file
from baco.exploration.studies import study as study_module
from tests.system.durable_log import DurableLog

#: Small, so that folding the log in is killed as well.
study_module.CHECKPOINT_BYTES = 30_000


class Log(DurableLog):
    """The validation's progress display."""

    def begin(self, designs: object, layers: int, cycles: float) -> None:
        self.write(f"begin {layers}")

    def measured(
        self, finished: int, result: Measurement, job: MeasurementJob, predicted: float | None
    ) -> None:
        self.write(f"acknowledged {job.key} {result.seconds!r}")


def main() -> int:
    study, log, workers = sys.argv[1:]
    try:
        executor = ExecutorChoice(workers=int(workers)) if int(workers) else ExecutorChoice("here")
        outcome = validate_file(Path(study), ValidationOptions(2, 0, executor), progress=Log(log))
    except BacoError as error:
        print(error)
        return 2
    print(outcome.ended, *(one.status for one in outcome.designs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
