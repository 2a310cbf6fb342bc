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
from baco.workloads.pipelines.pipeline import ProvenRange, TracedPipeline, given_inputs

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.compiler.network.graph import QuantisedNetwork
    from baco.compiler.network.pipeline_parts import JoinedPipeline, PartComparison, PipelineParts

__all__ = ["TensorPipeline", "TensorPipelineRun", "pipeline"]

Array = np.ndarray[Any, Any]


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
        return self._compiled(accelerator, inputs, fusion)[1]

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
        return self._parts().front_network(Placing(placing, machine.dim))

    def _parts(self) -> PipelineParts:
        from baco.compiler.network.pipeline_parts import PipelineParts

        return PipelineParts(self.name, self.pre, self.network, self._post, self._seed)

    def _unit(
        self, machine: Accelerator, network: QuantisedNetwork, data: Mapping[str, Array], fusion: bool | None
    ) -> NetworkUnit:
        from baco.compiler.network.reference import reference

        request = NetworkRequest(self.name, machine, seed=self._seed, fusion=fusion)
        wanted = reference(network, data) if data else None
        return NetworkUnit(request, network, None, data, wanted)

    def _compiled(
        self, accelerator: AcceleratorSource | None, inputs: Any, fusion: bool | None
    ) -> tuple[JoinedPipeline, Compiled, NetworkUnit]:
        machine = load_accelerator(DEFAULT_ACCELERATOR if accelerator is None else accelerator)
        arrays = self._arrays(inputs)
        if self.pre is not None:
            arrays = self.pre.checked(arrays)
        front = None if self.pre is None else self._front(machine)
        made = self._parts().joined(arrays, front, machine.dim)
        unit = self._unit(machine, made.whole, made.data, fusion)
        return made, compiled(Prepared(unit, machine)), unit

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
        made, program, unit = self._compiled(accelerator, inputs, fusion)
        run = program.run(engine, report=report)
        assert unit.reference is not None, "it was compiled with inputs"
        comparisons = tuple(made.comparisons(unit.reference))
        return TensorPipelineRun(run, made.outputs(list(run.outputs.values())), comparisons)

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
