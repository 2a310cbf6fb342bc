"""What `baco.explore` and `baco.Study` are given, as a search whose parts fit together."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.api.argument_types import check_seed, check_value
from baco.api.quantised import QuantisedModel
from baco.api.sources import WorkloadSource, with_timing, workload
from baco.api.space import Space, design_space
from baco.common.door import argument, words
from baco.common.errors import InfeasibleError, InputError, Location
from baco.common.numbers import real_number

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.api.kernels import ExploredKernel
    from baco.compiler.language.jit import Grid, Kernel
    from baco.compiler.network.quantiser import Quantiser
    from baco.exploration.accuracy import StudyAccuracy
    from baco.exploration.objective import CostFunction, Objective
    from baco.exploration.progress import Progress
    from baco.exploration.samplers.sampler import Sampler
    from baco.exploration.space import DesignSpace
    from baco.exploration.studies.engine import SearchOutcome
    from baco.exploration.studies.samples import Samples, WorkloadData
    from baco.workloads.network import Workload


#: Where studies go that are given no folder.
OUTPUT_ROOT = Path("baco-out")
#: Searches of so many samples are helped by a second process.
_LONG = 1000


@dataclass(frozen=True)
class PreparedSearch:
    """A search whose parts are all known to fit together; nothing of it has been done.

    Attributes:
        workload, space, objective: what is searched.
        search, cost_model: names; a `cost_model` of None is that of the study to resume, or the space's default.
        samples, time_limit: the budget; None as for `explore`.
        proof: whether to prove the optimum, where that is possible.
        whole: whether costs are of whole programs.
        fusion: whether operators of these may run as one unit.
        folder: of the study.
        resume: whether one is there that goes on.
        kernel: what is explored instead of a network.
        blocks: of a kernel, see `baco.exploration.search.searcher.SearchSetup`.
        data: samples of the networks' inputs, by name; kept beside the study before the search.
        quantiser: how scales are chosen; None for the usual one, or with `accuracy_loss` the best.
        accuracy_loss: largest that is allowed.
        formats: whether accuracy is traded for the objective, formats of weights being searched, too.
        progress: as of `explore`.
        named: whether the user named the folder.
    """

    workload: Workload
    space: DesignSpace
    objective: Objective
    search: str
    cost_model: str | None
    samples: int | None
    time_limit: float | None
    seed: int
    proof: bool
    whole: bool
    fusion: bool
    folder: Path
    resume: bool
    kernel: ExploredKernel | None
    blocks: tuple[tuple[int, int, int], ...] = ()
    data: Samples = field(default_factory=dict)
    progress: Progress | bool | None = None
    named: bool = True
    quantiser: Quantiser | None = None
    accuracy_loss: float | None = None
    formats: bool = False

    @property
    def file(self) -> Path:
        """The study's."""
        return _study(self.folder)

    def with_companion(self) -> AbstractContextManager[None]:
        """For the search and its report: a second process that does what need not wait, where that is worth its start."""
        from baco.common.companion import companion
        from baco.exploration.cost.choice import default_cost_model

        predicted = self.cost_model or default_cost_model(self.space)
        long = self.samples is None or self.samples >= _LONG
        ready = "baco.exploration.search.groups", "baco.exploration.report.study_report"
        return companion(ready, wanted=long and predicted == "instruction" and self.kernel is None)

    def at_start(self) -> PreparedSearch:
        """The same in a folder that is free, where the user has named none and it has not begun: another search may have taken it."""
        if self.named or self.resume or not self.file.exists():
            return self
        return dataclasses.replace(self, folder=default_folder(self.workload, self.objective))

    def run(self, progress: Progress | None = None, command: str | None = None) -> SearchOutcome:
        """Search. Raises what `baco.exploration.studies.engine.run_exploration` raises."""
        from baco.exploration.objective import remember_functions
        from baco.exploration.studies.engine import run_exploration
        from baco.exploration.studies.samples import keep_samples

        if self.formats:
            return self._over_formats(progress, command)
        remember_functions(self.file, self.objective)
        if progress is not None:
            for one in self.workload.networks:
                for text in one.notes:
                    progress.note(f"{one.name}: {text}")
                if one.unsupported:
                    kinds = ", ".join(f"{u.operator} ({u.node})" for u in one.unsupported[:5])
                    more = f" and {len(one.unsupported) - 5} more" if len(one.unsupported) > 5 else ""
                    progress.note(f"{one.name}: not costed: {kinds}{more}; the rest is explored")
        accuracy = self._accuracy(progress)
        kept = keep_samples(self.folder, self.data)
        if accuracy is not None:
            from baco.exploration.accuracy import keep_accuracy

            kept.append(keep_accuracy(self.folder, accuracy))
        try:
            with self.with_companion():
                outcome = run_exploration(
                    self.workload,
                    self.space,
                    self.objective,
                    self.search,
                    self.samples,
                    self.time_limit,
                    self.seed,
                    out=self.folder,
                    resume=self.resume,
                    proof=self.proof,
                    cost_model=self.cost_model,
                    whole=self.whole,
                    fusion=self.fusion,
                    blocks=self.blocks,
                    progress=progress,
                    command=command,
                )
            if accuracy is not None and accuracy.quantiser.floats:
                self._keep_on(outcome.best.accelerator, accuracy)
            return outcome
        except (InputError, InfeasibleError) as error:
            if not self.file.exists():  # refused, and nothing is left behind
                for path in kept:
                    path.unlink(missing_ok=True)
            if isinstance(error, InputError):
                raise
            if self._write_nearest() and progress is not None:
                progress.note(f"report of the nearest designs: {self.folder / 'report.html'}")
            raise

    def _over_formats(self, progress: Progress | None, command: str | None) -> SearchOutcome:
        """A search for every choice of formats. Raises as `run`."""
        from baco.api.format_search import FormatBudget, search_formats
        from baco.compiler.network.quantiser import DEFAULT

        def search(folder: Path, space: DesignSpace, own: Quantiser, part: FormatBudget) -> SearchOutcome:
            made = dataclasses.replace(
                self,
                folder=folder,
                space=space,
                quantiser=own,
                samples=part.samples,
                time_limit=part.seconds,
                formats=False,
            )
            return made.run(progress, command)

        (network,) = self.workload.networks
        return search_formats(
            network,
            self.data[network.name],
            self.quantiser or DEFAULT,
            self.accuracy_loss,
            self.space,
            FormatBudget(self.samples, self.time_limit),
            self.folder,
            str(self.objective),
            search,
            (lambda text: None) if progress is None else progress.note,
        )

    def _accuracy(self, progress: Progress | None) -> StudyAccuracy | None:
        """What the networks lose; None where nothing is said of it. Raises as `settle_accuracy`."""
        from baco.compiler.network.quantiser import DEFAULT
        from baco.exploration.accuracy import settle_accuracy

        quantiser = self.quantiser
        if self.space.base.input_format != "integer":
            quantiser = (quantiser or DEFAULT).on(self.space.base)
        if not (self.data or quantiser is not None):
            return None
        found = settle_accuracy(self.workload, self.data, quantiser, self.accuracy_loss)
        if progress is not None:
            for text in found.sentences():
                progress.note(text)
        return found

    def _keep_on(self, machine: Accelerator, measured: StudyAccuracy) -> None:
        """Measure accuracy in floating point again where sums are another's, since the best design has another side, and keep it."""
        from baco.exploration.accuracy import keep_accuracy, settle_accuracy

        own = measured.quantiser.on(machine)
        if own != measured.quantiser:
            keep_accuracy(self.folder, settle_accuracy(self.workload, self.data, own, None))

    def _write_nearest(self) -> bool:
        """Where no design is feasible: write the report of the nearest ones, if the search got as far as that."""
        from baco.exploration.report.study_report import write_study_report

        if not self.file.exists():
            return False
        try:
            write_study_report(self.file, self.folder)
        except InfeasibleError:  # it holds no design at all
            return False
        return True


