"""`baco explore`: search the design space for the best accelerators of one or several networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from baco.cli.checked import Seed
from baco.cli.compile_options import Timing
from baco.cli.completions import network_completions
from baco.cli.engine_options import WorkerOptions
from baco.cli.page import OpenPage
from baco.cli.workload_data import Data
from baco.common.errors import only_with

if TYPE_CHECKING:
    from baco.api.preparation import PreparedSearch
    from baco.api.result import Result
    from baco.exploration.report.live import LivePage
    from baco.exploration.space import DesignSpace


def explore(
    context: typer.Context,
    where: WorkerOptions,
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network",
            "-n",
            metavar="NAME|FILE",
            help="A built-in network (see `baco networks`) with options, e.g. bert_base:batch=4; or MODEL.onnx, "
            "CODE.py:FUNCTION, TABLE.csv[:NAME], TABLE.yaml. Repeat it for one accelerator that runs all.",
            autocompletion=network_completions,
        ),
    ] = None,
    kernel: str | None = None,
    shape: str | None = None,
    grid: str | None = None,
    objective: str = "edp",
    space: str = "gemmini",
    search: str = "gradient",
    cost_model: str | None = None,
    timing: Timing = None,
    accelerator_only: bool = False,
    samples: int | None = None,
    time_limit: float | None = None,
    seed: Seed = 0,
    area_limit: float | None = None,
    constraint: list[str] | None = None,
    out: Path | None = None,
    resume: bool = False,
    proof: bool | None = None,
    validate: int = 0,
    validate_time: float | None = None,
    measure: str | None = None,
    baseline: bool = False,
    fusion: bool = True,
    data: Data = None,
    open_page: OpenPage = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Find the best accelerators for a network, and a mapping for each of its layers.

    Example: explore --network resnet50 --objective edp --validate 5

    Args:
        kernel (FILE.py:FUNCTION): Instead of a network: a kernel of the block language that is one tiled product, or
            attention. Block sizes and hardware are searched together.
        shape (NAME=N,...): Arguments of the kernel, e.g. 'M=512,N=512,K=256'.
        grid (N[,N]): Programs of the kernel, e.g. 'cdiv(M, BM), cdiv(N, BN)'; by default what `grid(meta)` in its file
            returns.
        objective: What to minimise: edp, latency, energy, area or edap; a comma list asks for their front.
        space (NAME|FILE): Design space: gemmini, reference, or a YAML file.
        search: Searcher: gradient, local, random, bayesian, genetic, two-loop, evolution, dosa or dosa-published.
        cost_model (NAME): What predicts: instruction (cycles and traffic of the compiled program on the generated hardware;
            the default) or reference (the published analytical model; the default in spaces with reference rules).
        accelerator_only: Minimise the cost of the tensor operators alone, as published results do, instead of the whole
            program's, which has additions, poolings and the operators on the host core.
        samples: Budget in design points (a mapping for each layer); 5000 by default, 20000 with the reference model.
        time_limit (SECONDS): Budget in seconds of search.
        seed: Of all randomness; the same seed, the same result.
        area_limit (MM2): Largest area in mm²; as --constraint area_mm2=MM2.
        constraint (NAME=BOUND): Upper bound: area_mm2, sram_kib, power_mw, latency_cycles or energy_uj. Repeatable.
        out: Folder of the study and the report; by default a new one in baco-out/. While the search runs, progress.html there
            shows how it goes, in any browser, and leads to report.html at the end.
        resume: Continue the study in --out, or start it where there is none yet.
        proof: After searching for the least EDP: prove how near the optimum the best design is, and give the optimum if the
            search missed it. Only with --cost-model reference, and there on by default with the gradient searcher; not
            charged to --samples.
        validate (K): After searching: compile the K best candidates and a few along the front to whole programs, run them on
            their own Verilog, and compare what every operator writes (see `baco validate`). With --kernel: 1, the kernel on
            its best design.
        validate_time (SECONDS): Stop measuring then; what is not finished is estimated.
        measure (CYCLES): After searching: spend so many simulated cycles (e.g. 200M) on measuring layers where that promises
            most, learn from them, and look for better designs with what was learned.
        baseline: With --validate: measure Gemmini's default machine too.
        fusion: Operators of whole programs run as one unit where that is predicted to be better.
        json: Print the summary as JSON on standard output.
        quiet (-q): No progress, no summary; errors only.
    """
    from baco.api.preparation import prepared_search
    from baco.cli.kernel_exploration import kernel_arguments
    from baco.common.numbers import cycles_number
    from baco.display.console import command_of
    from baco.display.progress import waiting

    _check_validation(validate, validate_time, baseline=baseline)
    _ = where.chosen  # what does not go together is said before the search
    if not validate and measure is None:
        only_with(
            "--validate or --measure",
            {"--executor": where.executor != "local", "--address": where.address, "--workers": where.workers},
        )
    budget = None if measure is None else cycles_number(measure, "--measure")
    if kernel is not None:
        _check_kernel_options(measure, validate, baseline=baseline)
    with waiting(f"reading {', '.join(network or []) or kernel or 'the space'}", not quiet):
        made = prepared_search(
            list(network or []),
            **kernel_arguments(kernel, shape, grid),
            objective=objective,
            space=_constrained(space, area_limit, constraint or []),
            samples=samples,
            time_limit=time_limit,
            seed=seed,
            search=search,
            cost_model=cost_model,
            timing=timing,
            proof=proof,
            whole=not accelerator_only,
            fusion=fusion,
            data=data or None,
            out=out,
            resume=resume,
        )
    if budget is not None:
        _check_measured(made)
    with made.with_companion():
        result, live = _searched(made, command_of(context), quiet=quiet)
        later = result.stopped != "interrupted"
        if later and budget is not None:
            _measure(result, budget, where, quiet=quiet)
        if later and validate:
            from baco.api.measure import validate as validate_study

            validate_study(
                result,
                best=validate,
                baseline=baseline,
                fusion=fusion,
                time_limit=validate_time,
                workers=where.workers,
                executor=where.executor,
                address=where.address,
                progress=not quiet,
            )
        with waiting("writing the report", not quiet):
            page = result.save_report()
    live.finish()
    verdict = result.kernel if made.kernel is not None and later else None
    measured = later and made.kernel is None and bool(validate or budget is not None)
    _finish(result, json=json, quiet=quiet, measured=measured)
    if verdict is not None and not quiet and not json:
        from baco.display.console import stdout

        stdout().print(f"kernel: {verdict}", highlight=False, soft_wrap=True)
    if open_page:
        from baco.cli.page import show_page

        show_page(page)


