"""Tables, softmax, normalisation, products of elements and copies on the accelerator: rows pass through the scratchpad and change
on the way out.

A load brings the tile of up to `dim` rows, whole rows where the function needs them, and a store with the function in force
(CONFIG_FUNCTION) writes it: nothing is computed in between. Tiles take turns, so that loads and stores overlap. A table, or
the gains and offsets of a normalisation, lie in the first rows of the accumulator. The right operand of a product of elements
lies there as the left one does in the scratchpad.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.host_core import COMMAND_CYCLES
from baco.compiler.ir.emit import Emitter, Number, parts
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.steps import StepCost
from baco.compiler.network.tiles import TileWalk
from baco.compiler.ops.elementwise import Map, Multiplication
from baco.compiler.ops.nests import Nest, common, nest_of
from baco.compiler.ops.rows import Normalisation, Softmax
from baco.compiler.ops.views import View
from baco.compiler.row_functions import MOST_COLUMNS, PRODUCT_BITS, VARIANCE_BITS, numerator_parts
from baco.compiler.styles.fused.row_unit import (
    FUNCTIONS,
    RowFunctionName,
    begin_softmax,
    begin_table,
    end_function,
    load_table,
    load_wide,
    table_rows,
)

#: Fraction bits of the factor of a row.
_FACTOR_FRACTION = 8
#: Functions that need all of a row.
_WHOLE_ROWS = ("softmax", "normalisation")
#: Tiles that lie in the scratchpad at once: while one is stored, the next one comes. More loads ahead would take the memory
#: from the stores, which leave it idle while they find out about their rows (measured with 2 to 8). Where tiles are smaller
#: than so many elements, more of them cover the memory's latency.
_TURNS, _MOST_TURNS, _LATENCY_ELEMENTS = 2, 8, 1024

#: Passes of a store over the blocks of its rows before the one with the results: to find the largest element and the sum of
#: exponentials, or sums. What the unit of quotients and roots takes for a row then (accel/rtl/baco_row_statistics.v).
_PASSES: dict[RowFunctionName, int] = {"copy": 0, "table": 0, "softmax": 2, "normalisation": 1, "product": 0}
_ROW_CYCLES: dict[RowFunctionName, int] = {
    "copy": 0,
    "table": 0,
    "softmax": 18,
    "normalisation": 132,
    "product": 0,
}


@dataclass(frozen=True)
class RowCode(OperatorCode):
    """All that the code of a function of rows depends on but its addresses and numbers.

    Attributes:
        function: which one.
        nest: loops over input (of a product left and right) and output; of softmax and normalisation the innermost one is a
            whole row.
        first: of a causal softmax, how many elements of the first row of every matrix take part; None: all, always.
        centre: a normalisation subtracts the mean.
    """

    kinds: ClassVar[str] = "functions of rows"

    function: RowFunctionName
    nest: Nest
    first: int | None = None
    centre: bool = False

    @property
    def kind(self) -> str:
        """See `OperatorCode`."""
        return self.function

    def __str__(self) -> str:
        return self.function

    def cost(self, accelerator: Accelerator) -> StepCost:
        """Loads and a store; see the file for the tiles.

        Memory works all the time, but while the last tile's rows are gone through for what their results depend on; or the stores
        do, from the first tile's arrival on.
        """
        nest, dim, table = self.nest, accelerator.dim, accelerator.energy_law
        outer, extent, _ = nest.split()
        rows = float(math.prod(outer.shape))
        if len(nest.shape) < 2:
            rows, extent = extent / MOVE_BYTES, MOVE_BYTES
        pitches = [steps[-2] if len(steps) > 1 else MOVE_BYTES for steps in nest.strides[:-1]]
        inner = min(float(outer.shape[-1]), rows) if outer.shape else rows
        whole, rest = divmod(inner, dim)
        matrices = rows / inner
        elements, blocks = rows * extent, math.ceil(extent / dim)
        loads = sum(read_cycles(accelerator, rows, extent, pitch) for pitch in pitches)
        memory = loads + elements / bytes_per_cycle(accelerator)
        stores = matrices * (
            whole * _store_cycles(self.function, dim, blocks) + _store_cycles(self.function, rest, blocks)
        )
        first = loads * min(dim, rows) / rows
        last = _PASSES[self.function] * (rest or min(dim, rows)) * blocks
        commands = matrices * math.ceil(inner / dim) * (len(pitches) * math.ceil(extent / MOVE_BYTES) + 1)
        parameters = 4 * extent / bytes_per_cycle(accelerator) if self.function == "normalisation" else 0.0
        profile = PROFILES[accelerator.timing]
        # gains and offsets are read, a right operand is written and read
        wide = {"normalisation": 1, "product": 2}.get(self.function, 0)
        return StepCost(
            max(memory + last, first + stores, commands * COMMAND_CYCLES)
            + parameters
            + profile.begin_and_end
            + profile.table,
            elements
            * (
                (1 + len(pitches)) * table.dram_pj
                + (0.0 if self.function == "copy" else table.function_pj(self.function))
            ),
            wide * elements,
            (2 + _PASSES[self.function]) * elements,
            elements * (1 + len(pitches)),
        )

    def emit(self, name: str, accelerator: Accelerator) -> ModuleOp:
        """See `OperatorCode`."""
        wanted: dict[RowFunctionName, tuple[str, ...]] = {
            "copy": (),
            "table": ("table",),
            "softmax": ("table", "numerator", "shift"),
            "normalisation": ("parameters", "shift", "epsilon"),
            "product": ("shift", "factor"),
        }
        operands = [*(f"input{n}" for n in range(1, len(self.nest.strides))), "output"]
        e = Emitter(name, [*operands, *wanted[self.function]])
        given: list[Number] = list(e.arguments[len(operands) :])
        parameters = 0 if self.function in ("copy", "product") else given.pop(0)
        emit_rows(e, self, accelerator, tuple(e.arguments[: len(operands)]), parameters, given)
        return e.finish()

    def rows_used(self, accelerator: Accelerator) -> tuple[int, int]:
        """Rows of the scratchpad and of the accumulator that the code uses."""
        writer = _RowWriter(Emitter("rows"), self, accelerator)
        kept = 0 if self.function == "copy" else table_rows(accelerator)
        if self.function == "normalisation":
            kept = -(-self.nest.shape[-1] // accelerator.dim)
        elif self.function == "product":
            kept = writer.turns * writer.tile_rows
        return writer.turns * writer.tile_rows, kept


def _store_cycles(function: RowFunctionName, rows: float, blocks: int) -> float:
    """Cycles of a store of rows of so many blocks: passes over all of them, a block a cycle; a unit works on one row after the
    other from its sums on; results follow, and before each block of a normalisation its gains and offsets, of a product its right operand."""
    if not rows:
        return 0.0
    before = max(0, _PASSES[function] - 1) * rows * blocks
    results = blocks * (2 if function in ("normalisation", "product") else 1)
    unit = _ROW_CYCLES[function]
    known = before + max(blocks + rows * unit, rows * blocks + unit) + results if unit else 0.0
    return max(_PASSES[function] * rows * blocks + rows * results, known)


# ---------------------------------------------------------------- plans: the code, or why there is none


def plan_table(op: Map, accelerator: Accelerator) -> RowCode | str:
    """The accelerator's code of a table, or of a copy of int8 elements; a text that says why there is none otherwise."""
    if not accelerator.features.row_functions:
        return _NO_UNIT
    nest = common((op.input, op.output))
    return _refusal(nest, accelerator) or RowCode("copy" if op.table is None else "table", nest)


