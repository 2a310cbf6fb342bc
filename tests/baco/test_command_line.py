"""The command line: what it prints, where, and with which exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import baco.main
from baco.display import progress
from baco.display.console import amount, duration
from baco.display.progress import PlainProgress, Standing, bar, make_progress, waiting
from baco.exploration.candidate import BatchSummary
from baco.exploration.progress import Budget
from baco.main import run

ROOT = Path(__file__).resolve().parents[2]


def call(capsys: pytest.CaptureFixture[str], *arguments: str, program: str = "baco") -> tuple[int, str, str]:
    code = run(program, list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["-h"], ["bench"], *([c, "--help"] for c in ("explore", "evaluate", "networks"))],
)
def test_help(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    code, out, err = call(capsys, *arguments)
    assert code == 0
    assert "Usage: baco" in out
    assert out.count("Usage:") == 1
    assert err == ""


def test_explore_is_baco_explore(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--help", program="explore")
    assert code == 0
    assert "Usage: explore [OPTIONS]" in out
    for option in (
        "network",
        "objective",
        "space",
        "search",
        "samples",
        "time-limit",
        "seed",
        "out",
        "resume",
    ):
        assert f"--{option}" in out
    assert "--json" in out
    assert "--quiet" in out


def test_help_loads_none_of_the_heavy_packages() -> None:
    code = (
        "import sys; from baco.main import run; assert run('baco', ['--help']) == 0; "
        "heavy = {'torch', 'numpy', 'pandas', 'onnx', 'matplotlib', 'pydantic'} & set(sys.modules); "
        "sys.exit(f'loaded: {heavy}' if heavy - {'pydantic'} else 0)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--version")
    assert code == 0
    assert out.startswith("baco ")


def test_networks(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "networks", "--json")
    assert (code, err) == (0, "")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["resnet50"]["macs"] == 4_089_184_256
    code, out, _ = call(capsys, "networks")
    assert code == 0
    assert all(name in out for name in rows)
    code, out, _ = call(capsys, "networks", "resnet18", "--json")
    (row,) = json.loads(out)
    assert sum(layer["count"] * layer["macs"] for layer in row["layers"]) == row["macs"]
    code, out, _ = call(capsys, "networks", "llama2_7b:seq=16")
    assert code == 0
    assert "softmax" in out


def test_doctor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "doctor", "--folder", str(tmp_path), "--json")
    report = json.loads(out)
    assert (code, report["ok"]) == (0, True), report
    names = {check["check"] for check in report["checks"]}
    assert {
        "python",
        "package",
        "torch",
        "torch threads",
        "write access",
        "free disk",
        "study store",
    } <= names
    assert list(tmp_path.iterdir()) == []
    code, out, _ = call(capsys, "doctor", "--folder", str(tmp_path / "missing"))
    assert code == 1
    assert "write access" in out


@pytest.mark.usefixtures("no_neighbours")
def test_explore_writes_a_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out_dir = tmp_path / "out"
    arguments = ["--network", "deepbench_ocr", "--samples", "40", "--out", str(out_dir), "--json"]
    code, out, err = call(capsys, *arguments, program="explore")
    assert code == 0, err
    summary = json.loads(out)
    assert summary == json.loads((out_dir / "summary.json").read_text())
    for name in (
        "report.html",
        "candidates.parquet",
        "best/accelerator.yaml",
        "best/mappings.csv",
        "pareto.png",
    ):
        assert (out_dir / name).stat().st_size > 0
    assert "url=report.html" in (out_dir / "progress.html").read_text("utf-8")
    assert "samples" in err
    assert f"explore --network deepbench_ocr --samples 40 --out {out_dir}" in json.dumps(summary)

    code, out, err = call(capsys, *arguments[:-1], program="explore")
    assert code == 2
    assert "a study is already here" in err
    assert "--resume" in err

    code, out, err = call(capsys, *arguments[:-1], "--resume", "--quiet", program="explore")
    assert (code, out, err) == (0, "", "")

    (out_dir / "report.html").unlink()
    code, out, err = call(capsys, "report", str(out_dir))
    assert (code, err) == (0, "")
    assert (out_dir / "report.html").exists()


def test_default_folder_is_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from baco.api.preparation import default_folder
    from baco.exploration.objective import Objective
    from baco.exploration.studies.study import FILE_NAME
    from baco.workloads.network import Network, Workload

    monkeypatch.chdir(tmp_path)
    workload, goal = Workload.of([Network("../a b/ß"), Network("c")]), Objective.parse("latency,energy")
    first = default_folder(workload, goal, resume=False)
    assert first == Path("baco-out") / "a_b_+c-latency_energy"
    first.mkdir(parents=True)
    assert default_folder(workload, goal, resume=False) == first, "an empty folder is in nobody's way"
    (first / FILE_NAME).write_bytes(b"")
    second = default_folder(workload, goal, resume=False)
    assert second.name == first.name + "-2"
    assert default_folder(workload, goal, resume=True) == first


def test_the_workload_of_the_space_file(tmp_path: Path) -> None:
    from baco.api.preparation import SearchOptions
    from baco.exploration.space import load_space

    path = tmp_path / "s.yaml"
    path.write_text(
        "dim: [8]\nscratchpad_kib: [64]\naccumulator_kib: [8]\n"
        "networks: [{network: deepbench_ocr, weight: 3}, {network: 'resnet18:batch=2'}]\n"
    )
    made = SearchOptions([], space=path, out=tmp_path / "out").prepared()
    assert [n.name for n in made.workload.networks] == ["deepbench_ocr", "resnet18"]
    assert made.workload.weights == (3.0, 1.0)
    named = SearchOptions(["vit_b16"], load_space(path), out=tmp_path / "out").prepared()
    assert [n.name for n in named.workload.networks] == ["vit_b16"]


def test_internal_errors_are_one_message_with_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*args: object, **kwargs: object) -> int:
        raise KeyError("surprise")

    monkeypatch.setattr(baco.main, "_app", lambda program: broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, out, err = call(capsys, "networks")
    assert (code, out) == (1, "")
    assert err.startswith("error: internal error: KeyError: 'surprise'\n  hint: ")
    (log,) = tmp_path.iterdir()
    assert str(log) in err
    assert "Traceback" not in err
    text = log.read_text()
    assert "Traceback" in text
    assert text.startswith("baco networks\n")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "not enough memory"),
        (OSError(28, "No space left on device", "out/x"), 2, "out/x: cannot be written: the disk is full"),
        (PermissionError(13, "Permission denied", "out/x"), 2, "permission denied"),
    ],
)
def test_failures_of_the_surroundings(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    words: str,
) -> None:
    def broken(*args: object, **kwargs: object) -> int:
        raise error

    monkeypatch.setattr(baco.main, "_app", lambda program: broken)
    found, out, err = call(capsys, "networks")
    assert (found, out) == (code, "")
    assert words in err
    assert err.startswith("error: ")


def test_output_to_a_closed_pipe() -> None:
    done = subprocess.run(
        f"{sys.executable} -m baco networks --json | head -c 1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"["
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567.0, "1,234,567"),
        (0.01234567, "0.01235"),
        (1.28e11, "1.2800e+11"),
        (3.14159, "3.142"),
    ],
)
def test_amount(value: float, text: str) -> None:
    assert amount(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (7.4, "7 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (59.7, "1 min 0 s")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def summary(batch: int, evaluations: int, seconds: float, best: float | None) -> BatchSummary:
    return BatchSummary(batch, evaluations, seconds, best, "descent")


def test_where_a_search_stands_in_words() -> None:
    assert isinstance(make_progress("edp,area"), PlainProgress), "the tests' standard error is no terminal"
    standing, budget = Standing("edp"), Budget(500, 5000, None, 10)
    standing.update(summary(0, 1000, 2.0, None), budget)
    assert standing.line() == "descent: no feasible design yet (edp) | 100 of 500 samples"
    standing.update(summary(1, 2000, 3.0, 7.1e10), budget)
    standing.update(summary(2, 3000, 4.0, 7.1e10), budget)
    assert standing.line() == (
        "descent: best edp 7.1000e+10 µJ·cycles | 300 of 500 samples | 100 samples/s | about 3 s left"
    )
    assert standing.short_line().startswith("about 3 s left | descent: best edp")
    assert standing.share == 0.6
    assert standing.line(since=1.6).endswith("| nearly done")


def test_what_comes_before_the_search_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far it is, and how long the rest of this takes at the pace so far; what comes next has a pace of its own."""
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    standing = Standing("edp")
    assert standing.doing("operators beside the layers", 3)
    assert standing.line() == "operators beside the layers: 3"
    assert standing.doing("fusion groups", 0, 500)
    assert standing.line() == "fusion groups: 500 to do"
    clock[0] += 12
    assert not standing.doing("fusion groups", 120, 500)
    assert standing.line() == "fusion groups: 120 of 500 | about 40 s of this left"
    assert standing.doing("accelerators", 1, 500)
    assert standing.line() == "accelerators: 1 of 500"
    standing.update(summary(0, 1000, 30.0, None), Budget(500, 5000, None, 10))
    assert standing.line() == "descent: no feasible design yet (edp) | 100 of 500 samples"


