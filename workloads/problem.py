"""A tensor problem: the loop bounds of one operator instance."""

from __future__ import annotations

from dataclasses import dataclass, fields

from baco.common.errors import InputError

#: Loop dimensions in the order used by every array of the project.
DIMS = ("R", "S", "P", "Q", "C", "K", "N")
#: Counts stay exact in float64, which the cost models use.
EXACT = 2**53


@dataclass(frozen=True, order=True)
class Problem:
    """One tensor operator instance (design vocabulary: *problem*).

    Bounds are those of *one group*; `groups` independent copies of them are run, so grouped and
    depthwise convolutions (C, K per group) and batched GEMM (one group a batch element) need no
    further case. GEMM M x K x N is P=M, C=K, K=N; GEMV has P=1; 1-D convolution has Q=S=1.
    As in the published data, R slides along P with the *w* stride and S along Q with the *h* stride.
    """

    R: int = 1
    S: int = 1
    P: int = 1
    Q: int = 1
    C: int = 1
    K: int = 1
    N: int = 1
    stride_w: int = 1
    stride_h: int = 1
    dilation_w: int = 1
    dilation_h: int = 1
    groups: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{field.name} must be a whole number of at least 1, not {value!r}")
            if value > EXACT:
                raise InputError(f"{field.name} is beyond the exact range (2^53)")
        if self.macs > EXACT:
            raise InputError(f"{self.macs:.3g} MACs in one operator is beyond the exact range (2^53)")

    @property
    def bounds(self) -> tuple[int, ...]:
        """Loop bounds in the order of `DIMS`."""
        return (self.R, self.S, self.P, self.Q, self.C, self.K, self.N)

    @property
    def macs(self) -> int:
        """Multiply-accumulates over all groups."""
        return self.R * self.S * self.P * self.Q * self.C * self.K * self.N * self.groups

    @property
    def weight_words(self) -> int:
        """Elements of the weight tensor over all groups."""
        return self.R * self.S * self.C * self.K * self.groups

    @property
    def input_words(self) -> int:
        """Input elements touched over all groups, halo included, zero padding counted as data."""
        width = (self.P - 1) * self.stride_w + (self.R - 1) * self.dilation_w + 1
        height = (self.Q - 1) * self.stride_h + (self.S - 1) * self.dilation_h + 1
        return self.C * self.N * width * height * self.groups

    @property
    def output_words(self) -> int:
        """Elements of the output tensor over all groups."""
        return self.P * self.Q * self.K * self.N * self.groups

    @property
    def kind(self) -> str:
        """The field's name of the operator: GEMM, GEMV, depthwise convolution..."""
        if self.R == self.S == 1 and self.Q == 1 and self.stride_w == self.stride_h == 1:
            rows = self.P * self.N
            name = "gemv" if rows == 1 else "gemm"
            return f"batched {name}" if self.groups > 1 else name
        if self.groups > 1:
            return "depthwise conv" if self.C == self.K == 1 else "grouped conv"
        return "conv1d" if self.Q == self.S == 1 or self.P == self.R == 1 else "conv2d"

    def __str__(self) -> str:
        text = " ".join(f"{d}{b}" for d, b in zip(DIMS, self.bounds, strict=True) if b > 1) or "P1"
        if (self.stride_w, self.stride_h) != (1, 1):
            text += f" stride {self.stride_w}x{self.stride_h}"
        if (self.dilation_w, self.dilation_h) != (1, 1):
            text += f" dilation {self.dilation_w}x{self.dilation_h}"
        return text + (f" groups {self.groups}" if self.groups > 1 else "")
