"""Commands out of functions of the rooms below: options are their parameters, help is what their docstrings say of these.

An entry of a docstring's `Args:` makes an option of a parameter; `networks (-n, --network): names of networks` names it otherwise, and
`folder (FOLDER): ...` without a default is an argument. A parameter without an entry belongs to callers from Python, but for what
every command has: who runs its tasks (`ExecutorChoice`), and displays of how it goes. What is not given is left to the function.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from baco.cli.checked import Seed, told_arguments
from baco.cli.compile_options import DEFAULT_ACCELERATOR, Accelerator, Timing
from baco.cli.engine_options import JobOptions, WorkerOptions

#: Options that mean the same everywhere.
_SHARED = {"accelerator": Accelerator, "timing": Timing}


def command_of(function: Callable[..., Any], page: Callable[[Any], str] | None) -> Callable[..., None]:
    """A command that calls the function, and prints its result: as JSON, or as text.

    Args:
        page: makes text of what the function returns; None for its `text()`.
    """
    hints = get_type_hints(function, include_extras=True)
    about, told = told_arguments(function)
    options: dict[str, inspect.Parameter] = {}
    fixed: dict[str, Callable[[], Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind, limits = _kind(hints[name])
        if kind.__name__ == "ExecutorChoice":
            group: Any = JobOptions if parameter.default.name == "here" else WorkerOptions
            options[name] = inspect.Parameter(name, parameter.KEYWORD_ONLY, annotation=group)
        elif name in told:
            default, hint = _option(name, kind, limits, parameter.default, told[name])
            options[name] = inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=hint)
        elif kind.__name__ in _DISPLAYS:
            fixed[name] = partial(_DISPLAYS[kind.__name__], hints[name])
    options["json"] = inspect.Parameter(
        "json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool
    )

    def call(**given: Any) -> None:
        as_json = given.pop("json")
        arguments = {
            name: _VALUES.get(_kind(hints[name])[0].__name__, lambda value: value)(value)
            for name, value in given.items()
            if value is not None and value != []
        }
        result = function(**arguments, **{name: make() for name, make in fixed.items()})
        _show(result, page, as_json=as_json)

    call.__name__, call.__module__, call.__doc__ = function.__name__, __name__, _help(about)
    call.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    call.__annotations__ = {name: one.annotation for name, one in options.items()}
    return call


def _help(about: str) -> str:
    """What a function does, without what it gives and raises."""
    parts = about.split("\n\n")
    return "\n\n".join(one for one in parts if not one.lstrip().startswith(("Raises", "Returns")))


def _kind(hint: Any) -> tuple[Any, dict[str, Any]]:
    """The type that a hint allows beside None, and the limits of a number, as typer calls them."""
    limits: dict[str, Any] = {}
    kinds = [hint]
    while len(kinds) == 1 and get_origin(kinds[0]) in (Annotated, Union, types.UnionType):
        (one,) = kinds
        if get_origin(one) is Annotated:
            for limit in get_args(one)[1:]:
                for name, (bound, beyond) in _LIMITS.items():
                    value = getattr(limit, name, None)
                    if value is not None:
                        limits[bound] = value + beyond
            kinds = [get_args(one)[0]]
        else:
            kinds = [kind for kind in get_args(one) if kind is not types.NoneType]
    if Path in kinds:  # or its name
        return Path, limits
    kind = kinds[0]
    return (get_origin(kind) if get_origin(kind) in (Iterable, Callable) else kind), limits


#: Limits of `annotated_types`: typer's name, and what it adds for whole numbers.
_LIMITS = {"ge": ("min", 0), "gt": ("min", 1), "le": ("max", 0), "lt": ("max", -1)}


def _option(
    name: str, kind: Any, limits: dict[str, Any], default: Any, told: tuple[list[str], str]
) -> tuple[Any, Any]:
    """Default and annotation of an option, or of an argument where there is no default."""
    marks, meaning = told
    flag = next((mark for mark in marks if mark.startswith("--")), f"--{name.replace('_', '-')}")
    flags = [flag, *(mark for mark in marks if mark.startswith("-") and mark != flag)]
    required = default is inspect.Parameter.empty
    if kind.__name__ == "Accelerator":
        kind, default, required = str, DEFAULT_ACCELERATOR if required else default, False
    if flag[2:] in _SHARED:
        return default, _SHARED[flag[2:]]
    if kind is int and flag == "--seed":
        limits = {"min": 0, "max": get_args(Seed)[1].max}
    shown = next((mark for mark in marks if not mark.startswith("-")), None)
    meaning = meaning[:1].upper() + meaning[1:]
    more: dict[str, Any] = {"help": meaning, "metavar": shown, **limits}
    if required and shown:
        return ..., Annotated[kind, typer.Argument(**more)]
    if kind is Iterable:
        return len(default), Annotated[int, typer.Option(*flags, min=1, max=1000, **more)]
    if get_origin(kind) is not None and issubclass(get_origin(kind), Sequence):
        (inner,) = get_args(kind)[:1]
        inner, limits = _kind(inner)
        return None, Annotated[list[inner] | None, typer.Option(*flags, **{**more, **limits})]  # type: ignore[valid-type]
    if kind is bool and default:
        flags = [f"{flag}/--no-{flag[2:]}"]
    allowed = kind | None if default is None else kind
    return (... if required else default), Annotated[allowed, typer.Option(*flags, **more)]


def _machine(name: str) -> Any:
    from baco.accel.presets import load_accelerator

    return load_accelerator(name)


#: What functions take in place of what options give, by the name of the parameter's type.
_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "Accelerator": _machine,
    "ExecutorChoice": lambda options: options.chosen,
    "Iterable": range,
}


def _say(line: str) -> None:
    """How something goes on, a line on standard error, whole and as it is."""
    from baco.display.console import stderr

    stderr().print(line, highlight=False, soft_wrap=True)


def _validation(_: Any) -> Any:
    from baco.display.validation import make_display

    return make_display()


def _watched(hint: Any) -> Any:
    """What shows how something goes: lines, or what a display is made of (a budget of cycles)."""
    from baco.display.measured import MeasuredDisplay

    parameters, _ = get_args(next(one for one in (hint, *get_args(hint)) if get_origin(one) is Callable))
    return MeasuredDisplay if parameters == [float] else _say


#: What shows how something goes, by the name of the parameter's type.
_DISPLAYS: Mapping[str, Callable[[Any], Any]] = {"Callable": _watched, "ValidationProgress": _validation}


def _show(result: Any, page: Callable[[Any], str] | None, *, as_json: bool) -> None:
    """A result as JSON, or line for line as its text is."""
    from baco.display.console import print_json, stdout

    if as_json:
        print_json(_plain(result))
    else:
        text = result.text() if page is None else page(result)
        stdout().print(text, highlight=False, soft_wrap=True)


def _plain(value: Any) -> Any:
    """What JSON can say."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value) if isinstance(value, Path) else value
