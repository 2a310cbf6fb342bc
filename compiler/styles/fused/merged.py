"""Products of the same left operand as one unit: its rows come once for all of them (queries, keys and values of attention).

Each product keeps its own weights, bias, activation, scale and result. A tile is a run of LOOP_WS, as of products by
themselves; tiles of the left operand stay in the scratchpad while those of all right operands pass, or all of the left
operand does, and each tile of a right operand while all rows pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.analysis.arrays import Values
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.schedules.schedule import LoopWsSchedule
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.fused.predict import ALIKE, UnitCost
from baco.compiler.styles.fused.row_unit import table_rows
from baco.compiler.styles.macros.estimate import cycles_of_products
from baco.compiler.styles.macros.loop_ws import LoopWs, Product, check_loop_ws, product_rows
from baco.compiler.styles.macros.reuse import plan_reuse

#: Cycles from one product's runs to the next one's: nothing is unrolled while what stores do is set (measured on our RTL).
_CHANGE = 60.0


@dataclass(frozen=True)
class MergedProducts:
    """Products of one left operand.

    Attributes:
        layers: of one group each, with int8 results; the same rows, depth and layout of the left operand.
        tables: of each, whether its results go through a table on their way out; the same table for all that do.
    """

    layers: tuple[Layer, ...]
    tables: tuple[bool, ...]

    def __post_init__(self) -> None:
        if len(self.layers) < 2 or len(self.tables) != len(self.layers):
            raise InputError("two products and more are one unit")
        for one in self.layers:
            if not one.is_product or one.problem.N > 1 or one.problem.groups > 1 or one.scale is None:
                raise InputError("products of one left operand are of one group, with int8 results")
            if one.pooling or one.residual_scale is not None:
                raise InputError("products of one left operand have neither residual nor pooling")
        if len({(one.problem.P, one.problem.C, one.input) for one in self.layers}) > 1:
            raise InputError("products of one left operand have the same rows, depth and layout of it")

    def __str__(self) -> str:
        return " + ".join(str(one.problem) for one in self.layers)

    @property
    def product(self) -> Product:
        """Of all columns."""
        p = self.layers[0].problem
        return Product(p.P, sum(one.problem.K for one in self.layers), p.C)

    @property
    def whole(self) -> Layer:
        """All columns as one layer."""
        first, columns = self.layers[0], self.product.columns
        return replace(
            first,
            problem=replace(first.problem, K=columns),
            bias=any(one.bias for one in self.layers),
            weight=first.weight
            if first.weights_transposed
            else replace(first.weight, pitch=max(first.weight.pitch, columns)),
            output=replace(first.output, pitch=max(first.output.pitch, columns)),
        )


@dataclass(frozen=True)
class MergedSchedule:
    """How products of one left operand are tiled.

    Attributes:
        i, j, k: blocks of the array's side in rows, columns and depth of a tile.
        holds: what stays while the others pass: a tile of `rows` of the left operand, or all of it and a tile of `columns`
            of a right one.
    """

    i: int
    j: int
    k: int
    holds: Literal["rows", "columns"]

    def __str__(self) -> str:
        return f"merged {self.i},{self.j},{self.k} holds {self.holds}"

    @property
    def runs(self) -> LoopWsSchedule:
        """Of one of the products."""
        if self.holds == "rows":
            return LoopWsSchedule(self.i, self.j, self.k, "ijk", keep_a=True)
        return LoopWsSchedule(self.i, self.j, self.k, "jik", keep_a=True, keep_b=True)


def _loops(merged: MergedProducts, schedule: MergedSchedule, dim: int) -> list[Trip]:
    """The loops over tiles, outermost first, that over products (`p`) included; of columns as many as any product has.

    Raises InfeasibleError where the left operand would come more than once for all.
    """
    rows, _, depth = merged.product.blocks(dim)
    columns = max(math.ceil(one.problem.K / dim) for one in merged.layers)
    trips = {
        "i": math.ceil(rows / schedule.i),
        "p": len(merged.layers),
        "j": math.ceil(columns / schedule.j),
        "k": math.ceil(depth / schedule.k),
    }
    order = "ipjk" if schedule.holds == "rows" else "pjik"
    loops = [Trip(axis, trips[axis]) for axis in order]
    if plan_reuse(loops, "ik") is None:
        raise InfeasibleError(f"{schedule}: the left operand has more tiles than stay in the scratchpad")
    return loops


def _check(merged: MergedProducts, schedule: MergedSchedule, accelerator: Accelerator) -> list[Trip]:
    """The loops. Raises InfeasibleError for a schedule that does not fit."""
    if any(merged.tables) and not accelerator.features.row_functions:
        raise InfeasibleError(f"{accelerator.name} has no units for functions of rows")
    for one in merged.layers:
        check_loop_ws(one, schedule.runs, accelerator)
    return _loops(merged, schedule, accelerator.dim)


def merged_rows(
    merged: MergedProducts, schedule: MergedSchedule, accelerator: Accelerator
) -> tuple[int, int]:
    """Rows of scratchpad and accumulator that a schedule needs on arrays of the accelerator's side: a macro's tiles twice, or a
    table."""
    sizes = [
        product_rows(Product(one.problem.P, one.problem.K, one.problem.C), schedule.runs, accelerator.dim)
        for one in merged.layers
    ]
    sums, table = max(2 * results for *_, results in sizes), table_rows(accelerator) * any(merged.tables)
    return max(2 * (weights + inputs) for weights, inputs, _ in sizes), max(sums, table)


# ---------------------------------------------------------------- cost


def predict_merged(merged: MergedProducts, schedule: MergedSchedule, accelerator: Accelerator) -> UnitCost:
    """Of all products. Raises InfeasibleError for a schedule that does not fit."""
    _check(merged, schedule, accelerator)
    return _costs(merged, [schedule], accelerator)[0]


def merged_costs(merged: MergedProducts, accelerator: Accelerator) -> list[tuple[MergedSchedule, UnitCost]]:
    """Of all schedules worth looking at that fit. Raises InfeasibleError where none does."""
    fitting: dict[str, list[MergedSchedule]] = {}
    reason = ""
    for schedule in merged_schedules(merged, accelerator.dim):
        try:
            _check(merged, schedule, accelerator)
        except InfeasibleError as error:
            reason = error.message
        else:
            fitting.setdefault(schedule.holds, []).append(schedule)
    if not fitting:
        raise InfeasibleError(f"no tiles of the products fit: {reason}")
    return [
        pair
        for alike in fitting.values()
        for pair in zip(alike, _costs(merged, alike, accelerator), strict=True)
    ]


def _costs(
    merged: MergedProducts, schedules: Sequence[MergedSchedule], accelerator: Accelerator
) -> list[UnitCost]:
    """Of schedules that fit and hold the same."""
    runs, by_rows = schedules[0].runs, schedules[0].holds == "rows"
    i, j, k = np.array([(schedule.i, schedule.j, schedule.k) for schedule in schedules], dtype=np.int64).T

    # as one product, and each, which are often alike
    each = list(dict.fromkeys(merged.layers))
    keeps = (runs.keep_a, runs.keep_b)
    found = cycles_of_products([merged.whole, *each], accelerator, (i, j, k), runs.order, keeps)
    dim, product = accelerator.dim, merged.product
    rows, _, depth = product.blocks(dim)
    trips_i = np.ceil(rows / i)
    changes = (trips_i if by_rows else 1.0) * len(merged.layers) - 1.0
    cycles = found.total[0] + changes * _CHANGE
    shape = (len(each) + 1, len(schedules))
    inputs, weight_bytes, addends, result_bytes = (
        np.broadcast_to(one, shape)
        for one in (found.input_bytes, found.weight_bytes, found.addend_bytes, found.result_bytes)
    )
    read = inputs[1]
    written: Values = 0.0
    for n in (1 + each.index(layer) for layer in merged.layers):
        read = read + weight_bytes[n] + addends[n]
        written = written + result_bytes[n]
    across = sum(math.ceil(layer.problem.K / dim) for layer in merged.layers)
    results = float(product.rows * across * dim)
    biased = sum(float(product.rows * layer.problem.K) for layer in merged.layers if layer.bias)
    weights = float(depth * across * dim * dim)
    taken = trips_i * weights
    loaded = taken if by_rows else weights
    numbers = np.broadcast_arrays(cycles, np.round(read), np.round(written), taken, loaded)
    return [
        UnitCost(
            cycles=cycles,
            read_bytes=read,
            written_bytes=written,
            macs=float(product.rows * product.depth * product.columns),
            stationary_words=taken,
            accumulator_words=results * 2 * depth + biased,
            scratchpad_bytes=product.rows * depth * dim * (1.0 + across) + loaded + taken,
            softmax_elements=0.0,
        )
        for cycles, read, written, taken, loaded in np.array(numbers).T.tolist()
    ]


def merged_schedules(merged: MergedProducts, dim: int) -> Iterator[MergedSchedule]:
    """Schedules worth looking at on arrays of a side, whether they fit its memories or not."""
    rows, _, depth = merged.product.blocks(dim)
    columns = max(math.ceil(one.problem.K / dim) for one in merged.layers)
    parts = [sorted({math.ceil(size / n) for n in range(1, size + 1)}) for size in (rows, columns)]
    for i, j, k in itertools.product(*parts, sorted({depth, math.ceil(depth / 2)})):
        trips_i, trips_k = math.ceil(rows / i), math.ceil(depth / k)
        yield MergedSchedule(i, j, k, "rows")
        if trips_i > 1 and trips_i * trips_k <= 2:
            yield MergedSchedule(i, j, k, "columns")


def choose_merged(merged: MergedProducts, accelerator: Accelerator) -> MergedSchedule:
    """Of the schedules of about the fewest predicted cycles the one that moves least. Raises InfeasibleError where none fits."""
    found = merged_costs(merged, accelerator)
    fastest = min(cost.cycles for _, cost in found)
    alike = [pair for pair in found if pair[1].cycles <= ALIKE * fastest]
    return min(alike, key=lambda pair: (pair[1].read_bytes + pair[1].written_bytes, pair[1].cycles))[0]


# ---------------------------------------------------------------- code


def emit_merged(
    e: Emitter,
    merged: MergedProducts,
    schedule: MergedSchedule,
    accelerator: Accelerator,
    operands: Sequence[Operands],
    scales: Sequence[Number],
    table: Callable[[bool], None],
) -> None:
    """Write the code of all products where `e` stands. No fence at the end.

    Args:
        operands: of every product; the same input.
        scales: bits of their float32 scales.
        table: writes the command that lets results go through the table from here on, or no longer.

    Raises InfeasibleError for a schedule that does not fit the products or the accelerator.
    """
    loops = _check(merged, schedule, accelerator)
    reuse = plan_reuse(loops, "ik")
    writers = []
    for layer, one in zip(merged.layers, operands, strict=True):
        product = check_loop_ws(layer, schedule.runs, accelerator)
        writer = LoopWs(e, layer, schedule.runs, accelerator, one, product)
        writer.keep_a = reuse
        writers.append(writer)
    writers[0].configure_addend()

    def product_runs(number: int, at: dict[str, Number]) -> None:
        # all of the product before has been unrolled, and nothing of this one, when these take effect
        layer, writer = merged.layers[number], writers[number]
        writer.configure_loads()
        e.command(
            "config_st", stride=layer.output.pitch, activation=int(layer.relu), acc_scale=scales[number]
        )
        if any(merged.tables):
            table(merged.tables[number])
        writer.loops("jk" if schedule.holds == "rows" else "jik", at | {"g": 0, "p": number})

    if schedule.holds == "rows":
        with e.loop(loops[0].count, hint="i") as i:
            for number in range(len(writers)):
                product_runs(number, {"i": i})
    else:
        for number in range(len(writers)):
            product_runs(number, {})
