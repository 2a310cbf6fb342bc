"""The LOOP_WS unroller against an expansion written from the specification."""

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from baco.accel.config import Features
from baco.accel.isa import Command as IsaCommand
from tests.accel.legality.rule_interpreter import Legality, error_named
from tests.accel.testbench import BENCHES, RTL, build
from tests.gemmini.loop_ws import (
    ADDRS_AB,
    ADDRS_DC,
    BOUNDS,
    CONFIGS,
    LOOP_WS,
    PHASES,
    SPAD_AB,
    SPAD_C,
    STRIDES_AB,
    STRIDES_DC,
    Command,
    LoopWs,
    Raw,
)
from tests.seeds import seeds

SOURCES = [RTL / f"baco_loop_ws{name}.v" for name in ["", "_check", "_walk", "_execute", "_store"]]
FEATURES = ["BACO_READ_FULL", "BACO_READ_SMALL"]
COUNTER_OP = 126


@dataclass(frozen=True)
class Unit:
    """Parameters of one build."""

    dim: int
    sp_rows: int
    acc_rows: int
    dma_max_bytes: int

    def expansion(self) -> LoopWs:
        return LoopWs(self.dim, self.sp_rows, self.acc_rows, self.dma_max_bytes)

    def build(self) -> Path:
        parameters = {
            "DIM": self.dim,
            "SP_ROWS": self.sp_rows,
            "ACC_ROWS": self.acc_rows,
            "DMA_MAX_BYTES": self.dma_max_bytes,
        }
        return build(SOURCES, "baco_loop_ws", parameters, FEATURES, BENCHES / "loop_ws_bench.cpp")

    def legality(self) -> Legality:
        """The rules, with everything configured as loops want it."""
        row_bits = max(self.sp_rows - 1, self.acc_rows - 1).bit_length()
        sizes = {"DIM": self.dim, "SCRATCHPAD_ROWS": self.sp_rows, "ACCUMULATOR_ROWS": self.acc_rows}
        features = dict.fromkeys(Features.model_fields, 1) | {"normalizations": 0}
        legality = Legality({**sizes, "ROW_BITS": row_bits, "WS": 1, "OS": 1, **features})
        legality.state |= {"ex_configured": 1, "weight_stationary": 1, "st_configured": 1}
        legality.state |= {"ld_configured": [1] * 3, "ld_block_stride": [self.dim] * 3, "ld_repeats": [1] * 3}
        return legality


UNITS = [
    Unit(2, 256, 128, 8),  # loads of 4 blocks, of 1 accumulator block
    Unit(4, 600, 300, 64),  # 16 and 4 blocks, halves that are not whole blocks
    Unit(8, 1600, 640, 8),  # 1 block
    Unit(16, 16384, 1024, 64),
]
UNIT_IDS = [f"dim{unit.dim}" for unit in UNITS]


@dataclass(frozen=True)
class Out:
    """A command that came out, and how many had gone in by then."""

    taken: int
    raw: Raw
    tag: int  # rd + 256 * xd
    error: int = 0


