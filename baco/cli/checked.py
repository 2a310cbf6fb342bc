"""Commands whose arguments are checked before they run, beyond what the parser knows of them.

A command is a function; its docstring says what each parameter is, which becomes the help of an option of the parameter's name:
`samples (-n, NUMBER): budget of the search` with flags and the name of the value in brackets, where there are such. Parameters
with a `typer.Option` or `typer.Argument` that has a help of its own are taken as they are.

Options that several commands share, or that say one thing together, are the fields of a dataclass; a command's parameter of
that type stands for them all. Its `Attributes:` are read likewise, and its `panel` is the part of the help that they are shown in.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape

#: What every generator of random numbers takes as a seed.
_LARGEST_SEED = 2**32 - 1


#: Options whose name and meaning are those of the parameter.
Count = Annotated[int, typer.Option(min=1)]
Seed = Annotated[int, typer.Option(min=0, max=_LARGEST_SEED)]
#: What parameters of these names mean where a docstring does not say otherwise.
_SHARED: dict[str, tuple[list[str], str]] = {"json": ([], "Print the results as JSON.")}
#: An entry of a docstring's section of arguments: name, short flags and the name of the value, meaning.
_ENTRY = re.compile(r"    (?! )(\w+)(?: \(([^)]*)\))?: (.*)")


class Help:
    """Help that shows texts as they are written, square brackets too, and flags without the name of a type."""

    def __init__(self, *args: Any, **options: Any) -> None:
        for name in ("help", "short_help", "epilog"):
            if isinstance(options.get(name), str):
                options[name] = escape(options[name])
        super().__init__(*args, **options)
        for one in self.params:  # type: ignore[attr-defined]
            if one.help:
                one.help = escape(one.help)
            if getattr(one, "is_flag", False):
                one.metavar = ""

    def get_help_option(self, context: Any) -> Any:
        """As typer's."""
        found = super().get_help_option(context)  # type: ignore[misc]
        if found is not None:
            found.metavar = ""
        return found


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as typer takes it for a command: no argument is a number that is not finite or not exact, or a name that cannot be."""
    hints = get_type_hints(function, include_extras=True)
    about, told = told_arguments(function)
    groups: dict[str, Any] = {}
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            own = get_type_hints(hints[name], include_extras=True)
            more = [(field.name, field.default, own[field.name]) for field in fields(hints[name])]
            panel = getattr(hints[name], "panel", None)
            meanings: dict[str, tuple[list[str], str]] = {}
            for part in reversed(hints[name].__mro__[:-1]):  # what is inherited is said there
                meanings |= told_arguments(part)[1]
        else:
            more, meanings, panel = [(name, parameter.default, hints[name])], {**_SHARED, **told}, None
        for key, default, hint in more:
            option = _option(key, hint, default, meanings[key], panel) if key in meanings else hint
            options[key] = inspect.Parameter(key, parameter.KEYWORD_ONLY, default=default, annotation=option)

    def call(**arguments: Any) -> Any:
        for name, value in arguments.items():
            problem = _problem(value)
            if problem:
                from baco.common.errors import InputError, Location

                raise InputError(problem, location=Location(_shown_name(options[name])))
        made = {
            name: group(**{field.name: arguments.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        return function(**arguments, **made)

    # typer reads these
    call.__name__, call.__doc__, call.__module__ = function.__name__, about, function.__module__
    call.__signature__ = inspect.Signature(list(options.values()))  # type: ignore[attr-defined]
    call.__annotations__ = {name: option.annotation for name, option in options.items()}
    return call


def told_arguments(thing: Any) -> tuple[str, dict[str, tuple[list[str], str]]]:
    """A docstring without its section of arguments, and what that says: (flags and name of the value, meaning) by name."""
    about, _, section = re.sub(r"\nAttributes:\n", "\nArgs:\n", inspect.getdoc(thing) or "").partition(
        "\nArgs:\n"
    )
    found: dict[str, tuple[list[str], str]] = {}
    name = ""
    for line in section.splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            name = entry[1]
            found[name] = [one for one in (entry[2] or "").split(", ") if one], entry[3]
        elif name and line.startswith("     "):
            found[name] = found[name][0], f"{found[name][1]} {line.strip()}"
    return about.strip(), found


def _option(name: str, hint: Any, default: Any, told: tuple[list[str], str], panel: str | None) -> Any:
    """The annotation of a parameter as typer reads it."""
    marks, meaning = told
    kind, *given = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    inner = [
        argument for argument in get_args(kind) if get_origin(argument) is Annotated
    ]  # a limited number, or None
    if inner:
        kind, *given = get_args(inner[0])[0] | None, *get_args(inner[0])[1:]
    if given and given[0].help:
        return hint
    limits = {key: getattr(given[0], key) for key in ("min", "max")} if given else {}
    flag = next((mark for mark in marks if mark.startswith("--")), "--" + name.replace("_", "-"))
    switch = bool in (kind, *get_args(kind)) and default is not False
    written = f"{flag}/--no-{flag[2:]}" if switch else flag
    shown = next((mark for mark in marks if not mark.startswith("-")), None)
    flags = [mark for mark in marks if mark.startswith("-") and mark != flag]
    about = {"help": meaning, "metavar": shown, "rich_help_panel": panel, **limits}
    if given and given[0].autocompletion:
        about["autocompletion"] = given[0].autocompletion
    return Annotated[kind, typer.Option(written, *flags, **about)]


def _problem(value: Any) -> str | None:
    """Why a value can be no argument of any command."""
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(_problem, value)), None)
    if isinstance(value, float) and not math.isfinite(value):
        return f"the number must be finite, not {value}"
    if isinstance(value, int) and abs(value) > 2**53:
        return f"the number {value} is too large" if abs(value) < 10**40 else "the number is too large"
    if isinstance(value, (str, Path)):
        return _text_problem(str(value))
    return None


def _text_problem(text: str) -> str | None:
    if "\0" in text:
        return "the text must not hold a NUL character"
    return None if text else "the text must not be empty"


def _shown_name(option: inspect.Parameter) -> str:
    """What a parameter is called on the command line."""
    (about,) = option.annotation.__metadata__
    # typer takes the first for a default until it meets the signature
    declared = (about.default, *(about.param_decls or ()))
    return next(
        (one for one in declared if isinstance(one, str) and one.startswith("--")), option.name.upper()
    )
