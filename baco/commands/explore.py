"""`baco explore`: search the design space for the best accelerators of one or several networks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from baco.commands.checked import seed_option

if TYPE_CHECKING:
    from common.errors import Location
    from explore.engine import Outcome
    from explore.space import DesignSpace
    from explore.validate.run import ValidationOptions
    from workloads.network import Network, Workload

OUTPUT_ROOT = Path("baco-out")


def explore(
    context: typer.Context,
    network: Annotated[
        list[str] | None,
        typer.Option(
            "--network",
            "-n",
            metavar="NAME|FILE",
            help="A built-in network (see `baco networks`) with options, e.g. bert_base:batch=4; or MODEL.onnx, "
            "CODE.py:FUNCTION, TABLE.csv[:NAME], TABLE.yaml. Repeat it for one accelerator that runs all.",
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            "--objective",
            help="What to minimise: edp, latency, energy, area or edap; a comma list asks for their front.",
        ),
    ] = "edp",
    space: Annotated[
        str,
        typer.Option(
            "--space", metavar="NAME|FILE", help="Design space: gemmini, reference, or a YAML file."
        ),
    ] = "gemmini",
    search: Annotated[
        str,
        typer.Option(
            "--search", help="Searcher: gradient, local, random, bayesian, genetic, two-loop or dosa."
        ),
    ] = "gradient",
    cost_model: Annotated[
        str | None,
        typer.Option(
            "--cost-model",
            metavar="NAME",
            help="What predicts: instruction (cycles and traffic of the compiled program on the generated hardware; the "
            "default) or reference (the published analytical model; the default in spaces with reference rules).",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            help="Budget in design points (a mapping for each layer); 5000 by default, 20000 with the reference model.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", metavar="SECONDS", help="Budget in seconds of search.")
    ] = None,
    seed: Annotated[int, seed_option("Of all randomness; the same seed, the same result.")] = 0,
    area_limit: Annotated[
        float | None,
        typer.Option(
            "--area-limit", metavar="MM2", help="Largest area in mm²; as --constraint area_mm2=MM2."
        ),
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            "--constraint",
            metavar="NAME=BOUND",
            help="Upper bound: area_mm2, sram_kib, power_mw, latency_cycles or energy_uj. Repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder of the study and the report; by default a new one in baco-out/. While the search runs, "
            "progress.html there shows how it goes, in any browser, and leads to report.html at the end.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the study in --out.")] = False,
    proof: Annotated[
        bool | None,
        typer.Option(
            "--proof/--no-proof",
            help="After searching for the least EDP: prove how near the optimum the best design is, and give the "
            "optimum if the search missed it. Only with --cost-model reference, and there on by default with the "
            "gradient searcher; not charged to --samples.",
        ),
    ] = None,
    validate: Annotated[
        int,
        typer.Option(
            "--validate",
            metavar="K",
            help="After searching: compile the K best candidates and a few along the front, simulate every layer on "
            "their own Verilog, and compare every output (see `baco validate`).",
        ),
    ] = 0,
    validate_time: Annotated[
        float | None,
        typer.Option(
            "--validate-time",
            metavar="SECONDS",
            help="Stop measuring then; what is not finished is estimated.",
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            "--measure",
            metavar="CYCLES",
            help="After searching: spend so many simulated cycles (e.g. 200M) on measuring layers where that promises "
            "most, learn from them, and look for better designs with what was learned.",
        ),
    ] = None,
    baseline: Annotated[
        bool,
        typer.Option("--baseline", help="With --validate: measure Gemmini's default machine too."),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON on standard output.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no summary; errors only.")
    ] = False,
) -> None:
    """Find the best accelerators for a network, and a mapping for each of its layers.

    Example: explore --network resnet50 --objective edp --validate 5
    """
    from baco.commands.context import command_of
    from common.errors import InputError, Location
    from explore.cost.model import default_cost_model
    from explore.engine import run_exploration
    from explore.objective import Objective
    from explore.report.live import LivePage

    options = _validation(validate, validate_time, baseline=baseline)
    budget = None if measure is None else cycles_of(measure, "--measure")
    goal = Objective.parse(objective)
    design_space = _constrained(space, area_limit, constraint or [])
    workload = _workload(network or [], design_space)
    if proof and not resume and (cost_model or default_cost_model(design_space)) == "instruction":
        raise InputError(
            "nothing can be proven of the instruction-aware cost model",
            location=Location("--proof"),
            hint="leave --proof out, or take --cost-model reference",
        )
    folder = out if out is not None else _default_folder(workload, goal, resume)
    progress = None
    if not quiet:
        from baco.progress import make_progress

        progress = make_progress(len(workload.tasks), str(goal))
        for one in workload.networks:
            if one.unsupported:
                kinds = ", ".join(f"{u.operator} ({u.node})" for u in one.unsupported[:5])
                more = f" and {len(one.unsupported) - 5} more" if len(one.unsupported) > 5 else ""
                progress.note(f"{one.name}: not costed: {kinds}{more}; the rest is explored")
    names = ", ".join(one.name for one in workload.networks)
    live = LivePage(folder, names, goal, len(workload.tasks), progress)
    try:
        outcome = run_exploration(
            workload,
            design_space,
            goal,
            search,
            samples,
            time_limit,
            seed,
            out=folder,
            resume=resume,
            proof=proof if proof is not None else search == "gradient",
            cost_model=cost_model,
            progress=live,
            command=command_of(context),
        )
    finally:
        if progress is not None:
            progress.close()
    if budget is not None and not outcome.interrupted:
        _measure(outcome, budget, quiet=quiet)
    if options is not None and not outcome.interrupted:
        from baco.commands.validate import run_validation

        run_validation(
            outcome.path,
            options,
            baseline=baseline,
            quiet=quiet,
            stopped=outcome.stopped,
            notes=outcome.notes,
        )
    else:
        options = None
        _write_report(outcome, folder)
    live.finish()
    measured = options is not None or budget is not None
    _finish(outcome, folder, json=json, quiet=quiet, validated=measured and not outcome.interrupted)


def cycles_of(text: str, option: str) -> float:
    """A number of cycles, `200M` or `2e8`. Raises InputError."""
    from common.errors import InputError, Location
    from common.numbers import EXACT, real_number

    units = {"k": 1e3, "m": 1e6, "g": 1e9}
    unit = units.get(text[-1:].lower(), 1.0)
    try:
        found = real_number("", text[:-1] if unit > 1 else text) * unit
    except InputError:
        found = math.inf
    if found > EXACT:
        raise InputError(
            f"'{text}' is no number of cycles", location=Location(option), hint="e.g. 200M, 1.5G or 2e8"
        )
    return found


def _measure(outcome: Outcome, budget: float, *, quiet: bool) -> None:
    """Search on with measurements."""
    from baco.measured_display import MeasuredDisplay, print_measured
    from explore.measured.session import measure_study

    found = measure_study(outcome.path, budget, watch=None if quiet else MeasuredDisplay(budget))
    if not quiet:
        print_measured(found)


def _validation(best: int, time_limit: float | None, *, baseline: bool) -> ValidationOptions | None:
    """What `--validate` asks for; None without it."""
    from common.errors import InputError, Location

    if best == 0:
        if baseline or time_limit is not None:
            raise InputError(
                "only a validation has a baseline and a time of its own",
                location=Location("--baseline" if baseline else "--validate-time"),
                hint="add --validate K, the number of candidates to measure",
            )
        return None
    from explore.validate.run import ValidationOptions

    return ValidationOptions(best, time_limit=time_limit)


def _constrained(name: str, area_limit: float | None, constraints: list[str]) -> DesignSpace:
    from common.errors import Location
    from common.numbers import real_number
    from explore.space import load_space

    space = load_space(name)
    if area_limit is not None:
        space = space.constrain("--area-limit", area_mm2=area_limit)
    for text in constraints:
        key, _, value = text.partition("=")
        hint, here = "write NAME=NUMBER, e.g. --constraint power_mw=500", Location("--constraint")
        bound = real_number(f"the bound in '{text[:100]}'", value.strip(), location=here, hint=hint)
        space = space.constrain("--constraint", **{key.strip(): bound})
    return space


def _workload(specs: list[str], space: DesignSpace) -> Workload:
    """The networks of the command line, else those that the space names."""
    from common.errors import InputError
    from workloads.load import network_names
    from workloads.network import Workload

    weights = [1.0] * len(specs)
    places: list[Location | None] = [None] * len(specs)
    if not specs:
        specs = [entry.network for entry in space.networks]
        weights = [entry.weight for entry in space.networks]
        places = [space.locate("networks", i, "network") for i in range(len(specs))]
    if not specs:
        raise InputError(
            "no network is given",
            hint=f"add --network NAME; built in: {', '.join(network_names())}; or an ONNX, Python, CSV or YAML file",
        )
    for i, spec in enumerate(specs):
        if spec in specs[:i]:
            raise InputError(
                f"the network '{spec}' is given twice",
                location=places[i],
                hint="weights are set in the space file",
            )
    workload = Workload.of([_load(spec, place) for spec, place in zip(specs, places, strict=True)], weights)
    space.constraints.check_networks(
        [one.name for one in workload.networks], space.locate("constraints", "networks")
    )
    return workload


def _load(spec: str, place: Location | None) -> Network:
    """A network; an error without a place of its own gets that of the space file's entry."""
    from common.errors import InputError
    from workloads.load import load_network

    try:
        return load_network(spec)
    except InputError as error:
        if error.location is not None or place is None:
            raise
        raise InputError(error.message, location=place, hint=error.hint) from None


