"""What tests of searches and of their reports share."""

from collections.abc import Iterator
from unittest import mock

import pytest

from baco.common.errors import BacoError
from baco.exploration.report import study_report


@pytest.fixture(scope="module")
def no_neighbours() -> Iterator[None]:
    """Reports of a file that do not look for what a step in the hardware would change, which takes seconds a report; that is
    `explain/test_explanation.py`'s."""
    with mock.patch.object(study_report, "neighbours", side_effect=BacoError("nobody asks")):
        yield
