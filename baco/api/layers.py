"""Layers by their sizes: what `baco.compile` and `baco.run` take beside networks and kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from baco.api.argument_types import checked
from baco.common.door import argument
from baco.common.errors import InputError, did_you_mean
from baco.compiler.layers.layer import Layer, Pooling
from baco.workloads.problem import Problem
from baco.workloads.shapes import Pair, pair, window_count

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.compiler.schedules.schedule import Schedule


#: Ways to write code: whichever is estimated to be fastest, explicit moves and products, or loop macros.
STYLES = ("auto", "explicit", "macro")
#: Groups are computed one after the other; the largest networks have thousands.
_MOST_GROUPS = 1 << 16
#: Of float32, which the accelerator scales in.
_LARGEST_SCALE = float(np.finfo(np.float32).max)


@checked()
def gemm(
    m: int,
    k: int,
    n: int,
    *,
    groups: int = 1,
    bias: bool = False,
    relu: bool = False,
    scale: float | None = None,
    raw: bool = False,
    residual: float | None = None,
    pool: tuple[int, ...] | None = None,
    transposed: bool = False,
) -> Layer:
    """A product of int8 matrices, m × k by k × n, summed in int32 and requantised to int8.

    Args:
        groups: so many products, one after the other.
        bias: add an int32 bias.
        relu: negative sums become 0.
        scale: of the requantisation; by default one that leaves most results of random operands within int8.
        raw: keep int32 results, without a scale.
        residual: add an int8 matrix times this scale.
        pool: maximum over windows: size, stride, and padding, which may be left out.
        transposed: the second matrix is stored n × k.

    Raises InputError for sizes and options that make no layer.
    """
    _whole("--gemm", {"m": m, "k": k, "n": n, "groups": groups})
    problem = _problem({"P": m, "C": k, "K": n, "groups": groups})
    return _finished(problem, None, (0, 0), bias, relu, scale, raw, residual, pool, transposed)


@checked()
def conv(
    height: int,
    width: int,
    channels: int,
    outputs: int,
    *,
    kernel: int | tuple[int, int] = 1,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    batch: int = 1,
    bias: bool = False,
    relu: bool = False,
    scale: float | None = None,
    raw: bool = False,
    residual: float | None = None,
    pool: tuple[int, ...] | None = None,
) -> Layer:
    """A convolution of an int8 image of height × width × channels to `outputs` channels.

    Args:
        kernel, stride, padding, dilation: one number, or one for height and one for width.
        groups: parts that channels and outputs are cut into, each convolved by itself.
        batch: images.
        bias, relu, scale, raw, residual, pool: as for `gemm`.

    Raises InputError for sizes and options that make no layer.
    """
    sides = {"height": height, "width": width, "channels": channels, "outputs": outputs, "batch": batch}
    _whole("--conv", {**sides, "groups": groups})
    (kernel_h, kernel_w), (stride_h, stride_w) = _two(kernel), _two(stride)
    (top, left), (dilation_h, dilation_w) = _two(padding), _two(dilation)
    if min(kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, groups) < 1:
        raise InputError("--conv: kernel, stride, dilation and groups are at least 1")
    if min(top, left) < 0:
        raise InputError("--conv: the padding is not negative")
    if channels % groups or outputs % groups:
        raise InputError(f"--conv: {channels} and {outputs} channels cannot be cut into {groups} groups")
    rows = window_count(height, kernel_h, stride_h, (top, top), dilation_h)
    columns = window_count(width, kernel_w, stride_w, (left, left), dilation_w)
    if rows < 1 or columns < 1:
        raise InputError("--conv: the kernel is larger than the padded image")
    sizes = {
        "R": kernel_w,
        "S": kernel_h,
        "P": columns,
        "Q": rows,
        "C": channels // groups,
        "K": outputs // groups,
    }
    strides = {"stride_w": stride_w, "stride_h": stride_h, "dilation_w": dilation_w, "dilation_h": dilation_h}
    problem = _problem({**sizes, **strides, "N": batch, "groups": groups})
    return _finished(problem, (height, width), (top, left), bias, relu, scale, raw, residual, pool, False)


def schedule_for(
    layer: Layer,
    accelerator: Accelerator,
    *,
    style: str = "auto",
    mapping: str | None = None,
    baseline: bool = False,
) -> Schedule:
    """How a layer is carried out: as a mapping says, by Gemmini's default tiling, or the fastest by estimate.

    Raises InputError for options that contradict each other, InfeasibleError when no schedule can be found, or main memory
    does not hold the layer.
    """
    from baco.compiler.choice.choose import AllowedStyles, choose
    from baco.compiler.codegen.layer_program import check_layer_memory

    if style not in STYLES:
        raise InputError(f"there is no code style '{style}'", hint=did_you_mean(style, STYLES))
    check_layer_memory(layer)  # before tilings of something endless are looked at
    if baseline:
        from baco.compiler.choice.gemmini import gemmini_schedule

        if mapping is not None or style == "explicit":
            raise InputError("--baseline is a choice of its own, without --mapping or --style explicit")
        return gemmini_schedule(layer, accelerator)
    if mapping is not None:
        from baco.compiler.mapping.text import parse_mapping
        from baco.compiler.schedules.schedule import ExplicitSchedule
        from baco.compiler.styles.explicit.code import buffered

        if style == "macro":
            raise InputError("a mapping is carried out in the explicit style", hint="leave --style out")
        # the text says nothing of copies
        return ExplicitSchedule(buffered(layer, parse_mapping(mapping), accelerator))
    chosen: AllowedStyles = "explicit" if style == "explicit" else "macro" if style == "macro" else "auto"
    return choose(layer, accelerator, style=chosen)


def _whole(what: str, sizes: dict[str, int]) -> None:
    """Raises InputError for a size that is none."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise InputError(f"{what}: `{name}` is a whole number, at least 1, not {size!r}")
    if sizes["groups"] > _MOST_GROUPS:
        raise InputError(
            f"{sizes['groups']:,} groups are more than the {_MOST_GROUPS:,} that one layer may have"
        )


