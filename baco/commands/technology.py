"""`baco technology`: what areas, clocks and leakage are predicted in, and measuring a library of one's own."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class TechnologyAction(StrEnum):
    """What to do."""

    LIST = "list"
    SHOW = "show"
    ADD = "add"


def technology(
    action: TechnologyAction,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Of a technology.")] = None,
    liberty: list[Path] | None = None,
    memories: list[Path] | None = None,
    designs: int | None = None,
    optimise: str = "clock",
    json: bool = False,
) -> None:
    """List technologies, show one's figures and errors, or add one: measured in netlists of some 30 small accelerators (Yosys).

    A measurement goes on where it was stopped. Accelerators are in a technology with technology=NAME behind them, spaces with a
    line of that name.

    Args:
        liberty (FILE.lib): For add: the library of standard cells, Liberty, gzip or not; again for each of its files.
        memories (FILE.lib): For add: memory macros, Liberty; again for each file. Without, memories cost what a law says.
        designs (COUNT): For add: how many accelerators to measure, the most telling first; by default the 33 of integers, without the six of floating point.
        optimise (area|clock): For add: what netlists are made for, as of `baco synth`; for area takes a fraction of the time, at a slower clock.
    """
    from baco.accel.technology import technology as by_name
    from baco.accel.technology import technology_names
    from baco.common.errors import InputError, Location
    from baco.display.console import print_json, stdout

    if action is TechnologyAction.LIST:
        found = [by_name(name) for name in technology_names()]
        if json:
            print_json([technology.model_dump(mode="json", exclude_defaults=True) for technology in found])
        else:
            width = max(len(technology.name) for technology in found)
            for technology in found:
                stdout().print(
                    f"{technology.name:{width}}  {technology.description}", highlight=False, soft_wrap=True
                )
        return
    if name is None:
        raise InputError(f"give a name: baco technology {action} NAME", location=Location("NAME"))
    if action is TechnologyAction.ADD:
        if not liberty:
            raise InputError("give the library's files", location=Location("--liberty"))
        from baco.api.hardware import add_technology
        from baco.display.console import stderr

        shown = add_technology(
            name,
            liberty=liberty,
            memories=memories or [],
            designs=designs,
            optimise=optimise,
            report=stderr().print,
        )
    else:
        shown = by_name(name)
    if json:
        print_json(shown.model_dump(mode="json", exclude_defaults=True))
    else:
        stdout().print(shown.text(), highlight=False, soft_wrap=True)
