"""`baco plan`: what it writes and prints, and what it refuses."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from baco.accel.presets import load_system
from baco.main import run

UNITS = ("-u", "gemmini-default", "-u", "gemmini-default,dim=8")


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status and both outputs."""
    code = run("baco", ["plan", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_two_networks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    networks = ("-n", "deepbench_ocr@rate=500", "-n", "deepbench_face@rate=250,deadline=3.5")
    code, out, _ = call(
        capsys, *networks, *UNITS, "-u", "host", "--seconds", "0.5", "--json", "-o", str(tmp_path)
    )
    assert code == 0
    record = json.loads(out)
    assert record == json.loads((tmp_path / "plan.json").read_text())
    assert [(one["network"], one["run"]) for one in record["tasks"]] == [
        (network["network"], number)
        for network, runs in zip(record["networks"], (2, 1), strict=True)
        for number in range(1, runs + 1)
        for _ in network["groups"]
    ]
    assert record["hyperperiod_ms"] == 4.0
    for unit in record["units"]:
        tasks = [task for task in record["tasks"] if task["unit"] == unit["unit"]]
        spans = sorted((task["start_ms"], task["end_ms"]) for task in tasks)
        assert all(later[0] >= before[1] - 1e-9 for before, later in itertools.pairwise(spans))
    page = (tmp_path / "plan.html").read_text()
    assert page.count("<title>deepbench_ocr run 2") == len(record["networks"][0]["groups"])
    assert "predicted" in page


def test_a_search_takes_its_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    searched = (
        "--search",
        "gemmini",
        "--area-limit",
        "60",
        "--samples",
        "3",
        "--seed",
        "2",
        "--most-units",
        "2",
    )
    options = ("--most-hosts", "0", "--workers", "1", "--seconds", "0.1", "--json", "-o", str(tmp_path))
    code, out, _ = call(capsys, "-n", "deepbench_ocr", *searched, *options)
    assert code == 0
    record = json.loads(out)
    assert record == json.loads((tmp_path / "plan.json").read_text())
    front = record["search"]["front"]
    assert front
    assert all(row["area_mm2"] <= 60 and len(row["units"]) <= 2 for row in front)
    system = load_system(tmp_path / "best" / "system.yaml")
    assert [unit["unit"] for unit in record["units"]] == [Path(unit.name).stem for unit in system.units]


def test_a_replay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One program for both units, whose results are compared; times stand beside those that were planned."""
    units = ("-u", "gemmini-default,dim=8", "-u", "gemmini-default,dim=4")
    options = ("--seconds", "0.3", "--replay", "timed", "-o", str(tmp_path))
    code, out, _ = call(capsys, "-n", "resnet18:image=32", *units, *options)
    assert code == 0
    assert "operators compared: all are right" in out
    assert "measured (timed): " in out
    record = json.loads((tmp_path / "plan.json").read_text())
    measured = record["measured"]
    assert measured["wrong"] == []
    assert len(measured["tasks"]) == len(record["tasks"])
    assert measured["makespan_ms"] == max(task["end_ms"] for task in measured["tasks"])
    assert set(measured["alone_ms"]) <= {unit["unit"] for unit in record["units"]}
    page = (tmp_path / "plan.html").read_text()
    assert page.count("ms, measured</title>") == len(record["tasks"])
    assert "<title>resnet18 run 1: conv1" in page
    assert "measured, µs" in page


def test_a_cut(capsys: pytest.CaptureFixture[str]) -> None:
    cloud = ("--cloud", "gemmini-large", "--link", "6,2,1.2")
    code, out, _ = call(capsys, "-n", "deepbench_ocr", "-u", "gemmini-default,dim=4", *cloud)
    assert code == 0
    assert "best cut: " in out
    assert "predicted: " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-n", "deepbench_ocr", "-u", "host"), "a system has one to 4 accelerators"),
        (("-n", "deepbench_ocr", *("-u", "gemmini-default") * 5), "at most 4 cores without, not 5 and 0"),
        (("-n", "deepbench_ocr@rat=3", *UNITS), "did you mean 'rate'?"),
        (("-n", "deepbench_ocr@rate=0", *UNITS), "the rate of a network must be a positive number"),
        (("-n", "deepbench_ocr@rate=1,runs=2", *UNITS), "exclude each other"),
        (("-n", "deepbench_ocr", *UNITS, "--link", "6"), "--cloud and --link go together"),
        (("-n", "no_such_network", *UNITS), "no_such_network"),
        (("-n", "deepbench_ocr@deadline=", *UNITS), "the deadline of a network must be"),
    ],
)
def test_what_is_refused(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert message in " ".join(err.split())