def _problem(sizes: dict[str, int]) -> Problem:
    return Problem(**{name: int(size) for name, size in sizes.items()})


def _finished(
    problem: Problem,
    image: tuple[int, int] | None,
    padding: tuple[int, int],
    bias: bool,
    relu: bool,
    scale: float | None,
    raw: bool,
    residual: float | None,
    pool: tuple[int, ...] | None,
    transposed: bool,
) -> Layer:
    """The layer of a problem, with what happens to its sums."""
    for option, value in (("scale", scale), ("residual", residual)):
        if value is not None and not abs(value) <= _LARGEST_SCALE:
            raise InputError(f"{argument(option)}: {value:g} is too large for a float32 number")
    if raw and scale is not None:
        raise InputError(
            f"{argument('raw')} leaves results as they are; {argument('scale')} makes no sense with it"
        )
    pooling = None
    if pool is not None:
        if len(pool) not in (2, 3):
            raise InputError(
                f"{argument('pool')} has a size, a stride and perhaps a padding, not {len(pool)} numbers"
            )
        size, stride, pad = (*pool, 0) if len(pool) == 2 else pool
        if stride < 1:
            raise InputError(f"{argument('pool')}: the stride must be at least 1")
        rows, columns = (window_count(extent, size, stride, (pad, pad)) for extent in (problem.Q, problem.P))
        pooling = Pooling(size, stride, pad, rows, columns)
    return Layer(
        problem,
        image=image,
        padding=padding,
        bias=bias,
        residual_scale=residual,
        relu=relu,
        scale=None if raw else _suitable_scale(problem) if scale is None else scale,
        pooling=pooling,
        weights_transposed=transposed,
    )


def _suitable_scale(problem: Problem) -> float:
    """A power of two that leaves most results of random operands within int8, and few of them 0."""
    spread = 74.0**2 * math.sqrt(problem.R * problem.S * problem.C)
    return float(2.0 ** round(math.log2(48 / spread)))


def _two(value: Pair) -> tuple[int, ...]:
    try:
        return pair(value)
    except ValueError:
        raise InputError(
            f"--conv: {value} is neither one number nor one for height and one for width"
        ) from None
