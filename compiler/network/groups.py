"""Operators of a network that can run as one unit: products with or without a softmax in between, and convolutions one behind
the other, to whose last result something may be added, whose inner tensors stay on chip; and products that read the same left
operand, which comes once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any, TypeAlias, TypeVar

from baco.accel.config import Accelerator
from baco.common.errors import InputError
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer, Layout
from baco.compiler.layers.operands import Operands
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.layers import convolution_layer, is_image, matmul_layer, pixel_pitch
from baco.compiler.network.partition import best_partition
from baco.compiler.network.row_code import RowCode
from baco.compiler.ops.elementwise import Addition
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import Convolution, MatMul, SumOfRows
from baco.compiler.ops.rows import Softmax
from baco.compiler.ops.views import View
from baco.compiler.styles.fused.adding import AdditionOperands
from baco.compiler.styles.fused.chain import ChainSchedule, ProductChain, place_chain
from baco.compiler.styles.fused.chain_code import emit_chain
from baco.compiler.styles.fused.convolutions import StripOperands, emit_strips
from baco.compiler.styles.fused.merged import (
    MergedProducts,
    MergedSchedule,
    choose_merged,
    emit_merged,
    merged_rows,
    predict_merged,
)
from baco.compiler.styles.fused.predict import UnitCost, choose_chain, predict_chain
from baco.compiler.styles.fused.predict_strips import choose_strips, predict_strips
from baco.compiler.styles.fused.products import ChainOperands
from baco.compiler.styles.fused.row_unit import begin_table, end_function, let_through, load_table, table_rows
from baco.compiler.styles.fused.strips import ConvolutionChain, StripSchedule, place_strips
from baco.workloads.problem import Problem

Group: TypeAlias = ProductChain | ConvolutionChain | MergedProducts
GroupSchedule: TypeAlias = ChainSchedule | StripSchedule | MergedSchedule
#: How a group (named by its operators) is carried out as one unit, and what that saves against its operators one by one, in
#: whatever unit; None: it is none. The code of its softmax goes along.
GroupScheduler: TypeAlias = (
    "Callable[[tuple[str, ...], Group, RowCode | None], tuple[GroupSchedule, float] | None]"
)
#: Convolutions of a group at most.
_MOST_CONVOLUTIONS = 4
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class GroupOperators:
    """Operators that may be one group, in order; each alone reads what the one before wrote, all of it (an addition something else,
    too), or none reads what another one writes.

    Attributes:
        operators: a product, perhaps a softmax, and a product; or convolutions, and perhaps an addition; or products.
        merged: products that all read the same left operand.
    """

    operators: tuple[IntegerOperator, ...]
    merged: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the operators."""
        return tuple(one.name for one in self.operators)

    @property
    def writes(self) -> tuple[IntegerOperator, ...]:
        """The operators whose results the group writes."""
        return self.operators if self.merged else self.operators[-1:]

    @property
    def turn(self) -> str:
        """Name of the operator at whose turn the group is called: the first that writes a result, which others may read next."""
        return self.writes[0].name

    @property
    def softmax(self) -> Softmax | None:
        """The one between two products, if there is one."""
        return next((one for one in self.operators if isinstance(one, Softmax)), None)


@dataclass(frozen=True)
class GroupCode:
    """A function that computes a group.

    Its arguments are, of products: left operand, both right operands, output, table, numerator and shift of a softmax; of
    convolutions: input, output, the weights of all, the biases of all (0 without); of products of one left operand: that one,
    the weights of all, the biases of all (0 without), the outputs of all, a table if any goes through it; then the bits of all
    scales. With an addition to convolutions, the other operand, the identity matrix, and the bits of that operand's and the
    sum's scale follow.
    """

    group: Group
    schedule: GroupSchedule


@dataclass(frozen=True)
class GroupCalls:
    """Batched products as calls of one unit.

    Attributes:
        group: some matrices of the batch.
        offsets: for each call, where left, first right, second right and output begin, in elements from the views' beginnings.
    """

    group: ProductChain
    offsets: tuple[tuple[int, int, int, int], ...]


