"""How hostile inputs are tried: a third of them in this process by default, and each in a process with little memory and time."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.baco.hostile import Case, CheckAll, check_all, check_in_this_process, check_message, write
from tests.limited_runs import MOST_BYTES, MOST_SECONDS, LimitedRuns, limited_runs


@pytest.fixture(scope="session")
def limited() -> Iterator[LimitedRuns]:
    """The helper that starts such processes."""
    with limited_runs() as runs:
        yield runs


@pytest.fixture(
    name="check_all",
    params=["third", pytest.param("limited", marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def _check_all(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> CheckAll:
    """Checks a third of the cases (all of them in the slow tests), each in a folder of its own, and counts all."""
    if request.param == "third":
        return lambda cases: check_all(
            cases, tmp_path, lambda case, folder: check_in_this_process(case, folder, capsys), third=True
        )
    runs: LimitedRuns = request.getfixturevalue("limited")

    def check(case: Case, folder: Path) -> None:
        ending = runs.run(write(case, folder), folder)
        check_message(ending.code, ending.out, ending.error)
        assert ending.seconds < MOST_SECONDS
        assert ending.peak_bytes < MOST_BYTES

    def all_of(cases: Iterable[Case]) -> int:
        number = check_all(cases, tmp_path, check)
        print(f"{number} cases with {MOST_SECONDS} s and {MOST_BYTES >> 30} GiB each")
        return number

    return all_of
