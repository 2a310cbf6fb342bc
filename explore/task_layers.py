"""From a searched task to the layer that is compiled, measured and predicted for it.

A task (`baco.workloads.network.Task`) is a problem with a count; a layer (`baco.compiler.layers.layer.Layer`) says besides where the
image ends, how tensors lie in memory, what is added to the sums and what happens on their way out. The tasks of a network that
becomes a program are its layers (`baco.exploration.cost.program_rest.searched_tasks`); of others (tables of layers, models with
operators that nobody runs) the graph says what it can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from baco.common import portable
from baco.common.errors import InputError
from baco.compiler.layers.layer import Layer
from baco.workloads.network import LayerFacts, Network, Operator, Task, Workload
from baco.workloads.problem import Problem
from baco.workloads.semantics import Parameter

#: Standard deviation of the product of two uniform int8 numbers: (256^2 - 1) / 12.
_PRODUCT_SPREAD = (256**2 - 1) / 12
#: Spread of requantised results that a scale aims at: few saturate, few are zero.
_RESULT_SPREAD = 40.0


@dataclass(frozen=True)
class LoweredTask(Task):
    """A layer of a network's program, as it is compiled; the task's problem is the layer's.

    Attributes:
        layer: one of those that are tiled and cost alike (`alike`), scaled so that results of random data seldom saturate.
    """

    layer: Layer = field(kw_only=True)


def alike(layer: Layer) -> Layer:
    """The same for all layers that every schedule fits as well and costs the same: neither a ReLU nor a scale changes what is
    issued or moved."""
    return replace(layer, relu=False, scale=None if layer.scale is None else 1.0)


def layer_of_task(task: Task, workload: Workload) -> Layer:
    """The layer that stands for a task: its own, else what the graph says of the first of the task's operators.

    Bias (a folded batch normalisation is one), ReLU, padding and stored image are the network's; results are int8.
    Where the network does not tell (rows of layer tables, studies of earlier versions) the image is what the windows
    cover, and nothing is added. Residual additions and pooling are not part of it, as they are not of the problem.
    """
    if isinstance(task, LoweredTask):
        return task.layer
    network = next((one for one in workload.networks if one.name == task.network), None)
    operator = None if network is None else _operator(network, task)
    if network is None or operator is None:
        return _plain(task.problem)
    facts = layer_facts(operator)
    bias, relu = _on_the_way_out(network, operator)
    try:
        return Layer(
            task.problem,
            facts.image,
            facts.padding,
            bias=facts.bias or bias,
            relu=relu,
            scale=result_scale(task.problem),
        )
    except InputError:  # an image that the problem's windows do not fit
        return _plain(task.problem)


def layers_of_tasks(tasks: Sequence[Task], workload: Workload) -> tuple[Layer, ...]:
    """`layer_of_task` of each."""
    return tuple(layer_of_task(task, workload) for task in tasks)


def layer_facts(operator: Operator) -> LayerFacts:
    """What a tensor operator says beyond its problem: from its semantics, else as it was kept with a study."""
    meaning = operator.semantics
    if meaning is None or not meaning.operands:
        return operator.facts or LayerFacts()
    bias = len(meaning.operands) > 2 and isinstance(meaning.operands[2], Parameter)
    if meaning.function != "conv":
        return LayerFacts(bias=bias)
    x = meaning.operands[0]
    assert x is not None
    size, padding = x.shape[2:], [before for before, _ in meaning.attributes["padding"]]
    if len(size) == 1:
        return LayerFacts((1, size[0]), (0, padding[0]), bias)
    return LayerFacts((size[0], size[1]), (padding[0], padding[1]), bias)


def result_scale(problem: Problem) -> float:
    """A power of two by which sums of random int8 products become numbers that seldom saturate."""
    spread = _PRODUCT_SPREAD * math.sqrt(problem.R * problem.S * problem.C)
    return math.ldexp(1.0, -round(portable.log2(spread / _RESULT_SPREAD)))


def _plain(problem: Problem) -> Layer:
    return Layer(problem, scale=result_scale(problem))


def _operator(network: Network, task: Task) -> Operator | None:
    for operator in network.operators:
        if operator.problem == task.problem and (not task.operators or operator.name in task.operators):
            return operator
    return None


def _on_the_way_out(network: Network, operator: Operator) -> tuple[bool, bool]:
    """(bias, ReLU) that the operators fused behind a tensor operator add to it, up to a residual or a pooling."""
    bias, name = False, operator.output.name
    while True:
        follower = next((op for op in network.operators if op.fused and op.inputs[:1] == (name,)), None)
        if follower is None or follower.kind not in (
            "batchnorm",
            "bias",
            "scale",
            "requantize",
            "relu",
            "relu6",
        ):
            return bias, False
        if follower.kind in ("relu", "relu6"):
            return bias, True
        bias = bias or follower.kind in ("batchnorm", "bias")
        name = follower.output.name
