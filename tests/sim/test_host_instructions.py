"""Every instruction of the host core against the oracle, on random operands; encodings come from an assembler."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.sim.float_oracle import BINARY32, BINARY64, Format
from tests.sim.host_helpers import assemble, table
from tests.sim.riscv_oracle import (
    BOX,
    CODE,
    DATA,
    M64,
    Instruction,
    State,
    compressed_instructions,
    float_instructions,
    integer_instructions,
)

TRAP = 0x80001000
INTEGERS = (
    0,
    1,
    2,
    M64,
    M64 - 1,
    1 << 63,
    (1 << 63) - 1,
    1 << 31,
    (1 << 31) - 1,
    (1 << 32) - 1,
    M64 << 31 & M64,
)


def some_integer(random: Random) -> int:
    kind = random.randrange(3)
    if kind == 0:
        return random.choice(INTEGERS)
    return random.getrandbits(64) if kind == 1 else random.getrandbits(64) >> random.randrange(64)


def some_float(random: Random, f: Format) -> int:
    """Bits of the kinds that go wrong: limits, ties, subnormals, NaNs, numbers of like magnitude."""
    sign = random.choice((0, f.sign))
    one = f.bias << f.fraction
    kind = random.randrange(8)
    if kind == 0:
        least = 1 << f.fraction
        special = (
            0,
            1,
            2,
            least - 1,
            least,
            least + 1,
            f.infinity - 1,
            f.infinity,
            f.nan,
            f.infinity | 1,
            one,
            one | 1,
        )
        return sign | random.choice(special)
    if kind == 1:  # halves and integers around the conversions' limits
        exponent = random.choice((-2, -1, 0, 1, 30, 31, 32, 62, 63, 64, f.fraction, f.fraction + 1))
        return sign | ((f.bias + exponent) << f.fraction) + random.choice((-1, 0, 1, 1 << (f.fraction - 1)))
    if kind == 2:
        return sign | random.getrandbits(f.fraction)  # subnormal
    if kind == 3:
        return random.getrandbits(f.width)
    if kind == 4:  # few significant bits, so that results are ties or exact
        return sign | one + (random.getrandbits(6) << (f.fraction - 3)) - (8 << f.fraction)
    if kind == 5:  # products and quotients near either end of the range
        return sign | random.choice((one >> 1, one + (one >> 1))) + random.getrandbits(f.fraction + 2)
    return sign | one + random.getrandbits(f.fraction + 2)


def some_state(random: Random, instruction: Instruction) -> State:
    x = [0, *(some_integer(random) for _ in range(31))]
    f = [random.getrandbits(64) | random.choice((0, BOX)) for _ in range(32)]
    for number, form in instruction.floats.items():
        value = some_float(random, form)
        f[number] = value | BOX if form is BINARY32 and random.random() < 0.95 else value
    numbers = list(instruction.floats)
    if len(numbers) > 1 and random.random() < 0.3:  # nearly equal: cancellation
        form = instruction.floats[numbers[0]]
        changed = f[numbers[0]] ^ random.choice((0, 0, form.sign, 1, 2, form.sign | 1))
        f[numbers[-1]] = changed & M64
    for number, offset in instruction.bases.items():
        x[number] = DATA + offset & M64
    reserved = "dyn" in instruction.text and random.random() < 0.1
    mode = random.randrange(5, 8) if reserved else random.choice((0, 0, 0, 1, 2, 3, 4))
    flags = random.choice((0, 1, random.getrandbits(5)))
    return State(x, f, random.getrandbits(64), mode << 5 | flags)


def case_line(word: int, s: State) -> str:
    registers = " ".join(f"{i:x} {v:x}" for i, v in enumerate(s.x + s.f))
    return f"{word:x} {s.fcsr:x} {s.memory:x} {registers}"


def check(
    folder: Path, random: Random, draw: Callable[[Random], Iterator[Instruction]], rounds: int, states: int
) -> None:
    instructions = [instruction for _ in range(rounds) for instruction in draw(random)]
    words = assemble(folder, [instruction.text for instruction in instructions])
    cases = [
        (instruction, w, some_state(random, instruction))
        for instruction, w in zip(instructions, words, strict=True)
        for _ in range(states)
    ]
    results = table([case_line(word, state) for _, word, state in cases])
    assert len(results) == len(cases)
    for (instruction, word, before), (pc, cause, value, fcsr, memory, *changes) in zip(
        cases, results, strict=True
    ):
        expected = copy.deepcopy(before)
        instruction.effect(expected)
        length = 4 if word & 3 == 3 else 2
        if expected.trapped:
            assert (pc, cause, value) == (TRAP, 2, word), instruction.text
        else:
            assert cause == 0, instruction.text
            assert pc == (CODE + length if expected.pc is None else expected.pc), instruction.text
        got = before.x + before.f
        for number, changed in zip(changes[::2], changes[1::2], strict=True):
            got[number] = changed
        where = f"{instruction.text}, fcsr {before.fcsr:#x}: " + ", ".join(
            f"f{n}={before.f[n]:#x}" for n in instruction.floats
        )
        assert got == expected.x + expected.f, where
        assert fcsr == expected.fcsr, where
        assert memory == expected.memory, instruction.text


def test_integer_and_atomic_instructions(tmp_path: Path) -> None:
    check(tmp_path, Random(1), integer_instructions, rounds=4, states=12)


def test_floating_point_instructions(tmp_path: Path) -> None:
    check(tmp_path, Random(2), float_instructions, rounds=4, states=25)


def test_compressed_instructions(tmp_path: Path) -> None:
    check(tmp_path, Random(3), compressed_instructions, rounds=4, states=6)


@pytest.mark.slow
def test_many_more(tmp_path: Path) -> None:
    check(tmp_path, Random(4), integer_instructions, rounds=30, states=40)
    check(tmp_path, Random(5), float_instructions, rounds=40, states=50)
    check(tmp_path, Random(6), compressed_instructions, rounds=30, states=20)


def idle_state() -> State:
    return State([0] * 32, [0] * 32, 0, 0)


@pytest.mark.parametrize(
    "word",
    [
        *(0x0000, 0xFFFFFFFF),
        *(0x0004, 0x8000, 0x2001, 0x6081, 0x6101, 0x9C41, 0x9C61, 0x4002, 0x6002, 0x8002),  # reserved 16-bit
        *(0x0000000B, 0x0000002B, 0x0000005B),  # custom-0, -1, -2
        *(0x0000107B, 0x0000507B),  # custom-3 with rs2 but not rs1
        *(
            0x02001013 | 1 << 26,
            0x0200101B,
            0x40001013,
            0x0A000033,
        ),  # shifts with a stray bit, unknown funct7
        *(0x30300073, 0x10200073, 0x7B200073),  # no such system instruction, sret, dret
        *(
            0x00007003,
            0x00004023,
            0x00002063,
            0x00003067,
            0x0000202F | 0x1F << 27,
        ),  # no such width or condition
        *(0x04000053, 0xD4000053, 0xC0400053 | 4 << 20, 0x22002053 | 3 << 12),  # no such format or operation
        *(0x02000053 | 5 << 12, 0x02000053 | 6 << 12),  # reserved rounding mode
    ],
)
def test_what_is_no_instruction_traps(word: int) -> None:
    [(pc, cause, value, *_rest)] = table([case_line(word, idle_state())])
    assert (pc, cause) == (TRAP, 2)
    assert value == (word if word & 3 == 3 else word & 0xFFFF)


def test_any_word_executes_or_traps() -> None:
    random = Random(11)
    nothing = Instruction("", lambda state: None)
    cases = [
        (random.getrandbits(32) & ~0x7C | random.getrandbits(5) << 2, some_state(random, nothing))
        for _ in range(3000)
    ]
    results = table([case_line(word, state) for word, state in cases])
    assert len(results) == len(cases)
    for (word, _), (pc, cause, _value, _fcsr, _memory, *changes) in zip(cases, results, strict=True):
        assert 0 not in changes[::2], f"{word:#x} changes x0"
        assert pc == TRAP or cause == 0 or word & 0x7F == 0x73, f"{word:#x}"
        assert pc % 2 == 0


def test_floating_point_formats_of_the_oracle() -> None:
    assert BINARY64.value(0x3FF8000000000000) == 1.5
    assert BINARY32.value(0x00000001) == 2.0**-149
