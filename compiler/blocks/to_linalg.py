"""Block programs to structured operations: `baco` -> `linalg`/`tensor` values and strided `memref` accesses.

Pointers become `memref` arguments; a block of pointers with a base and a stride in every dimension becomes a strided
view (`memref.reinterpret_cast`) of the part of the block that lies inside the array. A load copies the view
(`memref.copy`) to a fresh buffer, takes it as a tensor and pads that to the block's shape (`tensor.pad`); a store copies
the part of the tensor to the view. The arithmetic that computed the blocks of pointers disappears. Accesses
that are not strided or whose masks are no windows become gathers and scatters, element by element. The grid becomes
loops around the body.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    i32,
)
from xdsl.dialects.linalg.ops import FillOp, MatmulOp
from xdsl.dialects.tensor import EmptyOp, SplatOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from baco.common.errors import InputError
from baco.compiler.blocks.accesses import (
    element_of,
    elementwise_sum,
    guarded_load,
    materialise,
    materialise_window,
    scatter,
    strided_load,
    strided_store,
    whole_mask,
)
from baco.compiler.blocks.elementwise import (
    Insert,
    cast,
    generic,
    identity,
    integer,
    marked,
    reduction,
    scalar,
    signless,
    spread,
)
from baco.compiler.blocks.indexing import IndexBuilder, Number
from baco.compiler.blocks.loops import LoopConversion
from baco.compiler.blocks.offset_arithmetic import offset_arithmetic
from baco.compiler.blocks.pointers import BlockWindow, Meaning, Pointers, StridedOffsets
from baco.compiler.dialects import baco
from baco.compiler.ir.known import known
from baco.compiler.ir.location import location_of

_index = IndexType()


def kernel_to_linalg(kernel: func.FuncOp) -> func.FuncOp:
    """The structured form of a kernel: same name, a `memref` for each pointer.

    Raises InputError, with the line, for a kernel without `baco.grid` and `baco.sizes` or an operation that block
    programs do not have.
    """
    grid = kernel.attributes.get(baco.GRID)
    sizes = kernel.attributes.get(baco.SIZES)
    if not isinstance(grid, DenseArrayBase) or not isinstance(sizes, DenseArrayBase):
        raise InputError(
            f"function '{kernel.sym_name.data}' is no kernel: it lacks {baco.GRID} or {baco.SIZES}",
            location=location_of(kernel),
        )
    if len(kernel.body.blocks) != 1:
        raise InputError(
            f"kernel '{kernel.sym_name.data}' has {len(kernel.body.blocks)} basic blocks, not one",
            location=location_of(kernel),
        )
    if len(sizes) != len(kernel.body.block.args):
        raise InputError(
            f"kernel '{kernel.sym_name.data}' has {len(kernel.body.block.args)} arguments, but {baco.SIZES} lists"
            f" {len(sizes)}",
            location=location_of(kernel),
        )
    types: list[Attribute] = []
    for argument, size in zip(kernel.body.block.args, sizes.get_values(), strict=True):
        if not isinstance(argument.type, baco.PointerType):
            raise InputError(
                f"argument {argument.index} of kernel '{kernel.sym_name.data}' is a {argument.type}, not a pointer",
                location=location_of(kernel),
            )
        types.append(MemRefType(signless(argument.type.pointee), [int(size)]))
    body = Block(arg_types=types)
    build = IndexBuilder(body)
    build.location = kernel.location
    meanings: dict[SSAValue, Meaning] = {}
    for old, new in zip(kernel.body.block.args, body.args, strict=True):
        new.name_hint = old.name_hint
        meanings[old] = Pointers(new, StridedOffsets(0))
    converter = _Converter(meanings)
    _grid_loops(build, [int(count) for count in grid.get_values()], converter, kernel.body.block)
    build.insert(func.ReturnOp())
    result = func.FuncOp(kernel.sym_name.data, FunctionType.from_lists(types, []), Region(body))
    result.location = kernel.location
    return result


def _grid_loops(build: IndexBuilder, grid: Sequence[int], converter: _Converter, body: Block) -> None:
    """The body once for each program; axis 0 is the innermost loop."""
    if not grid:
        converter.block(body, build)
        return
    axis = len(grid) - 1
    if grid[axis] == 1:
        converter.program_ids[axis] = 0
        _grid_loops(build, grid[:-1], converter, body)
        return
    inner = Block(arg_types=[_index])
    inner.args[0].name_hint = f"pid{axis}"
    first, last, step = build.value(0), build.value(grid[axis]), build.value(1)
    build.insert(scf.ForOp(first, last, step, [], Region(inner)))
    converter.program_ids[axis] = inner.args[0]
    inside = build.at(inner)
    _grid_loops(inside, grid[:-1], converter, body)
    inside.insert(scf.YieldOp())


class _Converter:
    """Converts blocks of operations; what each old value means is in `meanings`."""

    def __init__(self, meanings: dict[SSAValue, Meaning]) -> None:
        self.meanings = meanings
        self.program_ids: dict[int, Number] = {}

    # ---------------------------------------------------------------- values

    def value(self, old: SSAValue, build: IndexBuilder) -> SSAValue:
        """The value of an old one, computed from what the analysis knows if need be."""
        meaning = self.meanings[old]
        if isinstance(meaning, StridedOffsets):
            return materialise(meaning, build)
        if isinstance(meaning, BlockWindow):
            return materialise_window(meaning, build)
        if isinstance(meaning, Pointers):
            raise AssertionError("a pointer is no value")
        return meaning

    def number(self, old: SSAValue, build: IndexBuilder) -> Number:
        """An old index scalar as a number."""
        meaning = self.meanings[old]
        if isinstance(meaning, StridedOffsets):
            return meaning.base
        assert isinstance(meaning, SSAValue)
        return build.number(meaning)

    # ---------------------------------------------------------------- operations

    def block(self, old: Block, build: IndexBuilder) -> Operation | None:
        """Convert every operation but the terminator, which is returned."""
        for op in old.ops:
            build.location = op.location
            if isinstance(op, scf.YieldOp | func.ReturnOp):
                return op
            self._convert(op, build)
        return None

    def _convert(self, op: Operation, build: IndexBuilder) -> None:
        if isinstance(op, scf.ForOp):
            LoopConversion(self, op).convert(build)
        elif isinstance(op, baco.LoadOp):
            self.meanings[op.result] = self._load(op, build)
        elif isinstance(op, baco.StoreOp):
            self._store(op, build)
        elif isinstance(op, baco.DotOp):
            if not _accumulates_elsewhere(op):
                self.meanings[op.result] = self._dot(op, op.accumulator, build)
        elif isinstance(op, baco.AddOp) and (product := baco.accumulating_product(op)) is not None:
            total = op.rhs if op.lhs is product.result else op.lhs
            self.meanings[op.result] = self._dot(product, total, build)
        elif op.regions or len(op.results) != 1:
            raise InputError(f"block programs have no operation '{op.name}'", location=location_of(op))
        else:
            meaning = self._structured(op, build)
            if meaning is None:
                meaning = self._data(op, build)
            self.meanings[op.results[0]] = meaning

    def _structured(self, op: Operation, build: IndexBuilder) -> Meaning | None:
        """What the pointer analysis makes of an operation; None if it is data."""
        if isinstance(op, baco.ProgramIdOp):
            return StridedOffsets(self.program_ids[op.axis.value.data])
        if isinstance(op, baco.ArangeOp):
            start, end = op.start.value.data, op.end.value.data
            return StridedOffsets(start, (1 if end - start > 1 else 0,), (end - start,))
        if isinstance(op, arith.ConstantOp) and isinstance(op.result.type, IndexType):
            assert isinstance(op.value, IntegerAttr)
            return StridedOffsets(op.value.value.data)
        operands = [self.meanings[operand] for operand in op.operands]
        if isinstance(op, baco.AddPtrOp):
            pointers, offsets = operands
            assert isinstance(pointers, Pointers)
            if isinstance(offsets, StridedOffsets) and isinstance(pointers.offsets, StridedOffsets):
                return Pointers(pointers.argument, pointers.offsets.plus(offsets, build))
            base = pointers.offsets
            old = materialise(base, build) if isinstance(base, StridedOffsets) else base
            moved = elementwise_sum(old, self.value(op.offset, build), build)
            return Pointers(pointers.argument, moved)
        if isinstance(op, baco.SplatOp | baco.ExpandDimsOp | baco.BroadcastOp | baco.TransOp):
            return self._reshaped(op, operands[0], build)
        if all(isinstance(operand, StridedOffsets) for operand in operands):
            return offset_arithmetic(op, [o for o in operands if isinstance(o, StridedOffsets)], build)
        if isinstance(op, baco.AndOp) and all(isinstance(operand, BlockWindow) for operand in operands):
            first, second = (o for o in operands if isinstance(o, BlockWindow))
            return first.meet(second, build)
        return None

    def _reshaped(self, op: Operation, source: Meaning, build: IndexBuilder) -> Meaning | None:
        if isinstance(source, Pointers):
            if isinstance(source.offsets, StridedOffsets):
                moved = self._reshaped(op, source.offsets, build)
                assert isinstance(moved, StridedOffsets)
                return Pointers(source.argument, moved)
            return Pointers(source.argument, self._reshaped_data(op, source.offsets, build))
        if isinstance(source, StridedOffsets):
            shape = baco.shape_of(op.results[0].type)
            if isinstance(op, baco.SplatOp):
                return StridedOffsets(source.base, (0,) * len(shape), shape)
            if isinstance(op, baco.ExpandDimsOp):
                return source.expanded(op.axis.value.data)
            if isinstance(op, baco.TransOp):
                return source.permuted([int(d) for d in op.permutation.get_values()])
            return source.broadcast(shape)
        if isinstance(source, BlockWindow):
            if isinstance(op, baco.ExpandDimsOp):
                return source.expanded(op.axis.value.data)
            if isinstance(op, baco.TransOp):
                return source.permuted([int(d) for d in op.permutation.get_values()])
            return source.broadcast(baco.shape_of(op.results[0].type), build)
        return self._reshaped_data(op, source, build)

    def _reshaped_data(self, op: Operation, source: SSAValue, build: IndexBuilder) -> SSAValue:
        result = op.results[0].type
        shape = baco.shape_of(result)
        if isinstance(op, baco.SplatOp):
            element = source.type
            number = known(source)
            if number is not None and isinstance(element, IntegerType):
                out = build.insert(EmptyOp((), TensorType(element, shape)))
                return build.insert(FillOp([source], [out]))
            return build.insert(SplatOp(source, [], TensorType(element, shape)))
        assert isinstance(source.type, TensorType)
        before = source.type.get_shape()
        if isinstance(op, baco.ExpandDimsOp):
            dims = [d for d in range(len(shape)) if d != op.axis.value.data]
        elif isinstance(op, baco.TransOp):
            order = [int(d) for d in op.permutation.get_values()]
            dims = [order.index(d) for d in range(len(order))]
        else:
            dims = list(range(len(shape)))
        indexing = spread(before, dims, len(shape))
        return generic(
            build, [(source, indexing)], shape, source.type.element_type, lambda args, insert: args[0]
        )

    def _data(self, op: Operation, build: IndexBuilder) -> SSAValue:
        """An operation on data, scalars or blocks."""
        operands = [self.value(operand, build) for operand in op.operands]
        if isinstance(op, baco.ReduceOp):
            return reduction(op, operands[0], build)
        shape = baco.shape_of(op.results[0].type)
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
            return integer(0, signless(op.result.type), build.insert)  # the one constant of floating point
        if not shape:
            made = scalar(op, operands, build.insert)
            if made is None:
                if op.dialect_name() != "arith":
                    raise InputError(
                        f"block programs have no operation '{op.name}'", location=location_of(op)
                    )
                types = [signless(result.type) for result in op.results]
                copy = type(op).create(
                    operands=operands,
                    result_types=types,
                    properties=op.properties,
                    attributes=op.attributes,
                )
                if isinstance(copy, arith.ConstantOp) and isinstance(copy.value, IntegerAttr):
                    return integer(copy.value.value.data, types[0], build.insert)
                made = build.insert(copy)
            return made
        if isinstance(op, baco.SoftmaxOp):
            scales = op.scale.value.data, op.out_scale.value.data
            return build.insert(baco.SoftmaxOp(operands[0], *scales, operands[1] if op.mask else None))
        if op.dialect_name() != "baco":
            raise InputError(
                f"block programs have no operation '{op.name}' on blocks", location=location_of(op)
            )
        inputs = [(operand, identity(len(shape))) for operand in operands]
        element = signless(baco.element_type(op.results[0].type))

        def body(args: Sequence[SSAValue], insert: Insert) -> SSAValue:
            made = scalar(op, args, insert)
            if made is None:
                raise InputError(f"block programs have no operation '{op.name}'", location=location_of(op))
            return made

        return generic(build, inputs, shape, element, body)

    def _dot(self, op: baco.DotOp, accumulator: SSAValue | None, build: IndexBuilder) -> SSAValue:
        factors = []
        for operand in (op.a, op.b):
            factors.append(_widened(self.value(operand, build), operand, build))
        if accumulator is None:
            zero = integer(0, i32, build.insert)
            out = build.insert(EmptyOp((), TensorType(i32, baco.shape_of(op.result.type))))
            total = build.insert(FillOp([zero], [out]))
        else:
            total = self.value(accumulator, build)
        return marked(build.insert, op.a)(MatmulOp(factors, [total]))

    # ---------------------------------------------------------------- memory

    def _window(
        self, op: baco.LoadOp | baco.StoreOp, build: IndexBuilder
    ) -> tuple[BlockWindow, SSAValue | None]:
        """The part of the block that is in memory, and a mask for what the window does not say."""
        shape = baco.shape_of(op.pointer.type)
        low = tuple(self.number(bound, build) for bound in op.low) or (0,) * len(shape)
        high = tuple(self.number(bound, build) for bound in op.high) or tuple(shape)
        window = BlockWindow(shape, low, high)
        if op.mask is None:
            return window, None
        mask = self.meanings[op.mask]
        if isinstance(mask, BlockWindow):
            return window.meet(mask, build), None
        return window, self.value(op.mask, build)

    def _load(self, op: baco.LoadOp, build: IndexBuilder) -> SSAValue:
        pointers = self.meanings[op.pointer]
        assert isinstance(pointers, Pointers)
        shape = baco.shape_of(op.pointer.type)
        window, mask = self._window(op, build)
        offsets = pointers.offsets
        if shape and mask is None and isinstance(offsets, StridedOffsets):
            return strided_load(pointers.argument, offsets, window, op.other_value, build)
        argument = pointers.argument
        element = element_of(argument)
        where = materialise(offsets, build) if isinstance(offsets, StridedOffsets) else offsets
        if not shape:
            if mask is None:
                return build.insert(memref.LoadOp.get(argument, [where]))
            return guarded_load(argument, where, mask, op.other_value, build.insert)
        condition = whole_mask(window, mask, build)
        inputs = [(where, identity(len(shape)))]
        if condition is not None:
            inputs.append((condition, identity(len(shape))))

        def body(args: Sequence[SSAValue], insert: Insert) -> SSAValue:
            if len(args) == 1:
                return insert(memref.LoadOp.get(argument, [args[0]]))
            return guarded_load(argument, args[0], args[1], op.other_value, insert)

        return generic(build, inputs, shape, element, body)

    def _store(self, op: baco.StoreOp, build: IndexBuilder) -> None:
        pointers = self.meanings[op.pointer]
        assert isinstance(pointers, Pointers)
        shape = baco.shape_of(op.pointer.type)
        window, mask = self._window(op, build)
        value = self.value(op.value, build)
        offsets = pointers.offsets
        if shape and mask is None and isinstance(offsets, StridedOffsets):
            strided_store(pointers.argument, offsets, window, value, build)
            return
        where = materialise(offsets, build) if isinstance(offsets, StridedOffsets) else offsets
        condition = whole_mask(window, mask, build) if shape else mask
        scatter(pointers.argument, where, condition, value, shape, build)


def _accumulates_elsewhere(op: baco.DotOp) -> bool:
    """The product is computed where it is added to something."""
    return op.result.has_one_use() and any(
        baco.accumulating_product(use.operation) is op for use in op.result.uses
    )


def _widened(block: SSAValue, factor: SSAValue, build: IndexBuilder) -> SSAValue:
    """A factor of a product, a value of the `baco` level, in i32."""
    assert isinstance(block.type, TensorType)
    unsigned = baco.element_type(factor.type) == baco.ui8

    def body(args: Sequence[SSAValue], insert: Insert) -> SSAValue:
        return cast(args[0], unsigned, i32, marked(insert, factor))

    return generic(build, [(block, identity(2))], block.type.get_shape(), i32, body)
