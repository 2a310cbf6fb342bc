"""`baco bench paper`: the published evaluation with our own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.engine_options import JobOptions


def paper(
    engine: JobOptions,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="operators, networks, descent, ablation, efficiency, accuracy; repeatable; all by default.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few shapes, two networks, short searches: a look in minutes.")
    ] = False,
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network",
            "-n",
            help="Of the network, descent and efficiency parts; the published six by default.",
        ),
    ] = None,
    cost_model: Annotated[
        list[str] | None,
        typer.Option(
            "--cost-model",
            help="What predicts latencies of networks: reference, instruction; both by default.",
        ),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure", metavar="NETWORK", help="Also measure this network's designs on the RTL; repeatable."
        ),
    ] = None,
    study: Annotated[
        list[Path] | None,
        typer.Option(
            "--study", metavar="DIR", help="A validated study whose measured designs join the network table."
        ),
    ] = None,
    dataset: Annotated[
        str, typer.Option("--set", help="Measured set of the accuracy part: a name or a file.")
    ] = "test",
    per_kind: Annotated[
        int | None,
        typer.Option(
            "--per-kind", min=1, help="Operators of each kind at most; by default the published numbers."
        ),
    ] = None,
    free_cases: Annotated[
        int,
        typer.Option("--free-cases", min=1, help="Shapes of each kind searched in the space without bounds."),
    ] = 6,
    out: Annotated[Path, typer.Option("--out", help="Folder for pages, numbers and figures.")] = Path(
        "baco-paper"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Single operators, networks, DOSA at its own protocol, ablation, search efficiency and accuracy, beside the published.

    Every row says whether it is predicted or measured. Finished pieces are kept in the output folder: an interrupted
    run goes on where it was.
    """
    from baco.bench.paper.run import PARTS, PaperOptions, bench_paper
    from baco.display.console import print_json, stderr

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
    result = bench_paper(out, options, lambda line: stderr().print(line))
    if json:
        print_json(result)
