"""Technologies: laws are recovered from netlists that follow them, areas and clocks are theirs, files are checked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import baco
from baco.accel.area import area_mm2
from baco.accel.bank_law import BankLaw
from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.accel.structure_law import QUANTITIES, structure_law
from baco.accel.technologies.measuring import DESIGNS, INTEGER_DESIGNS, fit_technology, measure, read_netlists
from baco.accel.technology import (
    NEXT_SIDE,
    PUBLISHED,
    PeriodLaw,
    Technology,
    keep_technology,
    technology,
    technology_names,
)
from baco.api.search_call import written_space
from baco.common.errors import InfeasibleError, InputError
from baco.common.yaml import parse_yaml
from baco.exploration.known_errors import known_errors
from baco.exploration.space import load_space
from baco.exploration.space.in_technology import in_technology
from baco.exploration.space.reading import space_of
from baco.main import run
from tests.accel.synthesis.tiny_library import tiny_file

NETLISTS = Path(__file__).parents[3] / "results" / "technologies"
LOGIC = {"register_bits": 7.0, "partial_products": 5.0, "adder_bits": 6.0, "multiplexer_bits": 2.0}
BANKS = BankLaw(bank=1000.0, sqrt_bits=20.0, width=50.0, bits=0.5)
PERIOD = PeriodLaw(
    base=5.0, log_dim=0.5, log_entries=1.0, chained=2.0, normalizer=17.0, row_functions=12.0,
    floats=14.0, wide_floats=18.0,
)  # fmt: skip
#: Of an element of floating point, um2.
FLOAT = 5000.0
MINE = Technology(
    name="mine",
    logic_um2=LOGIC,
    float_um2=FLOAT,
    memories=BANKS,
    period=PERIOD,
    energy={"leakage_mw_per_mm2": 1.5},
)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "technologies").mkdir(parents=True)
    keep_technology(MINE)


def by_hand(machine: Accelerator) -> float:
    """Area in mm2, of the module's formula, a bank at a time."""
    counts = structure_law().counts(machine, float(machine.dim))
    um2 = sum(LOGIC[name] * counts[name] for name in QUANTITIES)
    um2 += FLOAT * machine.dim**2 * (machine.input_format != "integer")
    for kib, number, width in (
        (machine.scratchpad_kib, machine.scratchpad_banks, machine.dim * machine.input_bits),
        (machine.accumulator_kib, machine.accumulator_banks, machine.dim * 32),
    ):
        bits = kib * 8192 / number
        um2 += number * (1000 + 20 * bits**0.5 + 50 * width + 0.5 * bits)
    if machine.features.row_functions:  # a table of 256 x 16 bits for each element that leaves in a cycle
        um2 += min(machine.dim, machine.dma_bits / 8) * (1000 + 20 * 64 + 50 * 16 + 0.5 * 4096)
    return float(um2 / 1e6)


def test_published_figures_stay_and_are_written_as_before() -> None:
    machine = baco.accelerator()
    assert machine.technology == PUBLISHED
    assert machine.area_mm2 == area_mm2(16.0, 64.0, 256.0)
    assert machine.closes_at_mhz is None
    assert "technology" not in machine.model_dump()
    assert "technology" not in machine.to_yaml()
    assert PUBLISHED in technology_names()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dim": 32, "scratchpad_banks": 8},
        {"dataflow": "WS", "load_queue": 4},
        *(
            {"dataflow": "WS", "input_format": form, "features": {"mvin_scale": False}}
            for form in ("fp8-e5m2", "bf16")
        ),
    ],
)
def test_areas_are_counts_and_memories_at_the_technologys_figures(changes: dict[str, Any]) -> None:
    machine = baco.accelerator(technology="mine", **changes)
    assert machine.area_mm2 == pytest.approx(by_hand(machine))
    assert sum(machine.area_blocks().values()) == pytest.approx(machine.area_mm2)
    again = load_accelerator(Path(_written(machine)))
    assert again == machine
    assert machine.config_hash != machine.replace(technology=PUBLISHED).config_hash


def _written(machine: Accelerator) -> str:
    path = technology_folder() / "machine.yaml"
    path.write_text(machine.to_yaml())
    return str(path)


