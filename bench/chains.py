"""Two operators as one unit and one by one on the RTL: the chains of products and of convolutions of Chimera's evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accel.config import Accelerator
from accel.presets import load_accelerator
from common.errors import BacoError, InfeasibleError
from common.files import atomic_write, output_folder
from compiler.layers.layer import Layer
from compiler.network.calibrate import random_inputs
from compiler.network.group_choice import GroupChoice, group_schedule
from compiler.network.groups import Group, GroupSchedule
from compiler.network.program import compile_network, scheduler
from compiler.network.quantise import quantise, quantise_inputs
from compiler.network.reference import reference
from compiler.network.row_code import RowCode
from sim.network.run import run_network
from workloads.builder import GraphBuilder
from workloads.network import Network

__all__ = ["CONVOLUTION_CHAINS", "PRODUCT_CHAINS", "chain_network", "chains", "chains_page"]

#: Batch, M, N, K, L of C[m, l] = A[m, k] B[k, l], E[m, n] = C[m, l] D[l, n].
PRODUCT_CHAINS = {
    "G1": (8, 512, 64, 64, 512), "G2": (12, 512, 64, 64, 512), "G3": (16, 512, 64, 64, 512), "G4": (12, 256, 64, 64, 256),
    "G5": (16, 256, 64, 64, 256), "G6": (16, 256, 80, 80, 256), "G7": (12, 208, 64, 64, 208), "G8": (16, 208, 64, 64, 208),
    "G9": (16, 208, 80, 80, 208), "G10": (1, 512, 64, 64, 256), "G11": (1, 768, 64, 64, 384), "G12": (1, 1024, 64, 64, 512),
}  # fmt: skip
#: Channels, height and width of the image, results of both convolutions, their strides and their windows.
CONVOLUTION_CHAINS = {
    "C1": (64, 112, 112, 192, 128, 2, 1, 3, 1), "C2": (32, 147, 147, 64, 80, 2, 1, 3, 1),
    "C3": (64, 56, 56, 128, 64, 1, 1, 3, 1), "C4": (128, 28, 28, 256, 128, 1, 1, 3, 1),
    "C5": (16, 227, 227, 64, 16, 4, 1, 3, 1), "C6": (64, 56, 56, 64, 64, 1, 1, 1, 3),
    "C7": (64, 56, 56, 64, 64, 1, 1, 1, 1), "C8": (256, 56, 56, 256, 64, 1, 1, 1, 1),
}  # fmt: skip


def chain_network(name: str) -> Network:
    """A chain of `PRODUCT_CHAINS` or `CONVOLUTION_CHAINS` as a network of two operators."""
    b = GraphBuilder(name)
    if name in PRODUCT_CHAINS:
        batch, m, n, k, between = PRODUCT_CHAINS[name]
        left, right = b.input("a", (batch, m, k)), b.input("b", (batch, k, between))
        b.matmul(b.matmul(left, right, name="first"), b.input("d", (batch, between, n)), name="second")
        return b.build()
    channels, height, width, one, two, stride1, stride2, window1, window2 = CONVOLUTION_CHAINS[name]
    image = b.input("image", (1, channels, height, width))
    made = b.conv2d(image, one, window1, stride1, window1 // 2, name="first")
    b.conv2d(made, two, window2, stride2, window2 // 2, name="second")
    return b.build()
