"""The door through which a user came, command line or Python, so that errors call options as she writes them.

Errors name options as the command line has them (`--time-limit`); for callers from Python the same text names arguments
(`time_limit`) when it is shown. What stands in quotes of code stays as it is: commands to type. Where the two doors need
sentences of their own, `words` takes both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

#: Options whose arguments in Python have other names.
_OTHER_NAMES = {
    "resume": "resume=True",
    "constraint": "constraints",
    "area-limit": "constraints",
    "accelerator-only": "whole=False",
    "no-fusion": "fusion=False",
    "no-proof": "proof=False",
    "best": "best",
    "validate-time": "time_limit",
    "measure-engine": "engine",
    "memory-mib": "memory=MainMemory(size_bytes=...)",
    "memory-latency": "memory=MainMemory(latency_cycles=...)",
    "memory-bandwidth": "memory=MainMemory(bytes_per_cycle=...)",
    "memory-burst": "memory=MainMemory(burst_bytes=...)",
    "l2-kib": "memory=MainMemory(l2_kib=...)",
    "max-cycles": "limits=Limits(max_cycles=...)",
    "stall-cycles": "limits=Limits(stall_cycles=...)",
    "timeout": "limits=Limits(timeout_seconds=...)",
    "trace": "recording=Recording(waves=...)",
    "engine-argument": "engine_arguments",
    "spike": "simulator",
    "from": "first",
    "until": "until",
}
#: Options that messages name with a value.
_WITH_VALUE = ("cost-model", "device", "emit", "engine", "executor", "search", "technology", "timing")
_OPTION = re.compile(
    r"`[^`]*`"  # code
    rf"|(?<![\w-])--({'|'.join(_WITH_VALUE)})[ =]([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w/])"
    r"|(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w-])"
)
#: Words that follow an option without being its value.
_NO_VALUES = {"and", "or", "out", "with", "for", "is", "goes", "to", "exclude", "takes", "needs"}
_command_line = False


@contextmanager
def at_command_line() -> Iterator[None]:
    """Errors that are shown meanwhile are in the words of the command line."""
    global _command_line
    before, _command_line = _command_line, True
    try:
        yield
    finally:
        _command_line = before


def words(command_line: str, python: str) -> str:
    """The one of two texts that the user's door asks for."""
    return command_line if _command_line else python


def argument(name: str) -> str:
    """How an argument of the Python interface is called: `time_limit`, or as option `--time-limit`."""
    return words("--" + name.replace("_", "-"), name)


def in_the_words_of_the_door(text: str) -> str:
    """A message in which options are named, as it is for this user."""
    return text if _command_line or "--" not in text else _OPTION.sub(_argument, text)


def _argument(found: re.Match[str]) -> str:
    with_value, value, name = found.groups()
    if with_value is not None and value not in _NO_VALUES:
        return f"`{with_value.replace('-', '_')}='{value}'`"
    if with_value is not None:
        return f"`{with_value.replace('-', '_')}` {value}"
    if name is None:
        return found[0]
    return f"`{_OTHER_NAMES.get(name, name.replace('-', '_'))}`"
