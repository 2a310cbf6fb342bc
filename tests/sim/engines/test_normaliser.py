"""Normaliser commands, layer norm, I-GELU and softmax on the functional model and the RTL against numpy's integers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from pathlib import Path

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import LocalAddress
from baco.sim.engines.base import run_job
from baco.sim.job import Job
from tests.gemmini.normaliser import (
    I_GELU,
    INT_MAX,
    INT_MIN,
    INV_STDDEV,
    INV_SUM_EXP,
    LAYER_NORM,
    MAX,
    MEAN,
    RESET,
    SOFTMAX,
    SUM,
    SUM_EXP,
    VARIANCE,
    Ints,
    Normaliser,
    wrap,
)
from tests.machines import UNITS, WIDE
from tests.sim.harness_helpers import BASE, command

#: A slice of a store is a whole row of the first, half a row of the second.
MACHINES = {"small": UNITS, "wide": WIDE}
IN, OUT = BASE, BASE + 0x40000
#: What software does between a row's last statistics and its results.
PASSES = {LAYER_NORM: ((SUM, MEAN), (VARIANCE, INV_STDDEV)), SOFTMAX: ((MAX, MAX), (SUM_EXP, INV_SUM_EXP))}


class NormStream:
    """Accumulator rows, and stores of them whose results are known."""

    def __init__(self, machine: Accelerator) -> None:
        self.machine, self.dim = machine, machine.dim
        self.lines: list[str] = []
        self.wanted: list[bytes] = []
        self.model = Normaliser()
        self.acc = np.zeros((machine.accumulator_rows, self.dim), np.int64)
        self.activation, self.scale = 0, 1.0
        self.at = OUT

    def load(self, x: Ints, first: int = 0) -> None:
        """A matrix of int32 into accumulator rows, blocks of DIM columns DIM rows apart."""
        rows, cols = x.shape
        assert rows <= self.dim
        data = x.astype("<i4").tobytes().hex()
        self.lines.append(f"fence\nwrite {IN:x} {data}\n")
        self.lines.append(command("CONFIG_LD", stride=cols * 4, block_stride=self.dim, scale=1.0))
        for c in range(0, cols, self.dim):
            some = min(self.dim, cols - c)
            local = LocalAddress(first + c, accumulator=True).word
            self.lines.append(command("MVIN", address=IN + c * 4, local=local, cols=some, rows=rows))
            self.acc[first + c : first + c + rows, :some] = x[:, c : c + some]

    def activate(self, activation: int, scale: float = 1.0, stride: int = 256) -> None:
        """CONFIG_ST; softmax takes a CONFIG_NORM as well."""
        self.activation, self.scale = activation, scale
        self.lines.append(command("CONFIG_ST", activation=activation & 3, acc_scale=scale, stride=stride))
        if activation == SOFTMAX:
            self.constants(self.model.qb, self.model.qc, self.model.qln2, self.model.qln2_inv)

    def constants(self, qb: int, qc: int, qln2: int = 0, qln2_inv: int = 0) -> None:
        """CONFIG_NORM of everything, twice: each brings one of the two constants of softmax."""
        self.model.qb, self.model.qc, self.model.qln2, self.model.qln2_inv = qb, qc, qln2, qln2_inv
        for kind, constant in ((0, qln2), (1, qln2_inv)):
            self.lines.append(
                command(
                    "CONFIG_NORM",
                    stats_id=self.model.slot,
                    activation_msb=self.activation >> 2,
                    q_const_type=kind,
                    q_const=constant % 2**32,
                    qb=qb % 2**32,
                    qc=qc % 2**32,
                )
            )

    def slot(self, number: int) -> None:
        """CONFIG_NORM of the slot alone; what else it says does not count."""
        self.model.slot = number
        self.lines.append(
            command(
                "CONFIG_NORM", stats_id=number, set_stats_id_only=1, qb=123, qc=7, q_const=5, activation_msb=1
            )
        )

    def store(self, norm: int, first: int, rows: int, cols: int, *, full: bool = False) -> None:
        """A MVOUT of `rows` rows."""
        local = LocalAddress(first, accumulator=True, read_full=full, norm=norm).word
        self.lines.append(command("MVOUT", address=self.at, local=local, cols=cols, rows=rows))
        place = np.zeros((rows, 256), np.uint8)
        blocks = -(-cols // self.dim)
        for r in range(rows):
            row = self.acc[first + r : first + r + blocks * self.dim : self.dim].reshape(-1)[:cols]
            self.model.take(row, norm)
            if norm == RESET and full:
                place[r, : 4 * cols] = row.astype("<i4").view(np.uint8)
            elif norm == RESET:
                place[r, :cols] = self.model.results(row, self.activation, self.scale) & 255
        self.lines.append(f"fence\ndump {self.at:x} {rows * 256:x}\n")
        self.wanted.append(place.tobytes())
        self.at += rows * 256

    def normalise(self, first: int, cols: int, activation: int, pieces: tuple[int, ...]) -> None:
        """A row's statistics and results, each pass in pieces of some columns (multiples of DIM but the last)."""
        assert sum(pieces) == cols
        for going, last in (*PASSES[activation], (RESET, RESET)):
            at = 0
            for number, piece in enumerate(pieces):
                self.store(last if number == len(pieces) - 1 else going, first + at, 1, piece)
                at += piece

    def check(self, engine: str, folder: Path) -> None:
        stream = folder / "norms.txt"
        stream.write_text("".join(self.lines))
        dumps = run_job(Job(self.machine, stream=stream), engine=engine).memory_dumps
        assert len(dumps) == len(self.wanted)
        for place, (got, wanted) in enumerate(zip(dumps, self.wanted, strict=True)):
            np.testing.assert_array_equal(
                np.frombuffer(got, np.int8), np.frombuffer(wanted, np.int8), err_msg=f"store {place}"
            )


