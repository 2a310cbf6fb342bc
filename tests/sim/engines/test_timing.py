"""The timing of the original Gemmini: what its memory system counts against a brute-force cache, results against the
functional model, and cycles against those measured on the original's RTL."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from baco.accel.config import Accelerator
from baco.bench.streaming import streamed_products
from baco.bench.timing import bench_timing
from baco.common.errors import InfeasibleError, InputError
from baco.sim.cosim.run import random_stream
from baco.sim.cosim.stream import BASE, MEMORY_BYTES
from baco.sim.engines.base import run_job
from baco.sim.job import Job, MainMemory, Recording, Simulation
from tests.machines import GEMMINI, SCARCE, SMALL, WHOLE, WHOLE_PLAIN
from tests.sim.harness_helpers import command
from tests.sim.riscv_programs import compile_program

MEASURED = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "original-rtl"
LINE, WAYS, SETS = 64, 8, 1024
#: Of 16 x 16, with a bus of 16 bytes.
DEFAULT = GEMMINI


def run(stream: str, folder: Path, machine: Accelerator = DEFAULT, *, engine: str = "rtl") -> Simulation:
    path = folder / "stream.txt"
    path.write_text(stream)
    return run_job(
        Job(machine, stream=path, timing="gemmini" if engine == "rtl" else "baco"),
        engine=engine,
    )


class BruteForceCache:
    """Lines by way, set by set. What is replaced says a shift register of 16 bits, which each request shifts by one: free or
    not, the way that its tenth to eighth bit count."""

    def __init__(self) -> None:
        self.sets: list[list[int | None]] = [[None] * WAYS for _ in range(SETS)]
        self.dirty: set[int] = set()
        self.bits = [1] + 15 * [0]  # the lowest first
        self.hits = self.misses = self.written_back = 0

    def touch(self, address: int, *, write: bool) -> None:
        line = address // LINE
        lines = self.sets[line % SETS]
        way = 4 * self.bits[9] + 2 * self.bits[8] + self.bits[7]
        self.bits = [sum(self.bits[at] for at in (15, 13, 12, 10)) % 2, *self.bits[:-1]]
        if line in lines:
            self.hits += 1
        else:
            self.misses += 1
            gone, lines[way] = lines[way], line
            self.written_back += gone in self.dirty
            self.dirty -= {gone}
        if write:
            self.dirty.add(line)


def requests(address: int, count: int) -> list[tuple[int, int]]:
    """Naturally aligned pieces of 16, 32 and 64 bytes: the one that brings most of what is left, the smallest of those."""
    found = []
    while count:
        pieces = [(size, min(size - address % size, count)) for size in (16, 32, 64)]
        size, useful = max(pieces, key=lambda piece: (piece[1], -piece[0]))
        found.append((address - address % size, size))
        address, count = address + useful, count - useful
    return found


def test_requests_hits_and_evictions_are_those_of_a_brute_force_cache(tmp_path: Path) -> None:
    draw = random.Random(5)
    lines, cache, asked, asked_bytes, beats = [], BruteForceCache(), 0, 0, 0
    for round_ in range(6):
        writes = round_ % 2 == 1
        stride = draw.choice((24, 64, 100, 1000))
        if writes:
            lines.append(command("CONFIG_ST", stride=stride, acc_scale=1.0))
        else:
            lines.append(command("CONFIG_LD", state=0, stride=stride, block_stride=16, scale=1.0))
        for _ in range(220):
            # memory of three times the cache, and lines that are asked for again
            address = BASE + draw.randrange(3 << 19) // draw.choice((1, 16))
            rows, cols = draw.randint(1, 16), draw.randint(1, 64)
            name, place = ("MVOUT", "local") if writes else ("MVIN", "local")
            lines.append(
                command(name, address=address, **{place: draw.randrange(8000)}, cols=cols, rows=rows)
            )
            for row in range(rows):
                for start, size in requests(address + row * stride, cols):
                    cache.touch(start, write=writes)
                    if writes:
                        beats += size // 16
                    else:
                        asked, asked_bytes = asked + 1, asked_bytes + size
        lines.append("fence\n")
    counters = run("".join(lines), tmp_path).counters
    assert counters["memory_read_requests"] == asked
    assert counters["memory_read_request_bytes"] == asked_bytes
    assert counters["memory_write_beats"] == beats
    assert counters["memory_l2_hits"] == cache.hits
    assert counters["memory_l2_misses"] == cache.misses
    assert counters["memory_l2_writebacks"] == cache.written_back > 0


def test_victims_cost_a_stream_cycles_and_free_ways_none(tmp_path: Path) -> None:
    """Half of the cache read line by line, then as much of what lies beyond, when it is full and when it is not."""

    def stream(first: int, lines: int) -> str:
        moves = (
            command("MVIN", address=BASE + (first + at) * LINE, local=0, cols=LINE, rows=16)
            for at in range(0, lines, 16)
        )
        return "".join(moves) + "fence\n"

    setup = command("CONFIG_LD", state=0, stride=LINE, block_stride=16, scale=1.0)
    lines = WAYS * SETS // 2

    def cycles_of_the_last(before: int) -> int:
        earlier = setup + (stream(0, before) if before else "")
        whole, part = (run(text, tmp_path) for text in (earlier + stream(before, lines), earlier))
        assert whole.cycles is not None
        assert part.cycles is not None
        misses = whole.counters["memory_l2_misses"] - part.counters["memory_l2_misses"]
        assert misses == lines
        return whole.cycles - part.cycles

    empty, full = cycles_of_the_last(0), cycles_of_the_last(6 * lines)
    # the memory bus takes eight cycles a line at least
    assert 8 * lines <= empty < full


def loads(cols: int, rows: int, stride: int, count: int) -> str:
    text = command("CONFIG_LD", state=0, stride=stride, block_stride=16, scale=1.0)
    return text + count * (command("MVIN", address=BASE, local=0, cols=cols, rows=rows) + "fence\n")


def test_a_row_of_few_bytes_takes_what_a_beat_takes(tmp_path: Path) -> None:
    few, beat = (run(loads(cols, 16, 64, 20), tmp_path) for cols in (3, 16))
    assert few.cycles == beat.cycles


def test_lines_that_are_there_come_at_the_bus_width_and_no_faster(tmp_path: Path) -> None:
    often, once = (
        run(
            command("CONFIG_LD", state=0, stride=64, block_stride=16, scale=1.0) + count * wide, tmp_path
        ).cycles
        for wide in (command("MVIN", address=BASE, local=0, cols=64, rows=16),)
        for count in (201, 101)
    )
    assert often is not None
    assert once is not None
    moved = 100 * 16 * 64
    assert moved / 16 <= often - once <= 1.1 * moved / 16


# (scaling lanes are ours alone)
@pytest.mark.parametrize("machine", [WHOLE_PLAIN.replace(scale_lanes=128), SMALL], ids=lambda one: one.name)
def test_random_streams_end_with_the_results_of_the_functional_model(
    tmp_path: Path, machine: Accelerator
) -> None:
    for index in range(12):
        draw = random.Random(index)
        text = [f"write {BASE:x} {draw.randbytes(MEMORY_BYTES).hex()}\n"]
        for item in random_stream(machine, seed=3, index=index).items:
            text.append("fence\n" if item is None else f"cmd {item.funct:x} {item.rs1:x} {item.rs2:x}\n")
        text.append(f"fence\ndump {BASE:x} {MEMORY_BYTES:x}\n")
        ours = run("".join(text), tmp_path, machine)
        expected = run("".join(text), tmp_path, machine, engine="functional")
        assert ours.memory_dumps == expected.memory_dumps
        assert ours.unrolled == expected.unrolled
        assert ours.commands == expected.commands


def test_row_functions_are_none_of_the_originals(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="the original Gemmini has no row functions"):
        run("fence\n", tmp_path, WHOLE)


def test_scales_of_columns_are_none_of_the_originals(tmp_path: Path) -> None:
    machine = SMALL.replace(features={"requantization": True})
    with pytest.raises(InfeasibleError, match="does not requantise by column"):
        run("fence\n", tmp_path, machine)


def test_the_originals_normaliser_has_no_model(tmp_path: Path) -> None:
    normalized = SMALL.replace(features={"normalizations": True})
    with pytest.raises(InfeasibleError, match="cycles has no normaliser"):
        run("fence\n", tmp_path, normalized)


def test_a_program_computes_and_checks_a_product(tmp_path: Path) -> None:
    elf = compile_program(tmp_path / "matmul.elf", Path("matmul.c"), "-DDIM=4")
    result = run_job(Job(SMALL, program=elf, timing="gemmini"), engine="rtl")
    assert (result.exit_code, result.console) == (0, "matmul is right\n")
    assert result.cycles == result.counters["host_cycles"]
    assert any("original Gemmini" in note for note in result.notes)


#: Ten products one after the other, and what waits for the last, again and again.
_PRODUCTS = """
int main(void) {
  uint64_t one = FACTOR, product;
  for (int i = 0; i < ROUNDS; ++i)
    __asm__ volatile(".rept 10\\n mul %0, %1, %1\\n .endr\\n addi %0, %0, 1" : "=r"(product) : "r"(one));
  return 0;
}
"""


@pytest.mark.parametrize(("factor", "steps"), [("0x7f", 2), ("0x7fff", 3), ("0x7fffffffll", 5), ("-1ll", 8)])
def test_the_core_multiplies_eight_bits_a_cycle_until_the_rest_is_zero(
    tmp_path: Path, factor: str, steps: int
) -> None:
    """Steps by the published multiplier: it looks whether the rest is zero behind each step but the first."""

    def cycles(value: str, rounds: int) -> int:
        elf = compile_program(tmp_path / "products.elf", _PRODUCTS, f"-DFACTOR={value}", f"-DROUNDS={rounds}")
        found = run_job(Job(SMALL, program=elf, timing="gemmini"), engine="rtl").cycles
        assert found is not None
        return found

    # constants of other lengths are other instructions before the loop
    of_factor, of_one = (cycles(value, 100) - cycles(value, 50) for value in (factor, "1"))
    assert of_factor - of_one == 500 * (steps - 2)


#: Instructions of a loop, by what they do: those that write no register, that write one, products of one byte and of eight.
_STORE, _ADD, _SHORT, _LONG = (
    "sd a1, 0(sp)",
    "add {to}, {first}, a1",
    "mul {to}, a0, {first}",
    "mul {to}, a1, {first}",
)
_STEPS = {_SHORT: 2, _LONG: 8}

_LOOP = """
int main(void) {{
  __asm__ volatile(
      "li a0, 127\\n li a1, -1\\n li t6, {count}\\n addi sp, sp, -16\\n"
      "1: {body}\\n addi t6, t6, -1\\n bnez t6, 1b\\n addi sp, sp, 16\\n"
      ::: "a0", "a1", "t0", "t1", "t2", "t6", "memory");
  return 0;
}}
"""


def cycles_of_a_pipeline(code: list[tuple[str, str, str]], rounds: int) -> int:
    """Of four stages behind each other, cycle by cycle; each instruction is its kind, the register that it writes, and one that it reads.

    A product is ready so many cycles behind its decoding, and leaves its unit in the first cycle from then on in which the last
    stage writes no register. Decoding waits for what is read or written by it, and products for their unit.
    """
    cycle, late, ready = 0, "", 0
    decode = execute = memory = write = False  # whether what is there writes a register
    for kind, to, first in code * rounds:
        while True:
            cycle += 1
            decode, execute, memory, write = False, decode, execute, memory
            if late and cycle >= ready and not write:
                late = ""
            if not late or (late not in (to, first) and kind not in _STEPS):
                break
        decode = bool(to)
        if kind in _STEPS:
            late, ready = to, cycle + 2 + _STEPS[kind]
    return cycle


@pytest.mark.parametrize("seed", range(6))
def test_products_wait_for_a_cycle_in_which_nothing_else_is_written(tmp_path: Path, seed: int) -> None:
    draw, code = random.Random(seed), []
    for _ in range(40):
        kind = draw.choices((_STORE, _ADD, _SHORT, _LONG), weights=(2, 8, 2, 1))[0]
        to, first = (draw.choice(("t0", "t1", "t2")) for _ in range(2))
        code.append((kind, "", "") if kind is _STORE else (kind, to, first))
    body = "\\n".join(kind.format(to=to, first=first) for kind, to, first in code)
    code += [("addi", "t6", "t6"), ("bnez", "", "t6")]

    def cycles(count: int) -> int:
        elf = compile_program(tmp_path / "loop.elf", _LOOP.format(count=count, body=body))
        found = run_job(Job(SMALL, program=elf, timing="gemmini"), engine="rtl").cycles
        assert found is not None
        return found

    assert cycles(300) - cycles(100) == cycles_of_a_pipeline(code, 300) - cycles_of_a_pipeline(code, 100)


def counted(folder: Path, source: str, *flags: str) -> dict[str, int]:
    """Counters of a program in C."""
    elf = compile_program(folder / "program.elf", source, *flags)
    return dict(run_job(Job(SMALL, program=elf, timing="gemmini"), engine="rtl").counters)


#: A branch that goes as the bits of a word say, each round the next one.
_BRANCHES = """
int main(void) {
  uint64_t word = WORD, sum = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    __asm__ volatile(
        ".p2align 3\\n andi t0, %0, 1\\n beqz t0, 1f\\n .p2align 3\\n addi %1, %1, 1\\n .p2align 3\\n 1:"
        : "+r"(word), "+r"(sum) :: "t0");
    word = word >> 1 | word << 63;
  }
  return sum == 0;
}
"""


def surprises(word: int, rounds: int) -> int:
    """Branches of the program that do not do what they did when they, and the eight before them, hashed to the same.

    The hash is that of rocket-chip's BHT: half the root of three times two to the eighth, cut to a whole number, times the
    history, of which bits 7 to 5 count.
    """
    last: dict[tuple[str, int], bool] = {}
    history, found = [False] * 8, 0  # the latest is the highest bit
    for at in range(rounds):
        for branch, taken in (("bit", not word >> at % 64 & 1), ("loop", True)):
            past = sum(was << bit for bit, was in enumerate(reversed(history)))
            key = branch, math.floor(math.sqrt(3) / 2 * 256) * past // 32 % 8
            found += last.get(key, False) != taken
            last[key] = taken
            history = [taken, *history[:-1]]
    return found


@pytest.mark.parametrize("word", [2**64 - 1, 0x1111111111111111, 0x5555555555555555, 0x9E3779B97F4A7C15])
def test_a_branch_that_does_not_do_what_it_did_after_the_same_branches_costs_three_cycles(
    tmp_path: Path, word: int
) -> None:
    many, few = (
        counted(tmp_path, _BRANCHES, f"-DWORD={word:#x}ull", f"-DROUNDS={rounds}")["host_stall_branch"]
        for rounds in (512, 256)
    )
    assert many - few == 3 * (surprises(word, 512) - surprises(word, 256))


#: A line after the other, of four times the cache.
_LINES = """
static volatile uint8_t lines[1024][64] __attribute__((aligned(64)));
int main(void) {
  for (int round = 0; round < ROUNDS; ++round)
    for (int i = 0; i < 1024; ++i) ACCESS;
  return 0;
}
"""


def test_lines_that_were_written_to_cost_more_to_replace_and_reach_the_second_level(tmp_path: Path) -> None:
    def per_line(access: str, name: str) -> float:
        many, few = (
            counted(tmp_path, _LINES, f"-DACCESS={access}", f"-DROUNDS={rounds}")[name] for rounds in (9, 5)
        )
        return (many - few) / 4 / 1024

    # by chance some lines are still there
    for access in ("(void)lines[i][0]", "lines[i][0]=1"):
        assert 0.8 < per_line(access, "host_data_misses") < 1
    read, written = (
        per_line(access, "host_stall_data") / per_line(access, "host_data_misses")
        for access in ("(void)lines[i][0]", "lines[i][0]=1")
    )
    assert written == pytest.approx(read + 12, abs=0.5)
    hits = [per_line(access, "memory_l2_hits") for access in ("(void)lines[i][0]", "lines[i][0]=1")]
    assert hits[1] == pytest.approx(2 * hits[0], rel=0.02)


def test_what_the_timing_has_not_is_refused(tmp_path: Path) -> None:
    stream = tmp_path / "stream.txt"
    stream.write_text("fence\n")
    with pytest.raises(
        InputError,
        match="the timing 'gemmini' is that of a model of the original Gemmini, not of the engine 'functional'",
    ):
        run_job(Job(DEFAULT, stream=stream, timing="gemmini"), engine="functional")
    with pytest.raises(InputError, match="there is no timing 'gemini'"):
        run_job(Job(DEFAULT, stream=stream, timing="gemini"))
    with pytest.raises(InputError, match="has no waveforms"):
        run_job(Job(DEFAULT, stream=stream, timing="gemmini", recording=Recording(waves=tmp_path / "w.vcd")))
    with pytest.raises(InputError, match="has a memory system of its own"):
        run_job(Job(DEFAULT, stream=stream, timing="gemmini", memory=MainMemory(l2_kib=512)))
    with pytest.raises(InfeasibleError, match="execute_queue = 1 is too short"):
        run_job(Job(SCARCE, stream=stream, timing="gemmini"))


@pytest.mark.skipif(
    not MEASURED.exists(),
    reason="cycles of the original's RTL (../shared/data/original-rtl) are not here",
)
def test_cycles_of_the_original_are_met() -> None:
    files = [f"given-{number:03}.elf" for number in (5, 20, 33, 57, 90, 111, 133, 170)]
    files += [f"micro-{number:03}.elf" for number in (4, 14, 24, 38, 83, 93, 102, 126)]
    found = bench_timing(MEASURED, DEFAULT, files=files)
    assert len(found.programs) == len(files)
    errors = [abs(one.error) for one in found.programs]
    assert sum(errors) / len(errors) < 0.06
    assert max(errors) < 0.2


@pytest.mark.skipif(
    not (MEASURED / "streaming.csv").exists(),
    reason="cycles of streamed products on the original's RTL (../shared/data/original-rtl) are not here",
)
def test_cycles_of_streamed_weights_are_met() -> None:
    files = [one.name for one in streamed_products(MEASURED)]
    found = bench_timing(MEASURED, DEFAULT, files=files)
    assert [one.file for one in found.programs] == files
    errors = [abs(one.error) for one in found.programs]
    assert sum(errors) / len(errors) < 0.03
    assert max(errors) < 0.06
