"""What tests of searches and of their reports share."""

from collections.abc import Iterator
from unittest import mock

import pytest

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network
from baco.workloads.networks import NETWORKS, mobilenet, resnet


def _short_resnet(batch: int = 1, image: int = 224) -> Network:
    b = GraphBuilder("resnet18", options={"batch": batch, "image": image})
    x = resnet.features(b, b.input("image", (batch, 3, image, image)), (1, 1), bottleneck=False)[-1]
    b.linear(b.reshape(b.global_avgpool(x, name="avgpool"), (batch, -1)), 1000, bias=True, name="fc")
    return b.build()


@pytest.fixture(scope="module")
def short_networks() -> Iterator[None]:
    """`mobilenet_v2` of its first six blocks of 17, three of them with an addition, and `resnet18` of two blocks of eight: all
    kinds of groups in a third of the layers. Processes that are not forked from this one know nothing of it."""
    with (
        mock.patch.object(mobilenet, "STAGES", mobilenet.STAGES[:3]),
        mock.patch.dict(NETWORKS, resnet18=_short_resnet),
    ):
        yield
