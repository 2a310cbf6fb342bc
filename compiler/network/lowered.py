"""What a quantised network is lowered to: the calls of its program, and the code of what they call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from baco.compiler.layers.layer import Layer
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import GroupCode
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.output_stage import OutputStage
from baco.compiler.network.steps import Step
from baco.compiler.ops.arithmetic import float32
from baco.compiler.ops.operator import IntegerTensor
from baco.compiler.ops.views import View
from baco.compiler.schedules.schedule import Schedule

#: How a layer (of any scale, `ANY_SCALE`) is carried out, and the workspaces (name, bytes) that its code wants.
Scheduler = Callable[[Layer], tuple[Schedule, tuple[tuple[str, int], ...]]]


#: Behind the names of C functions that were written for what they compute.
_NUMBER = re.compile("_[0-9a-f]{12}$")
#: Scale of layers whose functions take the real one as an argument: layers that differ in nothing else share one.
ANY_SCALE = float32(0.7390851)


@dataclass(frozen=True)
class LayerCode:
    """A function that computes a layer.

    Its arguments are input, weight, output, bias if there is one, workspaces, a table if results go through one
    (`baco.compiler.network.row_code`), scales of columns if the output stage has any
    (`baco.compiler.network.output_stage`) and the bits of the scale where the layer's is `ANY_SCALE`.
    """

    layer: Layer
    schedule: Schedule
    workspaces: tuple[tuple[str, int], ...]
    table: bool = False
    output: OutputStage | None = None


@dataclass
class LoweredNetwork:
    """What `lower_network` finds.

    Attributes:
        network: what was lowered.
        steps: calls in order.
        values: all that the steps touch, temporary ones and constants included.
        constants: elements of the constants among them.
        layers, groups, codes: code of the functions that run on the accelerator, by name; `codes` of single operators that are no layers.
        units: function of every group, by the names of its operators.
        sources: C files that the host's functions are in, with what they hold where they are none of `baco/compiler/ops/host`.
        in_place: values that may take over the memory of another one that is read for the last time.
        reasons: by operator, why the host computes it, or which one's results it changes on their way out.
        notes: what could not be computed as wished, one sentence each.
    """

    network: QuantisedNetwork
    steps: list[Step] = field(default_factory=list)
    values: dict[str, IntegerTensor] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    layers: dict[str, LayerCode] = field(default_factory=dict)
    groups: dict[str, GroupCode] = field(default_factory=dict)
    units: dict[tuple[str, ...], str] = field(default_factory=dict)
    codes: dict[str, OperatorCode] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    in_place: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def replaced_parts(self) -> dict[str, list[tuple[int, View]]]:
        """By value whose memory a result may take over part by part: numbers of the steps that do, with the parts."""
        found: dict[str, list[tuple[int, View]]] = {}
        for number, step in enumerate(self.steps):
            if step.replaces is not None:
                found.setdefault(step.replaces.value, []).append((number, step.replaces))
        return found


def step_kind(lowered: LoweredNetwork, function: str) -> str:
    """`layer`, `group`, `addition`, `pooling`, `copy`, `table`, `softmax`, `normalisation`, `product` or `embedding` for a function that runs on the
    accelerator; the host's keep their names, but for the number of one that was written for what it computes."""
    if function in lowered.codes:
        return lowered.codes[function].kind
    if function in lowered.layers:
        return "layer"
    return "group" if function in lowered.groups else _NUMBER.sub("", function)
