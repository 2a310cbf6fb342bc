"""`evaluate_file` against published rows and an independent scalar implementation of the specification."""

from __future__ import annotations

import csv
import gzip
import math
import random
import re
from pathlib import Path

import numpy as np
import pytest

from baco.common.errors import InputError, StorageError
from baco.exploration.cost.evaluate import evaluate_file, spearman

DATA = Path(__file__).parents[4] / "shared" / "data"
TIMELOOP = DATA / "timeloop-mappings.csv.gz"
FIRESIM = DATA / "gemmini-firesim.csv.gz"
DIMS = "RSPQCKN"
RELEVANT = {"W": "RSCK", "O": "PQKN", "I": "CNPQRS"}

needs_data = pytest.mark.skipif(not TIMELOOP.exists(), reason="needs the published rows in ../shared/data")


def scalar(row: dict[str, str]) -> tuple[float, float]:
    """Cycles and µJ by section 3 of the method specification, one loop after the other."""
    loops: list[list[tuple[str, int]]] = [[], [], [], []]  # by level, innermost first
    rows = columns = 1
    for part in row["mapping.mapping"].split(" - "):
        head, *tokens = part.split()
        level = int(head[1])
        for token in reversed(tokens):
            if token.endswith("X"):
                if level == 1:
                    rows = int(token[1:-1])
                else:
                    columns = int(token[1:-1])
            elif int(token[1:]) > 1:
                loops[level].append((token[0], int(token[1:])))
    sw, sh = int(row["prob.Wstride"]), int(row["prob.Hstride"])

    def tile(level: int) -> dict[str, int]:
        size = dict.fromkeys(DIMS, 1)
        for inner in range(level + 1):
            for name, factor in loops[inner]:
                size[name] *= factor
        size["C"] *= rows if level >= 1 else 1
        size["K"] *= columns if level >= 2 else 1
        return size

    def width(p: int, r: int, stride: int) -> int:
        return (p - 1) * stride + r

    def fills(tensor: str, level: int) -> int:
        size = tile(level)
        outer = [loop for inner in range(level + 1, 4) for loop in loops[inner]]
        while outer and outer[0][0] not in RELEVANT[tensor]:
            outer.pop(0)
        if tensor == "I":
            words = size["C"] * size["N"]
            window = width(size["P"], size["R"], sw) * width(size["Q"], size["S"], sh)
            if outer and outer[0][0] in "PQRS":
                name, factor = outer.pop(0)
                swept = {**size, name: size[name] * factor}
                union = width(swept["P"], swept["R"], sw) * width(swept["Q"], swept["S"], sh)
                window = min(union, window * factor)
            words *= window
        else:
            # Level 0 holds one word in each element of the array: its own loops reuse it.
            words = math.prod(size[d] for d in RELEVANT[tensor]) if level else 1
        for _, factor in outer:
            words *= factor
        if level < 1 and "C" in RELEVANT[tensor]:
            words *= rows
        if level < 2 and "K" in RELEVANT[tensor]:
            words *= columns
        return words

    bounds = {d: int(row[f"prob.{d}"]) for d in DIMS}
    macs = math.prod(bounds.values())
    out = math.prod(bounds[d] for d in "PQKN")
    updates = macs // rows
    w0, o1, w2, i2 = fills("W", 0), fills("O", 1), fills("W", 2), fills("I", 2)
    a0, a1 = macs + w0, updates + (updates - out) + o1
    a2, a3 = macs // columns + i2 + w2 + w0, w2 + i2 + o1 + (o1 - out)
    side = int(row["arch.meshX"])
    cycles = max(macs / (rows * columns), a1 / (2 * columns), a2 / (2 * side), a3 / 8)
    accumulator_kib, scratchpad_kib = (
        int(row["arch.mem1_entries"]) * 4 / 1024,
        int(row["arch.mem2_entries"]) / 1024,
    )
    energy = 0.5608 * macs + 0.48746 * a0 + (1.94 + 0.1005 * accumulator_kib) * a1
    return cycles, 1e-6 * (energy + (0.49 + 0.02513 * scratchpad_kib) * a2 + 100 * a3)