def technology_folder() -> Path:
    """The user's own."""
    from baco.accel.technology import own_technologies

    return own_technologies()


def test_areas_of_arrays_and_tensors_are_those_of_numbers() -> None:
    machine = baco.accelerator(technology="mine", features={"row_functions": True})
    sides, accumulators, scratchpads = np.array([[4, 8, 8], [64, 16, 32], [256, 64, 128]])
    each = [
        machine.area_of(float(d), float(a), float(s))
        for d, a, s in zip(sides, accumulators, scratchpads, strict=True)
    ]
    assert machine.area_of(sides, accumulators, scratchpads) == pytest.approx(each)
    tensors = [
        torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (sides, accumulators, scratchpads)
    ]
    found = machine.area_of(*tensors)
    assert found.tolist() == pytest.approx(each)
    found.sum().backward()
    assert all((one.grad > 0).all() for one in tensors if one.grad is not None)
    with_tables = each[1] - machine.replace(features={"row_functions": False}).area_of(8.0, 16.0, 64.0)
    assert (
        with_tables > 8 * (1000 + 20 * 64 + 50 * 16 + 0.5 * 4096) / 1e6
    )  # eight lanes' tables, and their logic


def test_clocks_are_those_that_designs_close_at() -> None:
    # 5 + 0.5 x log2(16) + log2(28), ns
    most = 1e3 / (5 + 0.5 * 4 + np.log2(28))
    machine = baco.accelerator(technology="mine")
    assert machine.closes_at_mhz == pytest.approx(most)
    assert most * 0.999 < machine.clock_mhz <= most
    assert machine.memory_gb_s == pytest.approx(baco.accelerator().memory_gb_s)
    assert machine.energy.leakage_mw_per_mm2 == 1.5
    assert load_accelerator("gemmini-default,technology=mine") == machine
    assert baco.accelerator(technology="mine", clock_mhz=50.0).clock_mhz == 50.0
    with pytest.raises(InputError, match=rf"closes at {most:.4g} MHz before layout, not at 500"):
        baco.accelerator(technology="mine", clock_mhz=500.0)
    with pytest.raises(InputError, match="unknown technology 'yours'"):
        baco.accelerator(technology="yours")


def test_spaces_take_a_technology_and_the_clock_of_their_largest_side() -> None:
    space = space_of({"technology": "mine", "dim": [8, 16, 32]})
    most = 1e3 / (5 + 0.5 * 5 + np.log2(28))
    assert most * 0.999 < space.base.clock_mhz <= most
    machine = space.accelerator(16, 64, 256)
    assert machine.area_mm2 == pytest.approx(by_hand(machine))
    assert space.area_of(16, 64, 256) == pytest.approx(machine.area_mm2)
    assert space_of({"fixed": {"technology": "mine"}, "dim": [8, 16, 32]}).base == space.base
    # of the side of 16 that a base's file says, the clock is one too fast for larger ones
    wide = space_of({"base": "gemmini-default,technology=mine", "dim": [8, 16, 32]}).base
    assert (wide.clock_mhz, wide.memory_gb_s) == (space.base.clock_mhz, pytest.approx(space.base.memory_gb_s))
    for values in (
        {"technology": "yours"},
        {"technology": "mine", "fixed": {"clock_mhz": 900.0}},
        {"fixed": {"technology": "mine", "clock_mhz": 900.0}},
        {"base": "gemmini-default,technology=mine", "fixed": {"clock_mhz": 900.0}},
    ):
        with pytest.raises(InputError, match=r"technology|closes at") as caught:
            space_of(values)
        assert caught.value.location is not None