#: What to say besides of a value of a wrong type, by argument.
_HINTS = {
    "objective": "a metric (edp, latency, energy, area, edap), a function of a design's cost, or several of them for their front",
    "search": "a searcher's name: gradient, local, random, bayesian, genetic, two-loop, evolution, dosa or dosa-published",
    "space": "a name, a YAML file, a baco.Space, or a dict with the keys of such a file",
    "progress": "True, False, or an object with update(summary, budget) and note(text)",
}


@dataclass(frozen=True)
class SearchOptions:
    """Search a design space for the best accelerators of one or several networks, with a mapping for every layer; or for those of
    a kernel, with its block sizes.

    Every batch is kept in a study on disk, from which everything in the result is read. Interrupting (Ctrl-C, or a
    notebook's stop button) ends the search with a valid result, whose `stopped` is `"interrupted"`.

    Args:
        network: see `baco.network`; a list of them is explored for one accelerator that runs all, and a dict gives
            names or files with weights. None: the networks that the space file names.
        kernel: instead of a network: a kernel of the block language (`@baco.jit`) that is one tiled product, or attention. Its
            block sizes and hardware are searched together: the configurations of `@baco.autotune`, else 16, 32, 64 and 128 for
            every `baco.const` without a value. What came of it is `Result.kernel`.
        shape: arguments of the kernel by name: numbers. Arrays are made of their annotations (`a: "int8[M, K]"`), with random
            numbers; those without annotations are given here, too.
        grid: of the kernel, as of a launch: `kernel[grid](...)`; a function of the other arguments follows the block sizes.
        objective: what to minimise: `edp` (energy × latency), `latency`, `energy`, `area` or `edap`; or a function of a design's cost
            (`latency_cycles`, `energy_uj`, `area_mm2`, `edp`, `edap`) that gives a number, which the search ranks by; it should grow with
            each of these. Several, separated by commas or in a list, ask for their Pareto front; then the first decides which design is
            `best`. One and `accuracy` (`edp,accuracy`): which layers have weights of 4 bits is chosen, too, and of spaces with several
            `input_formats` which the elements have, by their accuracy on `data`; the study is that of the least objective whose loss is within `accuracy_loss`, `formats.json` and `formats.svg` beside it the front.
        space: `gemmini`, `reference`, a YAML file, a `baco.Space`, or a dict with the keys of such a file (`{"dim": [8, 16]}`):
            what it does not say is as in `gemmini`.
        technology: what areas, energies and clocks are in, by name (`baco technology list`): the space's clock is then what its largest
            side closes at, and its bound on area as many times the area of Gemmini's default machine. By default what the space says: `gemmini` is in
            `ihp-sg13g2`, measured in netlists; `published-45nm` has published figures.
        constraints: upper bounds: `area_mm2`, `sram_kib`, `power_mw`, `latency_cycles`, `energy_uj`.
        samples: budget in design points (a mapping for every layer); 5,000 by default, 20,000 with the reference model,
            and no limit where `time_limit` is given.
        time_limit: budget in seconds.
        seed: of all randomness; the same settings, seed and versions give the same result.
        search: a searcher: `gradient`, `local`, `random`, `bayesian`, `genetic`, `two-loop`, `evolution`, `dosa`
            or `dosa-published`.
        sampler: the same as `search`; or a strategy of your own: a class derived from `baco.Sampler` (docs/samplers.md).
        cost_model: `instruction` (the default) or `reference` (the default in spaces with reference rules).
        timing: whose cycles are predicted, and measured by `validate`: `baco` (our Verilog's) or `gemmini` (the original
            Gemmini's in a Rocket system); by default what the space says, `baco` unless its file sets another.
        whole: minimise what the whole program costs, with additions, poolings and the operators on the host core; else the
            tensor operators alone, as published results do. The reference model knows these alone.
        fusion: operators of whole programs run as one unit where that is better, in what the search minimises and in what
            `validate` measures.
        data: what ranges of activations are taken from, and what the inputs hold, when whole programs are measured: arrays by
            input, each of the input's shape, or samples along a first axis before it; or a .npz file of them. Of several
            networks a list, in their order. It is kept beside the study (`data.npz`), so that `validate`, `resume` and the
            best program use it. Without it, inputs are random. `label` is the class of every sample: with several samples, or labels,
            accuracy in integers is measured, which is that of every design.
        observer: where scales of activations end: `mse`, `min-max`, `percentile` or `entropy`; by default `mse`, with `accuracy_loss` what loses least.
        accuracy_loss: largest loss of accuracy on the data, a share (0.01) or text (`1%`): in answers that the labels call right,
            without labels in answers that are the float model's.
        proof: prove how near the optimum the best design is; by default where that is possible.
        out: folder of the study; by default a new one in `baco-out/`.
        resume: continue the study in `out`: with the settings it was made with, or with none and no network, which are the study's then;
            where there is none yet, one is started.
        progress: True or False for a display of how the search stands; by default there is one in terminals and
            notebooks. Or an object with `update(summary, budget)` and `note(text)`, and with `doing(text, done, of)`, if it wants
            to know what is done before the first batch.

    Raises:
        InputError: something unknown, malformed, or that does not fit together.
        InfeasibleError: no design satisfies the constraints; names the binding one.
        StorageError: a study is in `out` already, or it cannot be written.
        KernelError: the kernel is wrong, or computes what cannot be explored; shows the line.
    """

    network: WorkloadSource | QuantisedModel | None = None
    space: str | Path | Mapping[str, Any] | Space | DesignSpace = "gemmini"
    objective: str | CostFunction | Sequence[str | CostFunction] = "edp"
    _: KW_ONLY
    kernel: Kernel | None = None
    shape: Mapping[str, Any] | None = None
    grid: Grid | None = None
    technology: str | None = None
    constraints: Mapping[str, float] | None = None
    samples: int | None = None
    time_limit: float | None = None
    seed: int = 0
    search: str = "gradient"
    sampler: str | type[Sampler] | None = None
    cost_model: str | None = None
    timing: str | None = None
    proof: bool | None = None
    whole: bool = True
    fusion: bool = True
    data: WorkloadData | None = None
    observer: str | None = None
    accuracy_loss: float | str | None = None
    out: str | Path | None = None
    resume: bool = False
    progress: Progress | bool | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            check_value(one.name, getattr(self, one.name), one.type, _HINTS.get(one.name))

    def prepared(self) -> PreparedSearch:
        """The search, its parts checked. Raises as `baco.explore` does."""
        # nothing is loaded of models and searchers, so that what is wrong is said within a second
        from baco.exploration.objective import Objective, without_accuracy
        from baco.exploration.search.searcher import check_budget

        network = self.network
        if isinstance(network, QuantisedModel):
            return self._of_model(network)
        minimised, formats = without_accuracy(self.objective)
        goal = Objective.parse(minimised)
        check_budget(self.samples, self.time_limit)
        check_seed(self.seed)
        search = self._searcher()
        if self.out is not None:
            _check_folder(Path(self.out), self.resume)
            kept = self._of_folder_alone(Path(self.out))
            if kept is not None:
                return kept
        space = self._space(search)
        if space.formats and not formats:
            raise InputError(
                f"{' or '.join(space.formats)} is a choice of accuracy, and that is no objective",
                location=space.locate("input_formats") or Location("input_formats"),
                hint=f"give {argument('objective')} {goal},accuracy, and data; or one format",
            )
        explored = _kernel(network, self.kernel, self.shape, self.grid, self.seed, space)
        if explored is not None:
            space, search = explored.searched(space), "blocks"
        mix = explored.workload if explored is not None else _workload(network, space)
        samples = _samples(self.data, mix, self.kernel)
        quantiser, bound = self._choice()
        folder = Path(self.out) if self.out is not None else default_folder(mix, goal, self.resume)
        _check_folder(folder, self.resume)
        return PreparedSearch(
            mix,
            space,
            goal,
            search,
            self.cost_model,
            self.samples,
            self.time_limit,
            self.seed,
            self.proof if self.proof is not None and explored is None else search == "gradient",
            self.whole if explored is None else explored.is_unit,
            self.fusion if explored is None else explored.is_unit,
            folder,
            self.resume,
            explored,
            () if explored is None else explored.blocks,
            samples,
            self.progress,
            named=self.out is not None,
            quantiser=quantiser,
            accuracy_loss=bound,
            formats=formats and self._may_choose_formats(mix, space),
        )

    def _may_choose_formats(self, mix: Workload, space: DesignSpace) -> bool:
        """True. Raises InputError where accuracy cannot be traded."""
        from baco.exploration.cost.choice import default_cost_model

        where = Location(argument("objective"))
        if self.data is None:
            raise InputError(
                "accuracy is measured on data, and there is none",
                location=where,
                hint=words(
                    "give --data FILE.npz: samples by the names of the inputs, and `label`, the class of each, if there are labels",
                    "give data={input: samples, 'label': classes}, or a .npz file of them",
                ),
            )
        reasons = {
            "a kernel has no trained weights": self.kernel is not None,
            f"formats are chosen for one network, not for {len(mix.networks)}": len(mix.networks) > 1,
            "it is several studies, which do not go on: take another folder": self.resume,
            "the reference model knows one width of all words": (self.cost_model or default_cost_model(space))
            != "instruction",
        }
        for reason, holds in reasons.items():
            if holds:
                raise InputError(f"accuracy cannot be an objective here: {reason}", location=where)
        return True

    def _choice(self) -> tuple[Quantiser | None, float | None]:
        """How scales are chosen, and the largest loss of accuracy.

        Raises InputError for an observer that there is not, no share, a loss with nothing to measure it on.
        """
        from baco.compiler.network.quantiser import Quantiser
        from baco.exploration.accuracy import share

        quantiser = None if self.observer is None else Quantiser(self.observer)  # type: ignore[arg-type]
        if self.accuracy_loss is None:
            return quantiser, None
        if self.data is None:
            raise InputError(
                "a loss of accuracy is measured on data",
                location=Location(argument("accuracy_loss")),
                hint=f"give {argument('data')}",
            )
        return quantiser, share(self.accuracy_loss)

    def _of_model(self, model: QuantisedModel) -> PreparedSearch:
        """The search of a quantised model. Raises InputError for what the model says itself."""
        if self.data is not None or self.observer is not None:
            raise InputError("a quantised model has its own data and observer")
        found = dataclasses.replace(self, network=model.network, data=model.samples).prepared()
        return dataclasses.replace(found, quantiser=model.quantiser)

    def _searcher(self) -> str:
        """The name of what searches. Raises InputError for one that there is not."""
        from baco.exploration.samplers.searchers import adopt_sampler, check_searcher

        search = self.search
        if self.sampler is not None and self.sampler != search:
            if self.kernel is not None or search != "gradient":
                kernel = "a kernel's block sizes are searched by one strategy"
                other = kernel if self.kernel else "search names another"
                raise InputError(f"a sampler does not go with this: {other}", location=Location("sampler"))
            search = self.sampler if isinstance(self.sampler, str) else adopt_sampler(self.sampler)
        if self.kernel is None:
            check_searcher(search)
        return search

    def _of_folder_alone(self, folder: Path) -> PreparedSearch | None:
        """The search of the study in the folder, where nothing but that says what is searched; None else.

        Raises InputError for settings that are not the study's.
        """
        if not self.resume or self.network or self.kernel is not None or not os.path.exists(_study(folder)):
            return None
        usual = SearchOptions()
        of_call = ("network", "out", "resume", "samples", "time_limit", "progress", "objective", "sampler")
        for one in fields(self):
            if one.name not in of_call and getattr(self, one.name) != getattr(usual, one.name):
                raise InputError(
                    f"{argument(one.name)} is the study's, where no network is given",
                    location=Location(str(folder)),
                    hint="give the network and all other settings again, or none of them",
                )
        found = search_of_study(
            _study(folder),
            None if self.objective == usual.objective else self.objective,
            self.sampler if isinstance(self.sampler, type) else None,
        )
        return dataclasses.replace(
            found, samples=self.samples, time_limit=self.time_limit, progress=self.progress
        )

    def _space(self, search: str) -> DesignSpace:
        """The space, constrained. Raises InputError for a cost model that it does not have, and for a proof that cannot be."""
        from baco.api.kernels import check_kernel_options
        from baco.exploration.cost.choice import check_cost_model, default_cost_model
        from baco.exploration.space import in_technology
        from baco.exploration.space.shortfall import check_feasible

        space = design_space(self.space)
        if self.technology is not None:
            space = in_technology(space, self.technology)
        for name, bound in (self.constraints or {}).items():
            space = space.constrain("constraints", **{name: real_number(f"the bound of {name}", str(bound))})
        if not space.constraints.any_on_mappings:  # else the search says which bounds are feasible together
            check_feasible(space)
        if self.timing is not None:
            space = dataclasses.replace(space, base=with_timing(space.base, self.timing))
        model = self.cost_model or default_cost_model(space)
        check_cost_model(model, space)
        if self.proof and not self.resume and model == "instruction":
            raise InputError(
                "nothing can be proven of the instruction-aware cost model",
                location=Location(argument("proof")),
                hint=words(
                    "leave --proof out, or take --cost-model reference",
                    "leave proof out, or take cost_model='reference'",
                ),
            )
        if self.kernel is not None:
            check_kernel_options(search, self.cost_model, whole=self.whole)
        return space


