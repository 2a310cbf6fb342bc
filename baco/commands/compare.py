"""`baco compare`: several studies side by side."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of studies (the --out of explore), or their files."),
    ],
    json: bool = False,
) -> None:
    """Compare the best designs of several studies.

    The last column is the objective over the least one, among studies of the same networks and objective whose costs
    come from the same source (measured, or predicted by the same model) and are in the same technology.

    Example: baco compare baco-out/resnet50-edp baco-out/resnet50-edp-2

    Args:
        json: Print JSON, a row a study.
    """
    from baco.api.comparison import compare as compare_studies
    from baco.display.console import print_json, stdout

    table = compare_studies(list(folders))
    if json:
        print_json([_plain(row) for row in table.to_dict("records")])
    else:
        stdout().print(_rendered(table))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _rendered(found: pd.DataFrame) -> Any:
    from baco.display.console import amount, table

    left = ("study", "networks", "objective", "cost model", "costs are", "technology")
    numbers = ("samples", "array", "KiB", "cycles", "ms", "µJ", "EDP, J·s", "mm²", "objective / least")
    rows = (
        (
            *(row.study, row.networks, row.objective, row.cost_model, row.source, row.technology),
            f"{row.samples:,.0f}",
            f"{row.dim}x{row.dim}",
            f"{row.scratchpad_kib}+{row.accumulator_kib}",
            amount(row.latency_cycles),
            f"{row.latency_ms:.4g}",
            amount(row.energy_uj),
            f"{row.edp_js:.4g}",
            f"{row.area_mm2:.4g}",
            f"{row.ratio:.3f}",
        )
        for row in found.itertuples()
    )
    return table((*left, *numbers), rows, left=left)
