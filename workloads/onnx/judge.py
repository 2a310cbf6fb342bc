"""What an ONNX model computes, by an evaluator that is not ours: onnxruntime where it is installed, else ONNX's own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from baco.workloads.onnx.evaluate import STANDARD_DOMAINS

#: Multiply-accumulates that ONNX's evaluator, which is plain numpy, is asked for: some seconds.
_MOST_MACS = 2 * 10**9
#: Operators that `onnx.reference` computes otherwise than ONNX defines them, below which operator set (LRN: sums over as many
#: channels as the batch has; softmaxes before 13: along one dimension, not all behind it).
_FAULTS = {"LRN": 10**6, "Softmax": 13, "LogSoftmax": 13, "Hardmax": 13}
#: Operators that multiply bytes as whole numbers.
_BYTE_PRODUCTS = {
    *("MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"),
    *("QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QAttention", "DynamicQuantizeLSTM"),
}
#: Oldest operator set that evaluators have.
_OLDEST = 7


@dataclass(frozen=True)
class OnnxJudge:
    """Runs the model as its file has it; see `baco.workloads.network.Judge`.

    Attributes:
        path: of the model.
        shapes: of its inputs, as they were chosen.
        macs: of one run.
    """

    path: str
    shapes: Mapping[str, tuple[int, ...]]
    macs: int

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> tuple[str, list[np.ndarray]]:
        """The evaluator's name, and the model's outputs in their order.

        Raises ValueError, with the reason, where no evaluator runs it.
        """
        reasons = []
        model = onnx.load(self.path, load_external_data=False)
        version = max((e.version for e in model.opset_import if e.domain in STANDARD_DOMAINS), default=1)
        if version < _OLDEST:
            # Evaluators, and ONNX's own converter, take them for today's.
            raise ValueError(f"no evaluator has the operators of opset {version}")
        with contextlib.suppress(ImportError):
            import onnxruntime  # type: ignore[import-untyped,import-not-found,unused-ignore]

            try:
                return f"onnxruntime {onnxruntime.__version__}", self._onnxruntime(onnxruntime, model, inputs)
            except Exception as error:  # whatever its own code raises
                reasons.append(f"onnxruntime: {_first_line(error)}")
        if self.macs > _MOST_MACS:
            reasons.append(f"onnx.reference: {self.macs:,} multiply-accumulates are too many for it")
            raise ValueError("; ".join(reasons))
        faults = {node.op_type for node in model.graph.node if version < _FAULTS.get(node.op_type, 0)}
        faults |= {node.op_type for node in model.graph.node if _adds_signed(node)}
        if faults:
            reasons.append(f"onnx.reference: its {', '.join(sorted(faults))} is not ONNX's")
            raise ValueError("; ".join(reasons))
        try:
            from onnx.reference import ReferenceEvaluator

            model = onnx.load(self.path)
            given = {
                value.name: self._given(value.name, _kind(value), inputs)
                for value in model.graph.input
                if value.name in self.shapes
            }
            with np.errstate(all="ignore"):
                results: Any = ReferenceEvaluator(model).run(None, given)
            return f"onnx.reference {onnx.__version__}", [np.asarray(one) for one in results]
        except Exception as error:
            reasons.append(f"onnx.reference: {_first_line(error)}")
        raise ValueError("; ".join(reasons))

    def _onnxruntime(
        self, onnxruntime: Any, model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]
    ) -> list[np.ndarray]:
        session = exact_session(onnxruntime, model, self.path)
        kinds = {"float": np.float32, "double": np.float64, "bool": np.bool_}
        given = {}
        for value in session.get_inputs():
            name = value.type.removeprefix("tensor(").removesuffix(")")
            kind = kinds[name] if name in kinds else np.dtype(name)
            given[value.name] = self._given(value.name, np.dtype(kind), inputs)
        return [np.asarray(one) for one in session.run(None, given)]

    def _given(self, name: str, kind: np.dtype[Any], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """An input as the model wants it; one that takes no part in the results holds zeros."""
        if name in inputs:
            return np.ascontiguousarray(inputs[name]).astype(kind)
        return np.zeros(self.shapes[name], kind)


def exact_session(
    onnxruntime: Any, model: onnx.ModelProto, source: str | bytes, *, optimised: bool = False
) -> Any:
    """A session of onnxruntime whose products of bytes are exact on every processor.

    Without instructions made for it (VNNI), its products of unsigned by signed bytes saturate sums of two at 16 bits, but for an option
    that works by rewriting the model (and breaks QGemm of signed bytes). Models without such products stay as they are written: the
    rewriting takes a BatchNormalization that trains for one that does not.

    Args:
        source: the model's file, or the model in bytes.
        optimised: with all rewriting that onnxruntime does by default, that of pairs of QuantizeLinear and DequantizeLinear included.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_DISABLE_ALL
    if multiplies_unsigned(model):
        options.graph_optimization_level = level.ORT_ENABLE_EXTENDED
        options.add_session_config_entry("session.x64quantprecision", "1")
    if optimised:
        options.graph_optimization_level = level.ORT_ENABLE_ALL
    else:  # pairs of QuantizeLinear and DequantizeLinear stay what they are
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def multiplies_unsigned(model: onnx.ModelProto) -> bool:
    """Whether it has products of bytes, and unsigned ones: stored, given, or quantised while it runs."""
    unsigned = onnx.TensorProto.UINT8
    kinds = {node.op_type for node in model.graph.node}
    return not kinds.isdisjoint(_BYTE_PRODUCTS) and (
        any(tensor.data_type == unsigned for tensor in model.graph.initializer)
        or any(value.type.tensor_type.elem_type == unsigned for value in model.graph.input)
        or not kinds.isdisjoint({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})
    )


def _adds_signed(node: onnx.NodeProto) -> bool:
    """Whether `onnx.reference` forgets the magnitudes: its norm of the power 1 is a sum of numbers as they are."""
    given = {one.name: one.i for one in node.attribute}
    return node.op_type == "LpNormalization" and given.get("p", 2) % 2 == 1


def _kind(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:160]
