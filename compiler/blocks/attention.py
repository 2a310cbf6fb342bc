"""Kernels that are attention: two tiled products with a softmax of whole rows between, which run as one unit.

Such a kernel computes, for every block of rows (of every matrix of a batch), `dot(softmax(requantize(dot(q, k.T))), v)`. It is
recognised as `baco.compiler.blocks.products` recognises a product, and becomes the code that groups of a network's operators become
(`baco.compiler.styles.fused`): the array multiplies one strip of rows while the unit for functions of rows softmaxes another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.dialects.linalg.ops import MatmulOp
from xdsl.ir import Operation

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.blocks.analysis import enclosing_loops
from baco.compiler.blocks.masks import causal_from, mask_elements
from baco.compiler.blocks.reading import factor_of
from baco.compiler.blocks.rounds import Integers, Rounds
from baco.compiler.blocks.tiled import (
    Cut,
    Matrix,
    TensorPlace,
    added_at_start,
    block_matrix,
    factor_matrix,
    not_tiled,
    stored_block,
    summed_from,
    way_out,
)
from baco.compiler.blocks.to_instgem import ACCUMULATOR_ROWS, SCRATCHPAD_ROWS, WORKSPACE, WORKSPACE_BEGINS
from baco.compiler.dialects.baco import SoftmaxOp
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.ir.location import location_of
from baco.compiler.layers.layer import Layout
from baco.compiler.row_functions import exponentials, numerator_parts, softmax_numerator
from baco.compiler.styles.explicit.plan import exact_products
from baco.compiler.styles.fused.chain import ChainSchedule, ProductChain, place_chain
from baco.compiler.styles.fused.chain_code import emit_chain
from baco.compiler.styles.fused.predict import choose_chain
from baco.compiler.styles.fused.products import ChainOperands
from baco.compiler.styles.fused.row_unit import TABLE_BYTES, load_table, table_rows, table_words


@dataclass(frozen=True)
class TiledAttention:
    """What a kernel computes, and how its text cuts it.

    Attributes:
        chain: both products and the softmax.
        rows: of the kernel's blocks: of what strips are made.
        left, first, second, output: left operand, right operands of both products, result.
        scale, out_scale: of the softmax's elements and of its results.
    """

    chain: ProductChain
    rows: int
    left: TensorPlace
    first: TensorPlace
    second: TensorPlace
    output: TensorPlace
    scale: float
    out_scale: float

    @property
    def blocks(self) -> tuple[int, int, int]:
        """Rows, columns and depth of the kernel's blocks of its second product; rows of scores are whole."""
        return self.rows, self.chain.columns, self.chain.between


def has_softmax(function: func.FuncOp) -> bool:
    """Whether a structured function has one: then it is attention or done block by block."""
    return any(isinstance(op, SoftmaxOp) for op in function.walk())


def attention_to_instgem(function: func.FuncOp, accelerator: Accelerator) -> func.FuncOp | None:
    """A kernel that is attention as one unit; None for any other one, and where there is no unit or no strip of whole blocks fits.

    What comes out is as of `to_instgem.function_to_instgem`.
    """
    if not accelerator.features.row_functions or not has_softmax(function):
        return None
    try:
        return emit_attention(function, tiled_attention(function), accelerator)
    except (InputError, InfeasibleError):
        return None


def attention_schedule(attention: TiledAttention, accelerator: Accelerator) -> ChainSchedule:
    """How it is carried out, in strips of whole blocks. Raises InfeasibleError where none fits."""
    if exact_products(accelerator) < accelerator.dim:
        raise InfeasibleError(f"partial sums of {accelerator.name} are too narrow for its array")
    return choose_chain(attention.chain, accelerator, blocks=attention.rows)


