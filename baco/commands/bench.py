"""`baco bench`: throughput of the cost model, search-efficiency curves, and the RTL with its simulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from baco.cli.checked import CommandGroup, seed_option
from baco.cli.compile_options import Accelerator, Timing
from baco.cli.engine_options import EngineOptions, JobOptions, WorkerOptions
from baco.commands.bench_paper import paper
from baco.commands.root import show_help_if_alone

bench = CommandGroup()


@bench.callback(invoke_without_command=True)
def group(context: typer.Context) -> None:
    """Measure the cost model, the searchers and the simulation on this machine."""
    show_help_if_alone(context)


@bench.command("model")
def model(
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=600.0, help="Time to spend on each measurement.")
    ] = 3.0,
    device: Annotated[
        str, typer.Option("--device", help="cpu, cuda, or auto: both where there is a GPU.")
    ] = "auto",
    seed: Annotated[int, seed_option("Of the random mappings.")] = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON: forward_per_s, gradient_per_s and what was measured.")
    ] = False,
) -> None:
    """Evaluations per second of the cost model in float64, random mappings of mixed loop orders."""
    from bench.model import bench_model

    _print(bench_model(seconds=seconds, device=device, seed=seed), json)


bench.command("paper")(paper)


@bench.command("search")
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
    from baco.display.console import print_json, stderr, stdout
    from bench.search import bench_search

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


@bench.command("executors")
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
    from baco.display.console import stderr
    from bench.executors import EXECUTORS, STAGES, bench_executors, executors_page
    from explore.executors.engine import ExecutorChoice

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
    _show(result, executors_page, json)


@bench.command("importance")
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
    from baco.display.console import print_json, stderr, stdout
    from bench.importance import MODELS, bench_importance, importance_page, to_json

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


@bench.command("optimality")
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
    from baco.display.console import stderr
    from bench.optimality import bench_optimality

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
            _print(row, False)
            console.print("")
    _print(result, json)


@bench.command("rtl")
def rtl(
    dim: Annotated[
        list[int] | None, typer.Option("--dim", help="Side of the array; repeatable; by default 16 and 32.")
    ] = None,
    build: Annotated[
        bool, typer.Option("--build/--no-build", help="Build the simulators anew and time that.")
    ] = True,
    facts: Annotated[
        bool, typer.Option("--facts/--no-facts", help="Also measure single timing facts (at dim 16).")
    ] = True,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for rtl-timing.md and rtl-bench.json.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Simulation speed, use of the array, build time, and how the RTL's timing compares with the original's."""
    from baco.display.console import stderr
    from bench.rtl.rtl import DIMS, bench_rtl, report_text, write_report

    console = stderr()
    result = bench_rtl(dim or DIMS, build=build, facts=facts, progress=lambda line: console.print(line))
    if out is not None:
        write_report(result, out)
    _show(result, report_text, json)


