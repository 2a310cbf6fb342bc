"""`baco compile`, `baco run` and `baco opt`: what they write, and what they say to mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from baco.compiler.dialects.context import all_dialects
from baco.compiler.ir.text import Level, read_ir
from baco.main import run

KERNEL = '''\
"""A kernel for tests."""

import os

import baco

SIZE = 16


@baco.jit
def gemm(a, b, c, M, N, K, BLOCK: baco.const = SIZE):
    i = baco.program_id(0) * BLOCK + baco.arange(0, BLOCK)
    j = baco.program_id(1) * BLOCK + baco.arange(0, BLOCK)
    k = baco.arange(0, BLOCK)
    a_ptrs = a + i[:, None] * K + k[None, :]
    b_ptrs = b + k[:, None] * N + j[None, :]
    total = baco.zeros((BLOCK, BLOCK), dtype="int32")
    for step in range(0, K, BLOCK):
        total = baco.dot(baco.load(a_ptrs), baco.load(b_ptrs), total)
        a_ptrs += BLOCK
        b_ptrs += BLOCK * N
    baco.store(c + i[:, None] * N + j[None, :], total)


def plain(x):
    return x


raise SystemExit("this file must not be executed")
'''
KERNEL = KERNEL.replace("BLOCK: baco.const = SIZE", "BLOCK: baco.const = 16")
ARGUMENTS = [
    *("--arg", "a=int8[20,9]", "--arg", "b=int8[9,17]", "--arg", "c=int32[20,17]"),
    *("--arg", "M=20", "--arg", "N=17", "--arg", "K=9", "--grid", "cdiv(M, 16), cdiv(N, 16)"),
]
#: The same by other ways to import the names of kernels.
KERNELS = {
    "baco": KERNEL,
    "language": KERNEL.replace("@baco.", "@bl.").replace(" baco.", " bl.").replace("(baco.", "(bl.")
    .replace("import baco\n", "import baco.language as bl\n"),
    "both": KERNEL.replace("import baco\n", "import baco\nfrom baco.language import dot, load\n")
    .replace("baco.dot", "dot").replace("baco.load", "load"),
    "whole": KERNEL.replace("import baco\n", "import baco.language\n").replace("baco.dot", "baco.language.dot"),
}  # fmt: skip
COPY = """\
func.func @copy(%from: i64, %to: i64) {
  instgem.config_ld block_stride = 16, stride = 16
  instgem.config_st stride = 16
  instgem.mvin address = %from, cols = 16, rows = 8
  instgem.config_st stride = 16
  instgem.mvout address = %to, cols = 16, rows = 8
  instgem.fence
  func.return
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    return f"{path}:gemm"


@pytest.fixture
def copy_text(tmp_path: Path) -> Path:
    path = tmp_path / "copy.mlir"
    path.write_text(COPY)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run("baco", [str(one) for one in arguments])
    captured = capsys.readouterr()
    assert "internal error" not in captured.err
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def good(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code, out, err = call(capsys, *arguments)
    assert code == 0, err
    return out


# -------------------------------------------------------------------- what works


def test_every_level_of_a_kernel(kernel: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    levels: list[Level] = ["baco", "linalg", "instgem", "llvm"]
    for level in levels:
        path = tmp_path / f"{level}.mlir"
        good(capsys, "compile", kernel, *ARGUMENTS, "--emit", level, "-o", path)
        read_ir(path.read_text(), "gemm.mlir", all_dialects(), level)
    assert "define void @gemm" in good(capsys, "compile", kernel, *ARGUMENTS, "--emit", "llvm-ir")
    assert ".insn r 123, 3, " in good(capsys, "compile", kernel, *ARGUMENTS, "--emit", "asm")


def test_lowering_can_begin_at_any_level(
    kernel: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted = good(capsys, "compile", kernel, *ARGUMENTS, "--emit", "llvm-ir")
    for level in ("baco", "linalg", "instgem", "llvm"):
        path = tmp_path / f"{level}.mlir"
        good(capsys, "compile", kernel, *ARGUMENTS, "--emit", level, "-o", path)
        assert good(capsys, "compile", path, "--from", level, "--emit", "llvm-ir") == wanted
        assert good(capsys, "compile", path, "--emit", "llvm-ir") == wanted


def test_a_kernel_runs_and_is_right(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = good(capsys, "run", kernel, *ARGUMENTS)
    assert "results         right: c equal numpy's" in out
    report = json.loads(good(capsys, "run", kernel, *ARGUMENTS, "--json"))
    assert report["compared"] == ["c"]
    assert report["wrong"] == []
    assert report["macs"] == 20 * 17 * 9


def test_results_of_a_kernel_can_be_saved(
    kernel: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saves = [part for name in "abc" for part in ("--save", f"{name}={tmp_path / name}.npy")]
    good(capsys, "run", kernel, *ARGUMENTS, *saves, "-q")
    a, b, c = (np.load(tmp_path / f"{name}.npy") for name in "abc")
    wanted = a.reshape(20, 9).astype(np.int64) @ b.reshape(9, 17)
    np.testing.assert_array_equal(c.reshape(20, 17), wanted)


@pytest.mark.parametrize(
    "layer",
    [
        ["--gemm", "33x17x5", "--bias", "--relu"],
        ["--gemm", "3:9x20x18", "--raw"],
        ["--gemm", "20x30x40", "--transposed", "--residual", "0.5"],
        ["--gemm", "40x40x40", "--baseline"],
        ["--conv", "9x11x5->7,k3,p1", "--relu"],
        ["--conv", "2,12x12x3->8,k3x3,s2,p1,d1", "--pool", "2,2"],
        ["--conv", "7x7x4->4,k3,p1,g4", "--scale", "0.01"],
    ],
)
def test_layers_run_and_are_right(layer: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "right: output equal numpy's" in good(capsys, "run", *layer)


def test_what_is_shown_of_a_layer_is_what_is_compiled(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "layer.mlir"
    for layer in (["--conv", "9x11x5->7,k3,p1", "--relu", "--bias"], ["--gemm", "20x20x20"]):
        wanted = good(capsys, "compile", *layer, "--emit", "llvm-ir")
        good(capsys, "compile", *layer, "--emit", "instgem", "-o", path)
        assert good(capsys, "compile", path, "--emit", "llvm-ir") == wanted


@pytest.mark.parametrize("level", ["baco", "linalg"])
def test_layers_are_nothing_above_instgem(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "compile", "--gemm", "20x20x20", "--emit", level)
    assert (code, out) == (2, "")
    assert f"what begins at the level 'instgem' cannot be shown at '{level}'" in err
    code, out, err = call(capsys, "compile", "--gemm", "20x20x20", "--dump-after", "linalg-to-instgem")
    assert (code, out) == (2, "")
    assert "the pass 'linalg-to-instgem' is not run" in err


def test_a_program_that_checks_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "layer.elf"
    good(capsys, "compile", "--gemm", "20x20x20", "--check", "-o", path)
    good(capsys, "simulate", path, "-e", "functional", "-q")
    first = path.read_bytes()
    good(capsys, "compile", "--gemm", "20x20x20", "--check", "-o", path)
    assert path.read_bytes() == first


def test_arrays_of_a_text(copy_text: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = np.arange(128, dtype=np.int8).reshape(8, 16)
    np.save(tmp_path / "data.npy", data)
    given = ["run", copy_text, "--arg", f"from={tmp_path / 'data.npy'}", "--arg", "to=int8[8,16]:output"]
    assert "not compared" in good(capsys, *given)
    out = good(
        capsys, *given, "--expect", f"to={tmp_path / 'data.npy'}", "--save", f"to={tmp_path / 'out.npy'}"
    )
    assert "right: to equal numpy's" in out
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), data)
    data[3, 4] = -7
    np.save(tmp_path / "wrong.npy", data)
    code, out, err = call(capsys, *given, "--expect", f"to={tmp_path / 'wrong.npy'}")
    assert code == 1
    assert "results         WRONG" in out
    assert "wrong: to[3, 4] is 52, not -7; 1 of 128 elements are wrong" in err


def test_opt_removes_and_shows(copy_text: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plain = good(capsys, "opt", copy_text)
    assert plain.count("config_st") == 2
    code, out, err = call(
        capsys, "opt", copy_text, "-p", "instgem-elide-config,instgem-to-llvm", "-p", "lower-to-llvm",
        "--dump-after", "instgem-elide-config", "--to", "llvm",
    )  # fmt: skip
    assert code == 0
    assert err.startswith("// after instgem-elide-config\n")
    assert err.count("config_st") == 1
    read_ir(out, "out.mlir", all_dialects(), "llvm")
    target = tmp_path / "out.mlir"
    assert good(capsys, "opt", copy_text, "-o", target) == ""
    assert target.read_text() == plain


def test_opt_lists_passes(capsys: pytest.CaptureFixture[str]) -> None:
    from baco.compiler.passes import PASSES, pass_named

    out = good(capsys, "opt", "--list")
    for name in PASSES:
        cls = pass_named(name)
        assert cls.name == name
        line = next(one for one in out.splitlines() if one.startswith(f"{name} "))
        assert len(line.split()) > 3


def test_every_pass_can_be_watched(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "compile", kernel, *ARGUMENTS, "--emit", "llvm-ir", "--dump-after", "all")
    assert code == 0
    shown = [line.removeprefix("// after ") for line in err.splitlines() if line.startswith("// after ")]
    assert shown == [
        *(
            "baco-to-linalg",
            "linalg-pipeline",
            "linalg-to-instgem",
            "instgem-hoist-config",
            "instgem-elide-config",
        ),
        *("instgem-to-llvm", "lower-to-llvm"),
    ]


def test_memory_in_and_out(copy_text: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    elf, given, got = tmp_path / "copy.elf", tmp_path / "in.bin", tmp_path / "out.bin"
    good(capsys, "compile", copy_text, "--arg", "from=int8[8,16]", "--arg", "to=int8[8,16]:output", "-o", elf)
    given.write_bytes(bytes(range(128)))
    simulate = ["simulate", elf, "-e", "functional", "-q"]
    good(capsys, *simulate, "--load", f"buffer_from={given}", "--dump", f"buffer_to={got}")
    assert got.read_bytes() == bytes(range(128))
    good(capsys, *simulate, "--dump", f"0x80000000:100={got}")
    assert len(got.read_bytes()) == 100
    for options, reason in (
        (["--dump", f"buffer_too={got}"], "no symbol 'buffer_too'"),
        (["--dump", "buffer_to"], "takes WHERE=FILE"),
        (["--dump", f"0x80000000={got}"], "is no number"),
        (["--dump", f"0x10:4={got}"], "outside memory"),
        (["--load", f"buffer_from={elf}"], "holds 128"),
        (["--load", f"buffer_from={tmp_path / 'none'}"], "no such file"),
    ):
        code, _, err = call(capsys, *simulate, *options)
        assert code == 2
        assert reason in err


# -------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "name one thing to compile"),
        (["copy.mlir", "--gemm", "2x2x2"], "name one thing to compile"),
        (["--gemm", "2x2"], "no matrix product"),
        (["--gemm", "0x2x2"], "at least 1"),
        (["--gemm", "ax2x2"], "no matrix product"),
        (["--gemm", "2x2x2", "--conv", "3x3x3->4"], "either --gemm or --conv"),
        (["--conv", "3x3->4"], "no convolution"),
        (["--conv", "3x3x3->4,k5"], "larger than the padded image"),
        (["--conv", "3x3x3->4,q5"], "means nothing"),
        (["--conv", "3x3x3->4,s0"], "at least 1"),
        (["--conv", "3x3x3->4,g2"], "cannot be cut into 2 groups"),
        (["--gemm", "2x2x2", "--pool", "2"], "is no pooling"),
        (["--gemm", "2x2x2", "--pool", "2,0"], "at least 1"),
        (["--gemm", "2x2x2", "--raw", "--scale", "0.5"], "makes no sense"),
        (["--gemm", "2x2x2", "--raw", "--relu"], "ReLU"),
        (["--gemm", "2x2x2", "--style", "fast"], "no code style 'fast'"),
        (["--gemm", "2x2x2", "--mapping", "nonsense"], "nonsense"),
        (["--gemm", "2x2x2", "--baseline", "--mapping", "x"], "a choice of its own"),
        (["--gemm", "2x2x2", "-a", "nobody"], "nobody"),
        (["--gemm", "2x2x2", "--dump-after", "nothing"], "'nothing' is not run"),
        (["none.mlir"], "no such file"),
        (["copy.mlir", "--from", "high"], "no level 'high'"),
        (["copy.mlir", "--from", "llvm"], "copy.mlir:1:"),
        (["copy.mlir", "--entry", "main"], "no function @main"),
        (["copy.mlir"], "takes 2 arguments, but there are 0"),
        (["copy.mlir", "--arg", "a"], "is no argument"),
        (["copy.mlir", "--arg", "a=7"], "describes no array"),
        (["copy.mlir", "--arg", "a=int7[3]"], "cannot hold int7"),
        (["copy.mlir", "--arg", "a=int8[3]:some"], "cannot be 'some'"),
        (["copy.mlir", "--arg", "a=none.npy"], "no such file"),
        (["copy.mlir", "--arg", "a=copy.npy"], "no array"),
        (["copy.py"], "name the kernel as well"),
        (["none.py:f"], "no such file"),
        (["kernel.py:gem"], "did you mean 'gemm'"),
        (["kernel.py:plain"], "is no kernel"),
        (["syntax.py:f"], "syntax.py:1"),
        (["other.py:f"], "baco has no name 'jitt'"),
        (["default.py:f"], "default.py:3:"),
        (["kernel.py:gemm"], "no value for"),
        (["kernel.py:gemm", *ARGUMENTS[:-2], "--grid", "M/2"], "no number of programs"),
        (["kernel.py:gemm", *ARGUMENTS[:-2], "--grid", "M //"], "cannot be read"),
        (["kernel.py:gemm", *ARGUMENTS[:-2], "--grid", "M // 0"], "divides by zero"),
        (["kernel.py:gemm", *ARGUMENTS[:-2], "--grid", "1"], "axis 1 does not exist"),
        (["kernel.py:gemm", *ARGUMENTS, "--arg", "Q=1"], "no parameter `Q`"),
    ],
)  # fmt: skip
def test_mistakes(
    arguments: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("copy.mlir", COPY),
        ("copy.npy", "no array"),
        ("copy.py", ""),
        ("kernel.py", KERNEL),
        ("syntax.py", "def f(:\n"),
        ("other.py", "from baco import jitt\n"),
        ("default.py", "import baco, os\n@baco.jit\ndef f(a, b=os.getcwd()):\n  pass\n"),
    ):
        (tmp_path / name).write_text(text)
    code, _, err = call(capsys, "compile", *arguments)
    assert code == 2
    assert reason in err
    assert err.startswith("error: ")
    assert not list(tmp_path.glob("*.elf"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "name the file"),
        (["copy.mlir", "-p", "nothing"], "no pass 'nothing'"),
        (["copy.mlir", "-p", "dce{"], "cannot be read"),
        (["copy.mlir", "-p", "dce{much=1}"], "its options: none"),
        (["copy.mlir", "-p", "dce", "--dump-after", "cse"], "'cse' is not run"),
        (["copy.mlir", "--to", "llvm"], "func.func cannot occur at the level 'llvm'"),
        (["copy.mlir", "-p", "lower-to-llvm"], "copy.mlir:2:3: instgem.config_ld cannot be lowered"),
    ],
)
def test_mistakes_with_passes(
    arguments: list[str],
    reason: str,
    copy_text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(copy_text.parent)
    code, out, err = call(capsys, "opt", *arguments)
    assert (code, out) == (2, "")
    assert reason in err


def test_nothing_of_a_kernel_file_is_executed(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with an exception that would end pytest."""
    assert "baco.dot" in good(capsys, "compile", kernel, *ARGUMENTS, "--emit", "baco")


GRIDDED = """import baco


def grid(meta):
    return baco.cdiv(meta["M"], meta["B"]), baco.cdiv(meta["N"], meta["B"])


@baco.jit
def scaled(x: "int8[M, N]", y: "int8[M, N]", M, N, B: baco.const):
    rows = baco.program_id(0) * B + baco.arange(0, B)
    columns = baco.program_id(1) * B + baco.arange(0, B)
    at = rows[:, None] * N + columns[None, :]
    baco.store(y + at, baco.load(x + at))
"""


def test_a_run_takes_the_grid_and_the_arrays_of_the_kernels_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text(GRIDDED)
    words = ["run", "kernel.py:scaled", "--arg", "M=32", "--arg", "N=48", "--arg", "B=16"]
    saved = ["--save", "x=x.npy", "--save", "y=y.npy"]
    assert run("baco", [*words, *saved]) == 0
    # all 2 x 3 programs ran: every element was copied
    copied = np.load("y.npy")
    assert copied.shape == (32 * 48,)
    assert np.array_equal(copied, np.load("x.npy"))
    # --grid wins: one column of programs copies the first 16 columns alone
    capsys.readouterr()
    given = np.zeros((32, 48), np.int8)
    np.save("zeros.npy", given)
    assert run("baco", [*words, "--arg", "y=zeros.npy", "--grid", "2, 1", *saved]) == 0
    copied, source = np.load("y.npy").reshape(32, 48), np.load("x.npy").reshape(32, 48)
    assert np.array_equal(copied[:, :16], source[:, :16])
    assert not copied[:, 16:].any()
    assert run("baco", [*words, "--grid", "2"]) == 2
    assert "--grid says how many programs" in capsys.readouterr().err
    assert run("baco", ["run", "kernel.py:scaled", "--arg", "N=48", "--arg", "B=16"]) == 2
    assert "`M` has no value" in capsys.readouterr().err


@pytest.mark.parametrize("way", KERNELS)
def test_names_of_kernels_by_any_import(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(KERNELS[way])
    assert run("baco", ["run", f"{path}:gemm", *ARGUMENTS]) == 0
    assert "right" in capsys.readouterr().out.lower()


def test_functions_for_c_programs(
    kernel: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good(capsys, "compile", kernel, *ARGUMENTS, "--emit", "object")
    assert "int gemm_run(" in (tmp_path / "gemm.h").read_text()
    good(capsys, "compile", "--gemm", "8x8x8", "--emit", "c", "-o", "product.c")
    assert (
        "k_LOOP_WS_CONFIG_BOUNDS);  // pad_i = 8, pad_j = 8, pad_k = 8"
        in (tmp_path / "product.c").read_text()
    )
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".py") == [
        *("baco_gemmini.h", "gemm.h", "gemm.o", "product.c", "product.h"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--emit", "archive"), "nothing called 'archive' can be emitted"),
        (("--emit", "object", "-o", "a.elf"), "the file is called NAME.o, not 'a.elf'"),
        (("--emit", "c", "-o", "my-net.c"), "no function in C is called 'my-net_run'"),
        (("--emit", "object", "-o", "nowhere/net.o"), "nowhere/net.o: cannot be written"),
        (("--emit", "object", "--check"), "--check goes with --emit elf"),
        (
            ("--emit", "c", "--timing", "gemmini", "-a", "gemmini-transformer"),
            "the original Gemmini has no row functions",
        ),
    ],
)
def test_what_no_function_is(
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = call(capsys, "compile", "--gemm", "8x8x8", *arguments)
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert message in error
    assert error.count("error:") == 1


def test_text_that_has_no_form_in_c(
    copy_text: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lowered = tmp_path / "copy-llvm.mlir"
    good(capsys, "compile", copy_text, "--emit", "llvm", "-o", lowered)
    arrays = ("--arg", "a=int8[8,16]", "--arg", "b=int8[8,16]:output")
    for file, given, message in (
        (lowered, arrays, "what begins at the level 'llvm' has no form in C"),
        (copy_text, (), "nothing says what the arguments of @copy are"),
    ):
        code, _, error = call(capsys, "compile", file, *given, "--emit", "c", "-o", tmp_path / "copy.c")
        assert code == 2
        assert message in error
    good(capsys, "compile", copy_text, *arrays, "--emit", "c", "-o", tmp_path / "copy.c")
    assert "gemmini_extended_mvin(from, 0x0, 16, 8);" in (tmp_path / "copy.c").read_text()


@pytest.mark.parametrize(
    "arguments",
    [("-o", "nowhere/net.elf"), ("--emit", "asm", "-o", "nowhere/net.s"), ("--image", "nowhere/weights.bin")],
)
def test_a_folder_that_is_missing_is_told_before_anything_is_compiled(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_yet(*given: object, **named: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr("baco.cli.program_input.compile_options", not_yet)
    code, _, error = call(capsys, "compile", "--network", "resnet18", *arguments)
    assert code == 2
    assert f"{arguments[-1]}: cannot be written: there is no such folder" in error
