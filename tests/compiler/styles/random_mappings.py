"""Random layers with every option, and random mappings for them: wild ones, and those of the explorer's space."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.dataflows import Dataflow
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.mapping.nest import REGISTER_DIMS, ROW_DIM, Mapping, requirement
from baco.compiler.schedules.schedule import DepthwiseSchedule, ExplicitSchedule
from baco.compiler.styles.packed import packed_layer
from baco.compiler.styles.registry import plan_layer
from baco.exploration.cost.genome import FLOW, FLOWS, ProblemSet, tighten, to_mapping
from baco.workloads.problem import DIMS, Problem
from tests.compiler.styles.layer_programs import Case
from tests.explore.genome_helpers import random_rows


def draw_layer(r: random.Random, largest: int = 10) -> Layer:
    """A small layer: a product, convolution or depthwise one, with any epilogue and layouts with gaps."""
    while True:
        try:
            layer = _product(r, largest) if r.random() < 0.25 else _convolution(r, largest)
            return _with_gaps(r, _with_epilogue(r, layer))
        except InputError:
            continue


def _product(r: random.Random, largest: int) -> Layer:
    p, c, k = (r.randint(1, 2 * largest) for _ in range(3))
    return Layer(Problem(P=p, C=c, K=k, groups=r.choice((1, 1, 3))), weights_transposed=r.random() < 0.3)


def _convolution(r: random.Random, largest: int) -> Layer:
    depthwise = r.random() < 0.25
    window = r.choice((1, 4))
    problem = Problem(
        R=r.randint(1, window), S=r.randint(1, window), P=r.randint(1, 9), Q=r.randint(1, 9),
        C=1 if depthwise else r.randint(1, largest), K=1 if depthwise else r.randint(1, largest),
        N=r.choice((1, 1, 2, 3)), stride_w=r.choice((1, 1, 2, 3)), stride_h=r.choice((1, 1, 2, 3)),
        dilation_w=r.choice((1, 1, 2)), dilation_h=r.choice((1, 1, 2)),
        groups=r.randint(2, 11) if depthwise else r.choice((1, 1, 2, 3)),
    )  # fmt: skip
    if r.random() < 0.3:
        return Layer(problem)
    reach_h = (problem.Q - 1) * problem.stride_h + (problem.S - 1) * problem.dilation_h + 1
    reach_w = (problem.P - 1) * problem.stride_w + (problem.R - 1) * problem.dilation_w + 1
    top, left = r.randint(0, min(3, reach_h - 1)), r.randint(0, min(3, reach_w - 1))
    # fewer pixels than windows reach are padding below and on the right, more are not used
    image = (max(1, reach_h - top + r.randint(-3, 1)), max(1, reach_w - left + r.randint(-3, 1)))
    return Layer(problem, image, (top, left))


def _with_epilogue(r: random.Random, layer: Layer) -> Layer:
    scale = r.choice((None, 1.0, 0.013, 0.1))
    layer = replace(layer, bias=r.random() < 0.5, scale=scale, relu=scale is not None and r.random() < 0.5)
    if r.random() < 0.3:
        return replace(layer, residual_scale=r.choice((1.0, 0.5, 1.7)))
    if scale is None or r.random() < 0.5:
        return layer
    size, stride = r.randint(1, 3), r.randint(1, 3)
    padding = r.randint(0, size - 1)
    rows, columns = (
        max(1, (extent + 2 * padding - size) // stride + 1) for extent in (layer.problem.Q, layer.problem.P)
    )
    if r.random() < 0.3:  # a pooled image that leaves results out
        rows, columns = r.randint(1, rows), r.randint(1, columns)
    return replace(layer, pooling=Pooling(size, stride, padding, rows, columns))


def _with_gaps(r: random.Random, layer: Layer) -> Layer:
    for name in ("input", "weight", "output"):
        layout: Layout = getattr(layer, name)
        if layout.group <= layout.pitch and r.random() < 0.2:
            layer = replace(layer, **{name: Layout(layout.pitch + r.randint(1, 5), layout.group)})
    return layer


def draw_mapping(r: random.Random, problem: Problem, dim: int, dataflow: Dataflow) -> Mapping:
    """Any factors that cover the problem, with any loop orders."""
    bounds = dict(zip(DIMS, problem.bounds, strict=True))
    rows, columns = (r.choice((dim, r.randint(1, dim))) for _ in range(2))
    rows, columns = min(rows, bounds[ROW_DIM[dataflow]]), min(columns, bounds["K"])
    temporal = [[1] * len(DIMS) for _ in range(4)]
    for place, (name, bound) in enumerate(bounds.items()):
        left = -(-bound // rows) if name == ROW_DIM[dataflow] else bound
        left = -(-left // columns) if name == "K" else left
        levels = [0 if name in REGISTER_DIMS[dataflow] else 1, 2, 3]
        r.shuffle(levels)
        for level in levels[:-1]:
            temporal[level][place] = r.randint(1, left)
            left = -(-left // temporal[level][place])
        temporal[levels[-1]][place] = left
    orders = tuple("".join(r.sample(DIMS, len(DIMS))) for _ in range(4))
    copies = tuple(r.choice((1, 2)) for _ in range(3))
    return Mapping(dataflow, rows, columns, tuple(map(tuple, temporal)), orders, copies)  # type: ignore[arg-type]


def draw_case(r: random.Random, accelerator: Accelerator, dataflow: Dataflow) -> Case:
    """A layer with a wild mapping that the accelerator holds."""
    while True:
        layer = draw_layer(r)
        packed = r.randint(1, min(layer.problem.groups, accelerator.dim))
        try:
            if layer.problem.groups > 1 and r.random() < 0.5:
                inner = packed_layer(layer, packed)
                mapping = draw_mapping(r, inner.problem, accelerator.dim, dataflow)
                case = Case(layer, DepthwiseSchedule(mapping, packed))
            else:
                case = Case(
                    layer, ExplicitSchedule(draw_mapping(r, layer.problem, accelerator.dim, dataflow))
                )
            plan_layer(layer, case.schedule, accelerator)
        except InfeasibleError:
            continue
        return case


def draw_explorer_case(
    r: random.Random, dim: int, dataflow: Dataflow, scratchpad: int, accumulator: int
) -> Case:
    """A layer with a mapping of the explorer's genome that needs at most these rows of the memories.

    What the compiler makes of it has to need no more than `baco.compiler.mapping.nest.requirement` says.
    """
    flow = FLOWS.index(dataflow)
    while True:
        layer = draw_layer(r)
        problems = ProblemSet([layer.problem])
        rows = random_rows(problems.bounds, dim, np.random.default_rng(r.getrandbits(32)))
        if rows[0, FLOW] != flow:
            continue
        if r.random() < 0.5:
            tighten(rows, problems.bounds)
        mapping = to_mapping(rows[0], layer.problem.groups, r.random() < 0.8)
        need = requirement(mapping, layer.problem)
        if need.scratchpad_rows <= scratchpad and need.accumulator_words <= accumulator:
            return Case(layer, ExplicitSchedule(mapping))
