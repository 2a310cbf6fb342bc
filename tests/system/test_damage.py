"""Files of ours damaged at random: made anew, or one message and exit code 2; never run, never shown as measured."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import baco.common.cache
import baco.exploration.measure.session as running
from baco.common.cache import Cache
from baco.common.errors import StorageError
from baco.exploration.measure.session import STORE_NAME
from baco.exploration.report.study_report import report_data
from baco.exploration.report.summary import summary_json
from baco.main import run
from tests.explore.validate_helpers import explored, fake_measuring, products

KEY = "thing-0123456789abcdef"
#: What a summary says of designs.
SHOWN = ("best", "front", "layers", "validation")


def damage(path: Path, rng: random.Random) -> bool:
    """Change a file in one of many ways; whether its bytes, its kind or its rights differ afterwards."""
    data = bytearray(path.read_bytes())
    before, mode = bytes(data), path.stat().st_mode
    kind = rng.randrange(10)
    at = rng.randrange(len(data))
    if kind <= 2:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 3:
        del data[at:]
    elif kind == 4:
        data[at : at + rng.randint(1, 4096)] = rng.randbytes(rng.randint(1, 4096))
    elif kind == 5:
        size = min(rng.choice([16, 512, 4096]), len(data) - at)
        data[at : at + size] = bytes(size)
    elif kind == 6:
        other = rng.randrange(len(data))
        data[at : at + 64], data[other : other + 64] = data[other : other + 64], data[at : at + 64]
    elif kind == 7:
        data.clear()
    elif kind == 8:
        path.unlink()
        if rng.random() < 0.5:
            path.mkdir()
        return True
    else:
        path.chmod(0o644 if mode & 0o100 else 0o755)
        return True
    path.write_bytes(data)
    return bytes(data) != before


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder of a study with measured designs and the file of measurements, and what its summary says."""
    folder = tmp_path_factory.mktemp("whole")
    explored(folder, products(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "gather", fake_measuring())
        assert run("baco", ["validate", str(folder), "--quiet"]) == 0
        yield folder, told(folder / "study.sqlite")


def told(study: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(summary_json(report_data(study)))
    return found


def _studies(whole: tuple[Path, dict[str, Any]], folder: Path, rng: random.Random, trials: int) -> None:
    source, expected = whole
    refused = 0
    for _ in range(trials):
        study = folder / "study.sqlite"
        _clear(folder)
        shutil.copyfile(source / "study.sqlite", study)
        damage(study, rng)
        try:
            found = told(study)
        except StorageError:
            refused += 1
        else:
            assert found == expected
    assert refused > trials / 3


def _measurements(whole: tuple[Path, dict[str, Any]], folder: Path, rng: random.Random, trials: int) -> None:
    """A study that was not validated, beside measurements that are damaged."""
    source, expected = whole
    shutil.rmtree(folder)
    explored(folder, products(2))
    fresh = (folder / "study.sqlite").read_bytes()
    outcomes = set()
    for _ in range(trials):
        _clear(folder)
        (folder / "study.sqlite").write_bytes(fresh)
        shutil.copyfile(source / STORE_NAME, folder / STORE_NAME)
        damage(folder / STORE_NAME, rng)
        code = run("baco", ["validate", str(folder), "--quiet"])
        outcomes.add(code)
        assert code in (0, 2)
        if code == 0:
            found = told(folder / "study.sqlite")
            assert {key: found[key] for key in SHOWN} == {key: expected[key] for key in SHOWN}
    assert outcomes == {0, 2}


def _entries(folder: Path, rng: random.Random, trials: int) -> None:
    def make(place: Path) -> None:
        (place / "program").write_text("#!/bin/sh\necho right\n")
        (place / "program").chmod(0o755)
        (place / "object.o").write_bytes(bytes(range(256)) * 64)

    shutil.rmtree(folder)
    entry = Cache(folder, note=lambda _: None).entry(KEY, make)
    for _ in range(trials):
        changed = damage(entry / rng.choice(["program", "object.o", "manifest.json"]), rng)
        baco.common.cache._verified.clear()  # as another process would see it
        cache = Cache(folder, note=lambda _: None)
        assert changed or cache.find(KEY)
        again = cache.entry(KEY, make)
        assert subprocess.run([again / "program"], capture_output=True, check=True).stdout == b"right\n"
        assert (again / "object.o").read_bytes() == bytes(range(256)) * 64


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _all(whole: tuple[Path, dict[str, Any]], folder: Path, each: int, reported: int, seed: int) -> None:
    """So many damages of entries, and so many of studies and of measurements, which a report is made of."""
    checks: list[Callable[[Path, random.Random], None]] = [
        lambda target, rng: _studies(whole, target, rng, reported),
        lambda target, rng: _measurements(whole, target, rng, reported),
        lambda target, rng: _entries(target, rng, each),
    ]
    for number, check in enumerate(checks):
        target = folder / str(number)
        target.mkdir()
        check(target, random.Random(f"{seed} {number}"))


def test_damages(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    _all(whole, tmp_path, 8, 4, 4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_more_than_a_thousand_damages(whole: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    _all(whole, tmp_path, 350, 350, 2)


def test_a_damaged_study_is_one_message(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = bytearray((whole[0] / "study.sqlite").read_bytes())
    data[-2000:] = bytes(2000)
    (tmp_path / "study.sqlite").write_bytes(data)
    for command in (["report", str(tmp_path)], ["validate", str(tmp_path)]):
        assert run("baco", command) == 2
        error = capfd.readouterr().err
        assert error.count("error: ") == 1
        assert str(tmp_path / "study.sqlite") in error
    assert os.listdir(tmp_path) == ["study.sqlite"]
    with suppress(FileNotFoundError):
        shutil.rmtree(tmp_path / "best")
