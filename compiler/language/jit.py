"""`@baco.jit`: kernels, what a launch gives them, and how a launch is compiled and run."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.common.errors import Location, did_you_mean
from baco.common.shown import Shown
from baco.common.text import one_line
from baco.compiler.dialects.baco import StoreOp
from baco.compiler.language.arrays import Array, FlatBuffer, as_array, flatten
from baco.compiler.language.builder import MAX_INTEGER
from baco.compiler.language.forms import CeilingQuotient
from baco.compiler.language.interpret import run_module
from baco.compiler.language.names import REQUIRED, ConstantMarker, KernelFunction, KernelParameter, to_value
from baco.compiler.language.source import KernelError, KernelSource, read_source
from baco.compiler.language.translate import ArrayAt, translate
from baco.compiler.language.values import KernelConstant

#: A grid, or a function of the compile-time arguments (by name) that gives it.
Grid = int | Sequence[int] | Callable[[dict[str, Any]], Any]
MAX_AXES = 3
MAX_PROGRAMS = 2**31 - 1


@dataclass(frozen=True, repr=False)
class BoundLaunch(Shown):
    """A kernel with everything that its program depends on, but the contents of the arrays.

    Attributes:
        kernel: what is launched.
        grid: number of programs along each axis.
        constants: parameter -> number, bool, string or None.
        arrays: parameter -> numpy array that shares the user's memory.
        buffers: the memory that the arrays lie in; one pointer argument of the program each.
        places: parameter -> where its array lies.
        options: how it is compiled and run.
    """

    kernel: Kernel
    grid: tuple[int, ...]
    constants: dict[str, Any]
    arrays: dict[str, Array]
    buffers: list[FlatBuffer]
    places: dict[str, ArrayAt]
    options: Options

    def _headline(self) -> str:
        return f"{self.kernel.name} on {'×'.join(map(str, self.grid))} programs"

    def _facts(self) -> Iterator[tuple[str, object]]:
        for name, array in self.arrays.items():
            yield name, f"{array.dtype} {'×'.join(map(str, array.shape))}"
        for name, value in self.constants.items():
            yield name, value

    def module(self) -> ModuleOp:
        """The block program, in the `baco` dialect.

        Raises:
            KernelError: the kernel is ill-formed, or writes to an array that is read-only.
        """
        arguments: dict[str, object] = {}
        for parameter in self.kernel.parameters:
            name = parameter.name
            arguments[name] = self.places[name] if name in self.places else self.constants[name]
        module = translate(
            self.kernel, arguments, [(buffer.dtype, buffer.size) for buffer in self.buffers], self.grid
        )
        for index in stored(module):
            if not self.buffers[index].writeable:
                raise KernelError(
                    f"kernel `{self.kernel.name}` writes to `{self.buffers[index].names[0]}`, which is read-only",
                    hint="pass a copy",
                )
        return module


def stored(module: ModuleOp) -> list[int]:
    """Indices of the pointer arguments that a block program writes to."""
    found = set()
    for store in module.walk():
        if isinstance(store, StoreOp):
            value = store.pointer
            while value.owner.__class__.__name__ != "Block":
                value = value.owner.operands[0]  # type: ignore[union-attr]
            found.add(value.index)  # type: ignore[attr-defined]
    return sorted(found)


#: Runs a launch, which changes its arrays; what it returns is what the launch returns.
Executor = Callable[["BoundLaunch"], Any]


@dataclass(frozen=True)
class Options:
    """How launches are compiled and run.

    Attributes:
        accelerator: what is compiled for: a configuration, the name of a preset, or a file.
        engine: "functional" (instruction set simulation), "rtl" (the Verilog), or "interpret" (numpy, nothing is
            compiled).
    """

    accelerator: Accelerator | str | Path = "gemmini-default"
    engine: str = "functional"

    def machine(self) -> Accelerator:
        """The configuration. Raises InputError for an unknown preset or a malformed file."""
        if isinstance(self.accelerator, Accelerator):
            return self.accelerator
        return load_accelerator(self.accelerator)


@dataclass
class _Settings:
    """What `baco` sets when it is imported."""

    options: Options = field(default_factory=Options)
    executor: Executor | None = None


_settings = _Settings()


def set_executor(executor: Executor) -> None:
    """Says how launches are run. Called from above: the compiler runs nothing itself."""
    _settings.executor = executor


def use(**options: Any) -> None:
    """Sets the options of all launches that follow: accelerator=, engine= (see `Options`)."""
    _settings.options = _options(_settings.options, options)


@contextmanager
def using(**options: Any) -> Iterator[None]:
    """`use` for the launches within the block."""
    before = _settings.options
    use(**options)
    try:
        yield
    finally:
        _settings.options = before


def _options(base: Options, changes: Mapping[str, Any]) -> Options:
    for name in changes:
        if name not in Options.__dataclass_fields__:
            raise KernelError(f"no option '{name}'", hint=did_you_mean(name, Options.__dataclass_fields__))
    return replace(base, **changes)


def run(launch: BoundLaunch) -> Any:
    """Runs a launch by the engine of its options and returns what the engine measured (None: nothing).

    Raises:
        KernelError: the kernel is wrong, or there is nothing to run it.
    """
    if launch.options.engine == "interpret":
        run_module(launch.module(), [buffer.memory for buffer in launch.buffers], launch.options.machine())
        return None
    if _settings.executor is None:
        raise KernelError(
            "no engine to run kernels", hint="import baco, or launch by kernel.interpret[grid](...)"
        )
    return _settings.executor(launch)


class Kernel(KernelFunction):
    """A function of the block language. `kernel[grid](arguments...)` launches it.

    Arrays (numpy, torch on the CPU) become pointers, everything else is known when compiling: a kernel is compiled
    for each combination of numbers, element types and sizes that it is launched with. The arguments are those of the
    function, in its order or by name.
    """

    def __repr__(self) -> str:
        place = f"{Path(self.source.file).name}:{self.source.first_line}"
        return (
            f"<{type(self).__name__} {self.name}({', '.join(one.name for one in self.parameters)}), {place}>"
        )

    def __init__(self, function: Callable[..., Any]) -> None:
        source = read_source(function)
        assert isinstance(function, types.FunctionType)
        super().__init__(function, source, _parameters(function, source))
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __getitem__(self, grid: Grid) -> Launcher:
        return Launcher(self, grid)

    def __call__(self, *arguments: Any, **named: Any) -> None:
        raise KernelError(
            f"kernel `{self.name}` is called without a grid",
            location=Location(self.source.file, self.source.first_line),
            hint=f"launch it by {self.name}[grid](...), with the number of programs as the grid",
        )

    @property
    def interpret(self) -> _Interpreted:
        """`kernel.interpret[grid](...)` runs on numpy, without compiling: slow, and good for debugging."""
        return _Interpreted(self)

    def configured(self, launch: Callable[..., BoundLaunch]) -> BoundLaunch:
        """The launch itself; kernels that choose constants themselves choose them here."""
        return launch()

    def bind(
        self, grid: Grid, arguments: Sequence[Any], named: Mapping[str, Any], options: Options
    ) -> BoundLaunch:
        """Everything that a launch determines.

        Raises:
            KernelError: the arguments or the grid do not fit the kernel.
        """
        return self.configured(lambda **chosen: self._bind(grid, arguments, named, chosen, options))

    def _bind(
        self,
        grid: Grid,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        chosen: Mapping[str, Any],
        options: Options,
    ) -> BoundLaunch:
        values = self._match(arguments, named, chosen)
        constants: dict[str, Any] = {}
        arrays: dict[str, Array] = {}
        for parameter in self.parameters:
            thing = values[parameter.name]
            array = as_array(parameter.name, thing)
            if array is None:
                constants[parameter.name] = self._constant(parameter, thing)
            elif parameter.compile_time:
                raise self._error(f"parameter `{parameter.name}` is a compile-time constant, got an array")
            else:
                arrays[parameter.name] = array
        if not arrays:
            raise self._error(
                "no argument is an array, so the kernel has no memory", "pass numpy or torch arrays"
            )
        buffers, places = flatten(arrays)
        return BoundLaunch(self, self._grid(grid, constants), constants, arrays, buffers, places, options)

    def _error(self, message: str, hint: str | None = None) -> KernelError:
        place = Location(self.source.file, self.source.first_line)
        return KernelError(f"launch of kernel `{self.name}`: {message}", location=place, hint=hint)

    def _match(
        self, arguments: Sequence[Any], named: Mapping[str, Any], chosen: Mapping[str, Any]
    ) -> dict[str, Any]:
        names = [parameter.name for parameter in self.parameters if parameter.name not in chosen]
        signature = f"{self.name}({', '.join(names)})"
        if len(arguments) > len(names):
            raise self._error(f"{len(arguments)} arguments for {len(names)} parameters", signature)
        values = dict(chosen) | dict(zip(names, arguments, strict=False))
        for name, value in named.items():
            if name in chosen:
                raise self._error(f"`{name}` is chosen by autotune", "leave it out")
            if name not in names:
                raise self._error(f"no parameter `{name}`", did_you_mean(name, names))
            if name in values:
                raise self._error(f"two values for `{name}`", signature)
            values[name] = value
        for parameter in self.parameters:
            if parameter.name not in values and parameter.default is not REQUIRED:
                values[parameter.name] = parameter.default
        missing = [parameter.name for parameter in self.parameters if parameter.name not in values]
        if missing:
            raise self._error("no value for " + ", ".join(f"`{name}`" for name in missing), signature)
        return values

    def _constant(self, parameter: KernelParameter, thing: Any) -> Any:
        if isinstance(thing, np.generic):
            thing = thing.item()
        value = to_value(parameter.name, thing)
        simple = isinstance(thing, int | float | str) or thing is None or isinstance(value, KernelConstant)
        if value is None or not simple:
            raise self._error(
                f"argument `{parameter.name}` is of type {type(thing).__name__}",
                "arguments are numpy or torch arrays, numbers, strings or None",
            )
        if isinstance(thing, int) and abs(thing) >= MAX_INTEGER:
            raise self._error(f"argument `{parameter.name}` is too large: {MAX_INTEGER} or more")
        return thing

    def _grid(self, grid: Grid, constants: Mapping[str, Any]) -> tuple[int, ...]:
        if callable(grid):
            grid = grid(dict(constants))
        axes = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
        if not 1 <= len(axes) <= MAX_AXES:
            raise self._error(f"a grid has 1 to {MAX_AXES} axes, got {len(axes)}")
        total = 1
        counts = []
        for axis in axes:
            if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
                raise self._error(f"the grid {grid!r} is not made of integers", "e.g. [(baco.cdiv(M, 16),)]")
            if axis < 1:
                raise self._error(f"the grid {tuple(int(a) for a in axes)} has no programs")
            counts.append(axis if isinstance(axis, CeilingQuotient) else int(axis))
            total *= int(axis)
            if total > MAX_PROGRAMS:
                raise self._error(f"the grid has more than {MAX_PROGRAMS:,} programs")
        return tuple(counts)


class Launcher:
    """A kernel with a grid, ready to be called with its arguments."""

    def __init__(self, kernel: Kernel, grid: Grid, options: Mapping[str, Any] | None = None) -> None:
        self._kernel = kernel
        self._grid = grid
        self._options = dict(options or {})

    def __repr__(self) -> str:
        grid = getattr(self._grid, "__name__", self._grid)
        return f"<Launcher of {self._kernel.name} on {one_line(str(grid), 100)}>"

    def options(self, **options: Any) -> Launcher:
        """The same with other options: accelerator=, engine= (see `Options`)."""
        _options(_settings.options, options)
        return Launcher(self._kernel, self._grid, {**self._options, **options})

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Compiles the kernel for these arguments and runs it; arrays that it stores to are changed.

        Returns what the engine measured, a `baco.sim.job.Simulation` (of the interpreter: None).
        """
        return run(self.bind(*arguments, **named))

    def bind(self, *arguments: Any, **named: Any) -> BoundLaunch:
        """What the launch would run, without running it."""
        return self._kernel.bind(self._grid, arguments, named, _options(_settings.options, self._options))

    def module(self, *arguments: Any, **named: Any) -> ModuleOp:
        """The block program of the launch, in the `baco` dialect."""
        return self.bind(*arguments, **named).module()


