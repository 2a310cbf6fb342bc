"""How Ray is started on a machine that is busy, or where it cannot be: with a stand-in for Ray, which need not be installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from baco.common.errors import BacoError
from baco.exploration.executors.rays import _initialise


class FakeRay:
    """Starts after some failures."""

    def __init__(self, failures: int, error: Callable[[str], Exception]) -> None:
        self.failures, self.error = failures, error
        self.calls: list[dict[str, Any]] = []

    def init(self, **options: Any) -> None:
        self.calls.append(options)
        if len(self.calls) <= self.failures:
            raise self.error("The current node timed out during startup.")


def test_a_start_that_takes_too_long_is_tried_again() -> None:
    ray = FakeRay(2, Exception)
    _initialise(ray, 2, None)
    assert [(call["address"], call["num_cpus"]) for call in ray.calls] == [("local", 2)] * 3


def test_a_start_that_never_succeeds_is_an_error_of_users() -> None:
    ray = FakeRay(99, Exception)
    with pytest.raises(BacoError, match="Ray does not start: The current node timed out") as caught:
        _initialise(ray, 2, None)
    assert "too busy" in str(caught.value.hint)
    assert len(ray.calls) == 3


def test_what_cannot_succeed_is_not_tried_again() -> None:
    for failure, expected in ((ValueError, BacoError), (KeyError, KeyError)):
        ray = FakeRay(99, failure)
        with pytest.raises(expected):
            _initialise(ray, None, None)
        assert len(ray.calls) == 1
