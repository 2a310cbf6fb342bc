"""`baco init`: a working example to begin with, in the current folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

#: The file that each example becomes.
_FILES = {
    "space": "space.yaml",
    "layers": "layers.yaml",
    "kernel": "kernel.py",
    "attention": "attention.py",
}
#: Where the text of each comes from; a kernel is no module of ours.
_SOURCES = {**_FILES, "kernel": "kernel.txt", "attention": "attention.txt"}
#: What to type next, the exploration last.
_NEXT = {
    "space": ("explore --network resnet18 --space {file}",),
    "layers": ("explore --network {file}",),
    "kernel": (
        "python {file}",
        "explore --kernel {file}:matmul_relu --shape M=512,N=512,K=256 --validate 1",
    ),
    "attention": ("python {file}", "explore --kernel {file}:flash --shape B=8,S=512,D=64 --validate 1"),
}


def init(
    example: Annotated[
        str,
        typer.Argument(
            metavar="EXAMPLE",
            autocompletion=lambda incomplete: [one for one in _FILES if one.startswith(incomplete)],
            help="space: a design space; layers: a network as a table; kernel: a kernel of the block language; "
            "attention: another one, of two products with a softmax between.",
        ),
    ],
    out: Path | None = None,
) -> None:
    """Write a small example that works as it is, to be changed.

    Args:
        out (-o, FILE): Where to write it; default: under its own name here.
    """
    import os
    from importlib import resources

    from baco.common.errors import InputError, Location, StorageError, did_you_mean
    from baco.common.files import atomic_write
    from baco.common.text import one_line, shell_word
    from baco.display.console import stdout

    if example not in _FILES:
        raise InputError(f"there is no example '{example}'", hint=did_you_mean(example, _FILES))
    path = out if out is not None else Path(_FILES[example])
    if os.path.lexists(path):
        raise StorageError(
            "there is already something of this name",
            location=Location(str(path)),
            hint="choose another --out",
        )
    text = (resources.files("baco.examples") / _SOURCES[example]).read_text("utf-8")
    atomic_write(path, text)
    console = stdout()
    console.print(f"{one_line(str(path))} is written; try")
    for line in _NEXT[example]:
        console.print(f"  {line.format(file=shell_word(str(path)))}", soft_wrap=True, highlight=False)
