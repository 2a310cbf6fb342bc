"""Llama 2 7B (Touvron et al., Llama 2: Open Foundation and Fine-Tuned Chat Models, 2023)."""

from __future__ import annotations

from typing import Literal

from workloads.builder import GraphBuilder
from workloads.network import Network, Tensor
from workloads.networks.attention import attend, split_heads

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY = 32, 4096, 32, 11008, 32000


def llama2_7b(batch: int = 1, seq: int = 2048, phase: Literal["prefill", "decode"] = "prefill") -> Network:
    """Llama 2 7B: `prefill` runs seq tokens at once (logits at every position), `decode` adds one token to a
    context of seq tokens, itself included (its attention is batched GEMV on the cached keys and values)."""
    b = GraphBuilder("llama2_7b", options={"batch": batch, "seq": seq, "phase": phase})
    rows = seq if phase == "prefill" else 1
    head = WIDTH // HEADS
    cached = seq - rows
    cache = {n: b.input(f"{n}_cache", (batch, HEADS, cached, head)) for n in ("key", "value") if cached}

    def context(name: str, new: Tensor) -> Tensor:
        return b.concat((cache[name], new), 2, name=f"{name}.append") if cached else new

    def block(x: Tensor) -> Tensor:
        y = b.rmsnorm(x, name="norm1")
        q, k, v = (split_heads(b, b.linear(y, WIDTH, name=n), HEADS) for n in ("query", "key", "value"))
        q, k = b.rope(q, name="query.rope", start=cached), b.rope(k, name="key.rope", start=cached)
        y = attend(b, q, context("key", k), context("value", v), causal=True)
        x = b.add(b.linear(y, WIDTH, name="output"), x, name="add1")
        y = b.rmsnorm(x, name="norm2")
        gate = b.unary("silu", b.linear(y, HIDDEN, name="gate"), "silu")
        y = b.binary("mul", gate, b.linear(y, HIDDEN, name="up"), "mul")
        return b.add(b.linear(y, WIDTH, name="down"), x, name="add2")

    x = b.embedding(b.input("tokens", (batch, rows)), VOCABULARY, WIDTH, name="words")
    with b.scope("block"):
        x = b.repeat(LAYERS, block, x)
    b.linear(b.rmsnorm(x, name="norm"), VOCABULARY, name="logits")
    return b.build()
