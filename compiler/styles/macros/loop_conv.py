"""Convolutions by LOOP_CONV_WS: one run of the macro a tile, seven commands each.

The macro has one stride, one dilation and whole int8 results. Other strides still work where they do not matter, that
is where tiles are one row or column of pixels, or of the window: the host places every tile, so only steps inside a
tile are the macro's. Sums stay in the accumulator until they are complete, so the loops over the window and the input
channels run inside all others.
"""

from __future__ import annotations

from baco.accel.isa import float32_bits
from baco.compiler.ir.emit import Condition, Emitter, Number
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.styles.macros.loop_conv_check import AXES, ConvPlan


class LoopConv:
    """Writes the runs of one layer."""

    def __init__(self, e: Emitter, layer: Layer, plan: ConvPlan, operands: Operands) -> None:
        self.e, self.layer, self.plan, self.operands = e, layer, plan, operands
        self.pool_size = layer.pooling.size if layer.pooling else 1
        self.pool_stride = layer.pooling.stride if layer.pooling else 1
        self.pool_padding = layer.pooling.padding if layer.pooling else 0

    def emit(self) -> None:
        """The whole layer."""
        e, layer, plan = self.e, self.layer, self.plan
        assert layer.scale is not None
        e.command("config_ex", dataflow=1, a_stride=plan.stride >> plan.downsample)
        e.command("config_st", activation=int(layer.relu), stride=layer.output.pitch * layer.element_bytes,
                  acc_scale=float32_bits(layer.scale))  # fmt: skip
        self._loops("g" + plan.order, {})

    def _loops(self, axes: str, at: dict[str, Number]) -> None:
        """The loops over tiles, outermost first, with the run inside."""
        if not axes:
            self._run(at)
            return
        with self.e.loop(self.plan.trips[axes[0]], hint=axes[0]) as number:
            self._loops(axes[1:], at | {axes[0]: number})

    def _range(self, axis: str, at: dict[str, Number]) -> tuple[Number, Number]:
        """First element of a tile along an axis, and how many it has."""
        e, tile, size, trips = self.e, self.plan.tile[axis], self.plan.sizes[axis], self.plan.trips[axis]
        count = e.select(e.compare("eq", at[axis], trips - 1), size - (trips - 1) * tile, tile)
        return e.mul(at[axis], tile), count

    def _results(self, first: Number, count: Number, extent: int) -> tuple[Number, Number, Number]:
        """Unpooled results that pooled ones need along one axis: the first, how many, how many are missing before."""
        if self.layer.pooling is None:
            return first, count, 0
        e = self.e
        start = e.sub(e.mul(first, self.pool_stride), self.pool_padding)
        end = e.add(start, e.mul(e.sub(count, 1), self.pool_stride), self.pool_size)
        inside = e.max(start, 0)
        return inside, e.sub(e.min(end, extent), inside), e.sub(inside, start)

    def _pixels(self, start: Number, length: Number, extent: int) -> tuple[Number, Number, Number]:
        """Of a tile's input along one axis: its first pixel in the image, and how many lie before and behind it."""
        e = self.e
        before = e.min(e.max(e.sub(0, start), 0), length)
        behind = e.max(e.sub(e.min(e.sub(e.add(start, length), extent), e.sub(length, before)), 0), 0)
        return e.max(start, 0), before, behind

    def _run(self, at: dict[str, Number]) -> None:
        e, layer, plan, operands = self.e, self.layer, self.plan, self.operands
        p, pool, stride, dilation = layer.problem, layer.pooling, plan.stride, plan.dilation
        height, width = layer.size
        n, batches = self._range("n", at)
        pooled_row, pooled_rows = self._range("q", at)
        pooled_column, pooled_columns = self._range("p", at)
        k, out_channels = self._range("k", at)
        s, kernel_rows = self._range("s", at)
        r, kernel_columns = self._range("r", at)
        c, in_channels = self._range("c", at)
        row, rows, pool_up = self._results(pooled_row, pooled_rows, p.Q)
        column, columns, pool_left = self._results(pooled_column, pooled_columns, p.P)

        # the input that the macro takes to belong to the tile: a stride for every result, and the window's reach
        in_rows = e.add(e.mul(rows, stride), e.mul(e.sub(kernel_rows, 1), dilation))
        in_columns = e.add(e.mul(columns, stride), e.mul(e.sub(kernel_columns, 1), dilation))
        in_row = e.sub(e.add(e.mul(row, p.stride_h), e.mul(s, p.dilation_h)), layer.padding[0])
        in_column = e.sub(e.add(e.mul(column, p.stride_w), e.mul(r, p.dilation_w)), layer.padding[1])
        in_row, up, down = self._pixels(in_row, in_rows, height)
        in_column, left, right = self._pixels(in_column, in_columns, width)

        pixel = e.add(e.mul(e.add(e.mul(n, height), in_row), width), in_column)
        element = layer.element_bytes
        before = e.mul(at["g"], layer.input.group), e.mul(pixel, layer.input.pitch), c
        inputs = e.address(operands.input, element, *before)
        weight_row = e.add(e.mul(e.add(e.mul(s, p.R), r), p.C), c)
        steps, packed = layer.weight_steps, layer.weight_bits == 4
        weights = e.add(
            operands.weight,
            e.mul(at["g"], steps.group),
            e.mul(weight_row, steps.pitch),
            e.div(k, 2) if packed else e.mul(k, element),
        )
        stored_rows, stored_columns = (pool.rows, pool.columns) if pool else (p.Q, p.P)
        result = e.add(e.mul(e.add(e.mul(n, stored_rows), pooled_row), stored_columns), pooled_column)
        before = e.mul(at["g"], layer.output.group), e.mul(result, layer.output.pitch), k
        output = e.address(operands.output, element, *before)
        # without a bias the macro still has to clear the accumulator, which takes an address that is not null
        bias = operands.output
        if layer.bias:
            bias = e.add(operands.bias, e.mul(e.add(e.mul(at["g"], p.K), k), 4))
        first, last = self._reduction_ends(at)
        bias, output = e.select(first, bias, 0), e.select(last, output, 0)
        input_id: Number = 0
        weights_id: Number = 0
        if plan.keep_input:
            inputs, input_id = plan.keep_input.address(e, inputs, at), plan.keep_input.half(e, at)
        if plan.keep_weights:
            weights, weights_id = plan.keep_weights.address(e, weights, at), plan.keep_weights.half(e, at)

        e.command("loop_conv_ws_config_1", batch_size=p.N, in_row_dim=height, in_channels=p.C, out_channels=p.K,
                  out_row_dim=p.Q, pool_out_row_dim=stored_rows, out_col_dim=p.P, stride=stride,
                  padding=layer.padding[0] & 0xFF)  # fmt: skip
        e.command("loop_conv_ws_config_2", kernel_dim=p.R, pool_out_col_dim=stored_columns, pool_size=self.pool_size,
                  pool_stride=self.pool_stride, pool_padding=self.pool_padding, batches=batches, porows=pooled_rows,
                  pocols=pooled_columns, pochs=out_channels)  # fmt: skip
        e.command("loop_conv_ws_config_3", krows=kernel_rows, kcols=kernel_columns, kchs=in_channels, lpad=left,
                  rpad=right, upad=up, dpad=down, plpad=pool_left, in_col_dim=width)  # fmt: skip
        e.command("loop_conv_ws_config_4", orows=rows, ocols=columns, pupad=pool_up, kernel_dilation=dilation,
                  in_stride=layer.input.pitch, weight_stride=layer.weight.pitch, out_stride=layer.output.pitch)  # fmt: skip
        e.command("loop_conv_ws_config_5", weights=weights, output=output)
        e.command("loop_conv_ws_config_6", bias=bias, input=inputs)
        e.command("loop_conv_ws", no_bias=int(not layer.bias), dw=int(plan.depthwise), max_pixels_per_row=plan.pixels,
                  a_spad_id=input_id, b_spad_id=weights_id, no_pool=int(pool is None),
                  downsample=int(plan.downsample), activation=int(layer.relu), weights_packed=int(packed))  # fmt: skip

    def _reduction_ends(self, at: dict[str, Number]) -> tuple[Condition, Condition]:
        """Whether a run is the first, the last one that adds to its results."""
        e = self.e
        first: Condition = True
        last: Condition = True
        for axis in AXES[4:]:
            first = e.both(first, e.compare("eq", at[axis], 0))
            last = e.both(last, e.compare("eq", at[axis], self.plan.trips[axis] - 1))
        return first, last
