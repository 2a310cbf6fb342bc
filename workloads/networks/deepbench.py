"""The convolutions of Baidu DeepBench (github.com/baidu-research/DeepBench) as DOSA evaluates them.

DeepBench publishes kernels, not networks. Those for character recognition follow from one another through
2x2 pooling. Those for face recognition leave out the layers between 64 channels at 54x54 and 128 channels
at 27x27, so the second part here starts from an input of its own. DeepBench states 108x108 as the *input*
of the first face kernel; DOSA's list, which published results refer to, has it as the *output*, as do we.
"""

from __future__ import annotations

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor


def _layer(b: GraphBuilder, x: Tensor, channels: int, number: int, stride: int = 1) -> Tensor:
    x = b.conv2d(x, channels, 3, stride, 1, bias=True, name=f"conv{number}")
    return b.relu(x, name=f"relu{number}")


def deepbench_ocr(batch: int = 1, width: int = 480, height: int = 48) -> Network:
    """DeepBench character recognition: four 3x3 convolutions on a text line."""
    b = GraphBuilder("deepbench_ocr", options={"batch": batch, "width": width, "height": height})
    x = b.input("line", (batch, 1, height, width))
    for number, channels in enumerate((16, 32, 64, 128)):
        if number:
            x = b.maxpool(x, 2, name=f"pool{number - 1}")
        x = _layer(b, x, channels, number)
    return b.build()


def deepbench_face(batch: int = 1, image: int = 216) -> Network:
    """DeepBench face recognition: five 3x3 convolutions."""
    b = GraphBuilder("deepbench_face", options={"batch": batch, "image": image})
    x = _layer(b, b.input("image", (batch, 3, image, image)), 64, 0, stride=2)
    x = _layer(b, b.maxpool(x, 2, name="pool0"), 64, 1)
    x = b.input("features", (batch, 128, x.shape[2] // 2, x.shape[3] // 2))
    x = b.maxpool(_layer(b, x, 128, 2), 3, 2, 1, name="pool2")
    x = b.maxpool(_layer(b, x, 256, 3), 2, name="pool3")
    _layer(b, x, 512, 4)
    return b.build()
