"""Commands that somebody new meets: examples, completion, comparison, interruption, other spellings, the browser."""

from __future__ import annotations

import csv
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from baco.main import run

pytestmark = pytest.mark.usefixtures("short_reports")

TABLE = """
name: small
layers:
  - {name: window, type: conv, R: 3, S: 3, P: 6, Q: 6, C: 4, K: 8, count: 2}
  - {name: product, type: gemm, M: 12, K: 10, N: 9}
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run("baco", [str(one) for one in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.yaml").write_text(TABLE)
    return tmp_path


def test_the_examples_work_as_they_are(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    last = {}
    for name in ("space", "layers", "kernel", "attention"):
        code, out, err = call(capsys, "init", name)
        assert (code, err) == (0, "")
        last[name] = out.splitlines()[-1].split()
        assert last[name][0] == "explore"
    code, _, err = call(capsys, "explore", "--space", "space.yaml", "--samples", 5, "--out", "a", "--quiet")
    assert code == 0, err
    code, _, err = call(
        capsys, "explore", "--network", "layers.yaml", "--samples", 30, "--out", "b", "--quiet"
    )
    assert code == 0, err
    # the command lines in the kernels' own descriptions, and the files themselves with the engine that needs no build
    for file, wrote in (("kernel.py", "c"), ("attention.py", "out")):
        found = re.search(r"^    baco (run .*)$", (here / file).read_text(), re.MULTILINE)
        assert found is not None
        code, out, err = call(capsys, *found[1].split())
        assert code == 0, err
        assert f"right: {wrote} equal" in out
        assert re.search(r"^commands +[1-9]", out, re.MULTILINE), "the kernel reaches the accelerator"
    for file, macs in (("kernel.py", "491,520"), ("attention.py", "524,288")):
        text = (here / file).read_text()
        (here / file).write_text(text.replace('engine="rtl"', 'engine="functional"'))
        runpy.run_path(file, run_name="__main__")
        said = rf"right: <functional: exit code 0, \d+ accelerator commands, {macs} MACs>\n"
        assert re.fullmatch(said, capsys.readouterr().out)

    # what is said last, as it stands, but for a smaller budget and without simulating
    for name in ("kernel", "attention"):
        words = last[name][1 : last[name].index("--validate")]
        code, _, err = call(capsys, "explore", *words, "--samples", 20, "--out", name, "--quiet")
        assert code == 0, err
        assert (here / name / "best" / "kernel.elf").exists()

    code, _, err = call(capsys, "init", "kernel")
    assert code == 2
    assert "already something of this name" in err
    code, _, err = call(capsys, "init", "castle")
    assert code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_the_programs(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    code, out, err = call(capsys, "completion", shell)
    assert (code, err) == (0, "")
    assert f"_BACO_COMPLETE=complete_{shell}" in out
    assert f"_EXPLORE_COMPLETE=complete_{shell}" in out


@pytest.mark.parametrize(
    ("program", "words", "found"),
    [
        ("baco", "baco comp", ["compare", "compile", "completion"]),
        ("explore", "explore --obj", ["--objective"]),
        ("explore", "explore --network resn", ["resnet18", "resnet50"]),
        ("baco", "baco run -a gemmini-la", ["gemmini-large"]),
    ],
)
def test_what_is_completed(program: str, words: str, found: list[str]) -> None:
    settings = {f"_{program.upper()}_COMPLETE": "complete_bash", "COMP_WORDS": words}
    done = subprocess.run(
        [str(Path(sys.executable).with_name(program))],
        env={**os.environ, **settings, "COMP_CWORD": str(len(words.split()) - 1)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(done.stdout.split()) == found


def test_studies_side_by_side(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    for name, samples in (("a", 4), ("b", 12)):
        options = (
            "--network",
            "table.yaml",
            "--samples",
            samples,
            "--search",
            "random",
            "--out",
            name,
            "--quiet",
        )
        assert call(capsys, "explore", *options)[0] == 0
    code, out, err = call(capsys, "compare", "a", "b/study.sqlite", "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    edp = [
        json.loads((here / name / "summary.json").read_text())["best"]["cost"]["edp_uj_cycles"]
        for name in "ab"
    ]
    assert [row["edp_uj_cycles"] for row in rows] == edp
    assert [row["ratio"] for row in rows] == pytest.approx([one / min(edp) for one in edp])
    assert [row["study"] for row in rows] == ["a", "b"]
    code, out, _ = call(capsys, "compare", "a", "b")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["study", "a", "b"]
    assert call(capsys, "compare")[0] == 2
    assert "no study here" in call(capsys, "compare", "a", "nowhere")[2]


def test_a_convolution_needs_no_quotes_and_may_have_them(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    results = []
    for text in ("6x6x4:8,k3,p1", "6x6x4->8,k3,p1", "1,6x6x4:8,k3x3,s1,p1,d1,g1"):
        code, out, err = call(capsys, "run", "--conv", text, "--json")
        assert code == 0, err
        results.append(json.loads(out))
    assert {one["macs"] for one in results} == {36 * 9 * 4 * 8}
    assert len({one["predicted_cycles"] for one in results}) == 1
    # an unquoted arrow is a redirection of the shell: what is left is told apart, and how to write it
    code, _, err = call(capsys, "run", "--conv", "6x6x4-")
    assert code == 2
    assert "write [N,]HxWxC:K" in err


def test_a_study_stands_for_its_best_accelerator(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "space.yaml").write_text("dim: [4]\nscratchpad_kib: [16]\naccumulator_kib: [8]\n")
    search = ("--network", "table.yaml", "--space", "space.yaml", "--samples", 4, "--out", "s", "--quiet")
    assert call(capsys, "explore", *search)[0] == 0
    code, out, err = call(capsys, "run", "--gemm", "4x4x4", "-a", "s")
    assert code == 0, err
    assert "needs           array of side 4" in out
    assert call(capsys, "rtl", "s", "-o", "s.v")[0] == 0
    (here / "t.yaml").write_text("base: s\ndim: [4]\nscratchpad_kib: [16]\naccumulator_kib: [8]\n")
    code, _, err = call(capsys, "run", "--gemm", "4x4x4", "-a", here)
    assert code == 2
    assert "holds no best/accelerator.yaml" in err


def test_evaluate_names_its_model(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    search = ("--network", "table.yaml", "--samples", 40, "--out", "s", "--quiet")
    assert call(capsys, "explore", *search)[0] == 0
    found = {}
    for model, words in (
        ("reference", "published reference model"),
        ("instruction", "instruction-aware model"),
    ):
        table = ("evaluate", "s/best/mappings.csv", "--out", f"{model}.csv", "--cost-model", model)
        code, out, err = call(capsys, *table)
        assert code == 0, err
        assert f"predicted by the {words} (--cost-model {model})" in out
        with open(f"{model}.csv", newline="") as file:
            found[model] = list(csv.DictReader(file))
    # the study's own costs are the instruction-aware model's; rows only do not say which tiles have copies
    for row in found["instruction"]:
        assert float(row["predicted.cycle"]) == pytest.approx(float(row["target.cycle"]), rel=0.2)
    assert found["reference"] != found["instruction"]
    assert all(float(row["predicted.cycle"]) < float(row["target.cycle"]) for row in found["reference"])

    text = (here / "s/best/mappings.csv").read_text().splitlines()
    side = text[0].split(",").index("arch.meshX")
    wide = ",".join("3000" if i == side else field for i, field in enumerate(text[2].split(",")))
    (here / "wide.csv").write_text("\n".join([text[0], text[1], wide]) + "\n")
    code, _, err = call(capsys, "evaluate", "wide.csv", "--out", "o.csv", "--cost-model", "instruction")
    assert code == 2
    assert err.startswith("error: wide.csv:3: no accelerator has arch.meshX")
    code, _, err = call(capsys, "evaluate", "wide.csv", "--out", "o.csv", "--cost-model", "crystal")
    assert (code, "unknown cost model 'crystal'" in err) == (2, True)


def test_the_report_opens(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda page: opened.append(page) or True)
    monkeypatch.setenv("BROWSER", "firefox")
    search = ("--network", "table.yaml", "--samples", 4, "--out", "s", "--quiet", "--open")
    assert call(capsys, "explore", *search)[0] == 0
    assert call(capsys, "report", "s", "--open")[0] == 0
    assert opened == [(here / "s" / "report.html").as_uri()] * 2
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if sys.platform == "linux":
        code, _, err = call(capsys, "report", "s", "--open")
        assert (code, err) == (0, "note: there is no browser to open s/report.html\n")
        assert len(opened) == 2


def test_an_interruption_is_acknowledged_at_once(here: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("explore")),
        "--network",
        "table.yaml",
        "--search",
        "random",
    ]
    process = subprocess.Popen(
        [*command, "--samples", "100000000", "--out", "s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stdout is not None
    # what comes before the first batch is said first
    assert any("samples" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    out = process.stdout.read()
    assert process.wait() == 0
    assert "note: stopping after this batch" in said
    assert out.startswith("interrupted; continue with --resume: ")
    assert (here / "s" / "report.html").exists()
