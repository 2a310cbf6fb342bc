"""Tables that the results of a layer or an addition go through on their way out, instead of through memory twice."""

from __future__ import annotations

from dataclasses import replace

from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.ops.elementwise import Addition, Map
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.requantisation import Requantise
from baco.compiler.ops.views import View

#: Operators whose results can go through a table.
Producer = Addition | Convolution | MatMul


def tables_behind(network: QuantisedNetwork) -> dict[str, Map]:
    """By the name of an operator the table that alone reads its result, all of it, in any order.

    Maxima over windows lie between a convolution and its table: one that pools has none.
    """
    once = network.used_once()
    producers = {op.output.value: op for op in network.operators if isinstance(op, Producer)}
    found: dict[str, Map] = {}
    for op in network.operators:
        if not isinstance(op, Map) or op.table is None:
            continue
        name = op.input.value
        producer = producers.get(name)
        if (
            producer is not None
            and name in once
            and not (isinstance(producer, Convolution) and producer.pool is not None)
            and through(producer, op) is not None
        ):
            found[producer.name] = op
    return found


def through(producer: IntegerOperator, behind: Map | Requantise) -> View | None:
    """Where the producer's elements go if what is behind it changes them on their way, in the shape of its output.

    None if they are not the same elements, or no one view has them in that order.
    """
    axes = sorted(range(len(behind.input.shape)), key=lambda axis: -behind.input.strides[axis])
    source = replace(behind.input.transposed(axes), value="").collapsed()
    if source != replace(producer.output, value="").collapsed():
        return None
    return behind.output.transposed(axes).reshaped(producer.output.shape)