def plan_softmax(op: Softmax, mask: np.ndarray | None, accelerator: Accelerator) -> RowCode | str:
    """As `plan_table`. `mask`: the elements of the operator's mask, if it has one."""
    if not accelerator.features.row_functions:
        return _NO_UNIT
    if numerator_parts(op.numerator) is None:
        return "its numerator has more than 32 bits"
    first = None
    if mask is not None:
        first = _causal(mask)
        if first is None:
            return "its mask is not causal"
    if first is None:
        rows = _row_nest(op.input, op.output)
    else:  # rows of a matrix stay in order
        rows = nest_of(op.input.shape[:-2], [one.strides[:-2] for one in (op.input, op.output)])
        rows = _inside(rows, op.input.shape[-2], (op.input.strides[-2], op.output.strides[-2]))
    nest = _inside(rows, op.input.shape[-1], _steps(op.input, op.output))
    return _refusal(nest, accelerator, whole_rows=True) or RowCode("softmax", nest, first)


def plan_normalisation(op: Normalisation, accelerator: Accelerator) -> RowCode | str:
    """As `plan_table`."""
    if not accelerator.features.row_functions:
        return _NO_UNIT
    lead = len(op.input.shape) - op.axes
    count = math.prod(op.input.shape[lead:])
    views = []
    for view in (op.input, op.output):
        row = View(view.value, view.shape[lead:], view.strides[lead:]).reshaped((count,))
        if row is None:
            return _APART
        views.append(View(view.value, (*view.shape[:lead], count), (*view.strides[:lead], *row.strides)))
    if any(stride for one in (op.gain, op.offset) for stride in one.strides[:lead]):
        return "its gains differ from row to row"
    if (count**2 << 14) + op.epsilon >= 1 << VARIANCE_BITS:
        return "its variance has more than 48 bits"
    if -(-count // accelerator.dim) > accelerator.accumulator_rows:
        return "its gains and offsets do not fit in the accumulator"
    nest = _inside(_row_nest(*views), count, _steps(*views))
    refusal = _refusal(nest, accelerator, whole_rows=True)
    return refusal or RowCode("normalisation", nest, centre=op.centre)


def plan_product(op: Multiplication, accelerator: Accelerator) -> RowCode | str:
    """As `plan_table`. The shift is the function's, and its factor, of 8 fraction bits, the multiplier: exact up to 12 bits."""
    if not accelerator.features.row_functions:
        return _NO_UNIT
    if not (0 < op.rescale.multiplier < 1 << PRODUCT_BITS and 7 <= op.rescale.shift <= 31):
        return "the ratio of its scales is none that the accelerator has"
    code = RowCode("product", common((op.left, op.right, op.output)))
    refusal = _refusal(code.nest, accelerator)
    if not refusal and _RowWriter(Emitter("rows"), code, accelerator).turns < 1:
        refusal = "a tile of its right operand does not fit in the accumulator"
    return refusal or code


def product_numbers(op: Multiplication) -> tuple[int, int]:
    """Shift and factor of `plan_product`'s code."""
    return op.rescale.shift, op.rescale.multiplier << _FACTOR_FRACTION


_NO_UNIT = "the accelerator has no units for functions of rows"
_APART = "the elements of a row are not neighbours in memory"


def _row_nest(source: View, target: View) -> Nest:
    return nest_of(source.shape[:-1], [one.strides[:-1] for one in (source, target)])


def _steps(source: View, target: View) -> tuple[int, int]:
    """From element to element of a row; any will do for a single one."""
    one = source.shape[-1] == 1
    return (1, 1) if one else (source.strides[-1], target.strides[-1])


def _inside(outer: Nest, extent: int, steps: tuple[int, int]) -> Nest:
    """One more loop inside, over rows or the elements of one, even if it runs once; two loops at least."""
    shape, strides = outer.shape, outer.strides
    if not shape:
        shape, strides = (1,), tuple((0,) for _ in steps)
    return Nest((*shape, extent), tuple((*one, step) for one, step in zip(strides, steps, strict=True)))


def _refusal(nest: Nest, accelerator: Accelerator, *, whole_rows: bool = False) -> str:
    """Why the accelerator cannot walk over the operands, or should not; nothing if it can."""
    if any(step < 0 for steps in nest.strides for step in steps):
        return "its operands run backwards"
    if nest.shape and any(steps[-1] != 1 for steps in nest.strides):
        return _APART
    columns = nest.shape[-1] if nest.shape else 1
    if len(nest.shape) > 1 and columns * 4 < accelerator.dim:
        return "its rows are a few elements: the host is faster"
    if columns > MOST_COLUMNS and whole_rows:
        return f"its rows of {columns} elements are longer than {MOST_COLUMNS}"
    wide = columns if whole_rows else min(columns, MOVE_BYTES)
    if _tile_rows(wide, accelerator) > accelerator.scratchpad_rows:
        return f"its rows of {columns} elements do not fit in the scratchpad"
    if table_rows(accelerator) > accelerator.accumulator_rows:
        return "a table does not fit in the accumulator"
    return ""


def _causal(mask: np.ndarray) -> int | None:
    """How many elements of the first row take part where each row of a matrix has one more than the one before it."""
    if mask.ndim < 2:
        return None
    rows, columns = mask.shape[-2:]
    first = int(np.count_nonzero(mask[(0,) * (mask.ndim - 1)]))
    wanted = np.arange(columns) < first + np.arange(rows)[:, None]
    return first if ((mask != 0) == wanted).all() else None


def _tile_rows(columns: int, accelerator: Accelerator) -> int:
    """Scratchpad rows of a tile of whole rows: its blocks of columns lie `dim` rows apart."""
    return -(-columns // accelerator.dim) * accelerator.dim


# ---------------------------------------------------------------- constants


def packed_parameters(gain: np.ndarray, offset: np.ndarray, dim: int) -> np.ndarray:
    """int32 [blocks, dim]: offsets above gains of 16 bits each, as CONFIG_FUNCTION takes them; both [columns]."""
    words = (gain.astype(np.int64) & 0xFFFF) | (offset.astype(np.int64) & 0xFFFF) << 16
    padded = np.zeros(-(-len(words) // dim) * dim, np.uint32)
    padded[: len(words)] = words.astype(np.uint32)
    return padded.view(np.int32).reshape(-1, dim)


# ---------------------------------------------------------------- code


def emit_rows(
    e: Emitter,
    code: RowCode,
    accelerator: Accelerator,
    addresses: tuple[Number, ...],
    parameters: Number,
    numbers: Sequence[Number],
) -> None:
    """Write the code of a function.

    Args:
        addresses: of the operands of the code's nest.
        parameters: address of the table (`packed_table`), or of gains and offsets (`packed_parameters`); not used by copies and
            products.
        numbers: of a softmax its numerator and that one's shift; of a normalisation its shift and epsilon; of a product `product_numbers`.
    """
    writer = _RowWriter(e, code, accelerator)
    writer.write(addresses, parameters, numbers)


class _RowWriter:
    def __init__(self, e: Emitter, code: RowCode, accelerator: Accelerator) -> None:
        self.e, self.code, self.accelerator = e, code, accelerator
        dim = accelerator.dim
        # as many whole blocks as one move takes
        self.chunk = max(dim, MOVE_BYTES // dim * dim)
        columns = code.nest.split()[1]
        self.wide = _tile_rows(columns, accelerator) if code.function in _WHOLE_ROWS else self.chunk
        self.tile_rows = _tile_rows(min(columns, self.wide), accelerator)
        turns = _TURNS + _LATENCY_ELEMENTS // (dim * min(columns, self.wide))
        self.turns = max(1, min(accelerator.scratchpad_rows // self.tile_rows, turns, _MOST_TURNS))
        if code.function == "product":
            self.turns = min(self.turns, accelerator.accumulator_rows // self.tile_rows)

    def write(self, addresses: tuple[Number, ...], parameters: Number, numbers: Sequence[Number]) -> None:
        """The whole function."""
        e, code, dim = self.e, self.code, self.accelerator.dim
        walk = TileWalk(e, code.nest, dim, self.wide)
        *sources, target = walk.pitches
        matrix = None
        if code.function == "table":
            begin_table(e, self.accelerator, parameters)
        elif code.function == "softmax":
            load_table(e, self.accelerator, parameters)
            if code.first is None:
                self._softmax(*numbers)
            else:  # each matrix begins with its first row
                matrix = functools.partial(self._softmax, *numbers)
        elif code.function == "normalisation":
            self._normalisation(parameters, *numbers)
        elif code.function == "product":
            self._product(*numbers)
        for state, pitch in enumerate(sources):
            # elements of the second operand become as wide as the accumulator's
            e.command("config_ld", state=state, block_stride=dim, stride=pitch, shrink=state)
        e.command("config_st", stride=target)
        walk.each(addresses, self._tile, matrix)
        if code.function != "copy":
            end_function(e)

    def _softmax(self, numerator: Number, shift: Number) -> None:
        begin_softmax(self.e, numerator, shift, self.code.first)

    def _normalisation(self, parameters: Number, shift: Number, epsilon: Number) -> None:
        columns, dim = self.code.nest.shape[-1], self.accelerator.dim
        load_wide(self.e, self.accelerator, parameters, -(-columns // dim), dim)
        self.e.command(
            "config_function",
            function=FUNCTIONS["normalisation"],
            centre=int(self.code.centre),
            shift=shift,
            parameter=self.e.local(0, accumulator=True),
            epsilon=epsilon,
        )

    def _product(self, shift: Number, factor: Number) -> None:
        self.e.command(
            "config_function",
            function=FUNCTIONS["product"],
            product=1,
            shift=shift,
            parameter=self.e.local(0, accumulator=True),
            epsilon=factor,
        )

    def _tile(self, size: tuple[int, int], addresses: tuple[Number, ...], turn: Number) -> None:
        e = self.e
        rows, columns = size
        *sources, target = addresses
        slot = e.mul(e.mod(turn, self.turns), self.tile_rows)
        # blocks of a tile lie dim rows apart: as many rows as the columns before them
        for width, first, count in parts(columns, self.chunk):
            with e.loop(count) as n:
                column = e.mul(e.add(n, first), self.chunk)
                place = e.add(slot, column)
                for name, source in zip(("mvin", "mvin2"), sources, strict=False):
                    local = place if name == "mvin" else e.local(place, accumulator=True)
                    e.command(name, address=e.add(source, column), local=local, cols=width, rows=rows)
        e.command("mvout", address=target, local=slot, cols=columns, rows=rows)
