"""Llama 2 7B (Touvron et al., Llama 2: Open Foundation and Fine-Tuned Chat Models, 2023) and TinyLlama 1.1B, a smaller one
of the same architecture whose heads share keys and values (Zhang et al., TinyLlama: An Open-Source Small Language Model,
2024)."""

from __future__ import annotations

from dataclasses import dataclass

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor
from baco.workloads.networks.attention import Phase, Tokens, attend, split_heads


@dataclass(frozen=True)
class _Size:
    """Blocks, features of a token, heads of queries and of keys and values, features between gate and output, tokens."""

    layers: int
    width: int
    heads: int
    key_heads: int
    hidden: int
    vocabulary: int = 32000


def llama2_7b(batch: int = 1, seq: int = 2048, phase: Phase = "prefill", cache: int = 0) -> Network:
    """Llama 2 7B: `prefill` runs seq tokens at once (logits at every position), `decode` adds one token to a
    context of seq tokens, itself included (its attention is batched GEMV on the cached keys and values).

    `cache` gives the number of earlier tokens in either phase. Keys and values of the earlier tokens are inputs of every
    block, those of all tokens outputs.
    """
    return _llama("llama2_7b", _Size(32, 4096, 32, 32, 11008), batch, seq, phase, cache)


def tinyllama_1b(batch: int = 1, seq: int = 2048, phase: Phase = "prefill", cache: int = 0) -> Network:
    """TinyLlama 1.1B: as Llama 2 in everything, eight heads of queries to a head of keys and values."""
    return _llama("tinyllama_1b", _Size(22, 2048, 32, 4, 5632), batch, seq, phase, cache)


def _llama(name: str, size: _Size, batch: int, seq: int, phase: Phase, cache: int) -> Network:
    b = GraphBuilder(name, options={"batch": batch, "seq": seq, "phase": phase, "cache": cache})
    tokens = Tokens.of(phase, seq, cache)
    head = size.width // size.heads
    kept: list[Tensor] = []

    def projected(y: Tensor, name: str, heads: int) -> Tensor:
        return split_heads(b, b.linear(y, heads * head, name=name), heads)

    def block(x: Tensor) -> Tensor:
        y = b.rmsnorm(x, name="norm1")
        q = projected(y, "query", size.heads)
        k, v = (projected(y, n, size.key_heads) for n in ("key", "value"))
        q, k = (b.rope(t, name=f"{n}.rope", start=tokens.cached) for n, t in (("query", q), ("key", k)))
        keys, values = tokens.keep(b, "key", k), tokens.keep(b, "value", v)
        kept[:] = keys, values
        y = attend(b, q, keys, values, causal=True)
        x = b.add(b.linear(y, size.width, name="output"), x, name="add1")
        y = b.rmsnorm(x, name="norm2")
        gate = b.unary("silu", b.linear(y, size.hidden, name="gate"), "silu")
        y = b.binary("mul", gate, b.linear(y, size.hidden, name="up"), "mul")
        return b.add(b.linear(y, size.width, name="down"), x, name="add2")

    x = b.embedding(b.input("tokens", (batch, tokens.new)), size.vocabulary, size.width, name="words")
    with b.scope("block"):
        x = b.repeat(size.layers, block, x)
    logits = b.linear(b.rmsnorm(x, name="norm"), size.vocabulary, name="logits")
    return b.build(outputs=(logits, *kept))
