"""What commands of `baco bench` check and print."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def say(line: str) -> None:
    """How a benchmark goes on, a line on standard error, whole and as it is."""
    from baco.display.console import stderr

    stderr().print(line, highlight=False, soft_wrap=True)


def show(result: Any, text: Callable[[Any], str], as_json: bool, *, page: bool = False) -> None:
    """A result as JSON, or as the text that its bench makes of it; a page in Markdown is printed line for line as it is."""
    from baco.display.console import print_json, stdout

    if as_json:
        print_json(result)
    else:
        stdout().print(text(result), highlight=False if page else None, soft_wrap=page or None)


def print_values(result: dict[str, Any], as_json: bool) -> None:
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
