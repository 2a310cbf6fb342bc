"""Vision transformer ViT-B/16 (Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021)."""

from __future__ import annotations

from workloads.builder import GraphBuilder
from workloads.network import Network, Tensor
from workloads.networks.attention import attend, split_heads

LAYERS, WIDTH, HEADS, HIDDEN, PATCH = 12, 768, 12, 3072, 16


def vit_b16(batch: int = 1, image: int = 224) -> Network:
    """ViT-B/16, image classification."""
    b = GraphBuilder("vit_b16", options={"batch": batch, "image": image})
    if image % PATCH:
        raise b.error(f"image={image} is not a multiple of the patch size {PATCH}")
    tokens = (image // PATCH) ** 2 + 1

    def block(x: Tensor) -> Tensor:
        qkv = b.linear(b.layernorm(x, name="norm1"), 3 * WIDTH, bias=True, name="qkv")
        q, k, v = (split_heads(b, b.view(qkv, (batch, tokens, WIDTH)), HEADS) for _ in range(3))
        x = b.add(b.linear(attend(b, q, k, v), WIDTH, bias=True, name="output"), x, name="add1")
        y = b.linear(b.layernorm(x, name="norm2"), HIDDEN, bias=True, name="expand")
        y = b.linear(b.op("gelu", (y,), name="gelu"), WIDTH, bias=True, name="contract")
        return b.add(y, x, name="add2")

    x = b.conv2d(b.input("image", (batch, 3, image, image)), WIDTH, PATCH, PATCH, bias=True, name="patches")
    x = b.transpose(b.reshape(x, (batch, WIDTH, tokens - 1)), (0, 2, 1))
    # The class token is a trained constant beside the patches.
    x = b.op("concat", (x,), (batch, tokens, WIDTH), WIDTH, name="class_token")
    x = b.op("add", (x,), weights=tokens * WIDTH, name="add_positions")
    with b.scope("block"):
        x = b.repeat(LAYERS, block, x)
    x = b.layernorm(x, name="norm")
    b.linear(b.view(x, (batch, WIDTH)), 1000, bias=True, name="head")
    return b.build()
