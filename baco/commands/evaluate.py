"""`baco evaluate`: predict the cost of given mappings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from baco.cli.compile_options import Timing

if TYPE_CHECKING:
    from baco.exploration.cost.evaluate import Statistics
    from baco.exploration.cost.tiled_rows import TiledStatistics


def evaluate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.csv[.gz]", help="Mappings in the published column format.")
    ],
    out: Path,
    cost_model: str = "reference",
    timing: Timing = None,
    machine: str | None = None,
    json: bool = False,
) -> None:
    """Predict cycles, energy and EDP of mappings; compare with the target columns where there are any.

    Adds predicted.cycle (cycles), predicted.energy (µJ) and predicted.edp (J·cycles, as target.edp); with --machine
    predicted.cycle alone, and for chained products the bits moved between memory, buffer and registers.

    Args:
        out (OUT.csv): The same rows with predicted.* columns added.
        cost_model (NAME): reference (the published model) or instruction (cycles and traffic of programs on gemmini-default
            with the array and the capacities of each row).
        machine (FILE|NAME): Rows are products, or two chained products, in given tiles; predict their cycles on this machine:
            a file (YAML), or one that comes with baco (tileflow-16).
        json: Print the error statistics as JSON.
    """
    from baco.api.simulation import evaluate as evaluate_table
    from baco.api.simulation import evaluate_tiles
    from baco.common.errors import InputError
    from baco.display.console import print_json, stdout

    for option, given in (("--timing", timing is not None), ("--cost-model", cost_model != "reference")):
        if machine is not None and given:
            raise InputError(f"--machine and {option} exclude each other")
    if machine is None:
        statistics: Statistics | TiledStatistics = evaluate_table(
            file, out, cost_model=cost_model, timing=timing
        )
    else:
        statistics = evaluate_tiles(file, out, machine)
    if json:
        print_json(statistics.to_dict())
    else:
        stdout().print(statistics.text())
