"""What a traced pipeline consists of: nodes with shapes, ranges and the user's lines."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import FrameType
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location
from baco.workloads.pipelines.ranges import LARGEST_REAL, Range, of_numbers

#: Folders whose files are none of the user's: ours, and those of installed libraries.
_OTHERS = tuple(
    os.path.realpath(one) + os.sep
    for one in (
        os.path.dirname(__file__),
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        os.path.dirname(os.path.dirname(np.__file__)),
    )
)
#: Different numbers of a constant that are looked at one by one.
_MOST_DIFFERENT = 4096


class PipelineError(InputError):
    """A pipeline cannot be traced, or not be shown to stay in range; located at the user's line."""


@dataclass(frozen=True, eq=False)
class Node:
    """One operation of a pipeline.

    Attributes:
        function: `input`, `constant`, `unary`, `binary`, `where`, `reduce`, `reshape`, `transpose`, `slice`, `expand`, `pad`, `concat`,
            `stencil`, `matmul`, `resize`, `topk`, `argmax`, `take`.
        operands: what it reads.
        attributes: as `baco.workloads.semantics.FUNCTIONS` has them, or steps of a view.
        shape: of the result, as the user sees it.
        range: of its elements.
        line: of the user that asked for it.
        value: of a constant.
    """

    function: str
    operands: tuple[Node, ...]
    attributes: Mapping[str, Any]
    shape: tuple[int, ...]
    range: Range
    line: Location | None
    value: np.ndarray | None = field(default=None, repr=False)


@lru_cache(1024)
def is_users(file: str) -> bool:
    """Whether code of this file is the user's."""
    if file.startswith("<frozen"):
        return False
    return file.startswith("<") or not os.path.realpath(file).startswith(_OTHERS)


def user_line() -> Location | None:
    """The line of the user's own code that is being run; None outside of any."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return Location(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def refused(message: str, hint: str | None = None, line: Location | None = None) -> PipelineError:
    """An error at the user's line."""
    return PipelineError(message, location=line or user_line(), hint=hint)


def constant_node(value: Any) -> Node:
    """A constant. Raises PipelineError for what is no number, NaN and infinite ones."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise refused(f"{type(value).__name__} is no number that a pipeline computes with")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].reshape(-1)[0]
        raise refused(f"a constant is {bad}, which no whole number stands for")
    if not array.size:
        raise refused("a constant without elements")
    numbers = np.unique(array)
    if (
        numbers.size > _MOST_DIFFERENT
        and numbers.dtype.kind == "f"
        and not (numbers == np.rint(numbers)).all()
    ):
        bounds = Range(Fraction(float(numbers[0])), Fraction(float(numbers[-1])), None)
    elif numbers.size > _MOST_DIFFERENT:
        bounds = Range(Fraction(int(numbers[0])), Fraction(int(numbers[-1])), 0)
    else:
        bounds = of_numbers([Fraction(one.item()) for one in numbers])
    return Node("constant", (), {}, array.shape, bounds, user_line(), array)


def checked_range(found: Range, what: str) -> Range:
    """The range, if float32 holds such numbers. Raises PipelineError for larger ones."""
    if found.magnitude > LARGEST_REAL:
        raise refused(f"{what} may reach {float(found.magnitude):.3g}, beyond the range of float32")
    return found
