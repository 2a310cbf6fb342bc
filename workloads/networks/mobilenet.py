"""MobileNetV2 (Sandler et al., Inverted Residuals and Linear Bottlenecks, CVPR 2018), width 1.0."""

from __future__ import annotations

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor

#: Table 2 of the paper: expansion, output channels, repetitions, first stride.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _conv(
    b: GraphBuilder,
    x: Tensor,
    channels: int,
    kernel: int,
    stride: int,
    groups: int,
    name: str,
    act: bool = True,
) -> Tensor:
    x = b.conv2d(x, channels, kernel, stride, kernel // 2, groups=groups, name=name)
    x = b.batchnorm(x, name=f"{name}.bn")
    return b.unary("relu6", x, f"{name}.relu6", "clip", low=0, high=6) if act else x


def _block(b: GraphBuilder, x: Tensor, expansion: int, channels: int, stride: int) -> Tensor:
    hidden = x.shape[1] * expansion
    y = _conv(b, x, hidden, 1, 1, 1, "expand") if expansion > 1 else x
    y = _conv(b, y, hidden, 3, stride, hidden, "depthwise")
    y = _conv(b, y, channels, 1, 1, 1, "project", act=False)
    return b.add(y, x, name="add") if x.shape == y.shape else y


def mobilenet_v2(batch: int = 1, image: int = 224) -> Network:
    """MobileNetV2, image classification (depthwise convolutions)."""
    b = GraphBuilder("mobilenet_v2", options={"batch": batch, "image": image})
    x = _conv(b, b.input("image", (batch, 3, image, image)), 32, 3, 2, 1, "stem")
    number = 0
    for expansion, channels, repeats, stride in STAGES:
        for index in range(repeats):
            with b.scope(f"block{number}"):
                x = _block(b, x, expansion, channels, 1 if index else stride)
            number += 1
    x = b.global_avgpool(_conv(b, x, 1280, 1, 1, 1, "head"), name="avgpool")
    b.linear(b.reshape(x, (batch, -1)), 1000, bias=True, name="classifier")
    return b.build()
