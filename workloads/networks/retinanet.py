"""RetinaNet (Lin et al., Focal Loss for Dense Object Detection, ICCV 2017) on ResNet-50 with a feature pyramid.

Levels P3 to P7 (P6 from C5, P7 from P6), heads of four 3x3 convolutions shared by all levels, 9 anchors
and 80 classes. The default image is 224x224, the size that the published layer list of DOSA implies (the
paper uses 400 to 800). That list has the pyramid and heads only, counts the repeated head convolution
once a subnet, and holds 1x1 convolutions on P6 and P7 that no published RetinaNet has; here are the whole
network and the true repetitions.
"""

from __future__ import annotations

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network, Tensor
from baco.workloads.networks.resnet import features
from baco.workloads.semantics import Parameter

WIDTH, ANCHORS, CLASSES = 256, 9, 80


def _pyramid(b: GraphBuilder, c3: Tensor, c4: Tensor, c5: Tensor) -> list[Tensor]:
    levels: list[Tensor] = []
    above: Tensor | None = None
    for number, stage in ((5, c5), (4, c4), (3, c3)):
        x = b.conv2d(stage, WIDTH, 1, bias=True, name=f"lateral{number}")
        if above is not None:
            x = b.add(x, b.upsample(above, x.shape[2:], name=f"upsample{number}"), name=f"add{number}")
        above = x
        levels.insert(0, b.conv2d(x, WIDTH, 3, padding=1, bias=True, name=f"output{number}"))
    p6 = b.conv2d(c5, WIDTH, 3, 2, 1, bias=True, name="p6")
    p7 = b.conv2d(b.relu(p6, name="p6.relu"), WIDTH, 3, 2, 1, bias=True, name="p7")
    return [*levels, p6, p7]


def _weights(name: str, channels: int) -> tuple[Parameter, Parameter]:
    """The parameters of a head's convolution, the same at every level."""
    weight = Parameter(f"{name}.weight", (channels, WIDTH, 3, 3), fan_in=9 * WIDTH)
    return weight, Parameter(f"{name}.bias", (channels,), fill="shift")


def _head(b: GraphBuilder, x: Tensor, subnet: str, outputs: int, final: str | None, shared: bool) -> Tensor:
    for number in range(4):
        trained = _weights(f"{subnet}.conv{number}", WIDTH)
        x = b.conv2d(
            x, WIDTH, 3, padding=1, bias=not shared, name=f"conv{number}", shared=shared, trained=trained
        )
        x = b.relu(x, name=f"relu{number}")
    trained = _weights(f"{subnet}.predict", outputs)
    x = b.conv2d(x, outputs, 3, padding=1, bias=not shared, name="predict", shared=shared, trained=trained)
    return b.unary(final, x, final) if final else x


def retinanet(batch: int = 1, image: int = 224) -> Network:
    """RetinaNet with ResNet-50 backbone, object detection."""
    b = GraphBuilder("retinanet", options={"batch": batch, "image": image})
    with b.scope("backbone"):
        stages = features(b, b.input("image", (batch, 3, image, image)), (3, 4, 6, 3), True)
    with b.scope("fpn"):
        levels = _pyramid(b, *stages[1:])
    for number, x in enumerate(levels):
        # The heads' weights are the same at every level, so only the first counts them.
        with b.scope(f"p{number + 3}.classes"):
            _head(b, x, "classes", ANCHORS * CLASSES, "sigmoid", shared=number > 0)
        with b.scope(f"p{number + 3}.boxes"):
            _head(b, x, "boxes", ANCHORS * 4, None, shared=number > 0)
    return b.build()
