"""What is computed together with a tensor operator: the operators that follow it, folded into weights and epilogue."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from baco.compiler.network.builder import IntegerBuilder, semantics_of
from baco.compiler.ops.products import Pool
from baco.workloads.network import Operator
from baco.workloads.semantics import Parameter


@dataclass
class Epilogue:
    """pool(min(relu(product * factor + shift), limit)).

    Attributes:
        last: the operator whose result this is.
        sources: all operators, the first included.
        factor: of every output channel (or one for all), folded into the weights.
        shift: the same, folded into the bias.
        relu: negative results become 0.
        limit: larger results become this, None without.
        pool: fused window, or None.
    """

    last: Operator
    sources: list[str]
    factor: np.ndarray = field(default_factory=lambda: np.ones(1))
    shift: np.ndarray = field(default_factory=lambda: np.zeros(1))
    relu: bool = False
    limit: float | None = None
    pool: Pool | None = None


def rectifier(op: Operator) -> tuple[bool, float | None]:
    """(whether the operator is a ReLU, its upper limit if it has one)."""
    attributes = semantics_of(op).attributes
    if semantics_of(op).function != "unary":
        return False, None
    if attributes["name"] == "relu":
        return True, None
    numbers = attributes["numbers"]
    if attributes["name"] == "clip" and numbers.get("low") == 0 and numbers.get("high", np.inf) > 0:
        high = numbers.get("high", np.inf)
        return True, None if np.isinf(high) else float(high)
    return False, None


def follow(
    b: IntegerBuilder,
    op: Operator,
    axis: int | None,
    scalable: bool = True,
    shiftable: bool = True,
    pools: bool = False,
    as_given: bool = False,
) -> Epilogue:
    """The longest row of operators after `op` that its requantisation can do as well; they are marked as done.

    Args:
        b: the network under construction.
        op: a tensor operator; each next one is the only reader of the one before it.
        axis: of its output channels; None for an operator without weights, into which no factor and no shift can go.
        scalable: factors of single channels can be folded into its weights (else only one for all).
        shiftable: its output channels can have a bias.
        pools: a maximum over windows can be fused.
        as_given: the result may be one whose whole numbers the model gives, behind which nothing else is fused.
    """
    found = Epilogue(op, [op.name])
    while found.pool is None and (following := b.reader(found.last.name)) is not None:
        known, wanted = b.encodings.get(found.last.name), b.encodings.get(following.name)
        if (known or wanted) and not as_given:
            break
        if known is not None and not (known == wanted and _keeps_rounding(following)):
            break
        if not _absorb(b, found, following, axis, scalable, shiftable, pools):
            break
        found.last = following
        found.sources.append(following.name)
        b.done.add(following.name)
    return found


def _keeps_rounding(op: Operator) -> bool:
    """Whether rounded numbers come out of an operator as they would if they were rounded behind it."""
    return semantics_of(op).function in ("identity", "quantise") or rectifier(op) == (True, None)


def _absorb(
    b: IntegerBuilder,
    e: Epilogue,
    op: Operator,
    axis: int | None,
    scalable: bool,
    shiftable: bool,
    pools: bool,
) -> bool:
    function = semantics_of(op).function
    if function in ("identity", "quantise"):
        return True
    relu, limit = rectifier(op)
    if relu:
        e.relu = True
        if limit is not None:
            e.limit = limit if e.limit is None else min(e.limit, limit)
        return True
    if function == "maxpool" and pools:
        # codes of floating point are ordered as integers are where none is negative
        return (e.relu or b.quantiser.floats is None) and _pool(e, op)
    if e.relu or axis is None:
        return False
    if function == "batchnorm" and axis == 1:
        return _batchnorm(b, e, op, scalable, shiftable)
    if function == "binary" and op.output.shape == e.last.output.shape:
        return _constant(b, e, op, axis, scalable, shiftable)
    return False


def _batchnorm(b: IntegerBuilder, e: Epilogue, op: Operator, scalable: bool, shiftable: bool) -> bool:
    if not scalable or not shiftable:
        return False
    factor, shift = batchnorm_line(b, op)
    e.factor, e.shift = e.factor * factor, e.shift * factor + shift
    return True


def batchnorm_line(b: IntegerBuilder, op: Operator) -> tuple[np.ndarray, np.ndarray]:
    """(factor, shift) of every channel, float64."""
    scale, shift, mean, variance = (
        None if p is None else b.parameters(p).astype(np.float64).reshape(-1)
        for p in semantics_of(op).operands[1:]
        if p is None or isinstance(p, Parameter)
    )
    assert mean is not None
    assert variance is not None
    factor = 1 / np.sqrt(variance + semantics_of(op).attributes["eps"])
    if scale is not None:
        factor = factor * scale
    return factor, (0.0 if shift is None else shift) - mean * factor


def _constant(
    b: IntegerBuilder, e: Epilogue, op: Operator, axis: int, scalable: bool, shiftable: bool
) -> bool:
    """Addition of, or multiplication by, a constant for every channel."""
    left, right = semantics_of(op).operands
    name = semantics_of(op).attributes["name"]
    parameter = right if isinstance(right, Parameter) else left
    if not isinstance(parameter, Parameter) or name not in ("add", "sub", "mul", "div"):
        return False
    line = per_channel(b.parameters(parameter), len(op.output.shape), axis)
    if line is None or (name == "div" and (parameter is left or not line.all())):
        return False
    factor, shift = np.ones(1), np.zeros(1)
    if name == "add":
        shift = line
    elif name == "sub":
        shift, factor = (-line, factor) if parameter is right else (line, -factor)
    else:
        factor = line if name == "mul" else 1 / line
    if (not scalable and (factor.size > 1 or factor[0] <= 0)) or (shift.any() and not shiftable):
        return False
    e.factor, e.shift = e.factor * factor, e.shift * factor + shift
    return True


def per_channel(array: np.ndarray, rank: int, axis: int) -> np.ndarray | None:
    """The elements along one dimension of something that broadcasts along all others; None if it does not."""
    if array.ndim > rank:
        return None
    shape = (*(1 for _ in range(rank - array.ndim)), *array.shape)
    if any(size != 1 for a, size in enumerate(shape) if a != axis % rank):
        return None
    return array.astype(np.float64).reshape(-1)


def _pool(e: Epilogue, op: Operator) -> bool:
    """Windows of at most 3 x 3; where they leave the image, zeros must do no harm."""
    a = semantics_of(op).attributes
    sizes = e.last.output.shape[2:]
    if len(a["kernel"]) != 2 or set(a["dilation"]) != {1}:
        return False
    kernel, stride, before = tuple(a["kernel"]), tuple(a["stride"]), tuple(p[0] for p in a["padding"])
    square = kernel[0] == kernel[1] <= 3 and stride[0] == stride[1] <= 3 and before[0] == before[1]
    inside = not any(before) and all(
        (count - 1) * stride[0] + kernel[0] <= size for count, size in zip(a["shape"], sizes, strict=True)
    )
    if not square or before[0] >= kernel[0] or not (e.relu or inside):
        return False
    e.pool = Pool((kernel[0], kernel[1]), (stride[0], stride[1]), (before[0], before[1]))
    return True
