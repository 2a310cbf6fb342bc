"""Writes operators that accelerator and host share: normalisations, and products whose results the host takes through a table.

Of these, the host works on a part while the array makes the next. The host core stands still when the accelerator takes no more commands, and a fence waits for all that was given it. So a part is
what the accelerator takes at once, two runs of LOOP_WS at most: the fence before a part waits for the one before, the part goes
to the accelerator, and the host's table for the part before runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace

import numpy as np

from baco.compiler.network.layers import matmul_layer
from baco.compiler.network.ride_caller import RideCaller
from baco.compiler.network.row_sums import sums_of_rows
from baco.compiler.network.steps import ByteRange, region
from baco.compiler.network.way_out import tables_behind, through
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.operator import IntegerTensor
from baco.compiler.ops.products import MatMul
from baco.compiler.ops.rows import Normalisation, NormalisationBySums
from baco.compiler.ops.views import View
from baco.compiler.schedules.schedule import LoopWsSchedule

#: Columns of a part in sides of the array, the widest first; the fewest parts, and the fewest elements of one, for which the host
#: takes many times as long as for beginning another part.
_WIDTHS, _LEAST_PARTS, _LEAST_ELEMENTS = (8, 4, 2), 4, 1024
#: Runs of LOOP_WS that the accelerator takes before the first is done.
_TAKEN = 2


class PartCaller(RideCaller):
    """Operators that accelerator and host share."""

    #: Whether the array adds up rows that the host normalises.
    _sums = False
    #: Tables that the host takes results of products through while the array makes the next ones, by these.
    _beside: Mapping[str, Map] = {}

    def _plan_parts(self, others: Container[str]) -> None:
        """Look for tables behind products, but for those of these names, which are computed elsewhere."""
        found = tables_behind(self.network) if not self.accelerator.features.row_functions else {}
        self._beside = {name: table for name, table in found.items() if table.name not in others}

    def _summed(
        self, op: Normalisation, multiply: Callable[[MatMul], None]
    ) -> Normalisation | NormalisationBySums:
        """What remains of a normalisation for the host where the accelerator adds up its rows, whose calls are then written; all of
        it elsewhere. Offsets get the half that rounds.

        Args:
            multiply: writes the call of a product.
        """
        op = replace(op, offset=self._rounding(op.offset))
        names = (f"ones{op.input.shape[-1]}", f"{op.name}.sums", f"{op.name}.squares")
        parts = sums_of_rows(op, self.accelerator.dim, names) if self._sums else None
        if parts is None:
            return op
        calls = [matmul_layer(product) for product in parts.products]
        if any(call is None or self._layer_name(call.layer) is None for call in calls):
            return op
        self._add_constant(parts.ones.value, np.ones(parts.ones.shape, np.int8))
        for name, words in zip(names[1:], (parts.sums, parts.squares), strict=True):
            self.values[name] = IntegerTensor(name, (words,), "int32")
        for product in parts.products:
            multiply(product)
        return parts.rest

    def _in_parts(self, op: MatMul, multiply: Callable[[MatMul], None]) -> Map | None:
        """The host's table behind a product where they go in parts, whose calls are then written; None where they do not.

        Args:
            multiply: writes the call of a product.
        """
        behind = self._beside.get(op.name)
        if behind is None:
            return None
        parts = next((found for width in _WIDTHS if (found := self._side_by_side(op, behind, width))), None)
        if parts is None:
            return None
        self.result.reasons[behind.name] = f"while the accelerator goes on with {op.name}"
        for number, (product, _) in enumerate(parts):
            self._operator = op.name
            multiply(product)
            self._exactly(product.output, product.output, waits=number > 0)
            if number:
                self._table_of(behind.name, parts[number - 1][1])
        self._table_of(behind.name, parts[-1][1])
        return behind

    def _side_by_side(self, op: MatMul, behind: Map, width: int) -> list[tuple[MatMul, Map]] | None:
        """Products and their tables in parts of so many sides of the array; None where the accelerator would not take a part at
        once."""
        parts = list(_columns(op, behind, width * self.accelerator.dim))
        calls = matmul_layer(parts[0][0]) if len(parts) >= _LEAST_PARTS else None
        if calls is None or len(calls.offsets) > 1 or parts[0][0].output.words < _LEAST_ELEMENTS:
            return None
        name = self._layer_name(calls.layer)
        if name is None:
            return None
        dim, problem = self.accelerator.dim, calls.layer.problem
        i, j, depth = (-(-extent // dim) for extent in (problem.P, problem.K, problem.C))
        # each of the runs that are taken has its share of the scratchpad
        k = min(depth, self.accelerator.scratchpad_rows // _TAKEN // ((i + j) * dim))
        if k == 0 or -(-depth // k) > _TAKEN or i * j * dim > self.accelerator.accumulator_rows // _TAKEN:
            return None
        if i == 1:  # weights take longer than what is computed with them, and come best in whole rows
            return None
        self.result.layers[name] = replace(
            self.result.layers[name], schedule=LoopWsSchedule(i, j, k), workspaces=()
        )
        return parts

    def _table_of(self, operator: str, part: Map) -> None:
        """The host's call for a part."""
        self._operator = operator
        self._host(part.host_call(self.values))
        self._exactly(part.input, part.output)

    def _exactly(self, read: View, written: View, *, waits: bool = False) -> None:
        """The last call touches of two values rows with gaps between, and not what is in the gaps."""
        step = self.result.steps[-1]
        reads = [one for one in step.reads if one.value != read.value]
        if len(reads) < len(step.reads):
            reads += self._ranges(read)
        self.result.steps[-1] = replace(
            step, reads=tuple(reads), writes=tuple(self._ranges(written)), waits=waits
        )

    def _ranges(self, view: View) -> list[ByteRange]:
        rows, columns = view.shape
        return [region(view.sliced((row, 0), (1, columns), (1, 1)), self.values) for row in range(rows)]


def _columns(op: MatMul, behind: Map, width: int) -> Iterator[tuple[MatMul, Map]]:
    """A product and the table behind it in parts of `width` columns; none where that leaves a rest, and of a batch."""
    target, columns = through(op, behind), op.output.shape[-1]
    if target is None or len(op.output.shape) != 2 or columns % width or op.scale is None:
        return
    rows, depth = op.left.shape
    for start in range(0, columns, width):
        result, table = (view.sliced((0, start), (rows, width), (1, 1)) for view in (op.output, target))
        right = op.right.sliced((0, start), (depth, width), (1, 1))
        bias = None if op.bias is None else op.bias.sliced((start,), (width,), (1,))
        product = replace(op, output=result, right=right, bias=bias)
        yield product, replace(behind, input=result, output=table)
