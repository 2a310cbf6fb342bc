"""Scaled dot-product attention and the keys and values that it keeps, shared by the transformer definitions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Tensor

#: Of a decoder: many tokens at once, or one more behind those whose keys and values are kept.
Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Tokens:
    """What a decoder works on: `new` tokens behind `cached` ones, whose keys and values come from outside."""

    new: int
    cached: int

    @classmethod
    def of(cls, phase: Phase, seq: int, cache: int) -> Tokens:
        """`seq` tokens in prefill, one in decode; `cache` earlier ones, which decode takes for seq - 1 when it is 0."""
        return cls(seq, cache) if phase == "prefill" else cls(1, cache or seq - 1)

    def keep(self, b: GraphBuilder, name: str, x: Tensor) -> Tensor:
        """Keys or values x (batch, heads, new, d) behind the earlier ones: (batch, heads, cached + new, d).

        The earlier ones are an input NAME_cache of the block, the result, NAME.append, is what its next run takes as that.
        """
        if not self.cached:
            return x
        batch, heads, _, size = x.shape
        earlier = b.input(f"{name}_cache", (batch, heads, self.cached, size))
        return b.concat((earlier, x), 2, name=f"{name}.append")


def split_heads(b: GraphBuilder, x: Tensor, heads: int) -> Tensor:
    """(batch, seq, features) to (batch, heads, seq, features / heads): a view."""
    batch, seq, features = x.shape
    return b.transpose(b.reshape(x, (batch, seq, heads, features // heads)), (0, 2, 1, 3))


def attend(b: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """softmax(q kT / sqrt(d)) v for (batch, heads, seq, d) operands, to (batch, seq_q, heads * d).

    Two batched GEMMs with a group for each head of each batch element; the whole score matrix is
    computed, as dense hardware does, also where a causal mask hides half of it. The factor 1/sqrt(d) is
    part of the requantisation of the scores. Where k and v have fewer heads, as many heads of q in a row share each
    (grouped-query attention, Ainslie et al., 2023).
    """
    batch, heads, seq, size = q.shape
    if k.shape[1] != heads:
        q = b.reshape(q, (batch, k.shape[1], heads // k.shape[1], seq, size))
        k, v = (b.reshape(x, (batch, x.shape[1], 1, *x.shape[2:])) for x in (k, v))
    scores = b.matmul(
        q,
        b.transpose(k, (*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2)),
        name="scores",
        alpha=1 / math.sqrt(size),
    )
    context = b.matmul(b.softmax(scores, name="softmax", causal=causal), v, name="context")
    if k.shape[1] != heads:
        context = b.reshape(context, (batch, heads, seq, size))
    return b.reshape(b.transpose(context, (0, 2, 1, 3)), (batch, seq, heads * size))
