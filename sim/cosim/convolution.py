"""Random geometries of one LOOP_CONV_WS tile that fit an accelerator (ISA specification, section 8)."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from baco.accel.config import Accelerator

_TRAINING = ("rotated", "weight_1203", "weight_0132", "output_1203", "input_3120", "dilated")
_KINDS = ("plain", "plain", "pooled", "first_layer", "downsample", "depthwise", *_TRAINING)


@dataclass(frozen=True)
class ConvolutionTile:
    """A tile that is a whole layer of its own; fields are named as those of the commands.

    Attributes:
        pixels: max_pixels_per_row.
        store_stride: bytes between output pixels, as CONFIG_ST has to say.
        input_bytes, weight_bytes, output_bytes: extents in main memory, never too small.
    """

    batch: int
    ichs: int
    ochs: int
    kernel: int
    kernel_dilation: int
    stride: int
    orows: int
    ocols: int
    upad: int
    dpad: int
    lpad: int
    rpad: int
    in_row_dim: int
    in_col_dim: int
    out_row_dim: int
    out_col_dim: int
    in_channels: int
    out_channels: int
    in_stride: int
    weight_stride: int
    out_stride: int
    pooled: int
    pool_size: int
    pool_stride: int
    pupad: int
    plpad: int
    porows: int
    pocols: int
    pool_out_row_dim: int
    pool_out_col_dim: int
    pixels: int
    wrot180: int
    trans_output_1203: int
    trans_weight_1203: int
    trans_weight_0132: int
    trans_input_3120: int
    depthwise: int
    downsample: int
    dilated: int
    store_stride: int
    input_bytes: int
    weight_bytes: int
    output_bytes: int


def draw_tile(r: random.Random, accelerator: Accelerator, longest: int = 0) -> ConvolutionTile | None:
    """One draw; None when it does not fit half of both local memories or makes no image.

    `longest`: one size or distance is anything up to it, and the others are small.
    """
    dim, f, element = accelerator.dim, accelerator.features, accelerator.element_bytes
    kind = r.choice(_KINDS)
    if (kind in _TRAINING and not f.training_convs) or (kind == "depthwise" and not f.depthwise_convs):
        return None
    drawn = _draw_shape(r, kind, dim, longest)
    if drawn is None:
        return None
    shape, inner_rows, inner_cols = drawn
    if not _fits(kind, shape, inner_rows, inner_cols, accelerator):
        return None
    batch, ichs, ochs, kernel, orows, ocols = (
        shape[name] for name in ("batch", "ichs", "ochs", "kernel", "orows", "ocols")
    )
    pixels = min(kernel, dim // ichs, r.randint(1, 3)) if kind == "first_layer" and ichs <= dim else 1
    in_channels, out_channels = ichs + r.randrange(4), ochs + r.randrange(4)
    in_row_dim, in_col_dim = inner_rows + r.randrange(2), inner_cols + r.randrange(2)
    out_row_dim, out_col_dim = orows + r.randrange(2), ocols + r.randrange(2)
    in_stride = in_channels + r.randrange(3)
    weight_stride, out_stride = (out_channels + r.randrange(3) for _ in range(2))
    pool = _draw_pool(r, orows, ocols, pooled=int(kind == "pooled" and f.max_pool))
    if pool is None:
        return None
    input_3120, output_1203 = int(kind == "input_3120"), int(kind == "output_1203")
    return ConvolutionTile(
        **shape,
        **pool,
        in_row_dim=in_row_dim,
        in_col_dim=in_col_dim,
        out_row_dim=out_row_dim,
        out_col_dim=out_col_dim,
        in_channels=in_channels,
        out_channels=out_channels,
        in_stride=in_stride,
        weight_stride=weight_stride,
        out_stride=out_stride,
        pixels=pixels,
        wrot180=int(kind == "rotated"),
        trans_output_1203=output_1203,
        trans_weight_1203=int(kind == "weight_1203"),
        trans_weight_0132=int(kind == "weight_0132"),
        trans_input_3120=input_3120,
        depthwise=int(kind == "depthwise"),
        store_stride=(batch * out_channels if output_1203 else out_stride) * element,
        input_bytes=(batch * in_row_dim * in_col_dim * in_stride * (ichs if input_3120 else 1) + dim)
        * element,
        weight_bytes=(kernel * kernel * max(in_channels, ichs) * max(weight_stride, out_channels) + 4 * dim)
        * element,
        output_bytes=(
            batch
            * (out_row_dim + pool["pool_out_row_dim"])
            * (out_col_dim + pool["pool_out_col_dim"])
            * max(out_stride, out_channels)
            + ochs
        )
        * element,
    )


def _draw_shape(
    r: random.Random, kind: str, dim: int, longest: int
) -> tuple[dict[str, int], int, int] | None:
    """Fields of sizes and padding, and rows and columns of the stored image; None where there is no image."""
    down, dilated = int(kind == "downsample"), int(kind == "dilated")
    kernel = 1 if down else r.randint(1, 3)
    stride = 2 if down else 1 if dilated else r.randint(1, 2)
    dilation = r.choice((1, 1, 2)) if kind in ("plain", "dilated") else 1
    batch = r.randint(1, 2 * dim if kind == "input_3120" and dim < 8 else 3)
    most_inputs = max(1, dim // 2) if kind == "first_layer" else 2 * dim
    ichs, ochs = (1, 1) if kind == "depthwise" else (r.randint(1, most_inputs), r.randint(1, 2 * dim))
    orows, ocols = r.randint(1, 5), r.choice((r.randint(1, 6), r.randint(1, dim + 3)))
    if longest:
        long, side = (int(2 ** r.uniform(1, math.log2(most))) for most in (longest, math.isqrt(longest)))
        batch, orows, ocols = (r.randint(1, 2) for _ in range(3))
        which = r.choice(("batch", "ichs", "ochs", "orows", "ocols", "kernel", "stride", "dilation"))
        batch, orows, ocols = (
            long if which == name else size
            for name, size in (("batch", batch), ("orows", orows), ("ocols", ocols))
        )
        if kind != "depthwise":
            ichs, ochs = long if which == "ichs" else ichs, long if which == "ochs" else ochs
        if not down:
            kernel = side if which == "kernel" else 2 if which == "dilation" else kernel
            stride = side if which == "stride" and not dilated else stride
            dilation = side if which == "dilation" and kind in ("plain", "dilated") else dilation
    reach = kernel + (dilation - 1) * (kernel - 1)

    def pad() -> int:
        return 0 if down else r.randint(0, min(reach - 1, 2))

    upad, lpad, rpad = pad(), pad(), pad()
    # rows below that no window reaches are legal too
    dpad = pad() + (0 if down else r.randint(0, stride - 1))
    rows, cols = orows * stride + reach - 1, ocols * stride + reach - 1
    if rows - upad - dpad < 1 or cols - lpad - rpad < 1:
        return None
    fields = {
        "batch": batch, "ichs": ichs, "ochs": ochs, "kernel": kernel, "kernel_dilation": dilation, "stride": stride,
        "orows": orows, "ocols": ocols, "upad": upad, "dpad": dpad, "lpad": lpad, "rpad": rpad, "downsample": down,
        "dilated": dilated,
    }  # fmt: skip
    return fields, _undilated(rows - upad - dpad, dilated), _undilated(cols - lpad - rpad, dilated)


def _undilated(n: int, dilated: int) -> int:
    return (n + 1) // 2 if dilated else n


def _fits(
    kind: str, shape: dict[str, int], inner_rows: int, inner_cols: int, accelerator: Accelerator
) -> bool:
    """Whether half of both local memories holds a tile."""
    dim, dilated, down = accelerator.dim, shape["dilated"], shape["downsample"]
    batch, ichs, ochs, kernel = (shape[name] for name in ("batch", "ichs", "ochs", "kernel"))
    height = inner_rows + _undilated(shape["upad"], dilated) + _undilated(shape["dpad"], dilated)
    width = inner_cols + _undilated(shape["lpad"], dilated) + _undilated(shape["rpad"], dilated)
    image = (height >> down) * (width >> down)
    input_blocks = _ceil(batch, dim) * ichs if kind == "input_3120" else _ceil(ichs, dim) * batch
    weights = _ceil(ichs, dim) * ochs if kind == "weight_0132" else _ceil(ochs, dim) * ichs
    if input_blocks * image + kernel * kernel * weights > accelerator.scratchpad_rows // 2:
        return False
    results = _ceil(ochs, dim) * batch * shape["orows"] * shape["ocols"]
    return results <= accelerator.accumulator_rows // 2


def _draw_pool(r: random.Random, orows: int, ocols: int, *, pooled: int) -> dict[str, int] | None:
    """Fields of a pooling, which are drawn where there is none, too; None where nothing is left of the results."""
    pool_size, pool_stride = r.randint(1, 3), r.randint(1, 3)
    pupad, plpad = r.randint(0, pool_size - 1), r.randint(0, pool_size - 1)
    porows = (orows + pupad - pool_size) // pool_stride + 1 + r.randint(0, 1)
    pocols = (ocols + plpad - pool_size) // pool_stride + 1 + r.randint(0, 1)
    if pooled and (porows < 1 or pocols < 1):
        return None
    porows, pocols = max(porows, 1), max(pocols, 1)
    return {
        "pooled": pooled, "pool_size": pool_size, "pool_stride": pool_stride, "pupad": pupad, "plpad": plpad,
        "porows": porows, "pocols": pocols, "pool_out_row_dim": porows + r.randrange(2),
        "pool_out_col_dim": pocols + r.randrange(2),
    }  # fmt: skip


def _ceil(n: int, m: int) -> int:
    return -(-n // m)