def test_a_clock_holds_with_the_row_functions_that_designs_may_have() -> None:
    for units, most in (
        (["none"], 1e3 / (5 + 0.5 * 3 + np.log2(28))),
        (["none", "row_functions"], 1e3 / 12),
        (["row_functions"], 1e3 / 12),
    ):
        space = space_of({"technology": "mine", "dim": [8], "units": units})
        assert most * 0.999 < space.base.clock_mhz <= most
        assert in_technology(space_of({"units": units, "dim": [8]}), "mine").base == space.base
        machine = space.accelerator(8, 64, 256, units="row_functions" in units)
        assert machine.features.row_functions == ("row_functions" in units)
        assert load_accelerator(Path(_written(machine))).clock_mhz == space.base.clock_mhz
        assert space_of({}, like=dict(_document(space.to_yaml()))).base == space.base
    with pytest.raises(InputError, match=r"a side of 8 with row functions closes at 83\.33 MHz"):
        space_of({"technology": "mine", "dim": [8], "units": ["none", "row_functions"], "fixed": {"clock_mhz": 84.0}})  # fmt: skip


def test_a_space_goes_to_a_technology_with_all_that_it_decides() -> None:
    usual = baco.Space.load("gemmini").replace(technology=PUBLISHED)
    moved = usual.replace(technology="mine")
    most = 1e3 / (5 + 0.5 * 7 + np.log2(28))  # of side 128
    assert most * 0.999 < moved.base.clock_mhz <= most
    assert moved.base.memory_gb_s == pytest.approx(usual.base.memory_gb_s)
    # of what published spaces assume of idle silicon nothing is left
    assert (moved.base.energy.leakage_mw_per_mm2, moved.base.energy.clock_pj_per_mm2) == (1.5, 0.0)
    ratio = by_hand(baco.accelerator(technology="mine")) / baco.accelerator().area_mm2
    assert moved.constraints["area_mm2"] == pytest.approx(5.0 * ratio, rel=1e-3)
    assert space_of({}, like=dict(_document(moved.to_yaml()))) == dataclasses.replace(moved.design, doc=None)
    asked = usual.replace(technology="mine", constraints={"area_mm2": 7.0}, fixed={"clock_mhz": 20.0})
    assert (asked.constraints["area_mm2"], asked.base.clock_mhz) == (7.0, 20.0)
    assert asked.base.memory_gb_s == pytest.approx(usual.base.memory_gb_s)
    back = moved.replace(technology=PUBLISHED)
    assert back.base == usual.base
    assert back.constraints["area_mm2"] == pytest.approx(5.0, rel=1e-3)
    assert in_technology(moved.design, "mine") is moved.design


def test_the_default_space_is_in_measured_figures() -> None:
    """IHP's: its clock and leakage, nothing assumed of idle silicon, and as many default machines of area as 5 mm2 by published areas."""
    usual = baco.Space.load("gemmini")
    assert usual.base == baco.Space().base == baco.Space.load().base
    assert usual.base.technology == "ihp-sg13g2"
    silicon = technology("ihp-sg13g2")
    assert (usual.base.energy.leakage_mw_per_mm2, usual.base.energy.clock_pj_per_mm2) == (
        silicon.energy["leakage_mw_per_mm2"],
        0.0,
    )
    widest = usual.base.replace(features=usual.base.features.model_copy(update={"row_functions": True}))
    closes = silicon.closes_at_mhz(widest, max(usual.dim))
    assert closes is not None
    assert closes * 0.999 < usual.base.clock_mhz <= closes
    assert usual.base.memory_gb_s == pytest.approx(8.0)
    default = "gemmini-default,technology="
    ratio = baco.accelerator(f"{default}ihp-sg13g2").area_mm2 / baco.accelerator("gemmini-default").area_mm2
    assert usual.constraints["area_mm2"] == pytest.approx(5.0 * ratio, rel=1e-4)
    for name in ("gemmini-large", "reference"):  # clocks are searched; published results are compared with
        assert baco.Space.load(name).base.technology == PUBLISHED


def test_the_default_space_goes_to_published_figures_and_back() -> None:
    usual = baco.Space.load("gemmini")
    published = usual.replace(technology=PUBLISHED)
    # what published comparisons are made in: its energies of idle silicon, clock, bandwidth and bound (docs/models.md)
    energy = published.base.energy
    assert (energy.leakage_mw_per_mm2, energy.clock_pj_per_mm2) == (18.0, 40.0)
    assert (published.base.clock_mhz, published.base.dram_bytes_per_cycle) == (1000.0, 8.0)
    assert published.constraints["area_mm2"] == 5.0
    # as studies before had it that go on
    assert published.design.space_hash == "27f8e878edd4c00d"
    back = in_technology(published.design, "ihp-sg13g2")
    assert back.base == usual.base
    assert back.constraints.area_mm2 == pytest.approx(125.61, rel=1e-3)


