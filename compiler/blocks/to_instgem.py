"""Structured functions to accelerator commands and host code: `linalg`/`tensor`/`memref` -> `instgem`.

Every block of data is somewhere: int8 factors of products in the scratchpad, their sums in the accumulator, the rest in
main memory or nowhere, computed where it is used. Products whose factors are int8 go to the array, with bias and
residual blocks loaded to the accumulator and ReLU and requantisation done on the way out; everything else is a loop of
the host core over elements. Local memories are allocated here, with two copies of what a loop loads anew, so that
loads of the next round overlap products of this one (the hardware orders what overlaps).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith, bufferization, func, memref, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerAttr, MemRefType, TensorType, i64
from xdsl.dialects.linalg.ops import FillOp, GenericOp, MatmulOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.traits import IsTerminator

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.blocks.analysis import Analysis, enclosing_loops
from baco.compiler.blocks.array import ArrayCode
from baco.compiler.blocks.bias import begin_sums_with_addends
from baco.compiler.blocks.disjoint import writes_once
from baco.compiler.blocks.elementwise import floating
from baco.compiler.blocks.host import check_integers
from baco.compiler.blocks.memory import (
    Accumulated,
    Computed,
    Filled,
    InMemory,
    RowAllocator,
    Workspace,
)
from baco.compiler.blocks.pipelining import PipelinedLoad, pipelined_loads
from baco.compiler.blocks.reading import BlockLoad, block_load, mixed, shape_of
from baco.compiler.blocks.scalars import either, is_scalar_operation, scalar_operation, truth
from baco.compiler.blocks.softmax import by_unit, place_tables, softmax
from baco.compiler.blocks.state import Buffering, LoweringState, bytes_of
from baco.compiler.dialects.baco import SoftmaxOp
from baco.compiler.ir.emit import Cell, Emitter, Number
from baco.compiler.ir.known import known
from baco.compiler.ir.location import location_of
from baco.compiler.styles.fused.row_unit import table_rows

#: Attributes of a lowered function: bytes of the workspace whose address is its last argument (absent: none), and rows
#: of the local memories that it uses.
WORKSPACE = "baco.workspace"
#: Words of 64 bits that a workspace begins with (absent: anything).
WORKSPACE_BEGINS = "baco.workspace_begins"
SCRATCHPAD_ROWS = "baco.scratchpad_rows"
ACCUMULATOR_ROWS = "baco.accumulator_rows"

#: Operations on blocks as a whole.
_STATIC = (GenericOp, MatmulOp, FillOp, scf.ForOp, tensor.SplatOp)


def _bufferings(stages: int) -> list[Buffering]:
    """In the order of preference, what overlaps most first; blocks have up to so many stages."""
    ahead = range(stages, 1, -1)
    return [
        *(Buffering(n, 2) for n in ahead),
        *(Buffering(n, 1) for n in ahead),
        Buffering(1, 2),
        Buffering(1, 1),
    ]


def is_structured(function: func.FuncOp) -> bool:
    """A function of block operations on `memref` arguments, which this lowering is for."""
    return bool(function.body.blocks) and any(
        isinstance(kind, MemRefType) for kind in function.function_type.inputs
    )


def function_to_instgem(function: func.FuncOp, accelerator: Accelerator) -> func.FuncOp:
    """The function as accelerator commands: an i64 for each `memref`, and one for the workspace if it needs one.

    Raises InfeasibleError when its blocks exceed a local memory even without double buffering, InputError for an
    operation that cannot be compiled; both name the line.
    """
    _check(function)
    analysis = Analysis(function, accelerator)
    floats = any(isinstance(op, MatmulOp) and floating(op) for op in function.walk())
    if not floats and begin_sums_with_addends(function, analysis):  # floating point has the order of the text
        analysis = Analysis(function, accelerator)
    pipelined = pipelined_loads(function, analysis, accelerator.dim)
    bufferings = _bufferings(max([2, *(one.stages for one in pipelined)]))
    for buffering in bufferings:
        last = buffering is bufferings[-1]
        try:
            lowering = _Lowering(function, accelerator, analysis, pipelined, buffering)
            if lowering.array.loads.needs_crowded or lowering.state.workspace.bytes == 0:
                # now that it is known what the function needs
                lowering = _Lowering(
                    function,
                    accelerator,
                    analysis,
                    pipelined,
                    buffering,
                    workspace=lowering.state.workspace.bytes > 0,
                    crowded=lowering.array.loads.needs_crowded,
                )
        except InfeasibleError:
            if last:
                raise
            continue
        return lowering.result()
    raise AssertionError("the last attempt returns or raises")


def _check(function: func.FuncOp) -> None:
    """What the lowering takes for granted of every operation. Raises InputError, with the line."""
    name = function.sym_name.data
    if len(function.body.blocks) != 1:
        raise InputError(
            f"@{name} has {len(function.body.blocks)} basic blocks, not one", location=location_of(function)
        )
    for op in function.walk():
        if op.dialect_name() == "linalg" and not op.results and not op.has_trait(IsTerminator):
            raise InputError(f"'{op.name}' must work on tensors here", location=location_of(op))
        for value in (*op.operands, *op.results):
            kind = value.type
            if isinstance(kind, TensorType) and isinstance(op, _STATIC) and DYNAMIC_INDEX in kind.get_shape():
                raise InputError(
                    f"'{op.name}' needs blocks of known shape, not {kind}", location=location_of(op)
                )
        if isinstance(op, memref.LoadOp | memref.StoreOp) and len(op.indices) != 1:
            raise InputError(
                "elements are accessed in arguments of one dimension only", location=location_of(op)
            )
        if isinstance(op, memref.LoadOp | memref.StoreOp) and op.memref.owner is not function.body.block:
            raise InputError("elements are accessed in arguments only", location=location_of(op))


@dataclass
class _Carried:
    """One value that a loop carries, while its body is written."""

    cell: Cell | None = None
    home: InMemory | None = None
    region: Accumulated | None = None


class _Lowering:
    """One function."""

    def __init__(
        self,
        function: func.FuncOp,
        accelerator: Accelerator,
        analysis: Analysis,
        pipelined: Sequence[PipelinedLoad],
        buffering: Buffering,
        *,
        workspace: bool = True,
        crowded: bool = False,
    ) -> None:
        block = function.body.block
        names = [argument.name_hint or f"arg{argument.index}" for argument in block.args]
        if workspace:
            names.append("workspace")
        e = Emitter(function.sym_name.data, names)
        # without a workspace its address stands for the entry block only
        self.state = LoweringState(
            e,
            accelerator,
            analysis,
            buffering,
            RowAllocator("scratchpad", accelerator.scratchpad_rows),
            RowAllocator("accumulator", accelerator.accumulator_rows),
            Workspace(e.arguments[-1]),
        )
        for argument, address in zip(block.args, e.arguments, strict=False):
            if isinstance(argument.type, MemRefType):
                self.state.arguments[argument] = address
            else:
                self.state.numbers[argument] = address
        self._begins = place_tables(function, self.state)
        tables = {op.scale for op in function.walk() if isinstance(op, SoftmaxOp) and by_unit(op, self.state)}
        self._single_table = len(tables) == 1
        if len(tables) > 1:
            # they come through the accumulator's first rows, by a load of their own
            self.state.accumulator.allocate(table_rows(accelerator), "a table")
            crowded = True
        self.array = ArrayCode(self.state, pipelined, crowded=crowded)
        self.host = self.array.host
        self._scattering = False
        self._block(block)
        e.fence()
        self._module = e.finish()

    def result(self) -> func.FuncOp:
        """The lowered function, on its own."""
        function = self._module.body.block.first_op
        assert isinstance(function, func.FuncOp)
        function.detach()  # type: ignore[no-untyped-call]
        numbers = {
            SCRATCHPAD_ROWS: self.state.scratchpad.peak,
            ACCUMULATOR_ROWS: self.state.accumulator.peak,
        }
        if self.state.workspace.bytes:
            numbers[WORKSPACE] = self.state.workspace.bytes
        for name, number in numbers.items():
            function.attributes[name] = IntegerAttr(number, i64)
        if self._begins:
            function.attributes[WORKSPACE_BEGINS] = DenseArrayBase.from_list(i64, self._begins)
        return function

    # ---------------------------------------------------------------- operations

    def _block(self, block: Block) -> Operation | None:
        """Every operation; the terminator is returned."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp | func.ReturnOp):
                return op
            self._operation(op)
        return None

    def _operation(self, op: Operation) -> None:
        state = self.state
        if isinstance(op, scf.ForOp):
            self._scatter(op) if self._is_scatter(op) else self._loop(op)
        elif isinstance(op, memref.CopyOp):
            if not isinstance(op.destination.owner, memref.AllocOp):
                self._store(op)
        elif isinstance(op, bufferization.ToTensorOp | tensor.PadOp | tensor.CastOp):
            self._load(op.results[0])
        elif isinstance(op, FillOp | tensor.SplatOp):
            state.records[op.results[0]] = Filled(state.numbers[op.operands[0]], shape_of(op.results[0]))
            self._defined(op.results[0])
        elif isinstance(op, GenericOp):
            self._generic(op)
        elif isinstance(op, MatmulOp):
            self._product(op)
        elif isinstance(op, SoftmaxOp):
            state.records[op.result] = softmax(self.array, op, loaded=self._single_table)
            self._defined(op.result)
        elif isinstance(op, memref.LoadOp):
            with self._apart(op.memref):
                state.numbers[op.res] = self.host.load(op, [state.numbers[index] for index in op.indices])
        elif isinstance(op, memref.StoreOp):
            self._store_element(op)
        elif isinstance(op, tensor.ExtractOp):
            at = tuple(state.numbers[index] for index in op.indices)
            if not self._scattering:
                self.host.prepare(op.tensor)
                with self.host.section():
                    state.numbers[op.result] = self.host.element(op.tensor, at)
            else:
                state.numbers[op.result] = self.host.element(op.tensor, at)
        elif isinstance(op, scf.IfOp) and not op.results:
            with state.e.when(truth(state.e, state.numbers[op.cond])):
                self._block(op.true_region.block)
        elif isinstance(op, scf.IfOp):
            local: dict[SSAValue, Number] = {}
            with self.host.section():
                self.host.body([op], local, ())
            state.numbers.update(local)
        elif is_scalar_operation(op) and not isinstance(op.results[0].type, TensorType):
            self._scalar(op)
        elif not isinstance(
            op,
            memref.AllocOp
            | memref.ReinterpretCastOp
            | tensor.EmptyOp
            | tensor.ExtractSliceOp
            | bufferization.ToBufferOp,
        ):
            raise InputError(f"'{op.name}' cannot be compiled to commands", location=location_of(op))

    def _scalar(self, op: Operation) -> None:
        if isinstance(op, arith.ConstantOp) and not isinstance(op.value, IntegerAttr):
            return
        check_integers(op)
        operands = [self.state.numbers[operand] for operand in op.operands]
        self.state.numbers[op.results[0]] = scalar_operation(self.state.e, op, operands)

    # ---------------------------------------------------------------- blocks

    def _load(self, value: SSAValue) -> None:
        """A block from memory, or a step on the way to one."""
        users = [use.operation for use in value.uses]
        if len(users) == 1 and isinstance(users[0], tensor.PadOp | tensor.CastOp):
            return  # it is a part of the next step
        load = block_load(value)
        if load is None:
            raise InputError(
                "this is no load of a block from a view of an argument", location=location_of(_owner(value))
            )
        self.state.records[value] = self.state.in_memory(load)
        if load.source in self.state.analysis.stored:
            # what is stored later must not be seen by those who use the block then
            with self._apart(load.source):
                self.state.records[value] = self.array.in_main_memory(value)
        self._defined(value)

    def _generic(self, op: GenericOp) -> None:
        if len(op.results) != 1:
            raise InputError("an operation on blocks has one result here", location=location_of(op))
        result = op.results[0]
        if any(kind.data != "parallel" for kind in op.iterator_types) or not _at_identity(op):
            self.state.records[result] = self.host.reduction(op)
            self._defined(result)
            return
        found = self.state.analysis.sum_of(result)
        if found is not None:
            self.state.records[result] = self.array.sum(op, found)
        else:
            self.state.records[result] = Computed(op)
            gathered = {one.memref for one in op.walk() if isinstance(one, memref.LoadOp)}
            if gathered & self.state.analysis.stored:
                self.state.records[result] = self.array.in_main_memory(result)
        self._defined(result)

    def _product(self, op: MatmulOp) -> None:
        found = self.state.analysis.products.get(op)
        if found is None:
            self.state.records[op.results[0]] = self.host.product(op)
        else:
            self.state.records[op.results[0]] = self.array.product(op, found)
        self._defined(op.results[0])

    def _defined(self, value: SSAValue) -> None:
        """A block exists now: if products need it, it is brought to the scratchpad where it is defined."""
        if value in self.state.analysis.factors:
            self.array.loads.place(value)

    # ---------------------------------------------------------------- stores

    def _store(self, op: memref.CopyOp) -> None:
        buffer, view = op.source.owner, op.destination.owner
        if not isinstance(buffer, bufferization.ToBufferOp) or not isinstance(view, memref.ReinterpretCastOp):
            raise InputError("only tensors are stored, to views of arguments", location=location_of(op))
        target = _view_of(view)
        value: SSAValue = buffer.tensor
        first: tuple[Number, ...] = (0,) * len(target.sizes)
        if isinstance(value.owner, tensor.ExtractSliceOp):
            part = value.owner
            first = tuple(map(self.state.number, mixed(part.static_offsets.get_values(), part.offsets)))
            value = part.source
        to = replace(self.state.in_memory(target), shape=shape_of(value))
        with self._apart(target.source, op):
            if any(one != 0 for one in first) or not self.array.drain(value, to):
                self.host.store(value, to, first)

    def _store_element(self, op: memref.StoreOp) -> None:
        e, state = self.state.e, self.state
        size = bytes_of(op.memref)
        (index,) = (state.numbers[one] for one in op.indices)
        address = e.add(state.arguments[op.memref], e.mul(index, size))
        bits = {1: 8, 2: 16, 4: 32, 8: 64}[size]
        if self._scattering:
            e.store(address, state.numbers[op.value], bits)  # type: ignore[arg-type]
            return
        with self.host.section():
            e.store(address, state.numbers[op.value], bits)  # type: ignore[arg-type]

    def _apart(self, argument: SSAValue, store: Operation | None = None) -> _Apart:
        """Order an access against the others to the same argument: between fences if they may touch."""
        analysis = self.state.analysis
        if store is None:
            return _Apart(self.state.e, argument in analysis.stored, argument in analysis.stored)
        both = argument in analysis.read
        return _Apart(self.state.e, both, both or not self._alone(argument, store))

    def _alone(self, argument: SSAValue, store: Operation) -> bool:
        """The only store to the argument, and to another place in every round of the loops around it."""
        views = [
            use.operation
            for use in argument.uses
            if isinstance(use.operation, memref.ReinterpretCastOp | memref.StoreOp)
        ]
        if len(views) != 1 or not isinstance(views[0], memref.ReinterpretCastOp):
            return False
        if not views[0].result.has_one_use():
            return False
        return writes_once(views[0], list(enclosing_loops(store)))

    # ---------------------------------------------------------------- loops

    def _loop(self, op: scf.ForOp) -> None:
        state, e = self.state, self.state.e
        carried = [self._enter(op, position) for position in range(len(op.iter_args))]
        lower, upper = state.numbers[op.lb], state.numbers[op.ub]
        step = known(op.step)
        self.array.loads.pipeline.enter(op)
        if step is None:
            distance = e.max(e.sub(upper, lower), 0)
            each = state.numbers[op.step]
            rounds = e.insert(arith.DivSIOp(e.value(e.add(distance, each, -1)), e.value(each))).results[0]
            with e.loop(rounds, hint="round") as number, state.scope():
                self._round(op, carried, e.add(lower, e.mul(number, each)), e.compare("sgt", number, 0))
        else:
            with (
                e.loop(upper, lower, step, hint=op.body.block.args[0].name_hint or "i") as iteration,
                state.scope(),
            ):
                self._round(op, carried, iteration, e.compare("sgt", iteration, lower))
        for result, one in zip(op.results, carried, strict=True):
            if one.cell is not None:
                state.numbers[result] = one.cell.get()
            elif one.region is not None:
                state.records[result] = replace(one.region, started=True)
                self._defined(result)
            else:
                assert one.home is not None
                state.records[result] = one.home
                self._defined(result)

    def _enter(self, op: scf.ForOp, position: int) -> _Carried:
        """What a value is carried in, holding its start."""
        initial = op.iter_args[position]
        if not isinstance(initial.type, TensorType):
            return _Carried(cell=self.state.e.variable(self.state.numbers[initial]))
        if self.state.analysis.carried(op, position):
            results = (op.body.block.args[1 + position], op.results[position])
            return _Carried(region=self.array.region(initial, op, results))
        return _Carried(home=self.array.in_main_memory(initial))

    def _round(
        self, op: scf.ForOp, carried: Sequence[_Carried], iteration: Number, later: bool | SSAValue
    ) -> None:
        """The body of a loop; `later`: this is not its first round."""
        state = self.state
        arguments = op.body.block.args
        state.numbers[arguments[0]] = iteration
        self.array.loads.pipeline.begin(op)
        for argument, carry in zip(arguments[1:], carried, strict=True):
            if carry.cell is not None:
                state.numbers[argument] = carry.cell.get()
            elif carry.region is not None:
                state.records[argument] = replace(
                    carry.region, started=either(state.e, carry.region.started, later)
                )
            else:
                assert carry.home is not None
                state.records[argument] = carry.home
                self._defined(argument)
        last = self._block(op.body.block)
        assert last is not None
        self.array.loads.pipeline.end(op)
        moves = []
        for operand, carry in zip(last.operands, carried, strict=True):
            if carry.cell is not None:
                moves.append((carry.cell, state.numbers[operand]))
            elif carry.region is not None:
                record = state.records[operand]
                assert isinstance(record, Accumulated)
                assert record.base is carry.region.base or record.base == carry.region.base
        homes = [
            (carry.home, self.array.in_main_memory(operand))
            for operand, argument, carry in zip(last.operands, arguments[1:], carried, strict=True)
            if carry.home is not None and operand is not argument
        ]
        for cell, number in moves:
            cell.set(number)
        for home, after in homes:
            self._copy(after, home)

    def _copy(self, source: InMemory, target: InMemory) -> None:
        e, host = self.state.e, self.host
        bits = {8: 8, 16: 16, 32: 32}.get(source.bits, 64)
        with host.section(), host.loops(source.shape) as at:
            number = e.load(host.address(source, at), bits)  # type: ignore[arg-type]
            e.store(host.address(target, at), number, bits)  # type: ignore[arg-type]

    def _is_scatter(self, op: scf.ForOp) -> bool:
        """A nest of loops that stores elements of blocks one by one."""
        return (
            not self._scattering
            and any(isinstance(one, memref.StoreOp | tensor.ExtractOp) for one in op.body.block.walk())
            and not any(
                isinstance(one, memref.CopyOp | GenericOp | MatmulOp | FillOp) for one in op.body.block.walk()
            )
        )

    def _scatter(self, op: scf.ForOp) -> None:
        for one in op.walk():
            if isinstance(one, tensor.ExtractOp):
                self.host.prepare(one.tensor)
        self._scattering = True
        with self.host.section():
            self._loop(op)
        self._scattering = False


class _Apart:
    """Fences before and after what is written inside."""

    def __init__(self, e: Emitter, before: bool, after: bool) -> None:
        self._e, self._before, self._after = e, before, after

    def __enter__(self) -> None:
        if self._before:
            self._e.fence()

    def __exit__(self, *_: object) -> None:
        if self._after:
            self._e.fence()


def _view_of(view: memref.ReinterpretCastOp) -> BlockLoad:
    """A view of an argument as a place in memory."""
    assert isinstance(view.source.type, MemRefType)
    sizes = mixed(view.static_sizes.get_values(), view.sizes)
    return BlockLoad(
        view.source,
        mixed(view.static_offsets.get_values(), view.offsets)[0],
        mixed(view.static_strides.get_values(), view.strides),
        sizes,
        (0,) * len(sizes),
        (),
        0,
        8 * bytes_of(view.source),
    )


def _owner(value: SSAValue) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()


def _at_identity(op: GenericOp) -> bool:
    """The result is accessed at the iteration's own indices."""
    results = op.indexing_maps.data[-1].data.results
    return all(
        isinstance(index, AffineDimExpr) and index.position == dim for dim, index in enumerate(results)
    )
