"""What a network's program needs of main memory at least, by its shapes alone."""

from __future__ import annotations

import math

from baco.common.errors import Location
from baco.compiler.main_memory import check_memory
from baco.compiler.network.float_graph import output_tensors
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Parameter

#: Functions that read their tensors from memory and keep their parameters there, a byte an element.
_FROM_MEMORY = ("conv", "conv_transpose", "matmul", "embedding")


def check_network_memory(network: Network) -> None:
    """Raises InfeasibleError, with bytes, for an unrolled network (`baco.workloads.expand`) that no program can hold.

    Counted are weights and masks, inputs, outputs and what the one operator reads that reads the most. Zeros of a
    padding, which need not be stored, are not.
    """
    producers = {op.name: op for op in network.operators}
    inputs = {tensor.name: tensor.words for tensor in network.inputs}
    weights: dict[str, int] = {}
    most = 0
    for op in network.operators:
        if op.semantics is None or op.semantics.function not in (*_FROM_MEMORY, "softmax"):
            continue
        for operand in op.semantics.operands:
            if isinstance(operand, Parameter):
                weights[operand.name] = math.prod(operand.stored_shape or operand.shape)
        if op.semantics.function in _FROM_MEMORY:
            most = max(most, _read(op, producers))
    check_memory(
        "the network",
        {
            "weights": sum(weights.values()),
            "inputs": sum(inputs.values()),
            "outputs": sum(tensor.words for tensor in output_tensors(network) if tensor.name not in inputs),
            "activations": most,
        },
        location=Location(network.name if network.source == "built-in" else network.source),
        hint="make its batch, image or sequence smaller, or run fewer of its blocks (--layers)",
    )


def _read(op: Operator, producers: dict[str, Operator]) -> int:
    """Elements of the stored tensors that an operator reads, beside those from outside."""
    assert op.semantics is not None
    names = {operand.name for operand in op.semantics.operands if isinstance(operand, Tensor)}
    found = [producers[name] for name in names if name in producers]
    return sum(one.output.words for one in found if one.semantics is None or one.semantics.function != "pad")