def emit_attention(function: func.FuncOp, attention: TiledAttention, accelerator: Accelerator) -> func.FuncOp:
    """The code in place of the function that it was found in. Raises InfeasibleError where none is made of whole blocks."""
    chain = attention.chain
    schedule = attention_schedule(attention, accelerator)
    used = place_chain(chain, schedule, accelerator)
    names = [argument.name_hint or f"arg{argument.index}" for argument in function.body.block.args]
    e = Emitter(function.sym_name.data, [*names, "workspace"])
    load_table(e, accelerator, e.arguments[-1])

    def address(place: TensorPlace) -> Number:
        return e.add(e.arguments[place.argument], place.byte)

    scales = [product.scale for product in (chain.first, chain.second)]
    parts = numerator_parts(softmax_numerator(attention.out_scale))
    assert scales[0] is not None
    assert scales[1] is not None
    assert parts is not None
    operands = ChainOperands(
        address(attention.left),
        address(attention.first),
        address(attention.second),
        address(attention.output),
        (float32_bits(scales[0]), float32_bits(scales[1])),
        parts,
    )
    emit_chain(e, chain, schedule, accelerator, operands)
    e.fence()
    lowered = e.finish().body.block.first_op
    assert isinstance(lowered, func.FuncOp)
    lowered.detach()  # type: ignore[no-untyped-call]
    numbers = {
        SCRATCHPAD_ROWS: used.scratchpad_rows,
        ACCUMULATOR_ROWS: max(used.accumulator_rows, table_rows(accelerator)),
        WORKSPACE: TABLE_BYTES,
    }
    for name, number in numbers.items():
        lowered.attributes[name] = IntegerAttr(number, i64)
    words = table_words(exponentials(attention.scale))
    lowered.attributes[WORKSPACE_BEGINS] = DenseArrayBase.from_list(i64, words)
    return lowered


# -------------------------------------------------------------------- recognition


def tiled_attention(function: func.FuncOp) -> TiledAttention:
    """The attention that a structured function computes. Raises InputError, with the line, for one that computes something
    else."""
    first, softmax, second, store = _parts(function)
    loops = [list(enclosing_loops(op))[::-1] for op in (first, second, store)]
    inside, outside = loops[0], loops[2]
    if inside[: len(outside)] != outside or loops[1] != outside:
        raise not_tiled(second, "rows are stored in the program that they are computed in")
    rounds, programs = Rounds.of(inside), Rounds.of(outside)
    if rounds is None or programs is None:
        raise not_tiled(first, "the loops around these products have bounds that are known when compiling")
    sums, scale, relu, added = way_out(softmax.value, softmax)
    added += added_at_start(summed_from(first, inside[len(outside) :], sums), first)
    view, stored = stored_block(store)
    results, out_scale, out_relu, more = way_out(stored, store)
    added += [*more, *added_at_start(summed_from(second, [], results), second)]
    if added:
        raise not_tiled(softmax, "nothing is added to the sums of its products")
    if scale is None or out_scale is None:
        raise not_tiled(store, "sums of both products are requantised")
    a = factor_matrix(first.inputs[0], rounds, first, programs.count)
    b = factor_matrix(first.inputs[1], rounds, first, programs.count)
    c = factor_matrix(second.inputs[1], programs, second, programs.count)
    result = block_matrix(view, programs, store, programs.count)
    if result.argument in (a.argument, b.argument, c.argument):
        raise not_tiled(store, "results are stored to an array of their own")
    one, two = _cuts(a, b, c, result, programs, first)
    causal = None if softmax.mask is None else _causal(softmax, programs, two, result)
    between = one.columns
    dense = Layout(between, one.rows * between)
    return TiledAttention(
        ProductChain(
            replace(one.layer(scale, relu=relu, bias=False), output=dense),
            replace(two.layer(out_scale, relu=out_relu, bias=False), input=dense),
            softmax=True,
            causal=causal,
        ),
        a.shape[0],
        *one.places(8)[:2],
        *two.places(8)[1:],
        softmax.scale.value.data,
        softmax.out_scale.value.data,
    )


