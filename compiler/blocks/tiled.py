"""How programs of a kernel cut matrices: blocks of factors and results in all rounds of its loops, what is summed and stored.

All places of a kernel are known when it is compiled, so what it computes is found out by going through all rounds of its loops:
where every tile lies, and that together they are a matrix (or a batch of matrices) each element of which is stored once. The
order of programs does not matter, as none reads what another one stores.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import bufferization, memref, scf, tensor
from xdsl.dialects.linalg.ops import MatmulOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from baco.accel.input_format import InputFormat
from baco.common.errors import InputError
from baco.compiler.blocks.reading import (
    Addend,
    BlockLoad,
    Size,
    addend_of,
    block_load,
    factor_of,
    filled_with,
    is_relu,
    mixed,
    requantised,
    sum_operands,
)
from baco.compiler.blocks.rounds import Integers, Rounds
from baco.compiler.ir.location import location_of
from baco.compiler.layers.layer import Layer, Layout
from baco.workloads.problem import Problem


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor begins.

    Attributes:
        argument: of the function.
        byte: of its first element.
    """

    argument: int
    byte: int


@dataclass(frozen=True)
class Matrix:
    """A factor or the result in all rounds: strides of its two dimensions (None: blocks are one element wide), places of
    blocks, elements of either dimension that are there, by program (and step of depth)."""

    argument: int
    strides: tuple[int | None, int | None]
    offset: Integers
    sizes: tuple[Integers, Integers]
    shape: tuple[int, int]

    @property
    def turned(self) -> Matrix:
        """The transposed matrix."""
        return Matrix(self.argument, self.strides[::-1], self.offset, self.sizes[::-1], self.shape[::-1])


def not_tiled(op: Operation, expected: str) -> InputError:
    return InputError(
        "this kernel is not one tiled product or attention", location=location_of(op), hint=expected
    )


def factor_matrix(value: SSAValue, rounds: Rounds, op: Operation, programs: int) -> Matrix:
    """A factor of a product in all rounds. Raises InputError for one that is no block of int8 from memory."""
    factor = factor_of(value)
    load = None if factor is None else block_load(factor.source)
    if factor is None or load is None or not load.zero_padded_high or len(load.shape) != 2:
        raise not_tiled(op, "factors are blocks of int8 that are loaded, padded by zeros")
    matrix = block_matrix(load, rounds, op, programs)
    return matrix.turned if factor.transposed else matrix


def stored_block(store: memref.CopyOp) -> tuple[BlockLoad, SSAValue]:
    """Where a store goes, as a block, and what it stores."""
    buffer, view = store.source.owner, store.destination.owner
    if not isinstance(buffer, bufferization.ToBufferOp) or not isinstance(view, memref.ReinterpretCastOp):
        raise not_tiled(store, "its store is one of a block")
    value: SSAValue = buffer.tensor
    if isinstance(value.owner, tensor.ExtractSliceOp):
        if any(one != 0 for one in mixed(value.owner.static_offsets.get_values(), value.owner.offsets)):
            raise not_tiled(store, "stores begin at the first element of a block")
        value = value.owner.source
    shape = value.type.get_shape()  # type: ignore[attr-defined]
    sizes = mixed(view.static_sizes.get_values(), view.sizes)
    element = view.source.type.element_type  # type: ignore[attr-defined]
    if len(shape) != 2:
        raise not_tiled(store, "its store is one of a block of two dimensions")
    where = BlockLoad(
        view.source,
        mixed(view.static_offsets.get_values(), view.offsets)[0],
        mixed(view.static_strides.get_values(), view.strides),
        sizes,
        (0, 0),
        tuple(shape),
        0,
        element.width.data,
    )
    return where, value


