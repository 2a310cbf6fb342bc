"""Which operators accelerator and host core share, and their parts (`baco.compiler.network.rounds`).

* A softmax by heads and rows: beside it run the products that make its operand, read its result, or make their operands.
* A normalisation of an addition to a product: the product of the second half of the rows runs beside the normalisation of the first.
  With them, in an encoder, a table before that product and the product before the table.
* A table of a product's results, or a gate, in parts of columns. Weights of a product of one block of rows come best in whole rows:
  there only the last columns are made in parts, as many as the host needs for what it does with those before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.rounds import ArrayPart, HostPart, Part, Shared
from baco.compiler.network.row_sums import SummedRows
from baco.compiler.network.way_out import tables_behind, through
from baco.compiler.ops.elementwise import Addition, Gate, Map
from baco.compiler.ops.operator import IntegerOperator
from baco.compiler.ops.products import MatMul
from baco.compiler.ops.rows import Normalisation, NormalisationBySums, Softmax
from baco.compiler.ops.views import View

#: The fewest parts, and the fewest elements of a table's and of a softmax's, for which the host takes many times as long as for
#: beginning another part.
_LEAST_PARTS, _LEAST_MAPPED, _LEAST_WEIGHED = 4, 1024, 256
#: Sides of the array that a part of a product has in rows and in columns, and rows of a softmax's part, the most first.
_SIDES, _ROWS = (8, 4, 2), (64, 32, 16, 8, 4)
#: Sides of the array of half the rows of a product, with fewer of which weights take longer than what is computed with them.
_LEAST_HALF = 4
#: Rows and columns of a part of a normalisation.
_NORMALISED = (8, 256)
#: Cycles that weights do not come in between a part of a product of one block of rows and the next, about.
_BEGINNING = 2000
#: Runs of LOOP_WS that the accelerator takes before the first is done.
TAKEN = 2
_Rows = TypeVar("_Rows", MatMul, Addition, Normalisation)


@dataclass
class SharedWork:
    """Looks for what is shared in a network.

    Attributes:
        others: names of operators that are computed elsewhere.
        dim: the array's side.
        gates: tables and products of elements that the host computes in one pass, by the name of the product.
        runs: of LOOP_WS that a product of one tile of results takes; None where it is none.
        cycles: that a part takes, about.
        summed: a normalisation as products with its rows and what remains, by a name; None where the host adds up.
    """

    network: QuantisedNetwork
    others: Collection[str]
    dim: int
    gates: Mapping[str, tuple[Map, Gate]]
    runs: Callable[[MatMul], int | None]
    cycles: Callable[[Part], float]
    summed: Callable[[Normalisation, str], SummedRows | None]
    _taken: set[str] = field(default_factory=set)

    def find(self) -> list[Shared]:
        """All of it; an operator is in one of them."""
        self._taken = set(self.others)
        found = []
        for function, gate in self.gates.values():
            if (shared := self._of_gate(function, gate)) is not None:
                found.append(shared)
                self._taken |= {member.name for member in shared.operators}
            self._taken |= {function.name, gate.name}
        for kind in (Softmax, Normalisation, MatMul):
            for op in self.network.operators:
                if (
                    isinstance(op, kind)
                    and op.name not in self._taken
                    and (shared := self._of(op)) is not None
                ):
                    found.append(shared)
                    self._taken |= {member.name for member in shared.operators}
        return found

    def _of(self, op: IntegerOperator) -> Shared | None:
        if isinstance(op, Softmax):
            return self._of_softmax(op)
        if isinstance(op, Normalisation):
            return self._of_normalisation(op)
        return self._of_table(op) if isinstance(op, MatMul) else None

    # ---------------------------------------------------------------- softmax

    def _of_softmax(self, softmax: Softmax) -> Shared | None:
        members: dict[str, IntegerOperator] = {softmax.name: softmax}
        parts: dict[str, list[MatMul]] = {}

        def join(op: IntegerOperator | None) -> None:
            if isinstance(op, MatMul) and op.name not in self._taken and not self._is_slow(op):
                parts[op.name] = self._at_once(op, whole_rows=op.right.value in self.network.constants)
                if parts[op.name]:
                    members[op.name] = op

        scores = self._writer(softmax.input, members)
        join(scores)
        if not isinstance(scores, MatMul) or scores.name not in members:
            return None
        readers = [op for op in self.network.operators if _reads(op, softmax.output.value)]
        if len(readers) == 1:
            join(readers[0])
        if (
            self._writer(softmax.input, members) is not scores
        ):  # something reads scores before the results of all
            return None
        products = [op for op in members.values() if isinstance(op, MatMul)]
        for view in [view for op in products for view in (op.left, op.right)]:
            join(self._writer(view, members))
        operators = self._in_order(members)
        array = [ArrayPart(part) for op in operators for part in parts.get(op.name, ())]
        host = _softmax_parts(softmax, len(array))
        if len(host) < _LEAST_PARTS or host[0].output.words < _LEAST_WEIGHED:
            return None
        return Shared(operators, tuple(array), tuple(host))

    def _is_slow(self, op: MatMul) -> bool:
        """Products with weights of one block of rows: weights take longer than what is computed with them, and come best in whole
        rows."""
        return op.right.value in self.network.constants and math.prod(op.output.shape[:-1]) <= self.dim

    # ---------------------------------------------------------------- normalisation

    def _of_normalisation(self, norm: Normalisation) -> Shared | None:
        members: dict[str, IntegerOperator] = {norm.name: norm}
        addition = self._writer(norm.input, members)
        if not isinstance(addition, Addition) or addition.name in self._taken or not _is_matrix(norm.input):
            return None
        members[addition.name] = addition
        product = self._product(addition.left, members) or self._product(addition.right, members)
        if product is None:
            return None
        members[product.name] = product
        rows, array, maps, norms = product.output.shape[0], list[ArrayPart](), list[Map](), list[HostPart]()
        half = -(-rows // (2 * self.dim)) * self.dim
        if half < _LEAST_HALF * self.dim or rows <= half:
            return None
        expansion = self._expansion(product, members)
        if expansion is not None:
            before, table, target = expansion
            products = self._at_once(before, whole_rows=True)
            if products:
                members |= {before.name: before, table.name: table}
                array += map(ArrayPart, products)
                for part in products:
                    maps += _table_parts(before, part, table, target, height=half // 2)
                # those of the first half first
                behind = before.output.offset + half * before.output.strides[0]
                maps.sort(key=lambda part: part.input.offset >= behind)
        for start, height in ((0, half), (half, rows - half)):
            runs = self._in_runs(_rows_of(product, start, height))
            sums = self.summed(_rows_of(norm, start, height), f"{norm.name}.from{start}")
            if not runs or sums is None:
                return None
            array += [*runs, ArrayPart(_rows_of(addition, start, height)), *map(ArrayPart, sums.products)]
            # the half beside which nothing runs goes in one
            norms += [sums.rest] if start else _normalisation_parts(sums.rest, len(runs))
        return Shared(self._in_order(members), tuple(array), (*maps, *norms))

    def _expansion(
        self, product: MatMul, members: Mapping[str, IntegerOperator]
    ) -> tuple[MatMul, Map, View] | None:
        """The product and the table that make the operand of another product, and where the table's results go; None if there are
        none such."""
        table = self._writer(product.left, members)
        if not isinstance(table, Map) or table.name in self._taken or table.table is None:
            return None
        before = self._product(table.input, {**members, table.name: table})
        target = None if before is None else through(before, table)
        if before is None or target is None or before.output.shape[0] != product.output.shape[0]:
            return None
        return before, table, target

    def _product(self, view: View, members: Mapping[str, IntegerOperator]) -> MatMul | None:
        """A product with weights that alone writes a value, and that of members alone are read."""
        op = self._writer(view, members)
        if not isinstance(op, MatMul) or op.name in self._taken or len(op.output.shape) != 2:
            return None
        return op if op.right.value in self.network.constants else None

    def _in_runs(self, op: MatMul) -> list[ArrayPart]:
        """A product in parts of as many columns as one tile of results has, and run by run those that the accelerator does not take at
        once; empty if there are none."""
        rows, columns = op.output.shape
        found = list[ArrayPart]()
        sides = (side * self.dim for side in _SIDES)
        width = next((n for n in sides if self.runs(_part(op, (), 0, 0, rows, min(n, columns)))), columns)
        for start in range(0, columns, width):
            part = _part(op, (), 0, start, rows, min(width, columns - start))
            count = self.runs(part)
            if count is None:
                return []
            if count <= TAKEN:
                found.append(ArrayPart(part))
            else:
                found += [ArrayPart(part, (run, run + 1), run + 1 == count) for run in range(count)]
        return found

    # ---------------------------------------------------------------- tables

    def _of_table(self, op: MatMul) -> Shared | None:
        table = tables_behind(self.network).get(op.name)
        if table is None or table.name in self._taken or len(op.output.shape) != 2:
            return None
        target = through(op, table)
        if target is not None and self._is_slow(op):

            def part(start: int, width: int) -> Map:
                box = (0, start), (op.output.shape[0], width), (1, 1)
                return replace(table, input=op.output.sliced(*box), output=target.sliced(*box))

            return self._beside_last_columns(op, table, part)
        products = self._at_once(op, whole_rows=True)
        if target is None or len(products) < _LEAST_PARTS or products[0].output.words < _LEAST_MAPPED:
            return None
        host = [
            part
            for one in products
            for part in _table_parts(op, one, table, target, height=op.output.shape[0])
        ]
        return Shared((op, table), tuple(map(ArrayPart, products)), tuple(host))

    # ---------------------------------------------------------------- products of one block of rows

    def _of_gate(self, function: Map, gate: Gate) -> Shared | None:
        """A gate and the product that makes the later one of its operands."""
        shape = gate.output.shape
        views = (gate.left, gate.right, gate.output)
        if any(view.shape != shape or view.strides[-1] != 1 or not view.is_dense for view in views):
            return None
        members = {function.name: function, gate.name: gate}
        products = [self._product(view, members) for view in views[:2]]
        names = [op.name for op in self.network.operators]
        made = [op for op in products if op is not None and self._is_slow(op)]
        if not made:
            return None
        op = max(made, key=lambda one: names.index(one.name))
        lead = (0,) * (len(shape) - 1)

        def part(start: int, width: int) -> Gate:
            left, right, output = (
                view.sliced((*lead, start), (*shape[:-1], width), (1,) * len(shape)) for view in views
            )
            return replace(gate, left=left, right=right, output=output)

        return None if op.output.shape[-1] != shape[-1] else self._beside_last_columns(op, gate, part)

    def _beside_last_columns(
        self, op: MatMul, function: IntegerOperator, part: Callable[[int, int], HostPart]
    ) -> Shared | None:
        """A product whose first columns are made at once, and the others while the host works on those before them; None where the host
        has done all sooner than a part of the product.

        Args:
            function: what the host does with the results.
            part: that of the columns from one on, so many.
        """
        products = self._at_once(op, whole_rows=True)
        if len(products) < _LEAST_PARTS:
            return None
        (rows, columns), width = op.output.shape, products[0].output.shape[-1]
        last, whole = (len(products) - 1) * width, self.cycles(ArrayPart(products[0]))
        if self.cycles(part(0, columns)) <= whole:
            return None
        # parts of the host are as wide as makes all of it take the least time
        choices = []
        for step in range(width, last + width, width):
            count, taken = -(-last // step), self.cycles(part(0, step))
            choices.append((count * (max(whole + _BEGINNING, taken) - whole), step, count))
            if taken > 2 * whole:
                break
        _, step, count = min(choices)
        first = _part(op, (), 0, 0, rows, (len(products) - count) * width)
        host = [part(start, min(step, last - start)) for start in range(0, last, step)]
        array = [ArrayPart(product) for product in (first, *products[-count:])]
        return Shared((op, function), tuple(array), (*host, part(last, columns - last)))

    # ---------------------------------------------------------------- all of them

    def _in_order(self, members: Mapping[str, IntegerOperator]) -> tuple[IntegerOperator, ...]:
        return tuple(op for op in self.network.operators if op.name in members)

    def _writer(self, view: View, members: Mapping[str, IntegerOperator]) -> IntegerOperator | None:
        """The operator that alone writes a value which nothing but members reads before the last of them; None if there is none
        such."""
        operators = self.network.operators
        writers = [op for op in operators if op.output.value == view.value]
        last = max(number for number, op in enumerate(operators) if op.name in members)
        early = [op for op in operators[:last] if _reads(op, view.value) and op.name not in members]
        if len(writers) != 1 or self.network.values[view.value].role != "intermediate" or early:
            return None
        return writers[0]

    def _at_once(self, op: MatMul, *, whole_rows: bool) -> list[MatMul]:
        """A product in the fewest parts that the accelerator takes at once; empty if there are none.

        Args:
            whole_rows: columns alone are split, so that weights come once.
        """
        *lead, rows, columns = op.output.shape
        sides = [self.dim * side for side in _SIDES]
        sizes = [(rows, columns), *((rows, side) for side in sides if side < columns)]
        if not whole_rows:
            sizes += [(side, columns) for side in sides if side < rows]
            sizes += [(a, b) for a in sides if a < rows for b in sides if b < columns]
        sizes.sort(key=lambda size: -(-rows // size[0]) * -(-columns // size[1]))
        if op.bias is not None and lead:
            return []
        heads = _heads(lead)
        for height, width in sizes:
            count = self.runs(_part(op, heads[0], 0, 0, min(height, rows), min(width, columns)))
            if count is not None and count <= TAKEN:
                return [
                    _part(op, head, row, column, min(height, rows - row), min(width, columns - column))
                    for head in heads
                    for row in range(0, rows, height)
                    for column in range(0, columns, width)
                ]
        return []


def _reads(op: IntegerOperator, value: str) -> bool:
    return any(view.value == value for view in op.inputs)


def _heads(lead: Iterable[int]) -> list[tuple[int, ...]]:
    """Indices of the matrices of a batch."""
    return list(itertools.product(*(range(extent) for extent in lead)))


def _is_matrix(view: View) -> bool:
    """Whether all but the last two dimensions are 1."""
    return len(view.shape) > 1 and math.prod(view.shape[:-2]) == 1


def _rows_of(op: _Rows, start: int, height: int) -> _Rows:
    """Some rows of an operator whose operands are matrices (`_is_matrix`)."""
    names: dict[type, tuple[str, ...]] = {
        MatMul: ("output", "left"),
        Addition: ("output", "left", "right"),
        Normalisation: ("output", "input", "gain", "offset"),
    }
    changed: dict[str, Any] = {
        name: _rows_of_view(getattr(op, name), start, height) for name in names[type(op)]
    }
    return replace(op, **changed)


def _part(op: MatMul, head: tuple[int, ...], row: int, column: int, height: int, width: int) -> MatMul:
    """Some rows and columns of the results of a matrix of the batch."""
    depth, one = op.left.shape[-1], (1,) * len(head)
    steps = (1,) * (len(head) + 2)
    return replace(
        op,
        output=op.output.sliced((*head, row, column), (*one, height, width), steps),
        left=op.left.sliced((*head, row, 0), (*one, height, depth), steps),
        right=op.right.sliced((*head, 0, column), (*one, depth, width), steps),
        bias=None if op.bias is None else op.bias.sliced((column,), (width,), (1,)),
    )


def _table_parts(op: MatMul, part: MatMul, table: Map, target: View, height: int) -> list[Map]:
    """The table behind a part of a product, in parts of so many rows.

    Args:
        target: where the table's results go, in the shape of the whole product.
    """
    pitch = op.output.strides[0]
    row, column = divmod(part.output.offset - op.output.offset, pitch)
    rows, columns = part.output.shape
    return [
        replace(
            table,
            input=part.output.sliced((at, 0), (min(height, rows - at), columns), (1, 1)),
            output=target.sliced((row + at, column), (min(height, rows - at), columns), (1, 1)),
        )
        for at in range(0, rows, height)
    ]


def _softmax_parts(op: Softmax, products: int) -> list[Softmax]:
    """As many rows of a head together as leave no fewer parts than there are products."""
    *lead, rows, columns = op.output.shape
    heads = _heads(lead)
    height = next((n for n in _ROWS if -(-rows // n) * len(heads) >= products), _ROWS[-1])
    one, steps = (1,) * len(lead), (1,) * len(op.output.shape)

    def part(view: View, head: tuple[int, ...], row: int) -> View:
        return view.sliced((*head, row, 0), (*one, min(height, rows - row), columns), steps)

    return [
        replace(
            op,
            input=part(op.input, head, row),
            output=part(op.output, head, row),
            mask=None if op.mask is None else part(op.mask, head, row),
        )
        for head in heads
        for row in range(0, rows, height)
    ]


def _normalisation_parts(op: NormalisationBySums, products: int) -> list[NormalisationBySums]:
    """Some rows each, and some columns of them where that leaves fewer parts than there are products."""
    (rows, columns), (height, width) = op.input.shape, _NORMALISED
    width = columns if -(-rows // height) >= products else width

    def box(view: View, row: int, column: int) -> View:
        return view.sliced((row, column), (min(height, rows - row), min(width, columns - column)), (1, 1))

    def line(view: View, start: int, length: int) -> View:
        return view.sliced((start,), (min(length, view.shape[0] - start),), (1,))

    return [
        replace(
            op,
            input=box(op.input, row, column),
            output=box(op.output, row, column),
            sums=None if op.sums is None else line(op.sums, row, height),
            squares=line(op.squares, row, height),
            gain=line(op.gain, column, width),
            offset=line(op.offset, column, width),
        )
        for row in range(0, rows, height)
        for column in range(0, columns, width)
    ]


def _rows_of_view(view: View | None, start: int, height: int) -> View | None:
    """Rows of a matrix; a vector is the same for every row."""
    if view is None or len(view.shape) == 1:
        return view
    lead = len(view.shape) - 2
    shape = (*view.shape[:lead], height, view.shape[-1])
    return view.sliced((*(0,) * lead, start, 0), shape, (1,) * len(shape))
