"""What is known of numbers of a program before it runs."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue


def known(value: SSAValue) -> int | None:
    """The integer that a constant operation gives, else None."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return int(value.owner.value.value.data)
    return None


def runs_at_least_once(loop: scf.ForOp) -> bool:
    """Whether that is certain."""
    lower, upper = known(loop.lb), known(loop.ub)
    return lower is not None and upper is not None and lower < upper
