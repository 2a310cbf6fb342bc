"""GPT-2 small (Radford et al., Language Models are Unsupervised Multitask Learners, 2019)."""

from __future__ import annotations

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor
from baco.workloads.networks.attention import Phase, Tokens, attend, split_heads
from baco.workloads.semantics import Parameter
from baco.workloads.views import Transpose

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024


def gpt2(batch: int = 1, seq: int = 1024, phase: Phase = "prefill", cache: int = 0) -> Network:
    """GPT-2 small (124M), logits at every position of a whole sequence; phases and cache as those of `llama2_7b`."""
    b = GraphBuilder("gpt2", options={"batch": batch, "seq": seq, "phase": phase, "cache": cache})
    tokens = Tokens.of(phase, seq, cache)
    if tokens.cached + tokens.new > POSITIONS:
        raise b.error(
            f"{tokens.cached + tokens.new} tokens are more than the {POSITIONS} positions of GPT-2",
            hint=f"at most seq={POSITIONS}, or together with a cache",
        )
    kept: list[Tensor] = []

    def block(x: Tensor) -> Tensor:
        qkv = b.linear(b.layernorm(x, name="norm1"), 3 * WIDTH, bias=True, name="qkv")
        q, k, v = (split_heads(b, b.slice(qkv, 2, i * WIDTH, (i + 1) * WIDTH), HEADS) for i in range(3))
        keys, values = tokens.keep(b, "key", k), tokens.keep(b, "value", v)
        kept[:] = keys, values
        x = b.add(
            b.linear(attend(b, q, keys, values, causal=True), WIDTH, bias=True, name="output"), x, name="add1"
        )
        y = b.linear(b.layernorm(x, name="norm2"), 4 * WIDTH, bias=True, name="expand")
        y = b.linear(b.unary("gelu", y, "gelu", "gelu_tanh"), WIDTH, bias=True, name="contract")
        return b.add(y, x, name="add2")

    x = b.embedding(b.input("tokens", (batch, tokens.new)), VOCABULARY, WIDTH, name="words")
    x = b.add_table(x, POSITIONS, "add_positions", start=tokens.cached)
    with b.scope("block"):
        x = b.repeat(LAYERS, block, x)
    # The output projection is the embedding table again: its weights are counted there.
    table = Parameter("words.table", (VOCABULARY, WIDTH), spread=0.5)
    logits = b.linear(
        b.layernorm(x, name="norm"),
        VOCABULARY,
        name="logits",
        shared=True,
        trained=(table.viewed((WIDTH, VOCABULARY), Transpose((1, 0))), None),
    )
    return b.build(outputs=(logits, *kept))