def test_bounds_of_another_technology_are_answered_with_its_scale() -> None:
    """Who asks for published areas in the default technology is told what areas are there, and where published ones are."""
    for more in ({}, {"power_mw": 0.01}):
        with pytest.raises(InfeasibleError, match=r"area_mm2 may be 1\.3 mm²") as caught:
            baco.explore("deepbench_ocr", constraints={"area_mm2": 1.3, **more}, progress=False)
        hint = caught.value.hint or ""
        machine = baco.accelerator("gemmini-default,technology=ihp-sg13g2")
        assert f"areas are in ihp-sg13g2, where gemmini-default has {machine.area_mm2:.1f} mm²" in hint
        assert "--technology published-45nm" in hint
    published = {"technology": PUBLISHED, "constraints": {"area_mm2": 1e-3}}
    with pytest.raises(InfeasibleError, match="area_mm2 may be") as caught:
        baco.explore("deepbench_ocr", space=published, progress=False)
    assert "areas are in" not in (caught.value.hint or "")
    with pytest.raises(InputError, match=r"closes at 138\.8 MHz") as clock:
        baco.Space(fixed={"clock_mhz": 500})
    assert PUBLISHED in (clock.value.hint or "")


def test_what_is_said_of_a_space_is_meant_for_its_technology() -> None:
    ours, like = technology("ihp-sg13g2"), baco.Space.load("gemmini")
    own = _document(like.to_yaml())
    for values in ({"technology": PUBLISHED}, {"fixed": {"technology": PUBLISHED}}):
        fixed = {"clock_mhz": 500.0, "energy": {"dram_pj": 50.0}, **values.get("fixed", {})}  # type: ignore[dict-item]
        asked = space_of({**values, "fixed": fixed, "constraints": {"area_mm2": 2.0}}, like=own)
        assert (asked.base.clock_mhz, asked.constraints.area_mm2) == (500.0, 2.0)
        energy = asked.base.energy
        assert (energy.dram_pj, energy.leakage_mw_per_mm2, energy.clock_pj_per_mm2) == (50.0, 18.0, 40.0)
    searched = space_of({"technology": PUBLISHED, "settings": {"clock_mhz": [500, 1000]}}, like=own)
    assert dict(searched.settings) == {"clock_mhz": (500, 1000)}
    cheap = like.replace(fixed={"energy": {"dram_pj": 50.0}}).base.energy
    assert (cheap.dram_pj, cheap.leakage_mw_per_mm2) == (50.0, ours.energy["leakage_mw_per_mm2"])
    slow = like.replace(fixed={"clock_mhz": 50.0}).base
    assert (slow.clock_mhz, slow.memory_gb_s) == (50.0, pytest.approx(8.0))
    assert baco.Space(base="gemmini-default,technology=mine").base.technology == "mine"
    # row functions have the longest paths
    assert like.replace(units=["none"]).base.clock_mhz > like.base.clock_mhz
    with pytest.raises(InputError, match="closes at"):
        like.replace(fixed={"clock_mhz": 500.0})


def test_reports_say_what_no_netlist_has() -> None:
    ours = technology("ihp-sg13g2")
    assert ours.beyond(32) == ""
    told = "a side of 64 continues laws of netlists with sides up to 32"
    further = {name: off["mean_percent"] for name, off in ours.errors.items() if name.endswith(NEXT_SIDE)}
    area, period = further[f"area{NEXT_SIDE}"], further[f"period{NEXT_SIDE}"]
    assert ours.beyond(64) == (
        f"{told}: those of smaller sides are {area:g}% off there in area and {period:g}% in the clock"
    )
    assert ours.beyond(128).endswith("how far off these are there is not known")
    assert "off by 1.39%" in ours.evidence["clock"]
    for dim, shown in ((None, 1.39), (32, 1.39), (64, period)):
        clock = known_errors("instruction", silicon=ours.name, dim=dim)["clock"]
        assert clock.mean == pytest.approx(shown / 100)
        assert ("laws of smaller ones" in clock.subject) == (dim == 64)
    assert "clock" not in known_errors("instruction")


