"""`baco` without a command."""

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
    show_help_if_alone(context)


def show_help_if_alone(context: typer.Context) -> None:
    """Print the help of a group that was called without one of its commands."""
    if context.invoked_subcommand is None:
        # with rich, typer prints the help itself and returns nothing
        text = context.get_help()
        sys.stdout.write(text + "\n" if text.strip() else "")
