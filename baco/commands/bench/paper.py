"""`baco bench paper`: the published evaluation with our own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.checked import Count
from baco.cli.engine_options import JobOptions
from baco.cli.experiments import say


def paper(
    engine: JobOptions,
    only: list[str] | None = None,
    quick: bool = False,
    network: list[str] | None = None,
    cost_model: list[str] | None = None,
    measure: list[str] | None = None,
    study: list[Path] | None = None,
    dataset: Annotated[
        str, typer.Option("--set", help="Measured set of the accuracy part: a name or a file.")
    ] = "test",
    per_kind: Count | None = None,
    free_cases: Count = 6,
    out: Path = Path("baco-paper"),
    json: bool = False,
) -> None:
    """Single operators, networks, DOSA at its own protocol, ablation, search efficiency and accuracy, beside the published.

    Every row says whether it is predicted or measured. Finished pieces are kept in the output folder: an interrupted
    run goes on where it was.

    Args:
        only: operators, networks, descent, ablation, efficiency, accuracy; repeatable; all by default.
        quick: Few shapes, two networks, short searches: a look in minutes.
        network (-n): Of the network, descent and efficiency parts; the published six by default.
        cost_model: What predicts latencies of networks: reference, instruction; both by default.
        measure (NETWORK): Also measure this network's designs on the RTL; repeatable.
        study (DIR): A validated study whose measured designs join the network table.
        per_kind: Operators of each kind at most; by default the published numbers.
        free_cases: Shapes of each kind searched in the space without bounds.
        out: Folder for pages, numbers and figures.
    """
    from baco.bench.paper.run import PARTS, PaperOptions, bench_paper
    from baco.display.console import print_json

    options = PaperOptions(
        parts=tuple(only or PARTS),
        quick=quick,
        networks=tuple(network or ()),
        models=tuple(cost_model or ("reference", "instruction")),  # type: ignore[arg-type]
        dataset=dataset,
        per_kind=per_kind,
        free_cases=free_cases,
        engine=engine.chosen,
        measure=tuple(measure or ()),
        studies=tuple(study or ()),
    )
    result = bench_paper(out, options, say)
    if json:
        print_json(result)
