"""The instruction set: layout against hand-written vectors, round trips, and errors."""

import random
import struct
from itertools import combinations

import numpy as np
import pytest

from baco.accel.config import Features
from baco.accel.isa import (
    COMMANDS,
    FUNCT,
    GARBAGE,
    KEEP_SCALE,
    LocalAddress,
    RoccInstruction,
    decode,
    disassemble,
    encode,
    is_garbage,
    local_address_bits,
)
from baco.accel.presets import load_accelerator
from baco.common.errors import InputError

#: Gemmini's function codes, written down a second time.
CODES = {
    0: ["CONFIG_EX", "CONFIG_LD", "CONFIG_ST", "CONFIG_NORM"],
    1: ["MVIN2"],
    2: ["MVIN"],
    3: ["MVOUT"],
    4: ["COMPUTE_PRELOADED"],
    5: ["COMPUTE_ACCUMULATED"],
    6: ["PRELOAD"],
    7: ["FLUSH"],
    8: ["LOOP_WS"],
    9: ["LOOP_WS_CONFIG_BOUNDS"],
    10: ["LOOP_WS_CONFIG_ADDRS_AB"],
    11: ["LOOP_WS_CONFIG_ADDRS_DC"],
    12: ["LOOP_WS_CONFIG_STRIDES_AB"],
    13: ["LOOP_WS_CONFIG_STRIDES_DC"],
    14: ["MVIN3"],
    15: ["LOOP_CONV_WS"],
    **{15 + n: [f"LOOP_CONV_WS_CONFIG_{n}"] for n in range(1, 7)},
    22: ["CLKGATE_EN"],
    23: ["MVOUT_SPAD"],
    24: ["LOOP_WS_CONFIG_SPAD_AB"],
    25: ["LOOP_WS_CONFIG_SPAD_C"],
    26: ["CONFIG_FUNCTION"],  # these two are not Gemmini's
    27: ["LOAD_TABLE"],
    28: ["CONFIG_OUTPUT"],
    29: ["SET_SCALES"],
    126: ["COUNTER_OP"],
}


def test_function_codes() -> None:
    found: dict[int, list[str]] = {}
    for name, code in FUNCT.items():
        found.setdefault(code, []).append(name)
    assert found == CODES


@pytest.mark.parametrize("name", COMMANDS)
def test_fields_of_a_command_do_not_overlap(name: str) -> None:
    command = COMMANDS[name]
    for field in command.fields:
        assert 0 <= field.low <= field.high <= 63
        assert 0 <= field.default <= field.mask
        if command.subtype is not None and field.register == "rs1":
            assert field.low >= 2, "the subtype is there"
        assert field.kind != "float32" or field.width == 32
        assert field.kind != "local" or field.width == 32
        assert field.feature is None or field.feature in Features.model_fields
    for one, other in combinations(command.fields, 2):
        apart = one.high < other.low or other.high < one.low
        assert one.register != other.register or apart, f"{one.name} and {other.name} overlap"
    assert command.feature is None or command.feature in Features.model_fields
    assert len({field.name for field in command.fields}) == len(command.fields)


@pytest.mark.parametrize("name", COMMANDS)
def test_encode_and_decode_are_inverse(name: str) -> None:
    rng = random.Random(name)
    command = COMMANDS[name]
    for _ in range(50):
        values = {
            field.name: rng.choice([0, field.mask, rng.randint(0, field.mask)]) for field in command.fields
        }
        encoded = encode(name.lower(), **values)
        assert decode(*encoded) == values
        assert encoded.funct == command.funct
        assert max(encoded.rs1, encoded.rs2) < 1 << 64


@pytest.mark.parametrize("name", COMMANDS)
def test_bits_outside_fields_are_ignored(name: str) -> None:
    command = COMMANDS[name]
    known = {"rs1": 3 if command.subtype is not None else 0, "rs2": 0}
    for field in command.fields:
        known[field.register] |= field.mask << field.low
    ones = (1 << 64) - 1
    rs1 = ones & ~known["rs1"] | (command.subtype or 0)
    assert set(decode(command.funct, rs1, ones & ~known["rs2"]).values()) <= {0}


