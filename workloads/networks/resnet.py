"""ResNet-18 and ResNet-50 (He et al., Deep Residual Learning for Image Recognition, CVPR 2016).

Downsampling blocks stride in their 3x3 convolution ("v1.5"), as in torchvision and in the layer lists of
DOSA: 4,089,184,256 MACs for ResNet-50 at 224x224.
"""

from __future__ import annotations

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor


def conv_bn(
    b: GraphBuilder, x: Tensor, channels: int, kernel: int, stride: int, name: str, relu: bool = True
) -> Tensor:
    """Convolution ("same" padding for stride 1), folded batch normalisation and ReLU."""
    x = b.conv2d(x, channels, kernel, stride, kernel // 2, name=name)
    x = b.batchnorm(x, name=f"{name}.bn")
    return b.relu(x, name=f"{name}.relu") if relu else x


def _bottleneck(b: GraphBuilder, x: Tensor, width: int, stride: int) -> Tensor:
    y = conv_bn(b, x, width, 1, 1, "conv1")
    y = conv_bn(b, y, width, 3, stride, "conv2")
    y = conv_bn(b, y, 4 * width, 1, 1, "conv3", relu=False)
    if x.shape != y.shape:
        x = conv_bn(b, x, 4 * width, 1, stride, "downsample", relu=False)
    return b.relu(b.add(y, x, name="add"), name="relu")


def _basic(b: GraphBuilder, x: Tensor, width: int, stride: int) -> Tensor:
    y = conv_bn(b, x, width, 3, stride, "conv1")
    y = conv_bn(b, y, width, 3, 1, "conv2", relu=False)
    if x.shape != y.shape:
        x = conv_bn(b, x, width, 1, stride, "downsample", relu=False)
    return b.relu(b.add(y, x, name="add"), name="relu")


def features(b: GraphBuilder, x: Tensor, depths: tuple[int, ...], bottleneck: bool) -> list[Tensor]:
    """Outputs of the four stages (C2 to C5, strides 4 to 32) for an image (N, 3, H, W)."""
    block = _bottleneck if bottleneck else _basic
    x = conv_bn(b, x, 64, 7, 2, "conv1")
    x = b.maxpool(x, 3, 2, 1, name="maxpool")
    stages = []
    for stage, depth in enumerate(depths):
        for number in range(depth):
            with b.scope(f"layer{stage + 1}.{number}"):
                x = block(b, x, 64 * 2**stage, 2 if stage and not number else 1)
        stages.append(x)
    return stages


def _classifier(name: str, depths: tuple[int, ...], bottleneck: bool, batch: int, image: int) -> Network:
    b = GraphBuilder(name, options={"batch": batch, "image": image})
    x = features(b, b.input("image", (batch, 3, image, image)), depths, bottleneck)[-1]
    x = b.global_avgpool(x, name="avgpool")
    b.linear(b.reshape(x, (batch, -1)), 1000, bias=True, name="fc")
    return b.build()


def resnet18(batch: int = 1, image: int = 224) -> Network:
    """ResNet-18, image classification."""
    return _classifier("resnet18", (2, 2, 2, 2), False, batch, image)


def resnet50(batch: int = 1, image: int = 224) -> Network:
    """ResNet-50, image classification."""
    return _classifier("resnet50", (3, 4, 6, 3), True, batch, image)
