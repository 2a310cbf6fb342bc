"""Layers as the command line describes them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.numbers import WHOLE

if TYPE_CHECKING:
    from accel.config import Accelerator
    from compiler.layer import Layer
    from compiler.schedule import Schedule
    from workloads.problem import Problem

__all__ = ["LayerOptions", "layer_of", "schedule_of"]

_GEMM = re.compile(rf"(?:({WHOLE}):)?({WHOLE})x({WHOLE})x({WHOLE})")
_CONV = re.compile(
    rf"(?:({WHOLE}),)?({WHOLE})x({WHOLE})x({WHOLE})->({WHOLE})((?:,[a-z]{WHOLE}(?:x{WHOLE})?)*)"
)
_POOL = re.compile(rf"({WHOLE}),({WHOLE})(?:,({WHOLE}))?")
_CONV_HINT = (
    "write [N,]HxWxC->K, then kernel, stride, padding, dilation and groups: 56x56x64->128,k3x3,s2,p1,d1,g1"
)
_STYLES = ("auto", "explicit", "macro")
#: Groups are computed one after the other; the largest networks have thousands.
_MOST_GROUPS = 1 << 16
#: Of float32, which the accelerator scales in.
_LARGEST_SCALE = (2 - 2**-23) * 2.0**127


@dataclass(frozen=True)
class LayerOptions:
    """Options that describe a layer and how it is to be carried out; see `baco compile --help`."""

    gemm: str | None = None
    conv: str | None = None
    bias: bool = False
    relu: bool = False
    scale: float | None = None
    raw: bool = False
    residual: float | None = None
    pool: str | None = None
    transposed: bool = False
    mapping: str | None = None
    style: str = "auto"
    baseline: bool = False

    @property
    def given(self) -> bool:
        """Whether there is a layer."""
        return self.gemm is not None or self.conv is not None


def layer_of(options: LayerOptions) -> Layer:
    """The layer. Raises InputError for a malformed or impossible one."""
    from common.errors import InputError
    from compiler.layer import Layer, Pooling
    from workloads.problem import Problem

    for option, value in (("--scale", options.scale), ("--residual", options.residual)):
        if value is not None and abs(value) > _LARGEST_SCALE:
            raise InputError(f"{option}: {value:g} is too large for a float32 number")
    if options.raw and options.scale is not None:
        raise InputError("--raw leaves results as they are; --scale makes no sense with it")
    if options.gemm is not None and options.conv is not None:
        raise InputError("give either --gemm or --conv")
    image, padding = None, (0, 0)
    if options.gemm is not None:
        found = _GEMM.fullmatch(options.gemm)
        if not found:
            raise InputError(
                f"--gemm: '{options.gemm}' is no matrix product",
                hint="write [GROUPS:]MxKxN, for M x K times K x N: 128x512x256",
            )
        groups, m, k, n = (int(one or 1) for one in found.groups())
        problem = Problem(P=m, C=k, K=n, groups=groups)
    else:
        problem, image, padding = _convolution(str(options.conv))
    pooling = None
    if options.pool is not None:
        numbers = _POOL.fullmatch(options.pool)
        if not numbers:
            raise InputError(
                f"--pool: '{options.pool}' is no pooling", hint="write SIZE,STRIDE[,PADDING]: 3,2,1"
            )
        size, stride, pad = (int(one or 0) for one in numbers.groups())
        if not stride:
            raise InputError("--pool: the stride must be at least 1")
        rows, columns = ((extent + 2 * pad - size) // stride + 1 for extent in (problem.Q, problem.P))
        pooling = Pooling(size, stride, pad, rows, columns)
    scale = None if options.raw else _suitable_scale(problem) if options.scale is None else options.scale
    layer = Layer(
        problem,
        image=image,
        padding=padding,
        bias=options.bias,
        residual_scale=options.residual,
        relu=options.relu,
        scale=scale,
        pooling=pooling,
        weights_transposed=options.transposed,
    )
    _check_groups(layer)
    return layer


def schedule_of(options: LayerOptions, layer: Layer, accelerator: Accelerator, target: str) -> Schedule:
    """The schedule that the options ask for, the best by estimate unless they name one.

    Raises InputError for options that contradict each other, InfeasibleError when no schedule can be found.
    """
    from common.errors import InputError, did_you_mean
    from compiler.lower.choose import Style, choose

    if options.style not in _STYLES:
        raise InputError(
            f"there is no code style '{options.style}'", hint=did_you_mean(options.style, _STYLES)
        )
    if options.baseline:
        from compiler.heuristic import gemmini_schedule

        if options.mapping is not None or options.style == "explicit":
            raise InputError("--baseline is a choice of its own, without --mapping or --style explicit")
        return gemmini_schedule(layer, accelerator)
    if options.mapping is not None:
        from compiler.lower.explicit import buffered
        from compiler.mapping_text import parse_mapping
        from compiler.schedule import ExplicitSchedule

        if options.style == "macro":
            raise InputError("a mapping is carried out in the explicit style", hint="leave --style out")
        # the text says nothing of copies
        return ExplicitSchedule(buffered(layer, parse_mapping(options.mapping), accelerator))
    style: Style = (
        "explicit" if options.style == "explicit" else "macro" if options.style == "macro" else "auto"
    )
    return choose(layer, accelerator, target=target, style=style)


def _check_groups(layer: Layer) -> None:
    """Raises InputError for a layer of more groups than any program could go through."""
    from common.errors import InputError

    if layer.problem.groups > _MOST_GROUPS:
        raise InputError(
            f"{layer.problem.groups:,} groups are more than the {_MOST_GROUPS:,} that one layer may have"
        )


def _suitable_scale(problem: Problem) -> float:
    """A power of two that leaves most results of random operands within int8, and few of them 0."""
    spread = 74.0**2 * math.sqrt(problem.R * problem.S * problem.C)
    return float(2.0 ** round(math.log2(48 / spread)))


def _convolution(text: str) -> tuple[Problem, tuple[int, int], tuple[int, int]]:
    """Problem, image and padding of a convolution."""
    from common.errors import InputError
    from workloads.problem import Problem

    found = _CONV.fullmatch(text)
    if not found:
        raise InputError(f"--conv: '{text}' is no convolution", hint=_CONV_HINT)
    batch, height, width, channels, outputs = (int(one or 1) for one in found.groups()[:5])
    values: dict[str, tuple[int, int]] = {"k": (1, 1), "s": (1, 1), "p": (0, 0), "d": (1, 1), "g": (1, 1)}
    for part in found[6].split(",")[1:]:
        letter, numbers = part[0], [int(one) for one in part[1:].split("x")]
        if letter not in values or (letter == "g" and len(numbers) > 1):
            raise InputError(f"--conv: '{part}' means nothing", hint=_CONV_HINT)
        values[letter] = (numbers[0], numbers[-1])
    (kernel_h, kernel_w), (stride_h, stride_w) = values["k"], values["s"]
    (top, left), (dilation_h, dilation_w), groups = values["p"], values["d"], values["g"][0]
    if min(kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, groups) < 1:
        raise InputError(f"--conv: kernel, stride, dilation and groups of '{text}' are at least 1")
    if channels % groups or outputs % groups:
        raise InputError(f"--conv: {channels} and {outputs} channels cannot be cut into {groups} groups")
    rows = (height + 2 * top - dilation_h * (kernel_h - 1) - 1) // stride_h + 1
    columns = (width + 2 * left - dilation_w * (kernel_w - 1) - 1) // stride_w + 1
    if rows < 1 or columns < 1:
        raise InputError(f"--conv: the kernel of '{text}' is larger than the padded image")
    problem = Problem(
        R=kernel_w, S=kernel_h, P=columns, Q=rows, C=channels // groups, K=outputs // groups, N=batch,
        stride_w=stride_w, stride_h=stride_h, dilation_w=dilation_w, dilation_h=dilation_h, groups=groups,
    )  # fmt: skip
    return problem, (height, width), (top, left)
