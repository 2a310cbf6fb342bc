"""Products of a network that can run as one unit: scores, softmax and values of attention, or two products in a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from accel.config import Accelerator
from common.errors import InputError
from compiler.ir.emit import Emitter, Number
from compiler.network.graph import MatMul, QuantisedNetwork, Softmax
from compiler.network.layers import matmul_layer
from compiler.network.row_code import RowCode, load_table
from compiler.network.views import View
from compiler.styles.fused.chain import ChainSchedule, ProductChain
from compiler.styles.fused.products import ChainOperands, emit_chain

__all__ = [
    "ChainCalls",
    "ChainCode",
    "ChainOperators",
    "ChainScheduler",
    "any_scale",
    "chain_calls",
    "chains_of",
    "emit_chain_code",
]

#: How a chain is carried out as one unit; None: its operators run one by one. The code of its softmax goes along.
ChainScheduler: TypeAlias = "Callable[[ProductChain, RowCode | None], ChainSchedule | None]"


@dataclass(frozen=True)
class ChainOperators:
    """Operators of a chain, in order; each alone reads what the one before wrote, all of it."""

    first: MatMul
    softmax: Softmax | None
    second: MatMul

    @property
    def inner(self) -> tuple[str, ...]:
        """Names of those whose results stay on chip."""
        return (self.first.name,) if self.softmax is None else (self.first.name, self.softmax.name)


@dataclass(frozen=True)
class ChainCode:
    """A function that computes a chain. Its arguments are left operand, right operands, output, table, numerator and shift of
    a softmax, and the bits of both scales."""

    chain: ProductChain
    schedule: ChainSchedule


@dataclass(frozen=True)
class ChainCalls:
    """A batched chain as calls of one unit.

    Attributes:
        chain: of some groups; its scales are the operators' own.
        offsets: for each call, where left, first right, second right and output begin, in elements from the views' beginnings.
    """

    chain: ProductChain
    offsets: tuple[tuple[int, int, int, int], ...]


def chains_of(network: QuantisedNetwork) -> list[ChainOperators]:
    """All chains, none of which shares an operator with another one."""
    written = Counter(op.output.value for op in network.operators)
    read = Counter(view.value for op in network.operators for view in op.inputs)
    readers = {view.value: op for op in network.operators for view in op.inputs}
    found: list[ChainOperators] = []
    taken: set[str] = set()

    def only_reader(output: View) -> object:
        name = output.value
        alone = network.values[name].role == "intermediate" and written[name] == read[name] == 1
        return readers[name] if alone else None

    for op in network.operators:
        if not isinstance(op, MatMul) or op.bias is not None or op.name in taken:
            continue
        softmax, inner = None, op.output
        behind = only_reader(inner)
        if isinstance(behind, Softmax) and _alike(behind.input, inner):
            softmax, inner = behind, behind.output
            behind = only_reader(inner)
        if isinstance(behind, MatMul) and behind.bias is None and _alike(behind.left, inner):
            found.append(ChainOperators(op, softmax, behind))
            taken |= {op.name, behind.name}
    return found


def _alike(one: View, other: View) -> bool:
    """Same elements in the same shape, strides of single elements apart."""
    return one.shape == other.shape and one.collapsed() == other.collapsed()


def chain_calls(operators: ChainOperators, causal: int | None) -> ChainCalls | None:
    """The unit of a chain's operators, and how often it is called; None where an operand would have to be copied first, or the
    products fall into calls differently.

    Args:
        causal: of a causal softmax, elements of the first row that take part.
    """
    first, second = matmul_layer(operators.first), matmul_layer(operators.second)
    if first is None or second is None or len(first.offsets) != len(second.offsets):
        return None
    try:
        chain = ProductChain(first.layer, second.layer, operators.softmax is not None, causal)
    except InputError:
        return None
    return ChainCalls(
        chain,
        tuple((a, b, d, e) for (a, b, _), (_, d, e) in zip(first.offsets, second.offsets, strict=True)),
    )


def emit_chain_code(name: str, code: ChainCode, accelerator: Accelerator) -> Emitter:
    """The function of a chain, not yet finished."""
    softmax = ["table", "numerator", "shift"] if code.chain.softmax else []
    e = Emitter(name, ["left", "first", "second", "output", *softmax, "first_scale", "second_scale"])
    left, first, second, output, *given = e.arguments
    numbers: Sequence[Number] = (0, 0)
    if softmax:
        load_table(e, accelerator, given[0])
        numbers = given[1:3]
    scales = (given[-2], given[-1])
    operands = ChainOperands(left, first, second, output, scales, (numbers[0], numbers[1]))
    emit_chain(e, code.chain, code.schedule, accelerator, operands)
    return e


def any_scale(chain: ProductChain, scale: float) -> ProductChain:
    """The chain with one scale for all: functions take the real ones as arguments."""
    return replace(chain, first=replace(chain.first, scale=scale), second=replace(chain.second, scale=scale))
