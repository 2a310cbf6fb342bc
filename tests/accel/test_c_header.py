"""The generated C header: macros against the configuration, and its arithmetic compiled and run."""

import random
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from baco.accel.c_header import c_header
from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator


def _macros(accelerator: Accelerator) -> dict[str, str]:
    return dict(re.findall(r"^#define (\w+) (\S+)$", c_header(accelerator), re.MULTILINE))


def _has(accelerator: Accelerator, macro: str) -> bool:
    return re.search(rf"^#define {macro}\b", c_header(accelerator), re.MULTILINE) is not None


def test_gemmini_default() -> None:
    macros = _macros(load_accelerator("gemmini-default"))
    expected = {
        "XCUSTOM_ACC": "3",
        "DIM": "16",
        "ADDR_LEN": "32",
        "BANK_NUM": "4",
        "BANK_ROWS": "4096",
        "ACC_ROWS": "1024",
        "MAX_BYTES": "64",
        "MAX_BLOCK_LEN": "4",
        "MAX_BLOCK_LEN_ACC": "1",
        "MVIN_SCALE_IDENTITY": "1.0",
        "ACC_SCALE_IDENTITY": "1.0",
        "ACC_SCALE_EXP_BITS": "8",
        "ACC_SCALE_SIG_BITS": "24",
    }
    assert expected.items() <= macros.items()
    text = c_header(load_accelerator("gemmini-default"))
    assert "typedef int8_t elem_t;" in text
    assert "typedef int32_t acc_t;" in text
    assert "typedef float scale_t;" in text
    assert "typedef int32_t scale_acc_t;" in text
    assert text.index("#ifndef GEMMINI_PARAMS_H") < text.index("#define GEMMINI_PARAMS_H")


@pytest.mark.parametrize(
    ("dim", "length", "length_acc"), [(2, 32, 8), (8, 8, 2), (32, 2, 1), (64, 1, 1), (128, 1, 1)]
)
def test_block_lengths(dim: int, length: int, length_acc: int) -> None:
    macros = _macros(load_accelerator("gemmini-default").replace(dim=dim))
    assert (macros["MAX_BLOCK_LEN"], macros["MAX_BLOCK_LEN_ACC"]) == (str(length), str(length_acc))


@pytest.mark.parametrize(
    ("feature", "macro"),
    [
        ("mvin_scale", "HAS_MVIN_SCALE"),
        ("mvin_scale_acc", "HAS_MVIN_ACC_SCALE"),
        ("read_small_width", "ACC_READ_SMALL_WIDTH"),
        ("read_full_width", "ACC_READ_FULL_WIDTH"),
        ("first_layer", "HAS_FIRST_LAYER_OPTIMIZATIONS"),
        ("normalizations", "HAS_NORMALIZATIONS"),
        ("normalizations", "NORM_STAT_IDS"),
    ],
)
def test_features(feature: str, macro: str) -> None:
    default = load_accelerator("gemmini-default")
    for built in (False, True):
        assert _has(default.replace(features={feature: built}), macro) is built


PROGRAM = r"""
#include "gemmini_params.h"
#include "gemmini_params.h"
#include <stddef.h>
#include <stdio.h>
static elem_t block[DIM][DIM] row_align(1);
static acc_t wide[DIM][DIM] row_align_acc(MAX_BLOCK_LEN_ACC);
int main(void) {
  char kind;
  long long x;
  unsigned bits;
  while (scanf(" %c %lld %x", &kind, &x, &bits) == 3) {
    union { unsigned b; float f; } scale = {bits};
    long long result = 0;
    if (kind == 'a') result = ACC_SCALE((acc_t)x, scale.f);
    if (kind == 'm') result = MVIN_SCALE((elem_t)x, (scale_t)scale.f);
    if (kind == 'n') result = MVIN_SCALE_ACC((acc_t)x, (scale_acc_t)scale.f);
    if (kind == 's') result = ROUNDING_RIGHT_SHIFT((acc_t)x, (int)bits);
    if (kind == 'r') result = (long long)ROUND_NEAR_EVEN(scale.f);
    if (kind == 'd') result = (long long)ROUND_NEAR_EVEN((double)x / (1 << bits));
    printf("%lld\n", result);
  }
  // the longest row of a load is then one request to memory
  struct padded { char first; elem_t rows[DIM][DIM] row_align(1); };
  if (offsetof(struct padded, rows) != (DIM * sizeof(elem_t) < MAX_BYTES ? MAX_BYTES : DIM * sizeof(elem_t))) return 1;
  return block[0][0] + (int)wide[0][0] + elem_t_max + elem_t_min + 1 + (sizeof(full_t) != 8);
}
"""