def _check_measured(made: PreparedSearch) -> None:
    """Raises InputError for a search that cannot go on with measurements."""
    from baco.common.errors import InputError, Location
    from baco.exploration.cost.choice import default_cost_model

    if not made.resume and (made.cost_model or default_cost_model(made.space)) != "instruction":
        raise InputError(
            "a measured search needs the instruction-aware cost model",
            location=Location("--measure"),
            hint="take --cost-model instruction",
        )


def _check_kernel_options(measure: str | None, validate: int, *, baseline: bool) -> None:
    """Raises InputError for what is not done with a kernel after its search."""
    from baco.common.errors import InputError, Location

    refused = {
        "--measure": (measure is not None, "a kernel is one program: nothing is learned from parts of it"),
        "--validate": (validate > 1, "a kernel is run on its best design alone"),
        "--baseline": (baseline, "a kernel is run on the design that was found for it alone"),
    }
    for option, (given, reason) in refused.items():
        if given:
            raise InputError(
                reason,
                location=Location(option),
                hint="--validate 1 runs the kernel on its design's Verilog",
            )


def _searched(made: PreparedSearch, command: str, *, quiet: bool) -> tuple[Result, LivePage]:
    """Search, with a display, and with a page that shows how the search stands."""
    from baco.api.study import Study
    from baco.common.errors import BacoError
    from baco.display.progress import shown
    from baco.exploration.report.live import LivePage

    names = ", ".join(one.name for one in made.workload.networks)
    with shown(not quiet, len(made.workload.tasks), str(made.objective)) as display:
        live = LivePage(made.folder, names, made.objective, len(made.workload.tasks), display)
        live.doing("loading the cost models")
        try:
            study = Study.of(made)
            return study.optimize(
                made.samples, made.time_limit, total=True, progress=live, command=command
            ), live
        except BacoError:
            live.withdraw()
            raise


def _measure(result: Result, budget: float, where: WorkerOptions, *, quiet: bool) -> None:
    """Search on with measurements."""
    from baco.api.measure import measure
    from baco.display.measured import print_measured

    found = measure(
        result,
        budget,
        workers=where.workers,
        executor=where.executor,
        address=where.address,
        progress=not quiet,
    )
    if not quiet:
        print_measured(found)


def _check_validation(best: int, time_limit: float | None, *, baseline: bool) -> None:
    """Raises InputError for what no validation could be asked for."""
    from baco.common.errors import InputError, Location

    options = {"--baseline": baseline, "--validate-time": time_limit is not None}
    given = next((name for name, value in options.items() if value), None)
    if best == 0 and given is not None:
        raise InputError(
            "only a validation has a baseline and a time of its own",
            location=Location(given),
            hint="add --validate K, the number of candidates to measure",
        )
    if best < 0:
        raise InputError(
            f"at least 1 candidate must be validated, not {best}", location=Location("--validate")
        )
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"the time limit must be a positive number, not {time_limit:g}")


def _constrained(name: str, area_limit: float | None, constraints: list[str]) -> DesignSpace:
    """The space with the bounds of options. Raises InputError for text that is none, and for an unknown name."""
    from baco.common.errors import Location
    from baco.common.numbers import real_number
    from baco.exploration.space import load_space

    space = load_space(name)
    if area_limit is not None:
        space = space.constrain("--area-limit", area_mm2=area_limit)
    for text in constraints:
        key, _, value = text.partition("=")
        hint, here = "write NAME=NUMBER, e.g. --constraint power_mw=500", Location("--constraint")
        bound = real_number(f"the bound in '{text[:100]}'", value.strip(), location=here, hint=hint)
        space = space.constrain("--constraint", **{key.strip(): bound})
    return space


def _finish(result: Result, *, json: bool, quiet: bool, measured: bool) -> None:
    """Say what was found."""
    if json:
        from baco.display.console import stdout

        stdout().file.write((result.folder / "summary.json").read_text(encoding="utf-8").rstrip() + "\n")
    elif not quiet:
        from baco.cli.summary import print_result

        print_result(result)
        if measured:
            from baco.display.validation import print_validation

            print_validation(result.path)
