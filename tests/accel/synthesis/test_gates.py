"""Netlists as Verilog: proven equal to the RTL, and a whole machine's runs a program as its RTL does; switching is what they did."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import baco
from baco.accel.synthesis.flat import flatten
from baco.accel.synthesis.gates import gate_verilog
from baco.accel.synthesis.liberty import read_library
from baco.accel.synthesis.mapping import CellInstance, Mapped, NetlistModule, map_design
from baco.accel.synthesis.report import in_cells
from baco.accel.synthesis.switching import read_switching
from baco.accel.verilog.yosys import run_yosys
from baco.bench.fit.switching import MACHINE
from baco.common.cache import Cache
from baco.sim.engines.rtl import RtlEngine, run_verilog
from baco.sim.job import Job
from tests.accel.synthesis.test_static_timing import DESIGNS, LIBRARIES
from tests.accel.synthesis.tiny_library import tiny_file
from tests.sim.riscv_programs import compile_program

#: Signals that pass through modules, ports that are one net, and ports tied to constants.
WIRES = """
module through(input a, input b, output x, output y, output zero, output one);
  assign x = a; assign y = a; assign zero = 1'b0; assign one = !zero;
endmodule
module top(input clock, input [1:0] d, output reg [5:0] q);
  wire x, y, zero, one, x2, y2, z2, o2;
  through first (.a(d[0]), .b(1'b1), .x(x), .y(y), .zero(zero), .one(one));
  through second (.a(one), .b(d[1]), .x(x2), .y(y2), .zero(z2), .one(o2));
  always @(posedge clock) q <= {x ^ d[1], y & one, zero | d[1], x2 ^ d[0], y2, z2 | o2};
endmodule
"""
_EQUAL = """\
read_verilog -sv rtl.v
hierarchy -check -top top
proc
flatten
opt_clean
rename top gold
read_verilog -sv gates.v
proc
opt_clean
rename top gate
miter -equiv -flatten -make_outputs gold gate miter
hierarchy -top miter
sat -verify -tempinduct -set-init-zero -seq 1 -maxsteps 12 -prove trigger 0 miter
"""


@pytest.mark.parametrize("name", ["wires", "counter", "one hot", "shift and round"])
def test_gates_are_proven_equal_to_the_rtl(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    library = read_library([tiny_file(tmp_path)])
    design, period = (WIRES, 500) if name == "wires" else DESIGNS[name]
    mapped = map_design(design, library, period, top="top", cache=Cache(tmp_path / "cache"))
    flat = flatten(mapped, library.cells)
    (tmp_path / "rtl.v").write_text(design)
    (tmp_path / "gates.v").write_text(gate_verilog(flat, {}, "top", counted=False))
    run_yosys(_EQUAL, tmp_path, limit_s=300, task="test")  # raises where they are not


def test_counters_say_how_often_nets_switch_and_are_high(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = [[rng.random() < p for p in (0.0, 0.1, 0.5, 1.0, 0.9)] for _ in range(300)]
    # what the Verilog writes, counter by counter, of nets whose values are known
    values = np.array(rows)
    toggles = (values[1:] != values[:-1]).sum(0)
    high = values.sum(0)

    def lines(counts: list[int]) -> str:
        words = [sum((count >> bit & 1) << net for net, count in enumerate(counts)) for bit in range(32)]
        return "// written by the simulator\n" + "\n".join(f"{word:016x}" for word in words) + "\n"

    for ending, text in (
        ("edges", f"{300:016x}\n"),
        ("switched", lines(toggles.tolist())),
        ("high", lines(high.tolist())),
    ):
        (tmp_path / f"run.{ending}").write_text(text)
    found = read_switching(tmp_path / "run", 5, 1000)
    assert found.toggles.tolist() == toggles.tolist()
    assert found.high == pytest.approx(values.mean(0))
    assert found.cycles == 1000


def test_what_holds_something_but_is_no_flip_flop_is_refused(tmp_path: Path) -> None:
    text = (
        tiny_file(tmp_path)
        .read_text()
        .replace('ff (IQ, IQN) { clocked_on : "CK"; next_state', 'latch (IQ, IQN) { enable : "CK"; data_in')
    )
    (tmp_path / "latch.lib").write_text(text)
    library = read_library([tmp_path / "latch.lib"])
    latch = CellInstance("l", "DFF", {"CK": [0], "D": [1], "Q": [2]})
    module = NetlistModule("top", {"clock": ("input", [0]), "d": ("input", [1])}, (latch,), {}, 3)
    flat = flatten(Mapped("top", {"top": module}, {}, "", 0.0), library.cells)
    with pytest.raises(baco.BacoError, match="DFF, a latch, cannot be simulated"):
        gate_verilog(flat, {}, "top")


def _cells(folder: Path) -> list[Path]:
    """A real library where there is one, since its netlists are half as large."""
    real = LIBRARIES / "ihp-sg13g2" / "sg13g2_stdcell_typ_1p20V_25C.lib.gz"
    return [real if real.exists() else tiny_file(folder)]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_netlist_of_a_machine_runs_a_program_as_its_rtl_does(tmp_path: Path) -> None:
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    program = compile_program(tmp_path / "matmul.elf", Path("matmul.c"), "-DDIM=2")
    job = Job(machine=MACHINE, program=program, dumps=((0x80000000, 1 << 20),))
    ran = []

    def simulated(netlist: str, counts: Path) -> int:
        ran.append(run_verilog(job, netlist, counts=counts))
        return ran[0].cycles or 0

    found = in_cells(MACHINE, _cells(tmp_path)).synthesis(simulated)
    rtl, (netlist,) = RtlEngine().run(job), ran
    assert rtl.exit_code == netlist.exit_code == 0
    assert rtl.cycles == netlist.cycles
    assert rtl.memory_dumps == netlist.memory_dumps
    for name, count in rtl.counters.items():  # nothing counts the array's operands in a netlist
        assert netlist.counters[name] == (0 if name.startswith("array_") else count)
    power = found.power
    assert power is not None
    assert power.cycles == rtl.cycles
    assert sum(power.mw.values()) == pytest.approx(power.dynamic_mw)
    assert sum(module.total_mw for module in power.modules) == pytest.approx(power.dynamic_mw)
    assert power.energy_uj / power.cycles * power.clock_mhz * 1e3 == pytest.approx(power.dynamic_mw)
    assert min(power.mw.values()) > 0
    assert {module.name for module in power.modules} == {module.name for module in found.modules}
    assert f"{power.cycles:,} cycles" in found.text()


def test_a_program_that_is_not_there_is_said_before_anything_is_mapped(tmp_path: Path) -> None:
    with pytest.raises(baco.InputError, match="no such file"):
        baco.synthesise(MACHINE, liberty=tiny_file(tmp_path), program=tmp_path / "none.elf")