@pytest.mark.parametrize(
    "values",
    [
        {"technology": PUBLISHED},
        {"technology": "asap7", "dim": [8]},
        {"technology": PUBLISHED, "fixed": {"clock_mhz": 500.0}},
        {"technology": "ihp-sg13g2", "fixed": {"clock_mhz": 50.0}},
        {"technology": "ihp-sg13g2", "fixed": {"dram_bytes_per_cycle": 8.0}},
        {"technology": "ihp-sg13g2", "fixed": {"energy": {"dram_pj": 50.0, "leakage_mw_per_mm2": 0.0}}},
        {"technology": "ihp-sg13g2", "base": "gemmini-lean"},
        {"base": "gemmini-lean", "units": ["none"]},
    ],
    ids=str,
)
def test_spaces_are_written_and_called_as_they_are(values: dict[str, Any]) -> None:
    made = baco.Space(**values).design
    assert space_of({}, like=_document(made.to_yaml())).space_hash == made.space_hash
    call = baco.Space(**written_space(made)).design  # type: ignore[arg-type]
    assert call.space_hash == made.space_hash


def _document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = parse_yaml(text, "space").data
    return found


def test_settings_that_slow_designs_down_lower_their_clock() -> None:
    space = baco.Space.load("gemmini-large").replace(technology="mine").design
    assert "clock_mhz" not in dict(space.settings)
    assert space.clocks
    entries = ("load_entries", "execute_entries", "store_entries")
    least, largest = (
        space.at(tuple(place % len(values) if name in entries else 0 for name, values in space.settings))
        for place in (0, -1)
    )
    for one in (least, largest):
        most = 1e3 / (5 + 0.5 * 7 + np.log2(sum(getattr(one.base, name) for name in entries)))
        assert one.base.clock_mhz == pytest.approx(min(most, space.base.clock_mhz), rel=1e-3)
        assert one.base.clock_mhz <= most
        assert one.base.memory_gb_s == pytest.approx(2.0)
    assert largest.base.clock_mhz < least.base.clock_mhz
    with pytest.raises(InputError, match="supplies of several clocks are known of published machines alone"):
        space_of(
            {
                "fixed": {"technology": "mine", "clock_mhz": 20.0},
                "settings": {"clock_mhz": [10, 20]},
                "dim": [8],
            }
        )