def way_out(value: SSAValue, store: Operation) -> tuple[SSAValue, float | None, bool, list[Addend]]:
    """The sum behind a stored block, what it is multiplied by, whether negative sums become 0, and what is added."""
    scale: float | None = None
    relu, small = False, False
    while True:
        if not relu and (below := is_relu(value)) is not None:
            relu, value = True, below
        elif scale is None and (found := requantised(value)) is not None:
            value = found[0]
            scale = float(np.uint32(found[1]).view(np.float32))
            small = True
        else:
            break
    if relu and (not small or not scale or scale <= 0):
        raise not_tiled(store, "only requantised sums, by a positive scale, have their negative ones cut off")
    addends: list[Addend] = []
    while (sides := sum_operands(value)) is not None:
        added = [addend_of(one) for one in sides]
        if (added[0] is None) == (added[1] is None):
            break
        addends.append(added[0] or added[1])  # type: ignore[arg-type]
        value = sides[1] if added[0] is not None else sides[0]
    return value, scale, relu, addends


def summed_from(product: MatmulOp, loops: Sequence[scf.ForOp], total: SSAValue) -> SSAValue:
    """What the sum begins as that loops over the depth carry from `product` to `total`."""
    value: SSAValue = product.results[0]
    start: SSAValue = product.outputs[0]
    for loop in reversed(loops):
        body = loop.body.block
        last = body.last_op
        assert last is not None
        if not isinstance(start, BlockArgument) or start.block is not body or value not in last.operands:
            raise not_tiled(product, "every step of the loop over its depth adds to one sum")
        position = start.index - 1
        if last.operands[position] is not value or len(list(value.uses)) != 1 or len(list(start.uses)) != 1:
            raise not_tiled(product, "nothing but the loop over its depth uses sums that are not complete")
        value, start = loop.results[position], loop.iter_args[position]
    if value is not total:
        raise not_tiled(
            product, "what is stored is the sum of products, beside a bias, ReLU and requantisation"
        )
    return start


def added_at_start(value: SSAValue, store: Operation) -> list[Addend]:
    """What a sum begins as, beside zeros."""
    if filled_with(value) == 0:
        return []
    if (found := addend_of(value)) is not None:
        return [found]
    sides = sum_operands(value)
    if sides is None:
        raise not_tiled(store, "its sum begins as zeros, or a row of int32 for all rows")
    return [*added_at_start(sides[0], store), *added_at_start(sides[1], store)]


def block_matrix(load: BlockLoad, rounds: Rounds, op: Operation, programs: int) -> Matrix:
    """A block in all rounds, a row for each program."""

    def table(size: Size) -> Integers:
        found = rounds.evaluate(size)
        if found is None:
            raise not_tiled(op, "places of blocks depend on program ids and loops alone")
        return found.reshape(programs, -1)

    strides = [_stride(*one, op) for one in zip(load.strides, load.shape, strict=True)]
    argument = load.source
    if not isinstance(argument, BlockArgument):
        raise not_tiled(op, "blocks lie in arguments")
    return Matrix(
        argument.index,
        (strides[0], strides[1]),
        table(load.offset),
        (table(load.sizes[0]), table(load.sizes[1])),
        (load.shape[0], load.shape[1]),
    )


def _stride(stride: Size, extent: int, op: Operation) -> int | None:
    if extent == 1:
        return None
    if not isinstance(stride, int) or stride < 1:
        raise not_tiled(op, "rows and columns of blocks lie evenly apart")
    return stride


#: Axes of a grid that count matrices at most.
_MOST_BATCH_AXES = 4


