"""Random layers and schedules for the loop macros."""

from __future__ import annotations

import random

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.schedules.schedule import LoopConvSchedule, LoopWsSchedule
from baco.compiler.styles.macros.loop_conv_check import plan_loop_conv
from baco.compiler.styles.macros.loop_ws import check_loop_ws
from baco.workloads.problem import Problem

_WINDOWS = ((1, 1), (2, 2), (3, 3), (3, 1), (1, 3), (3, 2), (4, 5))
_STRIDES = ((1, 1), (1, 1), (2, 2), (3, 3), (2, 1), (1, 2))
_DILATIONS = ((1, 1), (1, 1), (1, 1), (2, 2), (2, 1), (1, 3))


def draw_convolution(r: random.Random) -> Layer:
    """A small convolution with any of the options that the macro can express, layouts with gaps among them."""
    while True:
        try:
            return _convolution(r)
        except InputError:
            continue


def _convolution(r: random.Random) -> Layer:
    depthwise = r.random() < 0.12
    groups = r.randint(2, 6) if depthwise else r.choice((1, 1, 1, 2, 3))
    depth, channels = (1, 1) if depthwise else (r.randint(1, 11), r.randint(1, 11))
    (s, rr), (sh, sw), (dh, dw) = r.choice(_WINDOWS), r.choice(_STRIDES), r.choice(_DILATIONS)
    height, width = r.randint(1, 12), r.randint(1, 12)
    top, left = r.randint(0, min(s, 3)), r.randint(0, min(rr, 3))
    # below and on the right the padding may be less, or the last windows may not be used
    rows = (height + 2 * top - r.choice((0, 0, 1)) - (s - 1) * dh - 1) // sh + 1
    columns = (width + 2 * left - r.choice((0, 0, 1)) - (rr - 1) * dw - 1) // sw + 1
    pooling = None
    if r.random() < 0.3:
        size, stride = r.randint(1, 3), r.randint(1, 3)
        padding = r.randint(0, size - 1)
        pooled = [(n + 2 * padding - size) // stride + 1 + r.choice((0, 0, 1)) for n in (rows, columns)]
        pooling = Pooling(size, stride, padding, *(max(1, n) for n in pooled))
    layouts = {}
    if r.random() < 0.3:
        layouts = {
            "input": Layout(depth * groups + r.randint(0, 9), depth),
            "output": Layout(channels * groups + r.randint(0, 9), channels),
        }
    if depthwise and r.random() < 0.5:
        layouts["weight"] = Layout(1, s * rr)
    problem = Problem(
        R=rr, S=s, P=columns, Q=rows, C=depth, K=channels, N=r.choice((1, 1, 2, 3)),
        stride_w=sw, stride_h=sh, dilation_w=dw, dilation_h=dh, groups=groups,
    )  # fmt: skip
    return Layer(
        problem, (height, width), (top, left), bias=r.random() < 0.5, relu=r.random() < 0.5,
        scale=r.choice((1.0, 0.05, 0.013)), pooling=pooling, **layouts,
    )  # fmt: skip


def draw_conv_schedule(r: random.Random, layer: Layer, accelerator: Accelerator) -> LoopConvSchedule | None:
    """Any tiling and order that the macro can do, tiles the smaller the longer the search takes; None: found none."""
    p, pool, dim = layer.problem, layer.pooling, accelerator.dim
    rows, columns = (pool.rows, pool.columns) if pool else (p.Q, p.P)
    for attempt in range(300):
        most = 0.99**attempt
        part = [max(1, int(r.randint(1, whole) * most)) for whole in (p.N, rows, columns, p.K, p.S, p.R)]
        if r.random() < 0.5:
            part[3] = min(p.K, dim * r.randint(1, 3))
        schedule = LoopConvSchedule(
            *part, min(p.C, dim * r.randint(1, 3)), order="".join(r.sample("nqpk", 4) + r.sample("src", 3)),
            pixels=1 if r.random() < 0.6 else max(1, min(p.R, dim // p.C)),
            downsample=r.random() < 0.3, keep_input=r.random() < 0.5, keep_weights=r.random() < 0.5,
        )  # fmt: skip
        try:
            plan_loop_conv(layer, schedule, accelerator)
        except InfeasibleError:
            continue
        return schedule
    return None


def draw_product(r: random.Random, rows: int, columns: int, depth: int) -> Layer:
    """A matrix product of that size with any epilogue that LOOP_WS can do."""
    scale = r.choice((None, 1.0, 0.01, 0.013))
    residual = r.choice((None, None, 1.0, 0.3)) if scale is not None else None
    groups = r.choice((1, 1, 1, 3))
    layouts = {}
    if r.random() < 0.2 and groups == 1:
        layouts = {"input": Layout(depth + r.randint(0, 5)), "output": Layout(columns + r.randint(0, 5))}
    transposed = r.random() < 0.3
    return Layer(
        Problem(P=rows, C=depth, K=columns, groups=groups),
        bias=residual is None and r.random() < 0.5,
        residual_scale=residual,
        relu=scale is not None and r.random() < 0.5,
        scale=scale,
        weights_transposed=transposed,
        **layouts,
    )


def draw_product_schedule(r: random.Random, layer: Layer, accelerator: Accelerator) -> LoopWsSchedule:
    """Any tiling and order that fits."""
    while True:
        schedule = LoopWsSchedule(
            r.randint(1, 3), r.randint(1, 3), r.randint(1, 3), "".join(r.sample("ijk", 3)),
            keep_a=r.random() < 0.5, keep_b=r.random() < 0.5,
        )  # fmt: skip
        try:
            check_loop_ws(layer, schedule, accelerator)
        except InfeasibleError:
            continue
        return schedule