def test_searches_and_reports_are_in_the_technology(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "study"
    arguments = [
        "--network",
        "deepbench_ocr",
        "--technology",
        "mine",
        "--samples",
        "60",
        "--out",
        str(out),
        "--json",
    ]
    assert run("baco", ["explore", *arguments, "--accelerator-only"]) == 0
    written = json.loads(capsys.readouterr().out)
    machine = load_accelerator(out / "best" / "accelerator.yaml")
    assert machine.technology == written["technology"]["name"] == "mine"
    assert written["best"]["cost"]["area_mm2"] == pytest.approx(by_hand(machine))
    assert machine.clock_mhz == written["best"]["accelerator"]["clock_mhz"]
    assert machine.closes_at_mhz is not None
    assert machine.clock_mhz <= machine.closes_at_mhz
    assert "none is measured" in written["technology"]["energy"]
    assert "In the technology mine" in written["text"]
    assert run("baco", ["explore", "--network", "deepbench_ocr", "--technology", "yours"]) == 2
    assert "unknown technology 'yours'" in capsys.readouterr().err


def test_laws_are_recovered_from_netlists_that_follow_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Accelerator] = []

    def netlist(machine: Accelerator) -> Any:
        made.append(machine)
        if len(made) == 7:
            raise KeyboardInterrupt
        counts = structure_law().counts(machine, float(machine.dim))
        floats = machine.input_format != "integer"
        logic = (
            sum(LOGIC[name] * counts[name] for name in QUANTITIES) + FLOAT * machine.dim**2 * floats
        ) / 1e6
        entries = machine.load_entries + machine.execute_entries + machine.store_entries
        ns = 5 + 0.5 * np.log2(machine.dim) + np.log2(entries) + 2 * (machine.tile_rows - 1)
        ns = max(ns, 17 * machine.features.normalizations, 12 * machine.features.row_functions)
        ns = max(ns, (14 if machine.input_bits == 8 else 18) * machine.tile_rows * floats)
        return SimpleNamespace(
            logic_mm2=logic, memories_mm2=0.1, clock_mhz=1e3 / ns, leakage_mw=2 * (logic + 0.1), modules=[]
        )

    goals: list[str] = []

    def in_cells(machine: Accelerator, *_: Any, optimise: str, **__: Any) -> Any:
        goals.append(optimise)
        return SimpleNamespace(synthesis=lambda: netlist(machine))

    monkeypatch.setattr("baco.accel.technologies.measuring.in_cells", in_cells)
    liberty, kept = [tiny_file(tmp_path)], tmp_path / "netlists.json"
    with pytest.raises(KeyboardInterrupt):
        measure(liberty, [], kept)
    found = measure(liberty, [], kept)
    assert len(found) == len(DESIGNS) >= 30
    assert len(made) == len(DESIGNS) + 1  # what was measured before the interruption is not measured again
    assert measure(liberty, [], kept, designs=5) == found[:5]
    assert read_netlists(kept) == found
    # those made for another goal are measured by themselves, small sides first, and kept behind them in the designs' order
    for_clock = measure(liberty, [], kept, designs=5, optimise="clock")
    assert goals[-5:] == ["clock"] * 5
    assert [machine.dim for machine in made[-5:]] == [2, 4, 4, 4, 8]
    assert [netlist.accelerator for netlist in for_clock] == [netlist.accelerator for netlist in found[:5]]
    assert measure(liberty, [], kept) == found
    assert len(made) == len(DESIGNS) + 1 + 5
    assert read_netlists(kept) == [*found, *for_clock]
    assert {one.configuration.dim for one in found} == {2, 4, 8, 16, 32}
    assert "5 netlists made for clock" in fit_technology("own", for_clock, liberty).description
    law = fit_technology("own", found, liberty)
    integers = sum(one.configuration.input_format == "integer" for one in found[:INTEGER_DESIGNS])
    assert integers == INTEGER_DESIGNS == 33  # as `technology add` says
    assert f"{integers} netlists made for area" in law.description
    assert law.description.endswith(f"1 V, 25 °C; {len(DESIGNS) - integers} of floating point")
    assert law.float_um2 == pytest.approx(FLOAT, rel=2e-3)
    liberty[0].write_text(liberty[0].read_text().replace('time_unit : "1ps"', 'time_unit : "1ns"'))
    assert "are the library's units right?" in fit_technology("own", for_clock, liberty).description
    assert law.logic_um2 == pytest.approx(LOGIC, rel=2e-3)
    assert law.period is not None
    assert law.period.model_dump() == pytest.approx(PERIOD.model_dump(), rel=2e-3)
    assert law.energy["leakage_mw_per_mm2"] == pytest.approx(2.0, rel=1e-4)
    unseen = [f"{what} of floating point, held out" for what in ("logic", "period")]
    for what in ("logic", "logic, held out", "period, held out", *unseen):
        assert law.errors[what]["worst_percent"] < 0.1
        assert law.errors[what].get("rank", 1.0) > 0.999
    # the largest side, by laws of the smaller ones
    assert law.errors[f"period{NEXT_SIDE}"]["worst_percent"] < 0.1
    areas = [law.errors[f"area{end}"]["worst_percent"] for end in ("", NEXT_SIDE)]
    assert areas[1] == pytest.approx(areas[0], abs=5), "off by banks alone, which are not those of the law"
    with pytest.raises(InputError, match="4 netlists are too few"):
        fit_technology("own", found[:4], liberty)


