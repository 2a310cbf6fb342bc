"""How a model that is quantised stores real numbers as whole ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco.accel.number_formats import FORMATS, FloatFormat


@dataclass(frozen=True)
class Encoding:
    """The real number (q - zero) * scale of a whole number q from `low` to `high`, for all elements of a tensor.

    Attributes:
        scale: a float32, positive.
        zero: the whole number that stands for 0.
        low, high: limits of the whole numbers.
    """

    scale: float
    zero: int
    low: int
    high: int

    @property
    def bits(self) -> int:
        """Of an element that is stored."""
        return 8

    @property
    def units(self) -> tuple[float, int]:
        """What a whole number stands for, whatever the limits: scale and zero point."""
        return self.scale, self.zero

    def limited(self, low: int, high: int) -> Encoding:
        """The same within these limits too."""
        return Encoding(self.scale, self.zero, max(low, self.low), min(high, self.high))

    @property
    def fits_bytes(self) -> bool:
        """Whether the whole numbers, less `shift`, are int8."""
        return self.low - self.shift >= -128 and self.high - self.shift <= 127

    @property
    def shift(self) -> int:
        """What is taken away from whole numbers that are stored as int8: 128 of those that need all of uint8."""
        return 128 if self.high > 127 else 0

    @property
    def stored(self) -> Encoding:
        """The same real numbers of the int8 elements that are stored."""
        shift = self.shift
        return Encoding(self.scale, self.zero - shift, self.low - shift, self.high - shift)

    def whole(self, numbers: np.ndarray) -> np.ndarray:
        """The nearest whole numbers (ties to even), limited, int64; the quotient is a float32, as ONNX has it."""
        with np.errstate(all="ignore"):
            steps = np.rint(np.asarray(numbers, np.float32) / np.float32(self.scale)).astype(np.float64)
        # Undefined numbers are as good as any: 0.
        steps = np.nan_to_num(steps, nan=0.0, posinf=2.0**40, neginf=-(2.0**40))
        return np.asarray(np.clip(steps + self.zero, self.low, self.high), np.int64)

    def real(self, whole: np.ndarray) -> np.ndarray:
        """Real numbers, float32."""
        difference = np.asarray(whole, np.int64) - self.zero
        return np.asarray(difference.astype(np.float32) * np.float32(self.scale))


@dataclass(frozen=True)
class WideEncoding(Encoding):
    """Whole numbers of at most 16 bits, which are stored as they are (int16); 0 is 0."""

    @property
    def bits(self) -> int:
        """Of an element that is stored."""
        return 16

    @property
    def stored(self) -> Encoding:
        """The same."""
        return self

    def whole(self, numbers: np.ndarray) -> np.ndarray:
        """The nearest, limited, int16."""
        return super().whole(numbers).astype(np.int16)


@dataclass(frozen=True)
class FloatEncoding(Encoding):
    """Codes of floating point (int8 or int16 holds their bits): what a code stands for, times `scale`; 0 is 0.

    Attributes:
        form: name of the format (`baco.accel.number_formats.FORMATS`).
    """

    form: str = "fp8-e4m3"

    @property
    def _format(self) -> FloatFormat:
        found = FORMATS[self.form]
        assert isinstance(found, FloatFormat)
        return found

    @property
    def bits(self) -> int:
        """Of a code."""
        return self._format.bits

    @property
    def stored(self) -> Encoding:
        """The same."""
        return self

    def whole(self, numbers: np.ndarray) -> np.ndarray:
        """Codes of the nearest numbers, saturated; the quotient is a float32."""
        with np.errstate(all="ignore"):
            steps = np.asarray(numbers, np.float32) / np.float32(self.scale)
        return self._format.codes(steps)

    def real(self, whole: np.ndarray) -> np.ndarray:
        """Real numbers, float32, of codes."""
        return np.asarray(self._format.numbers(whole) * np.float32(self.scale))


def check_scales(
    scale: np.ndarray,
    zero: np.ndarray,
    limits: tuple[int, int],
    called: str,
    axis: int = 0,
    shape: tuple[int, ...] | None = None,
) -> int:
    """The axis that scales and zero points lie along, counted from the first dimension.

    Args:
        scale, zero: one number each, or one for every index along the axis.
        limits: least and largest whole number.
        called: the type of the whole numbers.
        axis: a dimension; below 0 from the last.
        shape: of the tensor; None where it is not known.

    Raises ValueError, saying what is wrong, for a scale that is 0, negative or no number, a zero point beyond the limits, an axis
    that the tensor does not have, and for other numbers of scales than there are channels.
    """
    wrong = scale[~(np.isfinite(scale) & (scale > 0))].reshape(-1)
    if wrong.size:
        raise ValueError(f"its scale is {wrong[0]:g}, but must be a positive number")
    low, high = limits
    beyond = zero[(zero < low) | (zero > high)].reshape(-1)
    if beyond.size:
        raise ValueError(f"its zero point {beyond[0]} is out of the range of {called}, {low} to {high}")
    if zero.size not in (1, scale.size):
        raise ValueError(f"it has {scale.size} scales, but {zero.size} zero points")
    if scale.size == 1 or shape is None:
        return axis
    if scale.ndim != 1:
        raise ValueError(f"its scales must be one number or a vector, not {scale.shape}")
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"its axis {axis} is none of a tensor of {len(shape)} dimensions")
    if scale.size != shape[axis]:
        raise ValueError(f"it has {scale.size} scales, but its axis {axis} is {shape[axis]} long")
    return axis % len(shape)
