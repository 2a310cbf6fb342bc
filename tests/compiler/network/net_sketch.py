"""Quantised networks by hand: operators on random views of random values, run by compiled programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.program import NetworkProgram, compile_network
from baco.compiler.network.reference import reference
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor
from baco.compiler.ops.products import MatMul
from baco.compiler.ops.views import View, dense
from baco.sim.engines.program import run_program
from tests.machines import SMALL

Array = np.ndarray[Any, Any]
DIM4 = SMALL


@dataclass
class Sketch:
    """A network under construction; every value is an input, a constant, an intermediate one or an output."""

    random: np.random.Generator
    values: dict[str, IntegerTensor] = field(default_factory=dict)
    data: dict[str, Array] = field(default_factory=dict)
    operators: list[IntegerOperator] = field(default_factory=list)

    def value(
        self, shape: Sequence[int], role: str = "input", data: Array | None = None, dtype: Any = "int8"
    ) -> View:
        """A new value, with random int8 elements if it needs some and has none."""
        name = f"{role} {len(self.values)}"
        if data is None and role in ("input", "constant"):
            data = self.random.integers(-128, 128, tuple(shape), dtype=np.int8)
        dtype = dtype if data is None else str(data.dtype)
        self.values[name] = IntegerTensor(name, tuple(shape), dtype, role=role)  # type: ignore[arg-type]
        if data is not None:
            self.data[name] = data
        return dense(name, shape)

    def strided(self, shape: Sequence[int], role: str = "input", data: Array | None = None) -> View:
        """A view of a larger value with its dimensions in another order; inputs may also be flipped or repeated."""
        random = self.random
        order = [int(a) for a in random.permutation(len(shape))]
        steps = [int(random.choice([1, 1, 1, 2])) for _ in shape]
        extra = [int(random.choice([0, 0, 1])) for _ in shape]
        repeated = [role != "output" and data is None and random.random() < 0.1 for _ in shape]
        sizes = [
            1 if r else (n - 1) * s + 1 + e for n, s, e, r in zip(shape, steps, extra, repeated, strict=True)
        ]
        whole: View
        if data is None:
            whole = self.value([sizes[a] for a in order], role)
        else:
            elements = np.zeros([sizes[a] for a in order], data.dtype)
            whole = self.value(elements.shape, role, elements)
        back = whole.transposed([order.index(d) for d in range(len(shape))])
        starts = [0 if r else e for e, r in zip(extra, repeated, strict=True)]
        strides = [0 if r else back.strides[d] * steps[d] for d, r in enumerate(repeated)]
        offset = sum(a * s for a, s in zip(starts, back.strides, strict=True))
        if role == "input" and data is None:
            for d, stride in enumerate(strides):
                if random.random() < 0.1:
                    offset += (shape[d] - 1) * stride
                    strides[d] = -stride
        view = View(whole.value, tuple(shape), tuple(strides), offset)
        if data is not None:
            view.write(self.data[whole.value], data)
        return view

    def either(self, shape: Sequence[int], role: str = "input") -> View:
        """A dense value, or a strided view."""
        return self.value(shape, role) if self.random.random() < 0.5 else self.strided(shape, role)

    def add(self, kind: type[IntegerOperator], output: View, **fields: Any) -> View:
        """Append an operator; the view that it writes."""
        self.operators.append(kind(f"operator {len(self.operators)}", (), output, **fields))
        return output

    def matmul(
        self,
        output: View,
        left: View,
        right: View,
        *,
        bias: View | None = None,
        relu: bool = False,
        scale: float = 0.004,
    ) -> View:
        """A product of two matrices, or of those of two batches."""
        return self.add(MatMul, output, left=left, right=right, bias=bias, relu=relu, scale=scale)

    def map(self, output: View, source: View, table: View | None) -> View:
        """Elements through a table, or as they are."""
        return self.add(Map, output, input=source, table=table)

    def network(self) -> QuantisedNetwork:
        """What has been built."""
        ends = {role: {} for role in ("input", "output")}
        for one in self.values.values():
            if one.role in ends:
                ends[one.role][one.name] = dense(one.name, one.shape)
        constants = {name: self.data[name] for name, one in self.values.items() if one.role == "constant"}
        return QuantisedNetwork(
            "sketch", self.values, tuple(self.operators), constants, ends["input"], ends["output"]
        )

    def inputs(self) -> dict[str, Array]:
        """Elements of the inputs."""
        return {name: self.data[name] for name, one in self.values.items() if one.role == "input"}


def check(
    sketch: Sketch,
    accelerator: Accelerator = DIM4,
    engine: str = "functional",
    check_layers: bool = True,
    **options: Any,
) -> NetworkProgram:
    """Compile and run the network; every operator's result is compared with the integer reference.

    Without `check_layers` only outputs are, and nothing waits for the accelerator in between that need not.
    """
    network = sketch.network()
    expected = reference(network, sketch.inputs())
    program = compile_network(
        network, accelerator, data=sketch.inputs(), reference=expected, check_layers=check_layers, **options
    )
    outputs, result = run_program(program.program, engine=engine)
    assert result.exit_code == 0, result.console
    for name, value in network.values.items():
        if value.role == "output":
            found, wanted = outputs[program.buffer_names[name]], expected[name]
            written = np.zeros(wanted.shape, bool)
            for op in network.operators:
                if op.output.value == name:
                    op.output.write(written, np.ones(op.output.shape, bool))
            np.testing.assert_array_equal(found[written], wanted[written])
    return program
