"""A process that explores, and ends itself when a batch is recorded.

Arguments: HOW BATCH SECONDS ARGUMENTS_OF_EXPLORE...

HOW is `stop` (as by Ctrl-C), `kill` (as by kill -9) or `never`; BATCH is counted from 0, SECONDS pass after it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from baco.exploration.studies.study import StudyRecord
from baco.main import run

NUMBERS = {"stop": signal.SIGINT, "kill": signal.SIGKILL}


def main() -> int:
    how, batch, seconds, *arguments = sys.argv[1:]
    record = StudyRecord.record

    def recorded(study: StudyRecord, summary: Any, *rest: Any, **named: Any) -> None:
        record(study, summary, *rest, **named)
        if how in NUMBERS and summary.batch == int(batch):
            end = threading.Timer(float(seconds), os.kill, (os.getpid(), NUMBERS[how]))
            end.daemon = True
            end.start()
            if float(seconds) == 0:
                end.join()

    StudyRecord.record = recorded  # type: ignore[method-assign]
    return run("explore", arguments)


if __name__ == "__main__":
    sys.exit(main())
