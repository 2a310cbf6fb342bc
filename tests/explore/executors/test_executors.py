"""What every executor does: local processes, this process, and Ray (skipped where it is not installed)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from baco.common.errors import BacoError, InputError
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.local import LocalExecutor
from baco.exploration.executors.tasks import Call, Executor, gather
from baco.sim.job import SimulationError
from tests.explore.executors.executor_tasks import FolderShelf, Square, hang

ROOT = Path(__file__).parents[3]
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'baco[ray]')"
)


@pytest.fixture(scope="module")
def local_executor() -> Iterator[Executor]:
    """Its workers take a second of a processor each to start, so that all tests of this file share them."""
    with ExecutorChoice(workers=2).executor() as executor:
        yield executor


@pytest.fixture(scope="module")
def ray_executor() -> Iterator[Executor]:
    """Of a cluster that is started here; it takes seconds, so that all tests of this file share it."""
    with ExecutorChoice("ray", 2).executor() as executor:
        yield executor


@pytest.fixture(params=["here", "local", pytest.param("ray", marks=[needs_ray, pytest.mark.slow])])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param != "here":
        yield request.getfixturevalue(f"{request.param}_executor")
        return
    with HERE.executor() as made:
        yield made


def squares(found: list[dict[str, int]]) -> list[int]:
    return [one["square"] for one in found]


@pytest.mark.parametrize("executor", ["here", "local", pytest.param("ray", marks=needs_ray)], indirect=True)
def test_results_come_in_order_and_are_kept(executor: Executor, tmp_path: Path) -> None:
    shelf, log = FolderShelf(tmp_path / "shelf"), tmp_path / "log"
    lines: list[tuple[int, int, int, str]] = []
    tasks = [Square(n, seconds=0.05 * (n % 3), log=log) for n in range(8)]
    found = gather(
        executor,
        iter(tasks),
        shelf,
        lambda n, total, one: lines.append((n, total, one.task.n, one.worker)),
        total=8,
    )
    assert squares(found) == [n * n for n in range(8)]
    assert [line[:2] for line in lines] == [(n + 1, 8) for n in range(8)]
    assert sorted(line[2] for line in lines) == list(range(8))
    # who did it is told, and is who did it
    assert {line[3].rsplit(":", 1)[1] for line in lines} == {str(one["by"]) for one in found}
    # again, with more and one twice: what is there is not run
    tasks = [*tasks, Square(8, log=log), Square(8, log=log)]
    again = gather(executor, tasks, shelf)
    assert again[:8] == found
    assert again[8] == again[9]
    begun = [line.split()[1] for line in log.read_text().splitlines() if line.startswith("begin")]
    assert sorted(begun) == [str(n) for n in range(9)]


def test_many_small_tasks_without_a_shelf(executor: Executor) -> None:
    tasks = [Square(n) for n in range(3000)]
    assert squares(gather(executor, tasks)) == [n * n for n in range(3000)]


def test_an_error_of_users_ends_it_and_what_is_finished_stays(executor: Executor, tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path / "shelf")
    tasks = [Square(1), Square(2, seconds=0.5, wrong=True), Square(3, seconds=0.2)]
    with pytest.raises(InputError, match="2 is wrong") as caught:
        gather(executor, tasks, shelf)
    assert caught.value.hint == "choose another"
    assert shelf.get("1") is not None
    assert shelf.get("2") is None
    # the executor goes on to be of use, and nothing is claimed any more
    assert squares(gather(executor, [Square(2), Square(3)], shelf)) == [4, 9]


def test_functions_are_tasks_whose_errors_travel_whole(executor: Executor) -> None:
    assert gather(executor, [Call(str(n), pow, (n, 2)) for n in range(5)]) == [0, 1, 4, 9, 16]
    with pytest.raises(SimulationError, match="it hangs") as caught:
        gather(executor, [Call("one", hang, ("it hangs",))])
    assert (caught.value.kind, caught.value.console, caught.value.record) == ("stall", "so far", {"cycle": 7})
    assert caught.value.hint == "wait"


def test_tasks_are_drawn_as_workers_become_free(executor: Executor) -> None:
    drawn = [0]

    def source() -> Iterator[Square]:
        for n in range(8):
            drawn[0] += 1
            yield Square(n, seconds=0.3)

    ahead: list[int] = []
    gather(executor, source(), progress=lambda n, total, one: ahead.append(drawn[0] - n))
    # as many as are at work, and one for each worker that has become free
    assert max(ahead) <= 2 * max(1, executor.workers)


def test_a_worker_of_another_version_is_found_out(executor: Executor) -> None:
    if isinstance(executor, LocalExecutor) and executor.workers == 0:
        pytest.skip("the worker is this process")
    with pytest.raises(BacoError, match="another result than this machine asks for") as caught:
        gather(executor, [Square(1, salt="process")])
    assert "same version" in str(caught.value.hint)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a graphics card")
def test_what_no_machine_has_is_told(executor: Executor) -> None:
    with pytest.raises(BacoError, match="graphics card") as caught:
        gather(executor, [Square(1, needs=("gpu",))])
    assert "--device cuda" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["local", pytest.param("ray", marks=[needs_ray, pytest.mark.slow])])
def test_tasks_whose_worker_is_killed_are_run_again(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    few.write_text("xx")
    many.write_text("x" * 99)
    with LocalExecutor(2) as local:
        executor = local if name == "local" else request.getfixturevalue("ray_executor")
        shelf = FolderShelf(tmp_path / "shelf")
        tasks = [Square(n, seconds=0.01, kills=few if n == 3 else None) for n in range(6)]
        assert squares(gather(executor, tasks, shelf)) == [n * n for n in range(6)]
        assert few.read_text() == ""
        with pytest.raises(BacoError, match="'square' ended its process 10 times"):
            gather(executor, [Square(7, kills=many)], shelf)
        assert len(many.read_text()) == 89


def test_two_runs_do_not_do_the_same(executor: Executor, tmp_path: Path) -> None:
    log = tmp_path / "log"
    shelf = FolderShelf(tmp_path / "shelf")
    script = (
        "from pathlib import Path\n"
        "from baco.exploration.executors.tasks import gather\n"
        "from baco.exploration.executors.executor_choice import ExecutorChoice\n"
        "from tests.explore.executors.executor_tasks import FolderShelf, Square\n"
        "if __name__ == '__main__':\n"
        f"    folder = Path({str(tmp_path)!r})\n"
        "    tasks = [Square(n, 0.1, folder / 'log') for n in range(20)]\n"
        "    with ExecutorChoice('local', 2).executor() as two:\n"
        "        print(sum(one['square'] for one in gather(two, tasks, FolderShelf(folder / 'shelf'))))\n"
    )
    (tmp_path / "other.py").write_text(script)
    other = subprocess.Popen(
        [sys.executable, tmp_path / "other.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    while not log.exists():  # until it is at work
        assert other.poll() is None
        time.sleep(0.01)
    found = gather(executor, [Square(n, 0.1, log) for n in range(20)], shelf)
    text, _ = other.communicate(timeout=60)
    assert squares(found) == [n * n for n in range(20)]
    assert int(text) == sum(squares(found))
    lines = log.read_text().splitlines()
    assert sorted(lines) == sorted(f"{what} {n}" for n in range(20) for what in ("begin", "end"))


def test_a_run_that_is_given_up_gives_its_claims_back(executor: Executor, tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path / "shelf")
    results = executor.run([Square(n, seconds=99.0 * (n > 0)) for n in range(3)], shelf)
    first = next(iter(results))
    results.close()  # type: ignore[attr-defined]
    assert first.value["square"] == 0
    assert squares(gather(executor, [Square(1), Square(2)], shelf)) == [1, 4]


def test_engines_that_do_not_exist() -> None:
    for wrong in ({"name": "rays"}, {"workers": 0}, {"address": "auto"}):
        with pytest.raises(InputError):
            ExecutorChoice(**wrong)  # type: ignore[arg-type]


@pytest.mark.slow
@needs_ray
def test_an_address_where_no_cluster_is(tmp_path: Path) -> None:
    # in a process of its own: this one may be connected to a cluster
    code = (
        "from baco.exploration.executors.tasks import gather\n"
        "from baco.exploration.executors.executor_choice import ExecutorChoice\n"
        "from tests.explore.executors.executor_tasks import Square\n"
        "with ExecutorChoice('ray', 1, '127.0.0.1:1').executor() as one:\n    gather(one, [Square(1)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "there is no Ray cluster at '127.0.0.1:1'" in done.stderr
    assert "or leave `address` out" in done.stderr
    assert "--address" not in done.stderr.rpartition("BacoError")[2]
