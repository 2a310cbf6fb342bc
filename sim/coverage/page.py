"""The page of a coverage run: figures with and without waivers, by module, what is not reached, what is waived and why."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from baco.common.text import markdown_table
from baco.sim.coverage.points import KINDS, Counts, CoveragePoint, Kind
from baco.sim.coverage.waivers import Waiver, source_line, waived_by

_WORDS: Mapping[Kind, str] = {
    "line": "lines",
    "branch": "branches",
    "toggle": "toggles",
    "cross": "crosses",
}


@dataclass(frozen=True)
class Share:
    """How much of something is reached.

    Attributes:
        waived: points that are neither reached nor need to be.
    """

    reached: int
    points: int
    waived: int

    @property
    def percent(self) -> float:
        """Of what can be reached."""
        return 100 * self.reached / max(1, self.points - self.waived)

    @property
    def percent_of_all(self) -> float:
        """Waivers left aside."""
        return 100 * self.reached / max(1, self.points)


class Coverage:
    """What was reached.

    Attributes:
        counts: of every point that there is.
        waived: points that need not be reached, reached or not, and by which waiver.
    """

    def __init__(self, counts: Counts, waivers: Sequence[Waiver]) -> None:
        self.counts = counts
        self.waivers = waivers
        self.waived = waived_by(counts, waivers)

    def share(self, kind: Kind, file: str | None = None) -> Share:
        """Of a kind of points, in one file or in all."""
        points = [point for point in self.counts if point.kind == kind and file in (None, point.file)]
        reached = sum(self.counts[point] > 0 for point in points)
        waived = sum(not self.counts[point] and point in self.waived for point in points)
        return Share(reached, len(points), waived)

    @property
    def shares(self) -> dict[str, Share]:
        """By the kind's name in words."""
        return {_WORDS[kind]: self.share(kind) for kind in KINDS}

    def missing(self) -> list[CoveragePoint]:
        """What should be reached and is not, in the order of files and lines."""
        return sorted(one for one, count in self.counts.items() if not count and one not in self.waived)

    # ---------------------------------------------------------------- the page

    def page(self, head: Iterable[str]) -> str:
        """Markdown; `head`: sentences on what was played."""
        parts = ["# Coverage of the Verilog", *head, self._figures(), self._modules()]
        parts += ["## Circumstances of commands", self._crosses()]
        parts += ["## Not reached", "\n".join(self._gaps()) or "Nothing."]
        parts += ["## Waived", "\n".join(self._reasons()) or "Nothing."]
        return "\n\n".join(parts) + "\n"

    def _figures(self) -> str:
        rows = [
            (
                name,
                f"{one.reached:,} of {one.points:,}",
                f"{one.percent_of_all:.1f}%",
                f"{one.waived:,}",
                f"{one.percent:.1f}%",
            )
            for name, one in self.shares.items()
        ]
        return markdown_table(("", "reached", "of all", "waived", "without what is waived"), rows)

    def _modules(self) -> str:
        kinds: tuple[Kind, ...] = ("line", "branch", "toggle")
        rows = [
            (file.removesuffix(".v"), *(_cell(self.share(kind, file)) for kind in kinds))
            for file in sorted({one.file for one in self.counts if one.file})
        ]
        table = markdown_table(("module", *(_WORDS[kind] for kind in kinds)), rows)
        note = "Reached without what is waived; in brackets how many points are neither."
        return f"## Modules\n\n{note}\n\n{table}"

    def _crosses(self) -> str:
        """Cycles by command and dataflow, with what kept its unit waiting and whether main memory refused a request."""
        table: dict[str, Counter[str]] = defaultdict(Counter)
        for point, cycles in self.counts.items():
            if point.kind == "cross":
                command, dataflow, *met = point.name.split(" ")
                table[f"{command}, {dataflow}"]["".join(met)] += cycles
        note = "Cycles in which a command was at work, by what it met."
        header = ("command, dataflow", "neither", "main memory refuses", "a bank is taken", "both")
        rows = [
            (name, *(f"{table[name][key]:,}" for key in ("00", "01", "10", "11"))) for name in sorted(table)
        ]
        return f"{note}\n\n{markdown_table(header, rows)}"

    def _gaps(self) -> Iterator[str]:
        missing = self.missing()
        for point in missing:
            if point.kind in ("line", "branch"):
                which = point.name.partition("@")[0]
                yield f"* {point.file}:{point.line} ({which}): `{source_line(point)}`"
        bits: dict[tuple[str, int, str], set[str]] = defaultdict(set)
        for point in missing:
            if point.kind == "toggle":
                bits[point.file, point.line, point.signal].add(_bit_name(point))
        for (file, line, signal), names in bits.items():
            yield f"* {file}:{line}: `{signal}` {', '.join(sorted(names, key=_in_order))}"
        for point in missing:
            if point.kind == "cross":
                yield f"* {point.name}"

    def _reasons(self) -> Iterator[str]:
        count = Counter(id(waiver) for point, waiver in self.waived.items() if not self.counts[point])
        for waiver in self.waivers:
            what = ", ".join(f"`{one}`" for one in waiver.patterns)
            bits = f" bits {waiver.bits[0]} to {waiver.bits[1]}" if waiver.bits else ""
            where = "" if waiver.cross else f" in {waiver.file}"
            yield f"* {what}{bits}{where}: {waiver.reason} ({count[id(waiver)]:,} points)"


def _cell(share: Share) -> str:
    if not share.points:
        return "-"
    left = share.points - share.waived - share.reached
    return f"{share.percent:.1f}%" + (f" ({left:,})" if left else "")


def _bit_name(point: CoveragePoint) -> str:
    """A bit's indices and where it does not go."""
    signal, _, way = point.name.rpartition(":")
    return "".join(re.findall(r"\[\d+\]", signal)) + f" {way}" if "[" in signal else way


def _in_order(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