def random_row(rng: random.Random) -> dict[str, str]:
    """A row with random factors and orders at every level, everything about it mixed."""
    factors = [dict.fromkeys(DIMS, 1) for _ in range(4)]
    for level, names in ((0, "PQN"), (1, DIMS), (2, DIMS), (3, DIMS)):
        for name in names:
            factors[level][name] = rng.choice([1, 1, 1, 2, 3, 5])
    rows, columns = rng.choice([1, 4, 7]), rng.choice([1, 2, 16])
    texts = []
    for level, keeps, spatial in (
        (3, "WIO", ""),
        (2, "WI", f"K{columns}X"),
        (1, "O", f"C{rows}X"),
        (0, "W", ""),
    ):
        names = [d for d in DIMS if factors[level][d] > 1]
        rng.shuffle(names)
        loops = " ".join(f"{d}{factors[level][d]}" for d in names) or "N1"
        texts.append(f"L{level}[{keeps}] {loops} {spatial}".strip())
    row = {"mapping.mapping": " - ".join(texts), "arch.meshX": "16"}
    row |= {
        "arch.mem1_entries": str(rng.randrange(1, 9000)),
        "arch.mem2_entries": str(rng.randrange(1, 900_000)),
    }
    for name in DIMS:
        product = math.prod(f[name] for f in factors) * {"C": rows, "K": columns}.get(name, 1)
        row[f"prob.{name}"] = str(product)
    return row | {
        "prob.Wstride": str(rng.choice([1, 2, 3])),
        "prob.Hstride": str(rng.choice([1, 2])),
        "prob.Wdilation": "1",
        "prob.Hdilation": "1",
    }


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def read(path: Path) -> list[dict[str, str]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.DictReader(text.splitlines()))


@pytest.fixture
def rows() -> list[dict[str, str]]:
    rng = random.Random(4)
    return [random_row(rng) for _ in range(200)]


