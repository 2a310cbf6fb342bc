"""Scaled dot-product attention, shared by the transformer definitions."""

from __future__ import annotations

import math

from workloads.builder import GraphBuilder
from workloads.network import Tensor


def split_heads(b: GraphBuilder, x: Tensor, heads: int) -> Tensor:
    """(batch, seq, features) to (batch, heads, seq, features / heads): a view."""
    batch, seq, features = x.shape
    return b.transpose(b.reshape(x, (batch, seq, heads, features // heads)), (0, 2, 1, 3))


def attend(b: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    """softmax(q kT / sqrt(d)) v for (batch, heads, seq, d) operands, to (batch, seq_q, heads * d).

    Two batched GEMMs with a group for each head of each batch element; the whole score matrix is
    computed, as dense hardware does, also where a causal mask hides half of it. The factor 1/sqrt(d) is
    part of the requantisation of the scores.
    """
    batch, heads, seq, size = q.shape
    scores = b.matmul(q, b.transpose(k, (0, 1, 3, 2)), name="scores", alpha=1 / math.sqrt(size))
    context = b.matmul(b.softmax(scores, name="softmax", causal=causal), v, name="context")
    return b.reshape(b.transpose(context, (0, 2, 1, 3)), (batch, seq, heads * size))
