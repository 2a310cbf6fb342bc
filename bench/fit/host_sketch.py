"""Networks of random operators that have nothing to do with one another, by which host operators are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baco.compiler.ops.operator import IntegerOperator, IntegerTensor, Role
from baco.compiler.ops.views import View, dense

Array = np.ndarray[Any, Any]


@dataclass
class HostSketch:
    """A network of operators that have nothing to do with one another."""

    random: np.random.Generator
    values: dict[str, IntegerTensor] = field(default_factory=dict)
    data: dict[str, Array] = field(default_factory=dict)
    operators: list[IntegerOperator] = field(default_factory=list)

    def value(self, shape: tuple[int, ...], role: Role = "input", data: Array | None = None) -> View:
        """A value of random elements, or of these; the view of all of it."""
        name = f"{role}{len(self.values)}"
        if data is None and role != "output":
            data = self.random.integers(-128, 128, shape, dtype=np.int8)
        dtype: Any = "int8" if data is None else str(data.dtype)
        self.values[name] = IntegerTensor(name, shape, dtype, role=role)
        if data is not None:
            self.data[name] = data
        return dense(name, shape)

    def table(self, low: int, high: int, shape: tuple[int, ...], dtype: str = "int8") -> View:
        """A constant of random whole numbers."""
        return self.value(shape, "constant", self.random.integers(low, high, shape).astype(dtype))

    def turned(self, shape: tuple[int, ...], role: Role = "input") -> View:
        """A view with its dimensions in another order than in memory, in half of all cases."""
        if len(shape) < 2 or self.random.random() < 0.5:
            return self.value(shape, role)
        order = [int(axis) for axis in self.random.permutation(len(shape))]
        whole = self.value(tuple(shape[axis] for axis in order), role)
        return whole.transposed([order.index(axis) for axis in range(len(shape))])

    def shape(self, rank: int, most: int = 20_000) -> tuple[int, ...]:
        """Extents whose product is between a few and `most`."""
        total = math.exp(self.random.uniform(math.log(16), math.log(most)))
        parts = self.random.dirichlet(np.ones(rank) * 2)
        return tuple(max(1, round(total**part)) for part in parts)

    def size(self, low: int, high: int) -> int:
        """A number between two, small ones more often."""
        return round(math.exp(self.random.uniform(math.log(low), math.log(high))))

    def add(self, kind: type[IntegerOperator], output: View, **fields: Any) -> None:
        """An operator."""
        self.operators.append(kind(f"operator{len(self.operators)}", (), output, **fields))
