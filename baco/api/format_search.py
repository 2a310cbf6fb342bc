"""Accuracy traded for what designs cost: a study for every choice of formats, and the front of all."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baco.common.errors import InfeasibleError
from baco.common.files import output_folder

if TYPE_CHECKING:
    from baco.compiler.network.quantiser import Quantiser
    from baco.exploration.space import DesignSpace
    from baco.exploration.studies.engine import SearchOutcome
    from baco.exploration.weight_formats import FormatPoint
    from baco.workloads.inputs.samples import SampleSet
    from baco.workloads.network import Network

#: Folder of the studies of all choices, inside that of the one that is chosen.
STUDIES = "formats"


@dataclass(frozen=True)
class FormatBudget:
    """What all searches together may spend: design points, seconds."""

    samples: int | None
    seconds: float | None

    def part(self, count: int) -> FormatBudget:
        """Of one of `count`."""
        return FormatBudget(
            None if self.samples is None else max(1, self.samples // count),
            None if self.seconds is None else self.seconds / count,
        )


def search_formats(
    network: Network,
    data: SampleSet,
    quantiser: Quantiser,
    bound: float | None,
    space: DesignSpace,
    budget: FormatBudget,
    folder: Path,
    metric: str,
    search: Callable[[Path, DesignSpace, Quantiser, FormatBudget], SearchOutcome],
    say: Callable[[str], None],
) -> SearchOutcome:
    """Search designs for every choice of formats with equal parts of the budget, in studies below the folder; that of the least objective
    becomes the folder's own.

    Args:
        bound: largest loss of accuracy.
        metric: that is minimised of designs.
        search: one study, in a folder, of a space, with a network's numbers.
        say: told what is going on.

    Raises as `search`; InfeasibleError where every choice loses more accuracy than the bound.
    """
    from baco.exploration.cost.choice import default_cost_model
    from baco.exploration.studies.engine import DEFAULT_SAMPLES
    from baco.exploration.studies.study import FILE_NAME
    from baco.exploration.weight_formats import (
        FormatPoint,
        float_choice,
        format_choices,
        front_lines,
        judged,
        space_of_choice,
        write_front,
    )

    forms = space.formats or ("integer",)
    floats = [space.of_format(form).base for form in forms if form != "integer"]
    choices = format_choices(network, data, quantiser, bound, say, floats, "integer" in forms)
    spaces = [space_of_choice(space, choice) for choice in choices]
    if budget == FormatBudget(None, None):
        budget = FormatBudget(DEFAULT_SAMPLES[default_cost_model(space)], None)
    part = budget.part(len(choices))
    outcomes: list[SearchOutcome] = []
    points: list[FormatPoint] = []
    clocks: list[float] = []
    for turn, (choice, own) in enumerate(zip(choices, spaces, strict=True), 1):
        say(f"searching {turn} of {len(choices)}: {choice.words}")
        try:
            outcome = search(folder / STUDIES / choice.folder, own, choice.quantiser, part)
        except InfeasibleError:
            if choice is choices[-1] and not points:
                raise
            continue
        outcomes.append(outcome)
        machine = outcome.best.accelerator
        if choice.quantiser.floats and choice.quantiser.floats.rows not in (0, machine.dim):
            choice = float_choice(network, data, quantiser, machine)  # sums depend on the side
        sizes = f"{machine.dim} x {machine.dim}, {machine.scratchpad_kib} KiB + {machine.accumulator_kib} KiB"
        points.append(FormatPoint(choice, outcome.best.objective, sizes))
        clocks.append(machine.clock_mhz)
        if outcome.stopped == "interrupted":
            break
    points = judged(_at_one_clock(points, clocks, metric))
    number = next(number for number, point in enumerate(points) if point.chosen)
    _adopt(folder, outcomes[number].path.parent)
    write_front(folder, metric, points)
    lines = tuple(front_lines(metric, points))
    for line in lines:
        say(line)
    chosen = outcomes[number]
    return dataclasses.replace(
        chosen,
        path=folder / FILE_NAME,
        stopped=outcomes[-1].stopped,
        evaluations=sum(one.evaluations for one in outcomes),
        seconds=sum(one.seconds for one in outcomes),
        notes=(*chosen.notes, *lines),
    )


def _at_one_clock(points: list[FormatPoint], clocks: Sequence[float], metric: str) -> list[FormatPoint]:
    """Points whose times are comparable: formats close at different clocks (MHz), so that cycles become those of the fastest."""
    from baco.exploration.objective import EXPONENTS

    fastest = max(clocks)
    of_time = metric in EXPONENTS and EXPONENTS[metric][1]
    if not of_time or min(clocks) == fastest:
        return points
    return [
        dataclasses.replace(
            point,
            value=point.value * fastest / own,
            machine=f"{point.machine}, {own:g} MHz (its cycles as those of {fastest:g} MHz)"
            if own < fastest
            else f"{point.machine}, {own:g} MHz",
        )
        for point, own in zip(points, clocks, strict=True)
    ]


def _adopt(folder: Path, study: Path) -> None:
    """A study's files become the folder's. Raises StorageError."""
    output_folder(folder)
    for one in sorted(study.iterdir()):
        if one.is_file():
            shutil.copyfile(one, folder / one.name)
