"""The operators of the single-operator tables: a seeded draw from the published ranges.

The publication gives ranges and numbers of cases (Tables 6.4 and 6.5) but no shapes. `operators.csv` beside this file
holds ours; `python -m baco.bench.paper.shapes` writes it again, byte for byte.

* Products: 544 (M, N, K) in six ranges, every side drawn evenly in its logarithm. Where N may be 1, as many as the
  published table has matrix-vector products (174) have N = 1.
* Convolutions: 846 in nine ranges of map size and filter, "same" padding counted as data, channels drawn from those
  that the named network has at such sizes. 68 one-dimensional ones are drawn in the same way, one image row each.
* `table` marks the cases that the published table reports on: 170 GEMM, 174 GEMV, 68 Conv1D, 128 Conv2D.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from baco.common.table import csv_text
from baco.workloads.problem import Problem

SEED = 20240501
#: Ranges of M, N, K and cases in each (Table 6.4).
PRODUCTS = (
    ((1, 256), (1, 256), (1, 256), 100),
    ((1, 256), (1, 256), (257, 65536), 88),
    ((257, 1024), (1, 256), (1, 65536), 64),
    ((257, 1024), (257, 65536), (1, 65536), 98),
    ((1025, 8192), (1, 256), (1, 65536), 66),
    ((1025, 8192), (257, 8192), (1, 65536), 128),
)
#: Network, range of the map size, filter, cases (Table 6.5), and channels of that network at such sizes (ours).
CONVOLUTIONS = (
    ("U-Net", (280, 568), 3, 80, (64, 128)),
    ("U-Net", (56, 138), 3, 88, (128, 256, 512)),
    ("U-Net", (8, 52), 1, 64, (256, 512, 1024)),
    ("ResNet-50", (56, 120), 1, 80, (64, 256)),
    ("ResNet-50", (32, 80), 3, 120, (64, 128)),
    ("ResNet-50", (4, 40), 1, 68, (256, 512, 1024, 2048)),
    ("ResNet-50", (2, 30), 3, 140, (128, 256, 512)),
    ("RetinaNet", (2, 28), 1, 98, (256, 512, 1024, 2048)),
    ("RetinaNet", (2, 28), 3, 108, (36, 256, 720)),
)
#: Cases of the published results (Table 6.6).
TABLE_CASES = {"GEMM": 170, "GEMV": 174, "Conv1D": 68, "Conv2D": 128}
KINDS = tuple(TABLE_CASES)
_FIELDS = ("kind", "category", "table", "R", "S", "P", "Q", "C", "K", "N")


@dataclass(frozen=True)
class Shape:
    """One operator of the benchmark.

    Attributes:
        kind: of `KINDS`.
        category: the range it was drawn from, in words.
        table: whether it is among the cases of the published table.
        problem: its loop bounds; M, N, K are P, K, C, but a product with N = 1 is transposed so that P = 1.
    """

    kind: str
    category: str
    table: bool
    problem: Problem


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from `low` to `high`, even in the logarithm."""
    return int(min(high, np.floor(low * ((high + 1) / low) ** rng.random())))


def _range_name(m: tuple[int, int], n: tuple[int, int], k: tuple[int, int]) -> str:
    return " ".join(f"{name}[{a},{b}]" for name, (a, b) in zip("MNK", (m, n, k), strict=True))


def _shares(total: int, parts: Sequence[int]) -> list[int]:
    """`total` in proportion to `parts`, the largest remainders rounded up."""
    exact = [total * part / sum(parts) for part in parts]
    shares = [int(x) for x in exact]
    for i in sorted(range(len(parts)), key=lambda i: shares[i] - exact[i])[: total - sum(shares)]:
        shares[i] += 1
    return shares


def _products(rng: np.random.Generator) -> list[tuple[str, str, Problem]]:
    with_vectors = [i for i, (_, n, _, _) in enumerate(PRODUCTS) if n[0] == 1]
    vectors = dict(
        zip(
            with_vectors,
            _shares(TABLE_CASES["GEMV"], [PRODUCTS[i][3] for i in with_vectors]),
            strict=True,
        )
    )
    found = []
    for i, (m, n, k, cases) in enumerate(PRODUCTS):
        for case in range(cases):
            rows, depth = _between(rng, *m), _between(rng, *k)
            if case < vectors.get(i, 0):
                problem = Problem(P=1, K=rows, C=depth)
            else:
                columns = _between(rng, max(2, n[0]), n[1])
                problem = Problem(P=rows, K=columns, C=depth)
            found.append(("GEMV" if case < vectors.get(i, 0) else "GEMM", _range_name(m, n, k), problem))
    return found


def _convolutions(
    rng: np.random.Generator, dimensions: int, cases: Sequence[int]
) -> list[tuple[str, str, Problem]]:
    found = []
    for (network, sizes, kernel, _, channels), number in zip(CONVOLUTIONS, cases, strict=True):
        for _ in range(number):
            size = _between(rng, *sizes)
            c, k = (int(rng.choice(channels)) for _ in range(2))
            other, taps = (size, kernel) if dimensions == 2 else (1, 1)
            category = f"{network} [{sizes[0]},{sizes[1]}] {kernel}x{kernel if dimensions == 2 else 1}"
            problem = Problem(R=kernel, S=taps, P=size, Q=other, C=c, K=k)
            found.append((f"Conv{dimensions}D", category, problem))
    return found


def draw(seed: int = SEED) -> list[Shape]:
    """All shapes, products first; equal seeds give equal lists."""
    rng = np.random.default_rng(seed)
    numbers = [cases for *_, cases, _ in CONVOLUTIONS]
    drawn = _products(rng)
    drawn += _convolutions(rng, 2, numbers)
    drawn += _convolutions(rng, 1, _shares(TABLE_CASES["Conv1D"], numbers))
    chosen: set[int] = set()
    for kind, cases in TABLE_CASES.items():
        own = [i for i, (name, _, _) in enumerate(drawn) if name == kind]
        chosen.update(rng.choice(own, cases, replace=False).tolist())
    return [Shape(kind, category, i in chosen, p) for i, (kind, category, p) in enumerate(drawn)]


def to_csv(shapes: Sequence[Shape]) -> str:
    """The text of `operators.csv`."""
    rows: list[Sequence[object]] = [_FIELDS]
    for shape in shapes:
        bounds = [getattr(shape.problem, name) for name in _FIELDS[3:]]
        rows.append([shape.kind, shape.category, int(shape.table), *bounds])
    return csv_text(rows)


def read_shapes() -> list[Shape]:
    """The committed list."""
    text = resources.files(__package__).joinpath("operators.csv").read_text(encoding="utf-8")
    return [
        Shape(
            row["kind"],
            row["category"],
            row["table"] == "1",
            Problem(**{name: int(row[name]) for name in _FIELDS[3:]}),
        )
        for row in csv.DictReader(io.StringIO(text))
    ]


if __name__ == "__main__":
    sys.stdout.write(to_csv(draw()))
