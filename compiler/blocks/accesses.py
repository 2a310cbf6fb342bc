"""Offsets and masks as values, and accesses to arrays through them: strided views, gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.bufferization import ToBufferOp, ToTensorOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    TensorType,
    i1,
)
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.dialects.tensor import CastOp, ExtractOp, ExtractSliceOp, PadOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue

from baco.compiler.blocks.elementwise import Insert, generic, identity, integer
from baco.compiler.blocks.indexing import IndexBuilder, Number
from baco.compiler.blocks.pointers import BlockWindow, StridedOffsets
from baco.compiler.ir.known import known

_index = IndexType()


def materialise(offsets: StridedOffsets, build: IndexBuilder) -> SSAValue:
    """The offsets as a value: an index, or a block of them."""
    if not offsets.shape:
        return build.value(offsets.base)
    base = build.value(offsets.base)
    strides = [build.value(stride) for stride in offsets.strides]

    def body(args: Sequence[SSAValue], insert: Insert) -> SSAValue:
        total = base
        for dim, stride in enumerate(strides):
            if known(stride) == 0:
                continue
            step = insert(arith.MuliOp(insert(IndexOp(dim)), stride))
            total = insert(arith.AddiOp(total, step))
        return total

    return generic(build, [], offsets.shape, _index, body)


def materialise_window(window: BlockWindow, build: IndexBuilder) -> SSAValue:
    """The window as a block of i1."""
    low = [build.value(bound) for bound in window.low]
    high = [build.value(bound) for bound in window.high]

    def body(args: Sequence[SSAValue], insert: Insert) -> SSAValue:
        inside = insert(arith.ConstantOp(IntegerAttr(1, i1)))
        for dim in range(len(window.shape)):
            at = insert(IndexOp(dim))
            for how, bound in (("sge", low[dim]), ("slt", high[dim])):
                inside = insert(arith.AndIOp(inside, insert(arith.CmpiOp(at, bound, how))))
        return inside

    return generic(build, [], window.shape, i1, body)


def elementwise_sum(a: SSAValue, b: SSAValue, build: IndexBuilder) -> SSAValue:
    if not isinstance(a.type, TensorType):
        return build.insert(arith.AddiOp(a, b))
    shape = a.type.get_shape()
    inputs = [(a, identity(len(shape))), (b, identity(len(shape)))]
    return generic(build, inputs, shape, _index, lambda args, insert: insert(arith.AddiOp(args[0], args[1])))


def element_of(argument: SSAValue) -> Attribute:
    assert isinstance(argument.type, MemRefType)
    element: Attribute = argument.type.element_type
    return element


def _view(
    argument: SSAValue, offsets: StridedOffsets, window: BlockWindow, build: IndexBuilder
) -> tuple[SSAValue, list[Number]]:
    """The part of an array inside the window of a block of pointers, and its sizes."""
    base = offsets.base
    sizes = []
    for low, high, stride in zip(window.low, window.high, offsets.strides, strict=True):
        base = build.add(base, build.mul(low, stride))
        sizes.append(build.max(build.sub(high, low), 0))
    static = [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]
    strides = [stride if isinstance(stride, int) else NoneAttr() for stride in offsets.strides]
    layout = StridedLayoutAttr(strides, base if isinstance(base, int) else None)
    result = MemRefType(element_of(argument), static, layout)
    view = memref.ReinterpretCastOp.from_dynamic(argument, [base], sizes, list(offsets.strides), result)
    return build.insert(view), sizes


def _copied_in(view: SSAValue, sizes: Sequence[Number], build: IndexBuilder) -> SSAValue:
    """What a view holds now, as a tensor."""
    dynamic = [size for size in sizes if isinstance(size, SSAValue)]
    static = [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]
    assert isinstance(view.type, MemRefType)
    local = build.insert(memref.AllocOp.get(view.type.element_type, None, static, dynamic))
    build.insert(memref.CopyOp(view, local))
    return build.insert(ToTensorOp(local, restrict=True))


def strided_load(
    argument: SSAValue, offsets: StridedOffsets, window: BlockWindow, other: int, build: IndexBuilder
) -> SSAValue:
    view, sizes = _view(argument, offsets, window, build)
    loaded = _copied_in(view, sizes, build)
    if sizes == list(window.shape):
        return loaded
    element = element_of(argument)
    assert isinstance(element, IntegerType)
    low: list[Number] = []
    high: list[Number] = []
    for extent, first, size in zip(window.shape, window.low, sizes, strict=True):
        # an empty window may begin behind the block's end
        first = build.min(first, build.sub(extent, size))
        low.append(first)
        high.append(build.sub(build.sub(extent, size), first))
    inside = Block(arg_types=[_index] * len(sizes))
    pad = build.at(inside)
    bits = other if other < 1 << (element.width.data - 1) else other - (1 << element.width.data)
    pad.insert(YieldOp(integer(bits, element, pad.insert)))
    # a padded dimension of unknown size has unknown padding, and the result's size is asserted by its type
    dynamic = [isinstance(size, SSAValue) for size in sizes]
    loose = TensorType(
        element, [DYNAMIC_INDEX if d else s for d, s in zip(dynamic, window.shape, strict=True)]
    )
    padded = build.insert(
        PadOp(
            loaded,
            [amount for amount in low if isinstance(amount, SSAValue)],
            [amount for amount in high if isinstance(amount, SSAValue)],
            Region(inside),
            [amount if isinstance(amount, int) else DYNAMIC_INDEX for amount in low],
            [amount if isinstance(amount, int) else DYNAMIC_INDEX for amount in high],
            loose,
        )
    )
    whole = TensorType(element, window.shape)
    if loose == whole:
        return padded
    return build.insert(CastOp(padded, whole))


def strided_store(
    argument: SSAValue, offsets: StridedOffsets, window: BlockWindow, value: SSAValue, build: IndexBuilder
) -> None:
    view, sizes = _view(argument, offsets, window, build)
    assert isinstance(value.type, TensorType)
    if sizes != list(window.shape):
        first = [
            build.min(low, build.sub(extent, size))
            for low, extent, size in zip(window.low, window.shape, sizes, strict=True)
        ]
        static = [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]
        result = TensorType(value.type.element_type, static)
        value = build.insert(ExtractSliceOp(value, first, sizes, [1] * len(sizes), result))
    assert isinstance(value.type, TensorType)
    buffer = ToBufferOp.build(
        operands=[value], result_types=[MemRefType(value.type.element_type, value.type.get_shape())]
    )
    build.insert(memref.CopyOp(build.insert(buffer), view))


def whole_mask(window: BlockWindow, mask: SSAValue | None, build: IndexBuilder) -> SSAValue | None:
    """The mask and the window as one mask; None if all is in memory."""
    trivial = all(low == 0 for low in window.low) and tuple(window.high) == window.shape
    if trivial:
        return mask
    inside = materialise_window(window, build)
    if mask is None:
        return inside
    rank = len(window.shape)
    inputs = [(inside, identity(rank)), (mask, identity(rank))]
    return generic(
        build, inputs, window.shape, i1, lambda args, insert: insert(arith.AndIOp(args[0], args[1]))
    )


def guarded_load(
    argument: SSAValue, where: SSAValue, condition: SSAValue, other: int, insert: Insert
) -> SSAValue:
    """One element if the condition holds, else `other`."""
    element = element_of(argument)
    assert isinstance(element, IntegerType)
    yes, no = Block(), Block()
    there, elsewhere = IndexBuilder(yes), IndexBuilder(no)
    there.insert(scf.YieldOp(there.insert(memref.LoadOp.get(argument, [where]))))
    bits = other if other < 1 << (element.width.data - 1) else other - (1 << element.width.data)
    elsewhere.insert(scf.YieldOp(integer(bits, element, elsewhere.insert)))
    return insert(scf.IfOp(condition, [element], Region(yes), Region(no)))


def scatter(
    argument: SSAValue,
    where: SSAValue,
    condition: SSAValue | None,
    value: SSAValue,
    shape: Sequence[int],
    build: IndexBuilder,
) -> None:
    """Store element by element, in row-major order; a scalar has the shape ()."""
    indices: list[SSAValue] = []
    inside = build
    for size in shape:
        block = Block(arg_types=[_index])
        bounds = (inside.value(0), inside.value(size), inside.value(1))
        inside.insert(scf.ForOp(*bounds, [], Region(block)))
        inside = inside.at(block)
        indices.append(block.args[0])

    def element(of: SSAValue) -> SSAValue:
        if not isinstance(of.type, TensorType):
            return of
        return inside.insert(ExtractOp(of, indices, of.type.element_type))

    innermost = inside
    if condition is not None:
        block = Block()
        inside.insert(scf.IfOp(element(condition), [], Region(block)))
        inside = inside.at(block)
    inside.insert(memref.StoreOp.get(element(value), argument, [element(where)]))
    if condition is not None:
        inside.insert(scf.YieldOp())
    if indices:
        innermost.insert(scf.YieldOp())
    for index in reversed(indices[:-1]):
        assert isinstance(index, BlockArgument)
        IndexBuilder(index.owner).insert(scf.YieldOp())
