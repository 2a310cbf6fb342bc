"""Quantised networks: integer operators on values in memory, in execution order.

Every operator's docstring states its result as integer arithmetic on the elements of its views, exact to the
bit: the reference (`baco.compiler.network.reference`), the accelerator and the host's C code all compute that. Notation:

* `sat8(x)`: x limited to -128...127.
* `scaled(x, s)`: sat8(round(float32(x) * s)) with float32 s; conversion, product and rounding to nearest, ties to
  even (section 10 of the instruction set).
* `x * F` for a `FixedPoint` F: (x * F.multiplier + 2**(F.shift - 1)) >> F.shift in int64, >> arithmetic.

Images are stored with channels last. All operands are views (`baco.compiler.network.views.View`) of values; weights,
biases and tables are values too, of the role `constant`, with their elements in `QuantisedNetwork.constants`.
Real numbers are `scale * (integer - zero)` for every value; zero is 0 but where a model that is quantised already says else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np

from baco.compiler.network.arithmetic import FixedPoint
from baco.compiler.network.views import JoinedView, View
from baco.workloads.encoding import Encoding

Dtype = Literal["int8", "int32", "int64", "float32"]
Role = Literal["input", "constant", "intermediate", "output"]


@dataclass(frozen=True)
class IntegerTensor:
    """A tensor in memory: a row-major block.

    Attributes:
        name: unique in the network.
        shape: as stored (images N, H, W, C).
        dtype: of the elements; indices (tokens, positions of maxima) are int32, real numbers that a quantised model leaves float32.
        scale: a real number is scale * (element - zero); 1.0 for indices.
        role: `input`: written by the user; `output`: read by the user; `constant`: elements in the network.
        zero: the element that stands for 0.
        encoding: of the int8 elements as the model gives it; None where baco chose the scale.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Dtype = "int8"
    scale: float = 1.0
    role: Role = "intermediate"
    zero: int = 0
    encoding: Encoding | None = None


@dataclass(frozen=True)
class IntegerOperator:
    """An operator.

    Attributes:
        name: unique in the network; of the first operator of the original network that it computes.
        sources: names of all operators of the original network that it computes (fused ones included).
        output: where the result goes; other elements of that value stay as they are.
    """

    name: str
    sources: tuple[str, ...]
    output: View

    @property
    def inputs(self) -> tuple[View, ...]:
        """All views read, constants included, in the order of the fields."""
        values = (getattr(self, f.name) for f in fields(self) if f.name != "output")
        return tuple(v for v in values if isinstance(v, View))


# On the accelerator


