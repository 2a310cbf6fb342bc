"""Random elementwise expressions: the same text means to a kernel what it means to numpy."""

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from baco.accel.config import Accelerator
from tests.seeds import seeds
from tests.user_module import user_module

ROWS, COLUMNS = 3, 8
DTYPES = ["int8", "uint8", "int16", "int32"]
WIDTH = {"int8": 8, "uint8": 8, "int16": 16, "int32": 32}


class Numpy:
    """What the functions of the language are in numpy."""

    maximum = staticmethod(np.maximum)
    minimum = staticmethod(np.minimum)
    where = staticmethod(np.where)

    @staticmethod
    def requantize(x: np.ndarray, scale: float) -> np.ndarray:
        return np.clip(np.rint(x.astype(np.float32) * np.float32(scale)), -128, 127).astype(np.int8)

    @staticmethod
    def cast(x: np.ndarray, dtype: str) -> np.ndarray:
        return x.astype(dtype)


def promoted(left: str, right: str) -> str:
    return np.promote_types(left, right).name


def expression(rng: random.Random, depth: int) -> tuple[str, str]:
    """(text, element type) of a random expression of blocks."""
    if depth == 0 or rng.random() < 0.1:
        dtype = rng.choice(DTYPES)
        return f"{rng.choice(['m', 'r', 'k'])}_{dtype}", dtype
    left, kind = expression(rng, depth - 1)
    info = np.iinfo(kind)
    constant = rng.choice([0, 1, 2, 3, 7, 100, info.min, info.max, rng.randint(info.min, info.max)])
    choice = rng.randrange(10)
    if choice == 0:
        target = rng.choice(DTYPES)
        return f"baco.cast({left}, '{target}')", target
    if choice == 1:
        return f"({left} {rng.choice(['//', '%'])} {constant or 5})", kind
    if choice == 2:
        return f"({left} {rng.choice(['<<', '>>'])} {rng.randrange(WIDTH[kind])})", kind
    if choice == 3:
        return rng.choice([f"(-{left})", f"(~{left})", f"abs({left})"]), kind
    if choice == 4:
        other = f"baco.cast({left}, 'int32')"
        return f"baco.requantize({other}, {rng.choice([1, 0.5, 0.3, 1e-7, -2.25])})", "int8"
    if choice == 5:
        return f"({left} {rng.choice('+-*&|^')} ({constant}))", kind
    if choice == 6:
        return f"(({constant}) {rng.choice('+-*')} {left})", kind
    right, other_kind = expression(rng, depth - 1)
    both = promoted(kind, other_kind)
    if choice == 7:
        condition = f"({left} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {right})"
        third, third_kind = expression(rng, depth - 1)
        if rng.random() < 0.5:
            condition = f"({condition} {rng.choice('&|^')} ~({left} == {constant}))"
        return f"baco.where({condition}, {right}, {third})", promoted(other_kind, third_kind)
    if choice == 8:
        return f"baco.{rng.choice(['maximum', 'minimum'])}({left}, {right})", both
    return f"({left} {rng.choice('+-*&|^')} {right})", both


def kernel_module(folder: Path, lines: list[tuple[str, str]]) -> ModuleType:
    """A module with one kernel that stores the expressions to `out_<index>`."""
    blocks = []
    for dtype in DTYPES:
        blocks.append(f"    m_{dtype} = baco.load({dtype} + i[:, None] * {COLUMNS} + j[None, :])")
        blocks.append(f"    r_{dtype} = baco.load({dtype} + j)[None, :]")
        blocks.append(f"    k_{dtype} = baco.load({dtype} + i * {COLUMNS})[:, None]")
    stores = [
        f"    baco.store(out_{index} + i[:, None] * {COLUMNS} + j[None, :], baco.broadcast_to({text}, ({ROWS}, {COLUMNS})))"
        for index, (text, _) in enumerate(lines)
    ]
    outputs = ", ".join(f"out_{index}" for index in range(len(lines)))
    text = (
        f"import baco\n\n\n@baco.jit\ndef kernel({', '.join(DTYPES)}, {outputs}):\n"
        f"    i, j = baco.arange(0, {ROWS}), baco.arange(0, {COLUMNS})\n" + "\n".join(blocks + stores) + "\n"
    )
    return user_module(folder / "expressions.py", text)


def check(folder: Path, seed: int, count: int, depth: int, **options: Any) -> None:
    rng = random.Random(seed)
    values = np.random.default_rng(seed)
    lines = [expression(rng, depth) for _ in range(count)]
    inputs = {}
    for dtype in DTYPES:
        info = np.iinfo(dtype)
        inputs[dtype] = values.integers(info.min, info.max + 1, (ROWS, COLUMNS), dtype=dtype)
        inputs[dtype].flat[:4] = [info.min, info.max, 0, 1]
    outputs = [np.zeros((ROWS, COLUMNS), dtype) for _, dtype in lines]
    names: dict[str, Any] = {"baco": Numpy, "abs": np.abs}
    for dtype, block in inputs.items():
        names |= {f"m_{dtype}": block, f"r_{dtype}": block[:1], f"k_{dtype}": block[:, :1]}
    kernel_module(folder, lines).kernel[1].options(**options)(*inputs.values(), *outputs)
    for (text, dtype), output in zip(lines, outputs, strict=True):
        with np.errstate(all="ignore"):
            expected = np.broadcast_to(eval(text, names), (ROWS, COLUMNS))
        assert expected.dtype == dtype, text
        assert np.array_equal(output, expected), text


@pytest.mark.parametrize("seed", seeds(3, of=12))
def test_interpreted(tmp_path: Path, seed: int) -> None:
    check(tmp_path, seed, count=20, depth=3, engine="interpret")


@pytest.mark.parametrize("seed", seeds(2, of=5))
def test_compiled(tmp_path: Path, seed: int) -> None:
    machine = Accelerator(dim=4, scratchpad_kib=64, accumulator_kib=32)
    check(tmp_path, 100 + seed, count=4, depth=3, accelerator=machine)
