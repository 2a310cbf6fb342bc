"""Options that do not go together are refused before anything is loaded, compiled or simulated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import baco
from baco.main import run

pytestmark = pytest.mark.usefixtures("short_reports")

NETWORK = ("run", "--network", "resnet18")


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever takes time fails the test."""

    def work(*_: Any, **__: Any) -> None:
        raise AssertionError("work began before the options were checked")

    for place in (
        "baco.api.network_unit.load_network",
        "baco.exploration.studies.engine.run_exploration",
        "baco.exploration.cosim.run_campaign",
        "baco.exploration.samplers.tree_structures.compare_trees",
        "baco.api.program_options.layer_unit",
        "baco.api.program_options.schedule_for",
        "baco.sim.engines.functional.load_program",
        "baco.sim.engines.rtl.load_program",
    ):
        monkeypatch.setattr(place, work)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*NETWORK, "--timing", "gemmini", "--engine", "timed"), "take --engine gemmini-model"),
        ((*NETWORK, "--timing", "gemmini"), "not of the engine 'functional'"),
        ((*NETWORK, "--engine", "rtll"), "did you mean 'rtl'"),
        (
            (*NETWORK, "--timing", "gemmini", "--engine", "rtl", "--fusion"),
            "--fusion uses moves that the original",
        ),
        ((*NETWORK, "--baseline", "--fusion"), "--fusion and --baseline exclude each other"),
        (
            (*NETWORK, "--baseline", "--try-schedules", "4"),
            "--try-schedules and --baseline exclude each other",
        ),
        ((*NETWORK, "--try-schedules", "-1"), "-1 schedules cannot be tried"),
        ((*NETWORK, "--scales", "octal"), "scales cannot be 'octal'"),
        ((*NETWORK, "--layers", "0"), "a block runs at least once"),
        ((*NETWORK, "--report", "out"), "--report draws what the engine 'rtl' measures"),
        ((*NETWORK, "--engine", "rtl", "--log", "nowhere/log.csv"), "cannot be written"),
        (
            (*NETWORK, "-a", "gemmini-transformer", "--engine", "timed"),
            "the timed model has no functions of rows",
        ),
        ((*NETWORK, "-a", "gemmini-default,input_bits=32", "--engine", "rtl"), "input_bits"),
        ((*NETWORK, "--gemm", "8x8x8"), "--network and options that describe a layer exclude"),
        ((*NETWORK, "--grid", "4"), "--network and --grid exclude each other"),
        (("compile", "--network", "resnet18", "--emit", "baco"), "a network has no 'baco' form"),
        (
            ("compile", "--network", "resnet18", "--emit", "asm", "--image", "x"),
            "--image goes with --emit elf",
        ),
        (("compile", "--network", "resnet18", "--timing", "gemini"), "there is no timing 'gemini'"),
        (("compile", "--network", "resnet18", "--timing", "gemmini", "--fusion"), "--fusion uses moves"),
        (
            ("run", "--gemm", "8x8x8", "--engine", "timed", "--timing", "gemmini"),
            "take --engine gemmini-model",
        ),
        (("run", "--gemm", "8x8x8", "--grid", "4"), "--grid goes with a kernel"),
        (("run", "--gemm", "8x8x8", "--entry", "main"), "--entry goes with text of the IR"),
        (("run", "--gemm", "8x8x8", "--arg", "a=1"), "--arg goes with text of the IR or a kernel"),
        (("run", "--gemm", "8x8x8", "--try-schedules", "4"), "--try-schedules goes with --network"),
        (("run", "--gemm", "8x8x8", "--scales", "power-of-two"), "--scales goes with --network"),
        (("run", "kernel.py:f", "--from", "baco"), "--from goes with text of the IR"),
        (("run", "kernel.py:f", "--relu"), "--relu goes with a layer"),
        (("run", "text.mlir", "--style", "macro"), "--style goes with a layer"),
        (("run", "text.mlir", "--grid", "4"), "--grid goes with a kernel"),
        (("simulate", "x.elf", "--engine", "timed", "--timing", "gemmini"), "take --engine gemmini-model"),
        (("simulate", "x.elf", "--engine", "gemmini-model", "--timing", "baco"), "counts that one's cycles"),
        (
            ("simulate", "x.elf", "--engine", "gemmini-model", "--memory-latency", "9"),
            "memory system of its own",
        ),
        (
            ("simulate", "x.elf", "--trace-from", "5"),
            "--trace-from and --trace-until choose cycles of --trace",
        ),
        (
            ("simulate", "x.elf", "--trace", "x.fst", "--trace-from", "5", "--trace-until", "5"),
            "no cycle lies from --trace-from 5 to --trace-until 5",
        ),
        (("simulate", "x.elf", "--engine", "functional", "--trace", "x.fst"), "has no waveforms"),
        (("explore", "-n", "resnet18", "--search", "gradiant"), "did you mean 'gradient'"),
        (("explore", "-n", "resnet18", "--workers", "3"), "--workers goes with --validate or --measure"),
        (
            ("explore", "-n", "deepbench_face", "--measure", "1M", "--cost-model", "reference"),
            "a measured search needs the instruction-aware cost model",
        ),
        (("explore", "-n", "resnet18", "--proof"), "nothing can be proven"),
        (("explore", "-n", "resnet18", "--grid", "4"), "only a kernel has arguments"),
        (("explore", "-n", "resnet18", "--baseline"), "add --validate K"),
        (("fuse", "--network", "resnet18", "--rounds", "4"), "--rounds goes with --chain"),
        (("fuse", "--network", "resnet18", "--machine", "cloud"), "--machine goes with --chain"),
        (("fuse", "--network", "resnet18", "--measure"), "--measure goes with --chain"),
        (
            ("fuse", "--chain", "attention:heads=1,seq=16,dim=16", "--measure"),
            "--measure goes with an accelerator",
        ),
        (
            (
                "fuse",
                "--chain",
                "attention:heads=1,seq=16,dim=16",
                "--machine",
                "gemmini-lean",
                "--rounds",
                "3",
            ),
            "--rounds goes with a machine of levels",
        ),
        (
            ("fuse", "--chain", "attention:heads=1,seq=16,dim=16", "--analysis"),
            "--analysis goes with --network",
        ),
        (("fuse", "--chain", "attention:heads=1,seq=16,dim=16", "-a", "gemmini-lean"), "goes with --network"),
        (("cosim", "--minimise"), "--minimise goes with --stream"),
        (("model", "evaluate", "--set", "test", "--folds", "5"), "--folds goes with --rows"),
        (("model", "evaluate", "--rows", "x.csv", "--timed"), "--timed goes with --set"),
        (("cosim", "-a", "gemmini-lean", "--first", "2"), "--first goes with random configurations"),
        (("cosim", "--first", "9"), "there is no configuration from --first 9 to --configurations 4"),
        (("cosim", "-a", "gemmini-lean", "--stream", "x", "--illegal"), "--illegal goes with random streams"),
        (
            ("evaluate", "x.csv", "--out", "y.csv", "--machine", "tileflow-16", "--timing", "baco"),
            "exclude each other",
        ),
        (
            (
                "evaluate",
                "x.csv",
                "--out",
                "y.csv",
                "--machine",
                "tileflow-16",
                "--cost-model",
                "instruction",
            ),
            "--machine and --cost-model exclude each other",
        ),
        (("trace", "x.csv", "--out", "y.html", "--from", "9", "--until", "9"), "no cycle lies from --from 9"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_the_command_line_says_so_first(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("baco", list(words)) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "timed", "timing": "gemmini"}, "take `engine='gemmini-model'`"),
        ({"engine": "functional", "timing": "gemmini"}, "not of the engine 'functional'"),
        ({"engine": "rtll"}, "did you mean 'rtl'"),
        ({"accelerator": "gemmini-transformer", "engine": "timed"}, "take `engine='rtl'`"),
        ({"timing": "gemmini", "fusion": True, "engine": "rtl"}, "`fusion` uses moves that the original"),
        ({"baseline": True, "fusion": True}, "`fusion` and `baseline` exclude each other"),
    ],
    ids=str,
)
def test_python_says_so_first_and_in_its_own_words(options: dict[str, Any], said: str) -> None:
    with pytest.raises(baco.BacoError) as caught:
        baco.run("resnet18", **options)
    assert said in str(caught.value)
    assert "--" not in str(caught.value)


