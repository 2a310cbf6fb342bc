"""Built-in networks: one file a family, registered here.

A definition is a function whose parameters are the options (`batch=4`): an int default takes a positive
whole number, a `Literal` annotation one of its values. To add one, write the file and add a line below.
"""

from __future__ import annotations

from collections.abc import Callable

from baco.workloads.network import Network
from baco.workloads.networks.bert import bert_base
from baco.workloads.networks.deepbench import deepbench_face, deepbench_ocr
from baco.workloads.networks.gpt import gpt2
from baco.workloads.networks.llama import llama2_7b, tinyllama_1b
from baco.workloads.networks.mobilenet import mobilenet_v2
from baco.workloads.networks.resnet import resnet18, resnet50
from baco.workloads.networks.retinanet import retinanet
from baco.workloads.networks.unet import unet
from baco.workloads.networks.vit import vit_b16

NETWORKS: dict[str, Callable[..., Network]] = {
    "resnet50": resnet50,
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "bert_base": bert_base,
    "gpt2": gpt2,
    "vit_b16": vit_b16,
    "llama2_7b": llama2_7b,
    "tinyllama_1b": tinyllama_1b,
    "unet": unet,
    "retinanet": retinanet,
    "deepbench_ocr": deepbench_ocr,
    "deepbench_face": deepbench_face,
}
