"""Random tile trees: chains of two and three operators, and copies, relations and residencies of all kinds."""

from __future__ import annotations

import random
from dataclasses import replace

from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.expression import Expression, variable
from baco.compiler.mapping.slices import place
from baco.compiler.mapping.tree import Loop, Residency, Tile


def _product(number: int, rows: str, depth: str, columns: str) -> Contraction:
    m, k, n = variable(rows), variable(depth), variable(columns)
    return Contraction(
        {rows: 1, depth: 1, columns: 1},
        Access(f"T{number + 1}", (m, n), "int32"),
        (Access(f"T{number}", (m, k)), Access(f"W{number}", (k, n))),
        name=f"op{number}",
    )


def _convolution(r: random.Random, number: int) -> Contraction:
    """Two image dimensions, the second without window; strides and windows at random."""
    q, p, c, k, s = (variable(f"{name}{number}") for name in "qpcks")
    stride, dilation = r.choice((1, 1, 2)), r.choice((1, 1, 2))
    image: Expression = q * stride + s * dilation - r.choice((0, 1))
    return Contraction(
        {f"{name}{number}": 1 for name in "qpcks"},
        Access(f"T{number + 1}", (q, p, k), "int32"),
        (Access(f"T{number}", (image, p, c)), Access(f"W{number}", (s, c, k))),
        name=f"op{number}",
    )


def _loops(r: random.Random, sizes: dict[str, int], spread: list[str]) -> tuple[Loop, ...]:
    names = list(sizes)
    r.shuffle(names)
    temporal = [Loop(name, sizes[name]) for name in names]
    spatial = [Loop(name, r.choice((1, 2)), spatial=True) for name in spread if r.random() < 0.3]
    return (*temporal, *spatial)


def _keeps(r: random.Random, ops: list[Contraction], without: set[str], odds: float) -> tuple[Residency, ...]:
    tensors = dict.fromkeys(a.operand for op in ops for a in op.accesses)
    return tuple(Residency(t, r.choice((1, 1, 2))) for t in tensors if t not in without and r.random() < odds)


def _chain(r: random.Random, op: Contraction, needs: dict[str, int], budget: int, *, exact: bool) -> Tile:
    """One operator in two levels, at least `needs` of each dimension, exactly so if asked for.

    (Blocks of instances that overlap by padding alone may be the same by chance, which nobody counts on.)
    """
    inner = {}
    outer = {}
    for name in op.extents:
        size = needs.get(name, r.choice((1, 1, 2, budget)))
        inner[name] = r.choice([n for n in range(1, size + 1) if not exact or size % n == 0])
        outer[name] = -(-size // inner[name])
    rows, columns = op.output.variables[0], op.output.variables[-1]
    leaf = Tile(
        0, _keeps(r, [op], set(), 0.4), _loops(r, inner, [] if exact and needs else [rows]), operator=op.name
    )
    return Tile(
        1, _keeps(r, [op], set(), 0.6), _loops(r, outer, [] if exact and needs else [columns]), (leaf,)
    )


def _fuse(r: random.Random, ops: list[Contraction], level: int, budget: int, *, exact: bool) -> Tile:
    """A tile that holds a row of operators; the last one's loops are its own."""
    children: list[Tile] = []
    tail = ops
    if len(ops) > 2 and r.random() < 0.5:
        children = [_fuse(r, ops[1:], level - 1, budget, exact=exact)]
        tail = ops[:1]
    else:
        children = [_chain(r, ops[-1], {}, budget, exact=exact)]
        tail = ops[:-1]
    for op in reversed(tail):
        following = ops[ops.index(op) + 1]
        around = next(c for c in children if following.name in {leaf.operator for leaf in c.leaves})
        inside = [one for one in ops if one.name in {leaf.operator for leaf in around.leaves}]
        block = following.access(op.output.operand).slice(place(around, inside).extents[following.name])
        needs = dict(zip((i.variables[0] for i in op.output.indices), block, strict=True))
        children.insert(0, _chain(r, op, needs, budget, exact=exact))
    last = ops[-1]
    dims = r.sample(list(last.extents), r.randint(0, 3))
    spread = [last.output.variables[0]] if exact else []
    loops = _loops(r, {name: r.choice((1, 2, 2, 3)) for name in dims}, spread)
    between = {op.output.operand for op in ops[:-1]}
    keeps = _keeps(r, ops, between, 0.5) + tuple(Residency(name) for name in sorted(between))
    return Tile(level, keeps, loops, tuple(children), r.choice(("Seq", "Shar", "Pipe", "Para")))


def draw_fused(r: random.Random) -> tuple[Tile, list[Contraction]]:
    """A tree and its operators: two or three products or convolutions in a row."""
    count = r.choice((2, 2, 3))
    if r.random() < 0.5:
        letters = [f"d{n}" for n in range(count + 2)]
        ops = [_product(n, "m", letters[n], letters[n + 1]) for n in range(count)]
    else:
        ops = [_convolution(r, n) for n in range(count)]
    tree = _fuse(r, ops, 4, 2 if count == 3 else 3, exact=r.random() < 0.5)
    outside = {ops[0].inputs[0].operand, ops[-1].output.operand, *(op.inputs[1].operand for op in ops)}
    spilled = {op.output.operand for op in ops[:-1] if r.random() < 0.2}
    dims = r.sample(list(ops[-1].extents), r.randint(0, 2))
    loops = tuple(Loop(name, 2) for name in dims)
    keeps = tuple(Residency(name) for name in sorted(outside | spilled))
    tree = Tile(5, keeps, loops, (tree,))
    extents = place(tree, ops).extents
    return tree, [
        replace(
            op, extents={name: max(1, extents[op.name][name] - r.choice((0, 0, 1))) for name in op.extents}
        )
        for op in ops
    ]
