"""The scaling unit against numpy's float32 arithmetic."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.accel.testbench import BENCHES, RTL, build

LANES = 4


def _bits(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32).view(np.uint32)


def _reference(data: np.ndarray, scale: np.ndarray, bits: int) -> np.ndarray:
    """int32 elements (n, LANES) times float32 bits (n,): three separate roundings, ties to even, saturating."""
    with np.errstate(all="ignore"):
        product = data.astype(np.float32) * scale.view(np.float32)[:, None]
        assert product.dtype == np.float32
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        limited = np.clip(np.rint(product).astype(np.float64), low, high)
        return np.where(np.isnan(product), high, limited).astype(np.int64)


def _edge_scales() -> np.ndarray:
    exponents = np.arange(256, dtype=np.uint32) << 23
    mantissas = np.array([0, 1, 2, 0x3FFFFF, 0x400000, 0x400001, 0x555555, 0x7FFFFE, 0x7FFFFF], np.uint32)
    positive = (exponents[:, None] | mantissas[None, :]).ravel()
    thirds = _bits(
        [1 / 3, 2 / 3, 0.1, 0.5, 1.5, 2.5, 1 / 255, np.pi, 1 / 127, 0.00390625, np.inf, np.nan, 0.0]
    )
    all_positive = np.concatenate([positive, thirds])
    return np.concatenate([all_positive, all_positive | np.uint32(1 << 31)])


def _edge_integers(bits: int) -> np.ndarray:
    powers = [1 << shift for shift in range(bits)]
    near = {
        0,
        *(p + d for p in powers for d in range(-3, 4)),
        *(3 * p + d for p in powers for d in (-1, 0, 1)),
    }
    near |= {p + p // 2**24 + d for p in powers for d in (-1, 0, 1)}  # ties of the conversion to float32
    limit = 1 << (bits - 1)
    return np.array(sorted(v for s in (1, -1) for n in near if -limit <= (v := s * n) < limit), np.int64)


def _stimulus(in_bits: int, out_bits: int, vectors: int) -> tuple[np.ndarray, np.ndarray]:
    """Elements (n, LANES) and scales (n,): edges crossed with edges, then random ones that rarely saturate."""
    random = np.random.default_rng(in_bits * 64 + out_bits)
    scales, integers = _edge_scales(), _edge_integers(in_bits)
    parts = []
    for start in range(0, len(integers), LANES):
        chunk = np.resize(integers[start : start + LANES], LANES)
        parts.append((np.tile(chunk, (len(scales), 1)), scales))
    # random magnitudes of every width; the scale brings them near the output range or to a tie
    widths = random.integers(1, in_bits, (vectors, LANES))
    magnitude = random.integers(0, 1 << 31, (vectors, LANES)) >> (31 - widths)
    data = np.clip(magnitude * random.choice([-1, 1], (vectors, LANES)), -(1 << (in_bits - 1)), None)
    exponent = 127 + random.integers(-2, out_bits + 1, vectors) - widths[:, 0]
    mantissa = random.integers(0, 1 << 23, vectors)
    kept = random.integers(0, 24, vectors)
    mantissa = np.where(random.random(vectors) < 0.5, mantissa, mantissa >> kept << kept)
    sign = random.integers(0, 2, vectors)
    parts.append((data, ((sign << 31) | (np.clip(exponent, 0, 255) << 23) | mantissa).astype(np.uint32)))
    # half-integers: odd integers times 2**-k
    odd = random.integers(-(1 << (in_bits - 1)), 1 << (in_bits - 1), (vectors // 4, LANES)) | 1
    shift = random.integers(1, in_bits, vectors // 4)
    parts.append((odd, ((127 - shift) << 23).astype(np.uint32)))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


@pytest.mark.parametrize("defines", [[], ["SYNTHESIS"]], ids=["simulated", "synthesised"])
@pytest.mark.parametrize(("in_bits", "out_bits"), [(32, 8), (8, 8), (32, 32)])
def test_equals_float32_arithmetic(tmp_path: Path, in_bits: int, out_bits: int, defines: list[str]) -> None:
    parameters = {"LANES": LANES, "IN_BITS": in_bits, "OUT_BITS": out_bits}
    bench = build([RTL / "baco_scale.v"], "baco_scale", parameters, defines, BENCHES / "scale_bench.cpp")
    data, scale = _stimulus(in_bits, out_bits, 60_000)
    records = np.empty((len(data), 1 + LANES), np.uint32)
    records[:, 0] = scale
    records[:, 1:] = data.astype(np.int32).view(np.uint32)
    records.tofile(tmp_path / "in")
    subprocess.run([bench, tmp_path / "in", tmp_path / "out"], check=True, timeout=100)
    result = np.fromfile(tmp_path / "out", np.int32).reshape(-1, LANES)
    expected = _reference(data, scale, out_bits)
    assert result.shape == expected.shape
    wrong = np.argwhere(result != expected)
    assert not len(wrong), [
        (int(data[i, j]), hex(scale[i]), int(result[i, j]), int(expected[i, j])) for i, j in wrong[:5]
    ]


def test_int8_exhaustively_for_some_scales(tmp_path: Path) -> None:
    """Every int8 with scales whose products hit ties, and with random ones."""
    parameters = {"LANES": LANES, "IN_BITS": 8, "OUT_BITS": 8}
    bench = build([RTL / "baco_scale.v"], "baco_scale", parameters, [], BENCHES / "scale_bench.cpp")
    random = np.random.default_rng(3)
    ties = (np.arange(1, 512) / 64).astype(np.float32).view(np.uint32)
    scales = np.concatenate([ties, random.normal(0, 1, 500).astype(np.float32).view(np.uint32)])
    values = np.arange(-128, 128).reshape(-1, LANES)
    data = np.tile(values, (len(scales), 1))
    scale = np.repeat(scales, len(values))
    records = np.column_stack([scale, data.astype(np.int32).view(np.uint32)]).astype(np.uint32)
    records.tofile(tmp_path / "in")
    subprocess.run([bench, tmp_path / "in", tmp_path / "out"], check=True, timeout=100)
    result = np.fromfile(tmp_path / "out", np.int32).reshape(-1, LANES)
    np.testing.assert_array_equal(result, _reference(data, scale, 8))
