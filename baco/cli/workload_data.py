"""Samples of networks' inputs, as commands that measure whole programs take them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        metavar="FILE.npz|DIR",
        help="Samples of the network's inputs, arrays by input, kept beside the study: ranges of activations are taken from them, "
        "and the first is what measured programs compute on; otherwise both are random. With 'label', the class of every sample, or "
        "with several samples, accuracy in integers is measured. Of several networks one file each, in their order.",
    ),
]
