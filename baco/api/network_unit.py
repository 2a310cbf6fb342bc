"""A network from any source, quantised, on the way to one program and its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.api.sources import AcceleratorSource, NetworkSource, accelerator, design
from baco.api.sources import network as load_network
from baco.common.errors import InputError, Location, did_you_mean, only_with
from baco.compiler.network.quantiser import DEFAULT, Quantiser
from baco.workloads.inputs.arrays import load_array
from baco.workloads.inputs.samples import SampleSet, read_samples

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.builtin import ModuleOp

    from baco.accel.config import Accelerator
    from baco.compiler.codegen.c_library import CLibrary
    from baco.compiler.network.accuracy import ModelAccuracy
    from baco.compiler.network.agreement import Agreement
    from baco.compiler.network.combinations import Combinations
    from baco.compiler.network.graph import QuantisedNetwork
    from baco.compiler.network.groups import GroupScheduler
    from baco.compiler.network.lowered import Scheduler
    from baco.compiler.network.plan import Plan
    from baco.compiler.network.program import NetworkCode, NetworkProgram
    from baco.exploration.candidate import Candidate
    from baco.exploration.objective import Objective
    from baco.sim.network.run import NetworkRun
    from baco.workloads.inputs.samples import NetworkData
    from baco.workloads.network import Network


#: Whose mappings the layers of a network take.
MAPPINGS = ("study", "compiler")


@dataclass(frozen=True)
class NetworkRequest:
    """A network to compile, and how.

    Attributes:
        source: of the network, see `baco.network`.
        layers: run repeated blocks only so many times.
        fusion: operators run as one unit where that is predicted to pay; None: in programs for designs of a study, and where the
            accelerator has additions of ours.
        quantiser: how scales are chosen.
        inputs: what inputs hold, by name, in real numbers: arrays, or .npy files; others are random.
        data: what the ranges are taken from, and accuracy is measured on (`baco.workloads.inputs.samples.read_samples`). Without
            it, ranges are those of `inputs`, or of random ones.
        check_layers: compare after every operator, in the program.
        compare: work out what the results must be.
        observe: sees the module after every pass.
        design: whose mappings the layers take where they are best; its accelerator is `accelerator`.
        objective: by which they are; by default the energy-delay product.
        try_schedules: of every layer so many are timed, and the fastest is taken; `report` is told of each.
        plan: that says how every layer is carried out; `source`, `accelerator` and `seed` are the plan's.
    """

    source: NetworkSource
    accelerator: Accelerator
    layers: int | None = None
    quantiser: Quantiser = DEFAULT
    seed: int = 0
    baseline: bool = False
    fusion: bool | None = None
    try_schedules: int = 0
    report: Callable[[str], None] | None = None
    inputs: Mapping[str, np.ndarray[Any, Any] | Path] = field(default_factory=dict)
    data: NetworkData | None = None
    check_layers: bool = False
    compare: bool = True
    observe: Callable[[str, ModuleOp], None] | None = None
    design: Candidate | None = None
    objective: Objective | None = None
    plan: Plan | None = None

    def __post_init__(self) -> None:
        """Raises InputError for what does not go together, before any work."""
        if self.layers is not None and self.layers < 1:
            raise InputError(f"a block runs at least once, not {self.layers} times")
        object.__setattr__(self, "quantiser", self.quantiser.on(self.accelerator))
        if self.fusion and self.accelerator.timing != "baco":
            raise InputError(
                "--fusion uses moves that the original Gemmini lacks, and the timing 'gemmini' is the original's",
                hint="leave one of them out",
            )
        if self.fusion and self.baseline:
            raise InputError(
                "--fusion and --baseline exclude each other: Gemmini's default tiling is that of single layers",
                hint="leave one of them out",
            )
        self._check_tried()

    def _check_tried(self) -> None:
        """Raises InputError for schedules to try where they are given."""
        if self.try_schedules < 0:
            raise InputError(f"{self.try_schedules} schedules cannot be tried")
        decided = {"--baseline": self.baseline, "a design": self.design is not None}
        for what, given in decided.items():
            if self.try_schedules and given:
                raise InputError(
                    f"--try-schedules and {what} exclude each other: it says which schedules layers have",
                    hint="leave one of them out",
                )

    @classmethod
    def of_plan(cls, plan: Plan, **options: Any) -> NetworkRequest:
        """The request for a plan's program; `options` are the other fields. Raises InputError where its samples are gone."""
        if options.get("data") is None and plan.data is not None:
            options["data"] = plan.data.checked()
        return cls(
            plan.network, plan.accelerator, quantiser=plan.quantiser, seed=plan.seed, plan=plan, **options
        )

    @classmethod
    def on(
        cls, machine: AcceleratorSource, mappings: str, source: NetworkSource, **options: Any
    ) -> NetworkRequest:
        """The request for a network on whatever gives an accelerator.

        Args:
            mappings: `study`: those of the design, where `machine` is one; `compiler`: its own for all layers.
            options: the other fields.

        Raises InputError for other `mappings`, and as `baco.accelerator` does.
        """
        if mappings not in MAPPINGS:
            raise InputError(f"there are no mappings '{mappings}'", hint=did_you_mean(mappings, MAPPINGS))
        found = design(machine)
        if found is None:
            return cls(source, accelerator(machine), **options)
        if mappings == "compiler":
            return cls(source, found[0].accelerator, **options)
        return cls(source, found[0].accelerator, design=found[0], objective=found[1], **options)


