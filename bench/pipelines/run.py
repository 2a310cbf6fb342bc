"""Six pipelines on the accelerator beside a C version on its host core, in cycles and in error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, page_of, silent, table
from baco.bench.pipelines import six
from baco.bench.pipelines.cameras import CAMERAS, camera_row, camera_table, host_share
from baco.common.errors import BacoError
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import compile_network, network_code
from baco.compiler.network.quantise import quantise_given, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.ops.accesses import of_chosen
from baco.compiler.ops.host_work import HostWork, counted
from baco.compiler.ops.operator import (
    Array,
    Dependences,
    HostCall,
    IntegerOperator,
    IntegerTensor,
    Read,
    Values,
)
from baco.compiler.ops.views import View, dense
from baco.sim.job import Limits
from baco.sim.network.run import NetworkRun, run_network
from baco.workloads.pipelines.byte_choice import in_order
from baco.workloads.pipelines.emitter import PLACINGS, Placing
from baco.workloads.pipelines.pipeline import Numbers, TracedPipeline

_CODE = Path(__file__).with_name("plain.c").read_text("utf-8")
#: Pipelines of images: function, channels.
_IMAGES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "tone": (six.tone, 3),
    "gaussian": (six.gaussian, 1),
    "sharpness": (six.sharpness, 3),
    "canny": (six.canny, 3),
    "mean_std": (six.mean_std, 3),
}
SIX = (*_IMAGES, "knn")
NAMES = (*SIX, *CAMERAS)
#: Share from which on the host does all.
_ALL = 0.99
#: Height and width of an image, rows and depth of data that run on the RTL.
_REDUCED = (24, 32, 60, 50)
#: Programs end; of a whole frame some take billions of cycles.
_LIMITS = Limits(max_cycles=0)


@dataclass(frozen=True)
class PlainPipeline(IntegerOperator):
    """output = what the C function of `plain.c` gives; `data`: further memory that it reads, or uses."""

    input: View
    function: str
    sizes: tuple[int, ...]
    wanted: Callable[[Array, Array | None], Array]
    data: View | None = None

    def compute(self, read: Read) -> Array:
        """See the class."""
        return self.wanted(read(self.input), None if self.data is None else read(self.data))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_chosen(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        operands = (self.input, *((self.data,) if self.data is not None else ()), self.output)
        work = HostWork(self.function, counted(elements=self.input.words), cycles={"elements": 1.0})
        return HostCall(self.function, "plain.c", self.sizes, operands, work, code=_CODE)


def example(name: str, height: int, width: int, rows: int, depth: int) -> TracedPipeline:
    """One of `SIX`."""
    if name == "knn":
        data = six.features(rows, depth)
        return TracedPipeline(six.nearest(data), {"query": Numbers((depth,), six.LEAST, six.MOST)})
    function, channels = _IMAGES[name]
    return TracedPipeline(function, {"image": Numbers((height, width, channels)[: 2 + (channels > 1)])})


def places(made: TracedPipeline, machine: Accelerator) -> dict[str, float]:
    """Predicted cycles of the whole program, by where stencils, products and sums are computed."""
    found = {}
    for placing in PLACINGS:
        quantised = quantise_given(made.network(Placing(placing, machine.dim)))
        lowered = network_code(quantised, machine).lowered
        found[placing] = sum(one.cycles for one in predict_steps(lowered, machine))
    return found


def measured(
    made: TracedPipeline, given: Array, machine: Accelerator, placing: str, engine: str
) -> tuple[NetworkRun, float, list[Array]]:
    """(What ran, the largest error against numpy in 64 bits as a share of the largest magnitude, results).

    Raises BacoError for results that are not the integers', and for a difference where the proof says that there is none.
    """
    arrays = {next(iter(made.inputs)): given}
    quantised = quantise_given(made.network(Placing(placing, machine.dim)))
    data = quantise_inputs(quantised, made.graph_inputs(arrays))
    values = reference(quantised, data)
    built = compile_network(quantised, machine, data=data, check=False)
    run = run_network(built, values, engine, limits=_LIMITS)
    if run.wrong:
        raise BacoError(f"{made.name}: {run.wrong[0]}")
    errors, results = [], []
    written = {**quantised.constants, **data, **run.values}
    for name, wanted, exact in zip(quantised.outputs, made.evaluated(arrays), made.exact, strict=True):
        array = np.asarray(quantised.read_output(name, written)).reshape(wanted.shape)
        apart = float(np.abs(array - wanted).max(initial=0.0))
        if exact and apart:
            raise BacoError(f"{made.name}: '{name}' is {apart:g} off, but is proven to be exact")
        errors.append(apart / max(float(np.abs(wanted).max(initial=0.0)), 1e-30))
        results.append(array)
    return run, max(errors), results


def plain_network(name: str, made: TracedPipeline, given: Array) -> tuple[QuantisedNetwork, dict[str, Array]]:
    """(The C version as a network of one operator, what its input holds)."""
    results = made.evaluated({next(iter(made.inputs)): given})
    dtype = {"sharpness": "float32", "mean_std": "float32", "knn": "int32"}.get(name, "int8")
    wanted = np.stack([np.asarray(one, np.float64) for one in results]).reshape(-1)
    stored: Array = wanted.astype(np.uint8).view(np.int8) if dtype == "int8" else wanted.astype(dtype)
    values = {
        "input": IntegerTensor("input", given.shape, "int8", 1.0, "input"),
        "output": IntegerTensor("output", stored.shape, dtype, 1.0, "output"),  # type: ignore[arg-type]
    }
    constants: dict[str, Array] = {}
    sizes = given.shape[:2] if name in ("gaussian", "sharpness", "canny") else (given.size, 1)
    data = None
    if name == "knn":
        data = six.features(*_shape_of_data(made))
        sizes = data.shape
    elif name == "canny":
        data = np.zeros(given.shape[0] * given.shape[1] * 8)
    if data is not None:
        values["data"] = IntegerTensor("data", data.shape, "int8", 1.0, "constant")
        constants["data"] = data.astype(np.int8)
    operator = PlainPipeline(
        name,
        (name,),
        dense("output", stored.shape),
        dense("input", given.shape),
        f"plain_{name}",
        sizes,
        lambda _, __: stored,
        None if data is None else dense("data", data.shape),
    )
    outside = {"input": dense("input", given.shape)}, {"output": dense("output", stored.shape)}
    network = QuantisedNetwork(f"plain-{name}", values, (operator,), constants, *outside)
    return network, {"input": given.astype(np.uint8 if name != "knn" else np.int8).view(np.int8)}


def _shape_of_data(made: TracedPipeline) -> tuple[int, int]:
    """Rows and depth of what neighbours are looked for in."""
    nodes = (node for node in in_order(made.outputs) if node.function == "binary")
    difference = next(node for node in nodes if node.attributes["name"] == "sub")
    return int(difference.shape[0]), int(difference.shape[1])


def plain_cycles(
    name: str, made: TracedPipeline, given: Array, machine: Accelerator, engine: str
) -> int | None:
    """Cycles of the C version, whose results must be those of numpy. Raises BacoError where they are not."""
    network, data = plain_network(name, made, given)
    values = reference(network, data)
    built = compile_network(network, machine, data=data, check=False)
    run = run_network(built, values, engine, limits=_LIMITS)
    if run.wrong and name not in ("tone", "sharpness", "mean_std"):  # whose last bits are those of float32
        raise BacoError(f"the C version of {name}: {run.wrong[0]}")
    return run.result.cycles


def run(
    names: Sequence[str] = NAMES,
    *,
    accelerator: str = "gemmini-default",
    height: Annotated[int, Interval(ge=16, le=4096)] = 1080,
    width: Annotated[int, Interval(ge=16, le=4096)] = 1920,
    rows: Annotated[int, Interval(ge=8, le=100_000)] = 5000,
    depth: Annotated[int, Interval(ge=8, le=1000)] = 1000,
    image: Annotated[int, Interval(ge=32, le=1024)] = 224,
    engine: str = "timed",
    rtl: bool = False,
    seed: int = 0,
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Six pipelines of images and numbers as programs, beside a C version on the host core: cycles, error, what packing gains; and a
    camera's frames to classes or boxes, through a network.

    Args:
        names (--pipeline): repeatable: tone, gaussian, sharpness, canny, mean_std, knn, classes, boxes; by default all.
        accelerator: what they run on.
        height: of images.
        width: of images.
        rows: of the data whose nearest rows are looked for.
        depth: numbers of a row.
        image: height and width that networks read.
        engine: that counts the cycles: timed or rtl; functional: results alone, and predicted cycles.
        rtl: run each on the RTL, too: of the six reduced ones (24×32 pixels, 60×50 numbers), with pixels side by side and without.
        seed: of images.
        out: folder for pipelines.md and pipelines.json.

    Raises InputError for another name, BacoError for results that are not numpy's, and what compiling and simulating raise.
    """
    check_names(names, NAMES, "pipeline", "pipeline")
    files, machine = ResultFiles(out, "pipelines", page), load_accelerator(accelerator)
    found: list[dict[str, Any]] = []
    for name in names:
        say(name)
        if name in CAMERAS:
            for counted in (engine, *(["rtl"] if rtl else [])):
                found.append(camera_row(name, (height, width), image, machine, counted, seed))
                files.keep(found)
            continue
        made = example(name, height, width, rows, depth)
        predicted = places(made, machine)
        best = min(predicted, key=lambda place: predicted[place])
        (given,) = made.random(seed).values()
        ran, error, _ = measured(made, given, machine, best, engine)
        found.append(
            {
                "pipeline": name,
                "size": "×".join(map(str, (rows, depth) if name == "knn" else given.shape)),
                "places": predicted,
                "place": best,
                "engine": engine,
                "cycles": ran.result.cycles,
                "host_share": host_share(ran.operators),
                "plain": plain_cycles(name, made, given, machine, engine),
                "error": error,
                "exact": all(made.exact),
                "rtl": _on_rtl(name, machine, seed) if rtl else None,
            }
        )
        files.keep(found)
    return found


