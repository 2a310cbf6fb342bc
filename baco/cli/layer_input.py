"""Layers as the command line describes them."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from baco.common.errors import InputError
from baco.common.numbers import WHOLE

if TYPE_CHECKING:
    from baco.compiler.layers.layer import Layer


_GEMM = re.compile(rf"(?:({WHOLE}):)?({WHOLE})x({WHOLE})x({WHOLE})")
_CONV = re.compile(
    # `->` is a redirection in every shell unless it is quoted
    rf"(?:({WHOLE}),)?({WHOLE})x({WHOLE})x({WHOLE})(?::|->)({WHOLE})((?:,[a-z]{WHOLE}(?:x{WHOLE})?)*)"
)
_POOL = re.compile(rf"({WHOLE}),({WHOLE})(?:,({WHOLE}))?")
_PARTS = {"k": "kernel", "s": "stride", "p": "padding", "d": "dilation", "g": "groups"}
_CONV_HINT = (
    "write [N,]HxWxC:K, then kernel, stride, padding, dilation and groups: 56x56x64:128,k3,s2,p1,d1,g1"
)


@dataclass(frozen=True)
class LayerOptions:
    """Options that describe a layer and how it is to be carried out; see `baco compile --help`.

    Attributes:
        gemm ([G:]MxKxN): Matrix product of M x K by K x N, G of them.
        conv (SHAPE): Convolution, as [N,]HxWxC:K,k3,s2,p1,d1,g1; k3x5: 3 high, 5 wide.
        bias: Add an int32 bias.
        relu: ReLU before requantisation.
        scale: Of the requantisation to int8; default: one that suits.
        raw: Keep int32 results.
        residual (SCALE): Add an int8 tensor times a scale.
        pool (SIZE,STRIDE[,PADDING]): Max pooling of the results.
        transposed: The weights of --gemm are stored N x K.
        mapping (TEXT): Loops to carry the layer out by, as 'L3[WIO] K48 - L2[WI] ...'.
        style: auto (by estimated cycles), explicit or macro.
        baseline: Tiles of Gemmini's default heuristic; a network altogether as its library would run it.
    """

    panel: ClassVar[str] = "Layer"
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

    def given_options(self) -> dict[str, bool]:
        """Whether each option is given, by how it is written."""
        return {f"--{one.name}": getattr(self, one.name) != one.default for one in fields(self)}


def layer_of(options: LayerOptions) -> Layer:
    """The layer. Raises InputError for a malformed or impossible one."""
    from baco.api.layers import conv, gemm

    pool: tuple[int, ...] | None = None
    if options.pool is not None:
        numbers = _POOL.fullmatch(options.pool)
        if not numbers:
            raise InputError(
                f"--pool: '{options.pool}' is no pooling", hint="write SIZE,STRIDE[,PADDING]: 3,2,1"
            )
        pool = tuple(int(size or 0) for size in numbers.groups())
    if options.gemm is not None and options.conv is not None:
        raise InputError("give either --gemm or --conv")
    finish: dict[str, Any] = {
        "bias": options.bias,
        "relu": options.relu,
        "scale": options.scale,
        "raw": options.raw,
        "residual": options.residual,
        "pool": pool,
    }
    if options.gemm is None:
        if options.transposed:
            raise InputError("only the weights of a matrix product can be stored transposed")
        return conv(**_convolution(str(options.conv)), **finish)
    found = _GEMM.fullmatch(options.gemm)
    if not found:
        raise InputError(
            f"--gemm: '{options.gemm}' is no matrix product",
            hint="write [GROUPS:]MxKxN, for M x K times K x N: 128x512x256",
        )
    groups, m, k, n = (int(size or 1) for size in found.groups())
    return gemm(m, k, n, groups=groups, transposed=options.transposed, **finish)


def _convolution(text: str) -> dict[str, Any]:
    """Arguments of `baco.conv`. Raises InputError for text that is no convolution."""
    found = _CONV.fullmatch(text)
    if not found:
        raise InputError(f"--conv: '{text}' is no convolution", hint=_CONV_HINT)
    batch, height, width, channels, outputs = (int(size or 1) for size in found.groups()[:5])
    values: dict[str, tuple[int, int]] = {}
    for part in found[6].split(",")[1:]:
        letter, numbers = part[0], [int(number) for number in part[1:].split("x")]
        if letter not in _PARTS or (letter == "g" and len(numbers) > 1):
            raise InputError(f"--conv: '{part}' means nothing", hint=_CONV_HINT)
        values[_PARTS[letter]] = (numbers[0], numbers[-1])
    groups, _ = values.pop("groups", (1, 1))
    sizes = {"height": height, "width": width, "channels": channels, "outputs": outputs, "batch": batch}
    return {**sizes, "groups": groups, **values}