def groups_of(network: QuantisedNetwork) -> list[list[GroupOperators]]:
    """All operators that may be one group, by the rows of operators that they are a part of; what one list has, no other has."""
    once = network.used_once()
    readers = {view.value: op for op in network.operators for view in op.inputs}

    def only_reader(output: View) -> IntegerOperator | None:
        return readers[output.value] if output.value in once else None

    found: list[list[GroupOperators]] = []
    taken: set[str] = set()
    #: By an addition, the list of what ends with it: either operand may be made in the same unit.
    ending: dict[str, list[GroupOperators]] = {}
    for op in network.operators:
        if op.name in taken or _is_alone(op):
            continue
        if isinstance(op, MatMul):
            row = _products(op, only_reader)
            segments = [GroupOperators(row)] if row else []
        elif isinstance(op, Convolution):
            row = _convolutions(op, only_reader, network)
            segments = [
                GroupOperators(row[start:stop])
                for start, stop in itertools.combinations(range(len(row) + 1), 2)
                if sum(isinstance(operator, Convolution) for operator in row[start:stop])
                <= _MOST_CONVOLUTIONS
                and (stop - start > 1 or _by_channel(row[start]))
            ]
        else:
            continue
        taken |= {operator.name for operator in row if not isinstance(operator, Addition)}
        if row and isinstance(row[-1], Addition):
            if row[-1].name in ending:
                ending[row[-1].name] += segments
                continue
            ending[row[-1].name] = segments
        if segments:
            found.append(segments)
    return found + [[merged] for merged in _merged(network, taken)]


def _merged(network: QuantisedNetwork, taken: Container[str]) -> Iterator[GroupOperators]:
    """Products with constants of the same left operand, those apart that are in other groups already."""
    by_input: dict[View, list[IntegerOperator]] = {}
    for op in network.operators:
        if isinstance(op, SumOfRows) or op.name in taken or _is_alone(op):
            continue
        if isinstance(op, MatMul):
            parameters = [op.right] if op.bias is None else [op.right, op.bias]
            if op.left.value not in network.constants and all(
                one.value in network.constants for one in parameters
            ):
                by_input.setdefault(op.left, []).append(op)
    return (GroupOperators(tuple(row), merged=True) for row in by_input.values() if len(row) > 1)


def _products(
    op: MatMul, only_reader: Callable[[View], IntegerOperator | None]
) -> tuple[IntegerOperator, ...]:
    """The two products that begin with one, and the softmax between; nothing if there are none."""
    row: list[IntegerOperator] = [op]
    behind = only_reader(op.output)
    if isinstance(behind, Softmax) and _alike(behind.input, op.output):
        row.append(behind)
        behind = only_reader(behind.output)
    fits = (
        isinstance(behind, MatMul)
        and not _is_alone(behind)
        and behind.bias is None
        and _alike(behind.left, row[-1].output)
    )
    return (*row, behind) if fits and op.bias is None and behind is not None else ()


def _convolutions(
    op: Convolution, only_reader: Callable[[View], IntegerOperator | None], network: QuantisedNetwork
) -> tuple[IntegerOperator, ...]:
    """The longest row of convolutions that begins with one, and an addition to the last one's result."""
    row: list[IntegerOperator] = []
    following: IntegerOperator | None = op
    while isinstance(following, Convolution) and _plain(following, network):
        if row and not _alike(following.input, row[-1].output):
            break
        row.append(following)
        following = only_reader(following.output)
    last = row[-1] if row else None
    if isinstance(last, Convolution) and isinstance(following, Addition) and added_to(last, following):
        row.append(following)
    return tuple(row)


def added_to(op: Convolution, addition: Addition) -> tuple[View, View, float] | None:
    """What an addition adds to a convolution's result, where the sums go, both as images, and what it scales the former with; None
    where something else is done with the result than adding it as it is."""
    sides = ((addition.left, addition.left_scale), (addition.right, addition.right_scale))
    (result, own), (other, scale) = sides if sides[0][0].value == op.output.value else sides[::-1]
    # the network's order of dimensions may be another one
    axes = sorted(range(len(result.shape)), key=lambda axis: -result.strides[axis])
    if own != 1.0 or result.transposed(axes).collapsed() != op.output.collapsed():
        return None
    residual, target = (one.transposed(axes).reshaped(op.output.shape) for one in (other, addition.output))
    if residual is None or target is None or not is_image(residual):
        return None
    return (residual, target, scale) if pixel_pitch(residual) == pixel_pitch(target) else None


def _is_alone(op: IntegerOperator) -> bool:
    """Whether it is a product of no group: the host core turns its sums into results, or elements are not int8."""
    return isinstance(op, Convolution | MatMul) and (op.scale is None or op.floats is not None)


def _by_channel(op: IntegerOperator) -> bool:
    """Whether a convolution of one channel each gains by the code of a group alone: its weights are made ready by the compiler."""
    return isinstance(op, Convolution) and op.groups > 1


def _plain(op: Convolution, network: QuantisedNetwork) -> bool:
    parameters = [op.weight] if op.bias is None else [op.weight, op.bias]
    return (
        op.pool is None
        and not _is_alone(op)
        and op.dilation == (1, 1)
        and all(one.value in network.constants for one in parameters)
    )


def _alike(one: View, other: View) -> bool:
    """Same elements in the same shape, strides of single elements apart."""
    return one.shape == other.shape and one.collapsed() == other.collapsed()


