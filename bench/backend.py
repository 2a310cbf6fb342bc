"""The onnx package's own backend tests through import, quantisation and a run: how many come in, run and are right, and why not.

    python -m baco.bench.backend [--match PATTERN] [--every N [--start K]] [--engine functional|reference] [--json FILE]

Every test is one small model with inputs and the outputs that ONNX defines for them. An operator without a product is tested
behind one: the first input of real numbers passes a product with the identity. Ranges are taken from the test's inputs. Inputs
that hold axes, sizes, scales and the like become constants of a model where it is refused otherwise: first the whole numbers and
what is not finite, then all but the first input of real numbers.

A result is right within `TOLERANCE` of what the test wants. One that is not can still be the model's own on the inputs that
8 bits can hold: a score of 3 beside one of 10,000 is gone before any operator runs, and a rounding or a tie falls the other way.
Such a result is compared, within the same tolerance, with what ONNX's evaluator makes of the rounded inputs; it then counts as
right, with how far rounding the inputs alone moves the model's outputs, and these are counted.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from baco.common.errors import BacoError

#: Operators that are products, or hold one.
_PRODUCTS = frozenset(
    (
        *("Conv", "ConvTranspose", "DeformConv", "Gemm", "MatMul", "Einsum", "Attention"),
        *("LSTM", "GRU", "RNN", "FusedConv", "FusedMatMul", "FusedGemm"),
    )
)
_CONTROL = frozenset(("If", "Loop", "Scan", "SequenceMap"))
#: Of an output's range: what int8 may cost.
TOLERANCE = 0.09
#: The same between the test and ONNX's evaluator: both compute in float32.
_EXACT = 1e-3
#: Columns of an identity that stands in front of an operator.
_LARGEST = 1024
#: Whole numbers up to this are exact in 8 bits.
_LARGEST_EXACT = 127
_KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


@dataclass(frozen=True)
class BackendOutcome:
    """What became of one test.

    Attributes:
        state: `right`, `wrong`, `refused`, `crashed`, or `outside`: not a network of float32 numbers.
        imported, ran: how far it came.
        control: whether it has control flow.
        reason: why it is refused or outside, or by how much it is wrong.
        moved: of a right one that is judged on its inputs as 8 bits hold them, by how much of their range rounding these inputs
            moves the model's own outputs; 0 for all others.
    """

    name: str
    state: str
    reason: str = ""
    imported: bool = False
    ran: bool = False
    control: bool = False
    moved: float = 0.0


def _values(model: onnx.ModelProto, data: Sequence[Any]) -> dict[str, np.ndarray]:
    stored = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in stored]
    return {name: np.asarray(value) for name, value in zip(names, data, strict=False)}


def _outside(model: onnx.ModelProto, inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    """Why a test is none of networks in float32; empty for those that are."""
    for what, arrays in (("input", inputs), ("output", outputs)):
        for array in arrays:
            if not isinstance(array, np.ndarray | np.generic):
                return f"an {what} is a sequence or is absent"
            if array.dtype.kind not in "fbiu" or array.dtype in (np.float16, np.float64):
                return f"an {what} of {array.dtype}"
            if array.dtype.kind in "iu" and array.dtype.itemsize < 4:
                return f"an {what} of {array.dtype}"
            if what == "input" and array.size == 0:
                return "an empty input"
    if all(np.asarray(array).size == 0 for array in outputs):
        return "its outputs are empty"
    reals = [a for a in inputs if a.dtype == np.float32]
    if inputs and not reals:
        return "no input of real numbers"
    if any(domain.domain == "ai.onnx.preview.training" for domain in model.opset_import):
        return "an optimiser's step"
    return ""


def _all_nodes(nodes: Any) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _all_nodes(graph.node)


def with_product(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, with a product by the identity behind its first input of real numbers if it holds no product."""
    kinds = {node.op_type for node in _all_nodes(model.graph.node)}
    kinds |= {node.op_type for function in model.functions for node in function.node}
    if kinds & _PRODUCTS:
        return model
    stored = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in stored or value.type.tensor_type.elem_type != onnx.TensorProto.FLOAT or not dims:
            continue
        if not 0 < dims[-1].dim_value <= _LARGEST:
            continue
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        behind = f"{value.name}.product"
        for node in _all_nodes(changed.graph.node):
            for index, name in enumerate(node.input):
                if name == value.name:
                    node.input[index] = behind
        eye = np.eye(dims[-1].dim_value, dtype=np.float32)
        changed.graph.initializer.append(onnx.numpy_helper.from_array(eye, f"{value.name}.identity"))
        product = onnx.helper.make_node("MatMul", [value.name, f"{value.name}.identity"], [behind])
        changed.graph.node.insert(0, product)
        return changed
    return model


