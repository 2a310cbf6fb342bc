"""Layers at the `linalg` level: a function on buffers whose operations say what is computed, and attributes how.

The body is structured operations with the integer semantics of `compiler.layer`: views of the buffers, the image padded
with zeros, the contraction, and what happens on the way out. Two attributes go with it: `baco.layer` describes the layer
and `baco.schedule` how it is carried out. Lowering reads the attributes, and checks that the operations are those that
they stand for, so that a text changed in one place only is refused instead of compiled into something else.
"""

from __future__ import annotations

import dataclasses
import io
import typing
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from accel.config import Accelerator
from common.errors import InputError, did_you_mean
from compiler.dialects.context import all_dialects
from compiler.emit import Emitter
from compiler.layer import Layer, Layout, Pooling
from compiler.location import location_of
from compiler.lower import emit_layer, workspaces
from compiler.lower.linalg_text import layer_text
from compiler.lower.operands import Operands
from compiler.mapping.nest import Mapping
from compiler.schedule import DepthwiseSchedule, ExplicitSchedule, LoopConvSchedule, LoopWsSchedule, Schedule
from workloads.problem import Problem

__all__ = [
    "LAYER",
    "SCHEDULE",
    "compile_layer",
    "is_layer_function",
    "layer_function",
    "layer_of",
    "lower_layer_function",
]

#: Attributes of a layer's function.
LAYER, SCHEDULE = "baco.layer", "baco.schedule"
_TENSORS = ("input", "weight", "bias", "residual", "output")
_SCHEDULES: dict[str, type[Any]] = {
    "explicit": ExplicitSchedule,
    "packed": DepthwiseSchedule,
    "loop_ws": LoopWsSchedule,
    "loop_conv": LoopConvSchedule,
}
_CLASSES = {Problem, Layout, Pooling, Mapping}


def compile_layer(
    layer: Layer, accelerator: Accelerator, schedule: Schedule, *, name: str = "layer"
) -> ModuleOp:
    """A module at the `linalg` level with one function that is the layer, its schedule attached; the pass
    `linalg-to-instgem` lowers it. Raises as `workspaces`."""
    return ModuleOp([layer_function(layer, schedule, accelerator, name)])


def layer_function(
    layer: Layer, schedule: Schedule, accelerator: Accelerator, name: str = "layer"
) -> func.FuncOp:
    """The layer as a function at the `linalg` level.

    Its arguments are flat buffers: input, weight, then bias and residual where the layer has them, output, and the
    workspaces (bytes) that the schedule takes on this accelerator. Raises as `compiler.lower.workspaces`.
    """
    text = layer_text(layer, name, workspaces(layer, schedule, accelerator))
    function = Parser(all_dialects(), text).parse_module().body.block.first_op
    assert isinstance(function, func.FuncOp)
    function.detach()  # type: ignore[no-untyped-call]
    function.attributes[LAYER] = _to_attribute(layer)
    kind = next(name for name, cls in _SCHEDULES.items() if type(schedule) is cls)
    fields = _to_attribute(schedule)
    assert isinstance(fields, DictionaryAttr)
    function.attributes[SCHEDULE] = DictionaryAttr({"style": StringAttr(kind), **fields.data})
    return function


def is_layer_function(function: func.FuncOp) -> bool:
    """Whether a function says that it is a layer."""
    return LAYER in function.attributes


def layer_of(function: func.FuncOp) -> tuple[Layer, Schedule]:
    """What the attributes of a function say. Raises InputError for malformed ones."""
    try:
        layer = _read(Layer, _attribute(function, LAYER), LAYER)
        described = _attribute(function, SCHEDULE)
        style = described.data.get("style") if isinstance(described, DictionaryAttr) else None
        if not isinstance(described, DictionaryAttr) or not isinstance(style, StringAttr):
            raise InputError(f"{SCHEDULE} has no style", hint=f"one of {', '.join(_SCHEDULES)}")
        if style.data not in _SCHEDULES:
            raise InputError(f"there is no style '{style.data}'", hint=did_you_mean(style.data, _SCHEDULES))
        rest = DictionaryAttr({key: one for key, one in described.data.items() if key != "style"})
        schedule = _read(_SCHEDULES[style.data], rest, SCHEDULE)
    except InputError as error:
        raise InputError(error.message, location=location_of(function), hint=error.hint) from None
    return layer, schedule


