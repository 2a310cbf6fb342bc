"""`baco profile`: what the layers of a network take on units of several kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.checked import Count
from baco.cli.completions import accelerator_completions, network_completions


def profile(
    network: Annotated[
        str,
        typer.Option(
            "--network",
            "-n",
            metavar="NAME|FILE",
            autocompletion=network_completions,
            help="As `baco compile` takes it.",
        ),
    ],
    unit: Annotated[
        list[str],
        typer.Option(
            "--unit",
            "-u",
            metavar="ACCELERATOR|host",
            autocompletion=accelerator_completions,
            help="Again for each, four with the same elements at most; host: a core without one.",
        ),
    ],
    batch: Annotated[
        list[int] | None, typer.Option(help="Images at a time; again for each.", metavar="N")
    ] = None,
    clock: Annotated[
        list[float] | None, typer.Option(help="MHz of all units, cores too; again for each.", metavar="MHZ")
    ] = None,
    layers: Count | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Latency and energy of every layer of a network on several accelerators and cores, side by side, over batch sizes and clocks, as
    predicted.

    Accelerators differ in anything: arrays, dataflows, memories, formats of elements. A clock comes with its energy, and main memory keeps its GB/s.

    Example: baco profile -n mobilenet_v2 -u gemmini-default -u gemmini-default,dataflow=OS -u host --batch 1 --batch 4 --clock 500 --clock 1000 -o profile

    Args:
        layers (N): Run repeated blocks only so many times.
        out (-o, FOLDER): Write profile.html, profile.csv and profile.json.
    """
    from baco.api.systems import profile_layers
    from baco.common.text import one_line
    from baco.display.console import print_json, stdout, table
    from baco.exploration.systems.layer_profile_page import layer_rows, totals_rows

    made = profile_layers(network, unit, batches=batch or (), clocks=clock or (), layers=layers)
    paths = [] if out is None else made.write(out)
    if json:
        print_json(made.record())
        return
    console = stdout()
    same = {(row.batch, row.clock_mhz, row.elements) for row in made.rows}
    if len(same) == 1:
        heads, cells = layer_rows(made.rows)
        console.print(table(heads, cells, left=("layer", "fastest")))
    heads, cells = totals_rows(made.totals)
    console.print(table(heads, cells, left=("unit", "elements")))
    for path in paths:
        console.print(one_line(str(path)), highlight=False, soft_wrap=True)
