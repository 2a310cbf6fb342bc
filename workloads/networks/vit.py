"""Vision transformer ViT-B/16 (Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021)."""

from __future__ import annotations

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor
from baco.workloads.networks.attention import attend, split_heads
from baco.workloads.semantics import Parameter, Semantics
from baco.workloads.views import Expand

LAYERS, WIDTH, HEADS, HIDDEN, PATCH = 12, 768, 12, 3072, 16


def vit_b16(batch: int = 1, image: int = 224) -> Network:
    """ViT-B/16, image classification."""
    b = GraphBuilder("vit_b16", options={"batch": batch, "image": image})
    if image % PATCH:
        raise b.error(f"image={image} is not a multiple of the patch size {PATCH}")
    tokens = (image // PATCH) ** 2 + 1

    def block(x: Tensor) -> Tensor:
        qkv = b.linear(b.layernorm(x, name="norm1"), 3 * WIDTH, bias=True, name="qkv")
        q, k, v = (split_heads(b, b.slice(qkv, 2, i * WIDTH, (i + 1) * WIDTH), HEADS) for i in range(3))
        x = b.add(b.linear(attend(b, q, k, v), WIDTH, bias=True, name="output"), x, name="add1")
        y = b.linear(b.layernorm(x, name="norm2"), HIDDEN, bias=True, name="expand")
        y = b.linear(b.unary("gelu", y, "gelu"), WIDTH, bias=True, name="contract")
        return b.add(y, x, name="add2")

    x = b.conv2d(b.input("image", (batch, 3, image, image)), WIDTH, PATCH, PATCH, bias=True, name="patches")
    x = b.transpose(b.reshape(x, (batch, WIDTH, tokens - 1)), (0, 2, 1))
    # The class token is a trained constant beside the patches.
    token = Parameter("class_token.token", (1, 1, WIDTH), spread=0.5).viewed(
        (batch, 1, WIDTH), Expand((batch, 1, WIDTH))
    )
    join = Semantics("concat", (token, x), {"axis": 1})
    x = b.op("concat", (x,), (batch, tokens, WIDTH), WIDTH, name="class_token", semantics=join)
    x = b.add_table(x, tokens, "add_positions")
    with b.scope("block"):
        x = b.repeat(LAYERS, block, x)
    x = b.layernorm(x, name="norm")
    b.linear(b.reshape(b.slice(x, 1, 0, 1), (batch, WIDTH)), 1000, bias=True, name="head")
    return b.build()
