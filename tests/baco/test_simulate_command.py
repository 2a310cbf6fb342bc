"""`baco simulate` and `baco trace` as commands: what they print, where, and with which exit code."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from baco.main import run
from tests.sim.riscv_programs import compile_program

ACCELERATOR = "name: small\ndim: 4\nscratchpad_kib: 16\naccumulator_kib: 8\n"


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = run("baco", [str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(ACCELERATOR)
    return path


@pytest.fixture
def product(tmp_path: Path) -> Path:
    return compile_program(tmp_path / "matmul.elf", Path("matmul.c"), "-DDIM=4")


@pytest.mark.parametrize("engine", ["functional", "rtl"])
def test_a_program_that_succeeds(
    capsys: pytest.CaptureFixture[str], small: Path, product: Path, engine: str
) -> None:
    code, out, _ = call(capsys, "simulate", product, "-a", small, "--engine", engine)
    assert code == 0
    assert out.startswith("matmul is right\n")
    assert "MACs            64" in out
    assert ("cycles" in out) == (engine == "rtl")
    code, out, err = call(capsys, "simulate", product, "-a", small, "-e", engine, "--json")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert result["console"] == "matmul is right\n"
    assert result["macs"] == 64
    assert result["commands"]["MVIN"] == 2
    code, out, err = call(capsys, "simulate", product, "-a", small, "-e", engine, "--quiet")
    assert (code, out, err) == (0, "matmul is right\n", "")


def test_a_program_that_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    elf = compile_program(tmp_path / "p.elf", "int main(void) { return 3; }")
    code, _, err = call(capsys, "simulate", elf, "--engine", "functional", "--quiet")
    assert code == 1
    assert err == "the program ended with exit code 3\n"
    code, out, _ = call(capsys, "simulate", elf, "--engine", "functional", "--json")
    assert (code, json.loads(out)["exit_code"]) == (1, 3)


def test_mistakes_are_one_message_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, product: Path
) -> None:
    text = tmp_path / "text.elf"
    text.write_text("hello")
    endless = compile_program(tmp_path / "e.elf", "int main(void) { for (;;) tohost; }")
    for arguments, message in (
        (["simulate"], "give either a program or a --stream of commands"),
        (["simulate", product, "--stream", text], "give either a program or a --stream of commands"),
        (["simulate", tmp_path / "absent"], "no such file"),
        (["simulate", text, "-e", "functional"], "no ELF file"),
        (["simulate", product, "-e", "spyke"], "unknown engine 'spyke'"),
        (["simulate", product, "-a", "gemini-default"], "no accelerator 'gemini-default'"),
        (["simulate", product, "--memory-burst", "24"], "power of two"),
        (["simulate", product, "--l2-kib", "-1"], "--l2-kib"),
        (["simulate", product, "--tools", "mine"], "tools of the kind 'mine'"),
        (["simulate", endless, "-e", "functional", "--max-cycles", "10000"], "limit of 10000 cycles"),
        (["trace", text, "-o", tmp_path / "x.png"], "no command log"),
    ):
        code, out, err = call(capsys, *arguments)
        assert code == 2, arguments
        assert out == ""
        assert err.startswith("error: ")
        assert message in err
        assert "Traceback" not in err


def test_log_to_chart(capsys: pytest.CaptureFixture[str], tmp_path: Path, small: Path, product: Path) -> None:
    log, chart = tmp_path / "log.csv", tmp_path / "chart.html"
    options = ("-e", "functional", "--log", log, "--quiet")
    assert call(capsys, "simulate", product, "-a", small, *options)[0] == 0
    trace = tmp_path / "trace.json"
    assert call(capsys, "trace", log, "-o", chart, "--perfetto", trace)[0] == 0
    assert "MVIN" in chart.read_text()
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert "MVIN" in names
    code, out, err = call(capsys, "trace", log)
    assert (code, out) == (2, "")
    assert "add --out FILE.html or --perfetto FILE.json" in err


def test_streams(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    stream = tmp_path / "s.txt"
    stream.write_text("write 80000000 0102ff\nfence\ndump 80000000 3\n")
    code, out, _ = call(capsys, "simulate", "--stream", stream, "-e", "functional", "--json")
    assert code == 0
    assert json.loads(out)["memory_dumps"] == ["0102ff"]


def test_a_log_goes_into_a_pipe_and_never_through_a_link(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, small: Path, product: Path
) -> None:
    options = ("-e", "functional", "--quiet", "--log")
    assert call(capsys, "simulate", product, "-a", small, *options, tmp_path / "log.csv")[0] == 0
    pipe, letter, link = tmp_path / "pipe", tmp_path / "letter", tmp_path / "link"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        assert call(capsys, "simulate", product, "-a", small, *options, pipe)[0] == 0
        assert read.result(20) == (tmp_path / "log.csv").read_bytes()
    letter.write_text("kept")
    link.symlink_to(letter)
    code, _, err = call(capsys, "simulate", product, "-a", small, *options, link)
    assert code == 2
    assert "this is a link" in err
    assert letter.read_text() == "kept"


@pytest.mark.parametrize("command", [("rtl", "-o"), ("trace", "-o")])
def test_outputs_keep_to_one_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, small: Path, product: Path, command: tuple[str, str]
) -> None:
    """A device stays one; links and write-protected files are refused and untouched."""
    name, option = command
    subject = small
    if name == "trace":
        subject = tmp_path / "log.csv"
        call(capsys, "simulate", product, "-a", small, "-e", "functional", "--quiet", "--log", subject)
    else:
        assert call(capsys, name, subject, option, "/dev/null")[0] == 0
        assert Path("/dev/null").is_char_device()
    letter, link = tmp_path / "letter.html", tmp_path / "link.html"
    letter.write_text("kept")
    letter.chmod(0o444)
    link.symlink_to(letter)
    for path, words in ((letter, "write-protected"), (link, "this is a link")):
        code, _, err = call(capsys, name, subject, option, path)
        assert code == 2
        assert words in err
        assert letter.read_text() == "kept"
        assert link.is_symlink()
