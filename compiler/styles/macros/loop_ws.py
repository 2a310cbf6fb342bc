"""Matrix products by LOOP_WS: one run of the macro a tile, tiles in any order.

The host writes six commands a tile. What keeps the array busy is the macro's: its two slots let the loads of a tile
overlap the products and stores of the one before, so nothing here waits but where partial sums go through main memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW
from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.schedules.schedule import LoopWsSchedule
from baco.compiler.schedules.style import check_weight_bits
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.macros.reuse import Reuse, plan_reuse
from baco.compiler.styles.macros.tile_rows import product_tile_rows

#: Name of the workspace of int32 partial sums, dense `[rows, columns]` of one group.
PARTIAL_SUMS = "partial_sums"


@dataclass(frozen=True)
class Product:
    """A layer of one group as a matrix product, in elements: rows x depth times depth x columns."""

    rows: int
    columns: int
    depth: int

    def blocks(self, dim: int) -> tuple[int, int, int]:
        """Blocks of the array's side in rows, columns, depth."""
        return -(-self.rows // dim), -(-self.columns // dim), -(-self.depth // dim)


def as_product(layer: Layer) -> Product | None:
    """The layer as a product of all its pixels; None if it is none (a window, stride, padding or pooling)."""
    p = layer.problem
    if p.R > 1 or p.S > 1 or layer.padding != (0, 0) or layer.pooling or layer.size != (p.Q, p.P):
        return None
    if (p.stride_w > 1 and p.P > 1) or (p.stride_h > 1 and p.Q > 1):
        return None
    return Product(p.N * p.Q * p.P, p.K, p.C)


def check_loop_ws(layer: Layer, schedule: LoopWsSchedule, accelerator: Accelerator) -> Product:
    """The product that the schedule carries out. Raises InfeasibleError with the reason if it cannot."""
    product = as_product(layer)
    features = accelerator.features
    if product is None:
        raise InfeasibleError("LOOP_WS computes matrix products only, and the layer is a convolution")
    if not features.loop_ws or MACRO_DATAFLOW not in accelerator.dataflows:
        raise InfeasibleError(f"{accelerator.name} has no LOOP_WS")
    if layer.bias and layer.residual_scale is not None:
        raise InfeasibleError("LOOP_WS adds one matrix, not both a bias and a residual")
    if not features.read_full_width and (layer.scale is None or sums_wait(layer, schedule, accelerator)):
        raise InfeasibleError(f"{accelerator.name} cannot store int32 sums")
    if layer.scale is not None and not features.read_small_width:
        raise InfeasibleError(f"{accelerator.name} cannot store requantised sums")
    check_epilogue(layer, accelerator)
    check_weight_bits(layer, accelerator)
    weights, inputs, results = product_rows(product, schedule, accelerator.dim)
    check_halves(inputs + weights, results, accelerator)
    return product


def product_rows(product: Product, schedule: LoopWsSchedule, dim: int) -> tuple[int, int, int]:
    """Rows of the local memories that a tile's weights, inputs and results take."""
    return product_tile_rows(*_tile(schedule, product.blocks(dim)), dim)


def check_halves(scratchpad: int, accumulator: int, accelerator: Accelerator) -> None:
    """Raise InfeasibleError unless a tile's rows fit half of either local memory, which a macro's slot has."""
    for name, rows, half in (
        ("scratchpad", scratchpad, accelerator.scratchpad_rows // 2),
        ("accumulator", accumulator, accelerator.accumulator_rows // 2),
    ):
        if rows > half:
            raise InfeasibleError(
                f"a tile takes {rows} rows of the {name}, {rows - half} more than half of it has",
                hint="take smaller tiles",
            )


def check_epilogue(layer: Layer, accelerator: Accelerator) -> None:
    """Raise InfeasibleError for a step on the way out that the accelerator was built without."""
    features = accelerator.features
    if layer.relu and not features.activations:
        raise InfeasibleError(f"{accelerator.name} has no ReLU")
    if layer.scale not in (None, 1.0) and not features.accumulator_scale:
        raise InfeasibleError(f"{accelerator.name} cannot scale results")
    if layer.residual_scale not in (None, 1.0) and not features.mvin_scale:
        raise InfeasibleError(f"{accelerator.name} cannot scale a residual")


def _tile(schedule: LoopWsSchedule, blocks: tuple[int, int, int]) -> tuple[int, int, int]:
    """The schedule's tile, no larger than the product."""
    return min(schedule.i, blocks[0]), min(schedule.j, blocks[1]), min(schedule.k, blocks[2])


def sums_wait(layer: Layer, schedule: LoopWsSchedule, accelerator: Accelerator) -> bool:
    """Whether partial sums go through main memory: a tile of C is left before its depth is done."""
    product = as_product(layer)
    if product is None:
        return False
    blocks = product.blocks(accelerator.dim)
    tile = _tile(schedule, blocks)
    trips = {axis: -(-n // t) for axis, n, t in zip("ijk", blocks, tile, strict=True)}
    inside = schedule.order[schedule.order.index("k") + 1 :]
    return trips["k"] > 1 and any(trips[axis] > 1 for axis in inside)


class LoopWs:
    """Writes the runs of one layer; several layers of one left operand may share their loop over its rows
    (`baco.compiler.styles.fused.merged`).

    Attributes:
        trips: tiles by axis.
        keep_a, keep_b: what stays in the scratchpad from run to run.
    """

    def __init__(
        self,
        e: Emitter,
        layer: Layer,
        schedule: LoopWsSchedule,
        accelerator: Accelerator,
        operands: Operands,
        product: Product,
    ) -> None:
        self.e, self.layer, self.operands, self.dim = e, layer, operands, accelerator.dim
        self.product = product
        self.packed = int(layer.weight_bits == 4)
        blocks = product.blocks(self.dim)
        self.order = schedule.order
        self.sizes = {"i": product.rows, "j": product.columns, "k": product.depth}
        self.blocks = dict(zip("ijk", blocks, strict=True))
        self.tile = dict(zip("ijk", _tile(schedule, blocks), strict=True))
        self.trips = {axis: -(-self.blocks[axis] // self.tile[axis]) for axis in "ijk"}
        self.spills = sums_wait(layer, schedule, accelerator)
        loops = [Trip("g", layer.problem.groups), *(Trip(axis, self.trips[axis]) for axis in schedule.order)]
        self.keep_a = plan_reuse(loops, "gik") if schedule.keep_a else None
        self.keep_b = plan_reuse(loops, "gjk") if schedule.keep_b else None

    def emit(self) -> None:
        """The whole layer."""
        self.configure()
        self.loops("g" + self.order, {})

    def loops(self, axes: str, at: dict[str, Number]) -> None:
        """The loops over tiles, outermost first, with the run inside; `at` has the numbers of those outside."""
        if not axes:
            self._run(at)
            return
        trips = self.layer.problem.groups if axes[0] == "g" else self.trips[axes[0]]
        with self.e.loop(trips, hint=axes[0]) as number:
            at = at | {axes[0]: number}
            if axes[0] == "k" and self.spills:
                self._enter_depth(number)
            self.loops(axes[1:], at)

    # ---------------------------------------------------------------- configuration

    def configure(self) -> None:
        """All that the runs need."""
        self.configure_loads()
        if not self.spills:
            self.configure_addend()
            self._configure_store()

    def configure_loads(self) -> None:
        """How products take B, and loads of both operands."""
        e, layer = self.e, self.layer
        e.command("config_ex", dataflow=1, b_transpose=int(layer.weights_transposed))
        e.command("config_ld", state=0, block_stride=self.dim, stride=layer.input.pitch * layer.element_bytes)
        e.command(
            "config_ld", state=1, block_stride=self.dim, stride=layer.weight_steps.pitch, packed=self.packed
        )

    def configure_addend(self) -> None:
        """Loads of D: a row of the bias for all rows, or the residual."""
        layer = self.layer
        if layer.residual_scale is not None:
            self.e.command("config_ld", state=2, block_stride=self.dim, shrink=1,
                           stride=layer.output.pitch * layer.element_bytes, scale=float32_bits(layer.residual_scale))  # fmt: skip
        else:
            self.e.command("config_ld", state=2, block_stride=self.dim, stride=0)

    def _configure_store(self) -> None:
        layer = self.layer
        if layer.scale is None:
            self.e.command("config_st", stride=layer.output.pitch * 4)
        else:
            self.e.command("config_st", activation=int(layer.relu), stride=layer.output.pitch * layer.element_bytes,
                           acc_scale=float32_bits(layer.scale))  # fmt: skip

    def _enter_depth(self, k: Number) -> None:
        """A step of the depth whose sums come from and go to main memory: what the step before wrote must be there."""
        e, last = self.e, self.trips["k"] - 1
        e.fence()
        with e.when(e.compare("eq", k, 0)):
            self.configure_addend()
        with e.when(e.compare("ne", k, 0)):
            e.command("config_ld", state=2, block_stride=self.dim, stride=self._sums_pitch * 4)
        with e.when(e.compare("eq", k, last)):
            self._configure_store()
        with e.when(e.compare("ne", k, last)):
            e.command("config_st", stride=self._sums_pitch * 4)

    @property
    def _sums_pitch(self) -> int:
        """Elements from row to row of the partial sums: in the raw output itself, or in a dense workspace."""
        return self.layer.output.pitch if self.layer.scale is None else self.product.columns

    # ---------------------------------------------------------------- one tile

    def _extent(self, axis: str, number: Number) -> tuple[Number, Number]:
        """Blocks of a tile along an axis, and elements that its last block lacks."""
        e, tile, blocks, trips = self.e, self.tile[axis], self.blocks[axis], self.trips[axis]
        last = e.compare("eq", number, trips - 1)
        pad = blocks * self.dim - self.sizes[axis]
        return e.select(last, blocks - (trips - 1) * tile, tile), e.select(last, pad, 0)

    def _run(self, at: dict[str, Number]) -> None:
        e, layer, operands = self.e, self.layer, self.operands
        first, last = e.compare("eq", at["k"], 0), e.compare("eq", at["k"], self.trips["k"] - 1)
        (i, pad_i), (j, pad_j), (k, pad_k) = (self._extent(axis, at[axis]) for axis in "ijk")
        row, column, inner = (e.mul(at[axis], self.tile[axis] * self.dim) for axis in "ijk")

        element = layer.element_bytes
        before = e.mul(at["g"], layer.input.group), e.mul(row, layer.input.pitch), inner
        a = e.address(operands.input, element, *before)
        weight_at = (column, inner) if layer.weights_transposed else (inner, column)
        b = e.add(
            operands.weight,
            e.mul(at["g"], layer.weight_steps.group),
            e.mul(weight_at[0], layer.weight_steps.pitch),
            e.div(weight_at[1], 2) if self.packed else e.mul(weight_at[1], element),
        )
        a, a_id = self._reused(self.keep_a, a, at)
        b, b_id = self._reused(self.keep_b, b, at)

        place = e.add(e.mul(at["g"], layer.output.group), e.mul(row, layer.output.pitch), column)
        size = 4 if layer.scale is None else element
        target = e.add(operands.output, e.mul(place, size))
        d: Number = 0
        d_stride: Number = 0
        if layer.bias:
            d = e.add(operands.bias, e.mul(e.add(e.mul(at["g"], layer.problem.K), column), 4))
        elif layer.residual_scale is not None:
            d, d_stride = e.add(operands.residual, e.mul(place, element)), layer.output.pitch
        added = d != 0 if isinstance(d, int) else True
        c_stride: Number = layer.output.pitch
        full_c: Number = int(layer.scale is None)
        low_d: Number = int(layer.residual_scale is not None)
        if self.spills:
            sums = target
            if layer.scale is not None:
                at_sums = e.add(e.mul(row, self._sums_pitch), column)
                sums = e.add(operands.workspaces[PARTIAL_SUMS], e.mul(at_sums, 4))
            d, d_stride = e.select(first, d, sums), e.select(first, d_stride, self._sums_pitch)
            low_d, full_c = e.select(first, low_d, 0), e.select(last, full_c, 1)
            target, c_stride = e.select(last, target, sums), e.select(last, c_stride, self._sums_pitch)
        else:
            d, target = e.select(first, d, 0), e.select(last, target, 0)

        e.command("loop_ws_config_bounds", pad_i=pad_i, pad_j=pad_j, pad_k=pad_k, i=i, j=j, k=k)
        e.command("loop_ws_config_addrs_ab", a=a, b=b)
        e.command("loop_ws_config_addrs_dc", d=d, c=target)
        e.command("loop_ws_config_strides_ab", a_stride=layer.input.pitch, b_stride=layer.weight.pitch)
        e.command("loop_ws_config_strides_dc", d_stride=d_stride, c_stride=c_stride)
        e.command(
            "loop_ws", ex_accumulate=1 if added else e.select(first, 0, 1), full_c=full_c, low_d=low_d,
            a_spad_id=a_id, b_spad_id=b_id, b_transpose=int(layer.weights_transposed), b_packed=self.packed,
        )  # fmt: skip

    def _reused(self, reuse: Reuse | None, address: Number, at: dict[str, Number]) -> tuple[Number, Number]:
        """Address (null where the operand is there already) and scratchpad id."""
        return (address, 0) if reuse is None else (reuse.address(self.e, address, at), reuse.half(self.e, at))
