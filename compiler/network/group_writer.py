"""Writes the calls of operators that run as one unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.compiler.network.addition import identity
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import (
    Group,
    GroupCalls,
    GroupCode,
    GroupOperators,
    GroupScheduler,
    added_to,
    best_groups,
    convolution_group,
    groups_of,
    merged_group,
    product_calls,
    with_scale,
)
from baco.compiler.network.lowered import ANY_SCALE
from baco.compiler.network.row_code import RowCode, plan_softmax
from baco.compiler.network.step_writer import StepWriter
from baco.compiler.network.way_out import through
from baco.compiler.ops.elementwise import Addition, Map
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.views import View
from baco.compiler.row_functions import numerator_parts
from baco.compiler.styles.fused.convolutions import diagonal_weights


@dataclass(frozen=True)
class _Planned:
    """A group that runs as one unit; its calls, of a chain of products; or its products as they are called, and
    the tables behind them, of merged ones."""

    operators: GroupOperators
    code: GroupCode
    calls: GroupCalls | None
    products: tuple[MatMul, ...] = ()
    tables: tuple[Map | None, ...] = ()


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
        #: By the operator at whose turn they are called; the others are computed along with it.
        self._groups: dict[str, _Planned] = {}
        self._inner: set[str] = set()

    def _plan_groups(self, tables: Mapping[str, Map]) -> None:
        """Decide which operators run as one unit.

        Args:
            tables: that results go through on their way out, by operator; such operators run in no other groups than those of
                products of one left operand.
        """
        if self._group_schedule is None:
            return
        for row in groups_of(self.network):
            planned: dict[tuple[str, ...], _Planned] = {}
            gains: dict[tuple[str, ...], float] = {}
            for candidate in row:
                if candidate.merged:
                    plan = self._planned_merged(candidate, tables)
                else:
                    plan = (
                        None if any(name in tables for name in candidate.names) else self._planned(candidate)
                    )
                if plan is not None:
                    planned[candidate.names], gains[candidate.names] = plan
            for candidate in best_groups(row, gains):
                self._groups[candidate.turn] = planned[candidate.names]
                self._inner.update(name for name in candidate.names if name != candidate.turn)

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

    def _planned_merged(
        self, one: GroupOperators, tables: Mapping[str, Map]
    ) -> tuple[_Planned, float] | None:
        """As `_planned`, of products of one left operand."""
        assert self._group_schedule is not None
        behind = tuple(tables.get(name) for name in one.names)
        if len({table.table for table in behind if table is not None}) > 1:
            return None
        products: list[MatMul] = []
        for op, table in zip(one.operators, behind, strict=True):
            assert isinstance(op, MatMul)
            target = op.output if table is None else through(op, table)
            assert target is not None
            bias = None if op.bias is None else self._constant(op.bias)
            products.append(replace(op, right=self._with_aligned_rows(op.right), bias=bias, output=target))
        group = merged_group(products, [table is not None for table in behind])
        if group is None:
            return None
        group = with_scale(group, ANY_SCALE)
        found = self._group_schedule(one.names, group, None)
        if found is None:
            return None
        return _Planned(one, GroupCode(group, found[0]), None, tuple(products), behind), found[1]

    def _call_group(self, turn: str) -> tuple[IntegerOperator, ...]:
        """Append the calls of a group; the operators whose results it writes."""
        planned = self._groups[turn]
        one, code = planned.operators, planned.code
        self._operator = turn
        where = "" if one.merged else "on chip, "
        for inner in one.names:
            if inner != turn:
                self.result.reasons[inner] = f"{where}in one unit with {turn}"
        name = self._named("group", code, self.result.groups)
        self.result.units[one.names] = name
        if planned.products:
            self._call_merged(name, planned)
        elif planned.calls is not None:
            self._call_products(name, one, planned.calls)
        else:
            self._call_convolutions(name, one)
        return one.writes

    def _call_merged(self, name: str, planned: _Planned) -> None:
        products = planned.products
        behind = planned.tables
        self._operator, *also = (
            product.name if table is None else table.name
            for product, table in zip(products, behind, strict=True)
        )
        tables = [self._packed(table) for table in behind if table is not None][:1]
        left, outputs = products[0].left, [product.output for product in products]
        weights = [product.right for product in products]
        biases = [product.bias for product in products]
        self._step(
            name,
            [
                self._pointer(left),
                *(self._pointer(view) for view in weights),
                *(0 if view is None else self._pointer(view) for view in biases),
                *(self._pointer(view) for view in (*outputs, *tables)),
                *(_scale_bits(product) for product in products),
            ],
            [self._region(view) for view in (left, *weights, *biases, *tables) if view is not None],
            [self._region(view) for view in outputs],
            accelerator=True,
            host=False,
            also=also,
        )

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
                    *(_scale_bits(op) for op in (first, second)),
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
                *(_scale_bits(op) for op in ops),
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


def _scale_bits(op: MatMul | Convolution) -> int:
    assert op.scale is not None, "what leaves sums is in no group"
    return float32_bits(op.scale)
