"""The table of hardware parameters: a row stands beside each field of `baco.accel.config.Accelerator` that is hardware.

The field says what a value may be (type, bounds, default) and what it is in words. The row says what else the product must know of
it: how people call it, which parameter of the Verilog it is, who reads it, and whether and how it is searched. Everything that goes
through parameters is derived from the table (`baco.accel.config.PARAMETERS`): the Verilog's parameters, what a space file may hold,
which accelerators a space has, keys of caches, neighbours of a design in a report, columns of tables. `docs/hardware-parameters.md`
adds one as an example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

#: What reads a parameter: what codes all that programs do beside their layers, and each of the models of cycles.
Reader = Literal["program", "instruction", "reference"]


@dataclass(frozen=True)
class ParameterRow:
    """One row.

    Attributes:
        label: what people call it.
        unit: of its values.
        rtl: parameter of the Verilog's top module that it sets; empty for what is none.
        rtl_value: property of the accelerator that gives that parameter's value, where it is not the field itself.
        readers: see `Reader`. What `program` is not among has no part in keys of code.
        searched: how spaces choose it: `size` for those that every space has, `setting` for what a space may list under `settings`.
        setting: its name there and its property of the accelerator, where they are not the field's.
        order: place among settings, those that matter most first: searches change them in this order.
        changes: fields of an accelerator that change with a value; None where only its own does.
        together: other settings that pay only if they change along with this one, in sets.
        least: values below are not searched, for the reason `why`.
        factor: by which a step beyond the values of a space changes it.
        note: what a space file's author should know besides.
    """

    label: str
    unit: str = ""
    rtl: str = ""
    rtl_value: str = ""
    readers: tuple[Reader, ...] = ("instruction",)
    searched: Literal["", "size", "setting"] = ""
    setting: str = ""
    order: int = 99
    changes: Callable[[Any, float], Mapping[str, Any]] | None = None
    together: tuple[tuple[str, ...], ...] = ()
    least: int = 1
    why: str = "it is the least"
    factor: float = 2.0
    note: str = ""