def _causal(softmax: SoftmaxOp, programs: Rounds, cut: Cut, result: Matrix) -> int:
    """Elements of a matrix's first row that take part. Raises InputError for a mask that is not causal."""
    assert softmax.mask is not None
    takes = "all elements of a row take part, or those up to its own (mask=keys <= rows)"
    made = softmax.mask.owner
    place = made if isinstance(made, Operation) and location_of(made) is not None else softmax
    part = mask_elements(softmax.mask, programs)
    if part is None:
        raise not_tiled(place, takes)
    shape = (programs.count, *softmax.value.type.get_shape())  # type: ignore[attr-defined]
    whole = np.broadcast_to(part, shape)[cut.there]
    rows, stored = cut.first_rows, result.sizes[0][cut.there][:, 0]
    found = causal_from(whole, rows, stored)
    if found is None:
        height = np.arange(shape[1])
        none = (height < stored[:, None]) & ~whole.any(-1)
        lonely = (rows[:, None] + height)[none]
        raise not_tiled(
            place, f"row {lonely.min()} of this mask has no element: {takes}" if lonely.size else takes
        )
    return found


def _parts(function: func.FuncOp) -> tuple[MatmulOp, SoftmaxOp, MatmulOp, memref.CopyOp]:
    """The operations of attention. Raises InputError for a function that has others, or more."""
    products: list[MatmulOp] = []
    softmaxes: list[SoftmaxOp] = []
    stores: list[memref.CopyOp] = []
    for op in function.walk():
        if isinstance(op, MatmulOp):
            products.append(op)
        elif isinstance(op, SoftmaxOp):
            softmaxes.append(op)
        elif isinstance(op, memref.CopyOp) and not isinstance(op.destination.owner, memref.AllocOp):
            stores.append(op)
        elif isinstance(op, memref.StoreOp | scf.IfOp | scf.WhileOp):
            raise not_tiled(op, "it stores whole blocks, under masks that are bounds")
    counts = len(products), len(softmaxes), len(stores)
    if counts != (2, 1, 1):
        last: Operation = (softmaxes or products or stores or [function])[-1]
        expected = "it has two products, a softmax between them and one store, not {} products, {} softmaxes and {} stores"
        raise not_tiled(last, expected.format(*counts))
    (softmax,), (store,) = softmaxes, stores
    second = [one for one in products if _reads(one, softmax)]
    if len(second) != 1 or len(list(softmax.result.uses)) != 1:
        raise not_tiled(softmax, "its softmax is the left factor of its second product, and nothing else")
    (first,) = (one for one in products if one is not second[0])
    return first, softmax, second[0], store


def _reads(product: MatmulOp, softmax: SoftmaxOp) -> bool:
    """The softmax, as it is, is the product's left factor."""
    factor = factor_of(product.inputs[0])
    return factor is not None and factor.source is softmax.result and not factor.transposed


def _cuts(
    a: Matrix, b: Matrix, c: Matrix, result: Matrix, programs: Rounds, op: Operation
) -> tuple[Cut, Cut]:
    """How programs cut both products, which is the same way.

    What lies between them is nowhere. As a result it stands for a matrix whose rows begin where those of the result do, and as a
    left factor for one whose rows begin where those of the first do, both as many times as far as a row has elements.
    """
    wide = b.shape[1]
    if result.strides[1] not in (1, None):
        raise not_tiled(op, "results are stored row by row")
    widths: Integers = b.sizes[1][:, :1]

    def between(rows: Matrix) -> Matrix:
        pitch = rows.strides[0]
        strides = (None if pitch is None else pitch * wide, 1)
        sizes = rows.sizes[0][:, :1], widths
        return Matrix(rows.argument, strides, rows.offset[:, :1] * wide, sizes, (rows.shape[0], wide))

    one = Cut(a, b, between(result), programs.counts, op)
    two = Cut(between(a), c, result, programs.counts, op)
    same = (one.groups, one.rows, one.columns) == (two.groups, two.rows, two.depth)
    if not same or one.steps[0] * wide != two.steps[0] or (c.sizes[1] < result.sizes[1]).any():
        raise not_tiled(op, "both products are of the same rows")
    if one.columns != wide:
        raise not_tiled(
            op, "all elements of a row of scores are there: blocks of keys are no wider than the keys"
        )
    if not np.array_equal(one.there, two.there):
        raise not_tiled(op, "both products are of the same programs")
    return one, two
