"""`baco.pipeline`: image and data pipelines, alone or around a network, as one program with one verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from baco.api.argument_types import checked
from baco.api.network_unit import NetworkRequest, NetworkUnit
from baco.api.program_options import Prepared
from baco.api.programs import Compiled, Run, compiled
from baco.api.sources import DEFAULT_ACCELERATOR, AcceleratorSource, NetworkSource
from baco.api.sources import accelerator as load_accelerator
from baco.api.sources import network as load_network
from baco.common.errors import InputError, did_you_mean
from baco.common.shown import Shown
from baco.workloads.network import Network
from baco.workloads.pipelines.emitter import PLACINGS, Placing
from baco.workloads.pipelines.images import images_of, read_image, write_image
from baco.workloads.pipelines.pipeline import (
    Numbers,
    ProvenRange,
    TracedPipeline,
    argument_names,
    given_inputs,
)

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.compiler.network.graph import QuantisedNetwork

__all__ = ["TensorPipeline", "TensorPipelineRun", "pipeline"]

Array = np.ndarray[Any, Any]
#: Largest error of results that real numbers have part in, as a share of the largest magnitude.
MOST_ERROR = 0.002


@dataclass(frozen=True)
class PartComparison:
    """A part's result beside that of who is asked for it.

    Attributes:
        part: `pre`, `network` or `post`.
        result: its name.
        judge: who computed the other one, from the same inputs.
        error: largest difference, as a share of the largest magnitude.
        exact: whether none is allowed, since the proof says so.
        problem: in words; empty where all is right.
    """

    part: str
    result: str
    judge: str
    error: float
    exact: bool
    problem: str = ""


@dataclass(frozen=True, repr=False)
class TensorPipelineRun(Shown):
    """One run of a pipeline's program.

    Attributes:
        run: of the program, compared with integers (`baco.Run`).
        outputs: by name, as the function gives them.
        comparisons: of each part with numpy in 64 bits, or the network's own evaluator.
    """

    run: Run
    outputs: Mapping[str, Array] = field(repr=False)
    comparisons: tuple[PartComparison, ...]

    @property
    def wrong(self) -> tuple[str, ...]:
        """All that differs, in words."""
        return (*self.run.wrong, *(one.problem for one in self.comparisons if one.problem))

    @property
    def right(self) -> bool:
        """The one verdict."""
        return self.run.right and not self.wrong

    @property
    def cycles(self) -> int | None:
        """From reset to the end; None for engines without timing."""
        return self.run.cycles

    @property
    def host_share(self) -> float | None:
        """Share of the cycles of all operators that the host core alone ran; None without timing."""
        table = self.run.operators
        if table is None or not len(table) or not table["cycles"].sum():
            return None
        return float(table.loc[table["on"] == "host", "cycles"].sum() / table["cycles"].sum())

    def _headline(self) -> str:
        verdict = "right" if self.right else "WRONG: " + "; ".join(self.wrong)
        cycles = "" if self.cycles is None else f", {self.cycles:,} cycles"
        return f"{self.run.name}: {verdict}{cycles}"

    def _facts(self) -> Iterator[tuple[str, object]]:
        share = self.host_share
        yield "host's share", None if share is None else f"{share:.1%}"
        for name, one in self.outputs.items():
            yield name, "×".join(map(str, one.shape)) or f"{float(one):g}"

    def _rows(self) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        rows = [(one.part, one.result, one.judge, f"{one.error:.2g}") for one in self.comparisons]
        return ("part", "result", "against", "error"), rows


@dataclass(frozen=True)
class _Program:
    """A compiled pipeline with what it was given.

    Attributes:
        front: results of `pre` by numpy.
        given: inputs of the network that follow from them.
    """

    unit: NetworkUnit
    program: Compiled
    front: Sequence[Array]
    given: Mapping[str, Array]
    post: TracedPipeline | None


class TensorPipeline:
    """A function of images or numbers, alone or before a network, and a function of its results, as one program.

    Made by `baco.pipeline`, which says what it is given.

    Attributes:
        pre: the traced function; None where the network comes first.
        network: the network, if there is one.
        name: what reports call it.
    """

    def __init__(
        self,
        pre: TracedPipeline | None,
        network: Network | None,
        post: Callable[..., Any] | None,
        placing: str,
        seed: int,
    ) -> None:
        self.pre, self.network, self._post = pre, network, post
        self.placing, self._seed = placing, seed
        functions = (None if pre is None else pre.name, None if network is None else network.name)
        parts = [*functions, None if post is None else getattr(post, "__name__", "post")]
        self.name = "-".join(one for one in parts if one)
        self._fronts: dict[Accelerator, QuantisedNetwork] = {}
        self._waiting: list[Future[TensorPipelineRun]] = []
        self._workers: ThreadPoolExecutor | None = None

    def proof(self) -> list[ProvenRange]:
        """Limits of what every operation of `pre` gives, with the user's lines."""
        return [] if self.pre is None else self.pre.proof()

    # Compiling

    @checked()
    def compile(
        self, accelerator: AcceleratorSource | None = None, *, inputs: Any = None, fusion: bool | None = None
    ) -> Compiled:
        """The program that computes the pipeline's results of some inputs.

        Args:
            accelerator: see `baco.accelerator`.
            inputs: an array or a file of an image, or of several inputs these by name; random ones without.
            fusion: as for `baco.compile`.

        Raises InputError, at the line of the function, for inputs of other sizes, with NaN or beyond the proven range.
        """
        return self._compiled(accelerator, inputs, fusion).program

    def places(self, accelerator: AcceleratorSource | None = None) -> dict[str, float]:
        """Predicted cycles of the program of `pre` for each place of its stencils, products and sums: packed on the array, on it as
        they are, or on the host. The least is taken."""
        machine = load_accelerator(DEFAULT_ACCELERATOR if accelerator is None else accelerator)
        return self._places(machine)

    def _places(self, machine: Accelerator) -> dict[str, float]:
        from baco.compiler.network.prediction import predict_steps

        assert self.pre is not None, "there is a function in front"
        found: dict[str, float] = {}
        for placing in PLACINGS:
            unit = self._unit(machine, self._given(machine, placing), {}, None)
            found[placing] = sum(one.cycles for one in predict_steps(unit.code().lowered, machine))
        return found

    def _front(self, machine: Accelerator) -> QuantisedNetwork:
        """`pre` where it takes the fewest predicted cycles, or where it was told to be; found once a machine."""
        if machine not in self._fronts:
            placing = self.placing
            if placing == "auto":
                figures = self._places(machine)
                placing = min(figures, key=lambda one: figures[one])
            self._fronts[machine] = self._given(machine, placing)
        return self._fronts[machine]

    def _given(self, machine: Accelerator, placing: str) -> QuantisedNetwork:
        from baco.compiler.network.quantise import quantise_given

        assert self.pre is not None
        shapes = None if self.network is None else [one.shape for one in self.network.inputs]
        return quantise_given(self.pre.network(Placing(placing, machine.dim), shapes), self._seed)

    def _unit(
        self, machine: Accelerator, network: QuantisedNetwork, data: Mapping[str, Array], fusion: bool | None
    ) -> NetworkUnit:
        from baco.compiler.network.reference import reference

        request = NetworkRequest(self.name, machine, seed=self._seed, fusion=fusion)
        wanted = reference(network, data) if data else None
        return NetworkUnit(request, network, None, data, wanted)

    def _compiled(self, accelerator: AcceleratorSource | None, inputs: Any, fusion: bool | None) -> _Program:
        from baco.compiler.network.compose import composed
        from baco.compiler.network.quantise import quantise, quantise_inputs

        machine = load_accelerator(DEFAULT_ACCELERATOR if accelerator is None else accelerator)
        arrays = self._arrays(inputs)
        parts: list[QuantisedNetwork] = []
        given = arrays
        front: Sequence[Array] = ()
        network_inputs: Mapping[str, Array] = {}
        if self.pre is not None:
            given = self.pre.graph_inputs(arrays)  # which are checked
            front = self.pre.evaluated(arrays)
            parts.append(self._front(machine))
        if self.network is not None:
            network_inputs = arrays if self.pre is None else self._network_inputs(front)
            parts.append(quantise(self.network, [network_inputs], seed=self._seed))
        post = None
        if self._post is not None:
            from baco.compiler.network.quantise import quantise_given

            post = _behind(self._post, parts[-1])
            parts.append(quantise_given(post.network(Placing("packed", machine.dim)), self._seed))
        whole = composed(self.name, parts)
        unit = self._unit(machine, whole, quantise_inputs(whole, given), fusion)
        return _Program(unit, compiled(Prepared(unit, machine)), front, network_inputs, post)

    def _network_inputs(self, front: Sequence[Array]) -> dict[str, Array]:
        """What the network reads: results of `pre`, by numpy, in its shapes."""
        assert self.network is not None
        found = {}
        for tensor, result in zip(self.network.inputs, front, strict=False):
            image = result.ndim == 3 and tensor.shape == (1, result.shape[2], *result.shape[:2])
            turned = result.transpose(2, 0, 1) if image else result
            found[tensor.name] = turned.reshape(tensor.shape).astype(np.float32)
        return found

    def _arrays(self, inputs: Any) -> dict[str, Array]:
        if inputs is None:
            if self.pre is not None:
                return self.pre.random(self._seed)
            from baco.compiler.network.calibrate import random_inputs

            assert self.network is not None
            return random_inputs(self.network, self._seed)
        names = list(self.pre.inputs) if self.pre is not None else [one.name for one in self.network.inputs]  # type: ignore[union-attr]
        if not isinstance(inputs, Mapping):
            inputs = {names[0]: inputs}
        return {
            name: read_image(Path(one)) if isinstance(one, (str, Path)) else np.asarray(one)
            for name, one in inputs.items()
        }

    # Running

    @checked()
    def run(
        self,
        inputs: Any = None,
        accelerator: AcceleratorSource | None = None,
        *,
        engine: str = "functional",
        fusion: bool | None = None,
        report: Callable[[str], None] | None = None,
    ) -> TensorPipelineRun:
        """Compile, simulate and compare: every operator with integers, each part with who else computes it.

        Args:
            inputs, accelerator, fusion: as for `compile`.
            engine, report: as for `baco.Compiled.run`.

        Raises as `compile`, SimulationError for a program that had to be stopped.
        """
        made = self._compiled(accelerator, inputs, fusion)
        run = made.program.run(engine, report=report)
        names = self._output_names(made)
        shapes = self._shapes(made)
        outputs = {
            name: array if shape is None else _shaped(array, shape)
            for name, array, shape in zip(names, run.outputs.values(), shapes, strict=True)
        }
        return TensorPipelineRun(run, outputs, tuple(self._comparisons(made)))

    def run_async(
        self, inputs: Any = None, accelerator: AcceleratorSource | None = None, *, engine: str = "functional"
    ) -> Future[TensorPipelineRun]:
        """The same in the background; `sync` waits for all that was begun."""
        if self._workers is None:
            self._workers = ThreadPoolExecutor(1, "pipeline")
        self._waiting.append(self._workers.submit(self.run, inputs, accelerator, engine=engine))
        return self._waiting[-1]

    def sync(self) -> list[TensorPipelineRun]:
        """What `run_async` began since the last time, in order. Raises what went wrong first."""
        waiting, self._waiting = self._waiting, []
        return [one.result() for one in waiting]

    @checked()
    def run_folder(
        self,
        folder: str | Path,
        out: str | Path | None = None,
        accelerator: AcceleratorSource | None = None,
        *,
        engine: str = "functional",
        suffix: str = ".png",
    ) -> dict[str, TensorPipelineRun]:
        """A run for every image of a folder, by file name; results that are pictures are written to `out`, the others as .npy.

        Raises as `run`, StorageError where nothing can be written.
        """
        found = {}
        for path in images_of(Path(folder)):
            found[path.name] = self.run(path, accelerator, engine=engine)
            for name, array in found[path.name].outputs.items() if out is not None else ():
                picture = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)
                write_image(Path(out or "") / f"{path.stem}.{name}{suffix if picture else '.npy'}", array)
        return found

    # What results are

    def _output_names(self, made: _Program) -> list[str]:
        if made.post is not None:
            return made.post.output_names
        return list(made.unit.network.outputs)

    def _shapes(self, made: _Program) -> list[tuple[int, ...] | None]:
        """Of results, where a function says so; a network's are as they are."""
        last = made.post if made.post is not None else self.pre if self.network is None else None
        if last is not None:
            return [node.shape for node in last.outputs]
        return [None for _ in made.unit.network.outputs]

    def _comparisons(self, made: _Program) -> Iterator[PartComparison]:
        """Each part beside numpy or the network's evaluator; of what the part read, as the integers have it."""
        network, values = made.unit.network, made.unit.reference
        assert values is not None, "it was compiled with inputs"
        number = 0
        if self.pre is not None:
            ours = _results(network, values, number)
            yield from _against_numpy("pre", self.pre, made.front, ours)
            number += 1
        if self.network is not None:
            ours = _results(network, values, number)
            yield from self._judged(made.given, ours)
            number += 1
        if made.post is not None:
            given = dict(zip(made.post.inputs, _results(network, values, number - 1), strict=True))
            yield from _against_numpy(
                "post", made.post, made.post.evaluated(given), _results(network, values, number)
            )

    def _judged(self, given: Mapping[str, Array], ours: Sequence[Array]) -> Iterator[PartComparison]:
        from baco.compiler.network.agreement import LEAST_DB, LEAST_EQUAL, compare_tensors
        from baco.compiler.network.float_graph import FloatGraph
        from baco.compiler.network.parameters import Parameters
        from baco.compiler.network.quantise import runnable

        assert self.network is not None
        if self.network.judge is not None:
            judge, wanted = self.network.judge(given)
        else:
            parameters = Parameters(self.network.source, self._seed)
            judge = "the network in floating point"
            wanted = FloatGraph(runnable(self.network, parameters), parameters).run(given)
        for number, (theirs, array) in enumerate(zip(wanted, ours, strict=True)):
            name = self.network.output_names[number] if self.network.output_names else f"output{number}"
            one = compare_tensors(name, np.asarray(theirs).reshape(array.shape), array)
            worse = one.snr_db < LEAST_DB if one.equal is None else one.equal < LEAST_EQUAL
            problem = (
                f"network: '{name}' is further from {judge} than rounding explains: {one}" if worse else ""
            )
            yield PartComparison("network", name, judge, one.error, False, problem)


