"""Sums of products of a quantised model's whole numbers, from their bias to their result."""

from __future__ import annotations

import math

import numpy as np

from baco.compiler.network.builder import IntegerBuilder
from baco.compiler.network.fusion import Epilogue, follow
from baco.compiler.network.trained_weights import LARGEST_SUM
from baco.compiler.ops.arithmetic import float32
from baco.compiler.ops.elements import ScaledSums
from baco.compiler.ops.requantisation import Requantise
from baco.compiler.ops.views import View
from baco.workloads.encoding import Encoding
from baco.workloads.network import Operator
from baco.workloads.semantics import Operand, Parameter


def bias_numbers(b: IntegerBuilder, bias: Operand, scale: np.ndarray, e: Epilogue) -> np.ndarray:
    """int64 bias in units of `scale`, of every channel [K] or [1]: the model's own whole numbers where it gives them in these units."""
    unit = scale.astype(np.float64)
    shift = np.rint(e.shift / (unit * e.factor)) if e.shift.any() else np.zeros(1)
    shift = np.nan_to_num(np.clip(shift, -(2.0**40), 2.0**40)).astype(np.int64)
    if not isinstance(bias, Parameter):
        return shift
    if _in_units(bias, unit):
        return shift + b.parameters.whole(bias).astype(np.int64).reshape(-1)
    real = b.parameters(bias).astype(np.float64).reshape(-1)
    return shift + np.clip(np.rint(real / unit), -(2.0**40), 2.0**40).astype(np.int64)


def limits_of(e: Epilogue, encoding: Encoding) -> tuple[int, int]:
    """Least and largest element of a result: a ReLU's zero and limit are such."""
    low = max(encoding.low, encoding.zero) if e.relu else encoding.low
    high = encoding.high
    if e.limit is not None:
        high = min(high, int(encoding.whole(np.array(e.limit))))
    return low, high


def factors_of(source: float, weights: np.ndarray, target: float, factor: np.ndarray) -> np.ndarray:
    """float32 factors from sums to results, as the runtimes of ONNX have them: source * weights / target."""
    product = np.float32(source) * weights.astype(np.float32) * factor.astype(np.float32)
    return np.asarray(product / np.float32(target), np.float32)


def requantised_sums(
    b: IntegerBuilder,
    name: str,
    factors: np.ndarray,
    limits: tuple[int, int],
    encoding: Encoding,
) -> tuple[float, bool] | None:
    """(scale, whether ReLU) by which the array itself gives the results; None where the host core must."""
    low, high = limits
    alike = factors.size == 1 or bool((factors == factors[0]).all())
    factor = float(factors[0])
    if not alike or high < 127 or not math.isfinite(factor):
        return None
    if encoding.zero and (zero_in_sums(encoding.zero, factor) is None or low != -128):
        return None
    if low == 0 and factor > 0:
        return float32(factor), True
    return (float32(factor), False) if low == -128 else None


def zero_in_sums(zero: int, factor: float) -> int | None:
    """What is added to sums so that results (sums * factor) are `zero` larger; None where that is not the same to the bit.

    It is for a factor that is a power of two, at most 1, and an even zero point: halves then stay halves, between the same neighbours.
    Sums of results that are not limited are at most 512 / factor, which float32 holds as they are from 2**-15 on.
    """
    if not 2.0**-15 <= factor <= 1 or math.frexp(factor)[0] != 0.5 or zero % 2:
        return None
    return round(zero / factor)


