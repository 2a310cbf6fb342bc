"""That nothing of a node is passed over: attributes, inputs and outputs that its rule did not read are refused by name.

What there is to read comes from the node and the operator's schema, never from the rule, so that a rule that forgets an
attribute cannot make a wrong network.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx.defs

from baco.workloads.onnx.evaluate import STANDARD_DOMAINS

#: The operator's inferred output shape says the same.
_SHAPE = "the inferred shape of the output follows from it"
_KNOWN = "what it gives is worked out beforehand, by ONNX's own evaluator"
#: About numbers that decide nothing in a trained network.
_TRAINING, _PRECISION = "only training uses it", "a precision of steps, which int8 does not reach"

#: By operator ("": any), attributes and inputs that rules need not read, and why.
HARMLESS: dict[str, dict[str, str]] = {
    "": {"consumed_inputs": "a note on memory (opset 1)"},
    "Reshape": {"shape": _SHAPE, "allowzero": _SHAPE},
    "Expand": {"shape": _SHAPE},
    "Shape": dict.fromkeys(("data", "start", "end"), _KNOWN),
    "Size": {"data": _KNOWN},
    "Flatten": {"axis": _SHAPE},
    "Squeeze": {"axes": _SHAPE},
    "Unsqueeze": {"axes": _SHAPE},
    "Split": {"split": "the shapes of the outputs say it", "num_outputs": "the shapes of the outputs say it"},
    "Gemm": {"broadcast": "the third operand is broadcast as numpy does (opset 6)"},
    "Dropout": {
        "ratio": "nothing is dropped without training",
        "seed": _TRAINING,
        "is_test": "nothing is dropped when a network is run",
    },
    "BatchNormalization": {"momentum": _TRAINING, "is_test": "the stored mean and variance are used"},
    "LayerNormalization": {"stash_type": _PRECISION},
    "RMSNormalization": {"stash_type": _PRECISION},
    "SimplifiedLayerNormalization": {"stash_type": _PRECISION},
    "GroupNormalization": {"stash_type": _PRECISION},
    "Attention": {"softmax_precision": _PRECISION},
    "MaxPool": {"storage_order": "it orders the indices alone, where they are wanted"},
    "Cast": {
        "saturate": "of 8-bit floating point, which is refused",
        "round_mode": "of 8-bit floating point, which is refused",
    },
    "CastLike": {
        "saturate": "of 8-bit floating point, which is refused",
        "round_mode": "of 8-bit floating point, which is refused",
    },
    "Resize": {
        "cubic_coeff_a": "of the mode cubic, which is refused",
        "extrapolation_value": "of crops, which are refused",
        "roi": "of crops, which are refused",
        "sizes": _SHAPE,
    },
    "TopK": {"k": _SHAPE},
}


@lru_cache(maxsize=4096)
def schema_of(operator: str, domain: str, version: int) -> onnx.defs.OpSchema | None:
    """The operator's definition in ONNX; None if it has none there."""
    try:
        return onnx.defs.get_schema(operator, version, "" if domain in STANDARD_DOMAINS else domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a version beyond the range of its integers
        return None


def default_of(node: onnx.NodeProto, version: int, name: str) -> onnx.AttributeProto | None:
    """What holds where the node does not give an attribute, by its operator's definition; None where that says nothing."""
    schema = schema_of(node.op_type, node.domain, version)
    known = None if schema is None else schema.attributes.get(name)
    if known is None or known.default_value.type == onnx.AttributeProto.UNDEFINED:
        return None
    return known.default_value


def passed_over(
    node: onnx.NodeProto, version: int, attributes: Collection[str], inputs: Collection[int]
) -> list[str]:
    """What the node says beyond what was read of it, each in words.

    Args:
        version: of the operator set that the node is from.
        attributes: names of those read, whether the node has them or not.
        inputs: positions of those read.
    """
    schema = schema_of(node.op_type, node.domain, version)
    harmless = {**HARMLESS[""], **HARMLESS.get(node.op_type, {})}
    missed = []
    for attribute in node.attribute:
        name = attribute.name
        if name in attributes or name in harmless:
            continue
        default = default_of(node, version, name)
        if default is not None and _value(attribute) == _value(default):
            continue
        missed.append(f"{name}={_shown(attribute)} is not supported")
    for index, given in enumerate(node.input):
        name = _input_name(schema, index)
        if given and index not in inputs and name not in harmless:
            missed.append(f"its input '{name or index}' is not supported")
    return missed


def _value(attribute: onnx.AttributeProto) -> Any:
    value: Any = onnx.helper.get_attribute_value(attribute)
    return list(value) if isinstance(value, (tuple, list)) else value


def _shown(attribute: onnx.AttributeProto) -> str:
    if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
        return "a graph"
    if attribute.type == onnx.AttributeProto.TENSOR:
        return "a tensor"
    value = _value(attribute)
    if isinstance(value, bytes):
        return f"'{value.decode('utf-8', 'replace')[:40]}'"
    if isinstance(value, float):
        return str(np.float32(value))
    return str(value)[:60]


def _input_name(schema: onnx.defs.OpSchema | None, index: int) -> str:
    if schema is None or not schema.inputs:
        return ""
    return str(schema.inputs[min(index, len(schema.inputs) - 1)].name)
