"""Random convolution layers with what they compute (by numpy) and the loops that compute them, tile by tile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
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
    """One draw; None where it is none, or too large."""
    drawn = _Drawn.of(machine.dim, kind, random)
    if drawn is None:
        return None
    stored = drawn.result.transpose(1, 2, 0, 3) if kind == "trans_output_1203" else drawn.result
    memory = _Memory(random.integers(0, 256, _MEMORY).astype(np.uint8), drawn.pick)
    tensors = drawn.lay_out(memory, stored)
    whole = drawn.whole()
    loops = _loops(machine, drawn, whole, tensors)
    if loops is None or len(loops) > 40:
        return None
    work = drawn.batch * drawn.orows * drawn.ocols * drawn.kernel**2
    if work * -(-drawn.ins // machine.dim) * -(-drawn.outs // machine.dim) > 6000:
        return None
    a_stride = drawn.stride >> whole.downsample
    ex = a_stride << 16 | (kind == "trans_input_3120") << 8 | (kind == "trans_weight_0132") << 9 | 1 << 2
    st_stride = drawn.batch * drawn.outs if kind == "trans_output_1203" else drawn.outs
    setup = [
        (CONFIG, ex, (2 if kind == "dilated input" else 1) << 48),
        (CONFIG, 2 | drawn.relu << 2, int(drawn.scale.view(np.uint32)) << 32 | st_stride),
    ]
    return Layer(setup, loops, memory.content, tensors["output"], np.ascontiguousarray(stored))


@dataclass
class _Memory:
    """Main memory in which tensors are put one behind the other, with gaps."""

    content: np.ndarray  # uint8
    pick: Callable[[int, int], int]
    at: int = 64

    def put(self, values: np.ndarray, dtype: type) -> int:
        """Address of a tensor that is put there."""
        raw = np.ascontiguousarray(values.astype(dtype)).view(np.uint8).ravel()
        self.content[self.at : self.at + raw.size] = raw
        address, self.at = self.at, self.at + raw.size + self.pick(1, 9)
        return address


@dataclass
class _Drawn:
    """Sizes and numbers of a layer, and what it computes."""

    kind: str
    dim: int
    pick: Callable[[int, int], int]
    batch: int
    height: int
    width: int
    ins: int
    outs: int
    kernel: int
    stride: int
    pad: int
    kdil: int
    image: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    with_bias: bool = False
    relu: int = 0
    pool: tuple[int, int, int] = (0, 0, 0)  # size, stride, padding

    @classmethod
    def of(cls, dim: int, kind: str, random: np.random.Generator) -> _Drawn | None:
        """Drawn numbers with what they give; None where windows have no room."""

        def pick(low: int, high: int) -> int:
            return int(random.integers(low, high + 1))

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
        image = random.integers(-128, 128, (batch, height, width, ins))
        weights = random.integers(-128, 128, (kernel, kernel, ins if kind != "depthwise" else 1, outs))
        bias = random.integers(-(1 << 14), 1 << 14, outs)
        sizes = (batch, height, width, ins, outs, kernel, stride, pad, kdil)
        drawn = cls(kind, dim, pick, *sizes, image, weights, bias)
        return drawn if drawn._compute() else None

    def _compute(self) -> bool:
        """Draws what is done on the way out, and gives the result; False where there is none."""
        kind, batch, stride, pad = self.kind, self.batch, self.stride, self.pad
        self.spread = self.image
        if kind == "dilated input":
            self.spread = np.zeros((batch, 2 * self.height - 1, 2 * self.width - 1, self.ins), np.int64)
            self.spread[:, ::2, ::2] = self.image
        padded = np.pad(self.spread, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        extent = self.kernel + (self.kdil - 1) * (self.kernel - 1)
        if padded.shape[1] < extent or padded.shape[2] < extent:
            return False
        self.orows, self.ocols = ((padded.shape[axis] - extent) // stride + 1 for axis in (1, 2))
        total = np.zeros((batch, self.orows, self.ocols, self.outs), np.int64)
        for kr in range(self.kernel):
            for kc in range(self.kernel):
                r, c = kr * self.kdil, kc * self.kdil
                below, right = r + (self.orows - 1) * stride + 1, c + (self.ocols - 1) * stride + 1
                window = padded[:, r:below:stride, c:right:stride]
                w = self.weights[-1 - kr, -1 - kc] if kind == "wrot180" else self.weights[kr, kc]
                total += window * w[0] if kind == "depthwise" else window @ w
        self.with_bias, self.relu = bool(self.pick(0, 2)), self.pick(0, 1)
        total += self.bias * self.with_bias
        self.scale = np.float32(2.0 ** -self.pick(6, 9))
        sums = (np.maximum(total, 0) if self.relu else total).astype(np.float32)
        self.result = np.clip(np.rint(sums * self.scale), -128, 127).astype(np.int8)
        self.porows, self.pocols = self.orows, self.ocols
        return kind != "pool" or self._pooled()

    def _pooled(self) -> bool:
        size, stride = self.pick(1, 3), self.pick(1, 3)
        pad = self.pick(0, size - 1)
        self.pool = size, stride, pad
        self.porows, self.pocols = ((n + 2 * pad - size) // stride + 1 for n in (self.orows, self.ocols))
        if self.porows < 1 or self.pocols < 1:
            return False
        zeros = np.pad(self.result, ((0, 0), (pad, pad + 3), (pad, pad + 3), (0, 0)))
        below, right = (self.porows - 1) * stride + 1, (self.pocols - 1) * stride + 1
        windows = [
            zeros[:, r : r + below : stride, c : c + right : stride] for r in range(size) for c in range(size)
        ]
        self.result = np.max(windows, axis=0)
        return True

    def lay_out(self, memory: _Memory, stored: np.ndarray) -> dict[str, int]:
        """Addresses of its tensors, put into main memory."""
        order = {
            "trans_weight_1203": (2, 0, 1, 3),
            "trans_weight_0132": (0, 1, 3, 2),
            "depthwise": (3, 0, 1, 2),
        }
        image = self.image.transpose(3, 1, 2, 0) if self.kind == "trans_input_3120" else self.image
        return {
            "weights": memory.put(self.weights.transpose(order.get(self.kind, (0, 1, 2, 3))), np.int8),
            "input": memory.put(image, np.int8),
            "bias": memory.put(self.bias, np.int32),
            "output": memory.put(np.zeros(stored.shape), np.int8),
        }

    def whole(self) -> LoopConv:
        """The layer as one loop."""
        kind, (pool_size, pool_stride, pool_pad) = self.kind, self.pool
        return LoopConv(
            batch_size=self.batch, in_row_dim=self.height, in_col_dim=self.width, in_channels=self.ins,
            out_channels=self.outs, out_row_dim=self.orows, out_col_dim=self.ocols,
            pool_out_row_dim=self.porows, pool_out_col_dim=self.pocols,
            stride=self.stride, padding=self.pad, kernel_dim=self.kernel, kernel_dilation=self.kdil,
            pool_size=pool_size, pool_stride=pool_stride, pool_padding=pool_pad,
            batches=self.batch, porows=self.porows, pocols=self.pocols, pochs=self.outs,
            krows=self.kernel, kcols=self.kernel, kchs=self.ins, plpad=pool_pad, pupad=pool_pad,
            orows=self.orows, ocols=self.ocols,
            in_stride=self.ins, weight_stride=self.outs, out_stride=self.outs,
            no_bias=not self.with_bias, wrot180=kind == "wrot180",
            trans_output_1203=kind == "trans_output_1203", trans_weight_1203=kind == "trans_weight_1203",
            trans_weight_0132=kind == "trans_weight_0132", trans_input_3120=kind == "trans_input_3120",
            dw=kind == "depthwise", no_pool=kind != "pool", downsample=kind == "downsample",
            input_dilated=kind == "dilated input", activation=self.relu,
            max_pixels_per_row=min(self.pick(1, self.kernel), self.dim // self.ins) if kind == "first layer" else 1,
        )  # fmt: skip

    def tiles(self) -> Iterator[tuple[int, ...]]:
        """Starts and sizes of tiles: batches, rows, columns, channels of the output; kernel rows, columns, input channels; the number
        of the tile among those that add to the same results, and how many these are."""
        kind, pick, dim = self.kind, self.pick, self.dim
        cut_space = kind not in ("pool", "dilated input", "trans_input_3120")
        cut_kernel = kind not in ("dilated input", "wrot180")
        depth = 1 if kind == "depthwise" else self.ins
        size_b = self.batch if kind == "trans_input_3120" else pick(1, self.batch)
        size_r, size_c = (pick(1, n) if cut_space and pick(0, 1) else n for n in (self.orows, self.ocols))
        size_o = 1 if kind == "depthwise" else pick(1, self.outs)
        size_o, size_k = (n if pick(0, 1) else max(dim, n // dim * dim) for n in (size_o, depth))
        size_o = 1 if kind == "depthwise" else size_o
        size_kr, size_kc = (
            pick(1, self.kernel) if cut_kernel and not pick(0, 2) else self.kernel for _ in range(2)
        )
        self.reuse_input = bool(pick(0, 1))
        outer = [(self.batch, size_b), (self.orows, size_r), (self.ocols, size_c), (self.outs, size_o)]
        inner = [(self.kernel, size_kr), (self.kernel, size_kc), (depth, size_k)]
        steps = list(itertools.product(*(_spans(*one) for one in inner)))
        for around in itertools.product(*(_spans(*one) for one in outer)):
            for number, inside in enumerate(steps):
                yield (*itertools.chain(*around, *inside), number, len(steps))

    def offsets(
        self, b: int, r0: int, c0: int, o: int, kr: int, kc: int, k: int, pixel: int
    ) -> dict[str, int]:
        """Of a tile's elements in the tensors."""
        kind, ins, outs, kernel = self.kind, self.ins, self.outs, self.kernel
        if kind == "trans_input_3120":
            inputs = (k * self.height * self.width + pixel) * self.batch + b
        else:
            inputs = (b * self.height * self.width + pixel) * ins + (o if kind == "depthwise" else k)
        if kind == "depthwise":
            weights = o * kernel * kernel + kr * kernel + kc
        elif kind == "trans_weight_1203":
            weights = (k * kernel * kernel + kr * kernel + kc) * outs + o
        elif kind == "trans_weight_0132":
            weights = ((kr * kernel + kc) * outs + o) * ins + k
        else:
            weights = ((kr * kernel + kc) * ins + k) * outs + o
        if kind == "trans_output_1203":
            output = ((r0 * self.ocols + c0) * self.batch + b) * outs + o
        elif kind == "pool":
            output = b * self.porows * self.pocols * outs + o
        else:
            output = ((b * self.orows + r0) * self.ocols + c0) * outs + o
        return {"input": inputs, "weights": weights, "output": output}

    def fits(self, machine: GemminiConfig, loop: LoopConv, rows: int, cols: int) -> bool:
        """Whether a tile, with so many rows and columns of the image, fits the machine's halves."""
        dim, spread = machine.dim, 2 if self.kind == "dilated input" else 1
        irows, icols = (-(-x // spread) >> loop.downsample for x in (rows + 1, cols + 1))
        if self.kind == "trans_input_3120":
            input_rows = -(-loop.batches // dim) * loop.kchs * irows * icols
        else:
            input_rows = -(-loop.kchs // dim) * loop.batches * irows * icols
        blocks, length = (loop.pochs, loop.kchs)[:: -1 if self.kind == "trans_weight_0132" else 1]
        weight_rows = -(-blocks // dim) * loop.krows * loop.kcols * length
        sums = -(-loop.pochs // dim) * loop.batches * loop.orows * loop.ocols
        return (
            input_rows + weight_rows <= machine.scratchpad_rows // 2 and sums <= machine.accumulator_rows // 2
        )


def _loops(
    machine: GemminiConfig, drawn: _Drawn, whole: LoopConv, tensors: dict[str, int]
) -> list[LoopConv] | None:
    """The loops of all tiles; None where one is nothing but padding, or does not fit."""
    loops: list[LoopConv] = []
    previous: object = None
    half, stride, kdil = 1, drawn.stride, drawn.kdil
    high, wide = drawn.spread.shape[1:3]
    for b, bs, r0, rs, c0, cs, o, os, kr, krs, kc, kcs, k, ks, number, steps in drawn.tiles():
        rows = rs * stride + krs + (kdil - 1) * (krs - 1) - 1
        cols = cs * stride + kcs + (kdil - 1) * (kcs - 1) - 1
        top, left = r0 * stride + kr * kdil - drawn.pad, c0 * stride + kc * kdil - drawn.pad
        up, lp = min(max(0, -top), rows), min(max(0, -left), cols)
        dp, rp = min(max(0, top + rows - high), rows), min(max(0, left + cols - wide), cols)
        if up + dp >= rows or lp + rp >= cols:
            return None
        pixel = max(top, 0) * drawn.width + max(left, 0)
        offsets = drawn.offsets(b, r0, c0, o, kr, kc, k, pixel)
        this = (b, r0, c0, o if drawn.kind == "depthwise" else k, kr, kc)
        again = drawn.reuse_input and this == previous
        half = half if again or not drawn.reuse_input else 3 - half
        previous = this
        pooled = (whole.porows, whole.pocols) if drawn.kind == "pool" else (rs, cs)
        loop = replace(
            whole, batches=bs, orows=rs, ocols=cs, pochs=os, porows=pooled[0], pocols=pooled[1],
            krows=krs, kcols=kcs, kchs=ks, upad=up, dpad=dp, lpad=lp, rpad=rp,
            input=0 if again else tensors["input"] + offsets["input"],
            a_spad_id=half if drawn.reuse_input else 0,
            weights=tensors["weights"] + offsets["weights"],
            bias=0 if number else tensors["bias"] + 4 * o,
            output=tensors["output"] + offsets["output"] if number == steps - 1 else 0,
        )  # fmt: skip
        loops.append(loop)
        if not drawn.fits(machine, loop, rows, cols):
            return None
    return loops
