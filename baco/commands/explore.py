"""`baco explore`: search the design space for the best accelerators of one or several networks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from baco.cli.checked import Seed
from baco.cli.compile_options import Timing
from baco.cli.completions import network_completions
from baco.cli.engine_options import WorkerOptions
from baco.cli.page import OpenPage
from baco.cli.workload_data import Data
from baco.common.errors import InputError, Location, only_with

if TYPE_CHECKING:
    from baco.api.preparation import PreparedSearch
    from baco.api.result import Result
    from baco.exploration.report.live import LivePage
    from baco.exploration.space import DesignSpace


@dataclass(frozen=True)
class SearchFlags:
    """What is searched, and for how long: what `baco.explore` is given.

    Attributes:
        kernel (FILE.py:FUNCTION): Instead of a network: a kernel of the block language that is one tiled product, or
            attention. Block sizes and hardware are searched together.
        shape (NAME=N,...): Arguments of the kernel, e.g. 'M=512,N=512,K=256'.
        grid (N[,N]): Programs of the kernel, e.g. 'cdiv(M, BM), cdiv(N, BN)'; by default what `grid(meta)` in its file
            returns.
        objective: What to minimise: edp, latency, energy, area or edap; a comma list asks for their front.
        space (NAME|FILE): Design space: gemmini, reference, or a YAML file.
        technology (NAME): What areas, energies and clocks are in (see `baco technology list`); the space gets the clock that it closes
            at there. By default as the space says: gemmini is in ihp-sg13g2, measured in netlists; published-45nm has published figures.
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
        resume: Continue the study in --out, or start it where there is none yet. Without a network, all settings are the study's.
        proof: After searching for the least EDP: prove how near the optimum the best design is, and give the optimum if the
            search missed it. Only with --cost-model reference, and there on by default with the gradient searcher; not
            charged to --samples.
        fusion: Operators of whole programs run as one unit where that is predicted to be better.
        observer (NAME): Where scales of activations end: mse, min-max, percentile or entropy; by default mse, with --accuracy-loss what
            loses least.
        accuracy_loss (SHARE): Largest loss of accuracy in integers on --data, e.g. 1%: in answers that its labels call right, without
            labels in answers that are the float model's.
    """

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
    ] = None
    kernel: str | None = None
    shape: str | None = None
    grid: str | None = None
    objective: str = "edp"
    space: str = "gemmini"
    technology: str | None = None
    search: str = "gradient"
    cost_model: str | None = None
    timing: Timing = None
    accelerator_only: bool = False
    samples: int | None = None
    time_limit: float | None = None
    seed: Seed = 0
    area_limit: float | None = None
    constraint: list[str] | None = None
    out: Path | None = None
    resume: bool = False
    proof: bool | None = None
    fusion: bool = True
    data: Data = None
    observer: str | None = None
    accuracy_loss: str | None = None

    def prepared(self) -> PreparedSearch:
        """As `baco.explore` prepares it. Raises as that does."""
        from baco.api.preparation import SearchOptions
        from baco.cli.kernel_exploration import kernel_arguments

        return SearchOptions(
            list(self.network or []),
            _constrained(self.space, self.technology, self.area_limit, self.constraint or []),
            self.objective,
            **kernel_arguments(self.kernel, self.shape, self.grid),
            samples=self.samples,
            time_limit=self.time_limit,
            seed=self.seed,
            search=self.search,
            cost_model=self.cost_model,
            timing=self.timing,
            proof=self.proof,
            whole=not self.accelerator_only,
            fusion=self.fusion,
            data=self.data or None,
            observer=self.observer,
            accuracy_loss=self.accuracy_loss,
            out=self.out,
            resume=self.resume,
        ).prepared()


@dataclass(frozen=True)
class MeasuringFlags:
    """What is measured after the search.

    Attributes:
        validate (K): After searching: compile the K best candidates and a few along the front to whole programs, run them on
            their own Verilog, and compare what every operator writes (see `baco validate`). With --kernel: 1, the kernel on
            its best design.
        validate_time (SECONDS): Stop measuring then; what is not finished is estimated.
        measure (CYCLES): After searching: spend so many simulated cycles (e.g. 200M) on measuring layers where that promises
            most, learn from them, and look for better designs with what was learned.
        measure_engine (rtl|timed): With --measure: what counts cycles while designs are compared: their Verilog, or the model of
            our units in time, which needs no building; the winner runs on its Verilog with either.
        baseline: With --validate: measure Gemmini's default machine too.
    """

    validate: int = 0
    validate_time: float | None = None
    measure: str | None = None
    measure_engine: str = "rtl"
    baseline: bool = False

    def check(self, where: WorkerOptions, kernel: str | None) -> float | None:
        """The budget of cycles, if there is one. Raises InputError for what could not be asked for."""
        from baco.common.numbers import cycles_number
        from baco.sim.engines.base import cycle_engine

        if self.measure is None:
            only_with("--measure", {"--measure-engine": self.measure_engine != "rtl"})
        cycle_engine(self.measure_engine)
        given = {"--baseline": self.baseline, "--validate-time": self.validate_time}
        if not self.validate:
            hint = "add --validate K, the number of candidates to measure"
            only_with("--validate", given, hint=hint)
        if self.validate < 0:
            raise InputError(
                f"at least 1 candidate must be validated, not {self.validate}",
                location=Location("--validate"),
            )
        if self.validate_time is not None and not self.validate_time > 0:
            raise InputError(f"the time limit must be a positive number, not {self.validate_time:g}")
        _ = where.chosen  # what does not go together is said before the search
        if not self.validate and self.measure is None:
            local = where.executor == "local"
            workers = {"--address": where.address, "--workers": where.workers}
            only_with("--validate or --measure", {"--executor": not local, **workers})
        if kernel is not None:
            self._check_kernel()
        return None if self.measure is None else cycles_number(self.measure, "--measure")

    def _check_kernel(self) -> None:
        refused = {
            "--measure": (
                self.measure is not None,
                "a kernel is one program: nothing is learned from parts of it",
            ),
            "--validate": (self.validate > 1, "a kernel is run on its best design alone"),
            "--baseline": (self.baseline, "a kernel is run on the design that was found for it alone"),
        }
        for option, (given, reason) in refused.items():
            if given:
                raise InputError(
                    reason,
                    location=Location(option),
                    hint="--validate 1 runs the kernel on its design's Verilog",
                )


def explore(
    context: typer.Context,
    where: WorkerOptions,
    asked: SearchFlags,
    after: MeasuringFlags,
    open_page: OpenPage = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Find the best accelerators for a network, and a mapping for each of its layers.

    Example: explore --network resnet50 --objective edp --validate 5

    Args:
        json: Print the summary as JSON on standard output.
        quiet (-q): No progress, no summary; errors only.
    """
    from baco.display.console import command_of, stdout
    from baco.display.progress import waiting

    budget = after.check(where, asked.kernel)
    with waiting(f"reading {', '.join(asked.network or []) or asked.kernel or 'the space'}", not quiet):
        made = asked.prepared()
    if budget is not None:
        _check_measured(made)
    with made.with_companion():
        result, live = _searched(made, command_of(context), quiet=quiet)
        later = result.stopped != "interrupted"
        if later:
            _measured(result, after, budget, where, fusion=asked.fusion, quiet=quiet)
        with waiting("writing the report", not quiet):
            page = result.save_report()
    live.finish()
    verdict = result.kernel if made.kernel is not None and later else None
    measured = later and made.kernel is None and bool(after.validate or budget is not None)
    _finish(result, json=json, quiet=quiet, measured=measured)
    if verdict is not None and not quiet and not json:
        stdout().print(f"kernel: {verdict}", highlight=False, soft_wrap=True)
    if open_page:
        from baco.cli.page import show_page

        show_page(page)


