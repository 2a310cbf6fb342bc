"""Number formats against references that are not ours: ml_dtypes, onnx, torchao, numpy's float32 and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx.reference
import pytest
import torch
from onnx import TensorProto, helper

from baco.accel.number_formats import FORMATS, BlockFormat, FloatFormat, IntegerFormat, products_summed

#: The same formats of ml_dtypes.
_TYPES = {
    "fp4-e2m1": ml_dtypes.float4_e2m1fn,
    "fp6-e2m3": ml_dtypes.float6_e2m3fn,
    "fp6-e3m2": ml_dtypes.float6_e3m2fn,
    "fp8-e4m3": ml_dtypes.float8_e4m3fn,
    "fp8-e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}
_BLOCKS = {
    "mxfp8-e4m3": torch.float8_e4m3fn,
    "mxfp8-e5m2": torch.float8_e5m2,
    "mxfp4": torch.float4_e2m1fn_x2,
}


def _float(name: str) -> FloatFormat:
    found = FORMATS[name]
    assert isinstance(found, FloatFormat)
    return found


def _block(name: str) -> BlockFormat:
    found = FORMATS[name]
    assert isinstance(found, BlockFormat)
    return found


def _codes(one: FloatFormat) -> np.ndarray:
    return np.arange(1 << one.bits).astype(np.uint8 if one.bits <= 8 else np.uint16)


def _of_code(name: str, codes: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return codes.view(_TYPES[name]).astype(np.float64)


def _of_ml_dtypes(name: str, numbers: np.ndarray) -> np.ndarray:
    """What ml_dtypes (numpy) makes of float32 numbers."""
    with np.errstate(all="ignore"):
        return numbers.astype(np.float32).astype(_TYPES[name]).astype(np.float64)


def _decisive(one: FloatFormat) -> np.ndarray:
    """float32 numbers between which rounding decides: all numbers of the format, all middles of neighbours, what float32 has on both
    sides of each, and what is beyond the largest. Rounding is monotone: who agrees on these agrees on all."""
    held = np.unique(np.abs(one.decode(_codes(one))))
    held = held[np.isfinite(held)]
    held = np.append(held, 2 * held[-1] - held[-2])
    edges = np.concatenate([held, (held[1:] + held[:-1]) / 2])
    with np.errstate(over="ignore"):
        edges = edges.astype(np.float32)
    around = [edges, np.nextafter(edges, np.float32(np.inf)), np.nextafter(edges, np.float32(0))]
    positive = np.concatenate([*around, np.array([1e30, np.inf], np.float32)])
    return np.concatenate([positive, -positive, np.array([np.nan], np.float32)])


@pytest.mark.parametrize("name", _TYPES)
def test_every_code_stands_for_the_number_of_ml_dtypes(name: str) -> None:
    one = _float(name)
    numbers, theirs = one.decode(_codes(one)), _of_code(name, _codes(one))
    assert np.array_equal(numbers, theirs, equal_nan=True)
    known = ~np.isnan(theirs)
    assert np.array_equal(np.signbit(numbers[known]), np.signbit(theirs[known]))
    assert (one.largest, one.smallest) == (
        theirs[np.isfinite(theirs)].max(),
        theirs[theirs > 0].min(),
    )


@pytest.mark.parametrize("name", _TYPES)
def test_every_rounding_is_that_of_ml_dtypes(name: str) -> None:
    one, numbers = _float(name), _decisive(_float(name))
    if one.specials == "none":
        numbers = numbers[~np.isnan(numbers)]
    rounded, theirs = one.rounded(numbers, saturate=False), _of_ml_dtypes(name, numbers)
    assert np.array_equal(rounded, theirs, equal_nan=True)
    known = ~np.isnan(theirs)
    assert np.array_equal(np.signbit(rounded[known]), np.signbit(theirs[known]))


@pytest.mark.parametrize("name", [*_TYPES, "fp32"])
def test_what_is_beyond_the_largest_number_saturates(name: str) -> None:
    one = _float(name)
    numbers = np.array([1.0, 1.5, 100.0, np.inf]) * one.largest
    assert (one.rounded(numbers) == one.largest).all()
    assert (one.rounded(-numbers) == -one.largest).all()


@pytest.mark.parametrize(("name", "kind"), [("fp8-e4m3", "FLOAT8E4M3FN"), ("fp8-e5m2", "FLOAT8E5M2")])
def test_saturated_roundings_are_those_of_onnx(name: str, kind: str) -> None:
    numbers = _decisive(_float(name))
    node = helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, kind), saturate=1)
    graph = helper.make_graph(
        [node],
        "cast",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [len(numbers)])],
        [helper.make_tensor_value_info("y", getattr(TensorProto, kind), [len(numbers)])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    (theirs,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": numbers})
    assert np.array_equal(_float(name).rounded(numbers), theirs.astype(np.float64), equal_nan=True)


def test_a_float32_is_what_numpy_makes_of_a_float64() -> None:
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**63, 100_000, np.uint64) | (
        random.integers(0, 2, 100_000, np.uint64) << np.uint64(63)
    )
    ends = np.array([2.0**-149, 2.0**-150, 1.5 * 2.0**-149, 2.0**-126, -0.0, np.inf, np.nan, 2.0**128])
    numbers = np.concatenate(
        [
            bits.view(np.float64),
            np.ldexp(random.standard_normal(100_000), random.integers(-152, 130, 100_000)),
            ends,
        ]
    )
    with np.errstate(all="ignore"):
        theirs = numbers.astype(np.float32)
    mine = _float("fp32").encode(numbers, saturate=False)
    known = ~np.isnan(theirs)
    assert np.array_equal(mine[known], theirs[known].view(np.uint32))
    assert np.isnan(_float("fp32").decode(mine[~known])).all()
    assert np.array_equal(_float("fp32").decode(mine[known]), theirs[known].astype(np.float64))


@pytest.mark.parametrize(("name", "low", "high"), [("int4", -8, 7), ("int8", -128, 127), ("uint8", 0, 255), ("int16", -32768, 32767), ("int32", -(2**31), 2**31 - 1)])  # fmt: skip
def test_whole_numbers_are_rounded_to_even_and_saturated(name: str, low: int, high: int) -> None:
    one = FORMATS[name]
    assert isinstance(one, IntegerFormat)
    assert (one.low, one.high) == (low, high)
    reach = min(high, 1 << 16)
    halves = [Fraction(n, 2) for n in range(-2 * reach - 5, 2 * reach + 6)]
    ends = [low - 1.5, low - 0.5, low + 0.5, high - 0.5, high + 0.5, 1e300, -np.inf, np.inf]
    numbers = np.array([*(float(x) for x in halves), *ends])
    nearest = [round(x) if math.isfinite(x) else x for x in [*halves, *ends]]  # Python's own: ties to even
    assert one.encode(numbers).tolist() == [int(min(max(n, low), high)) for n in nearest]
    assert one.encode(np.array([np.nan])) == 0


@pytest.mark.parametrize("name", ["fp4-e2m1", "fp6-e2m3", "fp6-e3m2", "fp8-e4m3", "fp8-e5m2"])
def test_all_products_are_exact_and_sums_are_those_of_float32(name: str) -> None:
    numbers = _float(name).decode(_codes(_float(name)))
    numbers = numbers[np.isfinite(numbers)]
    left, right = (x.reshape(-1) for x in np.meshgrid(numbers, numbers, indexing="ij"))
    exact = left * right  # of at most eight bits: exact in float64
    assert np.array_equal(products_summed(left[:, None], np.ones((1, 1))), left[:, None])
    single = np.array([products_summed(numbers[:, None], numbers[None, :])])[0].reshape(-1)
    assert np.array_equal(single, exact)
    order = np.random.default_rng(1).permutation(len(left))
    left, right, exact = left[order], right[order], exact[order]
    total = np.float32(0)
    for term in exact:
        # a float64 sum of two float32 numbers has bits to spare: rounded to float32 it is the exact sum rounded once
        total = np.float32(np.float64(total) + term)
    assert products_summed(left[None, :], right[:, None])[0, 0] == total


def test_sums_take_products_in_order_whatever_the_size() -> None:
    random = np.random.default_rng(2)
    left, right = random.standard_normal((37, 301)), random.standard_normal((301, 65))
    left, right = (_float("bf16").rounded(x) for x in (left, right))
    expected = np.zeros((37, 65), np.float32)
    for k in range(301):
        product = (left[:, k, None] * right[k]).astype(np.float32)
        expected = (expected + product).astype(np.float32)
    assert np.array_equal(products_summed(left, right), expected)


def _blocks_of_numbers() -> np.ndarray:
    random = np.random.default_rng(3)
    numbers = random.standard_normal((4000, 64)).astype(np.float32)
    numbers *= np.exp2(random.integers(-140, 120, (4000, 1))).astype(np.float32)
    numbers *= np.exp2(random.integers(-12, 1, numbers.shape)).astype(np.float32)
    numbers[::7, 3] = 0
    numbers[5] = 0
    numbers[6, 32:] = np.float32(1e-45)
    numbers[7] = np.exp2(np.arange(-40, 24))
    return numbers


@pytest.mark.parametrize("name", _BLOCKS)
def test_blocks_are_those_of_torchao(name: str) -> None:
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    numbers = _blocks_of_numbers()
    # where the byte of a power is 0, 2^-127, torchao 0.18 divides by 2^-126
    numbers = numbers[np.abs(numbers).reshape(len(numbers), 2, 32).max(-1).min(-1) >= 2.0**-110]
    assert len(numbers) > 3000
    powers, codes = _block(name).encode(numbers)
    their_powers, their_codes = mx.to_mx(torch.from_numpy(numbers), _BLOCKS[name], 32)
    assert np.array_equal(powers, their_powers.view(torch.uint8).numpy().reshape(powers.shape))
    theirs = their_codes.view(torch.uint8).numpy()
    if name == "mxfp4":  # two to a byte, the first one in its lower half
        theirs = np.stack([theirs & 15, theirs >> 4], -1).reshape(codes.shape)
    assert np.array_equal(codes, theirs)


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if isinstance(one, BlockFormat)])
def test_blocks_follow_the_rules_of_the_specification(name: str) -> None:
    """Section 6.3, element by element, over exact fractions."""
    one, numbers = _block(name), np.concatenate([_blocks_of_numbers()[:8], _blocks_of_numbers()[8::30]])
    element = one.element
    if isinstance(element, FloatFormat):
        grid = element.decode(np.arange(1 << element.bits))
    else:
        grid = np.arange(-127, 128) / 64
    held = sorted({Fraction(float(x)) for x in grid if np.isfinite(x)})
    powers, codes = one.encode(numbers)
    rounded = one.decode(powers, codes)
    largest_power = max(e for e in range(-20, 20) if Fraction(2) ** e in held)
    for row in range(0, len(numbers), 9):
        for start in (0, 32):
            block = [Fraction(float(x)) for x in numbers[row, start : start + 32]]
            top = max(abs(x) for x in block)
            if not top:
                assert not rounded[row, start : start + 32].any()
                continue
            floor = next(e for e in range(128, -151, -1) if Fraction(2) ** e <= top)
            power = max(floor - largest_power, -127)
            assert powers[row, start // 32] == power + 127
            for x, y in zip(block[::5], rounded[row, start : start + 32 : 5], strict=True):
                p, got = x / Fraction(2) ** power, Fraction(float(y)) / Fraction(2) ** power
                assert got in held
                least = min(abs(p - h) for h in held)
                assert abs(p - got) == least


def test_a_block_with_what_is_no_number_is_none_and_a_short_one_is_padded() -> None:
    one = _block("mxfp8-e4m3")
    numbers = np.ones((3, 40))
    numbers[0, 35], numbers[1, 0] = np.nan, np.inf
    powers, codes = one.encode(numbers)
    assert powers.shape == (3, 2)
    assert codes.shape == (3, 40)
    assert powers.tolist() == [[119, 255], [255, 119], [119, 119]]
    rounded = one.decode(powers, codes)
    assert np.isnan(rounded[0, 32:]).all()
    assert np.isnan(rounded[1, :32]).all()
    assert (rounded[2] == 1).all()
    assert one.bits == 8.25
    tail = np.array([*np.ones(32), 1e-3, 2e-3])
    assert np.array_equal(one.rounded(tail)[32:], one.rounded(np.array([1e-3, 2e-3])))
