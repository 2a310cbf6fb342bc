"""Dataflows are data: one more takes few files, and what reads them compares no names."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from baco.accel.dataflows import DATAFLOWS, RELEVANT, offered, setting_of, stationary
from baco.common.errors import InputError
from tests.accel import more_dataflows
from tests.test_imports import package_files

ROOT = Path(__file__).resolve().parents[2]
#: Files outside the RTL that are changed for a dataflow, and in each what replaces what.
CHANGES = {
    "baco/accel/dataflows.py": {
        'Literal["WS", "OS"]': 'Literal["WS", "OS", "WR", "OQ"]',
        "}\n#: Those of them": '    "WR": stationary("WR", "W", "R"),\n    "OQ": stationary("OQ", "O", "Q"),\n}\n#: Those of them',
    }
}
CHECKS = sorted(name for name in vars(more_dataflows) if name.startswith("check_"))


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By check, what is wrong with the new dataflows in a copy of the product that has them."""
    copy = tmp_path_factory.mktemp("product")
    # the folders that the package's links lead to become folders of the copy's own; byte code is that of files with the same time
    shutil.copytree(ROOT / "baco", copy / "baco", ignore=shutil.ignore_patterns("*.pyc.*"))
    (copy / "tests").symlink_to(ROOT / "tests")
    for path, changes in CHANGES.items():
        text = (copy / path).read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, f"{path} has no single {old}"
            text = text.replace(old, new)
        (copy / path).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.accel.more_dataflows"],
        cwd=copy, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("where") == str(copy / "baco" / "accel"), "the checks must run on the copy"
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_more_dataflows(check: str, wrong: dict[str, str]) -> None:
    assert not wrong[check], wrong[check]


def test_a_dataflow_takes_at_most_five_files() -> None:
    assert len(CHANGES) <= 5


def test_few_files_tell_dataflows_apart_by_name() -> None:
    word = re.compile(r"""["'](WS|OS)["']""")
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in package_files()
        if "bench" not in path.parts and word.search(path.read_text(encoding="utf-8"))
    }
    rtl = {f"baco/accel/{name}.py" for name in ("verilog/generate", "legality/language", "legality/cpp")}
    streams = {f"baco/sim/cosim/{name}.py" for name in ("accelerators", "builder")}
    coverage = {f"baco/sim/coverage/{name}.py" for name in ("machines", "points")}  # of that hardware
    assert naming == {"baco/accel/dataflows.py"} | rtl | streams | coverage
    learned = package_files("bench/learned")
    assert not [path.name for path in learned if word.search(path.read_text(encoding="utf-8"))]


def test_elements_of_the_array_hold_elements_of_their_own() -> None:
    for rule in DATAFLOWS.values():
        assert {rule.row, "K"} <= set(RELEVANT[rule.stationary])
        assert not set(rule.loops[0]) & set(RELEVANT[rule.stationary])
        assert {rule.row, "K", *rule.row_peers} == set(RELEVANT[rule.stationary])


@pytest.mark.parametrize("setting", ["WS", "OS", "both"])
def test_settings_say_what_is_offered(setting: str) -> None:
    assert setting_of(offered(setting)) == setting  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tensor", "row"),
    [("I", "C"), ("W", "P"), ("W", "K"), ("O", "C")],
    ids=["input", "pixels", "columns", "sums"],
)
def test_dataflows_that_models_cannot_count_are_refused(tensor: str, row: str) -> None:
    with pytest.raises(InputError, match="none that models of the array know"):
        stationary("WS", tensor, row)