def with_constants(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray], reals: bool = False
) -> onnx.ModelProto | None:
    """The model with its inputs of whole numbers, of truths and of numbers that are not finite (`reals`: all but the first of
    real numbers) as constants; None where it has none."""
    first = next((name for name, value in inputs.items() if value.dtype.kind == "f" and value.ndim), "")
    names = {
        name
        for name, value in inputs.items()
        if name != first and (reals or value.dtype.kind in "iub" or not np.isfinite(value).all())
    }
    if not names:
        return None
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    kept = [value for value in model.graph.input if value.name not in names]
    del changed.graph.input[:]
    changed.graph.input.extend(kept)
    changed.graph.initializer.extend(
        onnx.numpy_helper.from_array(inputs[name], name) for name in sorted(names)
    )
    return changed


def deviation(given: np.ndarray, wanted: np.ndarray) -> float:
    """Largest error, of the wanted range; of truths, indices and what else 8 bits hold exactly the share that differs. Infinite
    for another shape."""
    if given.shape != wanted.shape:
        return float("inf")
    exact = wanted.dtype.kind == "b" or given.dtype.kind in "iub"
    if wanted.dtype.kind != "f" and (exact or np.abs(wanted).max(initial=0) <= _LARGEST_EXACT):
        return float(np.mean(np.rint(given) != wanted)) if wanted.size else 0.0
    finite = np.isfinite(wanted)
    if not finite.any():
        return 0.0
    error = np.abs(given - wanted)[finite].max(initial=0.0)
    return float(error / max(np.abs(wanted[finite]).max(initial=0.0), 1e-6))


@dataclass(frozen=True)
class _Run:
    """What became of the inputs.

    Attributes:
        outputs: in the model's order.
        differs: how the run differs from the integers; empty where it does not.
        inputs: as the test has them.
        held: the inputs as 8 bits hold them, in real numbers.
    """

    outputs: list[np.ndarray]
    differs: str
    inputs: dict[str, np.ndarray]
    held: dict[str, np.ndarray]


def _run(path: str, inputs: dict[str, np.ndarray], engine: str) -> _Run:
    """Import, quantise and run a model. Raises BacoError."""
    from baco.accel.presets import load_accelerator
    from baco.compiler.network.program import compile_network
    from baco.compiler.network.quantise import quantise, quantise_inputs, real
    from baco.compiler.network.reference import reference
    from baco.sim.network.run import run_network
    from baco.workloads.inputs.load import load_network

    network = load_network(path)
    given = {tensor.name: inputs[tensor.name] for tensor in network.inputs if tensor.name in inputs}
    quantised = quantise(network, [given])
    data = quantise_inputs(quantised, given)
    values = reference(quantised, data)
    wrong = ""
    if engine != "reference":
        machine = load_accelerator("gemmini-default")
        built = compile_network(quantised, machine, data=data, reference=values, check=True)
        run = run_network(built, values, engine)
        if run.wrong or run.result.exit_code != 0:
            wrong = "; ".join(map(str, run.wrong)) or f"ended with {run.result.exit_code}"
    held = dict(inputs)
    for name, view in quantised.inputs.items():
        value = quantised.values[view.value]
        if inputs[name].dtype.kind == "f" and value.dtype == "int8":
            elements = view.read(data[view.value]) * value.scale
            held[name] = elements.astype(inputs[name].dtype)
    outputs = [np.asarray(real(quantised, values, name)) for name in quantised.outputs]
    return _Run(outputs, wrong, inputs, held)


def _worst(given: Sequence[np.ndarray], wanted: Sequence[Any]) -> float:
    return max(deviation(y, np.asarray(w)) for y, w in zip(given, wanted, strict=True))


