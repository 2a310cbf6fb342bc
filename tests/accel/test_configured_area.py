"""Area of whole configurations: the fitted law at the defaults, differences of structure elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from baco.accel.area import AREA, CELLS_UM2, area_mm2, logic_scale
from baco.accel.config import Accelerator, Features
from baco.accel.presets import load_accelerator
from baco.accel.structure_law import structure_law

KIB = st.integers(1, 4096)


@given(st.integers(2, 128), KIB, KIB, st.sampled_from(("WS", "both")))
def test_the_law_exactly_at_the_defaults(dim: int, accumulator: int, scratchpad: int, flow: str) -> None:
    one = Accelerator(dim=dim, accumulator_kib=accumulator, scratchpad_kib=scratchpad, dataflow=flow)
    assert one.area_mm2 == area_mm2(dim, accumulator, scratchpad)


def test_presets() -> None:
    default = load_accelerator("gemmini-default")
    assert default.area_mm2 == area_mm2(16, 64, 256)
    # lean: bias, results into the scratchpad and wide reads left out, 48 more requests in flight
    lean = load_accelerator("gemmini-lean")
    assert 0.95 * default.area_mm2 < lean.area_mm2 < default.area_mm2
    large = load_accelerator("gemmini-large")
    assert 0.98 * area_mm2(32, 128, 512) < large.area_mm2 < area_mm2(32, 128, 512)


def default(**changes: Any) -> Accelerator:
    return Accelerator(dim=16, accumulator_kib=64, scratchpad_kib=256).replace(**changes)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("scratchpad_banks", (1, 2, 4, 8, 16, 64)),
        ("accumulator_banks", (1, 2, 3, 4)),
        ("partial_sum_bits", (8, 16, 20, 32)),
        ("tile_rows", (16, 8, 4, 2, 1)),
        ("dma_bits", (32, 64, 128, 256, 512)),
        ("dma_requests", (1, 16, 64, 256)),
        ("load_queue", (1, 8, 64)),
        ("execute_queue", (1, 8, 64)),
        ("store_queue", (1, 2, 64)),
        ("load_entries", (1, 8, 64)),
        ("execute_entries", (1, 16, 64)),
        ("store_entries", (1, 4, 64)),
        ("scale_lanes", (1, 4, 16)),
        ("counters", (0, 1, 8, 64)),
    ],
)
def test_more_of_anything_takes_more(name: str, values: tuple[int, ...]) -> None:
    for dim, accumulator, scratchpad in ((16, 64, 256), (128, 1024, 4096), (16, 1, 1)):
        areas = [default(**{name: value}).area_of(dim, accumulator, scratchpad) for value in values]
        assert np.diff(areas).min() > 0
        assert areas[0] > 0


@pytest.mark.parametrize("name", list(Features.model_fields))
def test_a_feature_takes_more(name: str) -> None:
    others = {"input_format": "bf16", "dataflow": "WS"} if name == "block_weights" else {}
    features = {"mvin_scale": False} if others else {}
    on, off = (default(features={**features, name: value}, **others).area_mm2 for value in (True, False))
    # what is saved may be as little as a flag
    assert off <= on * 1.001
    if name in (
        "loop_ws",
        "loop_conv",
        "mvin_scale_acc",
        "accumulator_scale",
        "max_pool",
        "row_functions",
        "requantization",
        "normalizations",
    ):
        assert off < on * 0.999


def least(dim: int) -> Accelerator:
    """The smallest of everything."""
    return Accelerator(
        dim=dim,
        accumulator_kib=1,
        scratchpad_kib=1,
        dataflow="OS",
        scratchpad_banks=1,
        accumulator_banks=1,
        partial_sum_bits=8,
        tile_rows=dim,
        dma_bits=32,
        dma_max_bytes=8,
        dma_requests=1,
        load_queue=1,
        execute_queue=1,
        store_queue=1,
        load_entries=1,
        execute_entries=1,
        store_entries=1,
        counters=0,
        features=Features(**dict.fromkeys(Features.model_fields, False)),
    )


@pytest.mark.parametrize("dim", [2, 4, 16, 128])
def test_positive_and_growing_with_the_sizes_even_for_the_least(dim: int) -> None:
    one = least(dim)
    capacities = np.arange(1, 200)
    assert one.area_mm2 > 0
    assert np.diff(one.area_of(dim, capacities, 8)).min() > 0
    assert np.diff(one.area_of(dim, 8, capacities)).min() >= 0


def test_banks_by_hand() -> None:
    # 64 words: 16 at the first slope and 48 at the second, less their cells; for 2 banks of 32 bits
    slopes = AREA.accumulator_slopes
    bit = (16 * slopes[0] + 48 * slopes[1] - 64 * slopes[-1]) / 64
    assert AREA.bank_bit_mm2 == pytest.approx(bit, rel=1e-12)
    # 16 x 16: a scratchpad bank is 128 bits wide
    logic = structure_law().difference(default(scratchpad_banks=8), default(), 16)
    added = logic_scale() * sum(CELLS_UM2[name] * count for name, count in logic.items()) * 1e-6
    more = default(scratchpad_banks=8).area_mm2 - default().area_mm2
    assert more == pytest.approx(4 * 128 * bit + added, rel=1e-9)
    # The law's 256 KiB is more than cells and four banks; three banks fewer save in proportion.
    cells = 256 * 1024 * AREA.scratchpad_slopes[-1]
    one = AREA.scratchpad_in_banks_mm2(16, 256, 1, 4)
    saved = AREA.scratchpad_mm2(16, 256) * 3 * 128 * bit / (cells + 4 * 128 * bit)
    assert AREA.scratchpad_mm2(16, 256) - one == pytest.approx(saved, rel=1e-9)


def test_tables_by_hand() -> None:
    # 256 words of 16 bits for every element that leaves in a cycle, one bank each; all else is logic
    built = default(features={"row_functions": True})
    for dim, lanes in ((4, 4), (16, 16), (64, 16)):
        logic = structure_law().difference(built, default(), dim)
        cells = logic_scale() * sum(CELLS_UM2[name] * count for name, count in logic.items()) * 1e-6
        tables = lanes * (16 * AREA.bank_bit_mm2 + 256 * AREA.accumulator_slopes[-1] / 2)
        more = built.area_of(dim, 64, 256) - default().area_of(dim, 64, 256)
        assert more == pytest.approx(cells + tables, rel=1e-9)


#: Without those that need others.
FLAGS = st.fixed_dictionaries(
    {
        n: st.booleans()
        for n in Features.model_fields
        if n not in ("normalizations", "requantization", "block_weights")
    }
)


@given(
    FLAGS,
    st.sampled_from(("WS", "OS", "both")),
    st.sampled_from((1, 2, 4, 8, 64)),
    st.integers(1, 4),
    st.sampled_from((1, 16, 256)),
    st.integers(8, 32),
    st.integers(2, 128),
)
def test_never_falls_as_a_capacity_grows(
    features: dict[str, bool],
    flow: str,
    scratchpad: int,
    accumulator: int,
    requests: int,
    bits: int,
    dim: int,
) -> None:
    one = default(
        features=features,
        dataflow=flow,
        scratchpad_banks=scratchpad,
        accumulator_banks=accumulator,
        dma_requests=requests,
        partial_sum_bits=bits,
        tile_rows=1,
    )
    capacities = np.unique(np.geomspace(1, 1 << 17, 80).round())
    area = one.area_of(dim, capacities[:, None], capacities[None, :])
    assert area.min() > 0
    for axis in range(2):
        assert (np.diff(area, axis=axis) >= -1e-12 * area.max()).all()


def test_scale_agrees_with_the_process() -> None:
    # the published areas are of 40 nm (Aladdin), the cells of 45 nm
    assert logic_scale() == pytest.approx((40 / 45) ** 2, rel=0.1)


def test_arrays_and_tensors() -> None:
    one = default(dataflow="OS", scratchpad_banks=8, dma_bits=256, counters=0, features={"loop_conv": False})
    sizes = ([4, 16, 100], [8, 64, 300], [32, 256, 1])
    expected = [one.area_of(*point) for point in zip(*sizes, strict=True)]
    assert one.area_of(*map(np.array, sizes)).tolist() == pytest.approx(expected, rel=1e-12)
    tensors = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in sizes]
    assert one.area_of(*tensors).tolist() == pytest.approx(expected, rel=1e-12)
    assert torch.autograd.gradcheck(one.area_of, tensors)
    assert default(dim=100, tile_rows=1).area_of(4, 8, 32) == area_mm2(4, 8, 32)
