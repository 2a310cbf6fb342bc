"""Through which door the user came: the command line or Python, whose words differ."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["argument", "at_command_line", "words"]

_command_line = contextvars.ContextVar("_command_line", default=False)


@contextmanager
def at_command_line() -> Iterator[None]:
    """Within the block, errors and notes are for somebody who wrote a command line."""
    token = _command_line.set(True)
    try:
        yield
    finally:
        _command_line.reset(token)


def words(command_line: str, python: str) -> str:
    """The one of two texts that the user's door asks for."""
    return command_line if _command_line.get() else python


def argument(name: str) -> str:
    """How an argument of the Python interface is called: `time_limit`, or as option `--time-limit`."""
    return words("--" + name.replace("_", "-"), name)