def test_plain_lines_come_with_every_new_thing_that_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("reading a network", True):
        pass
    display = make_progress("edp")
    assert isinstance(display, PlainProgress)
    for done in range(50):
        display.doing("fusion groups", done, 50)
    display.doing("accelerators", 0, 9)
    with waiting("nobody looks", None):
        pass
    assert capsys.readouterr().err.splitlines() == [
        "reading a network",
        "fusion groups: 50 to do",
        "accelerators: 9 to do",
    ]


def test_a_time_limit_is_time_left() -> None:
    standing, budget = Standing("edp"), Budget(None, None, 64.0, 10)
    standing.update(summary(0, 1000, 4.0, 7.1e10), budget)
    assert standing.line().endswith("| 100 samples | about 1 min 0 s left")
    assert standing.line(since=50).endswith("about 10 s left")


def test_the_pace_of_a_resumed_study_is_that_of_this_session() -> None:
    standing, budget = Standing("edp"), Budget(1000, 10_000, None, 10)
    standing.update(summary(7, 1000, 90.0, 1.0), budget)
    assert "samples/s" not in standing.line()
    standing.update(summary(8, 2000, 92.0, 1.0), budget)
    standing.update(summary(9, 3000, 94.0, 1.0), budget)
    assert "| 50 samples/s | about 15 s left" in standing.line()


@pytest.mark.parametrize(
    ("share", "text"), [(0, "░" * 20 + "   0%"), (0.999, "█" * 19 + "░  99%"), (1, "█" * 20 + " 100%")]
)
def test_the_bar_is_full_only_at_the_end(share: float, text: str) -> None:
    assert bar(share) == text
