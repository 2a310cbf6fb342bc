"""GPT-2 small (Radford et al., Language Models are Unsupervised Multitask Learners, 2019)."""

from __future__ import annotations

from workloads.builder import GraphBuilder
from workloads.network import Network, Tensor
from workloads.networks.attention import attend, split_heads
from workloads.semantics import Parameter
from workloads.views import Transpose

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024


def gpt2(batch: int = 1, seq: int = 1024) -> Network:
    """GPT-2 small (124M), one pass over a whole sequence with logits at every position."""
    b = GraphBuilder("gpt2", options={"batch": batch, "seq": seq})
    if seq > POSITIONS:
        raise b.error(
            f"seq={seq} is more than the {POSITIONS} positions of GPT-2", hint=f"at most seq={POSITIONS}"
        )

    def block(x: Tensor) -> Tensor:
        qkv = b.linear(b.layernorm(x, name="norm1"), 3 * WIDTH, bias=True, name="qkv")
        q, k, v = (split_heads(b, b.slice(qkv, 2, i * WIDTH, (i + 1) * WIDTH), HEADS) for i in range(3))
        x = b.add(b.linear(attend(b, q, k, v, causal=True), WIDTH, bias=True, name="output"), x, name="add1")
        y = b.linear(b.layernorm(x, name="norm2"), 4 * WIDTH, bias=True, name="expand")
        y = b.linear(b.unary("gelu", y, "gelu", "gelu_tanh"), WIDTH, bias=True, name="contract")
        return b.add(y, x, name="add2")

    x = b.embedding(b.input("tokens", (batch, seq)), VOCABULARY, WIDTH, name="words")
    x = b.add_table(x, POSITIONS, "add_positions")
    with b.scope("block"):
        x = b.repeat(LAYERS, block, x)
    # The output projection is the embedding table again: its weights are counted there.
    table = Parameter("words.table", (VOCABULARY, WIDTH), spread=0.5)
    b.linear(
        b.layernorm(x, name="norm"),
        VOCABULARY,
        name="logits",
        shared=True,
        trained=(table.viewed((WIDTH, VOCABULARY), Transpose((1, 0))), None),
    )
    return b.build()