def lower_layer_function(function: func.FuncOp, accelerator: Accelerator) -> None:
    """Replace a layer's function in its module by accelerator commands, an i64 address for each buffer.

    Raises InputError for attributes that are malformed or do not agree with the operations, and as
    `compiler.lower.emit_layer`.
    """
    layer, schedule = layer_of(function)
    name = function.sym_name.data
    wanted = layer_function(layer, schedule, accelerator, name)
    if not function.is_structurally_equivalent(wanted):
        raise InputError(
            f"@{name} does not compute what its attribute {LAYER} says, or has not the buffers that its schedule takes"
            f" on {accelerator.name}",
            location=location_of(function),
            hint="a layer's operations and attributes are changed together; without the attributes they are a block program",
        )
    arguments = _argument_names(layer, schedule, accelerator)
    module = ModuleOp([])
    e = Emitter(name, arguments, module)
    places = dict(zip(arguments, e.arguments, strict=True))
    operands = Operands(
        input=places["input"],
        weight=places["weight"],
        output=places["output"],
        bias=places.get("bias", 0),
        residual=places.get("residual", 0),
        workspaces={one: place for one, place in places.items() if one not in _TENSORS},
    )
    emit_layer(e, layer, schedule, accelerator, operands)
    e.fence()
    e.finish()
    lowered = module.body.block.first_op
    assert isinstance(lowered, func.FuncOp)
    lowered.detach()  # type: ignore[no-untyped-call]
    lowered.location = function.location
    block = function.parent
    assert block is not None
    block.insert_op_before(lowered, function)
    block.erase_op(function)


def _argument_names(layer: Layer, schedule: Schedule, accelerator: Accelerator) -> list[str]:
    names = ["input", "weight"]
    names += ["bias"] * layer.bias + ["residual"] * (layer.residual_scale is not None)
    return [*names, "output", *(name for name, _ in workspaces(layer, schedule, accelerator))]


def _attribute(function: func.FuncOp, name: str) -> Attribute:
    if name not in function.attributes:
        raise InputError(f"@{function.sym_name.data} has no attribute {name}")
    return function.attributes[name]


# ---------------------------------------------------------------- objects as attributes


def _to_attribute(value: Any) -> Attribute:
    """A frozen dataclass of numbers, texts, tuples and more of its kind; fields that are None are left out."""
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, tuple):
        return ArrayAttr([_to_attribute(one) for one in value])
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return DictionaryAttr({name: _to_attribute(one) for name, one in fields.items() if one is not None})


def _read(cls: type[Any], attribute: Attribute, where: str) -> Any:
    """The object that an attribute describes. Raises InputError."""
    if not isinstance(attribute, DictionaryAttr):
        raise InputError(f"{where} is no dictionary")
    types = typing.get_type_hints(cls)
    values = {}
    for name, one in attribute.data.items():
        if name not in types:
            raise InputError(f"{where} has no field '{name}'", hint=did_you_mean(name, types))
        values[name] = _value(types[name], one, f"{where}.{name}")
    missing = [
        field.name
        for field in dataclasses.fields(cls)
        if field.name not in values
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise InputError(f"{where} has no field '{missing[0]}'")
    if cls is Layer:  # its default is not None
        values.setdefault("scale", None)
    return cls(**values)


def _value(kind: Any, attribute: Attribute, where: str) -> Any:
    """A field's value. Raises InputError for an attribute of another kind."""
    options = typing.get_args(kind) if typing.get_origin(kind) not in (tuple, typing.Literal) else (kind,)
    for option in options or (kind,):
        if option in _CLASSES and isinstance(attribute, DictionaryAttr):
            return _read(option, attribute, where)
        if option is bool and isinstance(attribute, IntegerAttr):
            return bool(attribute.value.data)
        if option is int and isinstance(attribute, IntegerAttr):
            return attribute.value.data
        if option is float and isinstance(attribute, FloatAttr):
            return attribute.value.data
        if (option is str or typing.get_origin(option) is typing.Literal) and isinstance(
            attribute, StringAttr
        ):
            return attribute.data
        if typing.get_origin(option) is tuple and isinstance(attribute, ArrayAttr):
            inner = typing.get_args(option)[0]
            return tuple(_value(inner, one, where) for one in attribute.data)
    text = io.StringIO()
    Printer(text).print_attribute(attribute)
    raise InputError(f"{where} cannot be {text.getvalue()[:60]}")
