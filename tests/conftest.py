"""Settings of every test run."""

import os
import tempfile
from collections.abc import Iterator

import pytest

from tests.browser import NAMES, Browser, find_browser

# Tests run side by side, one process a core: more threads a process only make them wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Simulators are built once for all tests, and not in the user's own cache.
os.environ["BACO_CACHE"] = os.path.join(tempfile.gettempdir(), f"baco-test-cache-{os.getuid()}")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser found (looked for BACO_BROWSER, {', '.join(NAMES)})")
    with Browser(program, tmp_path_factory.mktemp("profile")) as started:
        yield started
