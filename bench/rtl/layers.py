"""Whole layers by the loop macros: streams, and what must lie in memory afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.bench.rtl.stream import BASE, StreamText
from baco.common.errors import InfeasibleError

Matrix = NDArray[np.int8]
#: Where the operands lie, from the start of memory.
_A, _B, _C = BASE, BASE + (4 << 20), BASE + (8 << 20)
#: Scale of results; a power of two, so that float32 products are exact.
_SCALE = 2.0**-7


@dataclass(frozen=True)
class LayerStream:
    """A stream with its name and the bytes of the result that it should dump at the end."""

    name: str
    tile: str
    macs: int
    stream: StreamText
    wanted: bytes


@dataclass(frozen=True)
class Matmul:
    """C (rows x cols, int8) = A (rows x inner) · B (inner x cols), scaled; sizes are multiples of dim.

    `tile` is I, J, K in blocks.
    """

    rows: int
    cols: int
    inner: int
    tile: tuple[int, int, int]

    def operands(self) -> tuple[Matrix, Matrix]:
        """A and B, pseudo-random."""
        rng = np.random.default_rng(7)
        return (
            rng.integers(-128, 128, (self.rows, self.inner), dtype=np.int8),
            rng.integers(-128, 128, (self.inner, self.cols), dtype=np.int8),
        )

    def layer(self, accelerator: Accelerator, *, check: bool = True) -> LayerStream:
        """The stream; without `check`, nothing is dumped. Raises InfeasibleError for a tile that does not fit."""
        dim, (ti, tj, tk) = accelerator.dim, self.tile
        if (
            ti + tj
        ) * tk * dim > accelerator.scratchpad_rows // 2 or ti * tj * dim > accelerator.accumulator_rows // 2:
            raise InfeasibleError(f"a tile of {ti}x{tj}x{tk} blocks does not fit half of the local memories")
        a, b = self.operands()
        stream = StreamText(dim)
        stream.write(_A, a.tobytes())
        stream.write(_B, b.tobytes())
        stream.emit("CONFIG_EX", dataflow=1)
        for state, stride in enumerate((self.inner, self.cols, self.cols)):
            stream.config_load(stride, state=state)
        stream.emit("CONFIG_ST", stride=self.cols, acc_scale=_SCALE)
        for i, j, k in self.tiles(dim):
            self._tile(stream, i, j, k)
        stream.fence()
        wanted = b""
        if check:
            stream.dump(_C, self.rows * self.cols)
            wanted = _scaled(a.astype(np.int32) @ b.astype(np.int32)).tobytes()
        tile = f"{ti}x{tj}x{tk}"
        return LayerStream(
            f"matmul {self.rows}x{self.cols}x{self.inner}",
            tile,
            self.rows * self.cols * self.inner,
            stream,
            wanted,
        )

    def tiles(self, dim: int) -> list[tuple[int, int, int]]:
        """First blocks of all tiles, the inner dimension innermost."""
        ti, tj, tk = self.tile
        return [
            (i, j, k)
            for i in range(0, self.rows // dim, ti)
            for j in range(0, self.cols // dim, tj)
            for k in range(0, self.inner // dim, tk)
        ]

    def _tile(self, stream: StreamText, i: int, j: int, k: int) -> None:
        dim, (ti, tj, tk) = stream.dim, self.tile
        i_blocks, j_blocks, k_blocks = (
            min(tile, size // dim - at)
            for tile, size, at in zip(
                (ti, tj, tk), (self.rows, self.cols, self.inner), (i, j, k), strict=True
            )
        )
        last = k + tk >= self.inner // dim
        stream.emit("LOOP_WS_CONFIG_BOUNDS", i=i_blocks, j=j_blocks, k=k_blocks)
        stream.emit(
            "LOOP_WS_CONFIG_ADDRS_AB", a=_A + (i * self.inner + k) * dim, b=_B + (k * self.cols + j) * dim
        )
        stream.emit("LOOP_WS_CONFIG_ADDRS_DC", c=_C + (i * self.cols + j) * dim if last else 0)
        stream.emit("LOOP_WS_CONFIG_STRIDES_AB", a_stride=self.inner, b_stride=self.cols)
        stream.emit("LOOP_WS_CONFIG_STRIDES_DC", c_stride=self.cols)
        stream.emit("LOOP_WS", ex_accumulate=int(k > 0))


@dataclass(frozen=True)
class PlainConvolution:
    """Unpooled 3x3 convolution of stride 1 with a border of zeros: `images` of size x size, NHWC, weights HWIO.

    `tile` is images, output rows, output columns, output channels; input channels are not tiled.
    """

    images: int
    size: int
    in_channels: int
    out_channels: int
    tile: tuple[int, int, int, int]

    def layer(self, accelerator: Accelerator, *, check: bool = True) -> LayerStream:
        """The stream; without `check`, nothing is dumped. Raises InfeasibleError for a tile that does not fit."""
        self._fits(accelerator)
        rng = np.random.default_rng(8)
        n, s, ci, co = self.images, self.size, self.in_channels, self.out_channels
        pixels = rng.integers(-128, 128, (n, s, s, ci), dtype=np.int8)
        weights = rng.integers(-128, 128, (3, 3, ci, co), dtype=np.int8)
        stream = StreamText(accelerator.dim)
        stream.write(_A, pixels.tobytes())
        stream.write(_B, weights.tobytes())
        stream.emit("CONFIG_EX", dataflow=1)
        stream.emit("CONFIG_ST", stride=co, acc_scale=_SCALE)
        tn, tr, tc, to = self.tile
        for b in range(0, n, tn):
            for row in range(0, s, tr):
                for col in range(0, s, tc):
                    for channel in range(0, co, to):
                        self._tile(stream, b, row, col, channel)
        stream.fence()
        wanted = b""
        if check:
            stream.dump(_C, n * s * s * co)
            padded = np.pad(pixels.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
            total = np.zeros((n, s, s, co), np.int32)
            for r in range(3):
                for c in range(3):
                    # exact: every product sum of one kernel position is far below 2**24
                    part = padded[:, r : r + s, c : c + s] @ weights[r, c].astype(np.float32)
                    total += part.astype(np.int32)
            wanted = _scaled(total).tobytes()
        name = f"3x3 convolution {n}x{s}x{s}x{ci} to {co}"
        return LayerStream(name, "x".join(map(str, self.tile)), n * s * s * 9 * ci * co, stream, wanted)

    def _fits(self, accelerator: Accelerator) -> None:
        dim, (tn, tr, tc, to) = accelerator.dim, self.tile
        blocks_in, blocks_out = -(-self.in_channels // dim), -(-to // dim)
        local = tn * (tr + 2) * (tc + 2) * blocks_in + 9 * self.in_channels * blocks_out
        if (
            local > accelerator.scratchpad_rows // 2
            or tn * tr * tc * blocks_out > accelerator.accumulator_rows // 2
        ):
            raise InfeasibleError(f"a tile of {tn}x{tr}x{tc}x{to} does not fit half of the local memories")

    def _tile(self, stream: StreamText, b: int, row: int, col: int, channel: int) -> None:
        s, ci, co = self.size, self.in_channels, self.out_channels
        tn, tr, tc, to = (
            min(tile, size - at)
            for tile, size, at in zip(self.tile, (self.images, s, s, co), (b, row, col, channel), strict=True)
        )
        up, left = int(row == 0), int(col == 0)
        down, right = int(row + tr == s), int(col + tc == s)
        first = (b * s + row - 1 + up) * s + col - 1 + left
        stream.emit("LOOP_CONV_WS_CONFIG_1", batch_size=self.images, in_row_dim=s, in_channels=ci, out_channels=co,
                    out_row_dim=s, pool_out_row_dim=s, out_col_dim=s, stride=1)  # fmt: skip
        stream.emit("LOOP_CONV_WS_CONFIG_2", pool_stride=1, pool_size=1, pool_out_col_dim=s, kernel_dim=3, pochs=to,
                    pocols=tc, porows=tr, batches=tn)  # fmt: skip
        stream.emit("LOOP_CONV_WS_CONFIG_3", lpad=left, kchs=ci, kcols=3, krows=3, in_col_dim=s, dpad=down, upad=up,
                    rpad=right)  # fmt: skip
        stream.emit("LOOP_CONV_WS_CONFIG_4", kernel_dilation=1, orows=tr, ocols=tc, out_stride=co, weight_stride=co,
                    in_stride=ci)  # fmt: skip
        stream.emit(
            "LOOP_CONV_WS_CONFIG_5",
            weights=_B + channel,
            output=_C + ((b * s + row) * s + col) * co + channel,
        )
        # there is no bias, but the pass that clears the accumulator wants an address
        stream.emit("LOOP_CONV_WS_CONFIG_6", bias=_B, input=_A + first * ci)
        stream.emit("LOOP_CONV_WS", no_bias=1, no_pool=1, max_pixels_per_row=1)


def _scaled(total: NDArray[np.int32]) -> Matrix:
    """As an accumulator store: scaled, rounded half to even, saturated."""
    scaled = np.rint(total.astype(np.float64) * _SCALE)
    return np.clip(scaled, -128, 127).astype(np.int8)
