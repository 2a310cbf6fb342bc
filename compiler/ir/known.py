"""What is known of numbers of a program before it runs."""

from __future__ import annotations

from functools import lru_cache

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import SSAValue

#: The attribute of an integer and its type; a program has the same ones again and again, and xDSL checks each that is made.
integer = lru_cache(1 << 14)(IntegerAttr[IntegerType | IndexType])


def known(value: SSAValue) -> int | None:
    """The integer that a constant operation gives, else None."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return int(value.owner.value.value.data)
    return None


def runs_at_least_once(loop: scf.ForOp) -> bool:
    """Whether that is certain."""
    lower, upper = known(loop.lb), known(loop.ub)
    return lower is not None and upper is not None and lower < upper