@dataclass(frozen=True)
class Pool:
    """Windows of a maximum over an image; (height, width) pairs.

    Attributes:
        kernel, stride: of the window.
        padding: rows above and columns left of the image that the first window covers.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


@dataclass(frozen=True)
class Convolution(IntegerOperator):
    """2-D convolution with requantisation and pooling, as `baco.compiler.layers.layer.Layer` has it. 1-D ones have height 1.

    With x `input` [N, H, W, C], w `weight` [S, R, C / groups, K] and zero outside the image, output channel k in
    group g = k // (K / groups):

        acc[n, q, p, k] = bias[k] + sum over s, r, c of
            x[n, q*stride[0] + s*dilation[0] - padding[0], p*stride[1] + r*dilation[1] - padding[1], g*(C/groups) + c]
            * w[s, r, c, k]                                                    (int32, never beyond its range)
        y = scaled(max(acc, 0) if relu else acc, scale), or acc itself (int32) without a scale
        output[n, q, p, k] = y[n, q, p, k], or with `pool` the maximum of y over the window, positions outside the
            `size` of y left out (only fused where y >= 0 or nothing is padded, so that zeros there do no harm)

    Attributes:
        input: [N, H, W, C]; channels are neighbours and pixels evenly apart (strides H*W*p, W*p, p, 1).
        weight: int8 constant [S, R, C / groups, K], dense.
        bias: int32 constant [K] or None.
        stride, dilation: (height, width).
        padding: rows above and columns left of the image; those below and right follow from `size`.
        size: (Q, P), height and width of the result before pooling.
        groups: the depthwise case is groups = C = K.
        relu: before the scale.
        scale: float32; None: results are sums (int32), without ReLU and pooling.
        pool: window after the scale, or None; `output` is then [N, pooled height, pooled width, K].
    """

    input: View
    weight: View
    bias: View | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    size: tuple[int, int]
    groups: int
    relu: bool
    scale: float | None
    pool: Pool | None = None


@dataclass(frozen=True)
class MatMul(IntegerOperator):
    """Matrix product, batched.

        acc[..., m, n] = bias[n] + sum over k of left[..., m, k] * right[..., k, n]      (int32)
        output[..., m, n] = scaled(max(acc, 0) if relu else acc, scale), or acc itself (int32) without a scale

    Attributes:
        left: int8 [*batch, M, K]; right: int8 [*batch, K, N]; output: [*batch, M, N], all with the same batch
            extents (stride 0 where an operand is shared). Trained weights are a constant without batch
            (`batch` is then empty: all leading dimensions are rows). The last stride of `left` and `output` is 1;
            of `right` one of the last two is (transposed: that of k).
        bias: int32 constant [N] or None.
        relu, scale: as in `Convolution`.
    """

    left: View
    right: View
    bias: View | None
    relu: bool
    scale: float | None


@dataclass(frozen=True)
class SumOfRows(MatMul):
    """A sum or mean of rows as a product: `left` is a row of ones."""


@dataclass(frozen=True)
class Addition(IntegerOperator):
    """output = scaled(max(sum, 0) if relu else sum, scale), sum = scaled(left, left_scale) + scaled(right, right_scale).

    A residual addition by two scaled moves into the accumulator; a difference has a negative `right_scale`.
    All three views have the same shape; left or right may broadcast by strides of 0.
    """

    left: View
    right: View
    left_scale: float
    right_scale: float
    scale: float
    relu: bool


# On the host core


@dataclass(frozen=True)
class Map(IntegerOperator):
    """output = table[input + 128] (int8 constant [256]), or the input itself without a table.

    Activation functions, changes of scale, clipping, copies into another layout or into a part of a larger value.
    """

    input: View
    table: View | None


@dataclass(frozen=True)
class Fill(IntegerOperator):
    """output = constant, everywhere."""

    constant: int


@dataclass(frozen=True)
class Multiplication(IntegerOperator):
    """output = sat8((left * right) * rescale); same shapes, either operand may broadcast by strides of 0.

    `rescale`: of networks its multiplier has at most 12 bits (`row_functions.PRODUCT_BITS`), as many as the accelerator
    multiplies exactly: it is less than one part in 4000 off.
    """

    left: View
    right: View
    rescale: FixedPoint


@dataclass(frozen=True)
class BinaryTable(IntegerOperator):
    """output = table[left + 128, right + 128] (int8 constant [256, 256]): quotients, powers, maxima, comparisons..."""

    left: View
    right: View
    table: View


@dataclass(frozen=True)
class Softmax(IntegerOperator):
    """Softmax over the last dimension, of the elements whose mask is not 0: `row_functions.softmax`.

    Attributes:
        input, output: int8 [..., L].
        table: int32 constant [256], `row_functions.exponentials`.
        numerator: `row_functions.softmax_numerator`.
        mask: int8 [..., L], 0 or 1, or None: all elements take part.
    """

    input: View
    table: View
    numerator: int
    mask: View | None = None


@dataclass(frozen=True)
class Normalisation(IntegerOperator):
    """Layer, RMS, group and instance normalisation over the last `axes` dimensions: `row_functions.normalise`.

    Attributes:
        input, output: int8 [..., normalised dimensions].
        gain, offset: int32 constants of 16 bits, broadcast to the shape of the input.
        axes: how many trailing dimensions are one row.
        centre: subtract the mean (all but RMS).
        epsilon: n*n*eps / scale_in**2, rounded.
        shift: fraction bits of the products, 7 to 31.
    """

    input: View
    gain: View
    offset: View
    axes: int
    centre: bool
    epsilon: int
    shift: int


@dataclass(frozen=True)
class MaxPool(IntegerOperator):
    """output[n, q, p, c] = maximum of input[n, q*stride[0] + s*dilation[0] - padding[0], ..., c] over the window.

    `input` [N, H, W, C]; positions outside the image do not take part (every window meets the image).
    """

    input: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


@dataclass(frozen=True)
class AveragePool(IntegerOperator):
    """output[n, q, p, c] = sat8((sum * factor[q, p] + 2**(shift - 1)) >> shift), sum over the window inside the image.

    `input` [N, H, W, C]; `factor` int32 constant [Q, P] holds the ratio of scales divided by the number of
    elements that count (with or without padding) in units of 2**-shift.
    """

    input: View
    factor: View
    shift: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


@dataclass(frozen=True)
class Reduction(IntegerOperator):
    """Over the last `axes` dimensions: output = sat8(total * rescale), total the int64 sum, maximum or minimum.

    `output` has the leading dimensions of `input`.
    """

    input: View
    function: Literal["sum", "max", "min"]
    axes: int
    rescale: FixedPoint


@dataclass(frozen=True)
class Embedding(IntegerOperator):
    """output[..., f] = table[i, f], i = indices[...] limited to the rows of the table.

    `indices` int32 [...], negative ones count from the end before they are limited; `table` int8 [rows, features].
    """

    indices: View
    table: View


@dataclass(frozen=True)
class Resize(IntegerOperator):
    """Resampling of images `input` [N, H, W, C] to `output` [N, Q, P, C].

    With the rows a = rows[q, 0], b = rows[q, 1], weight f = rows[q, 2] and the columns likewise (g):

        top = x[a, left] * (2**11 - g) + x[a, right] * g;  bottom: the same in row b
        output = sat8((top * (2**11 - f) + bottom * f + 2**21) >> 22)

    Attributes:
        rows: int32 constant [Q, 3]; columns: int32 constant [P, 3]; nearest neighbours have weights of 0.
    """

    input: View
    rows: View
    columns: View


@dataclass(frozen=True)
class ArgMax(IntegerOperator):
    """output (int32) = index of the first maximum (`last`: of the last one; `smallest`: minimum) of the last dimension."""

    input: View
    last: bool = False
    smallest: bool = False


@dataclass(frozen=True)
class Rotation(IntegerOperator):
    """Rotary position embedding of x `input` [..., D], D even, halves h = D / 2 (`interleaved`: neighbouring pairs).

        a, b = x[i], x[h + i]   (interleaved: x[2*i], x[2*i + 1])
        output at a: scaled(a * cosine[..., i] - b * sine[..., i], scale)
        output at b: scaled(b * cosine[..., i] + a * sine[..., i], scale)

    which is a product with a matrix for every position (`baco.compiler.network.rotation`). Entries are at most half a 127th off,
    so that results are within one and a half steps of the input's scale, half of it their own rounding.

    `cosine`, `sine`: int8 constants broadcast to [..., h], 127 stands for 1; `scale` includes it.
    """

    input: View
    cosine: View
    sine: View
    interleaved: bool
    scale: float


@dataclass(frozen=True, eq=False)
class QuantisedNetwork:
    """A network in integers.

    Attributes:
        name: of the network.
        values: by name, in order of first appearance; inputs, constants and outputs included.
        operators: in execution order. Several may write parts of one value, but each element is written once,
            before it is read.
        constants: elements of the constant values, by name.
        inputs: names of the network's inputs -> how the user sees them (the network's own shape, images with
            channels first), as a view of a value of the role `input`.
        outputs: the same for its outputs, which may be joined of several values. Their values have the role `output`, but for an output that is a
            view of an input or a constant, or in whose value an input lies (a cache).
        tensors: every tensor of the (unrolled) network that is not fused away or kept in another form -> its view.
        random: parameters that the source did not give and that were drawn at random.
        seed: of what was drawn.
        whole: inputs and outputs that the user sees as the whole numbers that a quantised model has -> their limits.
    """

    name: str
    values: Mapping[str, IntegerTensor]
    operators: tuple[IntegerOperator, ...]
    constants: Mapping[str, np.ndarray]
    inputs: Mapping[str, View]
    outputs: Mapping[str, View | JoinedView]
    tensors: Mapping[str, View] = field(default_factory=dict)
    random: tuple[str, ...] = ()
    seed: int = 0
    whole: Mapping[str, Encoding] = field(default_factory=dict)

    def read(self, view: View | JoinedView, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """A tensor in real numbers (indices as they are), from the elements of all values."""

        def numbers(one: View) -> np.ndarray:
            value, elements = self.values[one.value], one.read(values[one.value])
            if value.dtype != "int8":
                return np.asarray(elements)
            if value.encoding is not None:
                return value.encoding.real(elements)
            return elements * value.scale

        return view.read(numbers) if isinstance(view, JoinedView) else numbers(view)

    def read_output(self, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """An output as the user sees it, from the elements of all values."""
        view = self.outputs[name]
        if name in self.whole and isinstance(view, View):
            return np.asarray(view.read(values[view.value]).astype(np.int32) + self.whole[name].shift)
        return self.read(view, values)

    def step(self, name: str) -> float | None:
        """Between neighbouring numbers that an output can be, where the model says so; None elsewhere."""
        view = self.outputs[name]
        if name in self.whole:
            return 1.0
        encoding = self.values[view.value].encoding if isinstance(view, View) else None
        return None if encoding is None else encoding.scale

    def scale(self, view: View) -> float:
        """A real number is this times the integer in the view."""
        return self.values[view.value].scale