def search_of_study(
    file: Path,
    objective: CostFunction | Sequence[str | CostFunction] | None = None,
    sampler: type[Sampler] | None = None,
) -> PreparedSearch:
    """The search that a study's file is the record of, to go on with. Raises as `baco.load_study` does."""
    from baco.common.yaml import parse_yaml
    from baco.exploration.objective import Objective, remember_functions
    from baco.exploration.samplers.searchers import adopt_sampler
    from baco.exploration.space import read_space
    from baco.exploration.studies.study import StudyRecord

    if objective is not None:
        remember_functions(file, Objective.parse(objective))
    with StudyRecord.open(file, read_only=True) as record:
        setup, goal = record.setup, record.objective
        workload = record.workload()
    space = read_space(
        parse_yaml(setup["space"], f"{file} (its space)")
    )  # with what the search may have left out
    name = setup["searcher"] if sampler is None else adopt_sampler(sampler)
    if name != setup["searcher"]:
        raise InputError(
            f"the study's sampler is {setup['searcher']}, not {name}", location=Location(str(file))
        )
    given = str(goal) if objective is None else str(Objective.parse(objective))
    if given != str(goal):
        raise InputError(f"the study minimises {goal}, not {given}", location=Location(str(file)))
    return PreparedSearch(
        workload,
        space,
        goal,
        setup["searcher"],
        setup["cost_model"],
        None,
        None,
        setup["seed"],
        setup["searcher"] == "gradient",
        setup["whole"],
        setup["fusion"],
        file.parent,
        True,
        None,
        tuple((m, n, k) for m, n, k in setup.get("blocks", ())),
    )


