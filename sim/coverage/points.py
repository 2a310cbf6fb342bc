"""Points of the Verilog that a simulation reaches or does not, in the words of its sources.

Verilator counts them in the text that it was given for one accelerator; here they are of the source files, so that machines
of several configurations add up: a line counts as reached when any instance in any of them reached it, a bit of a signal likewise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from baco.accel.config import Accelerator
from baco.accel.verilog.generate import verilog, verilog_origins
from baco.common.errors import BacoError
from baco.sim.build import built_lines

Kind = Literal["line", "branch", "toggle", "cross"]
KINDS: tuple[Kind, ...] = ("line", "branch", "toggle", "cross")
_RECORD = re.compile(r"C '(.*)' (\d+)")


class CoveragePoint(NamedTuple):
    """What can be reached.

    Attributes:
        file, line: in `accel/rtl`; "" and 0 for a cross.
        name: of a line or branch, which one of the line (`if@5`: at column 5); of a toggle, the signal's bit and where it goes
            (`rs1[3]:0->1`); of a cross, command, dataflow, whether a bank keeps its unit waiting and whether main memory refuses
            a request.
    """

    kind: Kind
    file: str
    line: int
    name: str

    @property
    def signal(self) -> str:
        """Of a toggle: the signal without indices."""
        return re.sub(r"\[\d+\]", "", self.name.rpartition(":")[0])

    @property
    def bit(self) -> int | None:
        """Of a toggle: the last index, where there is one."""
        found = re.search(r"\[(\d+)\]:", self.name)
        return int(found[1]) if found else None


#: How often each point was reached.
Counts: TypeAlias = "Counter[CoveragePoint]"


def read_counts(path: Path, accelerator: Accelerator) -> Counts:
    """What a simulator of an accelerator wrote (`Simulator.play`).

    Raises BacoError for a file that is no such thing.
    """
    text = verilog(accelerator)
    origins = verilog_origins(accelerator)
    lines = [origins[number] for number in built_lines(text)]
    found: Counts = Counter()
    for record in path.read_text(encoding="latin-1").splitlines():
        match = _RECORD.fullmatch(record)
        if match is not None:
            found[_point(match[1], lines)] += int(match[2])
    if not found:
        raise BacoError(f"the simulator wrote no coverage into {path}")
    return found


def _point(text: str, lines: list[tuple[str, int]]) -> CoveragePoint:
    """Verilator's keys are letters: t kind, l line, n column, o what there is."""
    if text.startswith("cross "):
        return CoveragePoint("cross", "", 0, text.removeprefix("cross "))
    keys = dict(part.split("\x02", 1) for part in text.split("\x01") if "\x02" in part)
    file, line = lines[int(keys["l"]) - 1]
    if keys["t"] == "toggle":
        return CoveragePoint("toggle", file, line, keys["o"])
    kind: Kind = "branch" if keys["t"] == "branch" else "line"
    return CoveragePoint(kind, file, line, f"{keys['o']}@{keys['n']}")


def expected_crosses(accelerator: Accelerator) -> Iterable[CoveragePoint]:
    """Every command at work on an accelerator in every circumstance that can be told apart."""
    features = accelerator.features
    commands = ["MVIN", "MVIN2", "MVIN3", "PRELOAD", "COMPUTE_PRELOADED", "COMPUTE_ACCUMULATED", "MVOUT"]
    commands += ["MVOUT_SPAD"] + ["LOAD_TABLE"] * features.row_functions
    weights_stay = "WS" in accelerator.dataflows
    loops = ["LOOP_WS"] * features.loop_ws + ["LOOP_CONV_WS"] * features.loop_conv
    pairs = [
        *product(commands, accelerator.dataflows),
        *((loop, "WS") for loop in loops if weights_stay),
    ]
    for (command, dataflow), conflict, stall in product(pairs, (0, 1), (0, 1)):
        yield CoveragePoint("cross", "", 0, f"{command} {dataflow} {conflict} {stall}")
