"""`baco bench`: searches, who carries them out, and what they find."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.checked import seed_option
from baco.cli.engine_options import JobOptions, WorkerOptions
from baco.commands.bench.shown import print_values, show


def search(
    engine: JobOptions,
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network", "-n", help="Repeatable; by default the five networks of the published comparison."
        ),
    ] = None,
    space: Annotated[
        list[str] | None, typer.Option("--space", help="Repeatable; by default gemmini and reference.")
    ] = None,
    searcher: Annotated[
        list[str] | None, typer.Option("--search", help="Searchers to compare; repeatable; all by default.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="Budget of each run in design points.")
    ] = 5000,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Runs of each, with seeds 0, 1, ...")
    ] = 5,
    out: Annotated[Path, typer.Option("--out", help="Folder for curves, tables and figures.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Best EDP against samples and against seconds, for each searcher, at an equal budget.

    Finished runs are kept in the output folder and not repeated: an interrupted benchmark goes on where it was.
    """
    from baco.bench.search import bench_search
    from baco.display.console import print_json, stderr, stdout

    result = bench_search(
        networks=network,
        spaces=space,
        searchers=searcher,
        samples=samples,
        seeds=range(seeds),
        out=out,
        engine=engine.chosen,
        progress=lambda line: stderr().print(line),
    )
    if json:
        print_json(result.to_dict())
    else:
        stdout().print(result.text())


def executors(
    executor: Annotated[
        list[str] | None, typer.Option("--executor", help="local, ray; repeatable; by default both.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", help="short, many, searches, kills, recorded; repeatable; by default all stages."
        ),
    ] = None,
    tasks: Annotated[
        int, typer.Option("--tasks", min=1, help="Short tasks that two workers share.")
    ] = 10_000,
    kills: Annotated[
        int, typer.Option("--kills", min=0, max=10_000, help="Of workers and drivers, for each executor.")
    ] = 50,
    many: Annotated[
        int, typer.Option("--many", min=1, max=1024, help="Workers that sleep: a simulated cluster.")
    ] = 64,
    out: Annotated[Path, typer.Option("--out", help="Folder for executors.md and executors.json.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """What executors cost and survive: short tasks, many workers, equal results of searches, kills, recording.

    Finished stages are kept in the output folder's files: those that run replace their own figures only.
    """
    from baco.bench.executors import EXECUTORS, STAGES, bench_executors, executors_page
    from baco.display.console import stderr
    from baco.exploration.executors.engine import ExecutorChoice

    chosen = executor or list(EXECUTORS)
    for name in chosen:
        ExecutorChoice(name)  # raises for others
    console = stderr()
    result = bench_executors(
        out,
        chosen,
        only or STAGES,
        tasks=tasks,
        kills=kills,
        many=many,
        note=lambda line: console.print(line),
    )
    show(result, executors_page, json)


def importance(
    network: Annotated[
        list[str] | None,
        typer.Option("--network", "-n", help="Repeatable; by default four with 20 different layers or more."),
    ] = None,
    cost_model: Annotated[
        list[str] | None,
        typer.Option("--cost-model", help="reference, instruction; repeatable; both by default."),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="Budget of each run in design points.")
    ] = 500,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Runs of each, with seeds 0, 1, ...")
    ] = 8,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for importance.md and .json, and finished runs.")
    ] = Path("baco-bench"),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """The main searcher with effort by importance against the same with even effort, at shares of an equal budget.

    Finished runs are kept in the output folder: an interrupted benchmark goes on where it was.
    """
    from baco.bench.importance import MODELS, bench_importance, importance_page, to_json
    from baco.display.console import print_json, stderr, stdout

    console = stderr()
    rows = bench_importance(
        network,
        tuple(cost_model or MODELS),
        samples,
        range(seeds),
        out,
        lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    if json:
        print_json(to_json(rows))
    else:
        stdout().print(importance_page(rows, samples), highlight=False, soft_wrap=True)


def optimality(
    engine: JobOptions,
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network", "-n", help="Name or layer file (FILE.csv:NAME); repeatable; five by default."
        ),
    ] = None,
    space: Annotated[str, typer.Option("--space", help="gemmini, reference or a file.")] = "gemmini",
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="Budget of each search in design points.")
    ] = 5000,
    seed: Annotated[int, seed_option("Of the searches.")] = 0,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance", min=0.0, max=1.0, help="How near to the optimum bounds are proven (ratio)."
        ),
    ] = 0.005,
    small: Annotated[
        bool, typer.Option("--small/--no-small", help="Also try all mappings of some small layers.")
    ] = True,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for optimality.csv.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Prove how near the optimum of the space the designs found by the main searcher are."""
    from baco.bench.optimality import bench_optimality
    from baco.display.console import stderr

    console = stderr()
    result = bench_optimality(
        networks=network,
        space=space,
        samples=samples,
        seed=seed,
        tolerance=tolerance,
        small=small,
        out=out,
        engine=engine.chosen,
        note=lambda text: console.print(text),
    )
    if not json:
        for row in [*result.pop("networks"), *result.pop("small_layers")]:
            print_values(row, False)
            console.print("")
    print_values(result, json)


def loop(
    engine: WorkerOptions,
    network: Annotated[
        list[str] | None,
        typer.Option("--network", "-n", help="Repeatable; by default the four networks of the comparison."),
    ] = None,
    cycles: Annotated[
        str, typer.Option("--cycles", metavar="CYCLES", help="Budget of simulated cycles a network.")
    ] = "100M",
    samples: Annotated[int, typer.Option("--samples", min=1, help="Budget of each search.")] = 5000,
    area_limit: Annotated[
        float | None, typer.Option("--area-limit", metavar="MM2", help="Largest area in mm².")
    ] = 1.3197,
    seed: Annotated[int, seed_option("Of the searches.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for measured-loop.md and measured-loop.json.")
    ] = Path("results"),
    work: Annotated[
        Path, typer.Option("--work", help="Folder of the studies and their measurements; resumed when there.")
    ] = Path("baco-out/loop"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measured searches against searches without measurements, at equal budgets of simulated cycles."""
    from baco.bench.measured import NETWORKS, bench_loop, report_text
    from baco.commands.explore import cycles_of
    from baco.display.console import stderr
    from baco.display.measured import MeasuredDisplay

    budget = cycles_of(cycles, "--cycles")
    console = stderr()
    result = bench_loop(
        network or NETWORKS,
        budget,
        samples=samples,
        area_limit=area_limit,
        seed=seed,
        out=out,
        work=work,
        engine=engine.chosen,
        watch=lambda _: MeasuredDisplay(budget),
        say=lambda line: console.print(line),
    )
    show(result, report_text, json)