class GroupRow:
    """Candidates in a row of operators, of which those are to be chosen that share none and gain most together."""

    def __init__(self, candidates: Sequence[GroupOperators]) -> None:
        behind: dict[str, list[str]] = {name: [] for candidate in candidates for name in candidate.names}
        for candidate in candidates:
            for before, name in itertools.pairwise(() if candidate.merged else candidate.names):
                behind[name].append(before)
        order = {name: at for at, name in enumerate(TopologicalSorter(behind).static_order())}
        self._needs = [{order[before] for before in behind[name]} for name in order]
        self._by_place = {
            frozenset(order[name] for name in candidate.names): candidate for candidate in candidates
        }

    def best(self, gains: Mapping[tuple[str, ...], float]) -> list[GroupOperators]:
        """The candidates chosen, in order; `gains` by their names."""
        known = {place: gains[one.names] for place, one in self._by_place.items() if one.names in gains}
        return [self._by_place[place] for place in best_partition(self._needs, known)]


def best_groups(
    candidates: Sequence[GroupOperators], gains: Mapping[tuple[str, ...], float]
) -> list[GroupOperators]:
    """Of the candidates in a row of operators those that share none and gain most together, in order."""
    return GroupRow(candidates).best(gains)


def product_calls(operators: GroupOperators, causal: int | None) -> GroupCalls | None:
    """The unit of products, and how often it is called; None where an operand would have to be copied first, or the products
    fall into calls differently.

    Args:
        causal: of a causal softmax, elements of the first row that take part.
    """
    one, two = operators.operators[0], operators.operators[-1]
    assert isinstance(one, MatMul)
    assert isinstance(two, MatMul)
    first, second = matmul_layer(one), matmul_layer(two)
    if first is None or second is None or len(first.offsets) != len(second.offsets):
        return None
    try:
        chain = ProductChain(first.layer, second.layer, operators.softmax is not None, causal)
    except InputError:
        return None
    return GroupCalls(
        chain,
        tuple((a, b, d, e) for (a, b, _), (_, d, e) in zip(first.offsets, second.offsets, strict=True)),
    )


def convolution_group(operators: GroupOperators) -> ConvolutionChain | None:
    """The unit of convolutions; None where there is none."""
    ops = [one for one in operators.operators if isinstance(one, Convolution)]
    if not is_image(ops[0].input) or not is_image(ops[-1].output):
        return None
    try:
        chain = ConvolutionChain(tuple(convolution_layer(one) for one in ops))
        return replace(chain, addition=_addition_layer(ops[-1], operators.operators[-1]))
    except InputError:
        return None


def merged_group(products: Sequence[MatMul], tables: Sequence[bool]) -> MergedProducts | None:
    """The unit of products of one left operand; None where an operand would have to be copied first."""
    calls = [matmul_layer(one) for one in products]
    found = [one.layer for one in calls if one is not None and len(one.offsets) == 1]
    try:
        return MergedProducts(tuple(found), tuple(tables)) if len(found) == len(products) else None
    except InputError:
        return None


def _addition_layer(last: Convolution, op: IntegerOperator) -> Layer | None:
    """An addition to a convolution's result as a chain has it."""
    found = added_to(last, op) if isinstance(op, Addition) else None
    if found is None:
        return None
    assert isinstance(op, Addition)
    _, target, residual_scale = found
    images, rows, columns, channels = target.shape
    pitch = pixel_pitch(target)
    assert pitch is not None
    return Layer(
        Problem(P=columns, Q=rows, C=1, K=1, N=images, groups=channels),
        residual_scale=residual_scale,
        relu=op.relu,
        scale=op.scale,
        output=Layout(pitch, 1),
    )


def with_scale(group: _Found, scale: float) -> _Found:
    """The group with one scale for all layers: functions take the real ones as arguments."""
    if isinstance(group, MergedProducts):
        return replace(group, layers=tuple(replace(one, scale=scale) for one in group.layers))
    if isinstance(group, ConvolutionChain):
        addition = group.addition
        if addition is not None:
            addition = replace(addition, scale=scale, residual_scale=scale)
        layers = tuple(replace(one, scale=scale) for one in group.layers)
        return replace(group, layers=layers, addition=addition)
    assert isinstance(group, ProductChain)
    return replace(group, first=replace(group.first, scale=scale), second=replace(group.second, scale=scale))


def _strip_rows(
    chain: ConvolutionChain, schedule: StripSchedule, accelerator: Accelerator
) -> tuple[int, int]:
    memory = place_strips(chain, schedule, accelerator)
    return memory.scratchpad_rows, memory.accumulator_rows


def _merged_rows(
    merged: MergedProducts, schedule: MergedSchedule, accelerator: Accelerator
) -> tuple[int, int]:
    predict_merged(merged, schedule, accelerator)
    return merged_rows(merged, schedule, accelerator)


