"""Operators of elements on real numbers become one pass over memory each (`baco.compiler.ops.elements.FusedElements`).

What is between them must be read by nothing else, and by the same elements. A group grows from the operator whose result is stored
towards those that make its operands, as long as the C function has registers for its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.ops.elements import MOST_INPUTS, ElementOperator, FusedElements
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.views import View


def fused_elements(network: QuantisedNetwork) -> QuantisedNetwork:
    """The network with such operators together; values between them are gone."""
    return _Groups(network).fused()


def _may_join(op: IntegerOperator) -> bool:
    return isinstance(op, ElementOperator) and not op.alone


class _Groups:
    def __init__(self, network: QuantisedNetwork) -> None:
        self.network = network
        self.writers: dict[str, list[int]] = {}
        self.readers: dict[str, list[int]] = {}
        self._literals: dict[View, float | int | None] = {}
        for number, op in enumerate(network.operators):
            self.writers.setdefault(op.output.value, []).append(number)
            for view in op.inputs:
                self.readers.setdefault(view.value, []).append(number)

    def fused(self) -> QuantisedNetwork:
        operators, gone = list[IntegerOperator](), set[str]()
        taken = set[int]()
        for last in reversed(range(len(self.network.operators))):
            if last in taken:
                continue
            group = self._group(last, taken)
            taken |= group
            members = [self.network.operators[number] for number in sorted(group)]
            operators.append(self._together(members) if _may_join(members[-1]) else members[-1])
            gone |= {member.output.value for member in members[:-1]}
        network = self.network
        return replace(
            network,
            operators=tuple(reversed(operators)),
            values={name: value for name, value in network.values.items() if name not in gone},
            tensors={name: view for name, view in network.tensors.items() if view.value not in gone},
        )

    def _group(self, last: int, taken: set[int]) -> set[int]:
        """Numbers of the operators that go with one; of those that may, the nearest first."""
        group = {last}
        if not _may_join(self.network.operators[last]):
            return group
        grown = True
        while grown:
            grown = False
            for number in sorted(self._before(group) - taken, reverse=True):
                if self._joins(number, group):
                    group.add(number)
                    grown = True
                    break
        return group

    def _before(self, group: set[int]) -> set[int]:
        """Operators that alone write what some of the group reads."""
        views = (view for number in group for view in self.network.operators[number].inputs)
        written = (self.writers.get(view.value, ()) for view in views)
        return {numbers[0] for numbers in written if len(numbers) == 1} - group

    def _joins(self, number: int, group: set[int]) -> bool:
        op, network = self.network.operators[number], self.network
        name, shape = op.output.value, network.operators[max(group)].output.shape
        if not _may_join(op) or op.output.shape != shape or not set(self.readers[name]) <= group:
            return False
        if network.values[name].role != "intermediate":
            return False  # the user sees it
        same = op.output.collapsed()
        reads = [
            view for one in self.readers[name] for view in network.operators[one].inputs if view.value == name
        ]
        if any(view.collapsed() != same for view in reads):
            return False
        together = self._together([network.operators[one] for one in sorted({number, *group})])
        return len(together.operands) <= MOST_INPUTS

    def _together(self, members: Sequence[IntegerOperator]) -> FusedElements:
        last = members[-1]
        steps = tuple(member for member in members if isinstance(member, ElementOperator))
        sources = tuple(dict.fromkeys(name for one in members for name in one.sources))
        whole = FusedElements(last.name, sources, last.output, steps)
        numbers = ((view, self._literal(view)) for view in whole.inputs if view not in whole.tables)
        return replace(whole, literals=tuple((view, one) for view, one in numbers if one is not None))

    def _literal(self, view: View) -> float | int | None:
        """What an operand is everywhere; None where that is not one constant number."""
        if view not in self._literals:
            data = self.network.constants.get(view.value)
            if data is None:
                return None
            # what is repeated is looked at once
            at = tuple(
                0 if stride == 0 and size else slice(None)
                for size, stride in zip(view.shape, view.strides, strict=True)
            )
            numbers = np.unique(view.read(data)[at])
            self._literals[view] = numbers[0].item() if numbers.size == 1 else None
        return self._literals[view]
