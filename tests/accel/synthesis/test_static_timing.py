"""Static timing against longest paths enumerated by hand, and against OpenSTA where that is installed."""

from __future__ import annotations

import gzip
import random
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from baco.accel.synthesis.flat import Flat, flatten
from baco.accel.synthesis.liberty import Library, read_library
from baco.accel.synthesis.mapping import ONE, OPEN, CellInstance, Mapped, NetlistModule, map_design
from baco.accel.synthesis.timing import Assumptions, analyse
from baco.common.cache import Cache
from tests.accel.synthesis.tiny_library import FUNCTIONS, INPUT_FF, LOAD_PS_A_FF, OWN, SETUP_PS, tiny_file
from tests.seeds import seeds, some

IDEAL = Assumptions(wire_f=0.0, clock_slew_s=20e-12, most_sinks=0, margin=0.0)
LIBRARIES = Path(__file__).parents[4] / "shared" / "data" / "liberty"


def _library(folder: Path) -> Library:
    return read_library([tiny_file(folder)])


def _random_module(rng: random.Random, registers: int, gates: int) -> NetlistModule:
    """Registers whose inputs are random logic of registers' outputs; net 0 is the clock."""
    known = list(range(1, registers + 1))
    instances = []
    for number in range(gates):
        kind = rng.choice(list(FUNCTIONS))
        nets = {"A": [rng.choice(known)], "Y": [registers + 1 + number]}
        if "B" in FUNCTIONS[kind]:
            nets["B"] = [rng.choice(known)]
        instances.append(CellInstance(f"g{number}", kind, nets))
        known.append(registers + 1 + number)
    for number in range(registers):
        nets = {"CK": [0], "D": [rng.choice(known)], "Q": [number + 1]}
        instances.append(CellInstance(f"r{number}", "DFF", nets))
    return NetlistModule("random", {"clock": ("input", [0])}, tuple(instances), {1: "first"}, len(known) + 1)


def _longest_ps(module: NetlistModule) -> float:
    """The period that a module of the tiny library needs, by recursion over its nets, ps."""
    load: dict[int, float] = {}
    driver = {}
    for instance in module.instances:
        for pin, (net,) in instance.nets.items():
            if pin in ("Y", "Q"):
                driver[net] = instance
            else:
                load[net] = load.get(net, 0.0) + INPUT_FF[instance.kind]

    @cache
    def arrival(net: int) -> float:
        instance = driver[net]
        own = OWN[instance.kind] + LOAD_PS_A_FF * load.get(net, 0.0)
        if instance.kind == "DFF":
            return own
        return own + max(arrival(nets[0]) for pin, nets in instance.nets.items() if pin != "Y")

    return SETUP_PS + max(arrival(i.nets["D"][0]) for i in module.instances if i.kind == "DFF")


@pytest.mark.parametrize("seed", seeds(4, of=60))
def test_the_longest_path_of_random_logic(tmp_path: Path, seed: int) -> None:
    library = _library(tmp_path)
    rng = random.Random(seed)
    module = _random_module(rng, rng.randint(1, 6), rng.randint(0, 60))
    flat = flatten(Mapped("top", {"top": module}, {}, "", 0.0), library.cells)
    found = analyse(flat, library, IDEAL)
    assert found.need_s * 1e12 == pytest.approx(_longest_ps(module), rel=1e-9)
    assert found.clock_mhz == pytest.approx(1e6 / _longest_ps(module), rel=1e-9)
    assert found.loops == 0
    worst = found.paths[0]
    assert worst.need_s == found.need_s
    # the steps are a path: they begin behind a register and every arrival follows from the one before
    assert worst.steps[0].cell == "DFF"
    assert all(a.arrival_s < b.arrival_s for a, b in zip(worst.steps, worst.steps[1:], strict=False))
    assert worst.steps[-1].arrival_s + SETUP_PS * 1e-12 == pytest.approx(worst.need_s)


def _in_halves(module: NetlistModule) -> dict[str, NetlistModule]:
    """The same logic with every gate in a module of its own, below one more level."""
    inner = {}
    instances = []
    for instance in module.instances:
        ports = {
            pin: ("output" if pin in ("Y", "Q") else "input", [place])
            for place, pin in enumerate(instance.nets)
        }
        alone = CellInstance("leaf", instance.kind, {pin: [place] for place, pin in enumerate(instance.nets)})
        inner[f"only {instance.kind}"] = NetlistModule("only", ports, (alone,), {}, len(ports))
        instances.append(CellInstance(instance.name, f"only {instance.kind}", instance.nets))
    outer = NetlistModule("outer", module.ports, tuple(instances), module.net_names, module.nets)
    return {"top": outer, **inner}


