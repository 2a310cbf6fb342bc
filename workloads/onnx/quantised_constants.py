"""Whole numbers of quantised constants through the nodes that only look at them in another way."""

from __future__ import annotations

from collections.abc import Container

import onnx

from baco.workloads.onnx.evaluate import STANDARD_DOMAINS

#: Operators that leave a constant's elements in their order.
RESHAPING = frozenset(("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"))


def keeps_whole_numbers(node: onnx.NodeProto, whole: Container[str]) -> bool:
    """Whether a node of constants gives real numbers that whole ones are known of; `whole`: names of those so far."""
    if node.domain not in STANDARD_DOMAINS or not node.input:
        return False
    if node.op_type == "DequantizeLinear":
        return True
    return (node.op_type in RESHAPING or node.op_type == "Transpose") and node.input[0] in whole
