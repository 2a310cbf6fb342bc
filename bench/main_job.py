"""Where the processor time of `baco explore` goes, by part: `python -m baco.bench.main_job [OPTION OF explore]...`.

The command runs in this process; the system's clock of processor time interrupts it every few milliseconds, and each time what
it is at is counted. So the machine may be busy with other things. What the companion process takes is one row.
"""

from __future__ import annotations

import resource
import runpy
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

#: Seconds of processor time between two looks.
_EVERY = 0.005
#: Parts by what they are called here and the end of a file's path and a function (any if empty): the innermost on a stack that is
#: in the list counts, importing before all.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("reading the network", "workloads/inputs/load.py", ""),
    ("programs beside the layers", "studies/preparation.py", "programs_beside"),
    ("groups as units", "search/groups.py", ""),
    ("neighbours", "search/proposals.py", ""),
    ("plain mappings", "search/seeds.py", ""),
    ("evaluations: latency and traffic", "cost/predicted.py", "keep"),
    ("evaluations: the rest", "search/archive.py", "add"),
    ("scans of accelerators", "search/archive.py", "scan"),
    ("exact combination", "search/selector.py", "_elites"),
    ("front", "search/selector.py", "front"),
    ("compiler's schedules and tilings", "search/tiling_finish.py", ""),
    ("study", "studies/study.py", "record"),
    ("limits", "cost/limits.py", ""),
    ("the rest of the search", "studies/engine.py", ""),
    ("costs of the report's designs", "report/study_report.py", ""),
    ("page and pictures", "report/write.py", ""),
    ("console and the rest", "commands/explore.py", ""),
)
_IMPORTS = "importing modules"


class Sampled:
    """Counts what a block is at.

    Attributes:
        parts: looks by part.
    """

    def __init__(self) -> None:
        self.parts: Counter[str] = Counter()

    def __enter__(self) -> Sampled:
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def _look(self, _: int, frame: FrameType | None) -> None:
        self.parts[_part(_stack(frame))] += 1


def _stack(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    """(file, function), innermost first."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_code.co_name
        frame = frame.f_back


def _part(stack: Iterator[tuple[str, str]]) -> str:
    part = ""
    for file, function in stack:
        if file.startswith("<frozen importlib"):
            return _IMPORTS
        if not part:
            part = next(
                (part for part, path, name in PARTS if file.endswith(path) and name in ("", function)), ""
            )
    return part or "starting"


def page(parts: Counter[str], own: float, companion: float) -> str:
    """A row a part, from looks by part and the processor seconds of this process and of its companion."""
    whole, looks = own + companion, sum(parts.values())
    rows = [(part, own * count / looks) for part, count in parts.most_common()]
    lines = ["| part | processor seconds | share |", "|---|--:|--:|"]
    for part, seconds in [*rows, ("companion process", companion), ("all", whole)]:
        lines.append(f"| {part} | {seconds:.1f} | {seconds / whole:.0%} |")
    return "\n".join(lines)


def _spent(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main(arguments: Sequence[str]) -> None:
    """See the module's description."""
    command = Path(sys.executable).with_name("baco")
    asked = list(arguments) or ["--network", "resnet50", "--objective", "edp"]
    with tempfile.TemporaryDirectory() as folder, Sampled() as sampled:
        sys.argv = [str(command), "explore", *asked, "--quiet", "--out", str(Path(folder) / "study")]
        try:
            runpy.run_path(str(command), run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise
    print(page(sampled.parts, _spent(resource.RUSAGE_SELF), _spent(resource.RUSAGE_CHILDREN)))


if __name__ == "__main__":
    main(sys.argv[1:])
