"""Einstein sums of two operands as (batched) matrix products."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from baco.workloads.views import Reshape, Step, Transpose


@dataclass(frozen=True)
class EinsumProduct:
    """Shapes as a matrix product: `left` (batch, M, K) times `right` (batch, K, N), then viewed as `output`.

    The batch dimension is left out where there is none, so that it is a plain GEMM. The steps make the operands
    of the product from those of the sum, and its output from the product.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    output: tuple[int, ...]
    left_steps: tuple[Step, ...] = field(default=(), compare=False)
    right_steps: tuple[Step, ...] = field(default=(), compare=False)
    output_steps: tuple[Step, ...] = field(default=(), compare=False)


def contraction(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> EinsumProduct | str:
    """How to run an Einstein sum of two operands; a text saying why not if it is no matrix product.

    Letters in both operands and the output are batch dimensions, in both but not the output contracted;
    the others are rows and columns. A letter of a single operand that is summed away, a repeated one
    (diagonal) and an ellipsis are not matrix products.
    """
    terms, arrow, output = equation.replace(" ", "").partition("->")
    a, comma, b = terms.partition(",")
    if not comma or "," in b or "." in equation or not (terms.replace(",", "") + output).isalpha():
        return f"einsum '{equation}' is not a sum of two plain operands"
    if not arrow:
        output = "".join(sorted(c for c in set(a + b) if (a + b).count(c) == 1))
    if len(set(a)) < len(a) or len(set(b)) < len(b) or len(set(output)) < len(output):
        return f"einsum '{equation}' repeats an index"
    if len(a) != len(left) or len(b) != len(right) or not set(output) <= set(a + b):
        return f"einsum '{equation}' does not fit {left} and {right}"
    sizes = dict(zip(a, left, strict=True))
    for letter, size in zip(b, right, strict=True):
        if sizes.setdefault(letter, size) != size:
            return f"einsum '{equation}' does not fit {left} and {right}"
    if not set(a) ^ set(b) <= set(output):
        return f"einsum '{equation}' sums over an index of one operand alone"
    both = set(a) & set(b)
    batch = [c for c in a if c in both and c in output]
    inner = [c for c in a if c in both and c not in output]
    rows, cols = [c for c in a if c not in both], [c for c in b if c not in both]

    def product(letters: list[str]) -> int:
        return math.prod(sizes[c] for c in letters)

    lead = (product(batch),) if batch else ()
    left_shape = (*lead, product(rows), product(inner))
    right_shape = (*lead, product(inner), product(cols))
    order = [*batch, *rows, *cols]
    return EinsumProduct(
        left_shape,
        right_shape,
        tuple(sizes[c] for c in output),
        (Transpose(tuple(a.index(c) for c in (*batch, *rows, *inner))), Reshape(left_shape)),
        (Transpose(tuple(b.index(c) for c in (*batch, *inner, *cols))), Reshape(right_shape)),
        (
            Reshape(tuple(sizes[c] for c in order)),
            Transpose(tuple(order.index(c) for c in output)),
        ),
    )