def _kernel(
    network: WorkloadSource | None,
    kernel: Kernel | None,
    shape: Mapping[str, Any] | None,
    grid: Grid | None,
    seed: int,
    space: DesignSpace,
) -> ExploredKernel | None:
    """The kernel that is explored, if one is. Raises InputError for arguments that go with none, and KernelError."""
    if kernel is None:
        for name, value in (("shape", shape), ("grid", grid)):
            if value is not None:
                raise InputError(
                    "only a kernel has arguments", location=Location(name), hint="give the kernel, too"
                )
        return None
    if network is not None and network != []:
        raise InputError("explore a network or a kernel, not both", location=Location("kernel"))
    from baco.api.kernel_arguments import kernel_search
    from baco.api.kernels import ExploredKernel

    search = kernel_search(kernel, shape, grid, seed)
    return ExploredKernel(search, tuple(search.work(space.base)))


def _samples(data: WorkloadData | None, mix: Workload, kernel: Kernel | None) -> Samples:
    """Samples of the inputs, by network. Raises InputError for those that do not fit."""
    if data is None:
        return {}
    if kernel is not None:
        raise InputError("only networks have samples", location=Location(argument("data")))
    from baco.exploration.studies.samples import check_samples

    return check_samples(data, mix)


def _workload(source: WorkloadSource | None, space: DesignSpace) -> Workload:
    """The networks asked for, else those that the space names."""
    from baco.workloads.inputs.load import network_names

    if source is None or (isinstance(source, list) and not source):
        entries = space.networks
        if not entries:
            raise InputError(
                "no network is given",
                hint=f"{words('add --network NAME', 'give one')}; built in: {', '.join(network_names())}; or an ONNX, Python, CSV or"
                " YAML file",
            )
        places = [space.locate("networks", i, "network") for i in range(len(entries))]
        loaded = workload([entry.network for entry in entries], [entry.weight for entry in entries], places)
    else:
        loaded = workload(source)
    space.constraints.check_networks(
        [network.name for network in loaded.networks], space.locate("constraints", "networks")
    )
    return loaded


def default_folder(mix: Workload, objective: object, resume: bool = False) -> Path:
    """`baco-out/NETWORK-OBJECTIVE`, numbered so that no earlier study is in the way; the latest to resume."""
    names = "+".join(network.name for network in mix.networks)
    stem = re.sub(r"[^A-Za-z0-9._+-]+", "_", f"{names}-{objective}").strip("._")[:80] or "study"
    folder, number, latest = OUTPUT_ROOT / stem, 1, None
    while os.path.exists(_study(folder)):
        latest, number = folder, number + 1
        folder = OUTPUT_ROOT / f"{stem}-{number}"
    return latest if resume and latest is not None else folder


def _check_folder(folder: Path, resume: bool) -> None:
    """Raises StorageError for a study in the way."""
    from baco.exploration.studies.preparation import already_there

    if not resume and os.path.exists(_study(folder)):
        raise already_there(_study(folder))


def _study(folder: Path) -> Path:
    """The file of the study in a folder."""
    from baco.exploration.studies.study import FILE_NAME

    return folder / FILE_NAME
