"""Where a layer's tensors lie when its code runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from baco.compiler.ir.emit import Number


@dataclass(frozen=True)
class Operands:
    """Byte addresses of a layer's buffers (see `baco.compiler.layers.layer.Layer` for their contents); 0 for what there is not.

    Attributes:
        input, weight, output, bias, residual: the layer's tensors.
        workspaces: by name, as `baco.compiler.styles` asks for them.
    """

    input: Number
    weight: Number
    output: Number
    bias: Number = 0
    residual: Number = 0
    workspaces: Mapping[str, Number] = field(default_factory=dict)
