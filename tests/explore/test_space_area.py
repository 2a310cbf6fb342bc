"""The area of a space's points: that of the whole accelerator, base included, wherever a search asks for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from baco.accel.area import area_mm2
from baco.accel.config import Accelerator, Features
from baco.accel.dataflows import Dataflow
from baco.bench.sets.spaces import published_space
from baco.common.errors import InfeasibleError
from baco.exploration.cost.certificate import _Grid
from baco.exploration.search.hardware_choice import HardwareChoice
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.space.constraints import Constraints
from baco.exploration.space.shortfall import check_feasible

#: Changes to gemmini-default, and whether an accelerator is larger with them.
LARGER = [
    {"scratchpad_banks": 16},
    {"accumulator_banks": 4},
    {"load_queue": 32, "execute_queue": 32, "store_queue": 16},
    {"load_entries": 32, "execute_entries": 64, "store_entries": 16},
    {"dma_bits": 256},
    {"dma_requests": 128},
    {"counters": 32},
    {"features": {"mvin_scale_acc": True}},
]
SMALLER = [
    {"scratchpad_banks": 2},
    {"accumulator_banks": 1},
    {"partial_sum_bits": 20},
    {"tile_rows": 4},
    {"features": {"loop_ws": False, "loop_conv": False, "max_pool": False}},
]


def gemmini(**changes: Any) -> DesignSpace:
    """The space `gemmini` in the published technology without its bounds, around another base."""
    free = dataclasses.replace(published_space().without_units(), constraints=Constraints())
    return dataclasses.replace(free, base=free.base.replace(**changes))


def own_area(space: DesignSpace, point: Any, dataflow: str = "WS") -> float:
    """Area of the accelerator of one point, put together here."""
    sizes = dict(zip(("dim", "accumulator_kib", "scratchpad_kib"), (int(v) for v in point), strict=True))
    fields = {**space.base.model_dump(), **sizes, "dataflow": dataflow}
    return Accelerator.model_validate(fields).area_mm2


def sample(space: DesignSpace, number: int) -> np.ndarray:
    points = space.rule_points()
    table = np.stack([points.dim, points.accumulator_kib, points.scratchpad_kib, points.area_mm2], 1)
    return table[np.random.default_rng(3).choice(len(table), number, replace=False)]


@pytest.mark.parametrize("changes", LARGER + SMALLER)
def test_points_have_the_area_of_their_accelerators(changes: dict[str, Any]) -> None:
    space = gemmini(**changes)
    for *point, area in sample(space, 40):
        assert area == pytest.approx(own_area(space, point), rel=1e-12)
        assert area == pytest.approx(space.accelerator(*(int(v) for v in point)).area_mm2, rel=1e-12)
        assert (area > area_mm2(*point)) == (changes in LARGER)


def test_the_published_base_has_the_fitted_law() -> None:
    for space in (gemmini(), dataclasses.replace(gemmini(), dataflows=("WS", "OS"))):
        points = space.rule_points()
        sizes = (points.dim, points.accumulator_kib, points.scratchpad_kib)
        assert (points.area_mm2 == area_mm2(*(v.astype(np.float64) for v in sizes))).all()


def test_the_dataflow_is_that_of_the_space() -> None:
    flows: dict[str, tuple[Dataflow, ...]] = {"WS": ("WS",), "OS": ("OS",), "both": ("WS", "OS")}
    for name, dataflows in flows.items():
        # whatever the base's own is
        space = dataclasses.replace(gemmini(dataflow="OS"), dataflows=dataflows)
        for point in ((4, 8, 32), (16, 64, 256)):
            assert space.area_of(*point) == pytest.approx(own_area(space, point, name), rel=1e-12)


def test_numbers_arrays_and_tensors() -> None:
    space = gemmini(scratchpad_banks=8, dma_bits=256, features={"loop_conv": False})
    sizes = ([4.0, 16.0, 100.0], [8.0, 64.0, 300.5], [32.0, 256.0, 1.25])
    expected = [space.area_of(*point) for point in zip(*sizes, strict=True)]
    assert space.area_of(*map(np.array, sizes)).tolist() == pytest.approx(expected, rel=1e-12)
    tensors = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in sizes]
    assert space.area_of(*tensors).tolist() == pytest.approx(expected, rel=1e-12)
    assert torch.autograd.gradcheck(space.area_of, tensors)


def test_the_bound_on_area_is_on_the_whole_accelerator() -> None:
    rich = gemmini(scratchpad_banks=16, dma_requests=128, execute_queue=64)
    points = rich.rule_points()
    sizes = np.stack([points.dim, points.accumulator_kib, points.scratchpad_kib], 1)
    bound = float(np.median(points.area_mm2))
    allowed = rich.constrain(area_mm2=bound).allowed(*sizes.T)
    assert allowed.tolist() == [own_area(rich, point) <= bound for point in sizes]
    assert allowed.sum() < gemmini().constrain(area_mm2=bound).allowed(*sizes.T).sum()


def bare_with_deep_queues() -> DesignSpace:
    """A base without features whose area falls as the side grows to 8, in a space too large to list."""
    base = Accelerator(
        dim=16,
        accumulator_kib=16,
        scratchpad_kib=64,
        features=Features(**dict.fromkeys(Features.model_fields, False)),
        dma_requests=256,
        **dict.fromkeys(("load_queue", "execute_queue", "store_queue"), 64),
        **dict.fromkeys(("load_entries", "execute_entries", "store_entries"), 64),
    )
    return dataclasses.replace(load_space("reference"), base=base)


def test_bounds_where_the_area_falls_as_the_side_grows() -> None:
    space = bare_with_deep_queues()
    by_side = space.area_of(np.array(space.dim), 1, 1)
    assert by_side[0] > by_side.min() < by_side[-1]
    with pytest.raises(InfeasibleError, match="area_mm2 may be") as caught:
        check_feasible(space.constrain(area_mm2=0.9 * float(by_side.min())))
    assert f"dim {space.dim[int(by_side.argmin())]}, " in str(caught.value.hint)
    # sides of 2 are out of reach, some larger ones are not
    limit = float(by_side[0] + by_side.min()) / 2
    limited = space.constrain(area_mm2=limit)
    choice = HardwareChoice(limited)
    rng = np.random.default_rng(0)
    anywhere = choice.low + (choice.high - choice.low) * rng.random((60, 3))
    anywhere[0] = choice.low
    points = choice.nearest(anywhere)
    assert limited.allowed(*points.T).all()
    assert all(own_area(limited, point) <= limit for point in points)


def test_a_proof_leaves_no_allowed_point_out_where_the_area_falls_as_the_side_grows() -> None:
    space = bare_with_deep_queues()
    by_side = space.area_of(np.array(space.dim), 1, 1)
    small = dataclasses.replace(
        space, dim=tuple(range(2, 34)), accumulator_kib=(1, 2, 3, 4), scratchpad_kib=(1, 2, 4)
    ).constrain(area_mm2=float(by_side[0] + by_side.min()) / 2)
    grid = _Grid(small)
    whole = grid.everything()
    assert whole is not None
    reached, open_ = set(), [whole]
    while open_:
        ranges = open_.pop()
        if all(first == last for first, last in ranges):
            low = grid.region(ranges).low
            reached.add((low.dim, low.accumulator_kib, low.scratchpad_kib))
        else:
            open_ += grid.halves(ranges)
    everything = (
        np.array(np.meshgrid(small.dim, small.accumulator_kib, small.scratchpad_kib)).reshape(3, -1).T
    )
    expected = {tuple(point) for point in everything.tolist() if small.allowed(*point)}
    assert 0 < len(expected) < len(everything)
    assert reached == expected