def _compile(folder: Path, accelerator: Accelerator, *options: str, language: str = "c") -> Path:
    (folder / "gemmini_params.h").write_text(c_header(accelerator))
    source = folder / f"program.{language}"
    source.write_text(PROGRAM)
    program = folder / f"program_{language}"
    # `zig c++` would first build the library of C++, for a minute, of which the program needs nothing
    compiler = [sys.executable, "-m", "ziglang", "cc", "-x", "c" if language == "c" else "c++"]
    checks = ["-Wall", "-Wextra", "-Werror", "-fno-sanitize=all"]
    command = [*compiler, *options, *checks, "-o", str(program), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=200)
    return program


def _run(program: Path, cases: list[tuple[str, int, int]]) -> list[int]:
    text = "".join(f"{kind} {x} {bits:x}\n" for kind, x, bits in cases)
    done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=60, check=True)
    return [int(line) for line in done.stdout.split()]


def _float(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def _half_even(value: Fraction) -> int:
    return round(value)  # Python rounds halves to even


def _scaled(x: int, bits: int, low: int, high: int) -> int:
    with np.errstate(all="ignore"):
        product = np.float32(x) * _float(bits)
    if np.isnan(product):
        return high
    if np.isinf(product):
        return high if product > 0 else low
    return max(low, min(high, _half_even(Fraction(float(product)))))


def test_arithmetic(tmp_path: Path) -> None:
    accelerator = load_accelerator("gemmini-default").replace(features={"mvin_scale_acc": True})
    rng = random.Random(0)
    # beside random numbers: one, just below powers of two (where Gemmini's macros err), halves, huge, special
    special = [
        0x3F800000,
        0x3F7FFFFF,
        0x40FFFFFF,
        0x3F000000,
        0x7F7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0,
    ]
    cases, expected = [], []
    for _ in range(4000):
        bits = rng.choice([rng.getrandbits(32), rng.choice(special), rng.randrange(0x3A000000, 0x41000000)])
        x = rng.choice([rng.randrange(-(1 << 31), 1 << 31), rng.randrange(-300, 300)])
        small = rng.randrange(-128, 128)
        shift = rng.randrange(32)
        cases += [("a", x, bits), ("m", small, bits), ("n", x, bits), ("s", x, shift), ("d", x, shift % 20)]
        expected += [_scaled(x, bits, -128, 127), _scaled(small, bits, -128, 127)]
        expected += [_scaled(x, bits, -(1 << 31), (1 << 31) - 1)]
        expected += [_half_even(Fraction(x, 1 << shift)), _half_even(Fraction(x, 1 << shift % 20))]
    for value in (0.5, 1.5, 2.5, -0.5, -1.5, 8388607.5, 1e18, -3.7):
        bits = int(np.float32(value).view(np.uint32))
        cases.append(("r", 0, bits))
        expected.append(_half_even(Fraction(float(np.float32(value)))))
    found = _run(_compile(tmp_path, accelerator, "-std=gnu99", "-O1"), cases)
    wrong = [(c, f, e) for c, f, e in zip(cases, found, expected, strict=True) if f != e]
    assert wrong == []


def test_it_is_also_cpp_and_strict_c(tmp_path: Path) -> None:
    accelerator = load_accelerator("gemmini-lean").replace(
        features={"mvin_scale": False, "accumulator_scale": False}
    )
    program = _compile(tmp_path, accelerator, "-std=c++17", "-O1", language="cpp")
    assert _run(program, [("a", 1000, 0x40000000), ("m", 5, 0x40000000)]) == [1000, 5]
