"""`baco bench`: searches, who carries them out, and what they find."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from baco.cli.checked import Count, Seed
from baco.cli.engine_options import JobOptions, WorkerOptions
from baco.cli.experiments import print_values, say, show


def search(
    engine: JobOptions,
    network: list[str] | None = None,
    space: list[str] | None = None,
    searcher: Annotated[
        list[str] | None, typer.Option("--search", help="Searchers to compare; repeatable; all by default.")
    ] = None,
    samples: Count = 5000,
    seeds: Annotated[int, typer.Option(min=1, max=1000)] = 5,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """Best EDP against samples and against seconds, for each searcher, at an equal budget.

    Finished runs are kept in the output folder and not repeated: an interrupted benchmark goes on where it was.

    Args:
        network (-n): Repeatable; by default the five networks of the published comparison.
        space: Repeatable; by default gemmini and reference.
        samples: Budget of each run in design points.
        seeds: Runs of each, with seeds 0, 1, ...
        out: Folder for curves, tables and figures.
    """
    from baco.bench.search import bench_search
    from baco.display.console import print_json, stdout

    result = bench_search(
        networks=network,
        spaces=space,
        searchers=searcher,
        samples=samples,
        seeds=range(seeds),
        out=out,
        engine=engine.chosen,
        progress=say,
    )
    if json:
        print_json(result.to_dict())
    else:
        stdout().print(result.text())


def executors(
    executor: list[str] | None = None,
    only: list[str] | None = None,
    tasks: Count = 10_000,
    kills: Annotated[int, typer.Option(min=0, max=10_000)] = 50,
    many: Annotated[int, typer.Option(min=1, max=1024)] = 64,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """What executors cost and survive: short tasks, many workers, equal results of searches, kills, recording.

    Finished stages are kept in the output folder's files: those that run replace their own figures only.

    Args:
        executor: local, ray; repeatable; by default both.
        only: short, many, searches, kills, recorded; repeatable; by default all stages.
        tasks: Short tasks that two workers share.
        kills: Of workers and drivers, for each executor.
        many: Workers that sleep: a simulated cluster.
        out: Folder for executors.md and executors.json.
    """
    from baco.bench.executors import EXECUTORS, STAGES, bench_executors, executors_page
    from baco.exploration.executors.executor_choice import ExecutorChoice

    chosen = executor or list(EXECUTORS)
    for name in chosen:
        ExecutorChoice(name)  # raises for others
    result = bench_executors(
        out,
        chosen,
        only or STAGES,
        tasks=tasks,
        kills=kills,
        many=many,
        note=say,
    )
    show(result, executors_page, json)


def importance(
    network: list[str] | None = None,
    cost_model: list[str] | None = None,
    samples: Count = 500,
    seeds: Annotated[int, typer.Option(min=1, max=1000)] = 8,
    out: Path = Path("baco-bench"),
    json: bool = False,
) -> None:
    """The main searcher with effort by importance against the same with even effort, at shares of an equal budget.

    Finished runs are kept in the output folder: an interrupted benchmark goes on where it was.

    Args:
        network (-n): Repeatable; by default four with 20 different layers or more.
        cost_model: reference, instruction; repeatable; both by default.
        samples: Budget of each run in design points.
        seeds: Runs of each, with seeds 0, 1, ...
        out: Folder for importance.md and .json, and finished runs.
    """
    from baco.bench.importance import MODELS, bench_importance, importance_page, to_json
    from baco.display.console import print_json, stdout

    rows = bench_importance(
        network,
        tuple(cost_model or MODELS),
        samples,
        range(seeds),
        out,
        say,
    )
    if json:
        print_json(to_json(rows))
    else:
        stdout().print(importance_page(rows, samples), highlight=False, soft_wrap=True)


def optimality(
    engine: JobOptions,
    network: list[str] | None = None,
    space: str = "gemmini",
    samples: Count = 5000,
    seed: Seed = 0,
    tolerance: Annotated[float, typer.Option(min=0.0, max=1.0)] = 0.005,
    small: bool = True,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Prove how near the optimum of the space the designs found by the main searcher are.

    Args:
        network (-n): Name or layer file (FILE.csv:NAME); repeatable; five by default.
        space: gemmini, reference or a file.
        samples: Budget of each search in design points.
        seed: Of the searches.
        tolerance: How near to the optimum bounds are proven (ratio).
        small: Also try all mappings of some small layers.
        out: Folder for optimality.csv.
    """
    from baco.bench.optimality import bench_optimality

    result = bench_optimality(
        networks=network,
        space=space,
        samples=samples,
        seed=seed,
        tolerance=tolerance,
        small=small,
        out=out,
        engine=engine.chosen,
        note=say,
    )
    if not json:
        for row in [*result.pop("networks"), *result.pop("small_layers")]:
            print_values(row, False)
            say("")
    print_values(result, json)


def loop(
    engine: WorkerOptions,
    network: list[str] | None = None,
    cycles: str = "100M",
    samples: Count = 5000,
    area_limit: float | None = 1.3197,
    seed: Seed = 0,
    out: Path = Path("results"),
    work: Path = Path("baco-out/loop"),
    json: bool = False,
) -> None:
    """Measured searches against searches without measurements, at equal budgets of simulated cycles.

    Args:
        network (-n): Repeatable; by default the four networks of the comparison.
        cycles (CYCLES): Budget of simulated cycles a network.
        samples: Budget of each search.
        area_limit (MM2): Largest area in mm².
        seed: Of the searches.
        out: Folder for measured-loop.md and measured-loop.json.
        work: Folder of the studies and their measurements; resumed when there.
    """
    from baco.bench.measured import NETWORKS, bench_loop, report_text
    from baco.commands.explore import cycles_of
    from baco.display.measured import MeasuredDisplay

    budget = cycles_of(cycles, "--cycles")
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
        say=say,
    )
    show(result, report_text, json)
