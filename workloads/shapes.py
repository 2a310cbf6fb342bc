"""Shape arithmetic shared by the builder and the importers: windows, transposed windows, broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

Pair = int | Sequence[int]


def pair(value: Pair, count: int = 2) -> tuple[int, ...]:
    """`value` for every spatial dimension, (height, width) for images. Raises ValueError for a wrong count."""
    if isinstance(value, int):
        return (value,) * count
    result = tuple(value)
    if len(result) == 1:
        return result * count
    if len(result) != count:
        raise ValueError(f"needs {count} numbers, not {len(result)}")
    return result


def paddings(value: Pair, count: int = 2) -> tuple[tuple[int, int], ...]:
    """(before, after) per spatial dimension, from one number, one per dimension, or all befores then all afters."""
    if not isinstance(value, int) and len(value) == 2 * count and count * 2 > 1:
        numbers = tuple(value)
        return tuple(zip(numbers[:count], numbers[count:], strict=True))
    return tuple((number, number) for number in pair(value, count))


def window_count(
    size: int, kernel: int, stride: int, pad: tuple[int, int], dilation: int = 1, ceil: bool = False
) -> int:
    """Positions of a sliding window: floor((size + padding - dilated kernel) / stride) + 1.

    With `ceil` the last, partial window counts if it starts inside the input or the leading padding
    (the rule of PyTorch and ONNX). Zero or less means that the window does not fit.
    """
    span = size + pad[0] + pad[1] - ((kernel - 1) * dilation + 1)
    if span < 0:
        return 0
    if not ceil:
        return span // stride + 1
    count = -(-span // stride) + 1
    return count - 1 if (count - 1) * stride >= size + pad[0] else count


def transposed_size(
    size: int, kernel: int, stride: int, pad: tuple[int, int], dilation: int = 1, output_padding: int = 0
) -> int:
    """Output extent of a transposed convolution: the input extent that a convolution would shrink to `size`."""
    return (size - 1) * stride - pad[0] - pad[1] + (kernel - 1) * dilation + output_padding + 1


@dataclass(frozen=True)
class Phase:
    """Outputs of a 1-D transposed convolution that share their taps: an ordinary stride-1 convolution.

    `residue`: these are the outputs residue, residue + stride, residue + 2 * stride...
    """

    outputs: int
    taps: int
    dilation: int
    residue: int = 0


def taps_of(residue: int, kernel: int, stride: int, pad_before: int, dilation: int = 1) -> range:
    """Taps r of a 1-D transposed convolution that reach the outputs residue, residue + stride...: those for which
    stride divides residue + pad_before - r * dilation, which are evenly apart."""
    common = gcd(stride, dilation)
    if (residue + pad_before) % common:
        return range(0)
    apart = stride // common
    first = (residue + pad_before) // common * pow(dilation // common, -1, apart) % apart
    return range(first, kernel, apart)


def transposed_phases(
    output: int, kernel: int, stride: int, pad_before: int, dilation: int = 1
) -> list[Phase]:
    """Split a 1-D transposed convolution of stride s into s ordinary ones.

    Output o reads input (o + pad - r * dilation) / stride for those taps r that divide exactly, so outputs
    with equal (o + pad) mod stride share their taps; consecutive taps are stride/g apart and step the input
    by dilation/g with g = gcd(stride, dilation). Phases without outputs or taps (zeros) are left out.
    """
    common = gcd(stride, dilation)
    phases = []
    for residue in range(min(stride, output)):
        taps = len(taps_of(residue, kernel, stride, pad_before, dilation))
        outputs = (output - residue + stride - 1) // stride
        if taps and outputs:
            phases.append(Phase(outputs, taps, dilation // common if taps > 1 else 1, residue))
    return phases


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Numpy broadcasting of shapes. Raises ValueError when they do not fit."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise ValueError(
                "shapes " + " and ".join(str(tuple(shape)) for shape in shapes) + " do not broadcast"
            )
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)
