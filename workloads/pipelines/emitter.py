"""What adding a pipeline's operators to a graph begins with: constants, operators, rounding to bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Tensor
from baco.workloads.pipelines.byte_choice import VIEWS, ByteChoice
from baco.workloads.pipelines.node import Node, PipelineError
from baco.workloads.pipelines.ranges import exponent_of
from baco.workloads.semantics import Parameter, Semantics, WholeNumbers, constant, rounded

#: Where stencils and products may run.
PLACINGS = ("packed", "array", "host")


@dataclass(frozen=True)
class Placing:
    """How a pipeline is lowered.

    Attributes:
        placing: of stencils, products and sums: `packed` (the array, pixels side by side as channels), `array` (as they are), `host`.
        dim: of the array.
    """

    placing: str = "packed"
    dim: int = 16


class NodeEmitter:
    """Operators of a pipeline in a graph.

    Args:
        builder: of the network.
        outputs: nodes that are wanted.
        how: where operators run.
    """

    def __init__(self, builder: GraphBuilder, outputs: Sequence[Node], how: Placing) -> None:
        self.builder, self.how = builder, how
        self.choice = ByteChoice(outputs)
        self.tensors: dict[int, Tensor] = {}
        self._constants = 0

    def rounded(self, node: Node, tensor: Tensor) -> Tensor:
        """A node's numbers as bytes where they are such, else as float32, which must hold them.

        Raises PipelineError for whole numbers that are not proven to fit.
        """
        if node.function in VIEWS or node.function in ("topk", "gather", "take"):
            return tensor
        if self.choice.is_byte(node):
            encoding = node.range.encoding()
            assert encoding is not None
            return self.builder.op("requantize", (tensor,), tensor.shape, semantics=rounded(tensor, encoding))
        # Sums over whole images are real numbers, rounded once to 24 bits.
        whole = node.function == "reduce" and len(node.attributes["axes"]) == len(node.operands[0].shape)
        if node.range.exponent is None or node.range.exact or whole:
            return tensor
        raise PipelineError(
            f"numbers from {float(node.range.low):g} to {float(node.range.high):g} in steps of 2^{node.range.exponent} are not proven"
            " to fit into the 24 bits of float32",
            location=node.line,
            hint="limit or round them first: np.clip(x, low, high), x >> bits",
        )

    def parameter(self, value: Any, label: str = "constant") -> Parameter:
        """A constant of real numbers."""
        self._constants += 1
        return constant(f"{label}{self._constants}", np.asarray(value, np.float32))

    def whole(self, numbers: np.ndarray, exponent: int, label: str = "weight") -> Parameter:
        """Whole numbers in units of a power of two: of 8 bits, or of 32 of a bias."""
        self._constants += 1
        name = f"{label}{self._constants}"
        elements = constant(f"{name}.whole", numbers.astype(np.int8 if label == "weight" else np.int32))
        whole = WholeNumbers(elements, (2.0**exponent,), (0,), 0)
        real = (numbers * 2.0**exponent).astype(np.float32)
        return Parameter(name, numbers.shape, lambda: real, whole=whole)

    def operand(self, node: Node) -> Tensor | Parameter:
        """What an operator reads."""
        if node.function == "constant":
            assert node.value is not None
            return self.parameter(node.value)
        return self.tensors[id(node)]

    def op(
        self,
        kind: str,
        operands: Sequence[Tensor | Parameter],
        shape: tuple[int, ...],
        function: str,
        **attributes: Any,
    ) -> Tensor:
        """One operator."""
        tensors = [x for x in operands if isinstance(x, Tensor)]
        return self.builder.op(
            kind, tensors, shape, semantics=Semantics(function, tuple(operands), attributes)
        )

    def pair(
        self, name: str, left: Tensor | Parameter, right: Tensor | Parameter, shape: tuple[int, ...]
    ) -> Tensor:
        """A function of two numbers."""
        kind = name if name in ("add", "sub", "mul", "div") else "elementwise"
        return self.op(kind, (left, right), shape, "binary", name=name)

    @staticmethod
    def unit(node: Node) -> int:
        """Exponent of the steps of a node that is bytes."""
        encoding = node.range.encoding()
        assert encoding is not None
        exponent = exponent_of(Fraction(encoding.scale))
        assert exponent is not None
        return exponent
