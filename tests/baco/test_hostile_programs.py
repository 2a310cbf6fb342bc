"""Programs, command streams and models that are malformed or extreme."""

import random
import struct
from collections.abc import Iterator

from onnx import TensorProto, helper

from tests.baco.hostile import NO_NAMES, Case, CheckAll
from tests.sim.elf_builder import BASE, GOOD, elf_bytes

FENCES = "fence\n" * 10


def elf(name: str, data: bytes, *options: str) -> Case:
    return Case(f"elf {name}", ("simulate", "{}/p.elf", "-e", "functional", "-q", *options), {"p.elf": data})


def patched(offset: int, form: str, *values: int) -> bytes:
    data = bytearray(elf_bytes(GOOD))
    struct.pack_into(form, data, offset, *values)
    return bytes(data)


def programs() -> Iterator[Case]:
    good = elf_bytes(GOOD)
    for size in range(0, len(good) - 64, 23):
        yield elf(f"cut at {size}", good[:size])
    for address in (0, 1, BASE - 8, BASE + (512 << 20) - 4, 2**63, 2**64 - 8):
        yield elf(f"segment at {address:#x}", elf_bytes([(address, b"12345678", 8)], entry=address))
    for entry in (0, BASE + 1, BASE + 64, 2**64 - 2):
        yield elf(f"entry {entry:#x}", elf_bytes(GOOD, entry=entry))
    for size in (2**40, 2**63, 2**64 - 1):
        yield elf(f"size in memory {size}", elf_bytes([(BASE, b"1234", size)]))
        yield elf(f"size in file {size}", patched(64 + 32, "<Q", size))
        yield elf(f"headers at {size}", patched(32, "<Q", size))
        yield elf(f"sections at {size}", patched(40, "<Q", size))
    for count in (0, 2000, 65535):
        yield elf(f"{count} headers", patched(56, "<H", count))
    for size in (0, 1, 65535):
        yield elf(f"headers of {size} bytes", patched(54, "<H", size))
    yield elf("many segments", elf_bytes([(BASE + 8 * i, b"\x13\0\0\0", 4) for i in range(3000)]))
    yield elf("overlapping", elf_bytes([(BASE, b"\x13\0\0\0" * 8, 64)] * 500))
    yield elf("many symbols", elf_bytes(GOOD, symbols={f"s{i}": BASE for i in range(210_000)}))
    for text in NO_NAMES:
        yield elf(f"symbol {text!r}", elf_bytes(GOOD, symbols={"main": BASE}), "--dump", f"{text}=x")
    for option in ("--load", "--dump"):
        for where in (
            *(
                "=x",
                "x",
                "x=",
                "0x80000000",
                "0x80000000=",
                "0x80000000:=x",
                "0x80000000:\u00b2=x",
                "0x=x",
                "-1=x",
                "1e3:1=x",
            ),
            *(
                "0x" + "f" * 40 + ":1=x",
                "0x80000000:" + "9" * 5000 + "=x",
                "0x80000000:-1=x",
                "0x7fffffff:8=x",
                "\u0663:1=x",
            ),
        ):
            yield elf(f"{option} {where[:20]}", good, option, where)


#: Lines of streams that are none, everywhere and in those that are simulated.
_LINES = [
    *(
        "cmd",
        "cmd 2",
        "cmd 2 0",
        "cmd 2 0 0 2",
        "cmd 2 0 0 0 0",
        "cmd 80 0 0",
        "cmd -1 0 0",
        "cmd 2 0x0 0",
        "cmd \u00b2 0 0",
        "cmd 2 1_0 0",
    ),
    *(
        "cmd 2 10000000000000000 0",
        "cmd 2 " + "f" * 100_000 + " 0",
        "fence 1",
        "fences",
        "FENCE",
        "stream",
        "x" * 100_000,
    ),
    *("nonsense\x1b[31m", "\x00", "\ufeffcmd", "cmd\u20282 0 0", "cmd\x0b2\x0b0 0"),
    *(
        "stream a latency",
        "stream a latency=",
        "stream a latency=-1",
        "stream a latency=\u00b2",
        "stream a bandwidth=nan",
    ),
    *(
        "stream a bandwidth=1e400",
        "stream a bandwidth=0",
        "stream a colour=3",
        "stream a seed=1 seed=2",
        "stream a\nstream b",
    ),
    *(
        "stream a/../b",
        "stream \x1b[31m",
        "stream a gap=100",
        "stream a stall=100",
        "stream a burst=99999",
        "stream a =",
        "stream a seed=1e3",
    ),
]
_OF_SIMULATE = [
    *(
        "dump",
        "dump 80000000",
        "dump 80000000 -1",
        "dump 80000000 ffffffffffffffff",
        "dump 0 1",
        "dump 80000000 4000001",
    ),
    *(
        "dump 80000000 2000000\ndump 80000000 2000001",
        "fill 80000000 1",
        "fill 80000000 1 100",
        "fill 80000000 ffffffffffffffff 0",
    ),
    *(
        "fill ffffffffffffffff 2 0",
        "write 80000000",
        "write 80000000 0",
        "write 80000000 zz",
        "write 0 00",
        "write 80000000 " + "0" * 3001,
    ),
]


