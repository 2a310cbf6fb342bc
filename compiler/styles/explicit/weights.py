"""Weights that the host rearranges before the accelerator reads them."""

from __future__ import annotations

from typing import Literal

from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer

#: Workspace of weights stored as C rows of K elements, one group after the other.
TRANSPOSED = "transposed_weights"
#: Workspace of block-diagonal weights.
EXPANDED = "expanded_weights"
_WORD = 8


def _bits(layer: Layer) -> Literal[8, 16]:
    """Of a weight."""
    return 16 if layer.element_bytes == 2 else 8


def emit_transposed(e: Emitter, layer: Layer, weight: Number, to: Number) -> None:
    """The host writes the transposed weights (K rows of C elements) as C rows of K elements; fenced."""
    p, element, bits = layer.problem, layer.element_bytes, _bits(layer)
    with e.loop(p.groups, hint="g") as group, e.loop(p.C, hint="c") as c:
        source = e.add(weight, e.mul(group, layer.weight.group * element), e.mul(c, element))
        target = e.add(to, e.mul(e.add(e.mul(group, p.C), c), p.K * element))
        with e.loop(p.K, hint="k") as k:
            value = e.load(e.add(source, e.mul(k, layer.weight.pitch * element)), bits)
            e.store(e.add(target, e.mul(k, element)), value, bits)
    e.fence()


def expanded_bytes(layer: Layer, packed: int) -> int:
    """Size of the workspace for block-diagonal weights, whole 8-byte words."""
    p = layer.problem
    elements = -(-p.groups // packed) * p.S * p.R * packed * p.C * packed * p.K
    return -(-elements * layer.element_bytes // _WORD) * _WORD


def emit_expanded(e: Emitter, layer: Layer, packed: int, weight: Number, to: Number) -> None:
    """The host writes block-diagonal weights of `packed` groups at a time; fenced.

    Written: `[groups / packed, S, R, packed * C, packed * K]`, zero off the diagonal blocks and in the groups that the
    last one lacks. The workspace is aligned to 8 bytes.
    """
    p = layer.problem
    rows, columns = packed * p.C, packed * p.K
    element, bits = layer.element_bytes, _bits(layer)
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
            weight,
            e.mul(group, layer.weight.group * element),
            e.mul(e.add(e.mul(window, p.C), c), layer.weight.pitch * element),
        )
        row = e.add(e.mul(e.add(e.mul(pack, p.S * p.R), window), rows), e.mul(inside, p.C), c)
        target = e.add(to, e.mul(row, columns * element), e.mul(inside, p.K * element))
        with e.loop(p.K, hint="k") as k:
            at = e.mul(k, element)
            e.store(e.add(target, at), e.load(e.add(source, at), bits), bits)
    e.fence()
