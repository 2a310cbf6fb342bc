"""The area law: published areas, cross-validation, monotonicity, extrapolation, gradients."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from baco.accel.area import AREA, area_mm2
from baco.accel.config import Accelerator
from baco.bench.fit import area as fit_area

PUBLISHED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "timeloop-mappings.csv.gz"
needs_data = pytest.mark.skipif(
    not PUBLISHED.exists(),
    reason="the published areas (../shared/data/timeloop-mappings.csv.gz) are not here",
)

#: (side, accumulator KiB, scratchpad KiB, published mm2, largest relative error accepted): rows of the data.
POINTS = [
    (16, 128, 128, 1.258575, 0.05),
    (4, 8, 32, 0.160911, 0.05),
    (128, 2048, 1, 18.855377, 0.05),
    (2, 1, 32, 0.107481, 0.05),
    (64, 2048, 1024, 15.706943, 0.05),
    (8, 2048, 16, 11.720097, 0.10),
]


@pytest.mark.parametrize(("dim", "accumulator", "scratchpad", "published", "tolerance"), POINTS)
def test_published_areas(
    dim: int, accumulator: int, scratchpad: int, published: float, tolerance: float
) -> None:
    assert area_mm2(dim, accumulator, scratchpad) == pytest.approx(published, rel=tolerance)


def test_configuration_knows_its_area() -> None:
    point = Accelerator(dim=16, accumulator_kib=128, scratchpad_kib=128)
    assert point.area_mm2 == area_mm2(16, 128, 128)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return fit_area.read_areas(PUBLISHED)


@needs_data
def test_mean_error_over_distinct_configurations(rows: np.ndarray) -> None:
    assert len(rows) == 95
    error = np.abs(area_mm2(rows[:, 0], rows[:, 1], rows[:, 2]) / rows[:, 3] - 1)
    assert error.mean() < 0.025
    assert error.max() < 0.14


@needs_data
def test_cross_validated_error(rows: np.ndarray) -> None:
    folds = np.random.default_rng(7).permutation(len(rows)) % 5  # other folds than the committed statistics
    assert fit_area.cross_validate(rows, folds).mean() < 0.035
    assert fit_area.cross_validate(rows, rows[:, 0]).mean() < 0.045  # array sides never seen


@needs_data
def test_committed_coefficients_are_what_the_command_writes(tmp_path: Path) -> None:
    out = tmp_path / "area.json"
    assert fit_area.main([str(PUBLISHED), "--out", str(out)]) == 0
    fresh = json.loads(out.read_text())
    committed = json.loads(resources.files("baco.accel").joinpath("area.json").read_text())
    assert fresh["command"] == committed["command"]
    for name, values in committed["errors"].items():
        # versions of the linear-programme solver may end at another of nearly equal optima
        assert fresh["errors"][name] == pytest.approx(values, abs=0.2), name
    assert fresh["coefficients"]["element_mm2"] == pytest.approx(
        committed["coefficients"]["element_mm2"], rel=0.01
    )


def test_fit_recovers_a_known_law() -> None:
    rng = np.random.default_rng(3)
    dim = 2.0 ** rng.integers(1, 8, 200)
    accumulator, scratchpad = 2.0 ** rng.integers(3, 12, 200), 2.0 ** rng.integers(3, 12, 200)
    # linear memories: 2e-5 mm2 a word, 2.5e-6 mm2 a byte, at least 64 scratchpad rows
    area = (
        4e-4 * dim**2
        + accumulator * 256 * 2e-5
        + np.maximum(scratchpad * 1024, 64 * dim) * (2.5e-6 + 6e-9 * dim)
    )
    law = fit_area.fit(np.stack([dim, accumulator, scratchpad, area], axis=1))
    assert law.element_mm2 == pytest.approx(4e-4, rel=1e-3)
    assert law.accumulator_slopes == pytest.approx([2e-5] * len(law.accumulator_slopes), rel=1e-2)
    assert law.scratchpad_slopes == pytest.approx([2.5e-6] * len(law.scratchpad_slopes), rel=1e-2)
    assert law.wiring_mm2 == pytest.approx(6e-9, rel=1e-2)


def test_unreadable_table_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for name in ("other.csv", "missing.csv"):
        assert fit_area.main([str(tmp_path / name), "--out", str(tmp_path / "area.json")]) == 2
        assert name in capsys.readouterr().err
    assert not (tmp_path / "area.json").exists()


def test_never_falls_and_stays_positive_over_the_whole_range() -> None:
    dim = np.arange(2, 129)[:, None, None]
    capacity = np.unique(np.geomspace(1, 4096, 70).round())
    area = area_mm2(dim, capacity[None, :, None], capacity[None, None, :])
    assert area.shape == (127, len(capacity), len(capacity))
    assert area.min() > 0
    for axis in range(3):
        assert np.diff(area, axis=axis).min() >= 0
    # more room costs at least something in the array and the accumulator
    assert np.diff(area, axis=0).min() > 0
    assert np.diff(area, axis=1).min() > 0


SIDES = st.floats(2, 128)
KIB = st.floats(1, 4096)


@given(SIDES, KIB, KIB, st.floats(1, 4))
def test_never_falls_between_whole_values(
    dim: float, accumulator: float, scratchpad: float, more: float
) -> None:
    area = area_mm2(dim, accumulator, scratchpad)
    assert area_mm2(min(dim * more, 128.0), accumulator, scratchpad) >= area * (1 - 1e-12)
    assert area_mm2(dim, accumulator * more, scratchpad) >= area * (1 - 1e-12)
    assert area_mm2(dim, accumulator, scratchpad * more) >= area * (1 - 1e-12)


def test_extrapolation_is_in_proportion() -> None:
    # beyond the data (2 MiB): twice the memory takes about twice its room
    for dim in (2, 16, 128):
        assert 1.7 < AREA.scratchpad_mm2(dim, 8192) / AREA.scratchpad_mm2(dim, 4096) < 2.2
        assert 1.7 < AREA.accumulator_mm2(dim, 8192) / AREA.accumulator_mm2(dim, 4096) < 2.2


def test_numbers_arrays_and_tensors_agree() -> None:
    dim, accumulator, scratchpad = [4, 16, 100], [8, 64, 300], [32, 256, 1]
    expected = [area_mm2(*point) for point in zip(dim, accumulator, scratchpad, strict=True)]
    assert all(type(value) is float for value in expected)
    as_array = area_mm2(np.array(dim), np.array(accumulator), np.array(scratchpad))
    assert as_array.tolist() == pytest.approx(expected, rel=1e-12)
    double = [torch.tensor(v, dtype=torch.float64) for v in (dim, accumulator, scratchpad)]
    assert area_mm2(*double).tolist() == pytest.approx(expected, rel=1e-12)
    single = [torch.tensor(v, dtype=torch.float32) for v in (dim, accumulator, scratchpad)]
    assert area_mm2(*single).tolist() == pytest.approx(expected, rel=1e-5)


def test_gradients_also_at_the_knots() -> None:
    # 16 columns x 64 KiB = 1024 words and 16 KiB are knots; 128 x 8 KiB is the least scratchpad of its side
    points = ([16.0, 8.0, 128.0, 3.3], [64.0, 1.0, 5.0, 0.7], [256.0, 16.0, 8.0, 0.1])
    tensors = tuple(torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in points)
    assert torch.autograd.gradcheck(area_mm2, tensors)
    area_mm2(*tensors).sum().backward()
    for tensor in tensors:
        assert tensor.grad is not None
        assert (tensor.grad >= 0).all()
