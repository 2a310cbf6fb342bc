"""Numbers of networks on arrays of int16: how many bits tensors and weights get, so that no sum can leave 32.

The largest magnitude that was seen of an activation is about half of its range, so that what other inputs make nearly twice as large is not
cut off. Activations that the array stores have 16 bits, since it saturates there. Those that the host core rounds share the range of a sum
with the weights that they are multiplied by: both get about as many bits, where weights are a quarter of their largest on average. Weights
get as many as activations leave: for every output channel, the largest and the least sum of their products with anything from the least
to the largest of an activation, with that of its bias, are below 2^31 in magnitude. Where both operands of a product are activations, of
K terms, each is at most sqrt(2^30 / K) in magnitude, so that half of the range is left to what is added.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping

import numpy as np

from baco.compiler.network.builder import semantics_of
from baco.compiler.network.calibrate import Ranges
from baco.compiler.network.fusion import rectifier
from baco.compiler.ops.arithmetic import float32
from baco.workloads.encoding import WideEncoding
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Parameter

#: The largest element that numbers are rounded to; stores of the array may have the least of 16 bits, a larger magnitude.
MOST = (1 << 15) - 1
REACH = 1 << 15
#: How much larger than seen what is stored may be.
HEADROOM = 2
#: What sums must stay below, and the part of that for products of two activations.
SUMS, PRODUCTS = 1 << 31, 1 << 30
#: How many times the mean magnitude of weights the largest one is, about.
_LARGEST = 4
#: More than a float32 scale is rounded by.
_MARGIN = 1 + 2.0**-20
#: Operands of contractions that are stored in 16 bits.
READS = {"conv": slice(0, 1), "matmul": slice(0, 2)}
#: Functions that the array does on the way out, beside rectifiers; and those that hand elements on.
_ON_THE_WAY, _HANDS_ON = ("batchnorm", "maxpool", "identity", "pad"), ("maxpool", "identity", "pad")


def wide_encodings(network: Network, ranges: Ranges, indices: Container[str]) -> dict[str, WideEncoding]:
    """Of every tensor that a product reads; arguments as those of `float_contractions.float_encodings`."""
    operators = {op.name: op for op in network.operators}
    limits: dict[str, int] = {}
    for op in network.operators:
        operands = semantics_of(op).operands[READS.get(semantics_of(op).function, slice(0))]
        tensors = [x for x in operands if isinstance(x, Tensor) and x.name not in indices]
        for x in tensors:
            limit = MOST
            if len(tensors) == 2:
                limit = math.isqrt(PRODUCTS // tensors[0].shape[-1])
            elif not _stored_by_array(x.name, operators):
                limit = math.isqrt(HEADROOM * _LARGEST * SUMS // _terms(op))
            limits[x.name] = min(limits.get(x.name, MOST), limit)
    return {
        name: wide_encoding(ranges[name], limit, positive=_is_positive(name, operators))
        for name, limit in limits.items()
    }


def _terms(op: Operator) -> int:
    left, right = semantics_of(op).operands[:2]
    assert left is not None
    assert right is not None
    return math.prod(right.shape[1:]) if semantics_of(op).function == "conv" else left.shape[-1]


def _source(op: Operator) -> Tensor | None:
    """The one tensor that an operator reads."""
    tensors = [x for x in semantics_of(op).operands if isinstance(x, Tensor)]
    return tensors[0] if len(tensors) == 1 else None


def _stored_by_array(name: str, operators: Mapping[str, Operator]) -> bool:
    """Whether a product may store a tensor itself, with what follows it."""
    op = operators.get(name)
    while op is not None:
        function = semantics_of(op).function
        if function in READS:
            return True
        constant = function == "binary" and any(isinstance(x, Parameter) for x in semantics_of(op).operands)
        source = _source(op)
        if source is None or not (constant or function in _ON_THE_WAY or rectifier(op)[0]):
            return False
        op = operators.get(source.name)
    return False


def _is_positive(name: str, operators: Mapping[str, Operator]) -> bool:
    """Whether no element of a tensor is negative."""
    op = operators.get(name)
    while op is not None and not rectifier(op)[0]:
        source = _source(op)
        zeros = semantics_of(op).attributes.get("value", 0) == 0
        if source is None or semantics_of(op).function not in _HANDS_ON or not zeros:
            return False
        op = operators.get(source.name)
    return op is not None


def wide_encoding(largest: float, limit: int = MOST, *, positive: bool = False) -> WideEncoding:
    """Of activations up to `largest` in magnitude, as whole numbers up to `limit`, with room beyond; by the nearest power of two where the
    host core rounds, which then multiplies instead of dividing."""
    scale = float32(largest * HEADROOM / limit) if largest else 1.0
    if limit < MOST:
        scale = math.ldexp(1.0, round(math.log2(scale)))
    return WideEncoding(scale, 0, 0 if positive else -limit, limit)


def reach(encoding: WideEncoding) -> tuple[int, int]:
    """The magnitudes of the least and the largest element that there may be: those of 16 bits may have been stored by the array."""
    low = 0 if encoding.low == 0 else REACH if encoding.high == MOST else -encoding.low
    return low, encoding.high


def weights_encoding(numbers: np.ndarray, offsets: np.ndarray, read: WideEncoding) -> WideEncoding:
    """Of weights, with which no sum leaves 32 bits.

    Args:
        numbers: [..., K, N], of which each column is summed up.
        offsets: what is added to sums of columns, real numbers.
        read: of what they are multiplied by.
    """
    largest, (low, high) = float(np.abs(numbers).max(initial=0.0)), reach(read)
    exact = numbers.astype(np.float64)
    above, below = np.maximum(exact, 0).sum(-2), np.maximum(-exact, 0).sum(-2)
    sums = np.maximum(above * high + below * low, above * low + below * high)
    # each weight is rounded by half a step at most, what is added likewise
    room = SUMS - 1 - (max(low, high) * numbers.shape[-2] + 1) / 2
    if room <= 0 or not largest:
        return WideEncoding(float32(largest / MOST) if largest else 1.0, 0, -MOST, MOST)
    least = float((sums + np.abs(offsets) / read.scale).max()) / room * _MARGIN
    return WideEncoding(float32(max(largest / MOST, least)), 0, -MOST, MOST)
