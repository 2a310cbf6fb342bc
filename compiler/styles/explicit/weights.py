"""Weights that the host rearranges before the accelerator reads them."""

from __future__ import annotations

from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer

#: Workspace of weights stored as C rows of K elements, one group after the other.
TRANSPOSED = "transposed_weights"
#: Workspace of block-diagonal weights.
EXPANDED = "expanded_weights"
_WORD = 8


def emit_transposed(e: Emitter, layer: Layer, weight: Number, to: Number) -> None:
    """The host writes the transposed weights (K rows of C elements) as C rows of K elements; fenced."""
    p = layer.problem
    with e.loop(p.groups, hint="g") as group, e.loop(p.C, hint="c") as c:
        source = e.add(weight, e.mul(group, layer.weight.group), c)
        target = e.add(to, e.mul(e.add(e.mul(group, p.C), c), p.K))
        with e.loop(p.K, hint="k") as k:
            value = e.load(e.add(source, e.mul(k, layer.weight.pitch)), 8)
            e.store(e.add(target, k), value, 8)
    e.fence()


def expanded_bytes(layer: Layer, packed: int) -> int:
    """Size of the workspace for block-diagonal weights, whole 8-byte words."""
    p = layer.problem
    return -(-(-(-p.groups // packed) * p.S * p.R * packed * p.C * packed * p.K) // _WORD) * _WORD


def emit_expanded(e: Emitter, layer: Layer, packed: int, weight: Number, to: Number) -> None:
    """The host writes block-diagonal weights of `packed` groups at a time; fenced.

    Written: `[groups / packed, S, R, packed * C, packed * K]`, zero off the diagonal blocks and in the groups that the
    last one lacks. The workspace is aligned to 8 bytes.
    """
    p = layer.problem
    rows, columns = packed * p.C, packed * p.K
    # does nothing, but the layer's time counts from the first command, and this work is part of it
    e.command("flush")
    with e.loop(expanded_bytes(layer, packed), step=_WORD) as at:
        e.store(e.add(to, at), 0)
    with (
        e.loop(p.groups, hint="g") as group,
        e.loop(p.S * p.R, hint="w") as window,
        e.loop(p.C, hint="c") as c,
    ):
        pack, inside = e.div(group, packed), e.mod(group, packed)
        source = e.add(
            weight, e.mul(group, layer.weight.group), e.mul(e.add(e.mul(window, p.C), c), layer.weight.pitch)
        )
        row = e.add(e.mul(e.add(e.mul(pack, p.S * p.R), window), rows), e.mul(inside, p.C), c)
        target = e.add(to, e.mul(row, columns), e.mul(inside, p.K))
        with e.loop(p.K, hint="k") as k:
            e.store(e.add(target, k), e.load(e.add(source, k), 8), 8)
    e.fence()