@pytest.mark.parametrize(("name", "goal"), [("ihp-sg13g2", "clock"), ("asap7", "clock")])
def test_laws_that_come_with_baco_are_near_the_netlists_that_are_kept(name: str, goal: str) -> None:
    ours = technology(name)
    every = [row for row in read_netlists(NETLISTS / f"{name}.json") if row.optimise == goal]
    kept = [row for row in every if row.configuration.input_format == "integer"]
    assert ours.description.startswith(f"{len(kept)} netlists made for {goal}")
    assert ours.description.endswith(f"{len(every) - len(kept)} of floating point")
    assert len(kept) >= 30
    for row in every[len(kept) :]:  # what the laws of floating point are off by at most
        machine = row.configuration
        sizes = float(machine.dim), machine.accumulator_kib, machine.scratchpad_kib
        assert float(ours.area_mm2(machine, *sizes)) == pytest.approx(
            row.logic_mm2 + row.memories_mm2, rel=0.12
        )
        assert ours.closes_at_mhz(machine, float(machine.dim)) == pytest.approx(row.clock_mhz, rel=0.12)
    machines = [row.configuration for row in kept]
    areas = np.array([row.logic_mm2 + row.memories_mm2 for row in kept])
    predicted = np.array(
        [float(ours.area_mm2(m, float(m.dim), m.accumulator_kib, m.scratchpad_kib)) for m in machines]
    )
    off = np.abs(predicted / areas - 1)
    assert off.mean() < 0.05
    assert off.max() < 0.12
    assert spearmanr(predicted, areas).statistic > 0.98
    clocks = np.array([ours.closes_at_mhz(m, float(m.dim)) for m in machines], dtype=float)
    off_clocks = np.abs(np.array([row.clock_mhz for row in kept]) / clocks - 1)
    assert off_clocks.mean() < 0.03
    assert off_clocks.max() < 0.12
    # what the technology says of itself
    assert ours.errors["area"]["mean_percent"] == pytest.approx(100 * off.mean(), abs=0.01)
    assert ours.errors["area"]["worst_percent"] == pytest.approx(100 * off.max(), abs=0.01)


def test_floating_point_has_its_clock_and_energy() -> None:
    """In IHP a format's designs close at half of what integers do and multiply at so many times the energy; in `mine` no energies of
    switching are known, so that constants speak; and where no period was measured they are refused."""
    ihp = technology("ihp-sg13g2")
    integers = baco.accelerator(technology="ihp-sg13g2", dataflow="WS", features={"mvin_scale": False})
    for form, times in ihp.float_macs.items():
        floats = integers.in_format(form).closing()
        assert floats.clock_mhz < 0.5 * integers.clock_mhz
        assert floats.energy_law.array_terms(1.0, 1.0, 16.0)[0] == pytest.approx(
            times * integers.energy_law.array_terms(1.0, 1.0, 16.0)[0]
        )
    space = load_space("gemmini").of_format("bf16")
    assert space.base.clock_mhz <= space.base.closes_at_mhz * (1 + 1e-9)
    keep_technology(
        MINE.model_copy(update={"name": "narrow", "period": PERIOD.model_copy(update={"wide_floats": 0.0})})
    )
    narrow = baco.accelerator(technology="narrow", dataflow="WS", features={"mvin_scale": False})
    assert narrow.in_format("fp8-e4m3").closing().clock_mhz < narrow.clock_mhz
    with pytest.raises(InputError, match="not narrow, where its clock or energy is not known"):
        narrow.in_format("bf16")


def test_the_command_lists_shows_and_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("baco", ["technology", "list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == sorted(technology_names())
    assert run("baco", ["technology", "show", "mine"]) == 0
    assert "register_bits" in capsys.readouterr().out
    liberty = str(tiny_file(tmp_path))
    for arguments, said in (
        (["show", "yours"], "unknown technology 'yours'"),
        (["show"], "give a name"),
        (["add", "mine"], "give the library's files"),
        (["add", PUBLISHED, "--liberty", liberty], "comes with baco"),
        (["add", "../x", "--liberty", liberty], "is no name"),
        (["add", "mine", "--liberty", str(tmp_path / "none.lib")], "no such file"),
    ):
        assert run("baco", ["technology", *arguments]) == 2
        assert said in capsys.readouterr().err
    (technology_folder() / "broken.json").write_text('{"name": "broken", "memories": 3}')
    with pytest.raises(InputError, match="no technology: memories"):
        technology("broken")
