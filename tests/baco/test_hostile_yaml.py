"""YAML files that are malformed or extreme: accelerators, design spaces, layer tables."""

from collections.abc import Iterator

import pytest

from baco.accel.config import Accelerator
from tests.baco.hostile import NO_NAMES, NO_WHOLE_NUMBERS, Case, CheckAll, product, quoted

SIZES = {"dim": "4", "scratchpad_kib": "16", "accumulator_kib": "8"}
SPACE = {"dim": "[4]", "scratchpad_kib": "[16]", "accumulator_kib": "[8]"}
WHOLE = [name for name, info in Accelerator.model_fields.items() if info.annotation is int]
REAL = [name for name, info in Accelerator.model_fields.items() if info.annotation is float]
#: What a number with a fraction may be, and a whole number not.
FRACTIONS = ("1.5",)


def accelerator(name: str, text: str) -> Case:
    return Case(f"accelerator {name}", ("rtl", "{}/a.yaml", "-o", "{}/a.v"), {"a.yaml": text})


def space(name: str, text: str) -> Case:
    arguments = (
        "explore",
        "-n",
        "deepbench_ocr",
        "--space",
        "{}/s.yaml",
        "--samples",
        "10",
        "--out",
        "{}/out",
        "-q",
    )
    return Case(f"space {name}", arguments, {"s.yaml": text})


def table(name: str, text: str) -> Case:
    return Case(f"table {name}", ("networks", "{}/t.yaml"), {"t.yaml": text})


def with_field(known: dict[str, str], field: str, value: str) -> str:
    return "".join(f"{key}: {text}\n" for key, text in {**known, field: value}.items())


def numbers() -> Iterator[Case]:
    wrong = NO_WHOLE_NUMBERS
    for name, text in product(lines=lambda f, v: with_field(SIZES, f, v), fields=WHOLE, values=wrong):
        yield accelerator(name, text)
    wrong = tuple(value for value in wrong if value not in FRACTIONS)
    for name, text in product(lines=lambda f, v: with_field(SIZES, f, v), fields=REAL, values=wrong):
        yield accelerator(name, text)
    for name, text in product(
        lines=lambda f, v: with_field(SPACE, f, f"[{v}]"),
        fields=SPACE,
        values=[value for value in NO_WHOLE_NUMBERS if value],
    ):
        yield space(name, text)
    keys = {"R": "1", "S": "1", "P": "2", "Q": "2", "C": "3", "K": "4"}
    for key in (*keys, "N", "stride", "count", "groups"):
        for value in NO_WHOLE_NUMBERS:
            line = ", ".join(f"{k}: {v}" for k, v in {"type": "conv", **keys, key: value}.items())
            yield table(f"{key}={value[:20]!r}", f"layers:\n  - {{{line}}}\n")


def names() -> Iterator[Case]:
    layer = "{type: gemm, M: 1, K: 2, N: 3, name: %s}"
    for text in NO_NAMES:
        yield accelerator(f"name {text!r}", with_field(SIZES, "name", quoted(text)))
        yield accelerator(f"key {text!r}", with_field(SIZES, quoted(text), "1"))
        yield accelerator(f"value {text!r}", with_field(SIZES, "dataflow", quoted(text)))
        yield accelerator(f"raw {text!r}", with_field(SIZES, "dataflow", text))
        yield space(f"name {text!r}", with_field(SPACE, "name", quoted(text)))
        yield space(f"network {text!r}", with_field(SPACE, "networks", f"[{{network: {quoted(text)}}}]"))
        yield space(f"base {text!r}", with_field(SPACE, "base", quoted(text)))
        yield table(f"name {text!r}", f"name: {quoted(text)}\nlayers:\n  - {layer % 'a'}\n")
        yield table(f"layer {text!r}", f"layers:\n  - {layer % quoted(text)}\n")
        yield table(f"type {text!r}", f"layers:\n  - {{type: {quoted(text)}}}\n")


def documents() -> Iterator[Case]:
    """Documents as such: sizes, nesting, aliases, errors by the thousand."""
    yield accelerator("empty", "")
    yield accelerator("binary", b"\x7fELF\0\0".decode("latin-1"))
    many = 20_000
    texts = {
        "unknown keys": "".join(f"k{i}: 1\n" for i in range(many)),
        "unknown features": "features: {" + ", ".join(f"k{i}: 1" for i in range(many)) + "}\n",
        "all wrong": "dim: [" + ", ".join(["x"] * many) + "]\n",
        "mappings": "dim: [" + ", ".join(["{a: 1}"] * many) + "]\n",
        "bounds of networks": "constraints: {networks: {"
        + ", ".join(f"n{i}: {{x: 1}}" for i in range(many // 2))
        + "}}\n",
        "too many values": "dim: [" + "1," * 300_000 + "]\n",
        "deep lists": "dim: " + "[" * 100_000,
        "deep mappings": "{a: " * 100_000,
        "deep sequences": "- " * 100_000,
        "questions": "? " * 100_000,
        "long scalar": "name: " + "x" * 3_000_000 + "\n",
        "long key": "? " + "x" * 3_000_000 + "\n: 1\n",
        "long number": "dim: " + "1" * 3_000_000 + "\n",
        "long real": "dim: 1." + "1" * 3_000_000 + "\n",
        "long tag": "dim: !" + "b" * 3_000_000 + " 1\n",
        "long alias": "dim: *" + "b" * 3_000_000 + "\n",
        "large file": "#" * (17 << 20),
        "aliases of text": "a: &x " + "y" * 1_000_000 + "\nb: [" + ", ".join(["*x"] * many) + "]\n",
        "aliases of aliases": "a0: &a0 [x, x]\n"
        + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60)),
        "directives": "".join(f"%TAG !{i}! x\n" for i in range(50_000)) + "---\ndim: 4\n",
        "documents": "---\ndim: 4\n" * 50_000,
        "anchors": "".join(f"k{i}: &a{i} 1\n" for i in range(many)),
        "open quotes": 'name: "' + "x\n" * 100_000,
        "colons": ": " * 100_000,
        "brackets": "[]" * 100_000,
        "tabs": "\t" * 100_000,
        "the same key": "dim: 4\n" * many,
        "a list": "- 1\n" * many,
        "merge": "<<: {dim: 4}\n",
        "tag": "!!python/object/apply:os.system [ls]\n",
        "half an escape": 'name: "\\u12"\n',
        "surrogate": 'name: "\\ud800"\n',
        "far character": 'name: "\\U0011ffff"\n',
    }
    for name, text in texts.items():
        yield accelerator(name, text)
        yield space(name, text)
        yield table(name, text)


@pytest.mark.parametrize(("cases", "least"), [(numbers, 700), (names, 190), (documents, 90)])
def test_one_message_each(cases: object, least: int, check_all: CheckAll) -> None:
    assert callable(cases)
    assert check_all(cases()) >= least
