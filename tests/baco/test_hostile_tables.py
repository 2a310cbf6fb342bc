"""Tables that are malformed or extreme: layers, mappings, measured sets, command logs; and files that are none."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from baco.main import run
from baco.workloads.inputs.tables import COLUMNS
from tests.baco.hostile import NO_NAMES, NO_WHOLE_NUMBERS, Case, CheckAll, check_message

ALL_COLUMNS = (*COLUMNS, "stride_h", "stride_w", "dilation_h", "dilation_w", "count")
LAYER = dict(
    zip(ALL_COLUMNS, ["net", "3", "3", "56", "28", "64", "128", "1", "2", "1", "1", "1", "4"], strict=True)
)
MAPPING = {
    "mapping.mapping": "L3[WIO] K48 - L2[WI] N1 K16X - L1[O] C48 P16 C16X - L0[W] P8",
    "arch.meshX": "16",
    "arch.mem1_entries": "4096",
    "arch.mem2_entries": "262144",
    "prob.R": "1",
    "prob.S": "1",
    "prob.P": "128",
    "prob.Q": "1",
    "prob.C": "768",
    "prob.K": "768",
    "prob.N": "1",
    "prob.Wstride": "1",
    "prob.Hstride": "1",
    "target.cycle": "1000",
    "target.energy": "1",
    "count": "1",
    "network": "a",
}
HEAD = "# baco command log 1, dim 16\nunit,id,funct,rs1,rs2,allocated,issued,done\n"
ENTRY = {
    "unit": "load",
    "id": "0",
    "funct": "2",
    "rs1": "0x0",
    "rs2": "0x0",
    "allocated": "1",
    "issued": "2",
    "done": "3",
}


def csv_of(row: dict[str, str], rows: int = 1) -> str:
    return ",".join(row) + "\n" + (",".join(row.values()) + "\n") * rows


def layers(name: str, text: bytes | str, file: str = "t.csv") -> Case:
    return Case(f"layers {name}", ("networks", "{}/" + file), {file: text})


def mappings(name: str, text: bytes | str, file: str = "m.csv") -> Case:
    return Case(f"mappings {name}", ("evaluate", "{}/" + file, "--out", "{}/out.csv", "--json"), {file: text})


def measured(name: str, text: bytes | str, file: str = "m.csv.gz") -> Case:
    return Case(f"measured {name}", ("model", "evaluate", "--set", "{}/" + file), {file: text})


def published(name: str, text: bytes | str) -> Case:
    return Case(f"published {name}", ("model", "evaluate", "--rows", "{}/p.csv"), {"p.csv": text})


def log(name: str, text: bytes | str, out: str = "c.html") -> Case:
    return Case(f"log {name}", ("trace", "{}/l.csv", "-o", "{}/" + out), {"l.csv": text})


def numbers() -> Iterator[Case]:
    extreme = (*NO_WHOLE_NUMBERS, "0", "-0", "0.5", "1e30", "'", " ", "\uff11", "1e309", "9007199254740993")
    for column in ALL_COLUMNS[1:]:
        for value in extreme:
            if value != "010":  # decimal in every table
                yield layers(f"{column}={value[:20]!r}", csv_of({**LAYER, column: value}))
    for column in [c for c in MAPPING if c.startswith(("arch", "prob"))]:
        for value in extreme:
            if value != "010":
                yield mappings(f"{column}={value[:20]!r}", csv_of({**MAPPING, column: value}))
    for column in ("target.cycle", "target.energy", "count"):
        for value in (
            "nan",
            "inf",
            "-inf",
            "-1",
            "0",
            "1e400",
            "1e-400",
            "1e300",
            "1e-300",
            "\u00b2",
            "true",
            "1_0",
            "x" * 100,
        ):
            yield mappings(f"{column}={value[:20]!r}", csv_of({**MAPPING, column: value}))
    for text in (
        *("", "L3", "x" * 100_000, "L3[WIO] " + "K2 " * 20_000, "L3[WIO] K\u00b2", "L3[WIO] K" + "9" * 30),
        *("L3[WIO] K48 - " * 5000, "\x1b[31m", "L3[WIO] K0 - L2[WI] N1 - L1[O] N1 - L0[W] P8"),
        MAPPING["mapping.mapping"].replace("K48", "K9999999999999999"),
        MAPPING["mapping.mapping"].replace("P8", "P99999999 R99999999 S9999999"),
    ):
        yield mappings(f"mapping {text[:20]!r}", csv_of({**MAPPING, "mapping.mapping": text}))
    for column in ("id", "funct", "rs1", "rs2", "allocated", "issued", "done"):
        for value in extreme:
            if value not in ("010", "0", " ", "9007199254740993"):
                yield log(
                    f"{column}={value[:20]!r}", HEAD + csv_of({**ENTRY, column: value}).split("\n")[1] + "\n"
                )
    for value in extreme:
        yield log(f"dim {value[:20]!r}", HEAD.replace("dim 16", f"dim {value}"))


def names() -> Iterator[Case]:
    for text in NO_NAMES:
        cell = '"' + text + '"'
        yield layers(f"network {text!r}", csv_of({**LAYER, "network": cell}))
        yield layers(f"name {text!r}", csv_of({**LAYER, "name": cell}))
        yield layers(f"column {text!r}", csv_of({**LAYER, cell: "1"}))
        yield layers(f"choice {text!r}", csv_of(LAYER))
        yield Case(f"chosen {text!r}", ("networks", "{}/t.csv:" + text), {"t.csv": csv_of(LAYER)})
        yield mappings(f"column {text!r}", csv_of({cell: "1"}))
        yield mappings(f"mapping {text!r}", csv_of({**MAPPING, "mapping.mapping": cell}))
        yield mappings(f"bound {text!r}", csv_of({**MAPPING, "prob.K": cell}))
        yield log(f"unit {text!r}", HEAD + f"{text},0,2,0x0,0x0,1,2,3\n")
        yield log(f"head {text!r}", text)
        yield measured(f"{text!r}", text)


def shapes() -> Iterator[Case]:
    """Rows of different length, wide, long, and no CSV at all; every kind of table."""
    for kind, row in ((layers, LAYER), (mappings, MAPPING)):
        good = csv_of(row)
        texts: dict[str, bytes | str] = {
            "empty": "",
            "lines": "\n" * 100_000,
            "commas": "," * 3_000_000,
            "columns": ",".join(f"c{i}" for i in range(300_000)),
            "same columns": ",".join(["R"] * 200_000),
            "long field": good + "x" * 200_000,
            "field of 131,073": "x" * 131_073,
            "long header": "x" * 20_000_000,
            "short row": good + "1,2\n",
            "long row": good + ",".join(["1"] * 500) + "\n",
            "quote": good + '"',
            "quotes": '"' * 1_000_001,
            "quoted lines": '"' + "\n" * 3_000_000,
            "many quoted": '"a\n",' * 400_000,
            "letters behind quotes": '"a"b\n',
            "carriage returns": "\r" * 1_000_000 + "x",
            "UTF-16": good.encode("utf-16"),
            "latin-1": good.replace("net", "n\xe9t").replace("a\n", "\xe9\n").encode("latin-1"),
            "zero bytes": good.encode() + b"\0",
            "random": bytes(range(256)) * 100,
            "header only": good.split("\n")[0],
            "no header": "\n".join(good.split("\n")[1:]),
            "header twice": good.split("\n")[0] + "\n" + good,
            "semicolons": good.replace(",", ";"),
            "tabs": good.replace(",", "\t"),
            "line separators": good.replace("\n", "\u2028"),
            "BOM inside": good + "\ufeff" + good,
            "surrogates": good + "\udcff\n",
        }
        for name, text in texts.items():
            yield kind(name, text)
    for name, data in {
        "not packed": b"a,b\n",
        "cut off": gzip.compress(csv_of(MAPPING).encode())[:-5],
        "bomb": gzip.compress(gzip.compress(b"\0" * (1 << 20))) and gzip.compress(b"x" * (200 << 20), 1),
        "zeros": gzip.compress(b"\0" * 1000),
        "twice packed": gzip.compress(gzip.compress(csv_of(MAPPING).encode())),
        "empty": b"",
        "empty member": gzip.compress(b""),
        "rubbish behind": gzip.compress(csv_of(MAPPING).encode()) + b"rubbish",
    }.items():
        yield mappings(f"gzip {name}", data, "m.csv.gz")
        yield measured(f"gzip {name}", data)
    yield published("empty", "")
    yield published("columns", "a,b\n1,2\n")
    many = "".join(f"load,{i % 64},2,0x0,0x0,{i},{i + 1},{i + 30_000}\n" for i in range(19_000))
    yield log("19,000 at once", HEAD + many)
    yield log("19,000 in a picture", HEAD + many, "c.png")
    yield log("many", HEAD + "load,0,2,0x0,0x0,1,2,3\n" * 30_000)
    yield log("unknown kind", HEAD + "load,0,2,0x0,0x0,1,2,3\n", "c.xyz")
    yield log("no kind", HEAD + "load,0,2,0x0,0x0,1,2,3\n", "c")
    yield log("long line", HEAD + "load," + "0" * 2_000_000)
    yield log("no end", HEAD + "load,0,2,0x0,0x0,1,2")
    yield log("backwards", HEAD + "load,0,2,0x0,0x0,9,2,3\n")


def test_numbers(check_all: CheckAll) -> None:
    assert check_all(numbers()) >= 700


def test_names(check_all: CheckAll) -> None:
    assert check_all(case for case in names() if not case.name.startswith("layers choice")) >= 190


def test_shapes(check_all: CheckAll) -> None:
    assert check_all(shapes()) >= 70


#: Commands, and the place of the file among their arguments.
READERS = (
    ("networks", "FILE.csv"),
    ("networks", "FILE.yaml"),
    ("networks", "FILE.onnx"),
    ("networks", "FILE.py:f"),
    ("evaluate", "FILE.csv", "--out", "OUT"),
    ("evaluate", "FILE.csv.gz", "--out", "OUT"),
    ("rtl", "FILE.yaml", "-o", "OUT"),
    ("explore", "-n", "resnet18", "--space", "FILE.yaml", "--out", "OUT"),
    ("simulate", "FILE.elf", "-e", "functional"),
    ("simulate", "--stream", "FILE", "-e", "functional"),
    ("trace", "FILE.csv", "-o", "OUT.html"),
    ("model", "evaluate", "--set", "FILE.csv.gz"),
    ("model", "evaluate", "--rows", "FILE.csv"),
    ("model", "evaluate", "--set", "micro", "--weights", "FILE.zip"),
    ("cosim", "-a", "gemmini-default", "--stream", "FILE"),
    ("compile", "FILE.mlir"),
    ("compile", "FILE.py:kernel"),
    ("opt", "FILE.mlir", "-p", "canonicalize"),
    ("run", "FILE.mlir", "--arg", "a=FILE.npy"),
)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        # each command with three of these every time
        pytest.param(
            command, kind, id=f"{kind}-{' '.join(command)}", marks=[pytest.mark.slow] * ((i + j) % 3 > 0)
        )
        for i, command in enumerate(READERS)
        for j, kind in enumerate(
            ("missing", "folder", "pipe", "device", "loop", "too long", "empty", "zeros")
        )
    ],
)
def test_files_that_are_none(
    command: tuple[str, ...], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stem = tmp_path / ("x" * 300 if kind == "too long" else "f")
    for suffix in {word.removeprefix("FILE").split(":")[0] for word in command if word.startswith("FILE")} | {
        ".npy"
    }:
        path = Path(f"{stem}{suffix}")
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "loop":
            path.symlink_to(path)
        elif kind in ("empty", "zeros"):
            path.write_bytes(b"" if kind == "empty" else b"\0" * 1000)
    words = [word.replace("FILE", str(stem)).replace("OUT", str(tmp_path / "out")) for word in command]
    if kind == "empty" and ("--stream" in command or command[0] == "opt"):
        pytest.skip("nothing is a stream of no commands, and a module without operations")
    capsys.readouterr()
    code = run("baco", words)
    out, err = capsys.readouterr()
    check_message(code, out, err)
