"""Options of the command line: numbers that are none or extreme, names that cannot be shown, impossible layers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.baco.hostile import NO_NAMES, Case, CheckAll

#: No option takes these for a number.
NO_NUMBERS = (
    "nan",
    "NaN",
    "inf",
    "-inf",
    "Infinity",
    "1e400",
    "-1e400",
    "\u00b2",
    "",
    " ",
    "x",
    "0x",
    "1,5",
    "--",
    "\x1b[31m1",
)
EXTREME_WHOLE = (
    "1" + "0" * 30,
    "-1" + "0" * 30,
    "9" * 5000,
    "1.5",
    "9007199254740993",
    "18446744073709551616",
)
#: Commands with their number options, W whole and R real; M: -1 is refused too.
NUMBER_OPTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "explore -n deepbench_ocr --out {}/out -q": (
        ("--samples", "--seed", "--validate"),
        ("--time-limit", "--area-limit", "--validate-time", "--constraint=area_mm2", "--measure"),
    ),
    "validate {}": (("--best", "--spread", "--workers"), ("--cycle-limit", "--time-limit")),
    "run --gemm 2x2x2": (("--seed", "--layers"), ("--scale", "--residual")),
    "compile --gemm 2x2x2 -o {}/x.elf": (("--seed", "--layers"), ("--scale", "--residual")),
    "simulate {}/x.elf": (
        (
            *("--trace-from", "--trace-until", "--max-cycles", "--stall-cycles", "--memory-latency"),
            *("--memory-burst", "--memory-mib", "--l2-kib", "--l2-latency"),
        ),
        ("--timeout", "--memory-bandwidth"),
    ),
    "trace {}/l.csv -o {}/x.html": (("--from", "--until"), ()),
    "cosim -a gemmini-default": (("--streams", "--configurations", "--first", "--seed"), ()),
    "bench model": (("--seed",), ("--seconds",)),
    "bench search --out {}/out": (("--samples", "--seeds", "--jobs"), ()),
    "bench optimality": (("--samples", "--seed"), ("--tolerance",)),
    "bench rtl": (("--dim",), ()),
    "bench measurements --set micro --out {}/out": (("--rows", "--workers"), ()),
    "bench latency": ((), ("--seconds",)),
    "bench loop --out {}/out --work {}/work": (
        ("--samples", "--seed", "--workers"),
        ("--area-limit", "--cycles"),
    ),
    "bench paper --out {}/out": (("--per-kind", "--free-cases", "--jobs"), ()),
    "model train --out {}/w": (("--seed",), ()),
    "model evaluate --set micro": (("--folds", "--seeds"), ()),
    "model compare": (("--folds", "--seeds"), ()),
    "model transfer {}": (("--seed",), ()),
    "isa": (("--word",), ()),
}
#: Commands with an option or argument that takes a name, at TEXT.
TEXT_PLACES = (
    "explore -n TEXT",
    "explore -n resnet18 --objective TEXT",
    "explore -n resnet18 --space TEXT",
    "explore -n resnet18 --search TEXT",
    "explore -n resnet18 --cost-model TEXT",
    "explore -n resnet18 --constraint TEXT",
    "explore -n resnet18 --constraint TEXT=1",
    "explore -n resnet18 --measure TEXT",
    "validate TEXT",
    "report TEXT",
    "evaluate TEXT --out x",
    "networks TEXT",
    "networks resnet18:TEXT=1",
    "networks resnet18:batch=TEXT",
    "networks TEXT.onnx",
    "networks TEXT.yaml",
    "networks TEXT.csv:a",
    "networks TEXT.py:f",
    "rtl TEXT -o {}/x.v",
    "export-chipyard TEXT -o {}/x",
    "compile TEXT",
    "compile TEXT.mlir",
    "compile --gemm TEXT",
    "compile --conv TEXT",
    "compile --gemm 2x2x2 --pool TEXT",
    "compile --gemm 2x2x2 --emit TEXT",
    "compile --gemm 2x2x2 --style TEXT",
    "compile --gemm 2x2x2 --mapping TEXT",
    "compile --gemm 2x2x2 --dump-after TEXT",
    "compile --gemm 2x2x2 -a TEXT",
    "compile x.mlir --from TEXT",
    "compile x.py:TEXT",
    "run --network TEXT",
    "run --network resnet18 --scales TEXT",
    "run --network resnet18 --arg TEXT",
    "run --gemm 2x2x2 --engine TEXT",
    "run --gemm 2x2x2 --save TEXT",
    "run --gemm 2x2x2 --expect TEXT=x",
    "opt TEXT -p canonicalize",
    "opt x.mlir -p TEXT",
    "simulate TEXT",
    "simulate x -e TEXT",
    "simulate x --load TEXT",
    "simulate x --load 0xTEXT=y",
    "simulate x --dump TEXT",
    "simulate x --dump 0x80000000:TEXT=y",
    "simulate --stream TEXT",
    "simulate x --tools TEXT",
    "simulate x -e spike --spike TEXT",
    "trace TEXT -o x.html",
    "cosim -a TEXT --stream x",
    "cosim -a gemmini-default --stream TEXT",
    "isa TEXT",
    "isa --word TEXT",
    "isa --disassemble TEXT 0 0",
    "bench model --device TEXT",
    "bench search --search TEXT",
    "bench search --space TEXT",
    "bench search -n TEXT",
    "bench optimality -n TEXT",
    "bench optimality --space TEXT",
    "bench compiler -a TEXT",
    "bench compiler --set TEXT",
    "bench measurements --set TEXT",
    "bench latency --set TEXT",
    "bench loop --cycles TEXT",
    "bench paper --only TEXT",
    "bench paper --cost-model TEXT",
    "model train --set TEXT --out x",
    "model train --residual TEXT --out x",
    "model evaluate --set TEXT",
    "model evaluate --rows TEXT",
    "model compare --split TEXT",
    "model transfer TEXT",
    "TEXT",
    "bench TEXT",
    "explore TEXT",
    "explore --TEXT",
)
LAYERS = (
    *("2147483647x1x1", "1x2147483647x1", "1x1x2147483647", "9007199254740992x1x1", "99999999999999999x1x1"),
    *(
        "2147483647:1x1x1",
        "0x1x1",
        "1x0x1",
        "1x1",
        "1x1x1x1",
        "-1x1x1",
        "1.5x1x1",
        "\uff12x\uff13x\uff14",
        "\u00b2x1x1",
    ),
    *(
        "1X1X1",
        "1x1x1 ",
        "1e3x1x1",
        "0:1x1x1",
        "nanx1x1",
        "3037000500x3037000500x1",
        "x" * 100_000,
        "1x" * 50_000,
    ),
)
CONVOLUTIONS = (
    *(
        "8x8x4->999999999,k1x1",
        "999999999x8x4->4",
        "8x999999999x4->4",
        "8x8x999999999->4",
        "999999999,8x8x4->4",
    ),
    *(
        "8x8x4->4,k9x9",
        "8x8x4->4,k0",
        "8x8x4->4,s0",
        "8x8x4->4,d0",
        "8x8x4->4,g0",
        "8x8x4->4,g3",
        "8x8x4->4,z1",
    ),
    *(
        "8x8x4->4,p999999999",
        "8x8x4->4,k3,d999999999",
        "8x8x4->4,k999999999,p999999999",
        "0x8x4->4",
        "8x8x4->0",
    ),
    *(
        "8x8x4",
        "8x8x4->",
        "->4",
        "8x8x4->4,",
        "8x8x4->4,k",
        "8x8x4->4,k\u00b2",
        "8x8x4->4,k1x1x1",
        "8x8x4->4,g2x2",
    ),
    *("8x8x4->99999999999999999999", "8x8x4->4" + ",k1" * 30_000 + ",z1"),
)
ARGUMENTS = (
    *(
        "",
        "a",
        "a=",
        "=1",
        "a=int8",
        "a=int8[",
        "a=int8[1 2]",
        "a=int8[-1]",
        "a=int8[1.5]",
        "a=int8[\u00b2]",
        "a=int7[4]",
    ),
    *(
        "a=int8[0]",
        "a=int8[4]:sideways",
        "a=int8[2147483647,2147483647]",
        "a=int64[999999999]",
        "a=x.npy",
        "1a=int8[4]",
    ),
    *("\u00e4=int8[4]", "a=int8[" + ",".join(["1"] * 100) + "]", "a=int8[" + "9" * 5000 + "]", "a=(" * 1000),
)
MODULE = "func.func @f(%a: i64) {\n  func.return\n}\n"


def numbers() -> Iterator[Case]:
    for base, (whole, real) in NUMBER_OPTIONS.items():
        for option in (*whole, *real):
            for value in (*NO_NUMBERS, *(EXTREME_WHOLE if option in whole else ())):
                if base.startswith(("validate", "simulate", "trace")) or not (
                    option == "--word" and value == "9007199254740993"
                ):
                    yield Case(
                        f"{base.split()[0]} {option}={value[:30]!r}", (*base.split(), f"{option}={value}")
                    )
        for option in (*whole, *real):
            yield (
                Case(f"{base} {option}=-1", (*base.split(), f"{option}=-1"))
                if option not in ("--scale", "--residual")
                else Case(f"{base} {option}=1e39", (*base.split(), f"{option}=1e39"))
            )


def texts() -> Iterator[Case]:
    for place in TEXT_PLACES:
        for text in (
            *NO_NAMES[:: 3 if place.startswith("bench") else 1],
            "",
            "x" * 100_000,
            "\udcff\udcfe",
            "%",
            "-",
            "../" * 2000,
        ):
            if text == "-" and place in ("compile TEXT", "opt TEXT -p canonicalize"):
                continue  # standard input
            words = tuple(word.replace("TEXT", text) for word in place.split())
            yield Case(f"{place} {text[:20]!r}", words)


def impossible() -> Iterator[Case]:
    for command in ("run", "compile"):
        for layer in LAYERS:
            yield Case(f"{command} --gemm {layer[:40]}", (command, "--gemm", layer))
        for layer in CONVOLUTIONS:
            yield Case(f"{command} --conv {layer[:40]}", (command, "--conv", layer))
        for argument in ARGUMENTS:
            yield Case(
                f"{command} --arg {argument[:40]}",
                (command, "{}/m.mlir", "--arg", argument),
                {"m.mlir": MODULE},
            )
        yield Case("huge network", (command, "--network", "llama2_7b"))
        yield Case("huge batch", (command, "--network", "resnet18:batch=30000000"))
    for header in (
        *(
            b"",
            b"\x93NUMPY",
            b"\x93NUMPY\x09\x00" + b"\0" * 100,
            b"PK\x03\x04" + b"\0" * 100,
            b"\x80\x04K\x01.",
        ),
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '|i1', 'fortran_order': False, 'shape': (9999999999999,)}".ljust(117)
        + b"\n",
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}".ljust(117)
        + b"\n12345678",
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '|i1', 'fortran_order': False, 'shape': (-1,)}".ljust(117)
        + b"\n1",
        b"\x93NUMPY\x01\x00\x76\x00" + b"__import__('os').system('true')".ljust(117) + b"\n",
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535,
    ):
        yield Case(
            f"array {header[:30]!r}",
            ("run", "{}/m.mlir", "--arg", "a={}/a.npy"),
            {"m.mlir": MODULE, "a.npy": header},
        )


def test_numbers(check_all: CheckAll) -> None:
    assert check_all(numbers()) >= 900


def test_texts(check_all: CheckAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_all(texts()) >= 1500


def test_impossible_layers_and_arrays(
    check_all: CheckAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a program goes that should not have been possible
    assert check_all(impossible()) >= 130
