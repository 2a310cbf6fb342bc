"""Networks that others defined, quantised by onnxruntime and run in their own whole numbers: every operator, and the whole, beside onnxruntime.

Each operator is told what onnxruntime's operators before it gave, so that one difference counts once; then the network runs by
itself. Judge is onnxruntime without its optimisations, which computes each operator of the file as it stands there. Networks are
those of the package `onnx` (`light` models of its tests, whose weights are drawn here, on images of 64 x 64) and trained ones that
packages ship, if they are installed. On machines whose RTL they run on, whole, every operator is compared with these whole numbers.
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, page_of, silent, table
from baco.common.errors import BacoError, InputError
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference, reference_runs
from baco.compiler.ops.views import View
from baco.sim.network.run import run_network
from baco.workloads.inputs.load import load_network
from baco.workloads.onnx.judge import exact_session

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
#: Runs side by side.
_TOGETHER = 8
#: Samples that the quantiser takes ranges from, and inputs on which operators are compared.
_SAMPLES, _COMPARED = 4, 2
_SIDE, _LAST_WINDOW = 64, 7

#: How onnxruntime's quantiser is told what to make, by name.
FORMS: dict[str, dict[str, Any]] = {
    "QDQ symmetric": {"qdq": True, "activations": "QInt8", "symmetric": True},
    "QDQ uint8": {"qdq": True, "activations": "QUInt8"},
    "QDQ per channel": {"qdq": True, "activations": "QInt8", "per_channel": True},
    "QOperator per channel": {"qdq": False, "activations": "QUInt8", "per_channel": True},
}


@dataclass(frozen=True)
class Published:
    """A model that a package ships.

    Attributes:
        package: whose files it is among.
        file: within the package.
        shape: of its first input; None as the file has it.
    """

    package: str
    file: str
    shape: tuple[int, ...] | None = None

    def load(self) -> onnx.ModelProto:
        """The model. Raises InputError where the package is not installed."""
        found = importlib.util.find_spec(self.package)
        if found is None or not found.submodule_search_locations:
            raise InputError(f"the package '{self.package}' is not installed")
        model = onnx.load(Path(found.submodule_search_locations[0]) / self.file)
        return _ready(model, self.shape)


@dataclass(frozen=True)
class Light:
    """A network of the package `onnx`, whose file has shapes instead of weights."""

    name: str

    def load(self) -> onnx.ModelProto:
        """The model, with weights that are drawn."""
        folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
        model = onnx.load(folder / f"light_{self.name}.onnx")
        graph = model.graph
        stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        roles = _roles(graph)
        made = [node for node in graph.node if node.op_type == "ConstantOfShape"]
        weights = [
            numpy_helper.from_array(
                _drawn(node.output[0], stored[node.input[0]], roles.get(node.output[0], "bias")),
                node.output[0],
            )
            for node in made
        ]
        nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
        read = {name for node in nodes for name in node.input}
        kept = [tensor for tensor in graph.initializer if tensor.name in read]
        inputs = [value for value in graph.input if value.name not in stored]
        for field, values in (
            (graph.node, nodes),
            (graph.initializer, [*kept, *weights]),
            (graph.input, inputs),
        ):
            copies = [type(value).FromString(value.SerializeToString()) for value in values]
            del field[:]
            field.extend(copies)
        for node in graph.node:
            size = [list(a.ints) for a in node.attribute if a.name == "kernel_shape"]
            if node.op_type == "AveragePool" and size == [[_LAST_WINDOW] * 2]:
                node.op_type = "GlobalAveragePool"  # which it is of images of 224 x 224
                del node.attribute[:]
        model.ir_version = 8
        return _ready(model, (1, 3, _SIDE, _SIDE))


def _roles(graph: onnx.GraphProto) -> dict[str, str]:
    """What constants are to the operators that read them."""
    roles: dict[str, str] = {}
    viewed = {one.output[0]: one.input[0] for one in graph.node if one.op_type in ("Unsqueeze", "Reshape")}
    for node in graph.node:
        names = [viewed.get(name, name) for name in node.input]
        if node.op_type in ("Conv", "Gemm"):
            roles[names[1]] = "weight"
        elif node.op_type == "BatchNormalization":
            roles |= zip(names[1:], ("scale", "bias", "bias", "scale"), strict=True)
        elif node.op_type == "Mul":
            roles |= dict.fromkeys(names, "scale")
    return roles


def _drawn(name: str, shape: Array, role: str) -> Array:
    random = np.random.default_rng(zlib.crc32(name.encode()))
    size = tuple(int(n) for n in shape)
    if role == "scale":
        return random.uniform(0.7, 1.3, size).astype(np.float32)
    depth = math.prod(size[1:] if role == "weight" else ())
    spread = math.sqrt(2 / depth) if role == "weight" else 0.1
    return np.asarray(spread * random.standard_normal(size), np.float32)


def _ready(model: onnx.ModelProto, shape: Sequence[int] | None) -> onnx.ModelProto:
    """With shapes, of an operator set that has scales for channels."""
    if shape is not None:
        for one, size in zip(model.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
            one.dim_value = size
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    if model.opset_import[0].version < 13:
        model = onnx.version_converter.convert_version(model, 13)
    return onnx.shape_inference.infer_shapes(model)


#: Networks by name.
MODELS: dict[str, Light | Published] = {
    **{
        name: Light(name)
        for name in ("squeezenet", "resnet50", "inception_v1", "inception_v2", "densenet121")
    },
    "OCR classifier": Published(
        "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192)
    ),
    "OCR recogniser": Published("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 96)),
    "OCR detector": Published("rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx", (1, 3, 96, 96)),
    "NudeNet": Published("nudenet", "320n.onnx", (1, 3, 160, 160)),
    "Magika": Published("magika", "models/standard_v3_3/model.onnx"),
}


def drawn_inputs(model: onnx.ModelProto, seed: int) -> Arrays:
    """Patches of noise for images, bytes for whole numbers."""
    random, found = np.random.default_rng(seed), {}
    stored = {one.name for one in model.graph.initializer}
    for one in model.graph.input:
        if one.name in stored:
            continue
        kind = helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)
        shape = [max(1, d.dim_value) for d in one.type.tensor_type.shape.dim]
        if kind.kind in "iu":
            found[one.name] = random.integers(0, 256, shape).astype(kind)
            continue
        coarse = random.standard_normal([*shape[:-2], *(-(-n // 8) for n in shape[-2:])])
        patches = np.kron(coarse, np.ones((8, 8)))[..., : shape[-2], : shape[-1]]
        found[one.name] = (patches + 0.2 * random.standard_normal(shape)).astype(kind)
    return found


def quantised_files(
    model: onnx.ModelProto, folder: Path, forms: Sequence[str] = tuple(FORMS)
) -> Iterator[tuple[str, Path | str]]:
    """(Form, file) of what onnxruntime makes of a model; where its own quantiser fails, what that says.

    Raises InputError where onnxruntime is not installed.
    """
    try:
        import onnxruntime.quantization as ort
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError:
        raise InputError("this needs the package 'onnxruntime'") from None

    class Reader(ort.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.samples = iter([drawn_inputs(model, seed) for seed in range(_SAMPLES)])

        def get_next(self) -> Arrays | None:
            return next(self.samples, None)

    given, prepared = folder / "given.onnx", folder / "prepared.onnx"
    onnx.save(model, given)
    quant_pre_process(str(given), str(prepared), skip_symbolic_shape=True)
    for form in forms:
        choice = FORMS[form]
        path = folder / "quantised.onnx"
        symmetric = choice.get("symmetric", False)
        try:
            ort.quantize_static(
                str(prepared),
                str(path),
                Reader(),
                quant_format=ort.QuantFormat.QDQ if choice["qdq"] else ort.QuantFormat.QOperator,
                activation_type=ort.QuantType[choice["activations"]],
                weight_type=ort.QuantType.QInt8,
                per_channel=choice.get("per_channel", False),
                extra_options={"ActivationSymmetric": symmetric, "WeightSymmetric": True},
            )
        except (ValueError, KeyError, AssertionError, IndexError) as error:
            yield form, f"onnxruntime's quantiser fails: {type(error).__name__}"
            continue
        yield form, path


def _session(model: onnx.ModelProto, *, optimised: bool = False) -> Any:
    import onnxruntime

    return exact_session(onnxruntime, model, model.SerializeToString(), optimised=optimised)


def _rounded(model: onnx.ModelProto) -> dict[str, str]:
    """Names of the nodes that give whole numbers, and of these."""
    own = ("QuantizeLinear", "QGemm")
    return {
        one.name: one.output[0]
        for one in model.graph.node
        if one.op_type in own or one.op_type.startswith("QLinear")
    }


@dataclass(frozen=True)
class _Due:
    """A tensor that is whole once an operator has run."""

    node: str
    tensor: str


def _due(network: QuantisedNetwork, nodes: Mapping[str, str]) -> dict[int, list[_Due]]:
    writers: dict[str, list[int]] = {}
    for number, op in enumerate(network.operators):
        writers.setdefault(op.output.value, []).append(number)
    found: dict[int, list[_Due]] = {}
    for node, tensor in nodes.items():
        view = network.tensors.get(node)
        if view is None or view.value not in writers:
            continue
        every = writers[view.value]
        own = [
            n for n in every if network.operators[n].output == view or node in network.operators[n].sources
        ]
        found.setdefault((own or every)[-1], []).append(_Due(node, tensor))
    return found


def _compared(
    network: QuantisedNetwork, given: Arrays, wanted: Arrays, due: Mapping[int, Sequence[_Due]]
) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """(Node, elements, those that differ, by more than a step); what is wanted takes the place of what was found."""
    values = quantise_inputs(network, given)
    for one in network.values.values():
        if one.role == "constant":
            values[one.name] = network.constants[one.name]
        elif one.role != "input":
            values[one.name] = np.zeros(one.shape, np.dtype(one.dtype))

    def read(view: View) -> Array:
        return view.read(values[view.value])

    for number, op in enumerate(network.operators):
        op.output.write(values[op.output.value], op.compute(read))
        for ready in due.get(number, ()):
            view, theirs = network.tensors[ready.node], wanted[ready.tensor]
            shift = 128 if theirs.dtype == np.uint8 else 0
            right = theirs.astype(np.int64).reshape(view.shape) - shift
            apart = np.abs(read(view) - right)
            yield ready.node, (apart.size, int(np.count_nonzero(apart)), int(np.count_nonzero(apart > 1)))
            view.write(values[view.value], right.astype(np.int8))


def compared_operators(network: QuantisedNetwork, model: onnx.ModelProto, inputs: Sequence[Arrays]) -> Array:
    """Of each tensor that the model rounds [tensors, 3]: elements, those that differ from onnxruntime's, by more than a step."""
    nodes = _rounded(model)
    more = onnx.ModelProto.FromString(model.SerializeToString())
    known = {output.name for output in more.graph.output}
    more.graph.output.extend(
        helper.make_empty_tensor_value_info(name) for name in nodes.values() if name not in known
    )
    session, due = _session(more), _due(network, nodes)
    names = [output.name for output in session.get_outputs()]
    totals = {ready.node: np.zeros(3, np.int64) for some in due.values() for ready in some}
    for given in inputs:
        wanted = dict(zip(names, session.run(None, given), strict=True))
        for node, (elements, apart, beyond) in _compared(network, given, wanted, due):
            totals[node] += [elements, apart, beyond]
    return np.array(list(totals.values()))


