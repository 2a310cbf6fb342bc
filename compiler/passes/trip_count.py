"""What is known of how often a loop runs."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

__all__ = ["known_integer", "runs_at_least_once"]


def known_integer(value: SSAValue) -> int | None:
    """The number that a value is known to be."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


def runs_at_least_once(loop: scf.ForOp) -> bool:
    """Whether that is certain."""
    lower, upper = known_integer(loop.lb), known_integer(loop.ub)
    return lower is not None and upper is not None and lower < upper
