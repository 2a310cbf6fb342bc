"""Schedules of a layer for who measures some of them: near the fastest by estimate, and different from each other."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from baco.accel.config import Accelerator
from baco.compiler.choice.choose import LOOKED_AT, ScheduleChoice, carried_out, choices, choose
from baco.compiler.choice.neighbours import alike
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import DepthwiseSchedule, ExplicitSchedule, Schedule

#: In single commands the fastest so many by estimate and the same with other buffers; of every way to write code at most this share; and
#: nothing that is predicted to take so many times as long as the fastest; by so much other buffers count as slower.
_SINGLE, _SHARE, _WITHIN, _OTHERWISE = 6, 0.75, 1.5, 1.05
#: Copies of tiles of inputs, weights and results in single commands.
_BUFFERINGS = ((2, 2, 2), (1, 2, 2), (2, 1, 2))


def promising(layer: Layer, accelerator: Accelerator, count: int) -> list[ScheduleChoice]:
    """At most `count` schedules that a measurement may prefer to one another: that of `choose`, then of the fastest by estimate those
    that are no neighbours of any before them, of every way to write code at most `_SHARE` of all. Raises InfeasibleError as `choose` does."""
    chosen = choose(layer, accelerator)
    every = choices(layer, accelerator, best=LOOKED_AT, climbing=True)
    macros = [choice for choice in every if choice.schedule.by_macros]
    single = list(
        {choice.schedule.text: choice for choice in reversed(every) if not choice.schedule.by_macros}.values()
    )
    single = sorted(single, key=lambda choice: choice.cycles)[:_SINGLE]
    options = sorted(
        [*macros, *single, *_otherwise_buffered(layer, accelerator, single)], key=lambda choice: choice.cycles
    )
    found = [
        next((choice for choice in every if choice.schedule == chosen), ScheduleChoice(chosen, math.nan))
    ]
    of_style = Counter([chosen.style])
    for option in options:
        schedule = option.schedule
        if len(found) >= count or option.cycles > _WITHIN * options[0].cycles:
            break
        if of_style[schedule.style] >= _SHARE * count:
            continue
        if not any(alike(layer, accelerator.dim, schedule, other.schedule) for other in found):
            found.append(option)
            of_style[schedule.style] += 1
    return found


def _otherwise_buffered(
    layer: Layer, accelerator: Accelerator, found: Sequence[ScheduleChoice]
) -> list[ScheduleChoice]:
    """The same single commands with other copies of their tiles, of which the estimate cannot tell which are faster, behind others that are nearly as
    fast by it."""
    options: list[tuple[float, Schedule]] = []
    for one, buffering in itertools.product(found, _BUFFERINGS):
        schedule = one.schedule
        assert isinstance(schedule, ExplicitSchedule | DepthwiseSchedule)
        if schedule.mapping.buffering != buffering:
            other = replace(schedule.mapping, buffering=buffering)
            options.append((one.cycles * _OTHERWISE, replace(schedule, mapping=other)))
    return carried_out(layer, accelerator, len(options), options)