def rows_of(rng: np.random.Generator, rows: int, cols: int) -> Ints:
    """Random rows of all kinds: small, equal elements, one large element, extremes, anything."""
    kinds: list[Callable[[], Ints]] = [
        lambda: rng.integers(-300, 300, cols),
        lambda: np.full(cols, rng.integers(INT_MIN, INT_MAX)),
        lambda: np.where(np.arange(cols) == rng.integers(0, cols), 100_000, rng.integers(0, 3, cols)),
        lambda: rng.choice([INT_MIN, INT_MAX, 0, -1, 1], cols),
        lambda: rng.integers(INT_MIN, INT_MAX + 1, cols),
        lambda: rng.integers(-(2**24) - 9, 2**24 + 9, cols),
        lambda: rng.integers(-20_000, 20_000, cols),
    ]
    return np.stack([np.asarray(kinds[int(rng.integers(len(kinds)))](), np.int64) for _ in range(rows)])


def softmax_constants(scale: float) -> tuple[int, int, int, int]:
    """qb, qc, qln2, qln2_inv of I-BERT (Kim et al., 2021, section 3.4) for inputs in units of `scale`."""
    qln2 = int(0.693147 / scale)
    return int(1.353 / scale), int(0.344 / (0.3585 * scale * scale)), qln2, 65536 // qln2


def gelu_constants(scale: float) -> tuple[int, int]:
    """qb, qc of I-GELU, likewise."""
    return int(-1.769 / (scale / 2**0.5)), int(1 / (-0.2888 * (scale / 2**0.5) ** 2))


