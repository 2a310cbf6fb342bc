"""Same seed, same result: whatever the processor, however often a search was interrupted, wherever it was.

The long version, about an hour on two cores: `pytest -m slow tests/system/test_same_result.py`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baco.exploration.measure.session import STORE_NAME
from baco.exploration.measure.store import MeasurementStore
from baco.exploration.studies.study import FILE_NAME, StudyRecord
from tests.baco.test_validate_command import SPACE, TABLE
from tests.explore.study_helpers import content
from tests.system import searches_child
from tests.system.processors import PROCESSORS, on, start

SEARCHES = Path(__file__).with_name("searches_child.py")
EXPLORE = Path(__file__).with_name("stopping_child.py")
OTHERS = [name for name in PROCESSORS if name != "this one"]
#: Files of a result that must be equal to the byte.
FILES = ("best/accelerator.yaml", "best/mappings.yaml", "best/mappings.csv", "candidates.parquet")
#: What in `summary.json` says when, where and by what it was made.
MAY_DIFFER = (
    ("command",),
    ("search", "seconds"),
    ("provenance", "command"),
    ("provenance", "started"),
    ("provenance", "platform"),
    ("provenance", "versions"),
)
#: The same in the summary's words.
SECONDS = re.compile(r" evaluations in \S+ \w+\.")
#: Networks, samples and seeds of the long tests.
NETWORKS = (("mobilenet_v2", 2500, 4), ("resnet18", 3000, 2), ("bert_base", 2000, 7))


def result(folder: Path) -> dict[str, Any]:
    """All of a result that must not depend on anything but the settings."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    for *path, name in MAY_DIFFER:
        part = summary
        for step in path:
            part = part[step]
        del part[name]
    summary["text"], count = SECONDS.subn(" evaluations in no time.", summary["text"])
    assert count == 1
    files = {name: (folder / name).read_bytes() for name in FILES}
    return {"summary": summary, **files, **content(folder / FILE_NAME)}


def assert_same(folder: Path, expected: Path) -> None:
    """Equal results, or a message that names the part that differs."""
    one, other = result(folder), result(expected)
    assert one.keys() == other.keys()
    differing = [name for name in one if one[name] != other[name]]
    assert not differing, f"{folder.name} is not as {expected.name}: {differing}"


def batches(folder: Path) -> int:
    """How many were recorded."""
    with StudyRecord.open(folder / FILE_NAME, read_only=True) as study:
        return study.batches


def explored(folder: Path, *settings: str, processor: str = "this one") -> Path:
    """The folder after a search that nothing happens to."""
    on(processor, EXPLORE, "never", "0", "0", *_arguments(folder, settings), timeout=1500)
    return folder


def _arguments(folder: Path, settings: Sequence[str]) -> list[str]:
    resume = ["--resume"] if (folder / FILE_NAME).exists() else []
    return [*settings, "--quiet", "--out", str(folder), *resume]


def interrupt(folder: Path, how: str, batch: int, seconds: float, settings: Sequence[str]) -> None:
    """One session of a search, ended so many seconds after a batch: `stop` as by Ctrl-C, `kill` as by kill -9."""
    child = start("this one", EXPLORE, how, str(batch), str(seconds), *_arguments(folder, settings))
    text, _ = child.communicate(timeout=1500)
    assert child.returncode == (-signal.SIGKILL if how == "kill" else 0), text
    assert batches(folder) >= batch + 1
    if how == "stop":
        assert batches(folder) == batch + 1


# -------------------------------------------------------------------- fast


def test_the_other_processors_are_other_ones() -> None:
    """On x86, libraries give other bits on what `PROCESSORS` makes of this one."""
    if os.uname().machine != "x86_64" or "fma" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("nothing to leave out on this processor")
    found = json.loads(on("no vectors", SEARCHES, "libraries"))
    assert found["libraries"] != searches_child.libraries()


@pytest.mark.slow
def test_every_searcher_finds_the_same_on_another_processor() -> None:
    found = json.loads(on("no vectors", SEARCHES, "quick"))
    here = searches_child.digests("quick")
    assert len(here) == len(searches_child.SEARCHERS) + 3
    del found["libraries"], here["libraries"]
    assert found == here


