"""How the commands of `baco bench` run an experiment and print what it found."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from baco.cli.engine_options import EngineOptions

#: What commands call an experiment's parameters, of which a command line takes one a time.
_PLURAL = "s"


def say(line: str) -> None:
    """How a benchmark goes on, a line on standard error, whole and as it is."""
    from baco.display.console import stderr

    stderr().print(line, highlight=False, soft_wrap=True)


def experiment(module: str, given: Mapping[str, Any]) -> None:
    """Run an experiment (see `baco.bench.experiment`) with a command's arguments, and print its page, or JSON.

    What was not given (None, an empty list) is left to the experiment; options that may be repeated go to the parameter with their
    name's plural.

    Args:
        module: below `baco.bench`.
        given: by parameter of the command.
    """
    chosen = importlib.import_module(f"baco.bench.{module}")
    known = inspect.signature(chosen.run).parameters
    arguments = {name: value for name, value in {"say": say}.items() if name in known}
    for name, value in given.items():
        if isinstance(value, EngineOptions):
            arguments["engine"] = value.chosen  # type: ignore[attr-defined]
        elif value is not None and value != [] and name != "json":
            arguments[name if name in known else name + _PLURAL] = value
    show(chosen.run(**arguments), chosen.page, given["json"], page=True)


def show(result: Any, text: Callable[[Any], str], as_json: bool, *, page: bool = False) -> None:
    """A result as JSON, or as the text that its bench makes of it; a page in Markdown is printed line for line as it is."""
    from baco.bench.experiment import plain
    from baco.display.console import print_json, stdout

    if as_json:
        print_json(plain(result))
    else:
        stdout().print(text(result), highlight=False if page else None, soft_wrap=page or None)


def print_values(result: dict[str, Any], as_json: bool) -> None:
    """Values by name, a line each."""
    from baco.display.console import print_json, stdout

    if as_json:
        print_json(result)
        return
    for name, value in result.items():
        text = f"{value:,.6g}" if isinstance(value, float) else str(value)
        stdout().print(f"{name}: {text}")


def check_names(given: Iterable[str] | None, known: Iterable[str], option: str, what: str = "") -> None:
    """Raise InputError for a name given to `--option` that is not known; `what` it should be, by default the option's name."""
    for name in given or ():
        if name not in known:
            from baco.common.errors import InputError, Location, did_you_mean

            raise InputError(
                f"there is no {what or option} '{name}'",
                location=Location(f"--{option}"),
                hint=did_you_mean(name, known),
            )