class _Interpreted:
    """`kernel.interpret`, waiting for the grid."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Grid) -> Launcher:
        return Launcher(self._kernel, grid, {"engine": "interpret"})


def jit(function: Callable[..., Any]) -> Kernel:
    """Makes a function a kernel. Its source is compiled; Python never executes it.

    Raises:
        KernelError: the source cannot be read, or the parameters are not plain ones.
    """
    return Kernel(function)


def _parameters(function: types.FunctionType, source: KernelSource) -> tuple[KernelParameter, ...]:
    spec = source.function.args
    plain = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    for extra in (spec.vararg, spec.kwarg):
        if extra is not None:
            raise source.error(extra, f"a kernel has no `*{extra.arg}`", "name every parameter")
    defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
    parameters = []
    for argument in plain:
        default = defaults[argument.arg]
        parameters.append(
            KernelParameter(
                argument.arg,
                _is_const(function, argument.arg),
                REQUIRED if default is inspect.Parameter.empty else default,
            )
        )
    return tuple(parameters)


def _is_const(function: types.FunctionType, name: str) -> bool:
    """Whether a parameter is annotated as `baco.const`, be it as a string (postponed annotations)."""
    annotation = function.__annotations__.get(name)
    if isinstance(annotation, str):
        return annotation.split(".")[-1] == "const"
    return isinstance(annotation, ConstantMarker)