@pytest.mark.slow
def test_a_killed_search_of_the_command_line_ends_the_same(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text(TABLE)
    settings = ("--network", str(tmp_path / "table.yaml"), "--samples", "60", "--seed", "3")
    expected = explored(tmp_path / "straight", *settings)
    assert batches(expected) > 3
    interrupt(tmp_path / "broken", "kill", 2, 0.0, settings)
    assert_same(explored(tmp_path / "broken", *settings), expected)


# -------------------------------------------------------------------- slow


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("processor", OTHERS)
def test_every_searcher_model_and_objective_on_every_processor(
    processor: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = tmp_path_factory.getbasetemp() / "digests"
    if not kept.exists():
        kept.write_text(on("this one", SEARCHES, "all", timeout=900))
    here, there = json.loads(kept.read_text()), json.loads(on(processor, SEARCHES, "all", timeout=900))
    del here["libraries"], there["libraries"]
    assert len(here) > 70
    assert there == here


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_networks_on_every_processor(tmp_path: Path) -> None:
    for network, samples, seed in NETWORKS:
        settings = ("--network", network, "--samples", str(samples), "--seed", str(seed))
        expected = explored(tmp_path / network, *settings)
        for processor in OTHERS:
            assert_same(
                explored(tmp_path / f"{network}, {processor}", *settings, processor=processor), expected
            )


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("network", "samples", "seed"), NETWORKS)
def test_twenty_interruptions(network: str, samples: int, seed: int, tmp_path: Path) -> None:
    """Half of them Ctrl-C, half of them kill -9 at any moment of a batch."""
    settings = ("--network", network, "--samples", str(samples), "--seed", str(seed))
    expected = explored(tmp_path / "straight", *settings)
    rng = np.random.default_rng(seed)
    broken, last, times = tmp_path / "broken", batches(expected) - 2, 20
    recorded = 0
    for number in range(times):
        batch = recorded + int(rng.integers(0, max(1, (last - recorded) // (times - number))))
        assert batch < last, "the search is too short for so many interruptions"
        if number % 2:
            interrupt(broken, "kill", batch, float(rng.uniform(0.0, 0.5)), settings)
        else:
            interrupt(broken, "stop", batch, 0.0, settings)
        recorded = batches(broken)
    assert_same(explored(broken, *settings), expected)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("batch", [31, 37, 59, 60, 156])
def test_a_search_stopped_at_one_batch(batch: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = ("--network", "mobilenet_v2", "--samples", "3000", "--seed", "9")
    expected = tmp_path_factory.getbasetemp() / "mobilenet_v2"
    if not (expected / "summary.json").exists():
        explored(expected, *settings)
    broken = tmp_path_factory.mktemp("stopped") / str(batch)
    interrupt(broken, "stop", batch, 0.0, settings)
    assert_same(explored(broken, *settings), expected)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_measured_search_killed_or_on_another_processor(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text(TABLE)
    (tmp_path / "space.yaml").write_text(SPACE)
    settings = ("--network", str(tmp_path / "table.yaml"), "--space", str(tmp_path / "space.yaml"))
    settings += ("--samples", "150", "--seed", "2", "--measure", "150k")
    expected = explored(tmp_path / "straight", *settings)
    summary = result(expected)["summary"]
    assert summary["best"]["cost"]["source"] == "measured"
    known = measurements(expected)
    assert known > 8
    assert_same(explored(tmp_path / "another", *settings, processor="no vectors"), expected)
    broken = tmp_path / "broken"
    for count in (1, known // 3, 2 * known // 3):
        child = start("this one", EXPLORE, "never", "0", "0", *_arguments(broken, settings))
        deadline = time.monotonic() + 600
        while measurements(broken) < count:
            assert child.poll() is None, "it ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        child.kill()
        child.communicate(timeout=60)
    assert_same(explored(broken, *settings), expected)


def measurements(folder: Path) -> int:
    """How many layers were measured and kept."""
    if not (folder / STORE_NAME).exists():
        return 0
    with MeasurementStore(folder / STORE_NAME) as store:
        return len(store.all())
