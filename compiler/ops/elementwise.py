"""Operators element by element (`host/elementwise.c`; conversions `host/selection.c`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from baco.accel.isa import float32_bits
from baco.compiler.layers.reference import requantise
from baco.compiler.ops.accesses import ARITHMETIC, FUNCTION, of_elements
from baco.compiler.ops.arithmetic import FixedPoint, saturate8
from baco.compiler.ops.calls import elementwise, loop_call
from baco.compiler.ops.nests import element_loops
from baco.compiler.ops.operator import (
    Array,
    Dependences,
    HostCall,
    IntegerOperator,
    Read,
    Values,
    itemsize,
)
from baco.compiler.ops.views import View, dense


def copy_call(source: View, target: View, values: Values) -> HostCall:
    """Copies one view to another of the same shape and type."""
    size = itemsize(values[target.value])
    return elementwise("net_copy", (source, target), (size,), size=size, variant=f" {size}")


#: Elements that net_map takes together where they are neighbours (host/elementwise.c).
_LANES = 16


@dataclass(frozen=True)
class Addition(IntegerOperator):
    """output = scaled(max(sum, 0) if relu else sum, scale), sum = scaled(left, left_scale) + scaled(right, right_scale).

    A residual addition by two scaled moves into the accumulator; a difference has a negative `right_scale`.
    All three views have the same shape; left or right may broadcast by strides of 0.
    """

    left: View
    right: View
    left_scale: float
    right_scale: float
    scale: float
    relu: bool

    def compute(self, read: Read) -> Array:
        """See the class."""
        left = requantise(read(self.left), self.left_scale).astype(np.int32)
        total = left + requantise(read(self.right), self.right_scale).astype(np.int32)
        return requantise(np.maximum(total, 0) if self.relu else total, self.scale)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "left", "right")

    def host_call(self, values: Values) -> HostCall:
        """By tables of both operands and of the sums."""
        numbers = np.arange(-128, 128, dtype=np.int32)
        sums = np.arange(-256, 256, dtype=np.int32)
        results = requantise(np.maximum(sums, 0) if self.relu else sums, self.scale)
        scaled = [requantise(numbers, one) for one in (self.left_scale, self.right_scale)]
        tables = np.concatenate([*scaled, results])
        name = f"{self.name}.sums"
        operands = (self.left, self.right, dense(name, tables.shape), self.output)
        return elementwise("net_add", operands, table=2, extra={name: tables})


@dataclass(frozen=True)
class Map(IntegerOperator):
    """output = table[input + 128] (int8 constant [256]), or the input itself without a table.

    Activation functions, changes of scale, clipping, copies into another layout or into a part of a larger value.
    """

    input: View
    table: View | None

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input)
        return x if self.table is None else read(self.table)[x.astype(np.int16) + 128]

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input", operations=ARITHMETIC if self.table is None else FUNCTION)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        if self.table is None:
            return copy_call(self.input, self.output, values)
        operands = (self.input, self.table, self.output)
        return elementwise("net_map", operands, table=1, table_bytes=256, lanes=_LANES)


@dataclass(frozen=True)
class Fill(IntegerOperator):
    """output = constant, everywhere."""

    constant: int

    def compute(self, read: Read) -> Array:
        """See the class."""
        return np.full(self.output.shape, self.constant, np.int8)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        size = itemsize(values[self.output.value])
        numbers = (size, self.constant)
        return elementwise("net_fill", (self.output,), numbers, size=size, variant=f" {size}")


@dataclass(frozen=True)
class Multiplication(IntegerOperator):
    """output = sat8((left * right) * rescale); same shapes, either operand may broadcast by strides of 0.

    `rescale`: of networks its multiplier has at most 12 bits (`row_functions.PRODUCT_BITS`), as many as the accelerator
    multiplies exactly: it is less than one part in 4000 off.
    """

    left: View
    right: View
    rescale: FixedPoint

    def compute(self, read: Read) -> Array:
        """See the class."""
        product = read(self.left).astype(np.int64) * read(self.right).astype(np.int64)
        return saturate8(self.rescale.apply(product))

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "left", "right")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        numbers = (self.rescale.multiplier, self.rescale.shift)
        return elementwise("net_multiply", (self.left, self.right, self.output), numbers)


@dataclass(frozen=True)
class Gate(Multiplication):
    """output = sat8((table[left + 128] * right) * rescale): a `Map` and the product that alone reads it, in one pass (int8 constant
    [256]); what lowering makes of them, in no network."""

    table: View

    @classmethod
    def of(cls, product: Multiplication, function: Map) -> Gate | None:
        """The product with the function of one of its operands in it; None where the elements do not lie in the same order."""
        for operand, other in ((product.left, product.right), (product.right, product.left)):
            if operand.value != function.output.value or function.table is None:
                continue
            views = (function.input, function.output, operand)
            in_order = (
                all(view.is_dense for view in views) and len({math.prod(view.shape) for view in views}) == 1
            )
            source = function.input.reshaped(operand.shape) if in_order else None
            if source is None or other.value == operand.value:
                return None
            return cls(
                product.name, product.sources, product.output, source, other, product.rescale, function.table
            )
        return None

    def compute(self, read: Read) -> Array:
        """See the class."""
        product = read(self.table)[read(self.left).astype(np.int16) + 128].astype(np.int64) * read(self.right)
        return saturate8(self.rescale.apply(product))

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        numbers = (self.rescale.multiplier, self.rescale.shift)
        operands = (self.left, self.right, self.table, self.output)
        return elementwise("net_gate", operands, numbers, table=2)


@dataclass(frozen=True)
class BinaryTable(IntegerOperator):
    """output = table[left + 128, right + 128] (int8 constant [256, 256]): quotients, powers, maxima, comparisons..."""

    left: View
    right: View
    table: View

    def compute(self, read: Read) -> Array:
        """See the class."""
        left, right = (read(one).astype(np.int16) + 128 for one in (self.left, self.right))
        return np.asarray(read(self.table)[left, right])

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "left", "right", operations=FUNCTION)

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        return elementwise("net_binary_table", (self.left, self.right, self.table, self.output), table=2)


@dataclass(frozen=True)
class Conversion(IntegerOperator):
    """output = float32(input) * scale, rounded to nearest (ties to even), limited to the range of the output's type.

    Positions (int32) as numbers (int8) and back.
    """

    input: View
    scale: float

    def compute(self, read: Read) -> Array:
        """See the class."""
        x = read(self.input)
        product = np.rint(x.astype(np.float32) * np.float32(self.scale)).astype(np.int64)
        return saturate8(product) if x.dtype == np.int32 else np.asarray(product, np.int32)

    def accesses(self) -> Dependences:
        """See `IntegerOperator`."""
        return of_elements(self, "input")

    def host_call(self, values: Values) -> HostCall:
        """See `IntegerOperator`."""
        wide = itemsize(values[self.input.value]) == 4
        operands = (self.input, self.output)
        numbers = (int(wide), float32_bits(self.scale))
        sizes = (4, 1) if wide else (1, 4)
        return loop_call("net_convert", "selection.c", element_loops(*operands), sizes, operands, numbers)