def test_vectors() -> None:
    # composed by hand from the field positions
    f1 = 0x3F800000
    assert encode("MVIN", address=0x8000_1234, local=0x10, cols=64, rows=16) == (
        2,
        0x8000_1234,
        16 << 48 | 64 << 32 | 0x10,
    )
    assert encode("CONFIG_LD", state=2, shrink=1, block_stride=16, stride=256) == (
        0,
        f1 << 32 | 16 << 16 | 0x15,
        256,
    )
    assert encode("CONFIG_EX", dataflow=1, activation=1, a_transpose=1) == (
        0,
        f1 << 32 | 1 << 16 | 1 << 8 | 1 << 3 | 4,
        1 << 48,
    )
    assert encode("CONFIG_ST", activation=1, stride=64, acc_scale=0.5) == (0, 0x6, 0x3F000000 << 32 | 64)
    assert encode("CONFIG_ST", acc_scale=KEEP_SCALE).rs2 >> 32 == 0xFFFFFFFF
    assert encode("PRELOAD", bd=GARBAGE, c=0xC000_0001, c_cols=5, c_rows=7) == (
        6,
        0xFFFFFFFF,
        7 << 48 | 5 << 32 | 0xC000_0001,
    )
    assert encode("LOOP_WS_CONFIG_BOUNDS", i=1, j=2, k=3, pad_k=4, pad_j=5, pad_i=6) == (
        9,
        4 << 32 | 5 << 16 | 6,
        3 << 32 | 2 << 16 | 1,
    )
    assert encode("LOOP_WS", ex_accumulate=1, b_spad_id=2, a_spad_id=1, b_transpose=1) == (8, 0x60001, 2)
    assert encode("LOOP_CONV_WS_CONFIG_4", orows=7, pupad=1, kernel_dilation=2).rs1 == 7 << 48 | 1 << 21 | 2
    assert (
        encode("COUNTER_OP", configure=1, index=3, event=21, external=1).rs1
        == 1 << 31 | 21 << 12 | 3 << 4 | 8
    )


def test_float32_is_rounded_to_nearest() -> None:
    for value in (0.1, -3.3, 1e-40, 0.0, float("inf"), 1 / 3):
        bits = struct.unpack("<I", np.float32(value).tobytes())[0]
        assert encode("CONFIG_LD", scale=value).rs1 >> 32 == bits
        assert encode("CONFIG_LD", scale=np.float32(value)).rs1 >> 32 == bits


def test_numpy_integers_and_local_addresses_are_taken() -> None:
    word = LocalAddress(9, accumulator=True)
    assert encode("MVOUT", local=word, cols=np.int64(3), rows=True) == encode(
        "MVOUT", local=0x8000_0009, cols=3, rows=1
    )


