"""Static energy: leakage and clock by area and cycles, absent from the published table."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from baco.accel.config import Accelerator
from baco.accel.energy import EnergyTable
from baco.accel.presets import load_accelerator

TABLE = EnergyTable(leakage_mw_per_mm2=18.0, clock_pj_per_mm2=40.0)


@pytest.mark.parametrize("clock_mhz", [250.0, 1000.0])
def test_it_is_leakage_over_time_and_a_clock_every_cycle(clock_mhz: float) -> None:
    machine = load_accelerator("gemmini-default").replace(energy=TABLE, clock_mhz=clock_mhz)
    cycles = 1_000_000
    seconds = cycles / (clock_mhz * 1e6)
    joules = machine.area_mm2 * (18.0e-3 * seconds + 40.0e-12 * cycles)
    assert machine.static_pj(cycles) * 1e-12 == pytest.approx(joules, rel=1e-12)


def test_it_follows_the_sizes_with_gradients() -> None:
    machine = load_accelerator("gemmini-default").replace(energy=TABLE)
    sides = np.array([8.0, 16.0, 32.0])
    found = machine.static_pj_of(10.0, sides, 64.0, 256.0)
    wanted = [machine.replace(dim=int(side)).static_pj(10.0) for side in sides]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    side = torch.tensor(16.0, dtype=torch.float64, requires_grad=True)
    machine.static_pj_of(10.0, side, 64.0, 256.0).backward()
    step = 1e-4
    ends = machine.static_pj_of(10.0, np.array([16 - step, 16 + step]), 64.0, 256.0)
    assert side.grad is not None
    assert side.grad.item() == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-6)


def test_the_published_table_has_none_and_keeps_its_hash() -> None:
    machine = load_accelerator("gemmini-default")
    assert machine.static_pj(1e9) == 0.0
    assert "leakage_mw_per_mm2" not in machine.model_dump()["energy"]
    assert machine.config_hash == "1fb3a150d8a5d5ad"
    other = machine.replace(energy=TABLE)
    assert other.config_hash != machine.config_hash
    assert Accelerator.model_validate(other.model_dump()) == other
