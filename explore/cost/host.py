"""What the host core spends on the operators that the accelerator does not run. A stated, simple model.

The host is a scalar, in-order, 64-bit RISC-V core at the accelerator's clock, with a blocking cache. An operator
is a loop over elements; its cost is

    cycles = elements * cycles per element + rows * cycles per row + words moved / DRAM bytes per cycle
    energy = instructions * 25 pJ + words moved * DRAM energy per word

* Elements are one word (a byte at 8 bits), as on the accelerator. Arithmetic is fixed-point, as quantised
  networks do it: a pointwise function of one 8-bit tensor is a look-up in a table of 256 bytes; wider inputs
  take a polynomial instead.
* Cycles per element add up instructions, each at the issue cost in `_CYCLES`, with loops unrolled so
  that one of four elements pays for pointer updates and the branch.
* Rows (of the last dimension) count where each needs a division or square root.
* A row stays in the cache between passes over it, so every tensor crosses the DRAM bus once; a blocking cache
  overlaps none of that with arithmetic, hence the sum. Of a table that is only indexed (embedding, gather),
  just the rows read move.
* Energy of an instruction: as of programs (`baco.compiler.network.prediction.host_energy_pj`).
* Operators do not record windows; pooling is charged as the separable, running algorithms whose work per
  input element is independent of the window.

It is meant to show whether the host matters. Against programs of whole networks on the simulated host core
(`baco run --network`, where `baco.compiler.ops.host_model` predicts each call from its own parameters) embeddings,
softmax, layer normalisation, tables and global averages come out between 0.82 and 1.11 times as measured, an
embedding whose few rows stay in the cache at 1.44. Additions of two tensors are charged to the host here, though
the compiler gives them to the accelerator, where they take a thirtieth. It ignores the operating system, and
`Features.normalizations`, with which an accelerator takes over some of these operators, is not considered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from baco.accel.config import Accelerator
from baco.compiler.network.steps import StepCost
from baco.exploration.operators import OperatorCost
from baco.workloads.network import Network, Operator

#: Cycles of each kind of instruction of a recipe on a five-stage in-order core when neighbours are independent:
#: multiplications have half of their latency of four exposed; a look-up is an address sum and a load whose result is
#: waited for.
_CYCLES = (1.0, 1.0, 1.0, 2.0, 3.0)
#: Instructions behind each.
_INSTRUCTIONS = (1.0, 1.0, 1.0, 1.0, 2.0)
#: Loop overhead an element: two instructions for every fourth.
_LOOP = 0.5
#: A 64-bit division or square root of an iterative unit, one bit a cycle and some set-up; one instruction.
_DIVIDE_CYCLES = 40.0


class Recipe(NamedTuple):
    """Instructions an element, all passes together, and divisions a row.

    Attributes:
        load, store, alu, multiply, look_up: per element.
        divide: per row of the last dimension.
        passes: loops over the elements.
        indexed: parameters are only indexed, not read as a whole.
    """

    load: float = 1.0
    store: float = 1.0
    alu: float = 0.0
    multiply: float = 0.0
    look_up: float = 0.0
    divide: float = 0.0
    passes: int = 1
    indexed: bool = False

    def total(self, per: Sequence[float]) -> float:
        """Of what each kind of instruction takes (`_CYCLES`, `_INSTRUCTIONS`), per element."""
        return sum(amount * one for amount, one in zip(self, per, strict=False)) + _LOOP * self.passes


_COPY = Recipe()
_TABLE = Recipe(look_up=1)
#: Range reduction (4) and a polynomial of degree five (5 multiplications, 5 additions), then clipping (2).
_POLYNOMIAL = Recipe(alu=11, multiply=5)
#: A fixed-point rescale with rounding and clipping: multiply, add, shift, two comparisons.
_RESCALED = Recipe(alu=4, multiply=1)
_TWO_OPERANDS = Recipe(load=2, alu=5, multiply=2)
#: Sum and sum of squares; then centre, scale, shift by parameters (two loads), rescale.
_NORMALISE = Recipe(load=4, alu=2 + 6, multiply=1 + 2, divide=2, passes=2)

#: Cost of every kind of the host. Kinds that lean on a table at 8 bits are in `_POINTWISE`.
_RECIPES: dict[str, Recipe] = {
    # maximum; exponential and sum; product with the reciprocal, rescaled
    "softmax": Recipe(load=3, store=2, alu=2 + 2 + 4, multiply=1, look_up=1, divide=1, passes=3),
    "layernorm": _NORMALISE,
    "groupnorm": _NORMALISE,
    "instancenorm": _NORMALISE,
    "rmsnorm": Recipe(load=3, alu=1 + 4, multiply=1 + 2, divide=2, passes=2),
    # running sum of squares across channels (in and out), power by table, product
    "lrn": Recipe(load=3, alu=2 + 4, multiply=2 + 1, look_up=1, passes=2),
    "add": Recipe(load=2, alu=1 + 4, multiply=2),
    "sub": Recipe(load=2, alu=1 + 4, multiply=2),
    "mul": _TWO_OPERANDS,
    # reciprocal by table
    "div": Recipe(load=2, alu=5, multiply=2, look_up=1),
    "bias": Recipe(load=2, alu=1 + 4, multiply=1),
    "scale": Recipe(load=2, alu=4, multiply=1),
    "batchnorm": Recipe(load=3, alu=1 + 4, multiply=1),
    "requantize": _RESCALED,
    "relu": Recipe(alu=2),
    "relu6": Recipe(alu=4),
    "maxpool": Recipe(load=2, store=1, alu=4, passes=2),
    "avgpool": Recipe(load=2, store=1, alu=3, multiply=0.25, passes=2),
    "lppool": Recipe(load=2, store=1, alu=3, multiply=1, passes=2),
    # two taps in each of two directions
    "upsample": Recipe(load=4, alu=4, multiply=4),
    "embedding": Recipe(indexed=True),
    "gather": Recipe(alu=1, indexed=True),
    # a pair of elements turns by a table of angles: two products and a sum each
    "rope": Recipe(load=3, alu=1 + 4, multiply=2),
    "reduce": Recipe(load=1, store=0, alu=1),
    "argmax": Recipe(load=1, store=0, alu=3),
    # a heap of the largest, or merge sort: some ten levels of compare and move
    "topk": Recipe(load=10, store=10, alu=20, passes=10),
    "cumsum": Recipe(alu=5, multiply=1),
    "where": Recipe(load=3, alu=2),
    "concat": _COPY,
    "pad": _COPY,
}
#: Functions of one tensor: a table at 8 bits, else a polynomial.
_POINTWISE = frozenset({"gelu", "silu", "sigmoid", "tanh", "activation", "elementwise"})
#: Kinds not listed, for example of an importer to come: about the cost of a softmax, on the safe side.
GENERIC = Recipe(load=3, store=2, alu=8, multiply=1, look_up=1, divide=1, passes=3)


def recipe_of(kind: str, input_bits: int = 8) -> Recipe:
    """The recipe of an operator kind; `GENERIC` for a kind without one."""
    if kind in _POINTWISE:
        return _TABLE if input_bits == 8 else _POLYNOMIAL
    return _RECIPES.get(kind, GENERIC)


def host_costs(network: Network, accelerator: Accelerator) -> list[OperatorCost]:
    """Costs of all operators of a network that neither the array nor its output path runs, in order.

    Args:
        accelerator: gives element width, DRAM bandwidth and DRAM energy.
    """
    words = {x.name: x.words for x in network.inputs}
    words |= {op.output.name: op.output.words for op in network.operators}
    return [_cost(op, words, accelerator) for op in network.host_operators]


def _cost(op: Operator, words: dict[str, int], accelerator: Accelerator) -> OperatorCost:
    recipe = recipe_of(op.kind, accelerator.input_bits)
    read = sum(words.get(name, 0) for name in op.inputs)
    written = op.output.words
    # Reductions and pooling work on what they read, expansions on what they write.
    elements = max(written, max((words.get(name, 0) for name in op.inputs), default=0))
    if recipe.indexed:
        elements = written
        read = min(read, written) + min(op.weight_words, written)
    else:
        read += op.weight_words
    row = op.output.shape[-1] if op.output.shape else 1
    divisions = recipe.divide * (elements / row)
    moved = float(read + written)
    cycles = elements * recipe.total(_CYCLES) + divisions * _DIVIDE_CYCLES
    cycles += moved * accelerator.input_bits / 8 / accelerator.dram_bytes_per_cycle
    instructions = elements * recipe.total(_INSTRUCTIONS) + divisions
    energy = instructions * accelerator.energy.instruction_pj + moved * accelerator.energy.dram_pj
    return OperatorCost(op.name, op.kind, False, op.repeat, StepCost(op.repeat * cycles, op.repeat * energy))