def _evaluated(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """The model's outputs by ONNX's evaluator; None where it cannot."""
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            results: Any = ReferenceEvaluator(model).run(None, inputs)
            return [np.asarray(one) for one in results]
    except Exception:  # whatever its operators raise
        return None


def _judged(name: str, model: onnx.ModelProto, run: _Run, wanted: Sequence[Any]) -> BackendOutcome:
    """What became of a model that has run.

    Args:
        model: as the test has it.
        wanted: its outputs.
    """
    if run.differs:
        return BackendOutcome(name, "wrong", f"differs from the integers: {run.differs}"[:300], True, True)
    if len(run.outputs) != len(wanted):
        return BackendOutcome(name, "wrong", f"{len(run.outputs)} outputs, not {len(wanted)}", True, True)
    worst = _worst(run.outputs, wanted)
    if worst <= TOLERANCE:
        return BackendOutcome(name, "right", "", True, True)
    own, rounded = _evaluated(model, run.inputs), _evaluated(model, run.held)
    # ... but only where the evaluator has the test's own results on the test's own inputs
    if (
        own is not None
        and rounded is not None
        and _worst(own, wanted) <= _EXACT
        and _worst(run.outputs, rounded) <= TOLERANCE
    ):
        moved = _worst(rounded, wanted)
        reason = f"on its inputs as 8 bits hold them: rounding these alone moves the model's outputs by {moved:.2f}"
        return BackendOutcome(name, "right", reason, True, True, moved=moved)
    return BackendOutcome(name, "wrong", f"off by {worst:.2f}", True, True)


def _imports(path: str) -> str:
    """Why a model does not come in as a whole; empty where it does."""
    from baco.workloads.inputs.load import load_network

    network = load_network(path)
    return str(network.unsupported[0]) if network.unsupported else ""


def outcome_of(case: Any, engine: str, folder: Path) -> BackendOutcome:
    """One backend test."""
    original = case.model if case.model is not None else onnx.load(str(Path(case.model_dir) / "model.onnx"))
    sets = case.data_sets
    if sets is None:
        sets = [_stored(Path(case.model_dir) / "test_data_set_0", original)]
    arrays, wanted = sets[0]
    control = any(node.op_type in _CONTROL for node in _all_nodes(original.graph.node))
    outcome = BackendOutcome(case.name, "outside", _outside(original, arrays, wanted))
    if not outcome.reason:
        outcome = _attempts(case.name, original, _values(original, arrays), wanted, engine, folder)
    return replace(outcome, control=control)


def _attempts(
    name: str,
    original: onnx.ModelProto,
    inputs: dict[str, np.ndarray],
    wanted: Sequence[Any],
    engine: str,
    folder: Path,
) -> BackendOutcome:
    """The first form of a model that runs, else why the last one does not."""
    model, path = with_product(original), str(folder / "model.onnx")
    whole, all_but_one = with_constants(model, inputs), with_constants(model, inputs, reals=True)
    data = any(value.dtype.kind == "f" and value.ndim for value in inputs.values())
    outcome = BackendOutcome(name, "refused")
    for candidate in (model, whole, all_but_one):
        if candidate is None:
            continue
        onnx.save(candidate, path)
        imported = ran = False
        try:
            imported = not _imports(path)
            run = _run(path, inputs, engine)
            ran = True
        except BacoError as error:
            reason = str(error).replace(path, "model.onnx").replace("\n", " | ")
            if "not depend on the inputs" not in reason:
                outcome = BackendOutcome(name, "refused", reason, imported, ran)
            elif candidate is not all_but_one or not data:
                outcome = BackendOutcome(name, "outside", "its outputs are constants")
            continue
        except Exception as error:  # what no user should see
            return BackendOutcome(name, "crashed", f"{type(error).__name__}: {error}"[:300], imported, ran)
        return _judged(name, original, run, wanted)
    return outcome


def _stored(folder: Path, model: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs that lie beside a model."""
    result = []
    for what, values in (("input", model.graph.input), ("output", model.graph.output)):
        arrays: list[Any] = []
        for number, value in enumerate(values):
            file = folder / f"{what}_{number}.pb"
            if not file.exists():
                break
            if value.type.WhichOneof("value") != "tensor_type":
                arrays.append(None)
                continue
            arrays.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())))
        result.append(arrays)
    return result[0], result[1]


def cases(match: str = "*") -> list[Any]:
    """All tests whose names match."""
    from onnx.backend.test.loader import load_model_tests

    found: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in _KINDS:
            found += load_model_tests(kind=kind)
    return [case for case in found if fnmatch.fnmatch(case.name, match)]


def summary(outcomes: Sequence[BackendOutcome]) -> str:
    """The shares, and why the others are refused."""
    lines = []
    for title, chosen in (
        ("float32, no control flow", [o for o in outcomes if o.state != "outside" and not o.control]),
        ("with control flow", [o for o in outcomes if o.state != "outside" and o.control]),
    ):
        count = len(chosen)
        if not count:
            continue
        parts = [("imported", sum(o.imported for o in chosen)), ("run", sum(o.ran for o in chosen))]
        states = ("right", "wrong", "refused", "crashed")
        parts += [(state, sum(o.state == state for o in chosen)) for state in states]
        text = ", ".join(f"{name} {number} ({100 * number / count:.1f}%)" for name, number in parts)
        lines.append(f"{title}: {count} models: {text}")
        moved = sum(o.moved > 0 for o in chosen)
        if moved:
            lines.append(
                f"  of the right ones {moved} on their inputs as 8 bits hold them, whose rounding alone moves the model"
            )
    outside = Counter(o.reason for o in outcomes if o.state == "outside")
    lines.append(
        f"outside: {sum(outside.values())}: " + ", ".join(f"{k} {v}" for k, v in outside.most_common())
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m baco.bench.backend", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--match", default="*", help="names of tests, with * and ?")
    parser.add_argument("--engine", default="functional", choices=("functional", "reference"))
    parser.add_argument("--json", help="write all outcomes to a file")
    parser.add_argument("--every", type=int, default=1, help="only every n-th test")
    parser.add_argument("--start", type=int, default=0, help="from this one on, to run the others beside it")
    options = parser.parse_args(arguments)
    outcomes = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases(options.match)[options.start :: options.every]:
            outcome = outcome_of(case, options.engine, Path(folder))
            outcomes.append(outcome)
            if outcome.reason and outcome.state != "outside":
                print(f"{outcome.name}: {outcome.state}: {outcome.reason}", flush=True)
    print(summary(outcomes))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
    return 1 if any(o.state == "crashed" for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
