"""Llama 2 7B (Touvron et al., Llama 2: Open Foundation and Fine-Tuned Chat Models, 2023) and TinyLlama 1.1B, a smaller one
of the same architecture whose heads share keys and values (Zhang et al., TinyLlama: An Open-Source Small Language Model,
2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workloads.builder import GraphBuilder
from workloads.network import Network, Tensor
from workloads.networks.attention import attend, split_heads

Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class _Size:
    """Blocks, features of a token, heads of queries and of keys and values, features between gate and output, tokens."""

    layers: int
    width: int
    heads: int
    key_heads: int
    hidden: int
    vocabulary: int = 32000


def llama2_7b(batch: int = 1, seq: int = 2048, phase: Phase = "prefill") -> Network:
    """Llama 2 7B: `prefill` runs seq tokens at once (logits at every position), `decode` adds one token to a
    context of seq tokens, itself included (its attention is batched GEMV on the cached keys and values)."""
    return _llama("llama2_7b", _Size(32, 4096, 32, 32, 11008), batch, seq, phase)


def tinyllama_1b(batch: int = 1, seq: int = 2048, phase: Phase = "prefill") -> Network:
    """TinyLlama 1.1B: as Llama 2 in everything, eight heads of queries to a head of keys and values."""
    return _llama("tinyllama_1b", _Size(22, 2048, 32, 4, 5632), batch, seq, phase)


def _llama(name: str, size: _Size, batch: int, seq: int, phase: Phase) -> Network:
    b = GraphBuilder(name, options={"batch": batch, "seq": seq, "phase": phase})
    rows = seq if phase == "prefill" else 1
    head = size.width // size.heads
    cached = seq - rows
    cache = {
        n: b.input(f"{n}_cache", (batch, size.key_heads, cached, head)) for n in ("key", "value") if cached
    }

    def context(name: str, new: Tensor) -> Tensor:
        return b.concat((cache[name], new), 2, name=f"{name}.append") if cached else new

    def projected(y: Tensor, name: str, heads: int) -> Tensor:
        return split_heads(b, b.linear(y, heads * head, name=name), heads)

    def block(x: Tensor) -> Tensor:
        y = b.rmsnorm(x, name="norm1")
        q = projected(y, "query", size.heads)
        k, v = (projected(y, n, size.key_heads) for n in ("key", "value"))
        q, k = b.rope(q, name="query.rope", start=cached), b.rope(k, name="key.rope", start=cached)
        y = attend(b, q, context("key", k), context("value", v), causal=True)
        x = b.add(b.linear(y, size.width, name="output"), x, name="add1")
        y = b.rmsnorm(x, name="norm2")
        gate = b.unary("silu", b.linear(y, size.hidden, name="gate"), "silu")
        y = b.binary("mul", gate, b.linear(y, size.hidden, name="up"), "mul")
        return b.add(b.linear(y, size.width, name="down"), x, name="add2")

    x = b.embedding(b.input("tokens", (batch, rows)), size.vocabulary, size.width, name="words")
    with b.scope("block"):
        x = b.repeat(size.layers, block, x)
    b.linear(b.rmsnorm(x, name="norm"), size.vocabulary, name="logits")
    return b.build()
