"""What switches in the array, counted in RTL, against numpy; energy of it against the netlist's, net by net."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from baco.accel.synthesis.report import in_cells
from baco.accel.technology import switching_figures
from baco.bench.fit.switching import MACHINE, _product, _Stream, cases, measured, predicted
from baco.common.errors import InputError
from baco.sim.energy import switched_energy
from baco.sim.engines.base import run_job
from baco.sim.job import Job, Simulation
from tests.accel.synthesis.test_static_timing import LIBRARIES
from tests.machines import PLAIN, SMALL
from tests.seeds import seeds


def _changed(values: np.ndarray, bits: int) -> int:
    """Bits that change along the first axis, which begins and ends with zeros."""
    wide = np.concatenate([np.zeros_like(values[:1]), values, np.zeros_like(values[:1])]).astype(np.int64)
    mask = (1 << bits) - 1
    return sum(int(x).bit_count() for x in ((wide[1:] ^ wide[:-1]) & mask).ravel())


def _run(folder: Path, machine, a: np.ndarray, b: np.ndarray, weight_stationary: bool) -> Simulation:  # type: ignore[no-untyped-def]
    stream = _Stream(machine, 0)
    places = []
    for values in (a, b):
        places.append(stream.free)
        stream.lines.append(f"write {stream.free:x} {values.tobytes().hex()}")
        stream.free += values.size
    side = machine.dim
    _product(stream, side, side, side, weight_stationary, *places)
    path = folder / "stream"
    path.write_text("\n".join([*stream.lines, "fence", ""]))
    return run_job(Job(machine, stream=path), engine="rtl")


@pytest.mark.parametrize("seed", seeds(2, of=12))
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_weight_stationary_waves(tmp_path: Path, seed: int, share: float) -> None:
    random, side = np.random.default_rng(seed), SMALL.dim
    a, b = (random.integers(-128, 128, (side, side)).astype(np.int8) for _ in range(2))
    a[random.random(a.shape) > share] = 0
    counters = _run(tmp_path, SMALL, a, b, True).counters
    assert counters["array_a_bits"] == _changed(a, 8)
    # the first column of elements stands for all four
    products = a.astype(int) * b[:, 0].astype(int)
    assert counters["array_product_bits"] == side * _changed(products, 16)
    assert counters["array_sum_bits"] == side * _changed(products.cumsum(1), 32)
    assert counters["array_multiplier_bits"] == counters["array_output_stationary_cycles"] == 0
    assert counters["array_weight_bits"] > 0
    assert counters["array_cycles"] >= 2 * side


@pytest.mark.parametrize("seed", seeds(2, of=12))
def test_output_stationary_waves(tmp_path: Path, seed: int) -> None:
    random, side = np.random.default_rng(seed), PLAIN.dim
    a, b = (random.integers(-128, 128, (side, side)).astype(np.int8) for _ in range(2))
    counters = _run(tmp_path, PLAIN, a, b, False).counters
    assert counters["array_a_bits"] == _changed(a.T, 8)
    # a step of the inner dimension each: every element of both columns is counted
    products = a.T[:, :, None].astype(int) * b[:, None, :].astype(int)
    assert counters["array_product_bits"] == _changed(products, 16)
    assert counters["array_sum_bits"] == _changed(products.cumsum(0), 32)
    assert counters["array_weight_bits"] == 0
    assert counters["array_cycles"] == counters["array_output_stationary_cycles"]


def test_zeros_cost_less_and_idle_cycles_nothing_but_the_clock(tmp_path: Path) -> None:
    figures = switching_figures("ihp-sg13g2")
    random, side = np.random.default_rng(1), SMALL.dim
    dense = random.integers(-128, 128, (side, side)).astype(np.int8)
    weights = random.integers(-128, 128, (side, side)).astype(np.int8)
    energies = []
    for share in (1.0, 0.5, 0.0):
        a = np.where(random.random(dense.shape) < share, dense, 0).astype(np.int8)
        run = _run(tmp_path, SMALL, a, weights, True)
        energies.append(switched_energy(run, SMALL, figures))
        later = switched_energy(replace(run, cycles=(run.cycles or 0) + 1000), SMALL, figures)
        assert later.pop("clock") == pytest.approx(energies[-1]["clock"] + 1000 * figures.clock_pj(SMALL))
        assert later == {name: pj for name, pj in energies[-1].items() if name != "clock"}
    assert energies[0]["array"] > energies[1]["array"] > energies[2]["array"] > 0
    assert energies[0]["scratchpad"] == energies[2]["scratchpad"] > 0


def test_other_engines_do_not_count_it_and_unknown_technologies_are_named(tmp_path: Path) -> None:
    (tmp_path / "stream").write_text("fence\n")
    run = run_job(Job(SMALL, stream=tmp_path / "stream"), engine="functional")
    with pytest.raises(InputError, match="functional does not count"):
        switched_energy(run, SMALL, switching_figures("ihp-sg13g2"))
    with pytest.raises(InputError, match="no figures of switching in the technology 'published-45nm'"):
        switching_figures("published-45nm")
    with pytest.raises(InputError, match="unknown technology 'tsmc'"):
        switching_figures("tsmc")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not LIBRARIES.exists(), reason="the shared cell libraries are not there")
def test_energy_of_switching_is_that_of_the_netlist(tmp_path: Path) -> None:
    """Runs that the figures have not seen: within 10 % without the clock's energy, the mean within 5 %, and 2 % with it."""
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    figures = switching_figures("ihp-sg13g2")
    design = in_cells(MACHINE, [LIBRARIES / "ihp-sg13g2" / "sg13g2_stdcell_typ_1p20V_25C.lib.gz"])
    errors = []
    for run in measured(MACHINE, design, cases(MACHINE, 8, seed=99)):
        guess, true = predicted(run, MACHINE, figures)
        errors.append(guess / true - 1)
        guess, true = predicted(run, MACHINE, figures, clock=True)
        assert guess == pytest.approx(true, rel=0.02)
    assert np.abs(errors).max() < 0.1
    assert np.abs(errors).mean() < 0.05
