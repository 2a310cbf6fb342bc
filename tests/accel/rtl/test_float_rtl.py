"""The array's floating point against numpy's float32 and ml_dtypes."""

import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.accel.testbench import BENCHES, RTL, build
from tests.gemmini.float_machine import rounded_once

TYPES = {"fp8-e4m3": ml_dtypes.float8_e4m3fn, "fp8-e5m2": ml_dtypes.float8_e5m2}
ALL_TYPES = TYPES | {"bf16": ml_dtypes.bfloat16}
NAN = 0x7FC00000


def _results(
    folder: Path, module: str, kind: str, name: str, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """uint32 [n] that a module makes of pairs of operands."""
    defines = [kind] + ["BACO_FP8_E5M2"] * (name == "fp8-e5m2")
    bench = build([RTL / f"{module}.v"], module, {}, defines, BENCHES / "float_bench.cpp")
    np.stack([first, second], axis=1).astype(np.uint32).tofile(folder / "in")
    subprocess.run([bench, folder / "in", folder / "out"], check=True, timeout=60)
    results = np.fromfile(folder / "out", np.uint32)
    assert len(results) == len(first)
    return results


def _bits(numbers: np.ndarray) -> np.ndarray:
    """Of float32 numbers, with one NaN."""
    return np.where(np.isnan(numbers), np.uint32(NAN), numbers.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("name", TYPES)
def test_all_products(tmp_path: Path, name: str) -> None:
    x, y = (part.ravel() for part in np.meshgrid(np.arange(256), np.arange(256)))
    numbers = np.arange(256, dtype=np.uint8).view(TYPES[name]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        products = numbers[x] * numbers[y]
    exact = products[np.isfinite(products)]
    assert np.array_equal(exact.astype(np.float32).astype(np.float64), exact)
    results = _results(tmp_path, "baco_fp8_product", "PRODUCT", name, x, y)
    assert np.array_equal(results, _bits(products))


def _operands(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bits of pairs of float32: any; of like size; that cancel but for a few bits; subnormal; beside the largest; special."""
    bits = random.integers(0, 1 << 32, (2, count), dtype=np.uint32)
    near = bits.copy()
    distance = random.integers(-28, 29, count)
    exponent = np.clip((near[0] >> 23 & 255).astype(np.int64) + distance, 0, 254).astype(np.uint32)
    near[1] = near[1] & np.uint32(0x807FFFFF) | exponent << np.uint32(23)
    few = near[0] ^ np.uint32(1 << 31)
    cancels = np.stack([near[0], few + random.integers(0, 1 << 9, count, dtype=np.uint32)])
    subnormal = bits & np.uint32(0x817FFFFF)
    large = bits | np.uint32(0x7E000000)
    edges = np.array(
        [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x3F800001, 0x34000000, 0x33800000, 0x33800001,
         0x7F7FFFFF, 0x73000000, 0x72FFFFFF, 0x73000001, 0x7F800000, 0x7F800001, 0x7FC00000], np.uint32,
    )  # fmt: skip
    edges = np.concatenate([edges, edges | np.uint32(1 << 31)])
    crossed = np.stack([part.ravel() for part in np.meshgrid(edges, edges)])
    # one number of few bits, the other half of its last place or next to it: ties and what is beside them
    kept = np.uint32(0xFFFFFFFF) << random.integers(0, 24, count, dtype=np.uint32)
    ties = np.stack([near[0], near[1] & kept])
    first, second = np.concatenate([bits, near, cancels, subnormal, large, crossed, ties], axis=1)
    return first, second


def test_sums(tmp_path: Path) -> None:
    x, y = _operands(np.random.default_rng(0), 200_000)
    with np.errstate(all="ignore"):
        sums = x.view(np.float32) + y.view(np.float32)
    assert 1_000 < np.isnan(sums).sum() < len(sums) / 10
    results = _results(tmp_path, "baco_float_add", "ADD", "", x, y)
    assert np.array_equal(results, _bits(sums))


def _bfloats(*parts: np.ndarray) -> np.ndarray:
    """Codes of all of some signs, exponents and fractions."""
    sign, exponent, fraction = (part.ravel() for part in np.meshgrid(*parts))
    return np.asarray(sign << 15 | exponent << 7 | fraction, dtype=np.uint16)


def test_products_of_bfloat16(tmp_path: Path) -> None:
    """Every pair of fractions where products are normal, beside the least normal ones, and the largest; every pair of exponents; and
    any of all."""
    random = np.random.default_rng(2)
    fractions = np.arange(128)
    pairs = []
    for left, right in (
        (127, 127),
        (1, 127),
        (64, 63),
        (64, 62),
        (60, 60),
        (50, 60),
        (0, 127),
        (0, 200),
        (254, 127),
        (190, 191),
    ):
        pairs.append(np.meshgrid(_bfloats([0], [left], fractions), _bfloats([1], [right], fractions)))
    exponents = np.arange(256)
    few = [
        _bfloats([sign], exponents, [fraction])
        for sign, fraction in ((0, 0), (1, 0), (0, 1), (0, 0x55), (0, 0x7F))
    ]
    pairs += [np.meshgrid(left, right) for left in few for right in few]
    pairs.append(random.integers(0, 1 << 16, (2, 400_000)).astype(np.uint16))
    x, y = (np.concatenate([np.ravel(pair[side]) for pair in pairs]) for side in (0, 1))
    with np.errstate(all="ignore"):
        products = x.view(ml_dtypes.bfloat16).astype(np.float32) * y.view(ml_dtypes.bfloat16).astype(
            np.float32
        )
    subnormal = (np.abs(products) < np.finfo(np.float32).tiny) & (products != 0)
    assert subnormal.sum() > 50_000
    results = _results(tmp_path, "baco_bf16_product", "PRODUCT", "bf16", x, y)
    assert np.array_equal(results, _bits(products))


@pytest.mark.parametrize("name", ALL_TYPES)
def test_narrowed(tmp_path: Path, name: str) -> None:
    random = np.random.default_rng(1)
    kind = ALL_TYPES[name]
    code = np.uint16 if name == "bf16" else np.uint8
    numbers = np.arange(np.iinfo(code).max + 1, dtype=code).view(kind).astype(np.float32)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    points = np.concatenate([numbers, middles, [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e30, -1e30]])
    points = points.astype(np.float32)
    beside = [np.nextafter(points, np.float32(limit)) for limit in (-np.inf, np.inf)]
    wide = random.integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
    near = random.normal(0, 1, 200_000) * 2.0 ** random.integers(-20, 18, 200_000)
    x = np.concatenate([points, *beside, wide, near.astype(np.float32)])
    # as they are, and scaled to and from any power of two; subnormal ones count as zeros where elements have 8 bits
    power = random.integers(0, 256, len(x))
    with np.errstate(all="ignore"):
        scaled = np.ldexp(x.astype(np.float64), 127 - power).astype(np.float32)
    x = np.concatenate([x, x, scaled, x])
    relu = np.repeat([0, 1, 0, 1], len(x) // 4)
    power = np.concatenate([np.full(len(x) // 2, 127), power, power])
    largest = float(numbers[-1])
    kept = np.where((relu == 1) & np.signbit(x) & ~np.isnan(x), np.float32(0), x)
    if name != "bf16":
        kept = np.where(np.abs(kept) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), kept), kept)
    exact = np.ldexp(kept.astype(np.float64), power - 127)
    clipped = np.clip(np.nan_to_num(exact, posinf=largest, neginf=-largest), -largest, largest)
    codes = rounded_once(clipped, kind)
    codes = np.where(
        np.isnan(kept), {"fp8-e4m3": 0x7F, "fp8-e5m2": 0x7E, "bf16": 0x7FC0}[name], codes.view(code)
    )
    packed = relu | power << 8
    module = f"baco_{name.partition('-')[0]}_narrow"
    results = _results(tmp_path, module, "NARROW", name, x.view(np.uint32), packed)
    assert np.array_equal(results, codes)


def test_all_elements_of_blocks(tmp_path: Path) -> None:
    """Every code of every format with every power, against exact products that are rounded once."""
    kinds = (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8)
    codes, expected = [], []
    powers = np.arange(256, dtype=np.uint8)
    for number, kind in enumerate(kinds):
        own = np.arange(16 if number == 0 else 256, dtype=np.uint8)
        elements = own.view(kind).astype(np.float64) / (64 if kind is np.int8 else 1)
        exact = elements[:, None] * powers.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
        with np.errstate(all="ignore"):
            rounded = rounded_once(exact, ml_dtypes.bfloat16).view(np.uint16)
        expected.append(np.where(np.isnan(exact), 0x7FC0, rounded).ravel())
        codes.append(np.repeat(own.astype(np.uint32) | number + 1 << 8, len(powers)))
    together = np.concatenate(codes)
    repeated = np.tile(powers, len(together) // len(powers))
    results = _results(tmp_path, "baco_block_element", "ELEMENT", "", together, repeated)
    assert np.array_equal(results, np.concatenate(expected))