def test_hierarchy_changes_nothing_but_names(tmp_path: Path) -> None:
    library = _library(tmp_path)
    module = _random_module(random.Random(3), 5, 40)
    flat = flatten(Mapped("top", _in_halves(module), {}, "", 0.0), library.cells)
    assert analyse(flat, library, IDEAL).need_s * 1e12 == pytest.approx(_longest_ps(module))
    assert sorted(flat.scopes) == sorted(["", *(instance.name for instance in module.instances)])
    assert sum(len(one.nets) for one in flat.instances.values()) == len(module.instances)
    assert [flat.name(net) for net in range(flat.nets) if flat.name(net)] == ["first"]


def test_loops_of_gates_are_counted_and_left_out(tmp_path: Path) -> None:
    library = _library(tmp_path)
    ring = tuple(CellInstance(f"i{n}", "INV", {"A": [1 + n], "Y": [1 + (n + 1) % 3]}) for n in range(3))
    register = CellInstance("r", "DFF", {"CK": [0], "D": [4], "Q": [4]})
    module = NetlistModule("ring", {"clock": ("input", [0])}, (*ring, register), {}, 5)
    found = analyse(flatten(Mapped("top", {"top": module}, {}, "", 0.0), library.cells), library, IDEAL)
    assert found.loops == 3
    assert found.need_s * 1e12 == pytest.approx(OWN["DFF"] + LOAD_PS_A_FF * INPUT_FF["DFF"] + SETUP_PS)


def test_wires_trees_and_margin_cost_what_is_said(tmp_path: Path) -> None:
    library = _library(tmp_path)

    def need(sinks: int, assumed: Assumptions) -> float:
        registers = [CellInstance("r", "DFF", {"CK": [0], "D": [1], "Q": [1]})]
        registers += [
            CellInstance(f"s{n}", "DFF", {"CK": [0], "D": [1], "Q": [2 + n]}) for n in range(sinks - 1)
        ]
        module = NetlistModule("fan", {"clock": ("input", [0])}, tuple(registers), {}, sinks + 2)
        flat = flatten(Mapped("top", {"top": module}, {}, "", 0.0), library.cells)
        return analyse(flat, library, assumed).need_s * 1e12

    def register(load: float) -> float:
        return OWN["DFF"] + LOAD_PS_A_FF * load + SETUP_PS

    pin = INPUT_FF["DFF"]
    assert need(3, IDEAL) == pytest.approx(register(3 * pin))
    wired = Assumptions(1e-15, 20e-12, 0, 0.0)
    assert need(3, wired) == pytest.approx(register(3 * (pin + 1)))
    # 16 pins a buffer: 40 pins need 3; 300 need 19, and 2 in front of these; 256 need 16, and 1 in front of them
    tree = Assumptions(0.0, 20e-12, 16, 0.0)
    stage = OWN["BUF"] + LOAD_PS_A_FF * 16 * pin
    assert need(16, tree) == pytest.approx(register(16 * pin))
    before = OWN["BUF"] + LOAD_PS_A_FF * 16 * INPUT_FF["BUF"]
    assert need(40, tree) == pytest.approx(register(3 * INPUT_FF["BUF"]) + stage)
    assert need(300, tree) == pytest.approx(register(2 * INPUT_FF["BUF"]) + before + stage)
    assert need(256, tree) == pytest.approx(register(INPUT_FF["BUF"]) + before + stage)


