"""Quantised networks: integer operators (`baco.compiler.ops`) on values in memory, in execution order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.layers.wide_sums import array_sums
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.views import JoinedView, View
from baco.workloads.encoding import Encoding, FloatEncoding


@dataclass(frozen=True, eq=False)
class QuantisedNetwork:
    """A network in integers.

    Attributes:
        name: of the network.
        values: by name, in order of first appearance; inputs, constants and outputs included.
        operators: in execution order. Several may write parts of one value, but each element is written once,
            before it is read.
        constants: elements of the constant values, by name.
        inputs: names of the network's inputs -> how the user sees them (the network's own shape, images with
            channels first), as a view of a value of the role `input`.
        outputs: the same for its outputs, which may be joined of several values. Their values have the role `output`, but for an output that is a
            view of an input or a constant, or in whose value an input lies (a cache).
        tensors: every tensor of the (unrolled) network that is not fused away or kept in another form -> its view.
        random: parameters that the source did not give and that were drawn at random.
        seed: of what was drawn.
        whole: inputs and outputs that the user sees as the whole numbers that a quantised model has -> their limits.
    """

    name: str
    values: Mapping[str, IntegerTensor]
    operators: tuple[IntegerOperator, ...]
    constants: Mapping[str, np.ndarray]
    inputs: Mapping[str, View]
    outputs: Mapping[str, View | JoinedView]
    tensors: Mapping[str, View] = field(default_factory=dict)
    random: tuple[str, ...] = ()
    seed: int = 0
    whole: Mapping[str, Encoding] = field(default_factory=dict)

    def on(self, accelerator: Accelerator) -> QuantisedNetwork:
        """The same on an array of another side, by which floating point is added up (int16 is not)."""
        wanted = array_sums(accelerator)
        if wanted is None:
            return self
        operators = [
            replace(op, floats=wanted) if isinstance(op, Convolution | MatMul) and op.floats else op
            for op in self.operators
        ]
        return replace(self, operators=tuple(operators))

    def used_once(self) -> frozenset[str]:
        """Names of values between operators that one operator writes and one operand of one operator reads."""
        written = Counter(op.output.value for op in self.operators)
        read = Counter(view.value for op in self.operators for view in op.inputs)
        return frozenset(
            name
            for name, value in self.values.items()
            if value.role == "intermediate" and written[name] == read[name] == 1
        )

    def read(self, view: View | JoinedView, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """A tensor in real numbers (indices as they are), from the elements of all values."""

        def numbers(one: View) -> np.ndarray:
            value, elements = self.values[one.value], one.read(values[one.value])
            if not value.coded:
                return np.asarray(elements)
            if value.encoding is not None:
                return value.encoding.real(elements)
            return elements * value.scale

        return view.read(numbers) if isinstance(view, JoinedView) else numbers(view)

    def read_output(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """An output as the user sees it, from the elements of all values."""
        view = self.outputs[name]
        if name in self.whole and isinstance(view, View):
            return np.asarray(view.read(values[view.value]).astype(np.int32) + self.whole[name].shift)
        return self.read(view, values)

    def step(self, name: str) -> float | None:
        """Between neighbouring numbers that an output can be, where the model says so; None elsewhere."""
        view = self.outputs[name]
        if name in self.whole:
            return 1.0
        encoding = self.values[view.value].encoding if isinstance(view, View) else None
        return None if encoding is None or isinstance(encoding, FloatEncoding) else encoding.scale

    def scale(self, view: View) -> float:
        """A real number is this times the integer in the view."""
        return self.values[view.value].scale
