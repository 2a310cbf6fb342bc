"""BERT base (Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, NAACL 2019).

The default sequence length is 128, that of the published layer lists (and of GLUE fine-tuning); the
longest that its position table holds is 512.
"""

from __future__ import annotations

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor
from baco.workloads.networks.attention import attend, split_heads

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY, POSITIONS = 12, 768, 12, 3072, 30522, 512


def bert_base(batch: int = 1, seq: int = 128) -> Network:
    """BERT base encoder with pooler, uncased vocabulary."""
    b = GraphBuilder("bert_base", options={"batch": batch, "seq": seq})
    if seq > POSITIONS:
        raise b.error(
            f"seq={seq} is more than the {POSITIONS} positions of BERT", hint=f"at most seq={POSITIONS}"
        )

    def block(x: Tensor) -> Tensor:
        q, k, v = (
            split_heads(b, b.linear(x, WIDTH, bias=True, name=n), HEADS) for n in ("query", "key", "value")
        )
        y = b.linear(attend(b, q, k, v), WIDTH, bias=True, name="output")
        x = b.layernorm(b.add(y, x, name="add1"), name="norm1")
        y = b.unary("gelu", b.linear(x, HIDDEN, bias=True, name="intermediate"), "gelu")
        y = b.linear(y, WIDTH, bias=True, name="contract")
        return b.layernorm(b.add(y, x, name="add2"), name="norm2")

    with b.scope("embeddings"):
        words = b.embedding(b.input("tokens", (batch, seq)), VOCABULARY, WIDTH, name="words")
        types = b.embedding(b.input("token_types", (batch, seq)), 2, WIDTH, name="types")
        x = b.add(words, types, name="add_types")
        x = b.add_table(x, POSITIONS, "add_positions")
        x = b.layernorm(x, name="norm")
    with b.scope("encoder"):
        x = b.repeat(LAYERS, block, x)
    x = b.linear(b.reshape(b.slice(x, 1, 0, 1), (batch, WIDTH)), WIDTH, bias=True, name="pooler")
    b.unary("tanh", x, "pooler.tanh")
    return b.build()
