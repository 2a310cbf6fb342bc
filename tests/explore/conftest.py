"""What tests of searches and of their reports share."""

from collections.abc import Iterator
from unittest import mock

import pytest

from baco.common.errors import BacoError
from baco.exploration.explain.steps import NeighbourSearch


@pytest.fixture(scope="module")
def no_neighbours() -> Iterator[None]:
    """Reports of a file that do not look for what a step in the hardware would change, which takes seconds a report; that is
    `explain/test_explanation.py`'s."""
    with mock.patch.object(NeighbourSearch, "neighbours", side_effect=BacoError("nobody asks")):
        yield
