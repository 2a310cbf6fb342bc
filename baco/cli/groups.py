"""Groups of commands, each of which is loaded when it is called: a list of them reads the docstrings alone, as text.

A table says what a command is, by its name: `module:function`, of a function that is a command (`baco.cli.checked`); or what
`baco.cli.generated` makes a command of, a function of a room below with the name of the function that shows what it returns.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from baco.cli.checked import Help, checked

#: `module:function`, or (module, function, function that makes text of what it returns, "" for its `text()`).
Target = str | tuple[str, str, str]
_SETTINGS = {"help_option_names": ["-h", "--help"]}


class _Command(Help, TyperCommand):
    """A command whose options that take several files also take them in a row, as a shell writes out `*.lib`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer's."""
        several = {flag for one in self.params if getattr(one, "multiple", False) for flag in one.opts}
        spread: list[str] = []
        flag = first = ""
        for arg in args:
            if arg in several:
                flag, first = arg, ""
            elif arg.startswith("-"):
                flag = ""
            elif flag and not first:
                first = arg
            elif flag and Path(first).suffix and Path(arg).suffix == Path(first).suffix:
                spread.append(flag)
            else:
                flag = ""
            spread.append(arg)
        return super().parse_args(ctx, spread)


class _Group(Help, TyperGroup):
    """A group that loads its commands when they are asked for, and lists them without."""

    def list_commands(self, ctx: Any) -> list[str]:
        """As typer's."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """As typer's."""
        with self._listed():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """As typer's."""
        with self._listed():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listed(self) -> Iterator[None]:
        """Commands are by their names and what they are for, meanwhile."""
        table: Any = self.commands
        self.commands = table.listed()
        try:
            yield
        finally:
            self.commands = table


class _Table(Mapping[str, Any]):
    """Commands by name, made when they are looked up; of a part that is not installed that is an error then, not before."""

    def __init__(self, make: Callable[[], Mapping[str, Target | Callable[[], Any]]]) -> None:
        self._make = make
        self._made: dict[str, Any] = {}

    @cached_property
    def _targets(self) -> Mapping[str, Target | Callable[[], Any]]:
        return self._make()

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            target = self._targets[name]
            self._made[name] = target() if callable(target) else command_named(name, target)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._targets)

    def __len__(self) -> int:
        return len(self._targets)

    def listed(self) -> dict[str, Any]:
        """Stand-ins that know what each command is for."""
        return {
            name: self[name] if callable(target) else TyperCommand(name, help=_docstring(target))
            for name, target in self._targets.items()
        }


def group_of(name: str, callback: Callable[..., Any], targets: Callable[[], Mapping[str, Any]]) -> Any:
    """A group of commands.

    Args:
        callback: is called before a command, or without one; its docstring says what the group is for.
        targets: gives the table of commands: targets, or functions that make a group.
    """
    app = typer.Typer(
        name=name,
        cls=_Group,
        rich_markup_mode="rich",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings=_SETTINGS,
    )
    app.callback(invoke_without_command=True)(callback)
    group: Any = get_command(app)
    group.commands = _Table(targets)
    return group


def command_named(name: str, target: Target) -> Any:
    """The command of a target, loaded."""
    module, function, *shown = target.split(":") if isinstance(target, str) else target
    home = importlib.import_module(module)
    called = getattr(home, function)
    if shown:
        from baco.cli.generated import command_of

        called = command_of(called, getattr(home, shown[0]) if shown[0] else None)
    app = typer.Typer(
        rich_markup_mode="rich",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings=_SETTINGS,
    )
    app.command(name, cls=_Command)(checked(called))
    return get_command(app)


def _docstring(target: Target) -> str | None:
    """What a function says of itself, read from its file. Raises ModuleNotFoundError where it is not installed."""
    module, function = target.split(":") if isinstance(target, str) else target[:2]
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name=module)
    tree = ast.parse(Path(spec.origin).read_bytes())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return ast.get_docstring(node)
    return None
