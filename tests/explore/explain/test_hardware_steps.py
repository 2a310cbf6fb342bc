"""The neighbours of an accelerator: one parameter each, the next value of the space, legal, and marked where a space has none."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.exploration.explain.hardware_steps import PARAMETERS, SIZES, HardwareStep, hardware_steps, only
from baco.exploration.space import DesignSpace, load_space

GEMMINI = load_space("gemmini")
LARGE = load_space("gemmini-large")
REFERENCE = load_space("reference")


def value(accelerator: Accelerator, name: str) -> float:
    if name == "row_functions":
        return float(accelerator.features.row_functions)
    return float(getattr(accelerator, name))


def point(space: DesignSpace, index: int) -> Accelerator:
    points = space.rule_points()
    n = int(np.random.default_rng(index).integers(len(points)))
    one = points.take([n])
    return space.accelerator(one.dim[0], one.accumulator_kib[0], one.scratchpad_kib[0], bool(one.units[0]))


def steps_by(accelerator: Accelerator, space: DesignSpace) -> dict[tuple[str, str], HardwareStep]:
    model = "reference" if space.rules == "reference" else "instruction"
    return {(one.parameter, one.way): one for one in hardware_steps(accelerator, space, model)}


@pytest.mark.parametrize("index", range(12))
@pytest.mark.parametrize("space", [GEMMINI, LARGE], ids=["gemmini", "gemmini-large"])
def test_every_step_changes_its_parameter_and_what_it_says_besides(space: DesignSpace, index: int) -> None:
    own = point(space, index)
    found = hardware_steps(own, space.at(space.chosen) if space is GEMMINI else space, "instruction")
    assert Counter(one.parameter for one in found) == {
        name: 1 if name == "row_functions" else 2 for name in PARAMETERS
    }
    for one in found:
        assert (one.after > one.before) == (one.way == "up")
        if one.accelerator is None:
            assert one.reason
            continue
        changed = {
            name
            for name in PARAMETERS
            if value(one.accelerator, name) != pytest.approx(value(own, name), rel=1e-12)
        }
        # a wider port may need larger requests, a slower clock has another supply: no parameters of their own
        assert changed == {one.parameter, *one.also}
        assert value(one.accelerator, one.parameter) == pytest.approx(one.after, rel=1e-12)
        assert all(value(one.accelerator, name) == after for name, (_, after) in one.also.items())
        assert set(one.also) <= set(SIZES)
        # Gemmini's own generator takes it, row functions aside, which it does not know
        features = {**one.accelerator.features.model_dump(), "row_functions": False}
        assert one.accelerator.replace(features=features).gemmini_problems() == []


@pytest.mark.parametrize("index", range(12))
def test_steps_in_sizes_are_to_the_next_legal_value(index: int) -> None:
    own = point(GEMMINI, index)
    points = GEMMINI.rule_points()
    for (name, way), one in steps_by(own, GEMMINI).items():
        if name not in SIZES:
            continue
        legal = set(getattr(points, name).tolist())
        beyond = [v for v in legal if (v > one.before) == (way == "up") and v != one.before]
        assert one.inside == bool(beyond)
        if beyond:
            assert one.after == (min(beyond) if way == "up" else max(beyond))
            assert one.accelerator is not None
            sizes = [int(getattr(one.accelerator, size)) for size in SIZES]
            assert GEMMINI.legal(sizes[0], sizes[2], sizes[1])


def test_other_sizes_change_only_where_rules_couple_them() -> None:
    own = GEMMINI.accelerator(16, 64, 256)
    steps = steps_by(own, GEMMINI)
    assert all(not steps[name, way].also for name in SIZES for way in ("down", "up"))
    # 4 KiB in four banks of 16 columns hold 64 rows a bank; of 64 columns 16, fewer than a block has
    small = GEMMINI.accelerator(16, 4, 16)
    up = steps_by(small, GEMMINI)["dim", "up"]
    assert not GEMMINI.legal(32, 4, 16)
    assert up.after == 32
    assert up.also == {"scratchpad_kib": (16, 32), "accumulator_kib": (4, 8)} or up.also


def test_values_beyond_those_of_the_space_are_outside() -> None:
    narrow = dataclasses.replace(
        GEMMINI, dim=(16,), scratchpad_kib=(256,), accumulator_kib=(64,), search_units=False
    )
    steps = steps_by(narrow.accelerator(16, 64, 256), narrow)
    assert not any(one.inside for one in steps.values())
    assert {name: (steps[name, "down"].after, steps[name, "up"].after) for name in SIZES} == {
        "dim": (8, 32),
        "scratchpad_kib": (128, 512),
        "accumulator_kib": (32, 128),
    }
    assert steps["memory_gb_s", "up"].after == 16
    assert steps["clock_mhz", "up"].accelerator is None
    assert "300 to 1008 MHz" in steps["clock_mhz", "up"].reason


def test_settings_that_are_searched_step_through_their_values() -> None:
    own = LARGE.at(LARGE.chosen).accelerator(16, 64, 256)
    steps = steps_by(own, LARGE)
    for name, values in LARGE.settings:
        before = value(own, name)
        assert before in values, name
        for way in ("down", "up"):
            beyond = [v for v in values if (v > before) == (way == "up") and v != before]
            assert steps[name, way].inside == bool(beyond), (name, way)
            if beyond:
                assert steps[name, way].after == (min(beyond) if way == "up" else max(beyond))
    slower = steps["clock_mhz", "down"].accelerator
    assert slower is not None
    # main memory keeps its bandwidth, and a lower supply saves energy
    assert slower.memory_gb_s == pytest.approx(own.memory_gb_s)
    assert slower.energy.mac_pj < own.energy.mac_pj


def test_steps_in_a_space_of_single_kib_are_a_tenth_at_least() -> None:
    own = REFERENCE.accelerator(100, 1000, 3000)
    steps = steps_by(own, REFERENCE)
    assert {name for name, _ in steps} == {*SIZES, "memory_gb_s", "clock_mhz"}
    assert {(steps[name, "down"].after, steps[name, "up"].after) for name in SIZES} == {
        (90, 110),
        (2727, 3300),
        (909, 1100),
    }


def test_the_originals_timing_is_known_for_the_originals_settings_alone() -> None:
    base = GEMMINI.base.replace(timing="gemmini")
    space = dataclasses.replace(GEMMINI.without_units(), base=base)
    steps = hardware_steps(space.accelerator(16, 64, 256), space, "instruction")
    assert {one.parameter for one in steps} == set(SIZES)


def test_the_space_of_one_accelerator_has_it_alone_and_no_bounds_on_hardware() -> None:
    own = GEMMINI.accelerator(128, 256, 1024)
    assert own.area_mm2 > 5  # beyond the space's bound
    points = only(GEMMINI.constrain(power_mw=500.0), own).hardware()
    assert len(points) == 1
    assert only(GEMMINI.constrain(power_mw=500.0), own).constraints.power_mw == 500
    assert only(GEMMINI, own).accelerator(128, 256, 1024).config_hash == own.config_hash