def _check_measured(made: PreparedSearch) -> None:
    """Raises InputError for a search that cannot go on with measurements."""
    from baco.exploration.cost.choice import default_cost_model

    if not made.resume and (made.cost_model or default_cost_model(made.space)) != "instruction":
        raise InputError(
            "a measured search needs the instruction-aware cost model",
            location=Location("--measure"),
            hint="take --cost-model instruction",
        )


def _searched(made: PreparedSearch, command: str, *, quiet: bool) -> tuple[Result, LivePage]:
    """Search, with a display, and with a page that shows how the search stands."""
    from baco.api.study import Study
    from baco.common.errors import BacoError
    from baco.display.progress import shown
    from baco.exploration.report.live import LivePage

    names = ", ".join(one.name for one in made.workload.networks)
    with shown(not quiet, str(made.objective)) as display:
        live = LivePage(made.folder, names, made.objective, display)
        live.doing("loading the cost models")
        try:
            study = Study.of(made)
            return study.optimize(
                made.samples, made.time_limit, total=True, progress=live, command=command
            ), live
        except BacoError:
            live.withdraw()
            raise


def _measured(
    result: Result,
    after: MeasuringFlags,
    budget: float | None,
    where: WorkerOptions,
    *,
    fusion: bool,
    quiet: bool,
) -> None:
    """Search on with measurements, and validate, where that is asked for."""
    from baco.api.measure import measure, validate
    from baco.display.measured import print_measured

    if budget is not None:
        found = measure(
            result,
            budget,
            workers=where.workers,
            executor=where.executor,
            address=where.address,
            engine=after.measure_engine,
            progress=not quiet,
        )
        if not quiet:
            print_measured(found)
    if after.validate:
        validate(
            result,
            best=after.validate,
            baseline=after.baseline,
            fusion=fusion,
            time_limit=after.validate_time,
            workers=where.workers,
            executor=where.executor,
            address=where.address,
            progress=not quiet,
        )


def _constrained(
    name: str, technology: str | None, area_limit: float | None, constraints: list[str]
) -> DesignSpace | str:
    """The space in a technology and with the bounds of options. Raises InputError for text that is none, and for an unknown name."""
    from baco.common.numbers import real_number
    from baco.exploration.space import in_technology, load_space

    if technology is None and area_limit is None and not constraints:
        return name
    space = load_space(name)
    if technology is not None:
        space = in_technology(space, technology)
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