@pytest.mark.parametrize(
    ("command", "fields", "message", "hint"),
    [
        ("MVINN", {}, "no command 'MVINN'", "did you mean 'MVIN'"),
        ("MVIN", {"row": 1}, "no field 'row'", "did you mean 'rows'"),
        ("LOOP_WS_CONFIG_SPAD_C", {"a": 1}, "no field 'a'", "no fields"),
        ("MVIN", {"rows": 65536}, "rows cannot be 65536", "16 bits, rs2[63:48]: 0..65535"),
        ("MVIN", {"rows": -1}, "rows cannot be -1", "0..65535"),
        ("MVIN", {"rows": 1.5}, "rows is an integer, not 1.5", ""),
        ("CONFIG_LD", {"scale": 1e39}, "too large for a float32", ""),
    ],
)
def test_encode_invalid(command: str, fields: dict[str, float], message: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        encode(command, **fields)
    assert message in error.value.message
    assert hint in (error.value.hint or "")


def test_decode_invalid() -> None:
    with pytest.raises(InputError, match="function code 30"):
        decode(30, 0, 0)
    with pytest.raises(InputError, match="64-bit"):
        decode(2, 1 << 64, 0)
    with pytest.raises(InputError, match="64-bit"):
        decode(2, 0, -1)


def test_disassembly() -> None:
    local = LocalAddress(5, accumulator=True, accumulate=True)
    assert (
        disassemble(*encode("MVIN", address=4096, local=local, cols=16, rows=4))
        == "MVIN address=0x1000 local=acc[5]+ cols=16 rows=4"
    )
    assert disassemble(*encode("CONFIG_LD", scale=0.1, stride=64)) == "CONFIG_LD scale=0.1 stride=64"
    assert disassemble(*encode("CONFIG_ST", acc_scale=KEEP_SCALE)) == "CONFIG_ST acc_scale=0xffffffff"
    assert disassemble(*encode("CONFIG_ST", acc_scale=1 / 3)) == "CONFIG_ST acc_scale=0x3eaaaaab"
    assert disassemble(*encode("PRELOAD", bd=GARBAGE, c=3)) == "PRELOAD bd=garbage c=spad[3]"
    assert disassemble(99, 1, 2) == "UNKNOWN funct=99 rs1=0x1 rs2=0x2"


def test_disassembly_never_fails() -> None:
    rng = random.Random(0)
    for funct in range(128):
        for _ in range(20):
            assert disassemble(funct, rng.getrandbits(64), rng.getrandbits(64))


def test_instruction_word() -> None:
    # mvin with a0 and a1, as an assembler encodes it
    assert RoccInstruction(FUNCT["MVIN"], 10, 11).word == 0x04B5307B
    word = RoccInstruction(126, 10, 11, rd=12, xd=True).word
    assert word == 126 << 25 | 11 << 20 | 10 << 15 | 7 << 12 | 12 << 7 | 0x7B
    assert RoccInstruction.from_word(word) == RoccInstruction(126, 10, 11, 12, xd=True)
    for custom, opcode in enumerate((0x0B, 0x2B, 0x5B, 0x7B)):
        assert RoccInstruction(1, 2, 3, custom=custom).word & 0x7F == opcode


def test_instruction_words_round_trip() -> None:
    rng = random.Random(1)
    for _ in range(200):
        word = rng.getrandbits(32) & ~0x7F | rng.choice((0x0B, 0x2B, 0x5B, 0x7B))
        assert RoccInstruction.from_word(word).word == word


def test_instruction_invalid() -> None:
    with pytest.raises(InputError, match="no accelerator instruction"):
        RoccInstruction.from_word(0x13)
    with pytest.raises(InputError, match="rs2 of an instruction"):
        RoccInstruction(2, 1, 32)
    with pytest.raises(InputError, match="custom of an instruction"):
        RoccInstruction(2, 1, 2, custom=4)


def test_local_addresses() -> None:
    assert LocalAddress(7).word == 7
    assert LocalAddress(7, accumulator=True, accumulate=True, read_full=True, norm=5).word == 0xF400_0007
    rng = random.Random(2)
    for _ in range(100):
        word = rng.getrandbits(32) & ~(1 << 25)
        assert LocalAddress.from_word(word).word == word
    assert str(LocalAddress(3, accumulator=True, read_full=True, norm=1)) == "acc[3] full sum"


def test_garbage() -> None:
    assert is_garbage(GARBAGE)
    assert is_garbage(GARBAGE, 14)
    assert is_garbage(0xE000_7FFF, 14)
    assert not is_garbage(0xE000_7FFF)
    assert not is_garbage(0xE000_3FFF, 14)
    assert not is_garbage(0xC000_7FFF, 14)


def test_local_address_invalid() -> None:
    with pytest.raises(InputError, match="no row"):
        LocalAddress(1 << 25)
    with pytest.raises(InputError, match="normaliser"):
        LocalAddress(0, norm=8)
    with pytest.raises(InputError, match="garbage"):
        LocalAddress.from_word(GARBAGE)
    with pytest.raises(InputError, match="32 bits"):
        LocalAddress.from_word(1 << 32)


def test_row_bits_of_the_default() -> None:
    assert local_address_bits(load_accelerator("gemmini-default")) == 14
    assert local_address_bits(load_accelerator("gemmini-default").replace(scratchpad_kib=257)) == 15
