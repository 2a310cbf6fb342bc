"""Constraints on mapped designs: what they compare, and in which units."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from baco.accel.presets import load_accelerator
from baco.common.errors import InputError, Location
from baco.exploration.candidate import Cost, broken_bounds
from baco.exploration.space.constraints import Constraints, NetworkConstraints, power_mw
from baco.workloads.network import Task
from baco.workloads.problem import Problem

COST = Cost(latency_cycles=2e6, energy_pj=4e9, area_mm2=1.5)  # 4 mJ in 2 ms at 1 GHz


def test_power() -> None:
    assert power_mw(COST, 1000.0) == pytest.approx(2000.0)
    assert power_mw(COST, 500.0) == pytest.approx(1000.0)
    assert power_mw(Cost(0, 0, 1), 500.0) == 0


def test_values() -> None:
    c = Constraints(
        area_mm2=1.0,
        sram_kib=400,
        power_mw=1600,
        latency_cycles=2e6,
        energy_uj=1000,
        networks={"a": NetworkConstraints(latency_cycles=1e6), "b": NetworkConstraints(energy_uj=1)},
    )
    one = Cost(latency_cycles=1.5e6, energy_pj=1e9, area_mm2=1.5)
    values = c.values(COST, sram_kib=320, clock_mhz=1000, networks={"a": one})
    assert values == {
        "area_mm2": (1.5, 1.0),
        "sram_kib": (320, 400),
        "power_mw": (2000, 1600),
        "latency_cycles": (2e6, 2e6),
        "energy_uj": (4000, 1000),
        "networks.a.latency_cycles": (1.5e6, 1e6),
    }
    assert Constraints().values(COST, sram_kib=1e9, clock_mhz=1) == {}


def test_a_design_breaks_what_it_exceeds() -> None:
    machine = load_accelerator("gemmini-default").replace(clock_mhz=500)
    problem = Problem(P=4)
    tasks = [
        Task("a", problem, 6.0, weight=2.0),
        Task("b", problem, 5.0),
        Task("a", problem, 2.0, weight=2.0),
    ]
    runs = [(10.0, 1e6), (7.0, 2e6), (1.0, 4e6)]
    sram = machine.scratchpad_kib + machine.accumulator_kib
    kept = Constraints(
        area_mm2=1.5,
        sram_kib=sram,
        power_mw=1000,
        latency_cycles=2e6,
        networks={
            "a": NetworkConstraints(latency_cycles=31, energy_uj=7),
            "b": NetworkConstraints(energy_uj=10),
        },
    )
    assert broken_bounds(kept, COST, tasks, runs, machine, None) == {}
    tight = Constraints(
        area_mm2=1.4,
        sram_kib=sram - 1,
        power_mw=999,
        latency_cycles=1.9e6,
        networks={"a": NetworkConstraints(latency_cycles=30, energy_uj=7)},
    )
    assert broken_bounds(tight, COST, tasks, runs, machine, None) == {
        "area_mm2": (1.5, 1.4),
        "sram_kib": (sram, sram - 1),
        "power_mw": (1000, 999),
        "latency_cycles": (2e6, 1.9e6),
        "networks.a.latency_cycles": (31, 30),
    }


def test_kinds() -> None:
    assert Constraints(area_mm2=1, power_mw=1).hardware_only == {"area_mm2": 1}
    assert not Constraints(area_mm2=1, sram_kib=3).any_on_mappings
    assert Constraints(power_mw=1).any_on_mappings
    assert Constraints(networks={"a": NetworkConstraints()}).any_on_mappings


def test_constraints_on_networks_that_are_not_explored() -> None:
    c = Constraints(networks={"resnet5": NetworkConstraints(energy_uj=1)})
    c.check_networks(["resnet5", "other"])
    with pytest.raises(InputError, match="'resnet5', which is not explored") as caught:
        c.check_networks(["resnet50"], Location("s.yaml", 3, 1))
    assert "did you mean 'resnet50'?" in (caught.value.hint or "")
    assert str(caught.value.location) == "s.yaml:3:1"


def test_arrays_and_tensors_reach_what_each_of_their_designs_does() -> None:
    """One design by hand, many at once, and with gradients: the same values by path; a design that does not fit has no power."""
    bounds = Constraints(
        area_mm2=3.0,
        sram_kib=100,
        power_mw=400,
        energy_uj=2,
        networks={"a": NetworkConstraints(latency_cycles=5.0, energy_uj=1.0)},
    )
    latency, energy = np.array([2e6, 4e6, np.inf]), np.array([1e9, 5e8, np.inf])
    area, sram = np.array([1.0, 2.0, 3.0]), np.array([64.0, 96.0, 320.0])

    def reached(of: Callable[[np.ndarray], Any]) -> dict[str, tuple[Any, float]]:
        cost, one = Cost(of(latency), of(energy), of(area)), Cost(of(latency) / 4, of(energy) / 2, of(area))
        return bounds.values(cost, sram_kib=of(sram), clock_mhz=500.0, networks={"a": one})

    many, differentiable = reached(lambda column: column), reached(torch.from_numpy)
    assert list(many) == list(bounds.bounds) == list(differentiable)
    for n in range(2):
        by_hand = {
            "area_mm2": area[n],
            "sram_kib": sram[n],
            "power_mw": energy[n] * 1e-12 / (latency[n] / 500e6) * 1e3,
            "energy_uj": energy[n] / 1e6,
            "networks.a.latency_cycles": latency[n] / 4,
            "networks.a.energy_uj": energy[n] / 2e6,
        }
        single = reached(lambda column, n=n: float(column[n]))  # type: ignore[misc]
        for found in (
            many,
            differentiable,
            {path: ([value] * 2, bound) for path, (value, bound) in single.items()},
        ):
            assert {path: float(value[n]) for path, (value, _) in found.items()} == pytest.approx(by_hand)
    assert many["power_mw"][0][2] == np.inf
    assert bounds.on_mappings.bounds.keys() == bounds.bounds.keys() - bounds.hardware_only.keys()
