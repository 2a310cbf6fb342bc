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
from baco.api.pipelines import TensorPipeline, pipeline
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, page_of, silent, table
from baco.bench.pipelines import six
from baco.common.errors import BacoError
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.program import compile_network
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
from baco.pipelines import Numbers
from baco.sim.network.run import run_network

_CODE = Path(__file__).with_name("plain.c").read_text("utf-8")
#: Pipelines of images: function, channels.
_IMAGES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "tone": (six.tone, 3),
    "gaussian": (six.gaussian, 1),
    "sharpness": (six.sharpness, 3),
    "canny": (six.canny, 3),
    "mean_std": (six.mean_std, 3),
}
NAMES = (*_IMAGES, "knn")


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


def example(name: str, height: int, width: int, rows: int, depth: int, placing: str) -> TensorPipeline:
    """One of `NAMES`."""
    if name == "knn":
        given = Numbers((depth,), six.LEAST, six.MOST)
        return pipeline(six.nearest(six.features(rows, depth)), inputs=given, placing=placing)
    function, channels = _IMAGES[name]
    return pipeline(function, inputs=(height, width, channels)[: 2 + (channels > 1)], placing=placing)


def plain_network(name: str, made: TensorPipeline, given: Array) -> tuple[QuantisedNetwork, dict[str, Array]]:
    """(The C version as a network of one operator, what its input holds)."""
    assert made.pre is not None
    results = made.pre.evaluated({next(iter(made.pre.inputs)): given})
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


def _shape_of_data(made: TensorPipeline) -> tuple[int, int]:
    """Rows and depth of what neighbours are looked for in."""
    assert made.pre is not None
    difference = next(
        node for node in _nodes(made) if node.function == "binary" and node.attributes["name"] == "sub"
    )
    return int(difference.shape[0]), int(difference.shape[1])


def _nodes(made: TensorPipeline) -> list[Any]:
    from baco.workloads.pipelines.byte_choice import in_order

    assert made.pre is not None
    return in_order(made.pre.outputs)


def plain_cycles(
    name: str, made: TensorPipeline, given: Array, machine: Accelerator, engine: str
) -> int | None:
    """Cycles of the C version, whose results must be those of numpy. Raises BacoError where they are not."""
    network, data = plain_network(name, made, given)
    values = reference(network, data)
    built = compile_network(network, machine, data=data, check=False)
    run = run_network(built, values, engine)
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
    engine: str = "timed",
    seed: int = 0,
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Six pipelines of images and numbers as programs, beside a C version on the host core: cycles, error, what packing gains.

    Args:
        names (--pipeline): repeatable: tone, gaussian, sharpness, canny, mean_std, knn; by default all.
        accelerator: what they run on.
        height: of images.
        width: of images.
        rows: of the data whose nearest rows are looked for.
        depth: numbers of a row.
        engine: that counts the cycles: timed or rtl; functional: results alone, and predicted cycles.
        seed: of images.
        out: folder for pipelines.md and pipelines.json.

    Raises InputError for another name, BacoError for results that are not numpy's, and what compiling and simulating raise.
    """
    check_names(names, NAMES, "pipeline", "pipeline")
    files, machine = ResultFiles(out, "pipelines", page), load_accelerator(accelerator)
    found = []
    for name in names:
        say(name)
        made = example(name, height, width, rows, depth, "auto")
        assert made.pre is not None
        places = made.places(machine)
        best = min(places, key=lambda place: places[place])
        made = example(name, height, width, rows, depth, best)
        assert made.pre is not None
        given = made.pre.random(seed)
        measured = made.run(given, machine, engine=engine)
        if not measured.right:
            raise BacoError(f"{name}: {measured.wrong[0]}")
        (image,) = given.values()
        found.append(
            {
                "pipeline": name,
                "size": "×".join(map(str, (rows, depth) if name == "knn" else image.shape)),
                "places": places,
                "place": best,
                "cycles": measured.cycles,
                "host_share": measured.host_share,
                "plain": plain_cycles(name, made, image, machine, engine),
                "error": max(one.error for one in measured.comparisons),
                "exact": all(one.exact for one in measured.comparisons),
            }
        )
        files.keep(found)
    return found


def _ratio(row: Mapping[str, Any]) -> str:
    return f"{row['plain'] / row['cycles']:.2f}" if row["plain"] and row["cycles"] else ""


def _verdict(row: Mapping[str, Any]) -> str:
    if not row["plain"] or not row["cycles"]:
        return ""
    return "accelerator" if row["cycles"] < row["plain"] else "keep it on the host"


def _count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table."""
    text = table(
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
            "error": lambda row: "0" if not row["error"] else f"{row['error']:.1e}",
        },
    )
    about = (
        "Programs of `baco.pipeline` beside a C version of each on the accelerator's host core, made by `baco bench pipelines`. "
        "Predicted are the whole programs by where stencils, products and sums are computed; `packed` has pixels side by side as channels."
    )
    return page_of("Pipelines", about, text)
