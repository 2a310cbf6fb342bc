"""Reuse over a whole network, and its partition into subprograms that keep what lies between their operators on chip.

Souffle's analysis, for an accelerator with a scratchpad and an accumulator. Operators are gone through from the last one to
the first, and each joins a subprogram of those that read its results, if what that needs fits; else it begins another. A
subprogram is carried out block by block of its results, of as many rows as the array has, or of whole rows of an image where
windows overlap; what a block needs of each inner tensor follows from the operators' index maps, all of it where these are
not affine. (The published limit is that of a GPU: threads that can be resident at once. Its partition may make two
subprograms wait for each other; here the order among subprograms stays acyclic.)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from baco.accel.config import Accelerator
from baco.compiler.network.dependences import map_between
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.ops.operator import Dependences, Operand, itemsize
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.rows import Normalisation, Softmax
from baco.compiler.ops.views import View, dense

#: Copies of a block of the array's side by its side of what comes from or goes to main memory meanwhile.
_COPIES = 2


@dataclass(frozen=True)
class Edge:
    """An operator reads what another one wrote.

    Attributes:
        writer, reader: numbers of the operators.
        operand: that is read.
    """

    writer: int
    reader: int
    operand: Operand


@dataclass(frozen=True)
class SharedReads:
    """Elements that several operators read.

    Attributes:
        value: their value.
        readers: numbers of the operators.
        kind: `spatial` if none of them waits for another one, `temporal` if each does, else `both`.
        nbytes: that one read of all would save against a read each.
    """

    value: str
    readers: tuple[int, ...]
    kind: Literal["spatial", "temporal", "both"]
    nbytes: int


@dataclass(frozen=True)
class Subprogram:
    """Operators that run as one.

    Attributes:
        operators: numbers, in order.
        scratchpad_bytes, accumulator_bytes: that a block needs.
        fits: whether the accelerator has them; a single operator that does not is cut further (into tiles).
        read_bytes, written_bytes: of main memory, each tensor once.
    """

    operators: tuple[int, ...]
    scratchpad_bytes: int
    accumulator_bytes: int
    fits: bool
    read_bytes: int
    written_bytes: int


class NetworkAnalysis:
    """Dependences, reuse and subprograms of a quantised network.

    Attributes:
        network: that is analysed.
        operators: dependences of its operators, in order.
        edges: who reads whose results.
    """

    def __init__(self, network: QuantisedNetwork) -> None:
        self.network = network
        self.operators = [op.accesses() for op in network.operators]
        writers: dict[str, list[int]] = defaultdict(list)
        self.edges: list[Edge] = []
        for number, one in enumerate(self.operators):
            for operand in one.operands:
                self.edges += [
                    Edge(writer, number, operand)
                    for writer in writers[operand.view.value]
                    if self._meet(operand.view, self.operators[writer].operator.output)
                ]
            writers[one.operator.output.value].append(number)
        self._inputs: dict[int, list[Edge]] = defaultdict(list)
        self._readers: dict[int, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            self._inputs[edge.reader].append(edge)
            self._readers[edge.writer].append(edge)

    def _nbytes(self, view: View) -> int:
        """Of a view's elements, repeated ones once."""
        words = math.prod(size for size, stride in zip(view.shape, view.strides, strict=True) if stride)
        return words * itemsize(self.network.values[view.value])

    def _meet(self, one: View, other: View) -> bool:
        """Whether two views of a value may have an element in common: unless they lie in boxes that do not."""
        shape = self.network.values[one.value].shape
        boxes = []
        for view in (one, other):
            found = map_between(view, dense(view.value, shape))
            if found is None:
                return True
            low = [
                base
                + sum(factor * (size - 1) for factor, size in zip(row, view.shape, strict=True) if factor < 0)
                for row, base in zip(found.matrix, found.offset, strict=True)
            ]
            boxes.append(
                [range(a, a + extent) for a, extent in zip(low, found.slice(view.shape), strict=True)]
            )
        return all(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(*boxes, strict=True))

    # ---------------------------------------------------------------- reuse

    @cached_property
    def waits_for(self) -> list[int]:
        """Of each operator, as bits of a number, all that have to run before it."""
        found: list[int] = []
        for number in range(len(self.operators)):
            before = 0
            for edge in self._inputs[number]:
                before |= found[edge.writer] | 1 << edge.writer
            found.append(before)
        return found

    @cached_property
    def reuse(self) -> list[SharedReads]:
        """Values with elements that several operators read, what saves most first."""
        reads: dict[str, list[tuple[int, View]]] = defaultdict(list)
        for number, operator in enumerate(self.operators):
            for view in dict.fromkeys(operand.view for operand in operator.operands if not operand.indirect):
                reads[view.value].append((number, view))
        found = []
        for value, views in reads.items():
            common = [
                (first, second)
                for at, first in enumerate(views)
                for second in views[at + 1 :]
                if first[0] != second[0] and self._meet(first[1], second[1])
            ]
            if not common:
                continue
            waiting = {bool(self.waits_for[b] >> a & 1) for (a, _), (b, _) in common}
            kind: Literal["spatial", "temporal", "both"] = (
                "both" if len(waiting) > 1 else "temporal" if True in waiting else "spatial"
            )
            readers = sorted({number for pair in common for number, _ in pair})
            sizes = [self._nbytes(view) for number, view in views if number in readers]
            found.append(SharedReads(value, tuple(readers), kind, sum(sizes) - max(sizes)))
        return sorted(found, key=lambda shared: -shared.nbytes)

    # ---------------------------------------------------------------- subprograms

    def subprograms(self, accelerator: Accelerator) -> list[Subprogram]:
        """The partition, in an order in which they can run."""
        of: dict[int, int] = {}
        members: dict[int, list[int]] = {}
        for number in reversed(range(len(self.operators))):
            joined = None
            if not self.operators[number].indirect:
                for candidate in dict.fromkeys(of[edge.reader] for edge in self._readers[number]):
                    together = [number, *members[candidate]]
                    if (
                        not any(self.operators[member].indirect for member in together)
                        and self._acyclic(of, number, candidate)
                        and self._fits(self.need(together, accelerator), accelerator)
                    ):
                        joined = candidate
                        break
            if joined is None:
                joined = len(members)
                members[joined] = []
            of[number] = joined
            members[joined].insert(0, number)
        return [self.subprogram(members[first], accelerator) for first in self._in_order(of, members)]

    def _after(self, of: dict[int, int], start: Iterable[int]) -> set[int]:
        """Subprograms that wait for some, directly or not."""
        found: set[int] = set()
        waiting = list(start)
        while waiting:
            one = waiting.pop()
            if one in found:
                continue
            found.add(one)
            waiting += [
                of[edge.reader]
                for edge in self.edges
                if of.get(edge.writer) == one and of.get(edge.reader, one) != one
            ]
        return found

    def _acyclic(self, of: dict[int, int], number: int, joined: int) -> bool:
        """Whether no other subprogram would have to run between an operator and the rest of the one it joins."""
        others = {of[edge.reader] for edge in self._readers[number]} - {joined}
        return joined not in self._after(of, others)

    def _in_order(self, of: dict[int, int], members: dict[int, list[int]]) -> list[int]:
        before: dict[int, set[int]] = {subprogram: set() for subprogram in members}
        for edge in self.edges:
            if of[edge.writer] != of[edge.reader]:
                before[of[edge.reader]].add(of[edge.writer])
        order: list[int] = []
        while len(order) < len(members):
            ready = [
                subprogram
                for subprogram in members
                if subprogram not in order and before[subprogram] <= set(order)
            ]
            order.append(min(ready, key=lambda subprogram: members[subprogram][0]))
        return order

    def subprogram(self, members: Sequence[int], accelerator: Accelerator) -> Subprogram:
        """Some operators, in order, as one."""
        need = self.need(members, accelerator)
        inside = set(members)
        outside = [
            self.operators[number].operator.output if operand.indirect else operand.view
            for number in members
            for operand in self.operators[number].operands
            if not any(edge.operand is operand and edge.writer in inside for edge in self._inputs[number])
        ]
        written = [
            self.operators[number].operator.output for number in members if self._leaves(number, inside)
        ]
        return Subprogram(
            tuple(members),
            *need,
            self._fits(need, accelerator),
            sum(self._nbytes(view) for view in dict.fromkeys(outside)),
            sum(self._nbytes(view) for view in written),
        )

    @staticmethod
    def _fits(need: tuple[int, int], accelerator: Accelerator) -> bool:
        return need[0] <= accelerator.scratchpad_kib * 1024 and need[1] <= accelerator.accumulator_kib * 1024

    def _leaves(self, number: int, inside: set[int]) -> bool:
        """Whether somebody outside reads an operator's results."""
        value = self.network.values[self.operators[number].operator.output.value]
        readers = [edge.reader for edge in self._readers[number]]
        return value.role != "intermediate" or not readers or any(one not in inside for one in readers)

    # ---------------------------------------------------------------- what a block needs

    def need(self, members: Sequence[int], accelerator: Accelerator) -> tuple[int, int]:
        """Bytes of scratchpad and accumulator for a block of results of some operators, in order."""
        inside = set(members)
        blocks = self.blocks(members, accelerator.dim)
        last = {
            number: max(
                (edge.reader for edge in self._readers[number] if edge.reader in inside), default=number
            )
            for number in members
        }
        dim = accelerator.dim
        scratchpad = accumulator = 0
        for number in members:
            live = sum(
                math.prod(blocks[one])
                * itemsize(self.network.values[self.operators[one].operator.output.value])
                for one in members
                if one <= number <= last[one] and last[one] > one
            )
            scratchpad = max(scratchpad, live + self._streamed(number, inside, blocks[number], dim))
            accumulator = max(accumulator, self._sums(number, inside, blocks[number], dim))
        return scratchpad, accumulator

    def blocks(self, members: Sequence[int], dim: int) -> dict[int, tuple[int, ...]]:
        """What a block needs of the results of each of its operators, extents by dimension of their outputs."""
        inside = set(members)
        windows = any(_overlaps(self.operators[edge.reader], edge.operand) for edge in self.edges
                      if edge.reader in inside and edge.writer in inside)  # fmt: skip
        found: dict[int, tuple[int, ...]] = {}
        for number in reversed(members):
            one = self.operators[number]
            shape = one.operator.output.shape
            wanted = [1] * len(shape)
            readers = [edge for edge in self._readers[number] if edge.reader in inside]
            if not readers or self._leaves(number, inside):
                wanted = list(_first_block(shape, dim, windows))
            for edge in readers:
                wanted = [max(a, b) for a, b in zip(wanted, self._met(edge, found[edge.reader]), strict=True)]
            found[number] = tuple(min(a, size) for a, size in zip(wanted, shape, strict=True))
        return found

    def _met(self, edge: Edge, block: Sequence[int]) -> tuple[int, ...]:
        """Extents of what a block of a reader's results needs of the writer's results."""
        reader, writer = self.operators[edge.reader], self.operators[edge.writer].operator.output
        between = map_between(edge.operand.view, writer)
        if between is None or edge.operand.access is None:
            return writer.shape
        return between.slice(_operand_block(reader, edge.operand, block))

    def _streamed(self, number: int, inside: set[int], block: Sequence[int], dim: int) -> int:
        """Scratchpad for operands that come from main memory: blocks of the array, or whole rows of functions of rows."""
        one = self.operators[number]
        total = 0
        for operand in one.operands:
            if any(edge.operand is operand and edge.writer in inside for edge in self._inputs[number]):
                continue
            if isinstance(one.operator, Softmax | Normalisation) and one.relies_on_many(operand):
                total += math.prod(_operand_block(one, operand, block))
            else:
                total += _COPIES * dim * dim
        return total

    def _sums(self, number: int, inside: set[int], block: Sequence[int], dim: int) -> int:
        """Accumulator: blocks of the array, or whole rows where a function of rows reads them there."""
        if not isinstance(self.operators[number].operator, MatMul | Convolution):
            return 0
        readers = [edge.reader for edge in self._readers[number] if edge.reader in inside]
        if any(isinstance(self.operators[one].operator, Softmax | Normalisation) for one in readers):
            rows = min(dim, math.prod(block[:-1]))
            return 4 * rows * dim * math.ceil(block[-1] / dim)
        return _COPIES * 4 * dim * dim