@dataclass(frozen=True)
class NetworkUnit:
    """A quantised network with what its inputs hold and what its values must be.

    Attributes:
        source: what was quantised; None for a tensor expression.
        data: of the inputs, by value.
        reference: of all values, if they are compared.
        inputs: the same as `data` in real numbers, by the network's names.
        assumed: what those of them hold that nobody gave, in sentences.
        samples: that were given.
    """

    request: NetworkRequest
    network: QuantisedNetwork
    source: Network | None
    data: Mapping[str, np.ndarray[Any, Any]]
    reference: Mapping[str, np.ndarray[Any, Any]] | None
    inputs: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    assumed: Sequence[str] = ()
    samples: SampleSet = field(default_factory=SampleSet)

    @cached_property
    def accuracy(self) -> ModelAccuracy | None:
        """How right the integers are on the samples; None for fewer than two without labels."""
        from baco.compiler.network.accuracy import measure_accuracy

        if self.source is None or (len(self.samples) < 2 and self.samples.labels is None):
            return None
        request = self.request
        return measure_accuracy(
            self.source,
            self.network,
            self.samples,
            quantiser=request.quantiser,
            seed=request.seed,
            layers=request.layers,
        )

    def compile(self, *, check: bool) -> NetworkProgram:
        """The program; with `check` it compares its results itself."""
        from baco.compiler.network.program import compile_network

        options = self._options()
        built = compile_network(
            self.network, self.request.accelerator, check=check, observe=self.request.observe, **options
        )
        if self.source is not None:
            built.lowered.notes.extend((*self.source.notes, *self.assumed))
        if self._searched or self.request.try_schedules:
            built.lowered.notes.append(options["schedule"].summary())
        return built

    def run(
        self,
        built: NetworkProgram,
        engine: str,
        *,
        timing: str | None = None,
        log: Path | None = None,
        report: Callable[[str], None] | None = None,
    ) -> tuple[NetworkRun, dict[str, np.ndarray[Any, Any]], tuple[str, ...], Agreement | None]:
        """What was measured, the outputs in real numbers, how operators and outputs differ from integers and from the user's
        model, in words, and how near they are to the latter (None for what is no model).

        The unit must have been made with its reference. Raises as `baco.api.unit.run_unit` does.
        """
        from baco.api.arrays import difference
        from baco.compiler.network.prediction import predict_steps
        from baco.compiler.network.quantise import real
        from baco.sim.job import Recording
        from baco.sim.network.run import run_network

        reference = self.reference
        assert reference is not None, "a run compares"
        run = run_network(
            built,
            reference,
            engine,
            predicted=[one.cycles for one in predict_steps(built.lowered, self.request.accelerator)],
            timing=timing,
            recording=Recording(log=log),
            report=report,
        )
        differences = (difference(name, array, reference[name]) for name, array in run.values.items())
        wrong = (*map(str, run.wrong), *(text for text in differences if text))
        values = {**self.network.constants, **self.data, **run.values}
        outputs = {
            name: self._declared(name, real(self.network, values, name)) for name in self.network.outputs
        }
        found = None if run.result.exit_code else self._agreement({**reference, **values})
        return run, outputs, (*wrong, *(found.problems if found else ())), found

    def _declared(self, name: str, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An output in the type that the model declares, where it does."""
        import numpy as np

        declared = self.source.output_types.get(name) if self.source is not None else None
        if declared is None:
            return np.asarray(numbers)
        whole = np.dtype(declared).kind in "iu" and numbers.dtype.kind == "f"
        return np.asarray(np.rint(numbers) if whole else numbers).astype(declared)

    def _agreement(self, values: Mapping[str, np.ndarray[Any, Any]]) -> Agreement | None:
        """With the user's model, of the elements of all values."""
        from baco.compiler.network.agreement import agreement
        from baco.compiler.network.parameters import Parameters
        from baco.compiler.network.quantise import runnable

        if self.source is None:
            return None
        parameters = Parameters(self.source.source, self.request.seed)
        network = runnable(self.source, parameters, self.request.layers, self.request.quantiser)
        given = bool(self.request.inputs) or self.request.data is not None
        return agreement(network, parameters, self.network, self.inputs, values, random=not given)

    def code(self) -> NetworkCode:
        """The module, for its text."""
        from baco.compiler.network.program import network_code

        return network_code(self.network, self.request.accelerator, **self._options())

    def library(self, name: str) -> CLibrary:
        """The network as a function of a C program. Raises InputError for a program that compares what its operators wrote."""
        from baco.compiler.network.program import network_library

        only_with("a program of its own", {"--check-layers": self.request.check_layers})
        return network_library(self.code(), self.request.accelerator, name)

    @property
    def _fuses(self) -> bool:
        from baco.compiler.network.program import fuses_by_default

        request = self.request
        ours = request.accelerator.timing == "baco"
        if request.fusion is not None:
            return request.fusion
        designed = request.plan is not None or self._searched
        return ours and (designed or fuses_by_default(request.accelerator))

    @property
    def _searched(self) -> bool:
        return self.request.design is not None and not self.request.baseline

    def _options(self) -> dict[str, Any]:
        request = self.request
        groups: GroupScheduler | None
        combinations: Combinations | None = None
        if request.plan is not None:
            schedule: Scheduler = request.plan
            groups = request.plan.group
        elif self._searched:
            from baco.exploration.objective import Objective
            from baco.exploration.studies.plan import SearchedSchedules

            assert request.design is not None
            objective = request.objective or Objective.parse("edp")
            searched = SearchedSchedules(request.design, objective)
            schedule, groups = searched, searched.group
        else:
            from baco.compiler.network.combinations import chosen_combinations
            from baco.compiler.network.group_choice import GroupChoice
            from baco.compiler.network.program import scheduler

            if request.try_schedules:
                from baco.exploration.measure.timed_choice import TimedChoice

                schedule = TimedChoice(request.accelerator, request.try_schedules, report=request.report)
            else:
                schedule = scheduler(request.accelerator, baseline=request.baseline)
            groups = None if request.baseline else GroupChoice(request.accelerator, schedule)
            if not request.baseline:
                combinations = chosen_combinations(request.accelerator, schedule, fused=self._fuses)
        return {
            "schedule": schedule,
            "groups": groups if self._fuses else None,
            "combinations": combinations,
            "library": request.baseline,
            "data": self.data,
            "reference": self.reference,
            "check_layers": request.check_layers,
        }


def prepare_network(
    request: NetworkRequest, check_outputs: Callable[[Sequence[str]], None] | None = None
) -> NetworkUnit:
    """Load, quantise and give inputs. Raises InputError for what is unknown, malformed or cannot be run.

    `check_outputs` is told the names of all outputs before anything takes time.
    """
    import numpy as np

    from baco.compiler.network.calibrate import assumed_inputs, random_inputs
    from baco.compiler.network.quantise import names_outside, quantise, quantise_inputs
    from baco.compiler.network.reference import reference
    from baco.exploration.measure.program_job import other_inputs
    from baco.workloads.expand import expand

    network = load_network(request.source)
    known, outputs = names_outside(network, request.layers)
    if check_outputs is not None:
        check_outputs(outputs)
    for name in request.inputs:
        if name not in known:
            raise InputError(f"the network has no input '{name}'", hint=did_you_mean(name, known))
    given = {
        name: load_array(one) if isinstance(one, Path) else np.asarray(one)
        for name, one in request.inputs.items()
    }
    _check_types(network, given)
    samples = SampleSet() if request.data is None else read_samples(request.data, network, known)
    calibrated = samples.inputs
    if not samples and given:
        calibrated = (random_inputs(expand(network), request.seed) | given,)
    quantised = quantise(
        network, calibrated, seed=request.seed, quantiser=request.quantiser, layers=request.layers
    )
    inputs = other_inputs(network, quantised, request.seed)
    if request.data is not None:
        inputs |= samples[0]
    inputs |= given
    data = quantise_inputs(quantised, inputs)
    compare = request.compare or request.check_layers
    wanted = reference(quantised, data) if compare else None
    assumed = assumed_inputs(expand(network), known if request.data is not None else given)
    return NetworkUnit(request, quantised, network, data, wanted, inputs, assumed, samples)


def _check_types(network: Network, given: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Raises InputError for numbers that the type which a model declares of an input does not have."""
    import numpy as np

    for name, array in given.items():
        declared = network.input_types.get(name)
        if declared is None or array.dtype.kind not in "fiub" or not array.size:
            continue
        low, high = (0, 1) if declared == "bool" else (np.iinfo(declared).min, np.iinfo(declared).max)
        wrong = array[(array < low) | (array > high) | (array != np.rint(array.astype(np.float64)))]
        if wrong.size:
            raise InputError(
                f"the input '{name}' is {declared} in the model, which does not have {wrong.reshape(-1)[0]:g}",
                location=Location(network.source),
            )


def network_macs(built: NetworkProgram) -> int:
    """Multiply-accumulates that all layers of a network's program ask for."""

    layers = built.lowered.layers
    macs = {name: code.layer.problem.macs for name, code in layers.items()}
    macs |= {
        name: sum(one.problem.macs for one in code.group.layers)
        for name, code in built.lowered.groups.items()
    }
    return sum(macs.get(step.function, 0) for step in built.lowered.steps)


def predicted_cycles(built: NetworkProgram) -> float:
    """What all steps of a network's program are predicted to take."""
    from baco.compiler.network.prediction import predict_steps

    return sum(one.cycles for one in predict_steps(built.lowered, built.program.accelerator))
