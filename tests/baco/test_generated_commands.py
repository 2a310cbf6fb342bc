"""Commands that are made of functions: what their parameters become, and what reaches the function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from annotated_types import Interval
from pydantic import PositiveInt

from baco.accel.config import Accelerator
from baco.cli.groups import command_named, group_of
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.main import run

GOT: dict[str, Any] = {}


def measured(
    folder: Path,
    networks: Sequence[str] = ("one", "two"),
    *,
    samples: PositiveInt = 7,
    part: Annotated[float, Interval(ge=0, le=1)] = 0.5,
    seeds: Iterable[int] = range(3),
    build: bool = True,
    quick: bool = False,
    machine: str = "gemmini-default",
    target: Accelerator | None = None,
    engine: ExecutorChoice = HERE,
    inner: int = 4,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure something.

    Args:
        folder (FOLDER): where it lies.
        networks (--network, -n): which; repeatable.
        samples: budget.
        part: of it.
        seeds: runs.
        build: build it anew.
        quick: a look.
        machine (--accelerator): what it runs on.
        target (--for, NAME): likewise, loaded.

    Raises InputError.
    """
    GOT.update(locals())
    say("measuring")
    return {"folder": folder, "samples": samples}


def text(result: dict[str, Any]) -> str:
    return f"{result['samples']} samples"


def call(*words: str) -> Any:
    GOT.clear()
    return command_named("measured", (__name__, "measured", "text"))(list(words), standalone_mode=False)


def test_what_is_not_given_is_left_to_the_function(capsys: pytest.CaptureFixture[str]) -> None:
    call("here")
    assert GOT["folder"] == Path("here")
    assert GOT["networks"] == ("one", "two")
    assert (GOT["samples"], GOT["part"], GOT["build"], GOT["quick"], GOT["inner"]) == (7, 0.5, True, False, 4)
    assert GOT["seeds"] == range(3)
    assert GOT["engine"] == HERE
    said = capsys.readouterr()
    assert (said.out, said.err) == ("7 samples\n", "measuring\n")


def test_what_is_given_arrives_in_the_functions_types(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "x -n a --network b --samples 2 --part 1 --seeds 5 --no-build --quick -a gemmini-lean --jobs 2 --json"
    )
    call(*words.split(), "--for", "gemmini-default,dim=8")
    assert GOT["networks"] == ["a", "b"]
    assert (GOT["samples"], GOT["part"], GOT["build"], GOT["quick"]) == (2, 1.0, False, True)
    assert (GOT["seeds"], GOT["machine"], GOT["target"].dim) == (range(5), "gemmini-lean", 8)
    assert GOT["engine"] == ExecutorChoice("local", 2)
    assert json.loads(capsys.readouterr().out) == {"folder": "x", "samples": 2}


@pytest.mark.parametrize(
    "words", ["", "x --samples 0", "x --part 1.5", "x --seeds 0", "x --inner 3", "x --say y"]
)
def test_what_the_function_does_not_take_is_no_option(words: str) -> None:
    with pytest.raises(Exception, match=r"(?i)missing|should be|no such option"):
        call(*words.split())
    assert not GOT


def test_a_group_lists_its_commands_without_loading_them(capsys: pytest.CaptureFixture[str]) -> None:
    def callback() -> None:
        """All there is."""

    targets = {"measured": (__name__, "measured", "text"), "broken": "tests.baco.conftest:nothing"}
    group = group_of("all", callback, lambda: targets)
    group(["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "Measure something." in shown
    assert "broken" in shown
    with pytest.raises(AttributeError):
        group(["broken"], standalone_mode=False)


def test_what_bench_lacks_is_said_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("baco", ["bench", "serch"]) == 2
    assert "Did you mean 'search'" in capsys.readouterr().err