def streams() -> Iterator[Case]:
    for line in (*_LINES, *_OF_SIMULATE):
        text = FENCES + line + "\n" + FENCES
        if "stream" not in line:
            arguments = ("simulate", "--stream", "{}/s", "-e", "functional", "-q")
            yield Case(f"simulated {line[:30]!r}", arguments, {"s": text})
        yield Case(
            f"played {line[:30]!r}",
            ("cosim", "-a", "gemmini-default", "--stream", "{}/s"),
            {"s": text if "stream" not in line else line + "\n"},
        )


def model(**names: str) -> bytes:
    """A product, its parts called as `names` says."""
    called = {
        "graph": "g",
        "node": "n",
        "input": "x",
        "weight": "w",
        "output": "y",
        "op": "MatMul",
        "domain": "",
        "dim": "b",
    } | names
    graph = helper.make_graph(
        [
            helper.make_node(
                called["op"],
                [called["input"], called["weight"]],
                [called["output"]],
                called["node"],
                domain=called["domain"],
            )
        ],
        called["graph"],
        [helper.make_tensor_value_info(called["input"], TensorProto.FLOAT, [called["dim"], 4])],
        [helper.make_tensor_value_info(called["output"], TensorProto.FLOAT, None)],
        [helper.make_tensor(called["weight"], TensorProto.FLOAT, [4, 4], [0.0] * 16)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("x", 1)])
    return bytes(made.SerializeToString())


def models() -> Iterator[Case]:
    for text in NO_NAMES:
        for part in ("node", "input", "weight", "output", "op", "domain", "dim"):
            yield Case(f"model {part} {text!r}", ("networks", "{}/m.onnx"), {"m.onnx": model(**{part: text})})
        yield Case(f"option {text!r}", ("networks", f"{{}}/m.onnx:dim.{text}=2"), {"m.onnx": model()})
        yield Case(f"batch {text!r}", ("networks", f"{{}}/m.onnx:batch={text}"), {"m.onnx": model()})
    for value in ("0", "-1", "1e3", "\u00b2", "9" * 5000, "nan", "", "2147483648", "1_0", "1,1", "1,batch=2"):
        yield Case(f"batch {value[:20]}", ("networks", f"{{}}/m.onnx:batch={value}"), {"m.onnx": model()})
    yield Case("long name", ("networks", "{}/m.onnx"), {"m.onnx": model(node="n" * 3_000_000)})
    source = "import torch\nclass M(torch.nn.Module):\n    def forward(self, x):\n        return x @ x\n"
    for text in NO_NAMES:
        yield Case(f"function {text!r}", ("networks", "{}/m.py:" + text), {"m.py": source})
        raising = f"def f():\n    raise ValueError({text!r} + 'x' * 100_000)\n"
        yield Case(f"exception {text!r}", ("networks", "{}/m.py:f"), {"m.py": raising})
        yield Case(f"source {text!r}", ("networks", "{}/m.py:f"), {"m.py": f"def f(): return '{text}\n"})


def test_programs(check_all: CheckAll) -> None:
    assert check_all(programs()) >= 90


def test_streams(check_all: CheckAll) -> None:
    assert check_all(streams()) >= 80


def test_models(check_all: CheckAll) -> None:
    assert check_all(models()) >= 200


def damaged(good: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Copies with a few bytes changed, cut out or put in."""
    r = random.Random(seed)
    for _ in range(count):
        data = bytearray(good)
        for _ in range(r.randint(1, 4)):
            at = r.randrange(len(data))
            kind = r.randrange(3)
            if kind == 0:
                data[at] = r.randrange(256)
            elif kind == 1:
                del data[at : at + r.randint(1, 30)]
            else:
                data[at:at] = r.randbytes(r.randint(1, 8))
        yield bytes(data)