#: Designs that are mapped and timed by both, and what is asked of ABC, ps.
DESIGNS = {
    "multiply and add": (
        "module top(input clock, input [7:0] a, b, output reg [19:0] s); reg signed [7:0] x, y;"
        " always @(posedge clock) begin x <= a; y <= b; s <= s + x * y; end endmodule", 3000,
    ),
    "counter": (
        "module top(input clock, input en, output reg [15:0] n);"
        " always @(posedge clock) if (en) n <= n + 1; endmodule", 2000,
    ),
    "compare and select": (
        "module top(input clock, input [31:0] d, output reg [15:0] m); reg [31:0] e;"
        " always @(posedge clock) begin e <= d; m <= $signed(e[15:0]) < $signed(e[31:16]) ? e[31:16] : e[15:0]; end endmodule",
        1500,
    ),
    "shift and round": (
        "module top(input clock, input [20:0] d, output reg [7:0] q); reg [15:0] v; reg [4:0] s; wire [15:0] w = v >> s;"
        " always @(posedge clock) begin {v, s} <= d; q <= w[15:8] + w[7]; end endmodule", 1500,
    ),
    "one hot": (
        "module top(input clock, input [15:0] d, output reg [4:0] first); reg [15:0] v; integer i; reg [4:0] f;"
        " always @* begin f = 16; for (i = 15; i >= 0; i = i - 1) if (v[i]) f = i; end"
        " always @(posedge clock) begin v <= d; first <= f; end endmodule", 1000,
    ),
}  # fmt: skip
#: Every time the first two, all with the slow tests.
SOME_DESIGNS = some(2, DESIGNS)
OPENSTA = """\
read_liberty {liberty}
read_verilog net.v
link_design top
set_wire_load_model -name {wires}
create_clock -name c -period 10 [get_ports clock]
set_clock_transition 0.05 [get_clocks c]
report_checks -path_delay max -digits 6 -from [all_registers -clock_pins] -to [all_registers -data_pins]
exit
"""


def structural(flat: Flat) -> str:
    """Structural Verilog of a design without memories, module `top`."""
    lines = [f"module top ({', '.join(flat.ports)});", *(f"  wire n{net};" for net in range(flat.nets))]
    for name, (direction, nets) in flat.ports.items():
        lines.append(
            f"  {direction} [{nets.size - 1}:0] {name};" if nets.size > 1 else f"  {direction} {name};"
        )
        for bit, net in enumerate(nets.tolist()):
            port = f"{name}[{bit}]" if nets.size > 1 else name
            lines.append(
                f"  assign n{net} = {port};" if direction == "input" else f"  assign {port} = {_text(net)};"
            )
    for kind, instances in flat.instances.items():
        for number, row in enumerate(instances.nets.tolist()):
            pins = ", ".join(
                f".{pin}({_text(net)})" for pin, net in zip(instances.pins, row, strict=True) if net != OPEN
            )
            lines.append(f"  {kind} i_{kind}_{number} ({pins});")
    return "\n".join([*lines, "endmodule", ""])


def _text(net: int) -> str:
    return f"n{net}" if net >= 0 else "1'b1" if net == ONE else "1'b0"


def opensta_need_ns(flat: Flat, liberty: Path, folder: Path) -> float:
    """The period that OpenSTA finds from register to register, ns, without wires."""
    (folder / "net.v").write_text(structural(flat))
    (folder / "run.tcl").write_text(OPENSTA.format(liberty=liberty.name, wires="Zero"))
    done = subprocess.run(
        ["sta", "-exit", "run.tcl"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    arrival = re.search(r"([\d.]+)\s+data arrival time", done.stdout)
    setup = re.search(r"(-?[\d.]+)\s+\S+\s+library setup time", done.stdout)
    assert arrival, done.stdout + done.stderr
    assert setup, done.stdout
    return float(arrival[1]) - float(setup[1])


def ihp_library(folder: Path) -> Library:
    """Of IHP's cells, unpacked as `cells.lib`."""
    packed = LIBRARIES / "ihp-sg13g2" / "sg13g2_stdcell_typ_1p20V_25C.lib.gz"
    (folder / "cells.lib").write_bytes(gzip.decompress(packed.read_bytes()))
    return read_library([folder / "cells.lib"])


def mapped_design(name: str, library: Library, folder: Path) -> Flat:
    """One of `DESIGNS` in a library's cells."""
    verilog, period = DESIGNS[name]
    mapped = map_design(verilog, library, period, top="top", cache=Cache(folder / "cache"))
    return flatten(mapped, library.cells)


def without_ports(flat: Flat) -> Flat:
    """The same for paths between registers alone."""
    return Flat(flat.nets, flat.instances, flat.scopes, flat.modules, maps=flat.maps)


@pytest.mark.skipif(shutil.which("sta") is None, reason="OpenSTA is not installed (Debian: opensta)")
@pytest.mark.skipif(not LIBRARIES.exists(), reason="the shared cell libraries are not there")
@pytest.mark.parametrize("name", SOME_DESIGNS)
def test_opensta_finds_the_same_period(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    library = ihp_library(tmp_path)
    flat = mapped_design(name, library, tmp_path)
    theirs = opensta_need_ns(flat, tmp_path / "cells.lib", tmp_path)
    ours = analyse(without_ports(flat), library, Assumptions(0.0, 0.05e-9, 0, 0.0)).need_s * 1e9
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert np.isfinite(ours)
