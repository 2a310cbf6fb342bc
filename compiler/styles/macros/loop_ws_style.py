"""The code style of LOOP_WS: which mappings are tilings of products, and back."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import LoopWsSchedule
from baco.compiler.schedules.style import LayerPlan
from baco.compiler.schedules.trip import Trip
from baco.compiler.styles.macros.loop_ws import (
    PARTIAL_SUMS,
    LoopWs,
    Product,
    as_product,
    check_loop_ws,
    product_rows,
    sums_wait,
)
from baco.compiler.styles.macros.macro_style import PIXELS, MacroStyle, kept, macro_plan, mapping_of_tiles


class LoopWsStyle(MacroStyle[LoopWsSchedule]):
    """Matrix products in tiles, one run of LOOP_WS each."""

    schedule = LoopWsSchedule

    def plan(self, layer: Layer, schedule: LoopWsSchedule, accelerator: Accelerator) -> LayerPlan:
        product, dim = check_loop_ws(layer, schedule, accelerator), accelerator.dim
        waiting = layer.scale is not None and sums_wait(layer, schedule, accelerator)

        def emit(e: Emitter, operands: Operands) -> None:
            LoopWs(e, layer, schedule, accelerator, operands, product).emit()

        return macro_plan(
            accelerator,
            product_rows(product, schedule, dim),
            (min(dim, product.depth), min(dim, product.columns)),
            emit,
            ((PARTIAL_SUMS, layer.pixels_out * layer.problem.K * 4),) if waiting else (),
        )

    def _of_tile(
        self, layer: Layer, mapping: Mapping, tile: dict[str, int], busy: list[str], accelerator: Accelerator
    ) -> LoopWsSchedule | None:
        product = as_product(layer)
        order = product and _product_order(mapping.order[3][::-1], busy)
        return _product_form(layer, product, tile, order, accelerator.dim) if product and order else None

    def mapping(self, layer: Layer, schedule: LoopWsSchedule, accelerator: Accelerator) -> Mapping:
        product = as_product(layer)
        if product is None:
            raise InfeasibleError("LOOP_WS computes matrix products only, and the layer is a convolution")
        return _mapping_of_product(layer, product, schedule, accelerator.dim)

    def counted(
        self, layer: Layer, schedule: LoopWsSchedule, accelerator: Accelerator
    ) -> tuple[Layer, Mapping]:
        flat = flat_layer(layer)
        return flat, self.mapping(flat, schedule, accelerator)


def flat_layer(layer: Layer) -> Layer:
    """A layer that is a matrix product as one whose pixels are a single row, every other one as it is.

    The tensors lie in memory as before. Mappings of the flat layer can say every tiling of LOOP_WS.
    """
    product = as_product(layer)
    if product is None or layer.is_product:
        return layer
    p = layer.problem
    return replace(
        layer,
        problem=replace(
            p, P=product.rows, Q=1, N=1, stride_w=1, stride_h=1, dilation_w=1, dilation_h=1
        ),
        image=(1, product.rows),
    )  # fmt: skip


def _product_order(loops: str, busy: list[str]) -> str | None:
    """The loops over tiles as LOOP_WS has them, both outermost first; None if others split those over pixels.

    Loops that run once stand where they are written, the depth innermost.
    """
    pixels = [name for name in loops if name in PIXELS and name in busy] or ["P"]
    depth = ["C"] if "C" in busy else []
    of = dict.fromkeys(pixels, "i") | {"K": "j"} | dict.fromkeys(depth, "k")
    order = "".join(of[name] for name in loops if name in of)
    order = _collapsed(order)
    if "K" not in busy and order.count("i") > 1:  # a loop that does not run splits nothing
        order = _collapsed(order.replace("j", "")) + "j"
    order += "" if depth else "k"
    return order if len(order) == 3 else None


def _collapsed(order: str) -> str:
    """Neighbours of one kind as one."""
    return "".join(axis for axis, _ in itertools.groupby(order))


def _product_form(
    layer: Layer, product: Product, tile: dict[str, int], order: str, dim: int
) -> LoopWsSchedule:
    blocks = product.blocks(dim)
    i = min(-(-math.prod(tile[name] for name in PIXELS) // dim), blocks[0])
    j, k = -(-tile["K"] // dim), -(-tile["C"] // dim)
    trips = {axis: -(-whole // part) for axis, whole, part in zip("ijk", blocks, (i, j, k), strict=True)}
    loops = [Trip("g", layer.problem.groups), *(Trip(axis, trips[axis]) for axis in order)]
    return LoopWsSchedule(
        i, j, k, order, keep_a=kept(loops, "gik", "j"), keep_b=kept(loops, "gjk", "i")
    )  # fmt: skip


def _mapping_of_product(layer: Layer, product: Product, schedule: LoopWsSchedule, dim: int) -> Mapping:
    p = layer.problem
    blocks = product.blocks(dim)
    i, j, k = (
        min(part, whole) for part, whole in zip((schedule.i, schedule.j, schedule.k), blocks, strict=True)
    )
    pixels = _pixels_of(layer, i, dim)
    rows, columns = min(dim, p.C), min(dim, p.K)
    order = "".join({"i": "PQN", "j": "K", "k": "RSC"}[axis] for axis in reversed(schedule.order))
    trips = {"C": -(-blocks[2] // k), "K": -(-blocks[1] // j)}
    trips |= {name: -(-getattr(p, name) // size) for name, size in pixels.items()}
    return mapping_of_tiles(rows, columns, pixels, {"C": k, "K": j}, trips, order)


def _pixels_of(layer: Layer, blocks: int, dim: int) -> dict[str, int]:
    """Columns, rows and images of a tile that takes so many blocks of `dim` pixels, and makes about as many tiles."""
    p = layer.problem
    if blocks * dim >= p.N * p.Q * p.P:
        return {"P": p.P, "Q": p.Q, "N": p.N}
    sizes = (p.P, p.Q, p.N)
    columns, rows, images = (
        grid.ravel() for grid in np.meshgrid(*(np.arange(1, size + 1) for size in sizes), indexing="ij")
    )
    taken = columns * rows * images
    tiles = -(-p.P // columns) * -(-p.Q // rows) * -(-p.N // images)
    wanted = -(-p.N * p.Q * p.P // (blocks * dim))
    ranked = np.lexsort((-taken, -columns, np.abs(tiles - wanted), np.abs(-(-taken // dim) - blocks)))
    best = ranked[0]
    return {"P": int(columns[best]), "Q": int(rows[best]), "N": int(images[best])}