class Cut:
    """How programs cut a product: a batch, tiles of rows and of columns, steps of depth.

    Raises InputError where they are no partition of matrices.
    """

    def __init__(self, a: Matrix, b: Matrix, c: Matrix, counts: tuple[int, ...], op: Operation) -> None:
        self._op = op
        self._a, self._b, self._c = a, b, c
        depth = np.minimum(a.sizes[1], b.sizes[0])
        there = (c.sizes[0][:, 0] > 0) & (c.sizes[1][:, 0] > 0)
        if not there.all():
            counts = (int(there.sum()),)
            if not counts[0]:
                raise not_tiled(op, "some of its programs store something")
        self._counts = counts
        depth = depth[there]
        steps = depth[0]
        self.depth = int(steps.sum())
        at = np.cumsum(steps) - steps
        several = len(steps) > 1
        self._need(bool((depth == steps).all() and (steps > 0).all()), "all programs sum over the same depth")
        self.a_stride = self._known(a.strides[1], several)
        self.b_stride = self._known(b.strides[0], several)
        for matrix, stride in ((a, self.a_stride), (b, self.b_stride)):
            offset = matrix.offset[there]
            straight = offset == offset[:, :1] + at * stride
            self._need(bool(straight.all()), "steps of depth lie side by side")
        self._places = tuple(matrix.offset[there][:, 0] for matrix in (a, b, c))
        self._rows, self._columns = (size[there][:, 0] for size in c.sizes)
        covered = (a.sizes[0][there] >= self._rows[:, None]) & (b.sizes[1][there] >= self._columns[:, None])
        self._need(bool(covered.all()), "all that is stored is computed")
        self.there = there
        self._batch()

    def _need(self, holds: bool, expected: str) -> None:
        if not holds:
            raise not_tiled(self._op, expected)

    def _known(self, stride: int | None, several: bool) -> int:
        """A stride, or any number where nothing is a stride apart."""
        self._need(stride is not None or not several, "blocks are more than one element wide")
        return 1 if stride is None else stride

    def _batch(self) -> None:
        """Find the axes of the grid that count matrices, as few as can be, and the tiles of one."""
        axes = [axis for axis, count in enumerate(self._counts) if count > 1]
        subsets = itertools.chain.from_iterable(
            # innermost axes first: where several count matrices, outer ones go in steps of whole inner ones
            itertools.combinations(axes[::-1], size)
            for size in range(min(len(axes), _MOST_BATCH_AXES) + 1)
        )
        found = next((one for one in map(self._batched, subsets) if one is not None), None)
        if found is None:
            raise not_tiled(
                self._op, "its programs cut rows and columns of a matrix, or of each matrix of a batch"
            )
        self.groups, self.steps, self._chosen, (self.rows, self.columns, _, self._n) = found
        if self.groups > 1:
            apart = self.steps[2] >= (self.rows - 1) * self.c_pitch + self.columns
            beside = self.steps[2] >= self.columns and self.groups * self.steps[2] <= self.c_pitch
            self._need(apart or beside, "matrices of a batch do not overlap")

    def _batched(
        self, axes: Sequence[int]
    ) -> tuple[int, tuple[int, int, int], Integers, tuple[int, int, Integers, Integers]] | None:
        """Matrices, elements from one to the next of all three, programs of the first, and its tiles, if these axes of the grid
        count matrices."""
        everything = np.arange(len(self._rows)).reshape(self._counts)
        first, groups, steps = everything, 1, (0, 0, 0)
        for axis in axes:
            moved = self._moves(np.moveaxis(everything, axis, 0))
            if moved is None or (groups > 1 and moved != tuple(groups * step for step in steps)):
                return None
            if groups == 1:
                steps = moved
            groups *= self._counts[axis]
            first = first.take([0], axis)
        chosen = first.ravel()
        tiles = self._tiles(chosen)
        return None if tiles is None else (groups, steps, chosen, tiles)

    def _moves(self, along: Integers) -> tuple[int, int, int] | None:
        """Elements that the three matrices move by along the first axis of these programs, if all others stay."""
        if len(along) < 2:
            return None
        flat = along.reshape(len(along), -1)
        found = []
        for place in self._places:
            step = place[flat[1]] - place[flat[0]]
            if (np.diff(place[flat], axis=0) != step[0]).any():
                return None
            found.append(int(step[0]))
        for size in (self._rows, self._columns):
            if (size[flat] != size[flat[:1]]).any():
                return None
        return (found[0], found[1], found[2]) if min(found) >= 0 and found[2] > 0 else None

    def _tiles(self, programs: Integers) -> tuple[int, int, Integers, Integers] | None:
        """Rows, columns, and first row and column of each of these programs, if they cut one matrix."""
        a, b, c = (place[programs] for place in self._places)
        rows, columns = self._rows[programs], self._columns[programs]
        m = _starts(a, self._a.strides[0], rows)
        n = _starts(b, self._b.strides[1], columns)
        if m is None or n is None or len(set(zip(m.tolist(), n.tolist(), strict=True))) != len(programs):
            return None
        if len(np.unique(m)) * len(np.unique(n)) != len(programs):
            return None
        pitch, step = self._c.strides
        if (pitch is None and m.any()) or (step not in (1, None)) or (step is None and n.any()):
            return None
        if (c != c.min() + m * (pitch or 0) + n).any():
            return None
        self.c_pitch = pitch or 0
        return int((m + rows).max()), int((n + columns).max()), m, n

    @property
    def first_rows(self) -> Integers:
        """Of every program that stores something, in its own matrix of a batch."""
        away = self._places[2] - self._places[2].min()
        if self.groups > 1 and self.steps[2] >= self.c_pitch:
            away = away % self.steps[2]
        rows: Integers = away // max(self.c_pitch, 1)
        return rows

    def columns_from(self, offset: Integers, sizes: Integers) -> int | None:
        """Where a row of as many columns begins whose parts lie at `offset` in every program; None if it is no row."""
        at = offset[self.there][self._chosen]
        start = int(at.min())
        wide = sizes[self.there][self._chosen] >= self._columns[self._chosen]
        return start if self.groups == 1 and (at == start + self._n).all() and wide.all() else None

    def layer(
        self, scale: float | None, *, relu: bool, bias: bool, elements: InputFormat = "integer"
    ) -> Layer:
        """The product, or a batch of them."""
        rows, columns, depth = self.rows, self.columns, self.depth
        turned = self.b_stride == 1 and (self._b.strides[1] or depth) != 1
        self._need(self.a_stride == 1 or depth == 1, "the left factor's rows are dense")
        self._need(turned or self._b.strides[1] in (1, None), "the right factor has dense rows or columns")
        self._need(scale is None or scale != 0, "requantisation has a scale")
        problem = Problem(P=rows, C=depth, K=columns, groups=self.groups)
        # of a single matrix as `Layer` has it by default
        steps = self.steps if self.groups > 1 else (depth, depth * columns if turned else columns, columns)
        pitch_b = (
            (self._b.strides[1] or depth) if turned else max(self.b_stride, columns if depth == 1 else 1)
        )
        return Layer(
            problem,
            bias=bias,
            relu=relu,
            scale=scale,
            input=Layout(self._a.strides[0] or depth, steps[0]),
            weight=Layout(pitch_b, steps[1]),
            output=Layout(self.c_pitch or columns, steps[2]),
            weights_transposed=turned,
            elements=elements,
        )

    def places(self, bits: int, element_bytes: int = 1) -> tuple[TensorPlace, TensorPlace, TensorPlace]:
        """Where both factors and the result, of so many bits, begin."""
        first = [int(place[self._chosen].min()) for place in self._places]
        return (
            TensorPlace(self._a.argument, first[0] * element_bytes),
            TensorPlace(self._b.argument, first[1] * element_bytes),
            TensorPlace(self._c.argument, first[2] * bits // 8),
        )


def _starts(offset: Integers, stride: int | None, sizes: Integers) -> Integers | None:
    """First row (or column) of every program, whose blocks of so many lie at `offset`; None if they are no partition."""
    away = offset - offset.min()
    if stride is None:
        return None if away.any() else away
    if (away % stride).any():
        return None
    starts: Integers = away // stride
    order = np.argsort(starts, kind="stable")
    first, size = starts[order], sizes[order]
    new = np.concatenate([[True], first[1:] != first[:-1]])
    same = size == size[new][np.cumsum(new) - 1]
    ends = first[new] + size[new]
    return starts if same.all() and (first[new][1:] == ends[:-1]).all() else None
