"""Writes the calls of operators that run as one unit."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from accel.config import Accelerator
from accel.isa import float32_bits
from compiler.network.addition import identity
from compiler.network.graph import Addition, Convolution, MatMul, QuantisedNetwork
from compiler.network.groups import (
    Group,
    GroupCalls,
    GroupCode,
    GroupOperators,
    GroupScheduler,
    added_to,
    best_groups,
    convolution_group,
    groups_of,
    product_calls,
    with_scale,
)
from compiler.network.lowered import ANY_SCALE
from compiler.network.row_code import RowCode, plan_softmax
from compiler.network.row_functions import numerator_parts
from compiler.network.step_writer import StepWriter
from compiler.network.views import View
from compiler.styles.fused.convolutions import diagonal_weights

__all__ = ["GroupWriter"]


@dataclass(frozen=True)
class _Planned:
    """A group that runs as one unit; its calls, of products."""

    operators: GroupOperators
    code: GroupCode
    calls: GroupCalls | None


class GroupWriter(StepWriter):
    """Groups of a network: which there are, and their calls.

    Args:
        groups: chooses how operators are carried out as one unit, if they are; None: none are.
    """

    def __init__(
        self, network: QuantisedNetwork, accelerator: Accelerator, groups: GroupScheduler | None
    ) -> None:
        super().__init__(network, accelerator)
        self._group_schedule = groups
        #: By the operator that writes the result; those before it wait for it.
        self._groups: dict[str, _Planned] = {}
        self._inner: set[str] = set()

    def _plan_groups(self, taken: Container[str]) -> None:
        """Decide which operators run as one unit; none of `taken` do."""
        if self._group_schedule is None:
            return
        for row in groups_of(self.network):
            planned: dict[tuple[str, ...], _Planned] = {}
            gains: dict[tuple[str, ...], float] = {}
            for one in row:
                found = None if any(name in taken for name in one.names) else self._planned(one)
                if found is not None:
                    planned[one.names], gains[one.names] = found
            for one in best_groups(row, gains):
                self._groups[one.last] = planned[one.names]
                self._inner.update(one.names[:-1])

    def _planned(self, one: GroupOperators) -> tuple[_Planned, float] | None:
        """A group as a unit, and what it saves; None if its operators run one by one."""
        assert self._group_schedule is not None
        code: RowCode | None = None
        calls: GroupCalls | None = None
        if one.softmax is not None:
            planned = plan_softmax(one.softmax, self._mask(one.softmax), self.accelerator)
            if isinstance(planned, str):
                return None
            code = planned
        if isinstance(one.operators[0], MatMul):
            calls = product_calls(one, code.first if code is not None else None)
            group: Group | None = calls.group if calls is not None else None
        else:
            group = convolution_group(one)
        if group is None:
            return None
        group = with_scale(group, ANY_SCALE)
        found = self._group_schedule(one.names, group, code)
        return None if found is None else (_Planned(one, GroupCode(group, found[0]), calls), found[1])

    def _call_group(self, last: str) -> None:
        """Append the calls of the group whose result an operator writes."""
        planned = self._groups[last]
        one, code = planned.operators, planned.code
        self._operator = one.last
        for inner in one.names[:-1]:
            self.result.reasons[inner] = f"on chip, in one unit with {one.last}"
        name = self._named("group", code, self.result.groups)
        self.result.units[one.names] = name
        if planned.calls is not None:
            self._call_products(name, one, planned.calls)
        else:
            self._call_convolutions(name, one)

    def _call_products(self, name: str, one: GroupOperators, calls: GroupCalls) -> None:
        first, second = one.operators[0], one.operators[-1]
        assert isinstance(first, MatMul)
        assert isinstance(second, MatMul)
        tables, numbers = list[View](), list[int]()
        if one.softmax is not None:
            tables, numbers = [self._packed(one.softmax)], list(numerator_parts(one.softmax.numerator) or ())
        views = (first.left, first.right, second.right, second.output)
        for offsets in calls.offsets:
            self._step(
                name,
                [
                    *(self._pointer(view, at) for view, at in zip(views, offsets, strict=True)),
                    *(self._pointer(table) for table in tables),
                    *numbers,
                    *(float32_bits(op.scale) for op in (first, second)),
                ],
                [self._region(view) for view in (*views[:-1], *tables)],
                [self._region(views[-1])],
                accelerator=True,
                host=False,
            )

    def _call_convolutions(self, name: str, one: GroupOperators) -> None:
        ops = [op for op in one.operators if isinstance(op, Convolution)]
        weights = [self._group_weights(op) for op in ops]
        biases = [None if op.bias is None else self._constant(op.bias) for op in ops]
        constants = [*weights, *(view for view in biases if view is not None)]
        source, target = ops[0].input, ops[-1].output
        added, bits = list[View](), list[int]()
        addition = one.operators[-1]
        if isinstance(addition, Addition):
            found = added_to(ops[-1], addition)
            assert found is not None
            residual, target, residual_scale = found
            ones = self._add_constant(f"identity{self.accelerator.dim}", identity(self.accelerator.dim))
            added, bits = [residual, ones], [float32_bits(residual_scale), float32_bits(addition.scale)]
        self._step(
            name,
            [
                self._pointer(source),
                self._pointer(target),
                *(self._pointer(view) for view in weights),
                *(0 if view is None else self._pointer(view) for view in biases),
                *(float32_bits(op.scale) for op in ops),
                *(self._pointer(view) for view in added),
                *bits,
            ],
            [self._region(view) for view in (source, *constants, *added)],
            [self._region(target)],
            accelerator=True,
            host=False,
        )

    def _group_weights(self, op: Convolution) -> View:
        """Weights as the code of a group loads them."""
        weight = self._constant(op.weight)
        if op.groups == 1:
            return weight
        dim = self.accelerator.dim
        elements = diagonal_weights(self._elements(weight)[:, :, 0], dim)
        return self._add_constant(f"{weight.value}.diagonal{dim}", elements)