def test_the_model_of_the_original_is_called_that(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--engine", "rtl", "--timing", "gemmini"), ("--engine", "gemmini-model")):
        assert run("baco", ["run", "--gemm", "16x16x16", *words]) == 0
        out = capsys.readouterr().out
        assert "of a model of the original Gemmini\n" in out
        assert "rtl" not in out.lower()
    found = baco.run(baco.gemm(16, 16, 16), engine="rtl", timing="gemmini")
    assert found.engine == found.simulation.engine == found.simulation.to_dict()["engine"] == "gemmini-model"
    assert "model of the original Gemmini" in repr(found)
    assert found.cycles == baco.run(baco.gemm(16, 16, 16), engine="gemmini-model").cycles
    assert (
        found.cycles == baco.run(baco.gemm(16, 16, 16), "gemmini-default,timing=gemmini", engine="rtl").cycles
    )
    ours = baco.run(baco.gemm(16, 16, 16), engine="timed")
    assert ours.engine == "timed"
    assert ours.predicted_cycles != found.predicted_cycles  # predicted by its timing, too


def test_compile_takes_a_timing(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    said = {}
    for timing in ("baco", "gemmini"):
        words = [
            "compile",
            "--gemm",
            "128x128x128",
            "--timing",
            timing,
            "--out",
            str(tmp_path / f"{timing}.elf"),
        ]
        assert run("baco", words) == 0
        (said[timing],) = (line for line in capsys.readouterr().err.splitlines() if "predicted" in line)
        cycles = baco.compile(baco.gemm(128, 128, 128), timing=timing).predicted_cycles
        assert f" {cycles:,.0f} cycles" in said[timing]
    assert said["baco"] != said["gemmini"]


@baco.jit
def copied(x, y, n, BLOCK: baco.const = 16):
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    baco.store(y + i, baco.load(x + i))


def test_a_launch_says_so_before_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*_: Any, **__: Any) -> None:
        raise AssertionError("compiled before the options were checked")

    monkeypatch.setattr("baco.compiler.language.compile.compile_launch", work)
    x, y = np.ones(16, np.int8), np.zeros(16, np.int8)
    with pytest.raises(baco.InputError, match="did you mean 'rtl'"):
        copied[1].options(engine="rtll")(x, y, 16)
    with pytest.raises(baco.BacoError, match="the timed model has no functions of rows"):
        copied[1].options(engine="timed", accelerator="gemmini-transformer")(x, y, 16)
