"""What is not reached, and why that is right: data beside the Verilog (`accel/rtl/coverage-waivers.yaml`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from baco.common.errors import InputError
from baco.common.yaml import load_yaml, parse_model
from baco.sim.coverage.points import CoveragePoint, Kind

_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)


class Waiver(BaseModel):
    """Points that need not be reached: of lines that contain a text, of signals, or crosses."""

    model_config = _STRICT

    reason: str = Field(min_length=10, description="why that is right")
    file: str = Field("*", description="of accel/rtl; * stands for any letters")
    text: str = Field("", description="what the line contains")
    branch: str = Field("*", description="with text: which branch of the line, as coverage names it")
    signals: list[str] = Field([], description="names without indices; * stands for any letters")
    bits: list[int] = Field([], description="with signals: the first and the last bit, all without")
    only: str = Field("*", description="with signals: 0->1 or 1->0")
    cross: list[str] = Field([], description="command, dataflow, conflict, stall; * stands for any letters")

    @model_validator(mode="after")
    def _one_kind(self) -> Waiver:
        if sum(map(bool, (self.text, self.signals, self.cross))) != 1:
            raise ValueError("give one of text, signals and cross")
        if self.bits and (len(self.bits) != 2 or not self.signals):
            raise ValueError("bits are two numbers, the first and the last, beside signals")
        return self

    @property
    def patterns(self) -> list[str]:
        """Each must match something."""
        return self.signals or self.cross or [self.text]

    def matches(self, point: CoveragePoint, pattern: str) -> bool:
        """Whether one of its patterns says this point."""
        if self.cross:
            return point.kind == "cross" and fnmatchcase(point.name, pattern)
        if point.kind == "cross" or not fnmatchcase(point.file, self.file):
            return False
        if self.text:
            named: tuple[Kind, ...] = ("line", "branch")
            here = point.kind in named and fnmatchcase(point.name, self.branch)
            return here and pattern in source_line(point)
        if point.kind != "toggle" or not fnmatchcase(point.signal, pattern):
            return False
        first, last = self.bits or (0, 1 << 30)
        return first <= (point.bit or 0) <= last and fnmatchcase(point.name.rpartition(":")[2], self.only)


def _folder() -> Path:
    return Path(str(resources.files("baco.accel") / "rtl"))


@cache
def _source(file: str) -> list[str]:
    return (_folder() / file).read_text(encoding="utf-8").splitlines()


def source_line(point: CoveragePoint) -> str:
    """The line of a point, without what indents it."""
    return _source(point.file)[point.line - 1].strip()


class _Waivers(BaseModel):
    model_config = _STRICT
    waivers: list[Waiver]


def load_waivers() -> list[Waiver]:
    """Those of baco's own Verilog. Raises InputError with the line of what makes no sense."""
    return parse_model(_Waivers, load_yaml(_folder() / "coverage-waivers.yaml")).waivers


def waived_by(points: Iterable[CoveragePoint], waivers: Sequence[Waiver]) -> dict[CoveragePoint, Waiver]:
    """The first waiver of each point that has one."""
    found = {}
    for point in points:
        for waiver in waivers:
            if any(waiver.matches(point, pattern) for pattern in waiver.patterns):
                found[point] = waiver
                break
    return found


def useless_waivers(points: Iterable[CoveragePoint], waivers: Sequence[Waiver]) -> list[str]:
    """Patterns of waivers that say none of the points, each with its waiver's file."""
    known = list(points)
    return [
        f"'{pattern}' in {waiver.file}"
        for waiver in waivers
        for pattern in waiver.patterns
        if not any(waiver.matches(point, pattern) for point in known)
    ]


def check_waivers(points: Iterable[CoveragePoint], waivers: Sequence[Waiver]) -> None:
    """Raises InputError for waivers of what does not exist any more."""
    useless = useless_waivers(points, waivers)
    if useless:
        raise InputError(
            f"{len(useless)} waivers of coverage match nothing: {'; '.join(useless[:5])}",
            hint="mend accel/rtl/coverage-waivers.yaml: lines and signals may have been renamed or removed",
        )