def _results(network: QuantisedNetwork, values: Mapping[str, Array], number: int) -> list[Array]:
    """Results of a part in real numbers."""
    return [
        np.asarray(network.read(view, values))
        for name, view in network.tensors.items()
        if name.startswith(f"{number}:")
    ]


def _against_numpy(
    part: str, function: TracedPipeline, wanted: Sequence[Array], ours: Sequence[Array]
) -> Iterator[PartComparison]:
    for name, exact, theirs, array in zip(function.output_names, function.exact, wanted, ours, strict=True):
        shaped = _shaped(array, theirs.shape).astype(np.float64)
        difference = float(np.abs(shaped - theirs).max(initial=0.0))
        error = difference / max(float(np.abs(theirs.astype(np.float64)).max(initial=0.0)), 1e-30)
        problem = ""
        if exact and difference:
            problem = f"{part}: '{name}' is {difference:g} off, but is proven to be exact"
        elif not error <= MOST_ERROR:
            problem = f"{part}: '{name}' is {error:.2%} off what numpy computes"
        yield PartComparison(part, name, "numpy in 64 bits", error if difference else 0.0, exact, problem)


def _shaped(array: Array, shape: tuple[int, ...]) -> Array:
    """As the function has it: a network's (1, C, H, W) as (H, W, C)."""
    if array.shape == shape:
        return array
    if len(shape) == 3 and array.shape == (1, shape[2], *shape[:2]):
        return np.asarray(array[0].transpose(1, 2, 0))
    return np.asarray(array.reshape(shape))


