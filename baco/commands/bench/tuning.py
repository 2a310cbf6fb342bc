"""`baco bench`: programs found by search and by tuning, and the default tilings that they are to beat."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.checked import Count
from baco.cli.compile_options import Accelerator
from baco.cli.experiments import check_names, experiment, say, show

_Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="GEMM, GEMV, Conv1D, Conv2D; repeatable; by default all."),
]


def sketches(
    kind: _Kinds = None,
    accelerator: Accelerator = "gemmini-default",
    every: Count = 1,
    budget: Count = 500,
    seeds: Annotated[int, typer.Option(min=1, max=1000)] = 3,
    compare: Annotated[int, typer.Option(min=0)] = 6,
    measure: Annotated[int, typer.Option(min=0)] = 8,
    limit: Annotated[float, typer.Option(min=1)] = 300_000,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Programs found by sketches and evolution for the published operators, against the compiler's choice and default tilings.

    Args:
        every: Take every so-manieth operator.
        budget: Evaluations of each search.
        seeds: Searches of each, with seeds 0, 1, ...
        compare: Compare ways to search on every so-manieth of the operators; 0: on none.
        measure: Operators of each kind that run on the RTL.
        limit (CYCLES): Predicted cycles of these, at most.
        out: Folder for sketches.md and sketches.json.
    """
    from dataclasses import asdict

    from baco.bench.paper.shapes import KINDS
    from baco.bench.programs.sketches import bench_sketches, sketches_page

    check_names(kind, KINDS, "kind", "kind of operator")
    result = bench_sketches(
        accelerator=accelerator,
        kinds=kind or KINDS,
        every=every,
        budget=budget,
        seeds=seeds,
        compare=compare,
        measure=measure,
        limit=limit,
        out=out,
        say=say,
    )
    show(asdict(result), lambda _: sketches_page(result), json, page=True)


def defaults(
    kind: _Kinds = None,
    accelerator: Accelerator = "gemmini-default",
    limit: Annotated[float, typer.Option(min=1)] = 600_000,
    timed: Annotated[float, typer.Option(min=0)] = 20_000_000,
    every: Count = 1,
    store: Path | None = None,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """The compiler's choice against Gemmini's default tilings, for the published operators: on the RTL, long ones by its timed model.

    Finished measurements are kept and not repeated: an interrupted benchmark goes on where it was.

    Args:
        limit (CYCLES): On the RTL: predicted cycles of the compiler's choice, at most.
        timed (CYCLES): By the timed model of the accelerator: longer ones, up to so many predicted cycles; 0: none.
        every: Take every so-manieth operator.
        store: File of finished measurements; by default in the cache of simulators.
        out: Folder for defaults.md and defaults.json.
    """
    from dataclasses import asdict

    from baco.bench.paper.shapes import KINDS
    from baco.bench.programs.defaults import bench_defaults, defaults_page

    check_names(kind, KINDS, "kind", "kind of operator")
    result = bench_defaults(
        accelerator=accelerator,
        kinds=kind or KINDS,
        limit=limit,
        timed=timed,
        every=every,
        store=store,
        out=out,
        say=say,
    )
    show(asdict(result), lambda _: defaults_page(result), json, page=True)


def directions(
    seeds: Annotated[int, typer.Option(min=1, max=1000)] = 10,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Schedules by directions: evaluations that Q-learning needs, against all directions and random ones.

    Args:
        seeds: Searches of each, with seeds 0, 1, ...
        out: Folder for directions.md and directions.json.
    """
    from baco.bench.directions import bench_directions, directions_page

    result = bench_directions(seeds=seeds, out=out, watch=say)
    show(result, directions_page, json, page=True)


def guided(
    seeds: Annotated[int, typer.Option(min=1, max=1000)] = 5,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Tuning with few measurements: how near the fastest schedule each method is after 1 to 50 trials, on a measured set.

    Args:
        seeds: Runs of each, with seeds 0, 1, ...
        out: Folder for guided.md and guided.json.
    """
    experiment("learned.guided", locals())