def _chain_rows(chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator) -> tuple[int, int]:
    memory = place_chain(chain, schedule, accelerator)
    return memory.scratchpad_rows, max(memory.accumulator_rows, table_rows(accelerator) * chain.softmax)


def _emit_products(
    name: str, chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator
) -> Emitter:
    softmax = ["table", "numerator", "shift"] if chain.softmax else []
    e = Emitter(name, ["left", "first", "second", "output", *softmax, "first_scale", "second_scale"])
    left, first, second, output, *given = e.arguments
    numbers: Sequence[Number] = (0, 0)
    if softmax:
        load_table(e, accelerator, given[0])
        numbers = given[1:3]
    operands = ChainOperands(left, first, second, output, (given[-2], given[-1]), (numbers[0], numbers[1]))
    emit_chain(e, chain, schedule, accelerator, operands)
    return e


def _emit_convolutions(
    name: str, chain: ConvolutionChain, schedule: StripSchedule, accelerator: Accelerator
) -> Emitter:
    count = len(chain.layers)
    arguments = [f"{kind}{n}" for kind in ("weights", "bias", "scale") for n in range(1, count + 1)]
    added = ["residual", "identity", "residual_scale", "sum_scale"] if chain.addition is not None else []
    e = Emitter(name, ["input", "output", *arguments, *added])
    source, target, *given = e.arguments
    addition = AdditionOperands(*given[3 * count :]) if added else None
    weights, biases, scales = (given[n * count : (n + 1) * count] for n in range(3))
    operands = StripOperands(source, target, tuple(weights), tuple(biases), tuple(scales), addition)
    emit_strips(e, chain, schedule, accelerator, operands)
    return e


def _emit_merged(
    name: str, merged: MergedProducts, schedule: MergedSchedule, accelerator: Accelerator
) -> Emitter:
    count = len(merged.layers)
    arguments = [f"{kind}{n}" for kind in ("weights", "bias", "output") for n in range(1, count + 1)]
    table = ["table"] if any(merged.tables) else []
    e = Emitter(name, ["input", *arguments, *table, *(f"scale{n}" for n in range(1, count + 1))])
    source, *given = e.arguments
    operands = [
        Operands(input=source, weight=weight, bias=bias, output=output)
        for weight, bias, output in zip(
            given[:count], given[count : 2 * count], given[2 * count : 3 * count], strict=True
        )
    ]
    if table:
        begin_table(e, accelerator, given[3 * count])
    emit_merged(e, merged, schedule, accelerator, operands, given[-count:], lambda on: let_through(e, on))
    if table:
        end_function(e)
    return e


@dataclass(frozen=True)
class GroupStyle:
    """A way to run operators as one unit.

    Attributes:
        group, schedule: classes of its groups and of their schedules.
        choose: the best schedule of a group. Raises InfeasibleError where none fits.
        predict: cost of a group under a schedule. Raises InfeasibleError for one that does not fit, as do the next two.
        rows: of scratchpad and accumulator that the code uses.
        emit: the function of that name, not yet finished.
    """

    group: type[Group]
    schedule: type[GroupSchedule]
    choose: Callable[[Any, Accelerator], GroupSchedule]
    predict: Callable[[Any, Any, Accelerator], UnitCost]
    rows: Callable[[Any, Any, Accelerator], tuple[int, int]]
    emit: Callable[[str, Any, Any, Accelerator], Emitter]

    @staticmethod
    def of(group: Group) -> GroupStyle:
        """That of a group."""
        return next(style for style in GROUP_STYLES if style.group is type(group))


GROUP_STYLES = (
    GroupStyle(ProductChain, ChainSchedule, choose_chain, predict_chain, _chain_rows, _emit_products),
    GroupStyle(
        ConvolutionChain, StripSchedule, choose_strips, predict_strips, _strip_rows, _emit_convolutions
    ),
    GroupStyle(MergedProducts, MergedSchedule, choose_merged, predict_merged, _merged_rows, _emit_merged),
)


def predict_group(code: GroupCode, accelerator: Accelerator) -> UnitCost:
    """Predicted cost of a group. Raises InfeasibleError for a schedule that does not fit."""
    return GroupStyle.of(code.group).predict(code.group, code.schedule, accelerator)


def group_rows(code: GroupCode, accelerator: Accelerator) -> dict[str, int]:
    """Rows of the local memories that the code uses. Raises InfeasibleError for a schedule that does not fit."""
    scratchpad, accumulator = GroupStyle.of(code.group).rows(code.group, code.schedule, accelerator)
    return {"scratchpad_rows": scratchpad, "accumulator_rows": accumulator}
