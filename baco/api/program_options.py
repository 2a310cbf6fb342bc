"""What `baco.compile` and `baco.run` are given, and the unit that it describes: one reader for Python and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from baco.api.argument_types import check_seed, check_value
from baco.api.layers import schedule_for
from baco.api.network_unit import NetworkRequest, NetworkUnit, prepare_network
from baco.api.quantised import QuantisedModel
from baco.api.sources import DEFAULT_ACCELERATOR, AcceleratorSource, NetworkSource, with_timing
from baco.api.sources import accelerator as load_accelerator
from baco.api.unit import Observer, Unit, launch_unit, layer_unit
from baco.common.errors import InputError, Location, only_with
from baco.compiler.layers.layer import Layer
from baco.compiler.network.quantiser import Quantiser
from baco.compiler.network.tensor_program import TensorProgram

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.compiler.ir.text import Level
    from baco.compiler.language.jit import BoundLaunch
    from baco.compiler.network.plan import Plan
    from baco.workloads.inputs.samples import NetworkData


#: A layer (`baco.gemm`, `baco.conv`), a tensor expression (`baco.expression`), a network, a launch of a kernel, bound to its arguments;
#: or a module of the IR that was read (`baco.api.unit.Unit`).
ProgramSource: TypeAlias = Union[Layer, TensorProgram, "BoundLaunch", Unit, QuantisedModel, NetworkSource]
Array = np.ndarray[Any, Any]
#: Options that say something of networks alone.
_OF_QUANTISERS = ("scales", "observer", "weight_format", "weight_scales", "weight_rounding", "equalisation")
_OF_NETWORKS = (
    *("inputs", "data", "layers", *_OF_QUANTISERS),
    *("mappings", "fusion", "try_schedules", "check_layers"),
)


@dataclass(frozen=True)
class CompileOptions:
    """A program that computes a layer, a tensor expression, a whole network in int8, or a launch of a kernel.

    Args:
        source: `baco.gemm(...)` or `baco.conv(...)`; `baco.expression(...)`; a network as `baco.network` takes it, what `baco.quantise` gives, or the plan of a
            validated design (`best/plan.json`); or `kernel[grid].bind(...)`.
        accelerator: see `baco.accelerator`; by default `gemmini-default`, or what the launch is for.
        style: of a layer: `auto` (the fastest by estimate), `explicit` or `macro`.
        mapping: of a layer: loops to carry it out by, as text. Of an expression: which iterations share one of the array's, as
            `m=n,p,q n=k k=c`.
        baseline: Gemmini's default tiling; a network altogether as its library would run it.
        inputs: of a network, by name, in real numbers; random ones otherwise. Ranges of activations are taken from them,
            unless there is `data`.
        data: of a network: samples that ranges are taken from and accuracy is measured on. Arrays by input with the input's shape,
            or samples along a first axis before it (in place of one that is 1), and `label`, the class of every sample; a .npz file
            of them, or a folder of such files; or anything that gives these one after the other, as torch's loaders do: dicts,
            or pairs of arrays and labels. The first sample is what inputs hold that are not given.
        layers: of a network: run repeated blocks only so many times.
        scales: of a network's quantisation: `float` or `power-of-two`.
        observer: where scales of activations end: `mse`, `min-max`, `percentile` or `entropy`.
        weight_format: of a network's trained weights: `int8`, or `int4`, which lie two a byte where the accelerator has `packed_weights`.
            On arrays of bfloat16, blocks of 32 channels with a shared power of two, `mxint8`, `mxfp8-e4m3`, `mxfp8-e5m2` or `mxfp4`, which
            lie so where the accelerator has `block_weights`, and are stored as bfloat16 else.
        weight_scales: one for all weights of a layer, `tensor`, or one for each `channel` of its output.
        weight_rounding: of trained weights: `nearest`, or `compensated`: one after the other, those still to come taking back what
            rounded ones add to sums of the samples.
        equalisation: channels of neighbouring layers are brought to like ranges first, by powers of two.
        seed: of random contents.
        check: the program compares its results itself, and exits with 1 where they differ.
        check_layers: of a network: it compares what every operator wrote, and ends at the first difference.
        mappings: of a network, where `accelerator` is a design, a result or a study's folder: `study` takes the design's
            mappings for the layers that they are best for, and the compiler's own for the others; `compiler` its own for all.
        fusion: of a network: operators run as one unit where that is predicted to pay, by moves that the original Gemmini lacks; None: in
            programs for designs of a study, and where the accelerator has units for functions of rows, which it lacks, too.
        try_schedules: of a network: so many promising schedules of every different layer are run, by itself, on the model of the units in
            time (of the original's with its timing), and the fastest is taken; 0: the fastest by estimate. Results are kept, so
            that a layer is not run again.
        timing: whose cycles are predicted, and decide how the program is made: `baco` (our Verilog's) or `gemmini` (the original
            Gemmini's in a Rocket system); by default what the accelerator says.

    Raises InputError for what is malformed or does not go together, InfeasibleError where the accelerator cannot do it.
    """

    source: ProgramSource
    accelerator: AcceleratorSource | None = None
    _: KW_ONLY
    style: str = "auto"
    mapping: str | None = None
    baseline: bool = False
    inputs: Mapping[str, Array] | None = None
    data: NetworkData | None = None
    layers: int | None = None
    scales: str = "float"
    observer: str = "mse"
    weight_format: str = "int8"
    weight_scales: str = "tensor"
    weight_rounding: str = "nearest"
    equalisation: bool = False
    seed: int = 0
    check: bool = False
    mappings: str = "study"
    fusion: bool | None = None
    try_schedules: int = 0
    timing: str | None = None
    check_layers: bool = False

    def __post_init__(self) -> None:
        for one in fields(self):
            check_value(one.name, getattr(self, one.name), one.type)
        check_seed(self.seed)
        self._check_kinds()

    def _given(self, *names: str) -> dict[str, bool]:
        """Which of the options differ from what they are by default, by how the command line writes them."""
        usual = {one.name: one.default for one in fields(self)}
        return {
            f"--{name.replace('_', '-')}": getattr(self, name) is not usual[name]
            and getattr(self, name) != usual[name]
            for name in names
        }

    def _check_kinds(self) -> None:
        """Raises InputError for an option that means nothing of what is compiled."""
        from baco.compiler.language.jit import BoundLaunch

        of_networks = self._given(*_OF_NETWORKS)
        if isinstance(self.source, Layer):
            only_with("a network", of_networks)
        elif isinstance(self.source, TensorProgram):
            only_with("a layer or a network", of_networks | self._given("baseline", "style"))
        elif isinstance(self.source, (BoundLaunch, Unit)):
            only_with("a layer or a network", of_networks | self._given("baseline", "style", "mapping"))
        else:
            only_with("a layer", self._given("style", "mapping"))

    @property
    def plan(self) -> Plan | None:
        """The plan that the source is the file of, read. Raises InputError for options that it decides."""
        from baco.compiler.network.plan import Plan

        if not isinstance(self.source, (str, Path)) or not str(self.source).endswith(".json"):
            return None
        plan = Plan.read(self.source)
        decided = self._given("mappings", "baseline", "layers", "fusion", "try_schedules", *_OF_QUANTISERS)
        decided["--seed"] = self.seed not in (0, plan.seed)
        for name, given in decided.items():
            if given:
                raise InputError(
                    f"a plan says it all: {name} and a plan exclude each other",
                    location=Location(str(self.source)),
                )
        if self.accelerator is not None:
            theirs = load_accelerator(self.accelerator).config_hash
            if theirs != plan.accelerator.config_hash:
                raise InputError(
                    f"the plan is for the accelerator {plan.accelerator.config_hash}, not for {theirs}",
                    location=Location(str(self.source)),
                    hint="leave --accelerator out",
                )
        return plan

    def request(
        self,
        *,
        compare: bool = True,
        observe: Observer | None = None,
        report: Callable[[str], None] | None = None,
    ) -> NetworkRequest:
        """Of a network, how it is to be compiled. Raises InputError for what does not go together."""
        common: dict[str, Any] = {
            "inputs": self.inputs or {},
            "data": self.data,
            "check_layers": self.check_layers,
            "compare": compare,
            "observe": observe,
            "report": report,
        }
        plan, source = self.plan, self.source
        quantiser = Quantiser(**{name: getattr(self, name) for name in _OF_QUANTISERS})
        if isinstance(source, QuantisedModel):
            for name, given in self._given(*_OF_QUANTISERS).items():
                if given:
                    raise InputError(f"a quantised model says it all: it and {name} exclude each other")
            quantiser = source.quantiser
            common["data"] = source.samples if self.data is None else self.data
            source = source.network
        if plan is not None:
            request = NetworkRequest.of_plan(plan, **common)
        else:
            assert not isinstance(source, (Layer, TensorProgram, Unit))
            request = NetworkRequest.on(
                DEFAULT_ACCELERATOR if self.accelerator is None else self.accelerator,
                self.mappings,
                source,  # type: ignore[arg-type]
                layers=self.layers,
                quantiser=quantiser,
                seed=self.seed,
                baseline=self.baseline,
                fusion=self.fusion,
                try_schedules=self.try_schedules,
                **common,
            )
        if self.timing is None:
            return request
        return replace(request, accelerator=with_timing(request.accelerator, self.timing))

    def machine(self) -> Accelerator:
        """What the program is for."""
        from baco.compiler.language.jit import BoundLaunch

        plan = self.plan
        if plan is not None:
            machine = plan.accelerator
        elif self.accelerator is None and isinstance(self.source, BoundLaunch):
            machine = self.source.options.machine()
        else:
            machine = load_accelerator(DEFAULT_ACCELERATOR if self.accelerator is None else self.accelerator)
        return machine if self.timing is None else with_timing(machine, self.timing)

    @property
    def level(self) -> Level:
        """Of the IR, at which what is compiled begins."""
        from baco.compiler.language.jit import BoundLaunch

        if isinstance(self.source, Unit):
            return self.source.level
        return "baco" if isinstance(self.source, BoundLaunch) else "instgem"

    def prepared(
        self,
        *,
        compare: bool = True,
        observe: Observer | None = None,
        report: Callable[[str], None] | None = None,
    ) -> Prepared:
        """What will be lowered, with what its results must be where they are compared; `report` is told what choosing schedules takes
        time for. Raises as `baco.compile` does."""
        from baco.compiler.language.jit import BoundLaunch

        source = self.source
        if not isinstance(source, (Layer, TensorProgram, Unit, BoundLaunch)):
            request = self.request(compare=compare, observe=observe, report=report)
            return Prepared(prepare_network(request), request.accelerator, observe=observe)
        machine = self.machine()
        if isinstance(source, TensorProgram):
            from baco.api.expressions import expression_unit

            matched, matching = expression_unit(source, machine, self.mapping, self.seed)
            return Prepared(matched, machine, matching, observe, source.contraction.macs)
        if isinstance(source, Layer):
            source = replace(source, elements=machine.input_format)
            chosen = schedule_for(
                source, machine, style=self.style, mapping=self.mapping, baseline=self.baseline
            )
            unit = layer_unit(source, chosen, machine, seed=self.seed, compare=compare)
            return Prepared(unit, machine, str(chosen), observe)
        unit = source if isinstance(source, Unit) else launch_unit(source, machine, compare=compare)
        return Prepared(unit, machine, observe=observe)


@dataclass(frozen=True)
class Prepared:
    """What is to become a program.

    Attributes:
        unit: what is lowered.
        accelerator: that it is for.
        schedule: how it is carried out, as text.
        observe: sees the module after every pass.
        macs: multiply-accumulates that it asks for, where the unit does not know.
    """

    unit: Unit | NetworkUnit
    accelerator: Accelerator
    schedule: str | None = None
    observe: Observer | None = None
    macs: int | None = None

    @property
    def name(self) -> str:
        """Of the program."""
        if isinstance(self.unit, Unit):
            return self.unit.name
        return str(self.unit.request.source) if self.unit.source is None else self.unit.network.name