@pytest.fixture(params=["functional", "rtl"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> Accelerator:
    return MACHINES[str(request.param)]


def pieces_of(rng: np.random.Generator, dim: int, cols: int) -> tuple[int, ...]:
    """Pieces that one store each may move: up to 64 columns."""
    found = []
    while cols:
        piece = int(rng.integers(1, max(1, 64 // dim) + 1)) * dim
        found.append(min(piece, cols))
        cols -= found[-1]
    return tuple(found)


@pytest.mark.parametrize("activation", [LAYER_NORM, SOFTMAX])
def test_rows_as_software_normalises_them(
    engine: str, machine: Accelerator, activation: int, tmp_path: Path
) -> None:
    """Two rows at a time in two slots, whole or in pieces; scales of every kind, negative ones too."""
    rng = np.random.default_rng(activation)
    stream = NormStream(machine)
    for scale, unit in (
        (1.0, 0.05),
        (30.0, 0.001),
        (-0.5, 0.3),
        (1 / 127, 0.0004),
        (0.3333, 0.02),
        (200.0, 0.2),
    ):
        stream.activate(activation, scale)
        stream.constants(*softmax_constants(unit))
        for cols in (1, 3, machine.dim, machine.dim + 1, 40, 64, 100):
            stream.load(rows_of(rng, machine.dim, cols))
            pieces = pieces_of(rng, machine.dim, cols)
            for row in range(0, 4, 2):
                for slot in (0, 1):
                    stream.slot(slot)
                    stream.normalise(row + slot, cols, activation, pieces)
    stream.check(engine, tmp_path)


def test_softmax_of_likely_values_is_a_softmax(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    """The integers are near the real function where software keeps within its range (11 units of ln 2 here)."""
    rng = np.random.default_rng(9)
    stream = NormStream(machine)
    unit, cols = 0.01, 24
    stream.activate(SOFTMAX, 1.0)
    stream.constants(*softmax_constants(unit))
    x = rng.integers(-400, 400, (4, cols))
    stream.load(x)
    for row in range(4):
        stream.normalise(row, cols, SOFTMAX, (cols,))
    stream.check(engine, tmp_path)
    results = [np.frombuffer(one, np.int8)[:cols] for one in stream.wanted[2::3]]
    real = np.exp(x * unit) / np.exp(x * unit).sum(axis=1, keepdims=True)
    assert np.abs(np.stack(results) / 127 - real).max() < 0.02


def test_i_gelu(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    """Rows of a whole tile in one store, constants of I-BERT and of chance."""
    rng = np.random.default_rng(3)
    stream = NormStream(machine)
    constants = [gelu_constants(0.05), gelu_constants(0.8), (0, 0), (INT_MIN, INT_MAX), (-1, INT_MIN)]
    constants += [tuple(map(int, rng.integers(INT_MIN, INT_MAX, 2))) for _ in range(3)]
    for qb, qc in constants:
        stream.activate(I_GELU, float(rng.choice([1e-7, -1e-6, 1.0, 3e-4])))
        stream.constants(qb, qc)
        for cols in (1, machine.dim, 64):
            rows = int(rng.integers(1, machine.dim + 1))
            stream.load(rows_of(rng, rows, cols))
            stream.store(RESET, 0, rows, cols)
    stream.check(engine, tmp_path)


def test_i_gelu_of_likely_values_is_a_gelu(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    unit = 0.02
    stream = NormStream(machine)
    qb, qc = gelu_constants(unit)
    out = abs(unit * -0.2888 * (unit / 2**0.5) ** 2 / 2)  # of an accumulator's result
    stream.activate(I_GELU, -out / 0.03)
    stream.constants(qb, qc)
    x = np.arange(-32, 32) * 6
    stream.load(x[None])
    stream.store(RESET, 0, 1, 64)
    stream.check(engine, tmp_path)
    real = [0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3))) for v in x * unit]
    assert np.abs(np.frombuffer(stream.wanted[0], np.int8)[:64] * 0.03 - real).max() < 0.06


def test_commands_in_any_order(engine: str, machine: Accelerator, tmp_path: Path) -> None:
    """Statistics over several rows, of several rounds, without a beginning or an end; raw stores and those of other
    activations between; constants that overflow."""
    for seed in range(4):
        rng = np.random.default_rng(100 + seed)
        stream = NormStream(machine)
        stream.activate(0)
        stream.load(rows_of(rng, machine.dim, 3 * machine.dim))
        for _ in range(150):
            action = int(rng.integers(12))
            if action == 0:
                stream.activate(
                    int(rng.integers(5)), float(rng.choice([1.0, -1.0, 0.004, 1e-6, 77.7, np.inf, 0.0]))
                )
            elif action == 1:
                if stream.activation == SOFTMAX and rng.random() < 0.5:
                    stream.constants(*map(int, rng.integers(INT_MIN, INT_MAX, 4)))
                else:
                    stream.constants(*softmax_constants(float(rng.choice([0.5, 0.03, 0.0007]))))
            elif action == 2:
                stream.slot(int(rng.integers(2)))
            elif action == 3:
                stream.load(rows_of(rng, machine.dim, 3 * machine.dim))
            else:
                rows = int(rng.integers(1, machine.dim + 1))
                cols = int(rng.integers(1, min(3 * machine.dim, 64) + 1))
                norm = int(rng.integers(8)) if rng.random() < 0.8 else RESET
                full = norm == RESET and stream.activation < 2 and rng.random() < 0.3
                stream.store(norm, 0, rows, min(cols, machine.dim) if full else cols, full=full)
        stream.check(engine, tmp_path)


def test_what_does_not_end_statistics(engine: str, tmp_path: Path) -> None:
    """Sums go on over pooled and 1-D stores and copies into the scratchpad, and over a softmax's inverse; results of any
    kind, raw ones too, make an end. The largest element is forgotten with the inverse."""
    machine = MACHINES["small"]
    rng = np.random.default_rng(8)
    between: list[list[str]] = [
        [command("CONFIG_ST", stride=4, pool_size=1, pool_stride=1, orows=1, ocols=1, porows=1, pocols=1)],
        [command("CONFIG_ST", stride=4, pool_size=1, orows=1, ocols=1)],
    ]
    for configuration in between:
        configuration.append(command("MVOUT", address=BASE + 0x3F000, local=1 << 31, cols=4, rows=1))
    between.append(
        [command("MVOUT_SPAD", destination=0, destination_stride=1, local=1 << 31, cols=4, rows=1)]
    )
    stream = NormStream(machine)
    stream.constants(*softmax_constants(0.01))
    for lines in between:
        stream.activate(LAYER_NORM, 3.0)
        stream.load(rng.integers(-90, 90, (1, 8)))
        stream.store(SUM, 0, 1, 8)
        stream.activate(0)
        stream.lines += lines
        stream.activate(LAYER_NORM, 3.0)
        stream.load(rng.integers(0, 90, (1, 4)))
        stream.store(MEAN, 0, 1, 4)
        stream.store(INV_STDDEV, 0, 1, 4)
        stream.store(RESET, 0, 1, 4)
    for full in (False, True):
        stream.activate(0)
        stream.load(rng.integers(-90, 90, (1, 8)))
        stream.store(SUM, 0, 1, 8)
        stream.store(RESET, 0, 1, 4, full=full)
        stream.activate(LAYER_NORM)
        stream.store(MEAN, 0, 1, 8)
        stream.store(RESET, 0, 1, 8)
    for later in (SUM_EXP, INV_SUM_EXP):
        stream.activate(SOFTMAX)
        stream.load(rng.integers(-90, 90, (1, 8)))
        for norm in (MAX, INV_SUM_EXP, later, RESET, MAX, later, RESET):
            stream.store(norm, 0, 1, 8)
    stream.check(engine, tmp_path)


def four_squares(total: int) -> list[int]:
    """Four numbers whose squares add up to a total (Lagrange)."""
    for a in range(isqrt(total), -1, -1):
        for b in range(isqrt(total - a * a), -1, -1):
            rest = total - a * a - b * b
            c = next(
                (c for c in range(isqrt(rest), -1, -1) if isqrt(rest - c * c) ** 2 == rest - c * c), None
            )
            if c is not None:
                return [a, b, c, isqrt(rest - c * c)]
    raise AssertionError(total)


def test_deviations_jump_at_squares(engine: str, tmp_path: Path) -> None:
    """Square roots at both sides of many jumps, their inverses, and what results of them."""
    machine = MACHINES["small"]
    stream = NormStream(machine)
    stream.activate(LAYER_NORM, 1.0)
    stream.load(np.array([[1, -1, 0, 0]]))
    stream.store(MEAN, 0, 1, 4)
    for root in (*range(1, 50), 255, 256, 4095, 4096, 23170, 46340):
        for variance in {root * root, root * root - 1}:
            # the mean of four even squares; the largest one is that of a number alone
            alone = 4 * variance > INT_MAX
            if alone and variance != root * root:
                continue
            stream.load(np.array([[root] if alone else [2 * n for n in four_squares(variance)]]))
            stream.store(INV_STDDEV, 0, 1, 1 if alone else 4)
            wanted = np.float32(1) / np.float32(max(1, isqrt(variance)))
            assert stream.model.slots[0].inv_stddev == wanted
            stream.load(wrap(np.array([[root * 41, root * 5 // 2, -(root * 3) // 2, INT_MAX]])))
            stream.store(RESET, 0, 1, 4)
    stream.check(engine, tmp_path)


def row_of_deviation(deviation: int, cols: int) -> Ints:
    """A row whose mean is 0 and whose variance is the deviation's square."""
    assert cols % 2 == 0
    return np.array([[deviation, -deviation] * (cols // 2)])


def nearest_even(value: Fraction) -> int:
    """The int8 nearest to a number, the even one of two."""
    return max(-128, min(127, round(value)))


def test_layer_norm_is_the_quotient_rounded_once(engine: str, tmp_path: Path) -> None:
    """Every element up to eight deviations around the mean, for deviations like those of Gemmini's own test, which expects
    an exact quotient to the nearest integer, ties to even. (From 14 on the float32 inverse pushes some ties away.) The
    mean is not always 0."""
    machine = MACHINES["wide"]
    stream = NormStream(machine)
    wanted = []
    for deviation in range(1, 14):
        mean = deviation % 3 * 100
        stream.activate(LAYER_NORM, 1.0)
        stream.load(mean + row_of_deviation(deviation, 16))
        stream.store(MEAN, 0, 1, 16)
        stream.store(INV_STDDEV, 0, 1, 16)
        elements = np.arange(-8 * deviation, 8 * deviation + 1)
        for piece in np.array_split(elements, -(-len(elements) // 64)):
            stream.load(mean + piece[None])
            stream.store(RESET, 0, 1, len(piece))
            exact = [nearest_even(Fraction(int(one), deviation)) for one in piece]
            assert list(np.frombuffer(stream.wanted[-1], np.int8)[: len(piece)]) == exact
            wanted.append((deviation, dict(zip(map(int, piece), exact, strict=True))))
    stream.check(engine, tmp_path)
    assert {-3: -2, -1: 0, 1: 0, 3: 2, 5: 2}.items() <= next(one for two, one in wanted if two == 2).items()


def float32(value: Fraction) -> Fraction:
    """The float32 nearest to a number that is not subnormal, by rational arithmetic."""
    if value == 0:
        return value
    unit = Fraction(1)
    while abs(value) >= unit * 2**24:
        unit *= 2
    while abs(value) < unit * 2**23:
        unit /= 2
    return round(value / unit) * unit


@pytest.mark.parametrize("scale", [0.3333, -0.5, 25.0, 1 / 127, 3e-38, 1e30])
def test_layer_norm_multiplies_both_factors_first(engine: str, scale: float, tmp_path: Path) -> None:
    """Inverse deviation and scale give one float32, the element times that another; the one integer is rounded from it."""
    machine = MACHINES["wide"]
    rng = np.random.default_rng(5)
    stream = NormStream(machine)
    factor = Fraction(float(np.float32(scale)))
    for deviation in (1, 3, 7, 10, 141, 1000, 23170):
        stream.activate(LAYER_NORM, scale)
        stream.load(row_of_deviation(deviation, 2))
        stream.store(MEAN, 0, 1, 2)
        stream.store(INV_STDDEV, 0, 1, 2)
        both = float32(float32(Fraction(1, deviation)) * factor)
        elements = rng.integers(-40 * deviation, 40 * deviation + 1, 64)
        stream.load(elements[None])
        stream.store(RESET, 0, 1, 64)
        exact = [nearest_even(float32(float32(Fraction(int(one))) * both)) for one in elements]
        assert list(np.frombuffer(stream.wanted[-1], np.int8)[:64]) == exact
    stream.check(engine, tmp_path)


def test_inverses_of_sums_are_rounded_once(engine: str, tmp_path: Path) -> None:
    """Results in the middle of two integers, 127 * e / sum = k + 1/2: which one comes out tells the last bit of 127 / sum."""
    machine = MACHINES["small"]
    stream = NormStream(machine)
    stream.activate(SOFTMAX, 1.0)
    stream.constants(0, 0)  # exponentials are squares of distances from the largest element
    for odd in (3, 5, 7, 11, 51, 101, 127, 201, 253):
        for times in (1, 2, 3, 5, 7, 9, 11):
            total, distance = 254 * odd * times**2, odd * times
            distances = [distance, *four_squares(total - distance**2)]
            stream.load(-np.array([[0, *distances]]))
            for norm in (MAX, INV_SUM_EXP, RESET):
                stream.store(norm, 0, 1, 6)
            assert stream.model.slots[0].sum == total
    stream.check(engine, tmp_path)


def loop_ws(
    rng: np.random.Generator, stream: NormStream, activation: int, *, addition: bool, scale: float
) -> None:
    """One LOOP_WS of a random shape whose rows are normalised, with what it must leave in main memory."""
    machine, dim = stream.machine, stream.dim
    half = machine.accumulator_rows // 2 // dim
    i = int(rng.integers(1, 4))
    j = int(rng.integers(1, min(6, half // i) + 1))
    k = 1 if addition else int(rng.integers(1, 4))
    pads = [int(rng.choice([0, rng.integers(dim)])) for _ in range(3)]
    m, n, depth = i * dim - pads[0], j * dim - pads[1], k * dim - (0 if addition else pads[2])
    a = rng.integers(-128, 128, (m, n if addition else depth))
    b = rng.integers(-128, 128, (m, n) if addition else (depth, n))
    d = rng.integers(-(10**5), 10**5, (m, n))
    at = IN
    places = []
    for matrix, kind in ((a, "i1"), (b, "i1"), (d, "<i4")):
        stream.lines.append(f"fence\nwrite {at:x} {matrix.astype(kind).tobytes().hex()}\n")
        places.append(at)
        at += 0x8000
    pitch = n + int(rng.integers(5))
    stream.activate(activation, scale, pitch)
    shrink = int(addition)
    for state, matrix, size in ((0, a, 1), (1, b, 1), (2, d, 4)):
        stream.lines.append(
            command(
                "CONFIG_LD",
                state=state,
                stride=matrix.shape[1] * size,
                block_stride=dim,
                scale=1.0,
                shrink=shrink if state < 2 else 0,
            )
        )
    biased = not addition and rng.random() < 0.7
    lines = [
        command("CONFIG_EX", dataflow=1, activation=activation & 3, a_stride=1, c_stride=1),
        command("LOOP_WS_CONFIG_BOUNDS", pad_i=pads[0], pad_j=pads[1], pad_k=pads[2], i=i, j=j, k=k),
        command("LOOP_WS_CONFIG_ADDRS_AB", a=places[0], b=places[1]),
        command("LOOP_WS_CONFIG_ADDRS_DC", d=places[2] if biased else 0, c=stream.at),
        command("LOOP_WS_CONFIG_STRIDES_AB", a_stride=a.shape[1], b_stride=b.shape[1]),
        command("LOOP_WS_CONFIG_STRIDES_DC", d_stride=n, c_stride=pitch),
        command("LOOP_WS", ex_accumulate=int(biased), act=activation, is_resadd=int(addition)),
    ]
    stream.lines += lines
    c = a + b if addition else a @ b + (d if biased else 0)
    place = np.zeros((m, pitch), np.uint8)
    for r in range(m):
        stream.model.slot = r % dim % 2
        for norm in (MEAN, INV_STDDEV) if activation == LAYER_NORM else (MAX, INV_SUM_EXP):
            stream.model.take(c[r], norm)
        stream.model.take(c[r], RESET)
        place[r, :n] = stream.model.results(c[r], activation, scale) & 255
    size = (m - 1) * pitch + n
    stream.lines.append(f"fence\ndump {stream.at:x} {size:x}\n")
    stream.wanted.append(place.reshape(-1)[:size].tobytes())
    stream.at += -(-size // 64) * 64


@pytest.mark.parametrize("activation", [LAYER_NORM, SOFTMAX])
def test_loops_whose_rows_are_normalised(
    engine: str, machine: Accelerator, activation: int, tmp_path: Path
) -> None:
    """Products and additions of random shapes, one behind the other in both slots and accumulator halves."""
    rng = np.random.default_rng(20 + activation)
    stream = NormStream(machine)
    stream.constants(*softmax_constants(0.002))
    for _ in range(12):
        loop_ws(
            rng, stream, activation, addition=rng.random() < 0.3, scale=float(rng.choice([1.0, 37.5, -8.0]))
        )
    stream.check(engine, tmp_path)
