"""Graphs of tensor expressions, and what the rules of sketches ask about their nodes.

Source of the questions: Ansor (OSDI 2020), section 4.1, by the patterns in which expressions read and write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import Access, Contraction
from baco.compiler.mapping.contraction_text import index_range
from baco.compiler.mapping.expression import as_sum

__all__ = ["TensorGraph"]


@dataclass(frozen=True)
class TensorGraph:
    """Operators that read each other's results; a node is a tensor, one that an operator makes or one from outside.

    Attributes:
        operators: those that make a tensor before those that read it.
        shapes: of tensors from outside, where operators read beyond them (elements there are zero).

    Raises InputError for a tensor that is made twice, or read before it is made.
    """

    operators: tuple[Contraction, ...]
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for one in self.operators:
            name = one.output.operand
            if name in seen or any(access.operand == name for access in one.inputs):
                raise InputError(f"tensor '{name}' is read before it is made, or made twice")
            seen |= {access.operand for access in one.accesses}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Tensors, readers after what they read, those from outside just before their first reader."""
        names = (
            name
            for one in self.operators
            for name in (*(access.operand for access in one.inputs), one.output.operand)
        )
        return tuple(dict.fromkeys(names))

    @cached_property
    def _makers(self) -> dict[str, Contraction]:
        return {one.output.operand: one for one in self.operators}

    def maker(self, tensor: str) -> Contraction | None:
        """The operator that makes a tensor; None for one from outside."""
        return self._makers.get(tensor)

    def readers(self, tensor: str) -> list[Contraction]:
        """Operators that read a tensor."""
        return [one for one in self.operators if any(access.operand == tensor for access in one.inputs)]

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """Extents of a stored tensor; None where nothing limits them."""
        if tensor in self.shapes:
            return tuple(self.shapes[tensor])
        one = self.maker(tensor)
        if one is None:
            return None
        places = range(len(one.output.indices))
        return tuple(index_range(one.output, place, one.extents)[1] + 1 for place in places)

    # ---------------------------------------------------------------- what the rules ask

    def is_inlinable(self, tensor: str) -> bool:
        """Whether a tensor can always be computed where it is read (IsStrictInlinable): elements of their own, inside what
        is stored, and somebody reads it."""
        one = self.maker(tensor)
        return one is not None and bool(self.readers(tensor)) and self._is_elementwise(one)

    def has_reuse(self, tensor: str) -> bool:
        """Whether its operator is worth tiling (HasDataReuse): it sums up products, and some operand's element serves
        several results."""
        one = self.maker(tensor)
        if one is None or one.body != "products" or not one.reduction:
            return False
        kept = {name for name in one.output.variables if one.extents[name] > 1}
        return any(kept - set(access.variables) for access in one.inputs)

    def fusible_consumer(self, tensor: str) -> Contraction | None:
        """The only reader of a tensor, if that makes of every element one of its own (HasFusibleConsumer)."""
        readers = self.readers(tensor)
        if self.maker(tensor) is None or len(readers) != 1 or not self._is_elementwise(readers[0]):
            return None
        reader = readers[0]
        return reader if set(reader.access(tensor).variables) == set(reader.extents) else None

    def has_parallel_reduction(self, tensor: str, lanes: int) -> bool:
        """Whether its operator has too few results for `lanes` that work side by side, and more to sum up
        (HasMoreReductionParallel)."""
        one = self.maker(tensor)
        if one is None or one.body not in ("products", "sum") or not one.reduction:
            return False
        summed = math.prod(one.extents[name] for name in one.reduction)
        results = one.macs // summed
        return results <= summed and results < lanes

    def _is_elementwise(self, one: Contraction) -> bool:
        return (
            one.body == "pointwise"
            and _is_plain(one.output)
            and all(_is_plain(access) and self._is_inside(access, one) for access in one.inputs)
        )

    def _is_inside(self, access: Access, one: Contraction) -> bool:
        shape = self.shape(access.operand)
        return shape is None or all(
            index_range(access, place, one.extents)[1] < extent for place, extent in enumerate(shape)
        )


def _is_plain(access: Access) -> bool:
    """Every index is an iteration of its own."""
    return all(
        list(index.values()) == [1] and as_sum(whole).constant == 0
        for index, whole in zip(access.coefficients, access.indices, strict=True)
    ) and len(access.variables) == len(access.indices)
