"""`baco bench`: programs found by search and by tuning, and the default tilings that they are to beat."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.compile_options import Accelerator
from baco.commands.bench.shown import check_names, show

_Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="GEMM, GEMV, Conv1D, Conv2D; repeatable; by default all."),
]


def sketches(
    kind: _Kinds = None,
    accelerator: Accelerator = "gemmini-default",
    every: Annotated[int, typer.Option("--every", min=1, help="Take every so-manieth operator.")] = 1,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Evaluations of each search.")] = 500,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Searches of each, with seeds 0, 1, ...")
    ] = 3,
    compare: Annotated[
        int,
        typer.Option(
            "--compare",
            min=0,
            help="Compare ways to search on every so-manieth of the operators; 0: on none.",
        ),
    ] = 6,
    measure: Annotated[
        int, typer.Option("--measure", min=0, help="Operators of each kind that run on the RTL.")
    ] = 8,
    limit: Annotated[
        float, typer.Option("--limit", min=1, metavar="CYCLES", help="Predicted cycles of these, at most.")
    ] = 300_000,
    out: Annotated[Path, typer.Option("--out", help="Folder for sketches.md and sketches.json.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Programs found by sketches and evolution for the published operators, against the compiler's choice and default tilings."""
    from dataclasses import asdict

    from baco.bench.paper.shapes import KINDS
    from baco.bench.programs.sketches import bench_sketches, sketches_page
    from baco.display.console import stderr

    check_names(kind, KINDS, "kind", "kind of operator")
    console = stderr()
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
        say=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    show(asdict(result), lambda _: sketches_page(result), json, page=True)


def defaults(
    kind: _Kinds = None,
    accelerator: Accelerator = "gemmini-default",
    limit: Annotated[
        float,
        typer.Option(
            "--limit",
            min=1,
            metavar="CYCLES",
            help="On the RTL: predicted cycles of the compiler's choice, at most.",
        ),
    ] = 600_000,
    timed: Annotated[
        float,
        typer.Option(
            "--timed",
            min=0,
            metavar="CYCLES",
            help="By the timed model of the accelerator: longer ones, up to so many predicted cycles; 0: none.",
        ),
    ] = 20_000_000,
    every: Annotated[int, typer.Option("--every", min=1, help="Take every so-manieth operator.")] = 1,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="File of finished measurements; by default in the cache of simulators."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for defaults.md and defaults.json.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """The compiler's choice against Gemmini's default tilings, for the published operators: on the RTL, long ones by its timed model.

    Finished measurements are kept and not repeated: an interrupted benchmark goes on where it was.
    """
    from dataclasses import asdict

    from baco.bench.paper.shapes import KINDS
    from baco.bench.programs.defaults import bench_defaults, defaults_page
    from baco.display.console import stderr

    check_names(kind, KINDS, "kind", "kind of operator")
    console = stderr()
    result = bench_defaults(
        accelerator=accelerator,
        kinds=kind or KINDS,
        limit=limit,
        timed=timed,
        every=every,
        store=store,
        out=out,
        say=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    show(asdict(result), lambda _: defaults_page(result), json, page=True)


def directions(
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Searches of each, with seeds 0, 1, ...")
    ] = 10,
    out: Annotated[Path, typer.Option("--out", help="Folder for directions.md and directions.json.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Schedules by directions: evaluations that Q-learning needs, against all directions and random ones."""
    from baco.bench.directions import bench_directions, directions_page
    from baco.display.console import stderr

    console = stderr()
    result = bench_directions(
        seeds=seeds, out=out, watch=lambda line: console.print(line, highlight=False, soft_wrap=True)
    )
    show(result, directions_page, json, page=True)


def guided(
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Runs of each, with seeds 0, 1, ...")
    ] = 5,
    out: Annotated[Path, typer.Option("--out", help="Folder for guided.md and guided.json.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Tuning with few measurements: how near the fastest schedule each method is after 1 to 50 trials, on a measured set."""
    from baco.bench.learned.guided import bench_guided, guided_page
    from baco.bench.learned.measured_set import measured_set
    from baco.bench.sets.dataset import read_dataset
    from baco.display.console import stderr

    console = stderr()
    result = bench_guided(
        measured_set(read_dataset("ranking")),
        seeds=seeds,
        out=out,
        watch=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    show(result, guided_page, json, page=True)
