"""The performance counters against a model in plain Python."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.accel.testbench import BENCHES, RTL, build

OP, RS1, EVENTS, OCCUPANCIES, BYTES_READ, BYTES_WRITTEN, READS, WRITES, PAUSE = range(9)


class Model:
    def __init__(self, counters: int) -> None:
        self.select = [(0, False)] * counters  # code, external
        self.count = [0] * counters
        self.snapshot: list[int] | None = None
        self.sums = [0, 0, 0, 0]

    def _shown(self, counter: int, occupancies: int) -> int:
        code, external = self.select[counter]
        if not external:
            return self.count[counter]
        values = [0, *(occupancies >> shift & 127 for shift in (0, 7, 14)), *(s % 2**32 for s in self.sums)]
        return values[code] if code < len(values) else 0

    def cycle(self, record: list[int]) -> int | None:
        value = None
        counters = len(self.count)
        rs1 = record[RS1]
        if record[OP]:
            index = rs1 >> 4 & (7 if counters <= 8 else 63)
            shown = [self._shown(i, record[OCCUPANCIES]) for i in range(counters)]
            value = (self.snapshot or shown)[index] if index < counters else 0
        for i, (code, _) in enumerate(self.select):
            self.count[i] += code != 0 and record[EVENTS] >> code & 1
        for i, name in enumerate([BYTES_READ, BYTES_WRITTEN, READS, WRITES]):
            self.sums[i] += record[name]
        if record[OP]:
            if rs1 & 4:
                self.snapshot = shown
            if rs1 & 3:
                self.snapshot = None
            if rs1 & 8 and index < counters:
                self.select[index] = rs1 >> 12 & 63, bool(rs1 >> 31 & 1)
                self.count[index] = 0
            if rs1 & 1:
                self.count = [0] * counters
                self.sums = [0, 0, 0, 0]
        return value


def _records(counters: int, cycles: int) -> np.ndarray:
    random = np.random.default_rng(counters)
    records = np.zeros((cycles, 9), np.uint64)
    records[:, OP] = random.random(cycles) < 0.2
    # all combinations of reset, leaving, taking and configuring; reads are frequent, resets rare
    chances = np.array([0.02, 0.002] * 8)
    chances[[0, 2, 4, 8]] = 0.4, 0.08, 0.1, 0.3
    flags = random.choice(16, cycles, p=chances / chances.sum())
    external = random.integers(0, 2, cycles)
    code = np.where(external == 1, random.integers(0, 10, cycles), random.integers(0, 64, cycles))
    counter = random.integers(0, counters + 2 if counters > 8 else 8, cycles)
    noise = random.integers(0, 1 << 32, cycles) << 32 | random.integers(0, 1 << 13, cycles) << 18
    records[:, RS1] = noise | external << 31 | code << 12 | counter << 4 | flags
    records[:, EVENTS] = random.integers(0, 1 << 64, cycles, np.uint64)
    records[:, OCCUPANCIES] = random.integers(0, 1 << 21, cycles)
    records[:, BYTES_READ] = random.integers(0, 129, cycles)
    records[:, BYTES_WRITTEN] = random.integers(0, 65, cycles)
    records[:, READS] = random.integers(0, 512, cycles)
    records[:, WRITES] = random.integers(0, 512, cycles)
    records[:, PAUSE] = random.integers(0, 3, cycles)
    return records


@pytest.mark.parametrize("counters", [5, 8, 64])
def test_random_operations(tmp_path: Path, counters: int) -> None:
    bench = build(
        [RTL / "baco_counters.v"],
        "baco_counters",
        {"COUNTERS": counters},
        [],
        BENCHES / "counters_bench.cpp",
    )
    records = _records(counters, 20_000)
    records.tofile(tmp_path / "in")
    subprocess.run([bench, tmp_path / "in", tmp_path / "out"], check=True, timeout=60)
    model = Model(counters)
    expected = [value for record in records.tolist() if (value := model.cycle(record)) is not None]
    result = np.fromfile(tmp_path / "out", np.uint64).tolist()
    assert result == expected
    assert sum(value > 0 for value in expected) > len(expected) / 4
