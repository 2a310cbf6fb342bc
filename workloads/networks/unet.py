"""U-Net (Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, MICCAI 2015).

As in Figure 1 of the paper: unpadded 3x3 convolutions, one input channel, and "up-convolutions" that are
an upsampling followed by a 2x2 convolution of the enlarged map. (Many later implementations use a
transposed 2x2 convolution of stride 2 instead, with a quarter of those MACs.) Its layers at 572x572 are
those of the published list of DOSA.
"""

from __future__ import annotations

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor


def _double(b: GraphBuilder, x: Tensor, channels: int) -> Tensor:
    for number in (1, 2):
        x = b.relu(b.conv2d(x, channels, 3, bias=True, name=f"conv{number}"), name=f"relu{number}")
    return x


def unet(batch: int = 1, image: int = 572) -> Network:
    """U-Net, biomedical image segmentation."""
    b = GraphBuilder("unet", options={"batch": batch, "image": image})
    x = b.input("image", (batch, 1, image, image))
    skips = []
    for level in range(4):
        with b.scope(f"down{level}"):
            x = _double(b, x, 64 * 2**level)
            if x.shape[-1] % 2:
                raise b.error(
                    f"image={image} gives a map of odd size {x.shape[-1]} before a 2x2 pooling",
                    f"down{level}.pool",
                    "image must be 16 * n + 12 and at least 188",
                )
            skips.append(x)
            x = b.maxpool(x, 2, name="pool")
    with b.scope("bottom"):
        x = _double(b, x, 1024)
    for level in reversed(range(4)):
        with b.scope(f"up{level}"):
            size = 2 * x.shape[-1]
            x = b.upsample(x, (size, size), name="upsample")
            x = b.conv2d(x, 64 * 2**level, 2, padding=(0, 0, 1, 1), bias=True, name="upconv")
            skip, edge = skips[level], (skips[level].shape[-1] - size) // 2
            for axis in (2, 3):
                skip = b.slice(skip, axis, edge, edge + size)
            x = _double(b, b.concat((skip, x), 1, name="concat"), 64 * 2**level)
    b.conv2d(x, 2, 1, bias=True, name="classes")
    return b.build()
