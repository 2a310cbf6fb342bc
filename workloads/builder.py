"""A small graph builder with shape inference: what built-in networks are written in and importers call.

Values are `Tensor`s; a method adds one operator and returns its output. Views (reshape, transposition,
slices, expansion) add none: they return the same tensor under another shape, since the accelerator and
the host read through addresses. Whether an operator is fused follows from `baco.workloads.kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baco.common.errors import did_you_mean
from baco.workloads.kinds import KINDS
from baco.workloads.network import Tensor
from baco.workloads.semantics import Fill, Parameter, Semantics
from baco.workloads.shapes import Pair, broadcast, window_count
from baco.workloads.tensor_builder import TensorBuilder
from baco.workloads.views import slice_of

_BATCHNORM: Mapping[str, Fill] = {"scale": "scale", "shift": "shift", "mean": "shift", "variance": "scale"}


class GraphBuilder(TensorBuilder):
    """Builds a `Network`, operator by operator, in topological order.

    Args:
        name: of the network.
        source: file it comes from, or `built-in`.
        options: what was chosen when it was built (batch, sequence length...).

    Every method raises InputError, located at the file (or network) and operator, when shapes do not fit.

    `trained` holds the parameters of an operator (`baco.workloads.semantics.Parameter`) where the source of the network
    has them; without it they are named after the operator and have no values.
    """

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        shape: Sequence[int] | None = None,
        weights: int = 0,
        name: str | None = None,
        semantics: Semantics | None = None,
    ) -> Tensor:
        """Any operator without a problem; `shape` defaults to that of the broadcast inputs.

        Without `semantics` it can be explored, but not run.

        Raises InputError for a kind outside `baco.workloads.kinds.KINDS`.
        """
        name = self._name(kind, name)
        if kind not in KINDS:
            raise self.error(f"unknown operator kind '{kind}'", name, did_you_mean(kind, KINDS))
        if shape is None:
            try:
                shape = broadcast(*(x.shape for x in inputs))
            except ValueError as error:
                raise self.error(str(error), name) from None
        return self._add(name, kind, tuple(inputs), tuple(shape), None, weights, semantics)

    def stored(self, values: Parameter, name: str | None = None) -> Tensor:
        """A constant that is read from outside: a result of the model that depends on none of its inputs."""
        return self.op("concat", (), values.shape, name=name, semantics=Semantics("identity", (values,)))

    def unary(
        self, kind: str, x: Tensor, name: str | None = None, function: str | None = None, **numbers: float
    ) -> Tensor:
        """A pointwise function of one tensor: `kind` is its name unless `function` is."""
        meaning = Semantics("unary", (x,), {"name": function or kind, "numbers": numbers})
        return self.op(kind, (x,), x.shape, name=name, semantics=meaning)

    def binary(self, kind: str, a: Tensor, b: Tensor, name: str | None = None) -> Tensor:
        """A pointwise function (`add`, `mul`...) of two tensors, broadcast."""
        return self.op(kind, (a, b), name=name, semantics=Semantics("binary", (a, b), {"name": kind}))

    def batchnorm(self, x: Tensor, name: str | None = None, eps: float = 1e-5) -> Tensor:
        """Batch normalisation over channels (dimension 1): folded into the convolution before it, if any."""
        name = self._name("batchnorm", name)
        parts = [Parameter(f"{name}.{part}", (x.shape[1],), fill=fill) for part, fill in _BATCHNORM.items()]
        semantics = Semantics("batchnorm", (x, *parts), {"eps": eps})
        return self._add(name, "batchnorm", (x,), x.shape, None, 2 * x.shape[1], semantics)

    def layernorm(self, x: Tensor, name: str | None = None, eps: float = 1e-5) -> Tensor:
        """Layer normalisation over the last dimension, with scale and shift."""
        name = self._name("layernorm", name)
        scale = Parameter(f"{name}.scale", x.shape[-1:], fill="scale")
        shift = Parameter(f"{name}.shift", x.shape[-1:], fill="shift")
        semantics = Semantics("layernorm", (x, scale, shift), {"axes": 1, "eps": eps})
        return self._add(name, "layernorm", (x,), x.shape, None, 2 * x.shape[-1], semantics)

    def rmsnorm(self, x: Tensor, name: str | None = None, eps: float = 1e-5) -> Tensor:
        """Root-mean-square normalisation over the last dimension, with a scale."""
        name = self._name("rmsnorm", name)
        scale = Parameter(f"{name}.scale", x.shape[-1:], fill="scale")
        semantics = Semantics("rmsnorm", (x, scale), {"axes": 1, "eps": eps})
        return self._add(name, "rmsnorm", (x,), x.shape, None, x.shape[-1], semantics)

    def relu(self, x: Tensor, name: str | None = None) -> Tensor:
        """max(x, 0)."""
        return self.unary("relu", x, name)

    def add(self, a: Tensor, b: Tensor, name: str | None = None) -> Tensor:
        """Sum of two tensors (a residual)."""
        return self.binary("add", a, b, name)

    def add_table(self, x: Tensor, rows: int, name: str | None = None, start: int = 0) -> Tensor:
        """x (..., positions, features) plus rows of a trained table (rows, features), from `start`."""
        name = self._name("add", name)
        whole = Parameter(f"{name}.table", (rows, x.shape[-1]), spread=0.5)
        part = slice_of(whole.shape, 0, start, start + x.shape[-2])
        if part.shape != x.shape[-2:]:
            raise self.error(f"a table of {rows} rows has no {x.shape[-2]} from row {start}", name)
        table = whole.viewed(part.shape, part)
        semantics = Semantics("binary", (x, table), {"name": "add"})
        return self._add(name, "add", (x,), x.shape, None, rows * x.shape[-1], semantics)

    def concat(
        self, tensors: Sequence[Tensor], axis: int, weights: int = 0, name: str | None = None
    ) -> Tensor:
        """Tensors side by side along `axis`: producers write into one block."""
        name = self._name("concat", name)
        if not tensors:
            raise self.error("nothing to join", name)
        first = tensors[0].shape
        if not -len(first) <= axis < len(first):
            raise self.error(f"axis {axis} of {first} does not exist", name)
        axis %= len(first)
        rest = {(*t.shape[:axis], *t.shape[axis + 1 :]) for t in tensors}
        if len(rest) > 1 or any(len(t.shape) != len(first) for t in tensors):
            raise self.error(
                "cannot join " + ", ".join(str(t.shape) for t in tensors) + f" along {axis}", name
            )
        shape = (*first[:axis], sum(t.shape[axis] for t in tensors), *first[axis + 1 :])
        semantics = Semantics("concat", tuple(tensors), {"axis": axis})
        return self._add(name, "concat", tuple(tensors), shape, None, weights, semantics)

    def pool(
        self,
        kind: str,
        x: Tensor,
        kernel: Pair,
        stride: Pair | None = None,
        padding: Pair = 0,
        dilation: Pair = 1,
        ceil: bool = False,
        name: str | None = None,
        count_padding: bool = True,
        divisor: int | None = None,
        p: int = 2,
        column_major: bool = False,
        rounded_with: Sequence[float] | None = None,
    ) -> Tensor:
        """Pooling (`maxpool`, `avgpool`, `lppool`: the p-norm, `maxpositions`: where the maxima are) over the spatial dimensions
        of x (N, C, ...).

        Averages divide by `divisor`, else by the window's size, without its padded positions unless
        `count_padding`. Of a window that is the whole image the average is `global_avgpool`'s. With `rounded_with` it
        stands for one on whole numbers: float32, added up in order, rounded in this scale together with its zero point.
        """
        name = self._name(kind, name)
        rank = len(x.shape) - 2
        kernels, strides, pads, dilations = self._window(
            name, rank, x, kernel, kernel if stride is None else stride, padding, dilation
        )
        out = tuple(
            window_count(x.shape[2 + i], kernels[i], strides[i], pads[i], dilations[i], ceil)
            for i in range(rank)
        )
        if min(out) < 1:
            raise self.error(f"a window of {kernels} does not fit into {x.shape[2:]}", name)
        attributes: dict[str, Any] = {
            "kernel": kernels,
            "stride": strides,
            "padding": pads,
            "dilation": dilations,
            "shape": out,
        }
        if (kind, kernels, divisor) == ("avgpool", x.shape[2:], None) and not np.any(pads):
            return self.global_avgpool(x, name)
        if kind == "avgpool":
            attributes |= {"count_padding": count_padding, "divisor": divisor, "rounded_with": rounded_with}
        if kind == "lppool":
            attributes |= {"p": p}
        if kind == "maxpositions":
            attributes |= {"column_major": column_major}
        semantics = Semantics(kind, (x,), attributes)
        kind = "gather" if kind == "maxpositions" else kind
        return self._add(name, kind, (x,), (*x.shape[:2], *out), semantics=semantics)

    def maxpool(
        self, x: Tensor, kernel: Pair, stride: Pair | None = None, padding: Pair = 0, name: str | None = None
    ) -> Tensor:
        """Max-pooling; fused when it follows a convolution."""
        return self.pool("maxpool", x, kernel, stride, padding, name=name)

    def global_avgpool(self, x: Tensor, name: str | None = None) -> Tensor:
        """Mean over the spatial dimensions: (N, C, H, W) to (N, C, 1, 1)."""
        shape = (*x.shape[:2], *(1 for _ in x.shape[2:]))
        axes = tuple(range(2, len(x.shape)))
        semantics = Semantics("reduce", (x,), {"name": "mean", "axes": axes, "keepdims": True})
        return self.op("avgpool", (x,), shape, name=name, semantics=semantics)

    def upsample(self, x: Tensor, size: Sequence[int], name: str | None = None) -> Tensor:
        """Spatial dimensions resized to `size`: nearest neighbours."""
        attributes = {"mode": "nearest", "coordinates": "asymmetric", "rounding": "floor", "scales": None}
        semantics = Semantics("resize", (x,), attributes)
        return self.op("upsample", (x,), (*x.shape[:2], *size), name=name, semantics=semantics)

    def softmax(
        self, x: Tensor, name: str | None = None, mask: Parameter | Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Softmax over the last dimension; `causal`: a row sees the columns up to its own, the last row all."""
        if causal and mask is None:
            mask = causal_mask(*x.shape[-2:])
        semantics = Semantics("softmax", (x, mask), {"axis": len(x.shape) - 1, "logarithm": False})
        return self.op("softmax", (x,), x.shape, name=name, semantics=semantics)

    def rope(self, x: Tensor, name: str | None = None, start: int = 0, base: float = 10000.0) -> Tensor:
        """Rotary position embedding of x (..., positions, features) in halves; the first position is `start`."""
        semantics = Semantics("rope", (x,), {"base": base, "interleaved": False, "start": start})
        return self.op("rope", (x,), name=name, semantics=semantics)

    def embedding(self, indices: Tensor, rows: int, features: int, name: str | None = None) -> Tensor:
        """Rows of a trained table: indices (...) to (..., features)."""
        name = self._name("embedding", name)
        table = Parameter(f"{name}.table", (rows, features), spread=0.5)
        return self._add(
            name,
            "embedding",
            (indices,),
            (*indices.shape, features),
            None,
            rows * features,
            Semantics("embedding", (indices, table)),
        )


def causal_mask(rows: int, columns: int, shift: int | None = None) -> Parameter:
    """True where a query (row) sees a key (column): up to `shift` positions beyond its own; the last one sees all
    without it."""
    seen = columns - rows if shift is None else shift
    return Parameter(
        f"causal{rows}x{columns}+{seen}", (rows, columns), lambda: np.tri(rows, columns, seen, dtype=bool)
    )
