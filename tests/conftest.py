"""Settings of every test run."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

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


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """What has been imported stays: Python's search for garbage leaves it out and comes less often, a tenth of all that tests take."""
    from baco.common.processes import collect_seldom

    gc.collect()
    gc.freeze()
    collect_seldom()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser found (looked for BACO_BROWSER, {', '.join(NAMES)})")
    with Browser(program, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def no_neighbours() -> Iterator[None]:
    """Reports of a file that do not look for what a step in the hardware would change, which takes seconds a report; that is
    `explain/test_explanation.py`'s."""
    from baco.common.errors import BacoError
    from baco.exploration.explain.steps import NeighbourSearch

    with mock.patch.object(NeighbourSearch, "neighbours", side_effect=BacoError("nobody asks")):
        yield


@pytest.fixture(scope="module")
def short_reports(no_neighbours: None) -> Iterator[None]:
    """The same without the picture of the front and the limit by capacity, which are `report/`'s and `cost/test_fitting_limits.py`'s:
    files that make reports on the way to something else have them in a fifth of the time."""
    import baco.exploration.report.study_report as made
    import baco.exploration.report.write as written

    with (
        mock.patch.object(written, "pareto_figures", return_value={}),
        mock.patch.object(made, "least_edp", side_effect=lambda limits, *_: limits.edp),
    ):
        yield
