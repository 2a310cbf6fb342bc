"""A layer: one problem as the accelerator computes it, with padding, layouts in memory and what happens on the way out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from baco.accel.input_format import InputFormat, element_bits
from baco.accel.number_formats import array_float
from baco.common.errors import InputError
from baco.common.shown import Shown
from baco.common.units import tally
from baco.compiler.layers.weight_blocks import BLOCK_CHANNELS, WeightBlocks
from baco.workloads.problem import Problem

#: Largest finite float32.
_LARGEST_SCALE = float(np.finfo(np.float32).max)


def packed_nibbles(elements: np.ndarray) -> np.ndarray:
    """Bytes (int8 [..., ceil(n / 2)]) of elements [..., n] from -8 to 7, two a byte, the first in the low bits."""
    even = np.zeros((*elements.shape[:-1], -(-elements.shape[-1] // 2) * 2), np.uint8)
    even[..., : elements.shape[-1]] = elements.astype(np.int8).view(np.uint8) & 15
    return np.ascontiguousarray(even[..., ::2] | even[..., 1::2] << 4).view(np.int8)


@dataclass(frozen=True)
class Layout:
    """How a matrix or an image lies in main memory, in elements.

    Attributes:
        pitch: from one pixel (row of a matrix) to the next.
        group: from one group to the next, at the same pixel (for a batch of matrices: the whole matrix).
    """

    pitch: int
    group: int = 0


@dataclass(frozen=True)
class Pooling:
    """Maximum over square windows of the requantised results; positions outside the result contribute 0.

    Attributes:
        size: edge of the window, 1 to 3.
        stride: 1 to 3.
        padding: rows above and columns left of the result, 0 to `size` - 1.
        rows, columns: of the pooled image.
    """

    size: int
    stride: int
    padding: int
    rows: int
    columns: int


@dataclass(frozen=True, repr=False)
class Layer(Shown):
    """What one layer computes, exactly, and where its tensors lie.

    With x the int8 input, w the int8 weights, zero outside the image (int8 stands for int16 where `elements` are these):

        acc[n, q, p, k] = bias[k] + sum over s, r, c of
            x[n, q*stride_h + s*dilation_h - pad_top, p*stride_w + r*dilation_w - pad_left, c] * w[s, r, c, k]
        acc = acc + residual_scaled, where residual_scaled = saturate_int8(round(residual * residual_scale))
        out = acc if `scale` is None, else pool(saturate_int8(round(relu(acc) * scale)))

    in int32 that wraps, `round` and `scale` as section 10 of the instruction set has them (float32 product of the
    float32 of acc, to nearest even), for each group on its own part of the tensors. A matrix product of M x C by
    C x K is P = M (an image of one row), C and K.

    Tensors (elements): input `[N, height, width]` pixels of `input.pitch`, of which a group takes C elements from
    `group * input.group`; weights `[S, R, C]` rows of `weight.pitch`, of which a group takes K elements from
    `group * weight.group` (`weights_transposed`, products only: K rows of C elements); bias int32 `[groups * K]`;
    residual and output `[N, Q, P]` pixels (output pooled: `[N, pooling.rows, pooling.columns]`) of `output.pitch`
    and K elements from `group * output.group`, int8 or, without scale, int32.

    Attributes:
        problem: loop bounds of one group, strides, dilations, groups.
        image: height and width of the stored input; pixels beyond it are zero.
        padding: rows above and columns left of the image that the first window covers.
        bias: whether there is one.
        residual_scale: scale of an int8 residual that is added, None without one.
        relu: negative sums become 0 (only with a scale).
        scale: float32 factor of the requantisation, None for raw int32 results.
        pooling: only with a scale and without a residual.
        input, weight, output: layouts; None for dense ones (NHWC, HWIO, groups in the channels; for products of
            several groups, whole matrices one after the other).
        weights_transposed: w is stored as K rows of C elements.
        weight_bits: of an int8 weight in main memory, 8, or 4: from -8 to 7, two a byte, the first in the low bits (`packed_nibbles`);
            pitch and distance of groups are even. The buffer then is of bytes.
        weight_blocks: how weights of bfloat16 lie in main memory in blocks with shared powers, whose numbers they are; None for
            elements as they are. Of one group, not transposed; `weight` then is the layout of the numbers, and the buffer is of bytes.
        elements: `Accelerator.input_format` that it is for. Where it is floating point, elements are codes, and sums, the bias among them,
            bits of float32, which are added up, scaled by powers of two and rounded as `baco.compiler.layers.float_sums.FloatSums` has it
            for the rows of the array, without a residual.
    """

    problem: Problem
    image: tuple[int, int] | None = None
    padding: tuple[int, int] = (0, 0)
    bias: bool = False
    residual_scale: float | None = None
    relu: bool = False
    scale: float | None = 1.0
    pooling: Pooling | None = None
    input: Layout = field(default=Layout(0))
    weight: Layout = field(default=Layout(0))
    output: Layout = field(default=Layout(0))
    weights_transposed: bool = False
    weight_bits: int = 8
    weight_blocks: WeightBlocks | None = None
    elements: InputFormat = "integer"

    def _headline(self) -> str:
        p = self.problem
        parts = [
            f"{p.kind} {p}",
            "bias" if self.bias else "",
            "residual" if self.residual_scale is not None else "",
        ]
        parts += ["relu" if self.relu else "", "raw" if self.scale is None else ""]
        parts += [f"pool {self.pooling.size},{self.pooling.stride}" if self.pooling is not None else ""]
        return ", ".join(filter(None, parts))

    def _facts(self) -> Iterator[tuple[str, object]]:
        yield "work", tally(self.problem.macs, "MACs")
        yield "requantised by", self.scale
        yield "image", None if self.image is None else "×".join(map(str, self.image))

    def __post_init__(self) -> None:
        p = self.problem
        if self.image is None:
            object.__setattr__(
                self, "image", (self._reach_h - self.padding[0], self._reach_w - self.padding[1])
            )
        matrices = p.groups > 1 and self.is_product and not p.C == p.K == 1
        defaults = {
            "input": Layout(p.C, self.pixels_in * p.C) if matrices else Layout(p.C * p.groups, p.C),
            "weight": Layout(p.K, p.R * p.S * p.C * p.K) if matrices else Layout(p.K * p.groups, p.K),
            "output": Layout(p.K, self.pixels_out * p.K) if matrices else Layout(p.K * p.groups, p.K),
        }
        if self.weights_transposed:
            defaults["weight"] = Layout(p.C, p.C * p.K)
        for name, layout in defaults.items():
            if getattr(self, name).pitch == 0:
                object.__setattr__(self, name, layout)
        self._check()

    def _check(self) -> None:
        p = self.problem
        height, width = self.size
        if min(height, width) < 1 or min(self.padding) < 0:
            raise InputError(
                f"a layer needs an image and no negative padding, not {self.image}, {self.padding}"
            )
        if self.padding[0] >= self._reach_h or self.padding[1] >= self._reach_w:
            raise InputError("the padding leaves no window on the image")
        if self.scale is None and (self.relu or self.pooling):
            raise InputError("ReLU and pooling need requantised results", hint="give a scale")
        for what, factor in (("scale", self.scale), ("residual's scale", self.residual_scale)):
            if factor is not None and not abs(factor) <= _LARGEST_SCALE:
                raise InputError(f"the {what} must be a finite float32, not {factor}")
        if self.weights_transposed and not self.is_product:
            raise InputError("only the weights of a matrix product can be stored transposed")
        if self.pooling:
            pool = self.pooling
            if self.residual_scale is not None:
                raise InputError("a layer with a residual cannot pool")
            if not (1 <= pool.size <= 3 and 1 <= pool.stride <= 3 and 0 <= pool.padding < pool.size):
                raise InputError(
                    f"pooling windows of {pool.size}, stride {pool.stride}, padding {pool.padding} do not exist here",
                    hint="size and stride 1 to 3, padding below the size",
                )
            for name, count, extent in (("rows", pool.rows, p.Q), ("columns", pool.columns, p.P)):
                if count < 1 or (count - 1) * pool.stride - pool.padding >= extent:
                    raise InputError(f"{count} pooled {name} do not overlap the {extent} results")
        if (
            self.input.pitch < p.C
            or self.output.pitch < p.K
            or self.weight.pitch < (p.C if self.weights_transposed else p.K)
        ):
            raise InputError("a layout's pitch is less than the elements of a row")
        if self.real and (self.residual_scale is not None or self.weight_bits != 8):
            raise InputError(f"a layer of {self.elements} has no residual, and weights of 8 bits")
        if self.elements != "integer" and self.weight_bits != 8:
            raise InputError(f"a layer of {self.elements} has no weights of {self.weight_bits} bits")
        if self.weight_blocks is not None and (
            self.elements != "bf16" or p.groups > 1 or self.weights_transposed
        ):
            raise InputError(
                "weights in blocks are those of bfloat16 layers of one group, not transposed",
                hint="leave weight_blocks out",
            )
        if self.weight_bits not in (4, 8):
            raise InputError(f"weights have 4 or 8 bits, not {self.weight_bits}")
        if self.weight_bits == 4 and (self.weight.pitch % 2 or (p.groups > 1 and self.weight.group % 2)):
            raise InputError(
                "rows and groups of weights of 4 bits begin with a byte: their distances must be even"
            )

    @property
    def real(self) -> bool:
        """Whether elements are floating point."""
        return array_float(self.elements) is not None

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of input, weights and results that are no sums."""
        return element_bits(self.elements) // 8

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the stored image."""
        assert self.image is not None
        return self.image

    @property
    def _reach_h(self) -> int:
        return (
            (self.problem.Q - 1) * self.problem.stride_h + (self.problem.S - 1) * self.problem.dilation_h + 1
        )

    @property
    def _reach_w(self) -> int:
        return (
            (self.problem.P - 1) * self.problem.stride_w + (self.problem.R - 1) * self.problem.dilation_w + 1
        )

    @property
    def is_product(self) -> bool:
        """A matrix product: one row of pixels, window of one, nothing padded."""
        p = self.problem
        return p.R == p.S == p.Q == 1 and p.stride_w == 1 and self.size == (1, p.P) and self.padding == (0, 0)

    @property
    def plain(self) -> bool:
        """Nothing tells neighbouring rows of pixels apart from one long row: windows of one pixel, stride 1, no padding, no
        pooling, a stored image of just the pixels of the result."""
        p = self.problem
        steps = (p.R, p.S, p.stride_w, p.stride_h)
        return (
            steps == (1, 1, 1, 1) and self.padding == (0, 0) and self.size == (p.Q, p.P) and not self.pooling
        )

    @property
    def pixels_in(self) -> int:
        """Pixels of the stored input."""
        return self.problem.N * self.size[0] * self.size[1]

    @property
    def pixels_out(self) -> int:
        """Pixels of the results before pooling."""
        return self.problem.N * self.problem.Q * self.problem.P

    @property
    def pixels_stored(self) -> int:
        """Pixels of the stored output, pooled or not."""
        if self.pooling:
            return self.problem.N * self.pooling.rows * self.pooling.columns
        return self.pixels_out

    @property
    def output_bits(self) -> int:
        """Of a stored output element: those of an element, or 32 raw."""
        return 32 if self.scale is None else 8 * self.element_bytes

    # extents in elements, from the tensor's first element to behind its last one

    @property
    def input_extent(self) -> int:
        """Elements of the input's buffer."""
        return self._extent(self.pixels_in, self.input, self.problem.C)

    @property
    def weight_extent(self) -> int:
        """Elements of the weights' buffer."""
        p = self.problem
        if self.weights_transposed:
            return self._extent(p.K, self.weight, p.C)
        return self._extent(p.S * p.R * p.C, self.weight, p.K)

    @property
    def weight_bytes(self) -> int:
        """Of the weights' buffer."""
        if self.weight_blocks is not None:
            p = self.problem
            return self.weight_blocks.nbytes(p.S * p.R, p.C, p.K)
        return math.ceil(self.weight_extent * self.weight_size)

    @property
    def weight_steps(self) -> Layout:
        """From row to row and from group to group of the weights, in bytes."""
        return Layout(int(self.weight.pitch * self.weight_size), int(self.weight.group * self.weight_size))

    @property
    def weight_size(self) -> float:
        """Bytes of a weight in main memory: those of an element, or half a byte; in blocks with its part of the shared powers."""
        if self.weight_blocks is not None:
            blocks = -(-self.problem.C // BLOCK_CHANNELS)
            return self.weight_blocks.element_bits / 8 + blocks / self.problem.C
        return self.weight_bits / 8 * self.element_bytes

    @property
    def output_extent(self) -> int:
        """Elements of the output's buffer."""
        return self._extent(self.pixels_stored, self.output, self.problem.K)

    @property
    def residual_extent(self) -> int:
        """Elements of the residual's buffer."""
        return self._extent(self.pixels_out, self.output, self.problem.K)

    def _extent(self, rows: int, layout: Layout, elements: int) -> int:
        return (rows - 1) * layout.pitch + (self.problem.groups - 1) * layout.group + elements


def stored_blocks(layer: Layer, weights: np.ndarray) -> np.ndarray:
    """Bytes of a layer's weights in its blocks (flat int8), given as flat codes in its layout. Raises InputError for numbers that are none
    of such blocks."""
    assert layer.weight_blocks is not None
    p, pitch = layer.problem, layer.weight.pitch
    rows = p.S * p.R * p.C
    whole = np.zeros(rows * pitch, weights.dtype)
    whole[: len(weights)] = weights
    codes = whole.reshape(p.S * p.R, p.C, pitch)[..., : p.K]
    found = layer.weight_blocks.stored(codes)
    if found is None:
        raise InputError(
            f"these weights are no numbers of {layer.weight_blocks.form}",
            hint="round them to its blocks first",
        )
    return found
