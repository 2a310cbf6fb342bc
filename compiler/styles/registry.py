"""The code styles of layers, and what is asked of whichever one a schedule belongs to."""

from __future__ import annotations

from typing import Any

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule, Schedule
from baco.compiler.schedules.style import LayerPlan, Style, check_elements
from baco.compiler.styles.explicit.code import ExplicitStyle
from baco.compiler.styles.macros.loop_conv_style import LoopConvStyle
from baco.compiler.styles.macros.loop_ws_style import LoopWsStyle
from baco.compiler.styles.packed import PackedStyle

#: A mapping is carried out by the first that recognises it.
STYLES: tuple[Style[Any], ...] = (PackedStyle(), LoopWsStyle(), LoopConvStyle(), ExplicitStyle())


def style_of(schedule: Schedule) -> Style[Any]:
    """The style that a schedule belongs to."""
    return next(style for style in STYLES if style.schedule is type(schedule))


def parse_schedule(text: str) -> Schedule:
    """What `Schedule.text` wrote. Raises InputError."""
    for style in STYLES:
        schedule: Schedule | None = style.schedule.parse(text)
        if schedule is not None:
            return schedule
    raise InputError(f"'{text}' is no schedule", hint="it begins with explicit, packed, loop_ws or loop_conv")


def plan_layer(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> LayerPlan:
    """How a schedule is carried out. Raises InputError for one that does not cover the layer, InfeasibleError for one that the
    accelerator cannot carry out, with the reason."""
    check_elements(layer, accelerator)
    return style_of(schedule).plan(layer, schedule, accelerator)


def realise(layer: Layer, mapping: Mapping, accelerator: Accelerator) -> Schedule:
    """The schedule that carries a mapping out: a macro's if it has macro form and fits halves of the local memories.

    Whether an explicit schedule can be carried out is for `plan_layer` to say. Raises InputError for a mapping that does
    not cover the layer's problem.
    """
    mapping.check(layer.problem)
    for style in STYLES:
        schedule: Schedule | None = style.recognise(layer, mapping, accelerator)
        if schedule is not None:
            return schedule
    raise InfeasibleError(f"no code style carries out {mapping}")


def macro_form(
    layer: Layer, mapping: Mapping, accelerator: Accelerator
) -> LoopWsSchedule | LoopConvSchedule | None:
    """The macro schedule that a mapping stands for; None if it has no macro form. See `MacroStyle.form`."""
    product = LoopWsStyle().form(layer, mapping, accelerator)
    return product or LoopConvStyle().form(layer, mapping, accelerator)


def mapping_of(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> Mapping:
    """The mapping that a schedule stands for.

    `realise` makes the same schedule of it again, but for what mappings do not say, and where products are
    concerned: their tiles are runs of neighbouring pixels, which only an image of one row has room for (take
    `flat_layer`); the nearest tile of rows and columns stands for others. Products by LOOP_CONV_WS become LOOP_WS.
    Raises InfeasibleError where there is none: for groups packed otherwise than lanes say, and convolutions by LOOP_WS.
    """
    return style_of(schedule).mapping(layer, schedule, accelerator)


def counted_mapping(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> tuple[Layer, Mapping]:
    """The layer and its mapping whose accesses are those of a schedule. Raises InfeasibleError where there is none."""
    return style_of(schedule).counted(layer, schedule, accelerator)
