"""What units of several operators wait for, command by command: `python -m baco.bench.load_waits LOG.csv network.json`, of a run of
`baco run --network ... --engine rtl --log LOG.csv --report FOLDER`.

The array waits where no command of it is under way. It waits for the host core while its next command has not come, else for the load
or store that is done last before that begins; loads of weights of units are MVIN2, and MVIN3 of the second of two products. What passes
before a unit's first command is all that hoisting its loads before it could save.
"""

from __future__ import annotations

import bisect
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from baco.accel.isa import find_command_type

#: Cycles from the end of a load or store to the beginning of the command that waited for it.
_BEHIND = 4
#: What schedules of units of several operators begin with.
_UNITS = ("chain ", "strips ", "merged ")


def load_waits(lines: Iterable[str], steps: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Cycles that the array waits, by operator and by what for: `begin`, `host`, the name of a load or store, or `other`.

    Args:
        lines: of a command log (`baco.sim.trace.log`).
        steps: of network.json, of which units of several operators are looked at.
    """
    commands: list[tuple[int, int, int]] = []
    moves: list[tuple[int, str]] = []
    for line in lines:
        unit, _, funct, rs1, _, allocated, issued, done = (line.strip().split(",") + [""] * 8)[:8]
        if unit == "execute" and issued and done:
            commands.append((int(issued), int(allocated), int(done)))
        elif unit in ("load", "store") and done:
            kind = find_command_type(int(funct), int(rs1, 16))
            moves.append((int(done), kind.name if kind else "other"))
    commands.sort()
    moves.sort()
    ends: list[int] = [end for end, _ in moves]
    starts: list[int] = [step["start"] for step in steps]
    waits: list[Counter[str]] = [Counter() for _ in steps]
    begun: set[int] = set()
    idle = 0  # from here on the array has nothing under way
    for first, came, last_cycle in commands:
        at = bisect.bisect_right(starts, first) - 1
        if at >= 0 and at not in begun:
            begun.add(at)
            waits[at]["begin"] += max(0, first - max(idle, starts[at]))
        elif at >= 0 and first > idle:
            waits[at]["host"] += max(0, min(came, first) - idle)
            last = bisect.bisect_left(ends, first) - 1
            known = last >= 0 and ends[last] >= first - _BEHIND
            waits[at][moves[last][1] if known else "other"] += first - max(came, idle)
        idle = max(idle, last_cycle)
    found: dict[str, Counter[str]] = {}
    for step, counted in zip(steps, waits, strict=True):
        if any(f": {kind}" in step["what"] for kind in _UNITS):
            found.setdefault(step["operator"], Counter()).update(counted)
    return found


def main(log: Path, report: Path) -> None:
    """Print a line for each unit, one for all, and the program's cycles."""
    told = json.loads(report.read_text())
    with log.open() as lines:
        found = load_waits(lines, told["steps"])
    total: Counter[str] = Counter()
    for operator, counted in found.items():
        total.update(counted)
        print(operator, dict(sorted(counted.items())))
    print("all units", dict(sorted(total.items())), f"of the program's {told['cycles']:,} cycles")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