def run(
    unit: Unit, folder: Path, commands: list[tuple[Raw, int]], seed: int, chances: tuple[int, ...]
) -> list[Out]:
    """Commands with their tags through the RTL; `chances` as in the bench."""
    words = [seed, len(commands), *chances]
    for raw, tag in commands:
        words += [*raw, tag]
    source, target = folder / "input", folder / "output"
    source.write_bytes(np.array(words, np.uint64).tobytes())
    done = subprocess.run([unit.build(), source, target], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = np.frombuffer(target.read_bytes(), np.uint64).reshape(-1, 6).tolist()
    return [
        Out(taken, Raw(funct, rs1, rs2), tag & 0xFFFF, tag >> 16) for _, taken, funct, rs1, rs2, tag in rows
    ]


def verdict(legality: Legality, raw: Raw, tag: int) -> int | None:
    """Error code with which a command of this unroller passes, None when it is taken."""
    if tag >> 8:
        return 0  # asked for a result: that is found behind
    low_d = raw.rs1 >> 2 & 1
    legality.state["ld_shrink"] = [1, 1, low_d]
    refusal = legality.check(IsaCommand(*raw))
    return refusal.error.code if refusal else None


def check(unit: Unit, commands: list[tuple[Raw, int]], outs: list[Out]) -> None:
    """Compares what came out with the expansion: streams, their order, and the order of accesses to each row.

    What the rules refuse passes with its error.
    """
    expansion, legality = unit.expansion(), unit.legality()
    position = 0
    loops: list[dict[str, list[Command]]] = []

    def finish_loops() -> None:
        nonlocal position
        count = sum(len(stream) for loop in loops for stream in loop.values())
        emitted = outs[position : position + count]
        assert all((out.tag, out.error) == (0, 0) for out in emitted)
        position += count
        check_loops(loops, [out.raw for out in emitted])
        loops.clear()

    for index, (raw, tag) in enumerate(commands):
        error = verdict(legality, raw, tag) if raw.funct in (LOOP_WS, *CONFIGS) else 0
        if error is not None:
            finish_loops()
            assert outs[position] == Out(index, raw, tag, error)
            position += 1
        else:
            loop = expansion.feed(raw)
            if loop is not None:
                loops.append(loop)
    finish_loops()
    assert position == len(outs)


def check_loops(loops: list[dict[str, list[Command]]], emitted: list[Raw]) -> None:
    order = []  # (loop, phase, index) of each command that came out
    waiting = {
        name: [(n, name, index) for n, loop in enumerate(loops) for index in range(len(loop[name]))][::-1]
        for name in PHASES
    }
    phase_of = {funct: name for name, functs in PHASES.items() for funct in functs}
    for raw in emitted:
        phase = phase_of[raw.funct]
        assert waiting[phase], f"too many commands of phase {phase}: {raw}"
        key = waiting[phase].pop()
        expected = loops[key[0]][phase][key[2]].raw
        assert raw == expected, f"{key}: {tuple(map(hex, raw))} instead of {tuple(map(hex, expected))}"
        order.append(key)
    assert not any(waiting.values())
    sequential = [
        (n, phase, index)
        for n, loop in enumerate(loops)
        for phase in PHASES
        for index in range(len(loop[phase]))
    ]
    assert accesses(loops, order) == accesses(loops, sequential)


def accesses(
    loops: list[dict[str, list[Command]]], order: Iterable[tuple[int, str, int]]
) -> dict[tuple[str, int], list[object]]:
    """For each local row the commands that write it, in order, and between them the sets of those that read it."""
    history: dict[tuple[str, int], list[object]] = defaultdict(lambda: [frozenset()])
    for key in order:
        command = loops[key[0]][key[1]][key[2]]
        written = {
            (memory, row) for memory, start, count in command.writes for row in range(start, start + count)
        }
        read = {
            (memory, row) for memory, start, count in command.reads for row in range(start, start + count)
        }
        for row in read - written:
            history[row][-1] |= {key}  # type: ignore[operator]
        for row in written:
            history[row] += [key, frozenset()]
    return dict(history)


@cache
def _bounds(unit: Unit, resadd: bool) -> list[tuple[int, int, int]]:
    """All (I, J, K) up to 9 that fit, K also 0 where it does not matter."""
    half, acc_half = unit.sp_rows // 2 // unit.dim, unit.acc_rows // 2 // unit.dim
    return [
        (i, j, k)
        for i in range(1, 10)
        for j in range(1, 10)
        for k in range(0 if resadd else 1, 10)
        if i * j <= acc_half and (resadd or (i + j) * k <= half) and i * j * k <= 120
    ]


class Program:
    """Random commands."""

    def __init__(self, unit: Unit, seed: int, resadd_chance: float = 0.15) -> None:
        self.unit = unit
        self.random = np.random.default_rng(seed)
        self.commands: list[tuple[Raw, int]] = []
        self.resadd_chance = resadd_chance

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def word(self, bits: int) -> int:
        return int(self.random.integers(0, 1 << 63, dtype=np.uint64)) * 2 % (1 << bits) | int(
            self.random.integers(2)
        )

    def address(self, null_chance: float) -> int:
        return 0 if self.chance(null_chance) else self.word(64 if self.chance(0.1) else 40) or 1

    def stride(self) -> int:
        return self.word(64 if self.chance(0.1) else 12)

    def plain(self) -> None:
        """A command for someone else, or a loop that is not built."""
        funct = int(self.random.choice([0, 2, 4, 6, 3, 7, 22, COUNTER_OP, LOOP_WS, 15, 127]))
        rs1 = self.word(64)
        if funct == LOOP_WS:
            rs1 = rs1 & ~0x700 | int(self.random.choice([2, 4])) << 8
        self.commands.append((Raw(funct, rs1, self.word(64)), self.word(5) | self.word(1) << 8))

    def loop(
        self,
        bounds: tuple[int, int, int],
        rs1: int = 0,
        rs2: int = 0,
        nulls: float = 0.1,
        extra: Iterable[Raw] = (),
    ) -> None:
        """A loop with random addresses and pads, its configuration commands in random order."""
        pads = [int(self.random.integers(self.unit.dim)) if self.chance(0.6) else 0 for _ in range(3)]
        setup = [
            Raw(
                BOUNDS,
                sum(pad << 16 * n for n, pad in enumerate(pads)),
                sum(b << 16 * n for n, b in enumerate(bounds)),
            ),
            Raw(ADDRS_AB, self.address(nulls), self.address(nulls)),
            # an addition must not have a D
            Raw(ADDRS_DC, 0 if rs2 & 4 else self.address(0.5), self.address(0.3)),
            Raw(STRIDES_AB, self.stride(), self.stride()),
            Raw(STRIDES_DC, self.stride(), self.stride()),
            *extra,
        ]
        order = self.random.permutation(len(setup))
        self.commands += [(setup[n], 0) for n in order]
        self.commands.append((Raw(LOOP_WS, rs1, rs2), 0))

    def random_loop(self, skips: float = 0.05, nulls: float = 0.1) -> None:
        resadd = self.chance(self.resadd_chance)
        choices = _bounds(self.unit, resadd)
        bounds = choices[int(self.random.integers(len(choices)))]
        act = int(self.random.choice([0, 1, 3, 5]))
        rs1 = self.word(3) | act << 8
        if self.chance(0.3):
            rs1 |= int(self.random.integers(3)) << 16 | int(self.random.integers(3)) << 18
        rs2 = 0 if resadd else int(self.random.integers(3))
        rs2 |= resadd << 2 | sum(self.chance(skips) << n for n in range(3, 8))
        extra = [Raw(SPAD_C, self.word(64), self.word(64))] if self.chance(0.1) else []
        self.loop(bounds, rs1, rs2, nulls, extra)


def _chances(seed: int) -> tuple[int, ...]:
    """Various kinds of throttling: none, all scarce, one class scarce."""
    values = [
        [256] * 5,
        [128, 40, 60, 40, 128],
        [256, 30, 256, 256, 256],
        [256, 256, 50, 256, 80],
        [256, 256, 256, 20, 256],
    ]
    return tuple(values[seed % len(values)])


@pytest.mark.parametrize("unit", UNITS, ids=UNIT_IDS)
@pytest.mark.parametrize("seed", seeds(2, of=10))
def test_random_loops(unit: Unit, seed: int, tmp_path: Path) -> None:
    program = Program(unit, seed)
    for _ in range(24):
        program.random_loop()
        while program.chance(0.1):
            program.plain()
    outs = run(unit, tmp_path, program.commands, seed, _chances(seed))
    check(unit, program.commands, outs)


@pytest.mark.parametrize("unit", UNITS, ids=UNIT_IDS)
def test_additions(unit: Unit, tmp_path: Path) -> None:
    program = Program(unit, 1, resadd_chance=1.0)
    for _ in range(100):
        program.random_loop(skips=0.0, nulls=0.25)
    check(unit, program.commands, run(unit, tmp_path, program.commands, 1, (256, 200, 256, 200, 256)))


@pytest.mark.parametrize("unit", UNITS, ids=UNIT_IDS)
@pytest.mark.parametrize("seed", seeds(1, of=3))
def test_skipped_phases(unit: Unit, seed: int, tmp_path: Path) -> None:
    """Loops that only load, only multiply or only store, in any sequence."""
    program = Program(unit, seed, resadd_chance=0.05)
    for _ in range(40):
        program.random_loop(skips=0.4)
    check(unit, program.commands, run(unit, tmp_path, program.commands, seed, _chances(seed + 1)))


@pytest.mark.parametrize("unit", UNITS, ids=UNIT_IDS)
def test_results_that_stay_in_the_scratchpad(unit: Unit, tmp_path: Path) -> None:
    """spad_only, the next loop reading the result where it was put (SPAD_AB, skip_a), also on top of its A."""
    program = Program(unit, 3)
    half = unit.sp_rows // 2
    c = 0
    for n in range(40):
        # A and C of square products in blocks of the lower half, away from what is loaded at the top of a half
        size = 2
        a, c = c, int(program.random.choice([0, size * size * unit.dim]))
        rs1 = program.word(1)
        rs2 = (1 << 3 if n else 0) | program.word(1) | program.word(1) << 8 | 1 << 9 | c << 32
        program.loop(
            (size, size, size), rs1, rs2, 0.0, [Raw(SPAD_AB, a, half * int(program.random.choice([1, 2])))]
        )
        if program.chance(0.2):
            program.plain()
    check(unit, program.commands, run(unit, tmp_path, program.commands, 3, (256, 100, 200, 100, 256)))


@pytest.mark.parametrize("unit", UNITS, ids=UNIT_IDS)
@pytest.mark.parametrize("seed", range(3))
def test_illegal_loops_pass_with_their_error(unit: Unit, seed: int, tmp_path: Path) -> None:
    """Sizes at their limits, every flag, incomplete configurations, any place: taken or not as the rules say."""
    program = Program(unit, 100 + seed)
    r = program.random
    half, acc_half = unit.sp_rows // 2 // unit.dim, unit.acc_rows // 2 // unit.dim
    numbers = [0, 1, 1, 1, 2, 2, 3, half, half + 1, acc_half, acc_half + 1, 1 << 12, 65535]
    for _ in range(150):
        bounds = tuple(min(65535, int(r.choice(numbers))) for _ in range(3))
        if program.chance(0.5):
            bounds = (1, 1, int(r.integers(half // 2 - 1, half // 2 + 2)))
        if program.chance(0.2):
            bounds = (int(r.integers(1, 3)), acc_half // int(r.integers(1, 3)) + program.word(1), 1)
        rs1 = program.word(3) | int(r.choice([0, 0, 1, 2, 4])) << 8 | program.word(4) << 16
        rs2 = program.word(3) | sum(program.chance(0.3) << n for n in range(3, 8)) | program.chance(0.2) << 9
        rs2 |= int(r.choice([0, unit.sp_rows - 8 * unit.dim, unit.sp_rows, 1 << 31])) << 32
        extra = []
        if program.chance(0.2):
            places = [
                int(r.choice([0, unit.dim, unit.sp_rows // 2, unit.sp_rows, unit.sp_rows + 1])) for _ in "ab"
            ]
            extra = [Raw(SPAD_AB, places[0], places[1] | program.word(1) << 31)]
        start = len(program.commands)
        program.loop(bounds, rs1, rs2, 0.2, extra)
        if program.chance(0.1):
            del program.commands[int(r.integers(start, len(program.commands)))]
        if program.chance(0.1):
            program.commands[-1] = (program.commands[-1][0], program.word(5) | program.word(1) << 8)
        if program.chance(0.05):
            raw, tag = program.commands[start]
            program.commands[start] = (raw._replace(rs1=raw.rs1 | unit.dim << 16 * int(r.integers(3))), tag)
    outs = run(unit, tmp_path, program.commands, seed, _chances(seed))
    check(unit, program.commands, outs)
    names = ("NOT_BUILT", "BAD_SIZE", "BAD_FLAGS", "LOCAL_ADDRESS", "INCOMPLETE")
    assert {out.error for out in outs} == {0, *(error_named(name).code for name in names)}


@pytest.mark.parametrize("unit", UNITS, ids=UNIT_IDS)
def test_placement_by_software(unit: Unit, tmp_path: Path) -> None:
    """SPAD_AB puts A and B anywhere, also where the loop before has its own; it stays with the slot."""
    program = Program(unit, 7)
    sizes = [(1, 1, 1), (1, 1, 1)]  # by slot; loops without SPAD_AB find the places of the slot's loop before
    for n in range(60):
        extra = []
        if n % 4 < 2:
            i, j, k = (int(program.random.integers(1, 4)) for _ in range(3))
            rows = (i * k + k * j) * unit.dim
            end = int(program.random.integers(rows, unit.sp_rows + 1))
            extra = [Raw(SPAD_AB, int(program.random.integers(0, end - rows + 1)), end)]
            sizes[n % 2] = (i, j, k)
        program.loop(sizes[n % 2], program.word(3), program.word(1), 0.2, extra)
    check(unit, program.commands, run(unit, tmp_path, program.commands, 7, (256, 80, 200, 200, 256)))


@pytest.mark.parametrize("unit", UNITS, ids=UNIT_IDS)
def test_loads_for_the_next_loop(unit: Unit, tmp_path: Path) -> None:
    """Loops that only load, each followed by one that multiplies what is there."""
    program = Program(unit, 4)
    load_only, product_only = 1 << 6 | 1 << 7, 1 << 3 | 1 << 4 | 1 << 5
    for n in range(20):
        ids = (n % 2 + 1) * (1 << 16 | 1 << 18)
        program.loop((2, 3, 2), ids, load_only, 0.0)
        program.loop((2, 3, 2), ids, product_only, 0.0)
        if n % 2 and program.chance(0.5):
            program.plain()
    check(unit, program.commands, run(unit, tmp_path, program.commands, 4, (256, 60, 256, 256, 256)))


def test_a_tile_is_pipelined(tmp_path: Path) -> None:
    """Products begin long before the loads are through, stores long before the products are."""
    unit = UNITS[3]
    program = Program(unit, 5)
    program.loop((4, 8, 8), nulls=0.0)
    commands = [
        (raw._replace(rs1=0, rs2=1 << 32) if raw.funct == ADDRS_DC else raw, tag)
        for raw, tag in program.commands
    ]
    outs = run(unit, tmp_path, commands, 5, (256, 256, 256, 256, 256))
    check(unit, commands, outs)
    functs = [out.raw.funct for out in outs]
    assert functs[:4] == [1, 2, 6, 4], "one block of B and of A, then the first product"
    last_product = max(n for n, funct in enumerate(functs) if funct in PHASES["ex"])
    assert functs.index(3) < last_product // 2 + 20


@pytest.mark.parametrize("unit", UNITS, ids=UNIT_IDS)
def test_groups_of_columns_change_nothing_but_order(unit: Unit) -> None:
    """The commands are those of the order k, j, i over the whole tile, and each row of C adds up in order of k."""
    program = Program(unit, 6)
    for _ in range(60):
        program.random_loop()
    ours, gemmini = unit.expansion(), unit.expansion()
    gemmini.gemmini_order = True
    for raw, _ in program.commands:
        loop, other = ours.feed(raw), gemmini.feed(raw)
        for phase in PHASES if loop and other else ():
            assert loop is not None
            assert other is not None
            assert sorted(command.raw for command in loop[phase]) == sorted(
                command.raw for command in other[phase]
            )
            assert by_row(loop[phase]) == by_row(other[phase])


def by_row(commands: list[Command]) -> dict[tuple[str, int], list[Raw]]:
    """The commands that write a row, in order."""
    found: dict[tuple[str, int], list[Raw]] = defaultdict(list)
    for command in commands:
        for memory, start, count in command.writes:
            for row in range(start, start + count):
                found[memory, row].append(command.raw)
    return found


def test_the_check_finds_wrong_orders() -> None:
    """The oracle itself: a store before its product, and a wrong size, are noticed."""
    expansion = LoopWs(2, 64, 32, 8)
    loops = []
    for funct, rs1, rs2 in [
        (BOUNDS, 0, 1 << 32 | 1 << 16 | 1),
        (ADDRS_AB, 1000, 2000),
        (ADDRS_DC, 0, 3000),
        (STRIDES_AB, 8, 8),
        (STRIDES_DC, 8, 8),
        (LOOP_WS, 0, 0),
    ]:
        loop = expansion.feed(Raw(funct, rs1, rs2))
        loops += [loop] if loop else []
    a, b, preload, compute, store = [
        command.raw for phase in ("a", "b", "ex", "st") for command in loops[0][phase]
    ]
    check_loops(loops, [b, a, preload, compute, store])
    for wrong in [
        [b, a, preload, store, compute],
        [b, preload, a, compute, store][::-1],
        [a, preload, b, compute, store],
    ]:
        with pytest.raises(AssertionError):
            check_loops(loops, wrong)
    with pytest.raises(AssertionError):
        check_loops(loops, [b, a, preload, compute, store._replace(rs2=store.rs2 + 1)])
