"""Random block programs: loads, products, elementwise operations, loops and stores in any well-typed combination."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

import baco
from tests.compiler.product_kernels import Case
from tests.user_module import user_module

Array = np.ndarray[Any, Any]
_SIZES = (1, 3, 4, 6, 8, 11)


class _Writer:
    """Writes one kernel. Values are (expression, type, shape) with types i8, i32 and shapes of two dimensions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.arrays: dict[str, tuple[str, tuple[int, int]]] = {}
        self.values: list[tuple[str, str, tuple[int, int]]] = []
        self.count = 0
        self.computed: set[str] = set()
        # sizes of the blocks along the grid and of the whole, and free sizes
        self.block = self.random.choice(_SIZES), self.random.choice(_SIZES)
        self.whole = tuple(self.random.randint(1, 3 * size) for size in self.block)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def bind(
        self, text: str, kind: str, shape: tuple[int, int], indent: str = "    "
    ) -> tuple[str, str, tuple[int, int]]:
        name = self.name()
        self.lines.append(f"{indent}{name} = {text}")
        value = name, kind, shape
        self.values.append(value)
        return value

    def array(self, kind: str, shape: tuple[int, int]) -> str:
        name = f"p{len(self.arrays)}"
        self.arrays[name] = kind, shape
        return name

    def load(
        self, kind: str, shape: tuple[int, int], indent: str = "    ", offset: str = ""
    ) -> tuple[str, str, tuple[int, int]]:
        """A block of its own array, cut off somewhere inside; row- or column-major, or a whole block."""
        rows, columns = shape
        there = self.random.randint(1, rows), self.random.randint(1, columns)
        if self.random.random() < 0.5:
            there = shape
        array = self.array(kind, there)
        steps = (there[1], 1) if self.random.random() < 0.7 else (1, there[0])
        if self.random.random() < 0.1:
            steps = (there[1], 1)
        text = f"baco.load({array} + baco.arange(0, {rows})[:, None] * {steps[0]} + baco.arange(0, {columns})[None, :] * {steps[1]}"
        if there != shape:
            text += f", mask=(baco.arange(0, {rows})[:, None] < {there[0]}) & (baco.arange(0, {columns})[None, :] < {there[1]})"
            if self.random.random() < 0.2:
                text += f", other={self.random.randint(-5, 5)}"
        return self.bind(text + ")", kind, shape, indent)

    def grid_load(self, kind: str) -> tuple[str, str, tuple[int, int]]:
        """The program's block of an array that the grid covers."""
        array = self.array(kind, (self.whole[0], self.whole[1]))
        return self.bind(
            f"baco.load({array} + rows[:, None] * {self.whole[1]} + columns[None, :])", kind, self.block
        )

    def pick(self, kind: str, shape: tuple[int, int] | None = None) -> tuple[str, str, tuple[int, int]]:
        fitting = [one for one in self.values if one[1] == kind and shape in (None, one[2])]
        computed = [one for one in fitting if one[0] in self.computed]
        if computed and self.random.random() < 0.7:
            return self.random.choice(computed[-4:])
        if fitting and self.random.random() < 0.6:
            return self.random.choice(fitting)
        wanted = shape or (self.random.choice(_SIZES), self.random.choice(_SIZES))
        if wanted == self.block and self.random.random() < 0.6:
            return self.grid_load(kind)
        return self.load(kind, wanted)

    def dot(
        self, total: str | None = None, shape: tuple[int, int] | None = None, indent: str = "    "
    ) -> str:
        """Text of a product; of a wanted shape if given."""
        if shape is None:
            a = self.pick("i8")
            depth = a[2][1]
            b = self.pick("i8", (depth, self.random.choice(_SIZES)))
        else:
            depth = self.random.choice(_SIZES)
            a, b = self.load("i8", (shape[0], depth), indent), self.load("i8", (depth, shape[1]), indent)
        self.shape = a[2][0], b[2][1]
        if a[2][0] == depth and self.random.random() < 0.3:
            a = (f"{a[0]}.T", "i8", a[2])
        return f"baco.dot({a[0]}, {b[0]}" + (f", {total})" if total else ")")

    def statement(self) -> None:
        """One more value, computed from others."""
        self._statement()
        self.computed.add(self.values[-1][0])

    def _statement(self) -> None:
        choice = self.random.choice((0, 0, 1, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 9, 10, 11, 11, 12, 12))
        if choice <= 2:
            self.bind(self.dot(), "i32", (0, 0))
            name, kind, _ = self.values.pop()
            self.values.append((name, kind, self.shape))
        elif choice == 3:
            a = self.pick("i32")
            b = self.pick("i32", a[2])
            operator = self.random.choice("+-*+")
            self.bind(f"{a[0]} {operator} {b[0]}", "i32", a[2])
        elif choice == 4:
            a = self.pick("i32")
            text = (
                f"baco.maximum({a[0]}, 0)"
                if self.random.random() < 0.7
                else f"baco.minimum({a[0]}, {self.random.randint(-99, 99)})"
            )
            self.bind(text, "i32", a[2])
        elif choice == 5:
            a = self.pick("i32")
            self.bind(f"baco.requantize({a[0]}, {self.random.choice((0.01, 0.5, 0.001, 1.0))})", "i8", a[2])
        elif choice == 6:
            a = self.pick("i8")
            b = self.pick("i32", a[2])
            self.bind(f'{a[0]}.to("int32") + {b[0]}', "i32", a[2])
        elif choice == 7:
            a = self.pick(self.random.choice(("i8", "i32")))
            self.bind(f"baco.trans({a[0]})", a[1], a[2][::-1])
        elif choice == 8:
            a = self.pick("i32")
            row = self.load("i32", (1, a[2][1]) if self.random.random() < 0.6 else (a[2][0], 1))
            self.bind(f"{a[0]} + {row[0]}", "i32", a[2])
        elif choice == 9:
            self.loop()
        elif choice == 11:
            self.reduction()
        elif choice == 12:
            a = self.pick("i8")
            mask = self.random.choice(("", "", f", mask={a[0]} > -100"))
            self.bind(f"baco.softmax({a[0]}, {self.random.choice((0.01, 0.05, 0.3))}{mask})", "i8", a[2])
        else:
            a = self.pick("i8")
            b = self.pick("i8", a[2])
            self.bind(f"baco.maximum({a[0]}, {b[0]})", "i8", a[2])

    def reduction(self) -> None:
        """Sums or extrema of rows or columns, met by the block that they are of."""
        a = self.pick(self.random.choice(("i8", "i32")))
        kind, axis = self.random.choice(("sum", "max", "min")), self.random.choice((0, 1, -1, None))
        wide = a[0] if a[1] == "i32" else f'{a[0]}.to("int32")'
        self.bind(f"{wide} - baco.{kind}({a[0]}, axis={axis}, keep_dims=True)", "i32", a[2])

    def loop(self) -> None:
        """A sum of products, sometimes with something elementwise, carried by one or two nested loops."""
        shape = self.random.choice(_SIZES), self.random.choice(_SIZES)
        name = self.name()
        start = (
            f'baco.zeros({shape}, dtype="int32")'
            if self.random.random() < 0.6
            else self.pick("i32", shape)[0]
        )
        self.lines.append(f"    {name} = {start}")
        before = list(self.values)
        indent = "        "
        if self.random.random() < 0.3:
            self.lines.append(f"    for _{name} in range({self.random.randint(1, 3)}):")
            self.lines.append(f"        for {name}_ in range({self.random.randint(0, 4)}):")
            indent += "    "
        else:
            self.lines.append(f"    for {name}_ in range({self.random.randint(0, 4)}):")
        product = self.dot(shape=shape, indent=indent)
        self.lines.append(f"{indent}{name} += {product}")
        if self.random.random() < 0.4:
            self.lines.append(f"{indent}{name} += {self.dot(shape=shape, indent=indent)}")
        if self.random.random() < 0.3:
            other = self.load("i32", shape, indent)
            operator = self.random.choice("+-")
            self.lines.append(f"{indent}{name} = {name} {operator} {other[0]}")
        self.values = [*before, (name, "i32", shape)]

    def store(self) -> None:
        computed = [one for one in self.values if one[0] in self.computed]
        value = self.random.choice((computed or self.values)[-3:])
        rows, columns = value[2]
        if value[2] == self.block and self.random.random() < 0.8:
            array = self.array(value[1] + "!", (self.whole[0], self.whole[1]))
            self.lines.append(
                f"    baco.store({array} + rows[:, None] * {self.whole[1]} + columns[None, :], {value[0]})"
            )
            return
        array = self.array(value[1] + "!", value[2])
        steps = (columns, 1) if self.random.random() < 0.8 else (1, rows)
        text = f"    baco.store({array} + baco.arange(0, {rows})[:, None] * {steps[0]} + baco.arange(0, {columns})[None, :] * {steps[1]}, {value[0]}"
        if self.random.random() < 0.3:
            text += f", mask=(baco.arange(0, {rows})[:, None] < {self.random.randint(1, rows)}) & (baco.arange(0, {columns})[None, :] < {self.random.randint(1, columns)})"
        self.lines.append(text + ")")

    def source(self) -> str:
        for _ in range(self.random.randint(3, 9)):
            self.statement()
        for _ in range(self.random.randint(1, 3)):
            self.store()
        head = [
            "import baco",
            "",
            "@baco.jit",
            f"def kernel({', '.join(self.arrays)}):",
            f"    rows = baco.program_id(0) * {self.block[0]} + baco.arange(0, {self.block[0]})",
            f"    columns = baco.program_id(1) * {self.block[1]} + baco.arange(0, {self.block[1]})",
        ]
        return "\n".join([*head, *self.lines, ""])


def random_case(seed: int, folder: Path) -> Case:
    """A random kernel with data; what it must compute, by the interpreter of the block language."""
    writer = _Writer(seed)
    module = user_module(folder / f"random_{seed}.py", writer.source())
    rng = np.random.default_rng(seed)
    arrays = []
    for kind, shape in writer.arrays.values():
        if kind.startswith("i8"):
            arrays.append(rng.integers(-128, 128, shape).astype(np.int8))
        else:
            arrays.append(rng.integers(-(1 << 18), 1 << 18, shape).astype(np.int32))
    grid = tuple(baco.cdiv(size, block) for size, block in zip(writer.whole, writer.block, strict=True))
    expected = [one.copy() for one in arrays]
    module.kernel.interpret[grid](*expected)
    stored = [index for index, (kind, _) in enumerate(writer.arrays.values()) if kind.endswith("!")]
    return Case(
        f"random {seed}", module.kernel[grid], tuple(arrays), {index: expected[index] for index in stored}
    )