@dataclass
class WholeRuns:
    """Runs of a network by itself.

    Attributes:
        inputs: it ran on.
        equal_inputs: all of whose outputs are onnxruntime's.
        same_largest: whose first output has its largest element where onnxruntime's has it.
        judge_same_largest: the same of onnxruntime with its optimisations, beside onnxruntime without.
    """

    inputs: int = 0
    equal_inputs: int = 0
    same_largest: int = 0
    judge_same_largest: int = 0


def whole_runs(network: QuantisedNetwork, model: onnx.ModelProto, inputs: int, seconds: float) -> WholeRuns:
    """The network on inputs, until there are so many or so many seconds are over."""
    session, optimised = _session(model), _session(model, optimised=True)
    names = [output.name for output in session.get_outputs()]
    started, found = time.monotonic(), WholeRuns()
    while found.inputs < inputs and (found.inputs == 0 or time.monotonic() - started < seconds):
        together = range(min(_TOGETHER, inputs - found.inputs))
        given = [drawn_inputs(model, 1000 + found.inputs + n) for n in together]
        values = reference_runs(network, [quantise_inputs(network, sample) for sample in given])
        for number, sample in enumerate(given):
            own = {
                name: x if network.values[name].role == "constant" else x[number]
                for name, x in values.items()
            }
            theirs = [np.asarray(x) for x in session.run(None, sample)]
            outputs = [network.read_output(name, own) for name in names]
            found.equal_inputs += all(
                np.array_equal(a.reshape(-1), b.reshape(-1)) for a, b in zip(outputs, theirs, strict=True)
            )
            place = int(np.argmax(theirs[0]))
            found.same_largest += place == int(np.argmax(outputs[0]))
            found.judge_same_largest += place == int(np.argmax(optimised.run(names[:1], sample)[0]))
        found.inputs += len(given)
    return found