def test_random_rows_equal_the_scalar_implementation(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    statistics = evaluate_file(write(tmp_path / "in.csv", rows), tmp_path / "out.csv.gz")
    assert statistics.rows == len(rows)
    assert statistics.errors == {}
    assert statistics.networks == {}
    for given, found in zip(rows, read(tmp_path / "out.csv.gz"), strict=True):
        assert {k: found[k] for k in given} == given
        cycles, energy = scalar(given)
        assert float(found["predicted.cycle"]) == pytest.approx(cycles, rel=1e-12)
        assert float(found["predicted.energy"]) == pytest.approx(energy, rel=1e-12)
        assert float(found["predicted.edp"]) == pytest.approx(cycles * energy * 1e-6, rel=1e-12)


@needs_data
def test_published_rows(tmp_path: Path) -> None:
    out = tmp_path / "out.csv.gz"
    errors = evaluate_file(TIMELOOP, out).errors
    assert errors["target.cycle"].rows == errors["target.energy"].rows == 43_845
    assert errors["target.cycle"].mean_percent <= 0.003
    assert errors["target.energy"].mean_percent <= 0.075
    given, found = read(TIMELOOP), read(out)
    assert len(given) == len(found)
    every = random.Random(0).sample(range(len(given)), 400)
    for i in every:
        assert {k: found[i][k] for k in given[i]} == given[i]
        assert (float(found[i]["predicted.cycle"]), float(found[i]["predicted.energy"])) == pytest.approx(
            scalar(given[i]), rel=1e-12
        )
        # The product is in the unit of target.edp.
        product = float(given[i]["target.cycle"]) * float(given[i]["target.energy"])
        assert float(given[i]["target.edp"]) == pytest.approx(product * 1e-6, rel=1e-3)
    for quantity in ("cycle", "energy"):
        predicted, target = (
            np.array([float(r[f"{k}.{quantity}"]) for r in found]) for k in ("predicted", "target")
        )
        size = 100 * np.abs(predicted / target - 1)
        error = errors[f"target.{quantity}"]
        assert error.mean_percent == pytest.approx(size.mean())
        assert error.max_percent == pytest.approx(size.max())
        worst = error.worst_rows[0]
        assert size[worst[0] - 2] == size.max()  # line 1 is the header, rows count from 0 here


@needs_data
def test_measured_rows(tmp_path: Path) -> None:
    """Against RTL, the published analytical model has a rank correlation of 0.847 and a mean error of 63%."""
    error = evaluate_file(FIRESIM, tmp_path / "out.csv").errors["target.cycle"]
    assert error.rows == 1567
    assert error.spearman == pytest.approx(0.847, abs=0.001)
    assert error.mean_percent == pytest.approx(63, abs=1)


def test_ties_share_their_mean_rank() -> None:
    # ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, variances 4.5 and 5
    one, other = np.array([1.0, 2, 2, 4]), np.array([10.0, 30, 20, 40])
    assert spearman(one, other) == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    assert spearman(np.ones(5), np.arange(5.0)) is None


def test_counts_give_the_edp_of_networks(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    table = [
        {
            **row,
            "network": "ab"[i % 2],
            "count": str(1 + i % 5),
            "target.cycle": "1000",
            "target.energy": "2.5",
        }
        for i, row in enumerate(rows)
    ]
    statistics = evaluate_file(write(tmp_path / "in.csv", table), tmp_path / "out.csv")
    for name, parity in (("a", 0), ("b", 1)):
        mine = [(scalar(row), int(row["count"])) for row in table[parity::2]]
        cycles, energy = (sum(cost[k] * count for cost, count in mine) for k in (0, 1))
        runs = sum(count for _, count in mine)
        total = statistics.networks[name]
        assert total.edp == pytest.approx(cycles * energy, rel=1e-12)
        assert total.target_edp == pytest.approx(1000 * runs * 2.5 * runs, rel=1e-12)
    assert f"EDP {statistics.networks['a'].edp:.6g}" in statistics.text()
    # Reading the output again replaces the predictions.
    again = evaluate_file(tmp_path / "out.csv", tmp_path / "again.csv")
    assert again.networks == statistics.networks
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_rows_without_target_are_left_out_of_the_statistics(
    tmp_path: Path, rows: list[dict[str, str]]
) -> None:
    table = [{**row, "target.cycle": "" if i % 4 else repr(2 * scalar(row)[0])} for i, row in enumerate(rows)]
    statistics = evaluate_file(write(tmp_path / "in.csv", table), tmp_path / "out.csv")
    error = statistics.errors["target.cycle"]
    assert error.rows == 50
    assert error.mean_percent == pytest.approx(50)
    assert error.bias_percent == pytest.approx(-50)
    assert error.worst_rows[0][0] == 2


def test_mappings_beyond_their_accelerator_are_counted(tmp_path: Path) -> None:
    rng = random.Random(0)
    row = {**random_row(rng), "mapping.mapping": "L3[WIO] N1 - L2[WI] N1 K16X - L1[O] P2 C16X - L0[W] N1"}
    row |= {"prob.P": "2", "prob.C": "16", "prob.K": "16", **{f"prob.{d}": "1" for d in "RSQN"}}
    row |= {"prob.Wstride": "1", "arch.mem1_entries": "2", "arch.mem2_entries": str(16 * 16 + 2 * 16)}
    table = [
        row,
        {**row, "arch.meshX": "15"},
        {**row, "arch.mem1_entries": "1"},
        {**row, "arch.mem2_entries": "287"},
    ]
    assert evaluate_file(write(tmp_path / "in.csv", table), tmp_path / "out.csv").rows_not_fitting == 3


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("mapping.mapping", "L3[WIO] K48 - nonsense", r":4:\d+: 'nonsense' is not level 2"),
        (
            "mapping.mapping",
            "L3[WIO] N1 - L2[WI] N1 - L1[O] N1 - L0[W] N1",
            r":4:1: factors of . multiply to 1",
        ),
        ("prob.K", "0", r":4:\d+: prob.K must be from 1 to 9007199254740992, not 0"),
        ("prob.K", "2.5", r":4:\d+: prob.K must be"),
        ("arch.meshX", "inf", r":4:\d+: arch.meshX must be"),
        ("target.cycle", "-3", r":4:\d+: target.cycle must be a positive number, not '-3'"),
        ("count", "nan", r":4:\d+: count must be a positive number"),
    ],
)
def test_errors_name_line_and_column(
    tmp_path: Path, rows: list[dict[str, str]], column: str, value: str, message: str
) -> None:
    table = [{**row, "target.cycle": "5", "count": "1"} for row in rows]
    table[2] = {**table[2], column: value}
    path = write(tmp_path / "in.csv", table)
    with pytest.raises(InputError, match=re.escape(str(path)) + message) as caught:
        evaluate_file(path, tmp_path / "out.csv")
    location = caught.value.location
    assert location is not None
    assert location.column is not None
    line = path.read_text(encoding="utf-8").splitlines()[3]
    if column != "mapping.mapping":
        assert line[location.column - 1 :].startswith(value)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"a,b\n1,2\n", "not a table of mappings"),
        (b"mapping.mapping,arch.meshX\n", "missing columns arch.mem1_entries"),
        (b"mapping.mapping,mapping.mapping\n", "given twice"),
        (b"\xff\xfe\x00", "binary file"),
        (b'"unclosed', "not CSV"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        evaluate_file(path, tmp_path / "out.csv")


def test_damaged_gzip_and_bad_outputs(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    path = write(tmp_path / "in.csv", rows[:3])
    whole = gzip.compress(path.read_bytes())
    for name, content in (("plain.gz", path.read_bytes()), ("cut.gz", whole[:-30])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="not a whole gzip file"):
            evaluate_file(tmp_path / name, tmp_path / "out.csv")
    (tmp_path / "whole.csv.gz").write_bytes(whole)
    assert evaluate_file(tmp_path / "whole.csv.gz", tmp_path / "out.csv").rows == 3
    for out in (tmp_path, tmp_path / "absent" / "out.csv"):
        with pytest.raises(StorageError):
            evaluate_file(path, out)