def _behind(function: Callable[..., Any], network: QuantisedNetwork) -> TracedPipeline:
    """A function traced on the results of a network, in the range that their bytes have."""
    from baco.compiler.ops.views import View

    given = {}
    for name, view in network.outputs.items():
        if not isinstance(view, View):
            raise InputError(f"'{name}' is kept in parts, which a function behind cannot read")
        value, limit = network.values[view.value], 2.0**40
        if value.dtype == "int8":
            ends = np.array([-128, 127])
            numbers = ends * value.scale if value.encoding is None else value.encoding.real(ends)
            limit = float(np.abs(numbers).max())
        given[name] = Numbers(view.shape, -limit, limit, real=True)
    names = argument_names(function)
    named = dict(zip(names, given.values(), strict=True)) if len(names) == len(given) else given
    return TracedPipeline(function, given_inputs(function, named))


@checked()
def pipeline(
    pre: Callable[..., Any] | None = None,
    network: NetworkSource | None = None,
    post: Callable[..., Any] | None = None,
    *,
    inputs: Any = None,
    placing: str = "auto",
    seed: int = 0,
) -> TensorPipeline:
    """An image or data pipeline, with a network in its middle or without, as one program.

    The functions are run once on tensors without elements (traced). They compute with numpy's operators and functions, and those of
    `baco.pipelines`; numbers are whole ones of any size, not those of a type, and results are rounded where the functions say so.

    Args:
        pre: of the inputs; its results are the network's inputs, or the pipeline's results.
        network: see `baco.network`.
        post: of the network's outputs.
        inputs: shapes of the inputs of `pre`, which hold 0 to 255 (an image: (height, width) or (height, width, channels)), by name
            where there are several; `baco.pipelines.Numbers` for other numbers.
        placing: of stencils, products and sums: `auto` (the fewest predicted cycles), `packed` (the array, with pixels side by side as
            channels), `array` (as they are) or `host`.
        seed: of random inputs, and of parameters that a network does not give.

    Raises InputError, at the line of the function, for what cannot be traced, does not end, or is not proven to stay in range.
    """
    if placing not in ("auto", *PLACINGS):
        raise InputError(f"there is no place '{placing}'", hint=did_you_mean(placing, ("auto", *PLACINGS)))
    if pre is None and network is None:
        raise InputError("a pipeline is a function, a network, or both")
    if pre is not None and inputs is None:
        raise InputError("the shapes of the inputs are missing", hint="inputs=(height, width, channels)")
    front = None if pre is None else TracedPipeline(pre, given_inputs(pre, inputs))
    graph = None if network is None else load_network(network)
    if front is not None and graph is not None and len(front.outputs) != len(graph.inputs):
        raise InputError(
            f"the pipeline gives {len(front.outputs)} results, but the network has {len(graph.inputs)} inputs",
            location=front.line,
        )
    return TensorPipeline(front, graph, post, placing, seed)