def _overlaps(reader: Dependences, operand: Operand) -> bool:
    """Whether neighbouring results read windows that overlap."""
    if operand.access is None:
        return False
    chosen = reader.output.variables
    return any(
        len({name in chosen for name in index.variables if reader.extents[name] > 1}) > 1
        for index in operand.access.indices
    )


def _first_block(shape: Sequence[int], dim: int, rows: bool) -> tuple[int, ...]:
    """A block that nobody asks for: rows of the array, or with `rows` a row of an image of them."""
    if len(shape) < 2:
        return tuple(shape)
    if rows and len(shape) == 4:
        return (1, 1, *shape[2:])
    return (*(1 for _ in shape[:-2]), min(dim, shape[-2]), shape[-1])


def _operand_block(reader: Dependences, operand: Operand, block: Sequence[int]) -> tuple[int, ...]:
    """Extents, in the operand's view, of what a block of results needs."""
    assert operand.access is not None
    extents = dict(reader.extents)
    for index, extent in zip(reader.output.indices, block, strict=True):
        if len(index.variables) == 1:  # of others all are needed
            extents[index.variables[0]] = min(extents[index.variables[0]], extent)
    return tuple(
        min(extent, size)
        for extent, size in zip(operand.access.slice(extents), operand.view.shape, strict=True)
    )
