"""One node of an ONNX graph computed by ONNX's own reference evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx

from baco.workloads.onnx.external import is_external

STANDARD_DOMAINS = ("", "ai.onnx")
#: Operators whose older forms the evaluator lacks, and newer ones compute the same.
_COMPATIBLE = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear"})


def evaluate_node(
    node: onnx.NodeProto, inputs: Mapping[str, np.ndarray], opset: int
) -> dict[str, np.ndarray]:
    """The outputs of a node by name, those without a name left out.

    Args:
        inputs: elements of all its inputs by name.
        opset: version of the standard operators.

    Raises ValueError, with the reason, for what cannot be computed. The caller answers for the size of the output.
    """
    import onnx.reference  # some hundredths of a second, for the networks that need it

    if any(is_external(a.t) for a in node.attribute if a.type == onnx.AttributeProto.TENSOR):
        raise ValueError("has an attribute in another file")
    names = [name for name in node.output if name]
    graph = onnx.helper.make_graph([node], "constant", _any(inputs), _any(names))
    newest = max(opset, 21) if node.op_type in _COMPATIBLE else opset
    opsets = [onnx.helper.make_opsetid("", newest)]
    if node.domain not in STANDARD_DOMAINS:
        opsets.append(onnx.helper.make_opsetid(node.domain, 1))
    try:
        model = onnx.helper.make_model(graph, opset_imports=opsets)
        with np.errstate(all="ignore"):
            results: Iterable[Any] = onnx.reference.ReferenceEvaluator(model).run(None, dict(inputs))
            return {name: np.asarray(value) for name, value in zip(names, results, strict=True)}
    except Exception as error:  # the evaluator raises whatever its operators raise
        raise ValueError(f"cannot be computed: {error}") from None


def _any(names: Iterable[str]) -> list[onnx.ValueInfoProto]:
    return [onnx.helper.make_empty_tensor_value_info(name) for name in names]
