"""Dynamic energy: added up net by net by hand on the tiny library; switched capacitance as OpenSTA has it."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from baco.accel.synthesis.flat import flatten
from baco.accel.synthesis.liberty import Library, read_library
from baco.accel.synthesis.mapping import Mapped
from baco.accel.synthesis.power import dynamic_energy, power
from baco.accel.synthesis.switching import Switching
from baco.accel.synthesis.timing import Assumptions, analyse, tree_buffers
from tests.accel.synthesis.test_static_timing import (
    LIBRARIES,
    SOME_DESIGNS,
    _random_module,
    ihp_library,
    mapped_design,
    structural,
)
from tests.accel.synthesis.tiny_library import CLOCK, ENERGY, INPUT_FF, tiny_file
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(3, of=60))
@pytest.mark.parametrize("wire", [0.0, 1.5])
def test_energy_is_the_sum_over_nets(tmp_path: Path, seed: int, wire: float) -> None:
    library = read_library([tiny_file(tmp_path)])
    rng = random.Random(seed)
    module = _random_module(rng, rng.randint(1, 6), rng.randint(0, 60))
    cycles = 1000
    toggles = np.array([rng.randint(0, cycles) for _ in range(module.nets)])
    switching = Switching(cycles, toggles, np.array([rng.random() for _ in range(module.nets)]))
    design = Mapped("top", {"top": module}, {}, "", 0.0)
    flat = flatten(design, library.cells)
    timing = analyse(flat, library, Assumptions(wire * 1e-15, 20e-12, most_sinks=0))
    found = dynamic_energy(flat, library, timing, switching, {})
    # femtojoules at 1 V; net n of the module is net n of the design
    load = dict.fromkeys(range(module.nets), 0.0)
    for instance in module.instances:
        for pin, (net,) in instance.nets.items():
            if pin not in ("Y", "Q"):
                load[net] += (2 if pin == "CK" else INPUT_FF[instance.kind]) + wire
    total = cycles * 2 * load[0] / 2
    for instance in module.instances:
        out = instance.nets["Q" if instance.kind == "DFF" else "Y"][0]
        total += toggles[out] * (load[out] / 2 + sum(ENERGY[instance.kind]) / 2)
        if instance.kind == "DFF":  # the clock's own where what is held stays
            high, change = switching.high[out], toggles[out] / cycles
            same = max(0.0, high - change / 2) + max(0.0, 1 - high - change / 2)
            total += cycles * 2 * same * sum(CLOCK) / 2
    assert found.total_j * 1e15 == pytest.approx(total, rel=1e-9)
    shown = power(flat, found, 100.0)
    assert shown.dynamic_mw == pytest.approx(total * 1e-15 / cycles * 100e6 * 1e3)
    assert shown.energy_uj == pytest.approx(total * 1e-9)


def test_a_tree_of_buffers_takes_energy_too(tmp_path: Path) -> None:
    assert [tree_buffers(count, 16) for count in (16, 17, 40, 256, 300)] == [[], [2], [3], [16, 1], [19, 2]]
    library = read_library([tiny_file(tmp_path)])
    from baco.accel.synthesis.mapping import CellInstance, NetlistModule

    registers = tuple(
        CellInstance(f"r{n}", "DFF", {"CK": [0], "D": [1 + n], "Q": [1 + n]}) for n in range(300)
    )
    module = NetlistModule("top", {"clock": ("input", [0])}, registers, {}, 301)
    flat = flatten(Mapped("top", {"top": module}, {}, "", 0.0), library.cells)
    timing = analyse(flat, library, Assumptions(0.0, 20e-12, most_sinks=16))
    still = Switching(10, np.zeros(301, np.int64), np.zeros(301))
    found = dynamic_energy(flat, library, timing, still, {})
    buffers, edges = 21, 2 * 10
    wanted = edges * (300 * 2 / 2 + buffers * (INPUT_FF["BUF"] / 2 + sum(ENERGY["BUF"]) / 2))
    wanted += edges * 300 * sum(CLOCK) / 2
    assert found.total_j * 1e15 == pytest.approx(wanted)
    assert found.by_scope[:, 0].sum() == found.total_j  # all of it is the clock's


def _loads_alone(library: Library) -> Library:
    """Without energies inside cells, and with what OpenSTA takes for the capacitance of a pin: the larger of its edges."""
    cells = {}
    for name, cell in library.cells.items():
        pins = {
            pin: replace(one, rise_f=max(one.rise_f, one.fall_f), fall_f=max(one.rise_f, one.fall_f))
            for pin, one in cell.pins.items()
        }
        cells[name] = replace(cell, pins=pins, energies=())
    return replace(library, cells=cells)


@pytest.mark.skipif(shutil.which("sta") is None, reason="OpenSTA is not installed (Debian: opensta)")
@pytest.mark.skipif(not LIBRARIES.exists(), reason="the shared cell libraries are not there")
@pytest.mark.parametrize("name", SOME_DESIGNS)
def test_opensta_finds_the_same_energy_of_loads(tmp_path: Path, name: str) -> None:
    """Loads alone: Debian's version adds up the energies inside cells over edges and causes, later ones take their mean."""
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    library = ihp_library(tmp_path)
    flat = mapped_design(name, library, tmp_path)
    (tmp_path / "net.v").write_text(structural(flat))
    (tmp_path / "run.tcl").write_text(
        "read_liberty cells.lib\nread_verilog net.v\nlink_design top\nset_wire_load_model -name Zero\n"
        "create_clock -name c -period 10 [get_ports clock]\n"
        "set_power_activity -global -activity 0.5 -duty 0.5\nset_power_activity -input -activity 0.5 -duty 0.5\n"
        "report_power -digits 8\nexit\n"
    )
    done = subprocess.run(
        ["sta", "-exit", "run.tcl"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    total = re.search(r"^Total\s+(\S+)\s+(\S+)", done.stdout, re.MULTILINE)
    assert total, done.stdout + done.stderr
    plain = _loads_alone(library)
    flat = replace(
        flat,
        instances={name: replace(one, cell=plain.cells[name]) for name, one in flat.instances.items()},
    )
    timing = analyse(flat, plain, Assumptions(0.0, 0.05e-9, most_sinks=0))
    cycles = 1000
    half = Switching(cycles, np.full(flat.nets, cycles // 2), np.full(flat.nets, 0.5))
    found = dynamic_energy(flat, plain, timing, half, {})
    ours = found.by_scope[:, 1:].sum() / (cycles * 10e-9)  # the port drives the clock, no cell
    assert ours == pytest.approx(float(total[2]), rel=0.01)