def rtl_runs(network: QuantisedNetwork, given: Arrays, machines: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The network whole on machines' RTL: cycles from reset to the end, and the first operator that differs from whole numbers, if any.

    Raises BacoError for a machine that it does not compile for.
    """
    data, found = quantise_inputs(network, given), {}
    expected = reference(network, data)
    for machine in machines:
        built = compile_network(network, load_accelerator(machine), data=data, check=False)
        run = run_network(built, expected, "rtl")
        found[machine] = {"cycles": run.result.cycles, "wrong": next(iter(run.wrong), None)}
    return found


def _row(
    name: str, form: str, path: Path | str, inputs: int, seconds: float, machines: Sequence[str]
) -> dict[str, Any]:
    if isinstance(path, str):
        return {"model": name, "form": form, "refused": path}
    model = onnx.load(path)
    try:
        network = quantise(load_network(str(path)), [drawn_inputs(model, 0)])
    except BacoError as error:
        return {"model": name, "form": form, "refused": str(error).replace(str(path), "the model")}
    totals = compared_operators(network, model, [drawn_inputs(model, 500 + n) for n in range(_COMPARED)])
    runs = whole_runs(network, model, inputs, seconds)
    return {
        "model": name,
        "form": form,
        "operators": len(totals),
        "equal_operators": int(np.count_nonzero(totals[:, 1] == 0)),
        "elements": int(totals[:, 0].sum()),
        "apart": int(totals[:, 1].sum()),
        "beyond_a_step": int(totals[:, 2].sum()),
        **asdict(runs),
        "rtl": rtl_runs(network, drawn_inputs(model, 0), machines),
    }


def run(
    *,
    models: Sequence[str] = tuple(MODELS),
    forms: Sequence[str] = tuple(FORMS),
    inputs: int = 1000,
    seconds: float = 600.0,
    machines: Sequence[str] = (),
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Networks of others, quantised by onnxruntime in four forms, beside onnxruntime: each operator, the whole, and whole on RTL.

    What the output folder's files have of other networks, forms and machines is kept.

    Args:
        models (--model, NAME): repeatable; by default all.
        forms (--form, FORM): as they are called in the table; repeatable; by default all.
        inputs (N): that each runs on.
        seconds (S): after which no more inputs are begun with a model in one form.
        machines (--machine, ACCELERATOR): repeatable; on whose RTL each runs once, whole.
        out (DIR): for `quantised-models.md` and `quantised-models.json`.

    Raises InputError for unknown names, or where onnxruntime or a package is missing.
    """
    check_names(models, MODELS, "model", "model")
    check_names(forms, FORMS, "form", "form")
    results = ResultFiles(out, "quantised-models", page)
    rows = {(row["model"], row["form"]): row for row in results.before() or []}
    for name in models:
        with tempfile.TemporaryDirectory() as folder:
            for form, path in quantised_files(MODELS[name].load(), Path(folder), forms):
                row = _row(name, form, path, inputs, seconds, machines)
                row["rtl"] = rows.get((name, form), {}).get("rtl", {}) | row.get("rtl", {})
                rows[name, form] = row
                say(f"{name}, {form}: {_words(row)}")
                results.keep(list(rows.values()))
    return list(rows.values())


def _words(row: Mapping[str, Any]) -> str:
    if "refused" in row:
        return f"refused: {row['refused']}"
    return (
        f"{row['equal_operators']} of {row['operators']} operators equal, {row['beyond_a_step']} elements beyond a step, "
        f"{row['equal_inputs']} of {row['inputs']} inputs equal"
    )


def _share(part: str, whole: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: "" if "refused" in row else f"{row[part]:,} of {row[whole]:,}"


def _rtl(row: Mapping[str, Any], machine: str) -> str:
    run = row.get("rtl", {}).get(machine)
    if run is None:
        return ""
    return f"{run['cycles']:,}" + (f", WRONG: {run['wrong']}" if run["wrong"] else "")


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Results as Markdown."""
    run_rows = [row for row in rows if "refused" not in row]
    machines = dict.fromkeys(machine for row in run_rows for machine in row["rtl"])
    total = {
        key: sum(row[key] for row in run_rows)
        for key in ("elements", "apart", "beyond_a_step", "inputs", "same_largest", "judge_same_largest")
    }
    columns: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "network": lambda row: row["model"],
        "form": lambda row: row["form"],
        "operators equal": _share("equal_operators", "operators"),
        "elements a step apart": lambda row: (
            "" if "refused" in row else f"{row['apart'] - row['beyond_a_step']:,} of {row['elements']:,}"
        ),
        "beyond a step": lambda row: row.get("beyond_a_step", f"refused: {row.get('refused')}"),
        "inputs with all outputs equal": _share("equal_inputs", "inputs"),
        "largest element at the same place": _share("same_largest", "inputs"),
        "onnxruntime's two ways": _share("judge_same_largest", "inputs"),
        **{f"cycles, {machine}": partial(_rtl, machine=machine) for machine in machines},
    }
    said = (
        f"{len({row['model'] for row in rows})} networks that others defined in {len(FORMS)} forms of onnxruntime's quantiser; judge: onnxruntime "
        "without optimisations, on noise in patches. Every operator is told what onnxruntime gave before it; QDQ operators are "
        "sums of float32 products there, whose order is open, so that ties fall either way. "
        f"Of {total['elements']:,} elements {total['apart']:,} differ, {total['beyond_a_step']:,} by more than a step; the largest element of "
        f"{total['same_largest']:,} of {total['inputs']:,} first outputs is at the same place, "
        f"and of {total['judge_same_largest']:,} where onnxruntime with its optimisations, which round elsewhere, stands beside itself without."
    )
    if machines:
        runs = [run for row in run_rows for run in row["rtl"].values()]
        said += (
            f" Cycles are those of one whole program on the machine's RTL, host included; in {sum(run['wrong'] is None for run in runs)} of"
            f" {len(runs)} every operator equals these whole numbers, element by element."
        )
    return page_of(
        "Networks that onnxruntime quantised, in their own whole numbers", said, table(rows, columns)
    )
