"""`baco completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

_PROGRAMS = ("baco", "explore")


class Shell(StrEnum):
    """Shells that can be taught."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that reads it.")],
) -> None:
    """Print a script that completes the commands and options of baco and explore.

    bash: baco completion bash >> ~/.bashrc

    zsh: baco completion zsh >> ~/.zshrc

    fish: baco completion fish > ~/.config/fish/completions/baco.fish
    """
    import importlib

    get_completion_script = importlib.import_module("typer.completion").get_completion_script
    for program in _PROGRAMS:
        script = get_completion_script(
            prog_name=program, complete_var=f"_{program.upper()}_COMPLETE", shell=shell.value
        )
        sys.stdout.write(script.strip() + "\n")
