"""Softmaxes of blocks: by the unit for functions of rows, where sums of the accumulator leave through it, else by the host core."""

from __future__ import annotations

from xdsl.dialects import arith, func
from xdsl.ir import SSAValue

from baco.compiler.blocks.array import ArrayCode
from baco.compiler.blocks.memory import Accumulated, InMemory
from baco.compiler.blocks.reading import requantised, shape_of
from baco.compiler.blocks.scalars import shifted_right
from baco.compiler.blocks.scratchpad import rows_loadable
from baco.compiler.blocks.state import LoweringState
from baco.compiler.dialects.baco import SoftmaxOp
from baco.compiler.ir.emit import Number
from baco.compiler.row_functions import numerator_parts
from baco.compiler.styles.fused.row_unit import (
    TABLE_BYTES,
    begin_softmax,
    end_function,
    load_table,
    table_words,
)


def place_tables(function: func.FuncOp, state: LoweringState) -> tuple[int, ...]:
    """Give the table of every softmax of a function room where the workspace begins; what that holds when the program begins, in
    words of 64 bits."""
    words: list[int] = []
    for op in function.walk():
        if isinstance(op, SoftmaxOp) and op.scale not in state.tables:
            state.tables[op.scale] = state.workspace.allocate(TABLE_BYTES)
            words += table_words(op.table)
    return tuple(words)


def by_unit(op: SoftmaxOp, state: LoweringState) -> bool:
    """Whether the unit can softmax a block, if its sums are in the accumulator."""
    features = state.accelerator.features
    able = features.row_functions and features.read_small_width and features.accumulator_scale
    found = requantised(op.value)
    return able and op.mask is None and found is not None and state.analysis.in_accumulator(found[0])


def softmax(array: ArrayCode, op: SoftmaxOp, *, loaded: bool) -> InMemory:
    """The softmax of a block, in the workspace.

    Args:
        loaded: the unit needs no other table than this one's, which is loaded where the function begins.
    """
    state = array.state
    unit = by_unit(op, state)
    table = state.e.add(state.workspace.address, state.tables[op.scale])
    if unit and loaded:
        with state.e.at_entry():
            load_table(
                state.e, state.accelerator, state.e.add(state.workspace.address, state.tables[op.scale])
            )
    target = state.temporary(shape_of(op.result), 8)
    if unit and rows_loadable(target):
        _on_its_way(array, op, None if loaded else table, target)
    else:
        _by_host(array, op, table, target)
    return target


def _on_its_way(array: ArrayCode, op: SoftmaxOp, table: Number | None, target: InMemory) -> None:
    """Sums are requantised and softmaxed by the store that brings them to main memory; with a table of their own, or the one that
    is loaded."""
    state, e = array.state, array.state.e
    found, parts = requantised(op.value), numerator_parts(op.numerator)
    assert found is not None
    assert parts is not None
    acc = state.records[found[0]]
    assert isinstance(acc, Accumulated)
    e.fence()
    if table is not None:
        load_table(e, state.accelerator, table)
    begin_softmax(e, *parts)
    array.move_out(acc, target, found[1], relu=False, whole_rows=True)
    end_function(e)
    e.fence()


def _by_host(array: ArrayCode, op: SoftmaxOp, table: Number, target: InMemory) -> None:
    """As `baco.compiler.row_functions.softmax` says, in three passes over each row."""
    e, host = array.state.e, array.host
    source = array.in_main_memory(op.value)
    mask = None if op.mask is None else array.in_main_memory(op.mask)
    *outer, columns = shape_of(op.result)

    def taking_part(at: tuple[Number, ...]) -> SSAValue | bool:
        return True if mask is None else e.compare("ne", e.load(host.address(mask, at), 8), 0)

    with host.section(), host.loops(outer) as row:
        top = e.variable(-128)
        with e.loop(columns) as n, e.when(taking_part((*row, n))):
            top.set(e.max(top.get(), e.load(host.address(source, (*row, n)), 8)))
        largest, total = top.get(), e.variable(0)
        room = array.state.temporary((columns,), 16)
        with e.loop(columns) as n:
            e.store(host.address(room, (n,)), 0, 16)
            with e.when(taking_part((*row, n))):
                below = e.sub(largest, e.load(host.address(source, (*row, n)), 8))
                exponential = e.load(e.add(table, e.mul(below, 2)), 16, signed=False)
                e.store(host.address(room, (n,)), exponential, 16)
                total.set(e.add(total.get(), exponential))
        quotient = arith.DivSIOp(e.value(op.numerator), e.value(e.max(total.get(), 1)))
        inverse = e.min(e.insert(quotient).results[0], 65535)
        with e.loop(columns) as n:
            exponential = e.load(host.address(room, (n,)), 16, signed=False)
            scaled = shifted_right(e, e.add(e.mul(exponential, inverse), 1 << 23), 24)
            e.store(host.address(target, (*row, n)), e.min(scaled, 127), 8)
