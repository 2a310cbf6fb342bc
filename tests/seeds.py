"""Which cases of a test run every time, and which with the slow tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(every_time: int, values: Iterable[Any]) -> list[Any]:
    """Values as parameters, tuples as several each; those behind the first `every_time` are slow."""
    return [
        value if number < every_time else pytest.param(*parameters, marks=pytest.mark.slow)
        for number, value in enumerate(values)
        for parameters in [value if isinstance(value, tuple) else (value,)]
    ]


def seeds(every_time: int, of: int, *, start: int = 0) -> list[Any]:
    """The `of` seeds of a random test from `start` on, of which the first `every_time` run every time."""
    return some(every_time, range(start, start + of))
