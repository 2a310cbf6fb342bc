"""A tensor expression of its own, in integers: a contraction with the tensors that it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from baco.common.errors import InputError
from baco.common.shown import Shown
from baco.common.units import tally
from baco.compiler.layers.reference import requantise
from baco.compiler.mapping.contraction import Contraction
from baco.compiler.mapping.contraction_text import tensor_shapes
from baco.compiler.mapping.evaluation import contraction_sums
from baco.compiler.mapping.rewriting import as_products, gathered, rising
from baco.compiler.ops.operator import Role

#: Of the tensor that sums of elements are products with.
_ONES = "ones"
#: Products of two int8 numbers in a sum of 31 bits.
_MOST_PRODUCTS = (2**31 - 1) // 128**2


@dataclass(frozen=True, eq=False, repr=False)
class TensorProgram(Shown):
    """`output = saturate_int8(round(relu(sums) * scale))`, `sums` those of a contraction of int8 tensors in int32.

    Attributes:
        contraction: products of two tensors, or sums of one.
        constants: tensors that are known while compiling; all others but the output are inputs.
        shapes: of all tensors, those that the constructor was not given included.
        scale: float32.
        relu: negative sums become 0.

    Raises InputError for shapes and constants that do not fit, and for what is neither products nor sums of iterations.
    """

    contraction: Contraction
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    scale: float = 1.0
    relu: bool = False

    def _headline(self) -> str:
        return f"{self.name}: {self.contraction}, {tally(self.contraction.macs, 'MACs')}"

    def _facts(self) -> Iterator[tuple[str, object]]:
        for name, shape in self.shapes.items():
            yield name, "×".join(map(str, shape)) + (", known" if name in self.constants else "")
        yield "requantised by", f"{self.scale:g}" + (" behind ReLU" if self.relu else "")

    def __post_init__(self) -> None:
        c = self.contraction
        names = [access.operand for access in c.inputs]
        if c.body not in ("products", "sum") or not names:
            raise InputError(f"{c} is no sum of products")
        if c.output.operand in names:
            raise InputError(f"{c} reads what it writes")
        for name in c.reduction:
            if c.body == "products" and any(name not in access.variables for access in c.inputs):
                raise InputError(
                    f"{c} sums up '{name}' of one tensor alone", hint="multiply it by a tensor of ones"
                )
        for name in c.extents:
            if not any(name in access.variables for access in c.inputs):
                raise InputError(f"no tensor on the right of {c} has '{name}'")
        products = int(np.prod([c.extents[name] for name in c.reduction], dtype=object))
        if products > _MOST_PRODUCTS:
            raise InputError(f"sums of {products:,} products do not fit into 32 bits")
        shapes = dict(tensor_shapes(c, {**{n: a.shape for n, a in self.constants.items()}, **self.shapes}))
        constants = {name: np.asarray(array) for name, array in self.constants.items()}
        if c.body == "sum":
            constants[_ONES] = np.ones([c.extents[name] for name in c.reduction], np.int8)
            shapes[_ONES] = constants[_ONES].shape
        for name, array in constants.items():
            if array.dtype != np.int8 or array.shape != shapes.get(name):
                raise InputError(f"'{name}' holds {array.dtype} {array.shape}, not int8 {shapes.get(name)}")
        object.__setattr__(self, "shapes", shapes)
        object.__setattr__(self, "constants", constants)

    @property
    def name(self) -> str:
        """Of the operator."""
        return self.contraction.name or "expression"

    @property
    def products(self) -> Contraction:
        """The same sums as products of two tensors whose results have an element each: what is matched."""
        return rising(gathered(as_products(self.contraction, _ONES)))

    def role(self, tensor: str) -> Role:
        """Of a tensor in a network."""
        if tensor == self.contraction.output.operand:
            return "output"
        return "constant" if tensor in self.constants else "input"

    def result(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """int8 elements of the output, by the contraction's definition."""
        c = self.contraction
        sums = contraction_sums(c, {**self.constants, **inputs}, self.shapes[c.output.operand])
        return requantise((np.maximum(sums, 0) if self.relu else sums).astype(np.int32), self.scale)
