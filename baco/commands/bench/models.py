"""`baco bench`: throughput of the cost model, sets that are measured, and predictions against them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from baco.cli.checked import Count, Seed
from baco.cli.compile_options import Accelerator, Timing
from baco.cli.engine_options import EngineOptions, JobOptions
from baco.cli.experiments import print_values, say, show


def model(
    seconds: Annotated[float, typer.Option(min=0.1, max=600.0)] = 3.0,
    device: str = "auto",
    seed: Seed = 0,
    json: bool = False,
) -> None:
    """Evaluations per second of the cost model in float64, random mappings of mixed loop orders.

    Args:
        seconds: Time to spend on each measurement.
        device: cpu, cuda, or auto: both where there is a GPU.
        seed: Of the random mappings.
        json: Print JSON: forward_per_s, gradient_per_s and what was measured.
    """
    from baco.bench.model import bench_model

    print_values(bench_model(seconds=seconds, device=device, seed=seed), json)


def measurements(
    where: EngineOptions,
    which: Annotated[str, typer.Option("--set", help="micro, train, test, packed, packed-test or ranking.")],
    out: Path = Path("baco-measurements"),
    rows: Count | None = None,
    workers: Annotated[int, typer.Option(min=1, max=1024)] = 1,
    store: Path | None = None,
    json: bool = False,
) -> None:
    """Measure a set of random or systematic mappings on the RTL; the sets under results/ were made by this command.

    Finished measurements are kept and not repeated: an interrupted collection goes on where it was.

    Args:
        out: Folder for SET.csv.gz and accelerators.yaml.
        rows: Only the first rows of the set.
        workers: Simulations at the same time.
        store: File of finished measurements; by default in the cache of simulators.
        json: Print the number of rows by status as JSON.
    """
    from baco.bench.sets.accelerators import SETS
    from baco.bench.sets.collect import collect
    from baco.common.errors import InputError, did_you_mean

    name = next((one for one in SETS if one == which), None)
    if name is None:
        raise InputError(f"there is no measured set '{which}'", hint=did_you_mean(which, SETS))
    found = collect(
        name,
        rows=rows,
        out=out,
        engine=where.engine(workers),
        store=store,
        say=say,
    )
    counts: dict[str, Any] = {"rows": len(found)}
    for row in found:
        counts[row.status] = counts.get(row.status, 0) + 1
    print_values(counts, json)


def timing(
    engine: JobOptions,
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="With random.csv, micro.csv and programs.tar.gz, as measured."),
    ],
    accelerator: Accelerator = "gemmini-default",
    timing: Timing = "gemmini",
    seeds: Annotated[
        int,
        typer.Option(
            "--cross-validate",
            min=0,
            max=1000,
            metavar="SEEDS",
            help="Fit the analytical model's constants on the programs of half of the layers, judge it by the others; so often.",
        ),
    ] = 0,
    worst: Annotated[int, typer.Option(min=0)] = 10,
    json: bool = False,
) -> None:
    """Cycles of programs by --timing against those measured on the original Gemmini's RTL.

    Args:
        worst: How many of the worst programs to list.
    """
    from baco.api.sources import accelerator as find
    from baco.api.sources import with_timing
    from baco.bench.fit.original import cross_validate, cross_validation_text
    from baco.bench.timing import bench_timing
    from baco.display.console import print_json, stderr, stdout

    machine = find(accelerator)
    result = bench_timing(
        folder, machine, timing=timing or machine.timing, engine=engine.chosen, report=stderr().print
    )
    validated = cross_validate(result.programs, with_timing(machine, "gemmini"), seeds=seeds)
    if json:
        more = {"cross_validated": [one.to_dict()["predicted"] for one in validated]} if validated else {}
        print_json(result.to_dict() | more)
    else:
        stdout().print(result.text(worst))
        if validated:
            stdout().print(cross_validation_text(validated))


def latency(
    which: Annotated[str, typer.Option("--set", help="Measured set (test, train, micro) or file.")] = "test",
    seconds: Annotated[float, typer.Option(min=0.0, max=600.0)] = 2.0,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Cycles that the latency models predict against those measured on the RTL: rank correlation, errors, bias.

    Args:
        seconds: Time to spend on each measurement of speed.
        out: Folder for latency-model.md and latency-model.json.
    """
    from baco.bench.latency import bench_latency, report_text, write_report

    result = bench_latency(which, seconds)
    if out is not None:
        write_report(result, out)
    show(result, report_text, json)
