"""Normalisations and softmaxes that a model spells out, as the operators that they are.

Exporters and frameworks write x - mean(x), its square, the mean of that, a root, a quotient, one by one. In 8 bits each, little is
left of them: squares and reciprocals span more than 255 steps, and the mean of squares less the square of the mean cancels. As one
operator they are worked out in wide integers (`baco.compiler.row_functions`). Each step of the known forms is told by what it is of
the same x; the operator that ends one takes x instead, and the steps go where nobody else needs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from baco.compiler.network.parameters import Parameters
from baco.workloads.network import Network, Operator, Tensor
from baco.workloads.semantics import Operand, Parameter, Semantics
from baco.workloads.views import Reshape

#: Largest number that is added to a variance lest it be zero.
_LARGEST_EPS = 0.1


@dataclass(frozen=True)
class _Part:
    """What a tensor is of x.

    Attributes:
        kind: `mean`, `sum`, `centred` (x - mean), `square`, `centred square`, `square of mean`, `mean square`, `variance`,
            `deviation` and `root mean square` with their reciprocals behind `1/`; `normalised`, `scaled by root mean square`;
            `maximum`, `below maximum`, `exponential`, `total`, `softmax`, `log total`, `log softmax`.
        of: of a `sum`, the kind of what is summed up; of an `exponential` and what follows, `below maximum` where that is its argument.
        axes: how many last dimensions.
    """

    kind: str
    x: Tensor
    axes: int = 0
    eps: float = 0.0
    of: str = ""
    gain: Parameter | None = None
    shift: Parameter | None = None


#: What a mean over, and a square of, are by what they are taken of.
_MEANS = {"": "mean", "square": "mean square", "centred square": "variance"}
_SQUARES = {"": "square", "centred": "centred square", "mean": "square of mean"}
_ROOTS = {"variance": "deviation", "mean square": "root mean square"}
_ENDS = {"normalised": "layernorm", "scaled by root mean square": "rmsnorm"}


def fold_spelled_out(network: Network, parameters: Parameters) -> Network:
    """The network with these forms as one operator each; operators that nothing needs any more stay in it."""
    forms = _Forms(parameters)
    return replace(network, operators=tuple(forms.rewritten(op) for op in network.operators))


class _Forms:
    """Tells operator by operator what its result is of an earlier tensor."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._parts: dict[str, _Part] = {}

    def rewritten(self, op: Operator) -> Operator:
        """The operator, in one step from x where it ends a form."""
        semantics = op.semantics
        rules: dict[str, Callable[[Operator, Semantics], _Part | None]] = {
            "reduce": self._reduced,
            "unary": self._unary,
            "binary": self._binary,
        }
        if semantics is None or semantics.function not in rules:
            return op
        part = rules[semantics.function](op, semantics)
        if part is None:
            return op
        self._parts[op.name] = part
        x = part.x
        if part.kind in ("softmax", "log softmax"):
            attributes = {"axis": len(x.shape) - 1, "logarithm": part.kind == "log softmax"}
            meaning = Semantics("softmax", (x, None), attributes)
        elif part.kind in _ENDS:
            operands: tuple[Operand, ...] = (x, part.gain)
            operands += (part.shift,) if part.kind == "normalised" else ()
            meaning = Semantics(_ENDS[part.kind], operands, {"axes": part.axes, "eps": part.eps})
        else:
            return op
        return replace(op, kind=meaning.function, inputs=(x.name,), semantics=meaning, fused=False)

    def _part(self, operand: Operand) -> _Part | None:
        """What is known of an operand; nothing of views."""
        if not isinstance(operand, Tensor) or operand.steps:
            return None
        return self._parts.get(operand.name)

    def _number(self, operand: Operand) -> float | None:
        if not isinstance(operand, Parameter) or math.prod(operand.shape) != 1:
            return None
        return float(self._parameters(operand).reshape(()))

    def _reduced(self, op: Operator, semantics: Semantics) -> _Part | None:
        (x,), a = semantics.operands, semantics.attributes
        if not isinstance(x, Tensor) or not a["keepdims"] or a["name"] not in ("mean", "sum", "max"):
            return None
        rank, axes = len(x.shape), len(a["axes"])
        if sorted(a["axes"]) != list(range(rank - axes, rank)):
            return None
        known = self._part(x)
        kind = known.kind if known is not None else ""
        if a["name"] == "max":
            return _Part("maximum", x, axes) if axes == 1 else None
        if a["name"] == "sum" and kind == "exponential" and axes == 1:
            assert known is not None
            return replace(known, kind="total", axes=1)
        own = kind if kind in _MEANS else ""
        source = known.x if known is not None and own else x
        if known is not None and own == "centred square" and known.axes != axes:
            return None
        if a["name"] == "sum":
            return _Part("sum", source, axes, of=own)
        return _Part(_MEANS[own], source, axes)

    def _unary(self, op: Operator, semantics: Semantics) -> _Part | None:
        (x,), name = semantics.operands, semantics.attributes["name"]
        assert isinstance(x, Tensor)
        known = self._part(x)
        if name == "square":
            return self._squared(x)
        if name == "exp":
            if known is not None and known.kind == "below maximum":
                return replace(known, kind="exponential", of=known.kind)
            return _Part("exponential", x)
        if known is None:
            return None
        if name == "log" and known.kind == "total":
            return replace(known, kind="log total")
        if name == "relu" and known.kind == "variance":
            return known
        if name in ("sqrt", "rsqrt") and known.kind in _ROOTS:
            return replace(known, kind=("1/" if name == "rsqrt" else "") + _ROOTS[known.kind])
        if name == "reciprocal" and known.kind in _ROOTS.values():
            return replace(known, kind=f"1/{known.kind}")
        return None

    def _squared(self, x: Tensor) -> _Part:
        known = self._part(x)
        if known is not None and known.kind in _SQUARES:
            return replace(known, kind=_SQUARES[known.kind])
        return _Part("square", x)

    def _binary(self, op: Operator, semantics: Semantics) -> _Part | None:
        name, (left, right) = semantics.attributes["name"], semantics.operands
        if isinstance(left, Tensor) and isinstance(right, Tensor):
            return self._of_two(name, left, right, op.output.shape)
        if isinstance(left, Parameter) and name in ("add", "mul", "maximum"):
            left, right = right, left
        if isinstance(left, Tensor):
            return self._with_constant(name, left, right)
        known = self._part(right)
        if name == "div" and self._number(left) == 1 and known is not None and known.kind in _ROOTS.values():
            return replace(known, kind=f"1/{known.kind}")
        return None

    def _with_constant(self, name: str, x: Tensor, constant: Operand) -> _Part | None:
        known, number = self._part(x), self._number(constant)
        if name == "pow" and number == 2:
            return self._squared(x)
        if known is None:
            return None
        if name == "pow" and number in (0.5, -0.5) and known.kind in _ROOTS:
            return replace(known, kind=("1/" if number < 0 else "") + _ROOTS[known.kind])
        if known.kind == "sum" and number:
            count = math.prod(known.x.shape[-known.axes :])
            factor = number if name == "mul" else 1 / number if name == "div" else 0.0
            return (
                replace(known, kind=_MEANS[known.of], of="")
                if math.isclose(factor * count, 1, rel_tol=1e-5)
                else None
            )
        if known.kind in _ROOTS:
            if name == "maximum" and number == 0 and known.kind == "variance":
                return known
            if name == "add" and number is not None and 0 <= number <= _LARGEST_EPS:
                return replace(known, eps=known.eps + number)
            return None
        return self._scaled(name, known, constant)

    def _scaled(self, name: str, known: _Part, constant: Operand) -> _Part | None:
        """With a scale, and then with a shift."""
        own = known.x.shape[-known.axes :] if known.axes else ()
        ends = known.kind in _ENDS
        if not (ends or known.kind.startswith("1/")) or not isinstance(constant, Parameter):
            return None
        lead = len(constant.shape) - len(own)
        if lead < 0 or constant.shape != ((1,) * lead + own):
            return None
        elements = constant if constant.shape == own else constant.viewed(own, Reshape(own))
        if name == "mul" and known.gain is None and known.shift is None:
            return replace(known, gain=elements)
        if name == "add" and known.kind == "normalised" and known.shift is None:
            return replace(known, shift=elements)
        return None

    def _of_two(self, name: str, left: Tensor, right: Tensor, shape: tuple[int, ...]) -> _Part | None:
        a, b = self._part(left), self._part(right)
        if name == "mul" and left.name == right.name and left.steps == right.steps:
            return self._squared(left)
        if name == "sub" and b is not None:
            if _same(left, b.x) and b.kind == "mean":
                return replace(b, kind="centred")
            if _same(left, b.x) and b.kind == "maximum":
                return replace(b, kind="below maximum")
            if b.kind == "log total":
                below = a is not None and (a.kind, a.x.name) == (b.of, b.x.name)
                return replace(b, kind="log softmax") if below or (not b.of and _same(left, b.x)) else None
            pair = a is not None and (a.kind, b.kind) == ("mean square", "square of mean")
            return replace(b, kind="variance") if pair and a is not None and _like(a, b) else None
        if name == "div" and a is not None and b is not None and (a.kind, b.kind) == ("exponential", "total"):
            return replace(b, kind="softmax") if _same(a.x, b.x) else None
        for first, one, other in ((left, a, b), (right, b, a)):
            if other is None or (name == "div" and first is right) or name not in ("mul", "div"):
                continue
            inverse = "1/" if name == "mul" else ""
            if (
                other.kind == f"{inverse}deviation"
                and one is not None
                and one.kind == "centred"
                and _like(one, other)
            ):
                return replace(other, kind="normalised") if other.x.shape == shape else None
            if other.kind == f"{inverse}root mean square" and _same(first, other.x):
                return replace(other, kind="scaled by root mean square")
        return None


def _same(x: Tensor, y: Tensor) -> bool:
    return x.name == y.name and x.steps == y.steps


def _like(a: _Part, b: _Part) -> bool:
    """Of the same x, over the same dimensions."""
    return _same(a.x, b.x) and a.axes == b.axes
