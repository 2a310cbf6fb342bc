"""Random convolution layers with what they compute (by numpy) and the loops that compute them, tile by tile."""

from dataclasses import dataclass, replace

import numpy as np

from tests.gemmini.config import GemminiConfig
from tests.gemmini.loop_conv import CONFIG, Command, LoopConv

KINDS = (
    "plain",
    "dilated kernel",
    "dilated input",
    "wrot180",
    "trans_weight_1203",
    "trans_weight_0132",
    "trans_input_3120",
    "trans_output_1203",
    "depthwise",
    "downsample",
    "pool",
    "first layer",
)
_MEMORY = 1 << 20


@dataclass
class Layer:
    """Commands before the loops, the loops, memory before them and the output that has to be there afterwards."""

    setup: list[Command]
    loops: list[LoopConv]
    memory: np.ndarray  # uint8
    output: int  # address
    expected: np.ndarray  # int8, as it lies in memory


def _spans(total: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(size, total - start)) for start in range(0, total, size)]


def random_layer(machine: GemminiConfig, kind: str, random: np.random.Generator) -> Layer:
    """A layer of that kind whose tiles fit the machine's halves."""
    while True:
        layer = _random_layer(machine, kind, random)
        if layer is not None:
            return layer


def _random_layer(machine: GemminiConfig, kind: str, random: np.random.Generator) -> Layer | None:
    def pick(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    dim = machine.dim
    batch, height, width = pick(1, 3), pick(3, 9), pick(3, 2 * dim + 3)
    ins, outs = pick(1, 2 * dim + 1), pick(1, 2 * dim + 1)
    kernel, stride, pad, kdil = pick(1, 3), pick(1, 2), pick(0, 2), 1
    if kind == "dilated kernel":
        kernel, kdil = 3, 2
    elif kind == "dilated input":
        kernel, stride, pad = pick(2, 3), 1, pick(0, 2)
    elif kind == "trans_input_3120":
        batch, height, width, ins = pick(1, 2 * dim), pick(2, 4), pick(2, 4), pick(1, dim + 2)
    elif kind == "depthwise":
        ins = outs = pick(1, 4)
    elif kind == "downsample":
        kernel, stride, pad = 1, 2, 0
        height, width = 2 * pick(1, 4), 2 * pick(1, dim + 2)
    elif kind == "first layer":
        ins, kernel = pick(1, max(1, dim // 2)), pick(2, 4)
    pad = min(pad, kernel - 1) if kind != "dilated kernel" else pad

    # what it computes
    image = random.integers(-128, 128, (batch, height, width, ins))
    weights = random.integers(-128, 128, (kernel, kernel, ins if kind != "depthwise" else 1, outs))
    bias = random.integers(-(1 << 14), 1 << 14, outs)
    spread = image
    if kind == "dilated input":
        spread = np.zeros((batch, 2 * height - 1, 2 * width - 1, ins), np.int64)
        spread[:, ::2, ::2] = image
    padded = np.pad(spread, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    extent = kernel + (kdil - 1) * (kernel - 1)
    if padded.shape[1] < extent or padded.shape[2] < extent:
        return None
    orows, ocols = ((padded.shape[axis] - extent) // stride + 1 for axis in (1, 2))
    total = np.zeros((batch, orows, ocols, outs), np.int64)
    for kr in range(kernel):
        for kc in range(kernel):
            r, c = kr * kdil, kc * kdil
            window = padded[
                :, r : r + (orows - 1) * stride + 1 : stride, c : c + (ocols - 1) * stride + 1 : stride
            ]
            w = weights[-1 - kr, -1 - kc] if kind == "wrot180" else weights[kr, kc]
            total += window * w[0] if kind == "depthwise" else window @ w
    with_bias, relu = bool(pick(0, 2)), pick(0, 1)
    total += bias * with_bias
    scale = np.float32(2.0 ** -pick(6, 9))
    result = np.clip(np.rint((np.maximum(total, 0) if relu else total).astype(np.float32) * scale), -128, 127)
    result = result.astype(np.int8)
    pool_size, pool_stride, pool_pad = 0, 0, 0
    porows, pocols = orows, ocols
    if kind == "pool":
        pool_size, pool_stride = pick(1, 3), pick(1, 3)
        pool_pad = pick(0, pool_size - 1)
        porows, pocols = ((n + 2 * pool_pad - pool_size) // pool_stride + 1 for n in (orows, ocols))
        if porows < 1 or pocols < 1:
            return None
        zeros = np.pad(result, ((0, 0), (pool_pad, pool_pad + 3), (pool_pad, pool_pad + 3), (0, 0)))
        result = np.max(
            [
                zeros[
                    :,
                    r : r + (porows - 1) * pool_stride + 1 : pool_stride,
                    c : c + (pocols - 1) * pool_stride + 1 : pool_stride,
                ]
                for r in range(pool_size)
                for c in range(pool_size)
            ],
            axis=0,
        )

    # how it lies in memory
    memory = random.integers(0, 256, _MEMORY).astype(np.uint8)
    at = 64

    def place(values: np.ndarray, dtype: type) -> int:
        nonlocal at
        raw = np.ascontiguousarray(values.astype(dtype)).view(np.uint8).ravel()
        memory[at : at + raw.size] = raw
        address, at = at, at + raw.size + pick(1, 9)
        return address

    if kind == "trans_weight_1203":
        weights_at = place(weights.transpose(2, 0, 1, 3), np.int8)
    elif kind == "trans_weight_0132":
        weights_at = place(weights.transpose(0, 1, 3, 2), np.int8)
    elif kind == "depthwise":
        weights_at = place(weights.transpose(3, 0, 1, 2), np.int8)
    else:
        weights_at = place(weights, np.int8)
    input_at = place(image.transpose(3, 1, 2, 0) if kind == "trans_input_3120" else image, np.int8)
    bias_at = place(bias, np.int32)
    stored = result.transpose(1, 2, 0, 3) if kind == "trans_output_1203" else result
    output_at = place(np.zeros(stored.shape), np.int8)

    whole = LoopConv(
        batch_size=batch,
        in_row_dim=height,
        in_col_dim=width,
        in_channels=ins,
        out_channels=outs,
        out_row_dim=orows,
        out_col_dim=ocols,
        pool_out_row_dim=porows,
        pool_out_col_dim=pocols,
        stride=stride,
        padding=pad,
        kernel_dim=kernel,
        kernel_dilation=kdil,
        pool_size=pool_size,
        pool_stride=pool_stride,
        pool_padding=pool_pad,
        batches=batch,
        porows=porows,
        pocols=pocols,
        pochs=outs,
        krows=kernel,
        kcols=kernel,
        kchs=ins,
        plpad=pool_pad,
        pupad=pool_pad,
        orows=orows,
        ocols=ocols,
        in_stride=ins,
        weight_stride=outs,
        out_stride=outs,
        no_bias=not with_bias,
        wrot180=kind == "wrot180",
        trans_output_1203=kind == "trans_output_1203",
        trans_weight_1203=kind == "trans_weight_1203",
        trans_weight_0132=kind == "trans_weight_0132",
        trans_input_3120=kind == "trans_input_3120",
        dw=kind == "depthwise",
        no_pool=kind != "pool",
        downsample=kind == "downsample",
        input_dilated=kind == "dilated input",
        activation=relu,
        max_pixels_per_row=min(pick(1, kernel), dim // ins) if kind == "first layer" else 1,
    )

    # tiles: batches, rows, columns and channels of the output; then kernel rows, columns and input channels
    cut_space = kind not in ("pool", "dilated input", "trans_input_3120")
    cut_kernel = kind not in ("dilated input", "wrot180")
    size_b = batch if kind == "trans_input_3120" else pick(1, batch)
    size_r, size_c = (pick(1, n) if cut_space and pick(0, 1) else n for n in (orows, ocols))
    size_o = 1 if kind == "depthwise" else pick(1, outs)
    size_o, size_k = (
        n if pick(0, 1) else max(dim, n // dim * dim) for n in (size_o, ins if kind != "depthwise" else 1)
    )
    size_o = 1 if kind == "depthwise" else size_o
    size_kr, size_kc = (pick(1, kernel) if cut_kernel and not pick(0, 2) else kernel for _ in range(2))
    loops = []
    reuse_input = bool(pick(0, 1))
    previous_input: object = None
    half = 1
    for b, bs in _spans(batch, size_b):
        for r0, rs in _spans(orows, size_r):
            for c0, cs in _spans(ocols, size_c):
                for o, os in _spans(outs, size_o):
                    steps = [
                        (kr, krs, kc, kcs, k, ks)
                        for kr, krs in _spans(kernel, size_kr)
                        for kc, kcs in _spans(kernel, size_kc)
                        for k, ks in _spans(1 if kind == "depthwise" else ins, size_k)
                    ]
                    for n, (kr, krs, kc, kcs, k, ks) in enumerate(steps):
                        channel = o if kind == "depthwise" else k
                        rows = rs * stride + krs + (kdil - 1) * (krs - 1) - 1
                        cols = cs * stride + kcs + (kdil - 1) * (kcs - 1) - 1
                        top, left = r0 * stride + kr * kdil - pad, c0 * stride + kc * kdil - pad
                        high, wide = spread.shape[1], spread.shape[2]
                        up, lp = min(max(0, -top), rows), min(max(0, -left), cols)
                        dp, rp = min(max(0, top + rows - high), rows), min(max(0, left + cols - wide), cols)
                        if up + dp >= rows or lp + rp >= cols:
                            return None  # a tile of nothing but padding
                        pixel = max(top, 0) * width + max(left, 0)
                        if kind == "trans_input_3120":
                            input_offset = (k * height * width + pixel) * batch + b
                        else:
                            input_offset = (b * height * width + pixel) * ins + channel
                        if kind == "depthwise":
                            weights_offset = o * kernel * kernel + kr * kernel + kc
                        elif kind == "trans_weight_1203":
                            weights_offset = (k * kernel * kernel + kr * kernel + kc) * outs + o
                        elif kind == "trans_weight_0132":
                            weights_offset = ((kr * kernel + kc) * outs + o) * ins + k
                        else:
                            weights_offset = ((kr * kernel + kc) * ins + k) * outs + o
                        if kind == "trans_output_1203":
                            output_offset = ((r0 * ocols + c0) * batch + b) * outs + o
                        elif kind == "pool":
                            output_offset = b * porows * pocols * outs + o
                        else:
                            output_offset = ((b * orows + r0) * ocols + c0) * outs + o
                        this_input = (b, r0, c0, channel, kr, kc)
                        again = reuse_input and this_input == previous_input
                        half = half if again or not reuse_input else 3 - half
                        previous_input = this_input
                        loops.append(
                            replace(
                                whole,
                                batches=bs,
                                orows=rs,
                                ocols=cs,
                                pochs=os,
                                porows=porows if kind == "pool" else rs,
                                pocols=pocols if kind == "pool" else cs,
                                krows=krs,
                                kcols=kcs,
                                kchs=ks,
                                upad=up,
                                dpad=dp,
                                lpad=lp,
                                rpad=rp,
                                input=0 if again else input_at + input_offset,
                                a_spad_id=half if reuse_input else 0,
                                weights=weights_at + weights_offset,
                                bias=0 if n else bias_at + 4 * o,
                                output=output_at + output_offset if n == len(steps) - 1 else 0,
                            )
                        )
                        und = 2 if kind == "dilated input" else 1
                        irows, icols = (-(-x // und) >> whole.downsample for x in (rows + 1, cols + 1))
                        if kind == "trans_input_3120":
                            input_rows = -(-bs // dim) * ks * irows * icols
                        else:
                            input_rows = -(-ks // dim) * bs * irows * icols
                        blocks, length = (ks, os) if kind == "trans_weight_0132" else (os, ks)
                        weight_rows = -(-blocks // dim) * krs * kcs * length
                        if input_rows + weight_rows > machine.scratchpad_rows // 2:
                            return None
                        if -(-os // dim) * bs * rs * cs > machine.accumulator_rows // 2:
                            return None
    if len(loops) > 40:
        return None
    work = batch * orows * ocols * kernel**2 * -(-ins // dim) * -(-outs // dim)
    if work > 6000:
        return None
    a_stride = stride >> whole.downsample
    ex = a_stride << 16 | (kind == "trans_input_3120") << 8 | (kind == "trans_weight_0132") << 9 | 1 << 2
    st_stride = batch * outs if kind == "trans_output_1203" else outs
    setup = [
        (CONFIG, ex, (2 if kind == "dilated input" else 1) << 48),
        (CONFIG, 2 | relu << 2, int(scale.view(np.uint32)) << 32 | st_stride),
    ]
    return Layer(setup, loops, memory, output_at, np.ascontiguousarray(stored))