def fits_sums(b: IntegerBuilder, op: Operator, magnitudes: np.ndarray, bias: np.ndarray) -> bool:
    """Whether sums of products of bytes with weights of these total magnitudes and a bias stay within 32 bits; if not, the host
    core adds the bias. Raises InputError where not even the sums alone do, or half the bias."""
    largest, added = 128 * magnitudes.astype(np.int64), np.abs(bias)
    if max(int(largest.max(initial=0)), int(added.max(initial=0)) // 2) > LARGEST_SUM:
        raise b.error(op, "sums of its products, or its bias, do not fit into 32 bits")
    return int((largest + added).max(initial=0)) <= LARGEST_SUM


def followed(
    b: IntegerBuilder, op: Operator, axis: int, scalable: bool = True, shiftable: bool = True
) -> Epilogue:
    """What is computed with a contraction; nothing where the model does not round what follows, which is then as it says."""
    e = follow(b, op, axis, scalable=scalable, shiftable=shiftable, as_given=True)
    if e.last.name not in b.real:
        return e
    b.done.difference_update(e.sources[1:])
    return Epilogue(op, [op.name])


def constant_factors(b: IntegerBuilder, name: str, factors: np.ndarray) -> View:
    """float32 factors as the host core reads them."""
    alike = factors[:1] if (factors == factors[0]).all() else factors
    return b.constant(f"{name}.factors", np.ascontiguousarray(alike, np.float32).view(np.int32))


def result_of(b: IntegerBuilder, e: Epilogue, order: tuple[int, ...] | None) -> View:
    """Memory for the last operator's tensor."""
    real = e.last.name in b.real
    return b.tensor(e.last.name, e.last.output.shape, order, dtype="float32" if real else "int8")


def late_bias(b: IntegerBuilder, bias: Operand, unit: np.ndarray, *, real: bool) -> np.ndarray | None:
    """Real numbers [K] that are added to real results, since they are no whole ones in units of the sums."""
    if not real or not isinstance(bias, Parameter) or _in_units(bias, unit):
        return None
    return b.parameters(bias).astype(np.float32).reshape(-1)


def _in_units(bias: Parameter, unit: np.ndarray) -> bool:
    """Whether the model gives whole numbers in these units."""
    if bias.whole is None or any(bias.whole.zero):
        return False
    return np.allclose(bias.scales().astype(np.float64).reshape(-1), unit, rtol=1e-5, atol=0)


def usable_factors(b: IntegerBuilder, op: Operator, factors: np.ndarray) -> np.ndarray:
    """The factors. Raises InputError where one of them is not finite."""
    if not np.isfinite(factors).all():
        raise b.error(op, "its scales are beyond the range of 32-bit floating point")
    return factors


class WayOut:
    """How sums of products become a result.

    Attributes:
        direct: (scale, whether ReLU) by which the array itself gives the result, or None.
        zero_in_sums: what its bias then holds more, where 0 is no element 0.
    """

    def __init__(
        self, b: IntegerBuilder, name: str, e: Epilogue, output: View, factors: np.ndarray, *, whole: bool
    ) -> None:
        self._b, self._name, self._e, self._output, self._factors = b, name, e, output, factors
        self._real = b.values[output.value].dtype == "float32"
        self.direct: tuple[float, bool] | None = None
        self.zero_in_sums = 0
        if whole and not self._real:
            encoding = b.encoding(output)
            self.direct = requantised_sums(b, name, factors, limits_of(e, encoding), encoding)
            if self.direct and encoding.zero:
                self.zero_in_sums = zero_in_sums(encoding.zero, float(factors[0])) or 0

    def emit(self, sums: View, *more: View) -> None:
        """The operator behind the array, from its sums and at most two others that are added to them; none for a direct result."""
        b, name, sources = self._b, self._name, tuple(self._e.sources)
        if self.direct:
            return
        if len(more) > 2:
            raise b.error(self._e.last, "sums of its products and its bias do not fit into 32 bits")
        rows, columns = (*more, None, None)[:2]
        if not self._real:
            encoding = b.encoding(self._output)
            low, high = limits_of(self._e, encoding)
            factors = constant_factors(b, name, self._factors)
            limits = encoding.zero, low, high
            b.emit(Requantise(b.name(name), sources, self._output, sums, rows, columns, factors, *limits))
            return
        shape = self._output.shape
        none = b.constant("no.offset", np.zeros(1, np.int32)).expanded(shape)
        by = b.constant(f"{name}.factors", self._factors).expanded(shape)
        b.emit(ScaledSums(b.name(name), sources, self._output, sums, rows or none, columns or none, by))