def _on_rtl(name: str, machine: Accelerator, seed: int) -> dict[str, Any]:
    """A reduced pipeline on the RTL: its cycles with pixels side by side and without, the C version's, and the largest error."""
    made = example(name, *_REDUCED)
    (given,) = made.random(seed).values()
    (packed, error, _), (alone, other, _) = (
        measured(made, given, machine, placing, "rtl") for placing in ("packed", "array")
    )
    size = "×".join(map(str, _REDUCED[2:] if name == "knn" else given.shape))
    cycles = {"packed": packed.result.cycles, "array": alone.result.cycles}
    cycles["plain"] = plain_cycles(name, made, given, machine, "rtl")
    return {"size": size, "cycles": cycles, "error": max(error, other)}


def _ratio(row: Mapping[str, Any]) -> str:
    return f"{row['plain'] / row['cycles']:.2f}" if row["plain"] and row["cycles"] else ""


def _verdict(row: Mapping[str, Any]) -> str:
    if not row["plain"] or not row["cycles"]:
        return ""
    if row["cycles"] >= row["plain"]:
        return "keep it in C on the host"
    return "accelerator" if row["host_share"] < _ALL else "tables, on the host"


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _error(row: Mapping[str, Any]) -> str:
    return "0" if not row["error"] else f"{row['error']:.1e}"


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The tables."""
    six_rows = [row for row in rows if row["pipeline"] not in CAMERAS]
    cameras = [row for row in rows if row["pipeline"] in CAMERAS]
    reduced = [row for row in six_rows if row["rtl"]]
    parts = ["Programs of `baco.pipeline` on the accelerator, made by `baco bench pipelines`."]
    if six_rows:
        engines = " or ".join(sorted({row["engine"] for row in six_rows}))
        parts.append(
            f"Beside a C version of each on the accelerator's host core, counted by the engine {engines}, whose results are compared,"
            " too. Predicted are the whole programs by where stencils, products and sums are computed; `packed` has pixels side by side"
            " as channels. The error is the largest one against numpy in 64 bits, as a share of the largest magnitude."
        )
        parts.append(_table_of_six(six_rows))
    if reduced:
        parts += ["Reduced, on the RTL, every result equal to integers:", _table_of_reduced(reduced)]
    if cameras:
        parts.append(
            "A camera's frame through a network, in one program: the middle of the frame, resized and normalised, ResNet-18 and the five"
            " best classes; or ResNet-18 to a sixteenth of the image, a head, boxes of its cells, and non-maximum suppression among the"
            " best. Every operator is equal to integers. Errors: the largest of a part against numpy in 64 bits, or of the network"
            " against floating point, as a share of the largest magnitude. In brackets, the host's share of a part."
        )
        parts.append(camera_table(cameras))
    return page_of("Pipelines", *parts)


def _table_of_six(rows: Sequence[Mapping[str, Any]]) -> str:
    return table(
        rows,
        {
            "pipeline": lambda row: row["pipeline"],
            "size": lambda row: row["size"],
            "predicted: packed": lambda row: _count(row["places"]["packed"]),
            "as it is": lambda row: _count(row["places"]["array"]),
            "host operators": lambda row: _count(row["places"]["host"]),
            "place": lambda row: row["place"],
            "cycles": lambda row: _count(row["cycles"]),
            "of these the host's": lambda row: (
                "" if row["host_share"] is None else f"{row['host_share']:.0%}"
            ),
            "C version": lambda row: _count(row["plain"]),
            "C / pipeline": _ratio,
            "verdict": _verdict,
            "error": _error,
        },
    )


def _table_of_reduced(rows: Sequence[Mapping[str, Any]]) -> str:
    def cycles(row: Mapping[str, Any], name: str) -> str:
        return _count(row["rtl"]["cycles"][name])

    return table(
        rows,
        {
            "pipeline": lambda row: row["pipeline"],
            "size": lambda row: row["rtl"]["size"],
            "cycles, packed": lambda row: cycles(row, "packed"),
            "as it is": lambda row: cycles(row, "array"),
            "packing's gain": lambda row: (
                f"{row['rtl']['cycles']['array'] / row['rtl']['cycles']['packed']:.2f}"
            ),
            "C version": lambda row: cycles(row, "plain"),
            "error": lambda row: _error(row["rtl"]),
        },
    )
