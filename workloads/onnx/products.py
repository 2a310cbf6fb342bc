"""Matrix products in their wider forms: a third operand of any shape, transpositions, ellipses."""

from __future__ import annotations

import math

import numpy as np

from baco.workloads.onnx.expansion import Expansion, RefusedError


def gemm(e: Expansion) -> None:
    """alpha * A' * B' + beta * C for a C that is not one of columns, and onnxruntime's FusedGemm."""
    from baco.workloads.onnx.pointwise import activated

    options = {
        name: e.attribute(name, None)
        for name in ("alpha", "transA", "transB")
        if e.attribute(name, None) is not None
    }
    beta = float(e.attribute("beta", 1.0))
    y = e.add("Gemm", e.input(0), e.input(1), **options)
    if e.has(2) and beta:
        added = e.input(2) if beta == 1 else e.add("Mul", e.input(2), e.constant(beta))
        y = e.add("Add", y, added)
    name = e.attribute("activation", "") if e.node.op_type == "FusedGemm" else ""
    if name:
        keys = ("activation_alpha", "activation_beta")
        numbers = [float(e.attribute(key, 0.0)) for key in keys if e.attribute(key, None) is not None]
        operator, attributes, further = activated(e, name, numbers)
        e.finish(operator, y, *further, **attributes)
    else:
        e.finish("Identity", y)


def fused_matmul(e: Expansion) -> None:
    """onnxruntime's product with transposed operands and a factor."""
    operands = []
    for index, letter in ((0, "A"), (1, "B")):
        shape = e.shape(index)
        order = list(range(len(shape)))
        if e.attribute(f"transBatch{letter}", 0) and len(order) > 2:
            order = [*order[1:-1], 0, order[-1]]
        if e.attribute(f"trans{letter}", 0) and len(order) > 1:
            order[-2:] = order[:-3:-1]
        x = e.input(index)
        operands.append(x if order == sorted(order) else e.add("Transpose", x, perm=order))
    y = e.add("MatMul", *operands)
    alpha = float(e.attribute("alpha", 1.0))
    if alpha == 1:
        e.finish("Identity", y)
    else:
        e.finish("Mul", y, e.constant(alpha))


def einsum(e: Expansion) -> None:
    """Ellipses as letters, sums and diagonals of one operand, and more than two operands one after the other."""
    terms, arrow, output = e.attribute("equation", "").replace(" ", "").partition("->")
    operands = terms.split(",")
    if len(operands) != len(e.node.input):
        raise RefusedError(f"an equation of {len(operands)} operands")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in terms + output]
    most = max((len(e.shape(i)) - len(t) + 3 for i, t in enumerate(operands) if "..." in t), default=0)
    if most > len(free):
        raise RefusedError("too many indices")
    dots = "".join(free[:most])
    full = []
    for index, term in enumerate(operands):
        count = len(e.shape(index)) - len(term) + 3
        full.append(term.replace("...", dots[most - count :]) if "..." in term else term)
    if not arrow:
        letters = "".join(full)
        output = dots + "".join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))
    output = output.replace("...", dots)
    names = e.inputs
    shapes = [list(e.shape(i)) for i in range(len(names))]
    while len(names) > 1:
        (first, second), rest = full[:2], full[2:]
        kept = "".join(c for c in dict.fromkeys(first + second) if c in "".join(rest) + output)
        kept = output if not rest else kept
        left, a, left_shape = _summed(e, names[0], first, shapes[0], second + kept)
        right, b, right_shape = _summed(e, names[1], second, shapes[1], first + kept)
        left, left_shape = _matched(e, left, a, left_shape, b, right_shape)
        right, right_shape = _matched(e, right, b, right_shape, a, left_shape)
        sizes = dict(zip(a + b, [*left_shape, *right_shape], strict=True))
        y = _two(e, left, a, right, b, kept, sizes)
        names, full, shapes = [y, *names[2:]], [kept, *rest], [[sizes[c] for c in kept], *shapes[2:]]
    y, letters, _ = _summed(e, names[0], full[0], shapes[0], output)
    if letters == output:
        e.finish("Identity", y)
    else:
        e.finish("Transpose", y, perm=[letters.index(c) for c in output])


def _summed(e: Expansion, x: str, letters: str, shape: list[int], needed: str) -> tuple[str, str, list[int]]:
    """The operand with repeated letters as diagonals and without those that nothing else has."""
    for letter in dict.fromkeys(letters):
        if letters.count(letter) > 1:
            first, second = (i for i, c in enumerate(letters) if c == letter)
            size = shape[first]
            order = [*(i for i in range(len(letters)) if i not in (first, second)), first, second]
            lead = [shape[i] for i in order[:-2]]
            flat = e.reshape(e.add("Transpose", x, perm=order), (*lead, size * size))
            x = e.slice(flat, len(lead), 0, size * size, size + 1)
            letters, shape = "".join(letters[i] for i in order[:-1]), [*lead, size]
    gone = [i for i, c in enumerate(letters) if c not in needed]
    if gone:
        x = e.add("ReduceSum", x, e.constant(gone), keepdims=0)
        letters = "".join(c for i, c in enumerate(letters) if i not in gone)
        shape = [n for i, n in enumerate(shape) if i not in gone]
    return x, letters, shape


def _matched(
    e: Expansion, x: str, letters: str, shape: list[int], others: str, sizes: list[int]
) -> tuple[str, list[int]]:
    """With extents of 1 that the other operand has larger (an ellipsis broadcasts)."""
    wanted = [
        max(n, sizes[others.index(c)]) if c in others else n for c, n in zip(letters, shape, strict=True)
    ]
    return (x if wanted == shape else e.add("Expand", x, e.constant(wanted))), wanted


def _two(e: Expansion, left: str, a: str, right: str, b: str, output: str, sizes: dict[str, int]) -> str:
    """A batched product of two operands; every letter stands in both or in the output."""
    both = [c for c in a if c in b]
    batch = [c for c in both if c in output]
    inner = [c for c in both if c not in output]
    rows, columns = [c for c in a if c not in both], [c for c in b if c not in both]

    def size(letters: list[str]) -> int:
        return math.prod(sizes[c] for c in letters)

    def arranged(x: str, letters: str, order: list[str], shape: tuple[int, ...]) -> str:
        perm = [letters.index(c) for c in order]
        turned = x if perm == sorted(perm) else e.add("Transpose", x, perm=perm)
        return e.reshape(turned, shape)

    lead = (size(batch),) if batch else ()
    y = e.add(
        "MatMul",
        arranged(left, a, [*batch, *rows, *inner], (*lead, size(rows), size(inner))),
        arranged(right, b, [*batch, *inner, *columns], (*lead, size(inner), size(columns))),
    )
    order = [*batch, *rows, *columns]
    split = e.reshape(y, [sizes[c] for c in order])
    perm = np.array([order.index(c) for c in output], np.int64)
    return (
        split if (perm == np.arange(len(perm))).all() else str(e.add("Transpose", split, perm=perm.tolist()))
    )