@bench.command("compiler")
def compiler(
    accelerator: Annotated[
        str, typer.Option("--accelerator", "-a", help="Preset or YAML file.")
    ] = "gemmini-default",
    layers: Annotated[
        list[str] | None, typer.Option("--set", help="resnet50, gemm; repeatable; by default both.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", help="Layers whose name contains this text.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for compiler-quality.md and compiler-quality.json.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Cycles of compiled layers on the RTL, against a bound and against Gemmini's default tiling."""
    from accel.presets import load_accelerator
    from baco.display.console import stderr
    from bench.compiler import bench_compiler, report_text, write_report

    console = stderr()
    result = bench_compiler(
        load_accelerator(accelerator),
        tuple(layers or ("resnet50", "gemm")),
        only=only,
        progress=lambda line: console.print(line),
    )
    if out is not None:
        write_report(result, out)
    _show(result, report_text, json)


@bench.command("programs")
def programs(
    network: Annotated[
        list[str] | None, typer.Option("--network", "-n", help="Repeatable; by default five networks.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="Budget of each search in design points.")
    ] = 2000,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Searches of each, with seeds 0, 1, ...")
    ] = 3,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for whole-programs.md and .json, studies and finished runs.")
    ] = Path("baco-bench"),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Whole programs on the RTL: the best designs in the area of gemmini-default against that machine and its tiling.

    Finished searches and runs are kept in the output folder: an interrupted benchmark goes on where it was.
    """
    from baco.display.console import print_json, stdout
    from baco.display.validation import make_display
    from bench.whole_programs import NETWORKS, whole_programs, whole_programs_table

    rows = whole_programs(network or NETWORKS, samples=samples, seeds=seeds, out=out, progress=make_display())
    if json:
        print_json(rows)
    else:
        stdout().print(whole_programs_table(rows))


@bench.command("fusion")
def fusion(
    network: Annotated[
        list[str] | None, typer.Option("--network", "-n", help="Repeatable; by default four networks.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, help="Budget of each search in design points.")
    ] = 2000,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Searches of each, with seeds 0, 1, ...")
    ] = 3,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for fusion.md and .json, studies and finished runs.")
    ] = Path("baco-bench"),
    area: Annotated[
        list[float] | None,
        typer.Option(
            "--area",
            metavar="MM2",
            min=0.01,
            help="Limit; repeatable; by default the area of gemmini-default.",
        ),
    ] = None,
    buffers: Annotated[
        bool,
        typer.Option(
            "--buffers",
            help="Instead, by prediction alone: where fusion pays and why not, by the size of scratchpad and accumulator.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Searches with groups of operators and without, within the same area: their best designs on the RTL.

    Finished searches and runs are kept in the output folder: an interrupted benchmark goes on where it was.
    """
    from baco.display.console import print_json, stderr, stdout
    from baco.display.validation import make_display
    from bench.fusion import FUSION_NETWORKS, fusion_table
    from bench.fusion import fusion as run_fusion

    if buffers:
        from bench.buffers import buffers as run_buffers
        from bench.buffers import buffers_table

        console = stderr()
        found = run_buffers(
            network or FUSION_NETWORKS, out=out, watch=lambda line: console.print(line, highlight=False)
        )
        _show(found, buffers_table, json, page=True)
        return
    rows = run_fusion(
        network or FUSION_NETWORKS,
        samples=samples,
        seeds=seeds,
        out=out,
        areas=area or (),
        progress=make_display(),
    )
    if json:
        print_json(rows)
    else:
        stdout().print(fusion_table(rows))


@bench.command("chains")
def chains(
    chain: Annotated[
        list[str] | None, typer.Option("--chain", help="Repeatable: G1 to G12, C1 to C8; by default all.")
    ] = None,
    accelerator: Annotated[
        str, typer.Option("--accelerator", "-a", metavar="NAME", help="Machine that they run on.")
    ] = "gemmini-default",
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=100, help="Weights and inputs of each.")] = 1,
    out: Annotated[Path, typer.Option("--out", help="Folder for chains.md and chains.json.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Chains of two products or convolutions as one unit and one by one on the RTL: cycles and bytes, measured and predicted."""
    from baco.display.console import stderr
    from bench.chains import CONVOLUTION_CHAINS, PRODUCT_CHAINS, chains_page
    from bench.chains import chains as run_chains

    known = [*PRODUCT_CHAINS, *CONVOLUTION_CHAINS]
    for name in chain or ():
        if name not in known:
            from common.errors import InputError, Location, did_you_mean

            raise InputError(
                f"there is no chain '{name}'", location=Location("--chain"), hint=did_you_mean(name, known)
            )
    console = stderr()
    rows = run_chains(
        chain or known,
        machine=accelerator,
        seeds=seeds,
        out=out,
        watch=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    _show(rows, chains_page, json, page=True)


@bench.command("kernels")
def kernels(
    accelerator: Annotated[
        str, typer.Option("--accelerator", "-a", metavar="NAME", help="Machine that they run on.")
    ] = "gemmini-default",
    out: Annotated[Path, typer.Option("--out", help="Folder for kernels.md and kernels.json.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Products and attention in the block language on the RTL: against the layer path, the time of their products alone, and
    the same block by block."""
    from baco.display.console import stderr
    from bench.kernels import kernels as run_kernels
    from bench.kernels import kernels_page

    console = stderr()
    rows = run_kernels(
        machine=accelerator,
        out=out,
        watch=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    _show(rows, kernels_page, json, page=True)


@bench.command("trees")
def trees(
    chain: Annotated[
        list[str] | None, typer.Option("--chain", help="Repeatable, as of `baco fuse`; by default nine.")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Generations of each search.")] = 8,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Searches of each, with seeds 0, 1, ...")
    ] = 3,
    out: Annotated[Path, typer.Option("--out", help="Folder for trees.md and trees.json.")] = Path(
        "baco-bench"
    ),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Fused dataflows of chains of operators on the Edge and Cloud machines: published ones and searched tile trees."""
    from baco.display.console import stderr
    from bench.trees import TREE_CHAINS, trees_page
    from bench.trees import trees as run_trees

    console = stderr()
    rows = run_trees(
        chain or list(TREE_CHAINS),
        rounds=rounds,
        seeds=seeds,
        out=out,
        watch=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    _show(rows, trees_page, json, page=True)


@bench.command("sketches")
def sketches(
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="GEMM, GEMV, Conv1D, Conv2D; repeatable; by default all."),
    ] = None,
    accelerator: Annotated[
        str, typer.Option("--accelerator", "-a", metavar="NAME", help="Machine that they run on.")
    ] = "gemmini-default",
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

    from baco.display.console import print_json, stderr, stdout
    from bench.paper.shapes import KINDS
    from bench.programs.sketches import bench_sketches, sketches_page

    for name in kind or ():
        if name not in KINDS:
            from common.errors import InputError, Location, did_you_mean

            raise InputError(
                f"there is no kind of operator '{name}'",
                location=Location("--kind"),
                hint=did_you_mean(name, KINDS),
            )
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
    if json:
        print_json(asdict(result))
    else:
        stdout().print(sketches_page(result), highlight=False, soft_wrap=True)


@bench.command("measurements")
def measurements(
    where: EngineOptions,
    which: Annotated[str, typer.Option("--set", help="micro, train, test, packed, packed-test or ranking.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for SET.csv.gz and accelerators.yaml.")] = Path(
        "baco-measurements"
    ),
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="Only the first rows of the set.")] = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=1024, help="Simulations at the same time.")
    ] = 1,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="File of finished measurements; by default in the cache of simulators."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the number of rows by status as JSON.")] = False,
) -> None:
    """Measure a set of random or systematic mappings on the RTL; the sets under results/ were made by this command.

    Finished measurements are kept and not repeated: an interrupted collection goes on where it was.
    """
    from baco.display.console import stderr
    from bench.sets.accelerators import SETS
    from bench.sets.collect import collect
    from common.errors import InputError, did_you_mean

    name = next((one for one in SETS if one == which), None)
    if name is None:
        raise InputError(f"there is no measured set '{which}'", hint=did_you_mean(which, SETS))
    console = stderr()
    found = collect(
        name,
        rows=rows,
        out=out,
        engine=where.engine(workers),
        store=store,
        say=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    counts: dict[str, Any] = {"rows": len(found)}
    for row in found:
        counts[row.status] = counts.get(row.status, 0) + 1
    _print(counts, json)


@bench.command("timing")
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
    worst: Annotated[
        int, typer.Option("--worst", min=0, help="How many of the worst programs to list.")
    ] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Cycles of programs by --timing against those measured on the original Gemmini's RTL."""
    from baco.api.sources import accelerator as find
    from baco.api.sources import with_timing
    from baco.display.console import print_json, stderr, stdout
    from bench.fit.original import cross_validate, cross_validation_text
    from bench.timing import bench_timing

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


@bench.command("latency")
def latency(
    which: Annotated[str, typer.Option("--set", help="Measured set (test, train, micro) or file.")] = "test",
    seconds: Annotated[
        float,
        typer.Option("--seconds", min=0.0, max=600.0, help="Time to spend on each measurement of speed."),
    ] = 2.0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for latency-model.md and latency-model.json.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Cycles that the latency models predict against those measured on the RTL: rank correlation, errors, bias."""
    from bench.latency import bench_latency, report_text, write_report

    result = bench_latency(which, seconds)
    if out is not None:
        write_report(result, out)
    _show(result, report_text, json)


@bench.command("loop")
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
    from baco.commands.explore import cycles_of
    from baco.display.console import stderr
    from baco.display.measured import MeasuredDisplay
    from bench.measured import NETWORKS, bench_loop, report_text

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
    _show(result, report_text, json)


def _show(result: Any, text: Callable[[Any], str], as_json: bool, *, page: bool = False) -> None:
    """A result as JSON, or as the text that its bench makes of it; a page in Markdown is printed line for line as it is."""
    from baco.display.console import print_json, stdout

    if as_json:
        print_json(result)
    else:
        stdout().print(text(result), highlight=False if page else None, soft_wrap=page or None)


def _print(result: dict[str, Any], as_json: bool) -> None:
    from baco.display.console import print_json, stdout

    if as_json:
        print_json(result)
        return
    for name, value in result.items():
        text = f"{value:,.6g}" if isinstance(value, float) else str(value)
        stdout().print(f"{name}: {text}")
