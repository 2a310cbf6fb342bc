"""`baco`, and its groups, without a command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Hardware/software co-design exploration: from a network to a Pareto set of accelerators."""
    if version:
        from baco.common.provenance import versions

        sys.stdout.write(f"baco {versions().get('baco', '(not installed)')}\n")
        raise typer.Exit
    _show_help_if_alone(context)


def bench(context: typer.Context) -> None:
    """Measure the cost model, the searchers and the simulation on this machine."""
    _show_help_if_alone(context)


def model(context: typer.Context) -> None:
    """Learn from measurements what the analytical models miss."""
    _show_help_if_alone(context)


def _show_help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        # with rich, typer prints the help itself and returns nothing
        text = context.get_help()
        sys.stdout.write(text + "\n" if text.strip() else "")
