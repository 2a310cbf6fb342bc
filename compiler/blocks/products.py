"""Kernels that are one tiled product: recognised as a contraction, which the layer compiler has the best code for.

Such a kernel has one `dot`, in a loop over its depth or by itself, one store of its sums, requantised or not, and a grid,
in whatever order, whose programs cut rows and columns into tiles. All its places are known when it is compiled, so what it
computes is found out by going through all rounds of its loops: where every tile lies, and that together they are a matrix
(or a batch of matrices) each element of which is stored once. The order of programs does not matter, as none reads what
another one stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.linalg.ops import MatmulOp
from xdsl.ir import BlockArgument, Operation

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.blocks.analysis import enclosing_loops, product_format
from baco.compiler.blocks.elementwise import floating
from baco.compiler.blocks.reading import Addend
from baco.compiler.blocks.rounds import Rounds
from baco.compiler.blocks.tiled import (
    Cut,
    TensorPlace,
    added_at_start,
    block_matrix,
    factor_matrix,
    not_tiled,
    stored_block,
    summed_from,
    way_out,
)
from baco.compiler.blocks.to_instgem import ACCUMULATOR_ROWS, SCRATCHPAD_ROWS, WORKSPACE
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.explicit.plan import exact_products

#: Bytes that parts of a workspace are aligned to.
_ALIGN = 64


@dataclass(frozen=True)
class TiledProduct:
    """What a kernel computes, and how its text cuts it.

    Attributes:
        layer: the product, or a batch of them.
        blocks: rows, columns and depth of the blocks of the layer's product: of what tiles are made.
        input, weight, output, bias: the layer's tensors; a bias of None where there is none.
    """

    layer: Layer
    blocks: tuple[int, int, int]
    input: TensorPlace
    weight: TensorPlace
    output: TensorPlace
    bias: TensorPlace | None


def product_to_instgem(function: func.FuncOp, accelerator: Accelerator) -> func.FuncOp | None:
    """A kernel that is one tiled product as the layer compiler's code; None for any other one, and where no code is made
    of whole blocks.

    What comes out is as of `to_instgem.function_to_instgem`.
    """
    try:
        product = tiled_product(function)
        return emit_product(function, product, accelerator)
    except (InputError, InfeasibleError):
        return None


def product_schedule(product: TiledProduct, accelerator: Accelerator) -> Schedule:
    """How the product is carried out, in tiles of whole blocks. Raises InfeasibleError where no such tile fits, and where the array has
    other elements or would add them up in another order than the text."""
    from baco.compiler.choice.choose import AllowedStyles, choose

    layer, depth = product.layer, product.blocks[2]
    if layer.elements != accelerator.input_format:
        raise InfeasibleError(
            f"a product of {layer.elements}, and {accelerator.name} has {accelerator.input_format}"
        )
    if layer.real and depth < layer.problem.C and depth % accelerator.dim:
        raise InfeasibleError(f"sums of {depth} products are no whole blocks of {accelerator.dim}")
    # macros sum over the array's whole side
    style: AllowedStyles = "auto" if exact_products(accelerator) >= accelerator.dim else "explicit"
    return choose(layer, accelerator, style=style, blocks=product.blocks)


def emit_product(function: func.FuncOp, product: TiledProduct, accelerator: Accelerator) -> func.FuncOp:
    """The code of a product in place of the function that it was found in. Raises InfeasibleError where none is made of
    whole blocks."""
    from baco.compiler.styles.registry import plan_layer

    plan = plan_layer(product.layer, product_schedule(product, accelerator), accelerator)
    rows, rooms = plan.requirement, plan.workspaces
    names = [one.name_hint or f"arg{one.index}" for one in function.body.block.args]
    e = Emitter(function.sym_name.data, [*names, "workspace"] if rooms else names)
    starts, size = {}, 0
    for name, room in rooms:
        starts[name] = e.add(e.arguments[-1], size)
        size += -(-room // _ALIGN) * _ALIGN

    def address(place: TensorPlace) -> Number:
        return e.add(e.arguments[place.argument], place.byte)

    operands = Operands(
        address(product.input),
        address(product.weight),
        address(product.output),
        0 if product.bias is None else address(product.bias),
        workspaces=starts,
    )
    plan.emit(e, operands)
    e.fence()
    lowered = e.finish().body.block.first_op
    assert isinstance(lowered, func.FuncOp)
    lowered.detach()  # type: ignore[no-untyped-call]
    numbers = {SCRATCHPAD_ROWS: rows["scratchpad_rows"], ACCUMULATOR_ROWS: rows["accumulator_rows"]}
    if size:
        numbers[WORKSPACE] = size
    for name, number in numbers.items():
        lowered.attributes[name] = IntegerAttr(number, i64)
    return lowered


# -------------------------------------------------------------------- recognition


def tiled_product(function: func.FuncOp) -> TiledProduct:
    """The product that a structured function computes. Raises InputError, with the line, for one that is none."""
    product, store = _single(function)
    inside, outside = list(enclosing_loops(product))[::-1], list(enclosing_loops(store))[::-1]
    if inside[: len(outside)] != outside:
        raise not_tiled(
            store, "a product is stored outside of the loop over its depth, in the program it is summed in"
        )
    rounds, programs = Rounds.of(inside), Rounds.of(outside)
    if rounds is None or programs is None:
        raise not_tiled(product, "the loops around this product have bounds that are known when compiling")
    view, value = stored_block(store)
    total, scale, relu, addends = way_out(value, store)
    start = summed_from(product, inside[len(outside) :], total)
    elements = product_format(product)
    if floating(product) and addends:
        raise not_tiled(store, "sums in floating point begin with the bias")
    addends += added_at_start(start, store)
    factors = [factor_matrix(one, rounds, product, programs.count) for one in product.inputs]
    result = block_matrix(view, programs, store, programs.count)
    if result.argument in (factors[0].argument, factors[1].argument):
        raise not_tiled(store, "a product is stored to an array of its own")
    a, b = factors
    if result.strides[1] not in (1, None) and not addends:
        # stored column by column: the transposed product of transposed factors
        a, b, result = b.turned, a.turned, result.turned
    cut = Cut(a, b, result, programs.counts, product)
    bias = _bias(addends, programs, cut, store)
    blocks = (a.shape[0], b.shape[1], a.shape[1])
    layer = cut.layer(scale, relu=relu, bias=bias is not None, elements=elements)
    return TiledProduct(layer, blocks, *cut.places(layer.output_bits, layer.element_bytes), bias)


def _single(function: func.FuncOp) -> tuple[MatmulOp, memref.CopyOp]:
    """The product and the store of a function that has one each."""
    products, stores = [], []
    for op in function.walk():
        if isinstance(op, MatmulOp):
            products.append(op)
        elif isinstance(op, memref.CopyOp) and not isinstance(op.destination.owner, memref.AllocOp):
            stores.append(op)
        elif isinstance(op, memref.StoreOp | scf.IfOp | scf.WhileOp):
            raise not_tiled(op, "it stores whole blocks, under masks that are bounds")
    if len(products) != 1 or len(stores) != 1:
        last = (products or stores or [function])[-1]
        raise not_tiled(last, f"it has one product and one store, not {len(products)} and {len(stores)}")
    return products[0], stores[0]


def _bias(addends: Sequence[Addend], programs: Rounds, cut: Cut, store: Operation) -> TensorPlace | None:
    """The row that is added to all rows, if there is one."""
    if not addends:
        return None
    load = addends[0].load
    offset, sizes = programs.evaluate(load.offset), programs.evaluate(addends[0].sizes[1])
    plain = len(addends) == 1 and addends[0].row_dim is None and load.bits == 32
    start = None if offset is None or sizes is None else cut.columns_from(offset, sizes)
    if not plain or start is None or not isinstance(load.source, BlockArgument):
        raise not_tiled(store, "what is added is one row of int32 for all rows")
    return TensorPlace(load.source.index, start * 4)
