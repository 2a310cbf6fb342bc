"""Malformed inputs, each with the command line that meets it and a word its message must hold. Tables of layers are
`tests/baco/test_hostile_tables.py`'s and `tests/workloads/inputs/test_tables.py`'s.

A case's files are written into an empty folder that is the current one; `{out}` in the arguments is a
folder for results. No case may reach a search.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

EXPLORE = ("explore", "--out", "{out}")
SPACE = """\
name: mine
rules: gemmini
base: gemmini-default
fixed: {clock_mhz: 500}
dim: {min: 4, max: 32, powers_of: 2}
scratchpad_kib: {min: 16, max: 512, powers_of: 2}
accumulator_kib: [8, 16, 32]
dataflows: [WS, OS]
double_buffer: true
constraints: {area_mm2: 4.0, power_mw: 900}
networks: [{network: resnet18, weight: 2.0}]
"""
MAPPINGS = """\
target.cycle,target.energy,mapping.mapping,arch.pe,arch.meshX,arch.mem1_entries,arch.mem2_entries,prob.R,prob.S,\
prob.P,prob.Q,prob.C,prob.K,prob.N,prob.Wstride,prob.Hstride,prob.Wdilation,prob.Hdilation
100,1.0,L3[WIO] P4 - L2[WI] N1 K8X - L1[O] N1 C8X - L0[W] P4,256,16,1024,65536,1,1,16,1,8,8,1,1,1,1,1
"""


@dataclass(frozen=True)
class Case:
    """One malformed input."""

    name: str
    arguments: tuple[str, ...]
    words: str
    files: dict[str, bytes] = field(default_factory=dict)


def cases() -> list[Case]:
    """All of them."""
    found = [
        *_options(),
        *_spaces(),
        *_impossible(),
        *_onnx_files(),
        *_python_files(),
        *_outputs(),
        *_mapping_files(),
    ]
    names = [case.name for case in found]
    assert len(set(names)) == len(names), "two cases have one name"
    return found


#: Command lines, and words of the message.
_LINES: list[tuple[str, str]] = [
    ("explor", "no such command"),
    ("--verbose", "no such option"),
    ("explore", "no network is given"),
    ("explore extra", "unexpected extra argument"),
    ("explore --networks resnet50", "no such option"),
    ("explore --network resnet50 --network resnet50", "given twice"),
    ("explore --network resnet50 --samples x", "--samples"),
    ("explore --network resnet50 --samples 1.5", "--samples"),
    ("explore --network resnet50 --samples 0", "at least 1"),
    ("explore --network resnet50 --samples -3", "at least 1"),
    ("explore --network resnet50 --time-limit x", "--time-limit"),
    ("explore --network resnet50 --time-limit 0", "--time-limit"),
    ("explore --network resnet50 --time-limit -1", "--time-limit"),
    ("explore --network resnet50 --time-limit nan", "--time-limit"),
    ("explore --network resnet50 --time-limit inf", "--time-limit"),
    ("explore --network resnet50 --seed x", "--seed"),
    ("explore --network resnet50 --search gradiant", "did you mean 'gradient'"),
    ("explore --network resnet50 --search GRADIENT", "did you mean 'gradient'"),
    ("explore --network resnet50 --objective edpp", "did you mean 'edp'"),
    ("explore --network resnet50 --objective EDP", "did you mean 'edp'"),
    ("explore --network resnet50 --objective edp,edp", "twice"),
    ("explore --network resnet50 --objective ,", "empty"),
    ("explore --network resnet50 --objective latency,power", "unknown objective 'power'"),
    ("explore --network resnet50 --space gemini", "did you mean 'gemmini'"),
    ("explore --network resnet50 --space nowhere.yaml", "no such file"),
    ("explore --network resnet50 --space .", "folder"),
    ("explore --network resnet50 --space /dev/zero", "not a regular file"),
    ("explore --network resnet50 --constraint area=3", "did you mean 'area_mm2'"),
    ("explore --network resnet50 --constraint area_mm2", "NAME=NUMBER"),
    ("explore --network resnet50 --constraint area_mm2=big", "NAME=NUMBER"),
    ("explore --network resnet50 --constraint area_mm2=nan", "positive number"),
    ("explore --network resnet50 --constraint area_mm2=-1", "positive number"),
    ("explore --network resnet50 --constraint networks=1", "unknown constraint"),
    ("explore --network resnet50 --area-limit 0", "positive number"),
    ("explore --network resnet50 --area-limit x", "--area-limit"),
    ("explore --network resnet5", "did you mean 'resnet50'"),
    ("explore --network ResNet50", "did you mean 'resnet50'"),
    ("explore --network resnet50:", "resnet50"),
    ("explore --network resnet50:bacth=2", "did you mean 'batch'"),
    ("explore --network resnet50:batch", "batch"),
    ("explore --network resnet50:batch=0", "batch"),
    ("explore --network resnet50:batch=x", "batch"),
    ("explore --network resnet50:batch=-1", "batch"),
    ("explore --network resnet50:batch=1,batch=2", "batch"),
    ("explore --network resnet50:batch=99999999999999999999", "batch"),
    ("explore --network resnet50:image=0", "image"),
    ("explore --network llama2_7b:phase=encode", "did you mean 'decode'"),
    ("explore --network missing.onnx", "no such file"),
    ("explore --network missing.csv", "no such file"),
    ("explore --network missing.yaml", "no such file"),
    ("explore --network missing.py:f", "missing.py"),
    ("explore --network model.pt", "not a kind of file"),
    ("explore --network .", "folder"),
    ("explore --network /", "folder"),
    ("networks resnet5", "did you mean 'resnet50'"),
    ("networks resnet50 vgg16", "unknown network 'vgg16'"),
    ("networks --jsn", "no such option"),
    ("report", "missing argument"),
    ("report nowhere", "no study here"),
    ("report .", "no study here"),
    ("report a b", "unexpected extra argument"),
    ("evaluate", "missing argument"),
    ("bench nothing", "no such command"),
    ("bench model --seconds 0", "--seconds"),
    ("bench model --seconds x", "--seconds"),
    ("bench search --samples 0", "--samples"),
    ("bench search --seeds -1", "--seeds"),
    ("doctor --folders x", "no such option"),
]


def _options() -> Iterator[Case]:
    for line, words in _LINES:
        program, *rest = line.split(" ")
        out = ["--out", "{out}"] if program == "explore" and "--out" not in rest else []
        yield Case(f"option: {line}", (program, *rest, *out), words)
    yield Case("option without its value", (*EXPLORE, "--network"), "requires an argument")
    for name in ("", " ", "résnet", "x" * 5000, "a\nb", "../../etc/passwd", "-", "*", "resnet50 "):
        yield Case(f"network name {name[:20]!r}", (*EXPLORE, f"--network={name}"), "network")
    for name in ("", "résnet", "x" * 5000, "gemmini ", "a\nb"):
        yield Case(
            f"space name {name[:20]!r}", (*EXPLORE, "--network", "resnet50", f"--space={name}"), "error"
        )


def _space(name: str, text: str | bytes, words: str) -> Case:
    data = text if isinstance(text, bytes) else text.encode()
    return Case(f"space: {name}", (*EXPLORE, "--space", "s.yaml"), words, {"s.yaml": data})


def _spaces() -> Iterator[Case]:
    lines = SPACE.splitlines()
    keys = [line.split(":")[0] for line in lines]
    good = dict(line.split(": ", 1) for line in lines)
    wrong = {
        "name": ["", "[a]", "3", "true", "{}"],
        "rules": ["", "gemini", "3", "[gemmini]"],
        "base": ["", "gemini", "3", "nowhere.yaml", "[a]"],
        "fixed": ["3", "[1]", "{dim: 4}", "{clock: 1}", "{clock_mhz: -1}", "{clock_mhz: fast}", "{tile_rows: 3}"],
        "dim": ["", "4", "[]", "[1]", "[4, 129]", "[4, 4.5]", "[4, x]", "[true]", "{min: 4}", "{min: 8, max: 4}",
                "{min: 4, max: 8, stepp: 2}", "[12]", "{min: 5, max: 7, powers_of: 2}", "[.nan]", "['4']"],
        "scratchpad_kib": ["", "x", "[0]", "[-4]", "[3]", "[1.5]", "{min: 1, max: 99999999}", "[.inf]", "[[4]]",
                           "{min: 17, max: 31}", "{min: 4, max: 8, step: 0}", "{min: 4, max: 8, powers_of: 1}"],
        "accumulator_kib": ["", "x", "[0]", "[7]", "[1e3]", "{max: 3}", "{}", "[65537]"],
        "dataflows": ["", "WS", "[]", "[ws]", "[WS, IS]", "[WS, OS, WS]", "{WS: 1}"],
        "double_buffer": ["", "yes", "1", "'true'", "[true]"],
        "constraints": ["", "3", "{area_mm2: 0}", "{area_mm2: -1}", "{area_mm2: .nan}", "{area_mm2: .inf}",
                        "{area_mm2: big}", "{area: 3}", "{networks: 3}", "{networks: {a: 3}}",
                        "{networks: {resnet18: {power_mw: 3}}}", "{networks: {resnet81: {energy_uj: 3}}}"],
        "networks": ["", "resnet18", "[resnet18]", "[{weight: 1}]", "[{network: resnet81}]", "[{network: ''}]",
                     "[{network: resnet18, weight: 0}]", "[{network: resnet18, weight: -1}]",
                     "[{network: resnet18, wieght: 1}]", "[{network: resnet18}, {network: resnet18}]"],
    }  # fmt: skip
    assert set(wrong) == set(keys)
    for key, values in wrong.items():
        for value in values:
            text = SPACE.replace(f"{key}: {good[key]}\n", f"{key}: {value}\n")
            yield _space(
                f"{key}: {value}", text, "s.yaml:" if "{network: resnet18}, " not in value else "twice"
            )
    for key in keys:
        yield _space(
            f"{key} misspelt", SPACE.replace(f"{key}:", f"{key[0]}{key[2:]}:", 1), f"did you mean '{key}'"
        )
        yield _space(f"{key} twice", SPACE + f"{key}: {good[key]}\n", f"the key '{key}' is given twice")
        yield _space(f"{key} as a list", SPACE.replace(f"{key}:", f"- {key}:", 1), "s.yaml:")
    for key in ("dim", "scratchpad_kib", "accumulator_kib"):
        yield _space(f"{key} missing", SPACE.replace(f"{key}: {good[key]}\n", ""), f"missing key '{key}'")
    for i, character in enumerate(SPACE):
        if character in "{[" and SPACE[i + 1] not in "}]":
            yield _space(f"cut inside {SPACE[i - 12 : i + 1]!r}", SPACE[: i + 3], "s.yaml:")
    yield from (
        _space("empty", "", "the file is empty"),
        _space("blank", "\n\n# nothing\n", "the file is empty"),
        _space("a word", "gemmini\n", "must be a mapping"),
        _space("a list", "- dim\n- 4\n", "must be a mapping"),
        _space("tab", SPACE.replace("name:", "\tname:"), "s.yaml:1"),
        _space("tag", SPACE + "x: !!python/object/apply:os.system [ls]\n", "tag"),
        _space("unknown anchor", SPACE + "x: *y\n", "refers to nothing"),
        _space("anchor in itself", SPACE + "x: &y [*y]\n", "refers to nothing"),
        _space("merge", SPACE + "<<: {dim: [4]}\n", "merge"),
        _space("two documents", SPACE + "---\n" + SPACE, "more than one document"),
        _space("deep", "dim: " + "[" * 100_000, "deep"),
        _space("bomb", _bomb(), "aliases expanded"),
        _space("long number", SPACE.replace("500", "9" * 5000), "digits"),
        _space("binary", b"\x7fELF\x02\x01\x01\x00\x00", "binary"),
        _space("UTF-16", SPACE.encode("utf-16"), "binary"),
        _space(
            "Latin-1", SPACE.replace("mine", "mïne").encode("latin-1"), "s.yaml:1:8: byte 0xef is not UTF-8"
        ),
        _space("control character", SPACE.replace("mine", "m\x07ne"), "control"),
        _space("unclosed quote", SPACE.replace("mine", "'mine"), "s.yaml:"),
        _space("JSON cut", '{"dim": [4], "scratchpad_kib": [16', "s.yaml:"),
    )


def _bomb() -> str:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 20)]
    return "\n".join(lines)


def _impossible() -> Iterator[Case]:
    # with bounds on mappings besides, it takes a search to say what is feasible together
    alone = SPACE.replace(", power_mw: 900", "")
    assert alone != SPACE
    for bound, value in (("area_mm2", "0.001"), ("sram_kib", "3"), ("area_mm2", "1e-9")):
        yield Case(
            f"impossible: --constraint {bound}={value}",
            (*EXPLORE, "--network", "resnet50", "--constraint", f"{bound}={value}"),
            f"{bound} may be",
        )
        yield Case(
            f"impossible: {bound}={value} in the reference space",
            (*EXPLORE, "--network", "resnet50", "--space", "reference", "--constraint",
             f"{bound}={'1' if bound == 'sram_kib' else value}"),
            "nearest feasible value",
        )  # fmt: skip
        text = alone.replace("area_mm2: 4.0", f"{bound}: {value}")
        yield _space(
            f"impossible {bound}: {value}", text, f"s.yaml:10:{15 + len(bound) + 2 - 0} (constraints.{bound})"
        )
    yield Case(
        "impossible: --area-limit",
        (*EXPLORE, "--network", "resnet50", "--area-limit", "0.02"),
        "nearest feasible value",
    )
    both = alone.replace("area_mm2: 4.0", "area_mm2: 0.001, sram_kib: 2")
    yield _space("impossible area and SRAM", both, "and sram_kib may be")
    bank = SPACE.replace("max: 32, powers", "max: 128, powers").replace("min: 4,", "min: 128,")
    yield _space("impossible banks", bank, "nearest feasible value: 128")


def _conv_model(
    *, channels: int = 8, weight: tuple[int, ...] = (16, 8, 3, 3), op: str = "Conv"
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node(op, ["x", "w"], ["y"], name="first", kernel_shape=[3, 3])
            if op == "Conv"
            else helper.make_node(op, ["x", "w"], ["y"], name="first"),
            helper.make_node("Relu", ["y"], ["z"], name="relu"),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 16, 16])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, weight, np.zeros(int(np.prod(weight))).tolist())],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _onnx(name: str, data: bytes, words: str = "m.onnx") -> Case:
    return Case(f"ONNX: {name}", (*EXPLORE, "--network", "m.onnx"), words, {"m.onnx": data})


def _onnx_files() -> Iterator[Case]:
    whole = _conv_model().SerializeToString()
    for position in sorted({*range(0, len(whole) - 400, len(whole) // 25), 1, 2, 3, 5, 10, 20}):
        yield _onnx(f"cut at byte {position}", whole[:position])
    yield from (
        _onnx("text", b"this is not a model\n"),
        _onnx("gzip", gzip.compress(whole)),
        _onnx("zeros", b"\0" * 1000),
        _onnx("YAML", SPACE.encode()),
        Case(  # refused where the search would begin
            "ONNX: without tensor operators",
            ("explore", "--network", "m.onnx", "--out", "{out}"),
            "no operator that the accelerator could run",
            {"m.onnx": _without_conv().SerializeToString()},
        ),
        _onnx("channels of input and weight differ", _conv_model(channels=5).SerializeToString(), "first"),
        _onnx("weight of rank 3", _conv_model(weight=(16, 8, 9)).SerializeToString(), "first"),
        _onnx(
            "product of shapes that do not fit",
            _conv_model(weight=(3, 5), op="MatMul").SerializeToString(),
            "first",
        ),
        _onnx("an input that nothing makes", _dangling().SerializeToString()),
        _onnx("a symbolic extent", _symbolic().SerializeToString(), "length"),
    )
    for option in ("batch=0", "batch=x", "bacth=1", "dim.=3", "dim.nothing=3", "batch"):
        yield Case(
            f"ONNX option {option}", (*EXPLORE, "--network", f"m.onnx:{option}"), "", {"m.onnx": whole}
        )


def _without_conv() -> onnx.ModelProto:
    model = _conv_model()
    del model.graph.node[0]
    model.graph.node[0].input[0] = "x"
    return model


def _dangling() -> onnx.ModelProto:
    model = _conv_model()
    model.graph.node[0].input[0] = "nowhere"
    return model


def _symbolic() -> onnx.ModelProto:
    model = _conv_model()
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "length"
    return model


def _python_files() -> Iterator[Case]:
    model = "import torch\ndef make():\n    return torch.nn.Linear(4, 8), (torch.zeros(2, 4),)\n"
    rows = [
        ("no function named", "m.py", model, "m.py"),
        ("unknown function", "m.py:mkae", model, "make"),
        ("syntax error", "m.py:make", "def make(:\n", "m.py:1"),
        ("error when loaded", "m.py:make", "\nraise RuntimeError('boom')\n", "boom"),
        ("error in the function", "m.py:make", "def make():\n    return 1 / 0\n", "m.py:2"),
        ("returns no model", "m.py:make", "def make():\n    return 3\n", "m.py"),
        ("not a function", "m.py:make", "make = 3\n", "make"),
        ("input of the wrong shape", "m.py:make", model.replace("zeros(2, 4)", "zeros(2, 5)"), "m.py"),
        ("missing import", "m.py:make", "import no_such_module_here\n", "no_such_module_here"),
        ("exits", "m.py:make", "raise SystemExit(0)\n", "m.py"),
    ]
    for name, spec, text, words in rows:
        yield Case(f"Python: {name}", (*EXPLORE, "--network", spec), words, {"m.py": text.encode()})


def _outputs() -> Iterator[Case]:
    for out in ("file", "file/below", "/proc/nowhere", "/dev/null", "x" * 300, "/dev/null/x"):
        arguments = ("explore", "--network", "deepbench_ocr", "--samples", "1", "--out", out)
        yield Case(
            f"output {out[:20]}",
            arguments,
            "cannot be" if out not in ("file", "/dev/null") else "file",
            {"file": b""},
        )
    resume = ("explore", "--network", "deepbench_ocr", "--out", "old", "--resume")
    for name, data in (
        ("empty", b""),
        ("text", b"hello\n" * 200),
        ("zeros", b"\0" * 8192),
        ("cut", b"SQLite format 3\0"),
    ):
        yield Case(f"damaged study: {name}", resume, "old", {"old/study.sqlite": data})
        yield Case(f"report of a damaged study: {name}", ("report", "old"), "old", {"old/study.sqlite": data})
    yield Case("a study in the way", resume[:-1], "--resume", {"old/study.sqlite": b"hello"})


def _mappings(name: str, text: str | bytes, words: str = "m.csv") -> Case:
    data = text if isinstance(text, bytes) else text.encode()
    return Case(f"mappings: {name}", ("evaluate", "m.csv", "--out", "{out}.csv"), words, {"m.csv": data})


def _mapping_files() -> Iterator[Case]:
    header, row = MAPPINGS.splitlines()
    yield _mappings("empty", "")
    yield _mappings("binary", b"\x00\x01")
    yield _mappings("not UTF-8", b"\xe9\n")
    for column in ("mapping.mapping", "prob.P", "prob.Wstride", "arch.meshX", "arch.mem1_entries"):
        yield _mappings(f"without {column}", MAPPINGS.replace(column, "other"), column)
    for old, new in (
        ("L2[WI]", "L5[WI]"),
        ("L3[WIO]", "L3"),
        ("K8X", "K8Y"),
        ("K8X", "Z8X"),
        ("P4 -", "P0 -"),
        ("P4 -", "P-4 -"),
        ("P4 -", "P3 -"),
        (" - L0[W] P4", ""),
        (",16,1,8,8,1,", ",x,1,8,8,1,"),
        (",16,1,8,8,1,", ",0,1,8,8,1,"),
        (",16,1,8,8,1,", ",,1,8,8,1,"),
        (",16,1,8,8,1,", ",1.5,1,8,8,1,"),
        (",256,16,", ",256,nan,"),
        (",256,16,", ",256,-16,"),
    ):
        assert old in row
        yield _mappings(f"{old} -> {new}", f"{header}\n{row}\n{row.replace(old, new, 1)}\n", "m.csv:3")
    yield _mappings("short row", f"{header}\n{row[:-6]}\n", "m.csv:2")
    yield Case("mappings: missing", ("evaluate", "none.csv", "--out", "{out}.csv"), "no such file")
    yield Case("mappings: folder", ("evaluate", ".", "--out", "{out}.csv"), "folder")
    yield Case("mappings: gzip cut", ("evaluate", "m.csv.gz", "--out", "{out}.csv"), "m.csv.gz",
               {"m.csv.gz": gzip.compress(MAPPINGS.encode())[:-20]})  # fmt: skip
    yield Case("mappings: no gzip", ("evaluate", "m.csv.gz", "--out", "{out}.csv"), "m.csv.gz",
               {"m.csv.gz": MAPPINGS.encode()})  # fmt: skip
    yield Case("mappings: output", ("evaluate", "m.csv", "--out", "/proc/x/y.csv"), "cannot be",
               {"m.csv": MAPPINGS.encode()})  # fmt: skip
