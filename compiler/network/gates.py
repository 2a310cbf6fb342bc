"""Functions of elements that a product alone reads, as SwiGLU has them: the host computes both in one pass."""

from __future__ import annotations

from collections.abc import Collection

from baco.accel.config import Accelerator
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.row_code import plan_product, plan_table
from baco.compiler.ops.elementwise import Gate, Map, Multiplication


def gates_of(network: QuantisedNetwork) -> dict[str, tuple[Map, Gate]]:
    """By the name of a product the function of one of its operands that nothing else reads, and both as one operator."""
    once = network.used_once()
    functions = {op.output.value: op for op in network.operators if isinstance(op, Map)}
    found = {}
    for op in network.operators:
        if not isinstance(op, Multiplication):
            continue
        for operand in (op.left, op.right):
            name, function = operand.value, functions.get(operand.value)
            if function is None or name not in once or network.values[function.input.value].dtype != "int8":
                continue
            gate = Gate.of(op, function)
            if gate is not None:
                found[op.name] = function, gate
                break
    return found


def gates_on_host(
    network: QuantisedNetwork, accelerator: Accelerator, elsewhere: Collection[str]
) -> dict[str, tuple[Map, Gate]]:
    """Those of `gates_of` of which the accelerator computes neither part; `elsewhere` are operators that run as part of others."""
    taken = set(elsewhere)
    return {
        name: (function, gate)
        for name, (function, gate) in gates_of(network).items()
        if taken.isdisjoint((function.name, name))
        and isinstance(plan_table(function, accelerator), str)
        and isinstance(plan_product(gate, accelerator), str)
    }
