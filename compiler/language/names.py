"""What the global names and parameters of a kernel stand for."""

from __future__ import annotations

import builtins
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco.compiler.language.dtypes import BY_NAME, Dtype
from baco.compiler.language.primitives import BUILTINS, Primitive
from baco.compiler.language.source import KernelSource
from baco.compiler.language.values import Function, KernelConstant, Module, Tuple, Value, integer


class ConstantMarker:
    """The type of `baco.const`: the annotation of a compile-time parameter."""

    def __repr__(self) -> str:
        return "baco.const"


const = ConstantMarker()


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of a kernel.

    Attributes:
        name: as written.
        compile_time: marked by `baco.const`.
        default: its default value; `REQUIRED` if there is none.
    """

    name: str
    compile_time: bool
    default: Any


REQUIRED = object()


class KernelFunction:
    """A function marked by `@baco.jit`: its source, its parameters and the names that it sees.

    Attributes:
        source: text and syntax tree.
        parameters: in order.
    """

    source: KernelSource
    parameters: tuple[KernelParameter, ...]

    def __init__(
        self, function: types.FunctionType, source: KernelSource, parameters: tuple[KernelParameter, ...]
    ) -> None:
        self.function = function
        self.source = source
        self.parameters = parameters

    @property
    def name(self) -> str:
        return self.source.function.name

    def lookup(self, name: str) -> Any:
        """The Python object that a name of the function's surroundings stands for; `REQUIRED` if none."""
        code, closure = self.function.__code__, self.function.__closure__ or ()
        if name in code.co_freevars:
            try:
                return closure[code.co_freevars.index(name)].cell_contents
            except ValueError:  # not assigned yet
                return REQUIRED
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        return BUILTINS.get(name, getattr(builtins, name, REQUIRED))


def to_value(name: str, thing: Any) -> Value | None:
    """A Python object as a value of a kernel; None if kernels cannot use it."""
    if thing is None or isinstance(thing, bool | float | str | Dtype):
        return KernelConstant(thing)
    if isinstance(thing, np.bool_):
        return KernelConstant(bool(thing))
    if isinstance(thing, np.floating):
        return KernelConstant(float(thing))
    if isinstance(thing, int | np.integer):
        return integer(int(thing))
    if isinstance(thing, tuple):
        items = [to_value(name, item) for item in thing]
        return None if any(item is None for item in items) else Tuple(tuple(item for item in items if item))
    if isinstance(thing, Primitive | KernelFunction):
        return Function(name, thing)
    if isinstance(thing, types.ModuleType):
        if thing.__name__ == "baco":  # loads its names when they are asked for
            own = {member: getattr(thing, member) for member in thing.__all__}
            return Module(name, {**vars(thing.language), **own, "language": thing.language})
        return Module(name, vars(thing))
    if isinstance(thing, type) and issubclass(thing, np.generic) and thing.__name__ in BY_NAME:
        return KernelConstant(BY_NAME[thing.__name__])
    if type(thing).__module__ == "torch" and str(thing).removeprefix("torch.") in BY_NAME:
        return KernelConstant(BY_NAME[str(thing).removeprefix("torch.")])
    return None
