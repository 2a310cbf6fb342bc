"""Which seeds of a random test run every time, and which with the slow tests."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(every_time: int, of: int, *, start: int = 0) -> list[Any]:
    """The `of` seeds from `start` on, as parameters; those behind the first `every_time` are slow."""
    numbers = range(start, start + of)
    return [
        *numbers[:every_time],
        *(pytest.param(number, marks=pytest.mark.slow) for number in numbers[every_time:]),
    ]