def _default_folder(workload: Workload, objective: object, resume: bool) -> Path:
    """`baco-out/NETWORK-OBJECTIVE`, numbered so that no earlier study is in the way; the latest to resume."""
    import os
    import re

    from explore.study import FILE_NAME

    names = "+".join(network.name for network in workload.networks)
    stem = re.sub(r"[^A-Za-z0-9._+-]+", "_", f"{names}-{objective}").strip("._")[:80] or "study"
    folder, number, latest = OUTPUT_ROOT / stem, 1, None
    while os.path.exists(folder / FILE_NAME):
        latest, number = folder, number + 1
        folder = OUTPUT_ROOT / f"{stem}-{number}"
    return latest if resume and latest is not None else folder


def _write_report(outcome: Outcome, folder: Path) -> None:
    from explore.study_report import write_study_report

    write_study_report(outcome.path, folder, stopped=outcome.stopped, notes=outcome.notes)


def _finish(outcome: Outcome, folder: Path, *, json: bool, quiet: bool, validated: bool) -> None:
    """Say what was found."""
    if json:
        from baco.commands.context import stdout

        stdout().file.write((folder / "summary.json").read_text(encoding="utf-8").rstrip() + "\n")
    elif not quiet:
        from baco.summary import print_outcome

        print_outcome(outcome, folder)
        if validated:
            from baco.validation_display import print_validation

            print_validation(outcome.path)
