"""Settings of every test run."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import NAMES, Browser, find_browser

# Tests run side by side, one process a core: more threads a process only make them wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What is built once for all tests, and kept for the next run; every entry is named by all that it was made from.
# It is not the user's own cache.
_HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ["BACO_CACHE"] = os.environ.get("BACO_TEST_CACHE") or str(_HOME / "baco-tests")

# Hundreds of tests start Python; without byte code each of them would compile all of baco anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Before workers start that will run everything, the simulators that they share are built."""
    config = session.config
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        return
    everything = [Path(one).resolve() for one in config.args] == [Path(__file__).parent]
    if not everything or config.option.keyword or config.option.collectonly:
        return
    from tests.machines import build_all  # takes seconds to import, which only this process needs

    terminal = config.pluginmanager.get_plugin("terminalreporter")
    build_all(terminal.write_line if terminal else print)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser found (looked for BACO_BROWSER, {', '.join(NAMES)})")
    with Browser(program, tmp_path_factory.mktemp("profile")) as started:
        yield started
