"""A test of an accelerator for plain simulators: commands, main memory before and after, and a testbench in Verilog.

The testbench is the same for every accelerator; what it plays lies in three files beside it, which `testbench.v` describes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from baco.accel.bus import BUS_TOPS, Bus
from baco.accel.config import Accelerator
from baco.accel.isa import Command, gives_result
from baco.accel.system import System
from baco.accel.verilog.generate import CONFIG_FILE, verilog
from baco.accel.verilog.source import module_ports
from baco.accel.verilog.system import system_top, system_verilog
from baco.accel.verilog.system_bus import SYSTEM_BUS_TOP, select_bits

#: Kinds of steps, as in testbench.v.
_COMMAND, _RESULT, _FENCE = 0, 1, 2
#: Bytes on a line of memory files.
_LINE = 32
_SOURCES = ("testbench.v", "clock.v", "main.cpp")
#: Beside them where the accelerator is on a bus.
_BUS_SOURCES: dict[Bus, tuple[str, ...]] = {
    "rocc": (),
    "axi4": ("axi4_bench.v", "axi4_chance.v", "axi4_driver.v", "axi4_port.v", "axi4_checks.v"),
}
_MAKEFILE = """\
# make icarus, or make verilator; SEED=N draws other waits of main memory{more}
SEED ?= 1
SOURCES = -f files.f testbench.v
ARGUMENTS = +seed=$(SEED){arguments}

icarus:
	iverilog -g2005-sv -s clock_source -o testbench.vvp $(SOURCES) clock.v
	vvp testbench.vvp $(ARGUMENTS)

verilator:
	verilator --cc --exe --build -O3 --x-initial unique -Wno-fatal --top-module testbench $(SOURCES) main.cpp
	./obj_dir/Vtestbench $(ARGUMENTS) +verilator+rand+reset+2 +verilator+seed+$(SEED)

.PHONY: icarus verilator
"""


@dataclass(frozen=True)
class Stimulus:
    """What the testbench plays.

    Attributes:
        steps: commands, None for a fence.
        base: address of the first byte of main memory.
        before, after: main memory; `after` as an independent model left it.
        seed: that the commands were drawn from.
    """

    steps: Sequence[Command | None]
    base: int
    before: bytes
    after: bytes
    seed: int


def simulation_files(program: Stimulus, modules: Sequence[str], bus: Bus = "rocc") -> dict[str, str]:
    """Text of each file of the test, by name.

    Args:
        modules: files of the accelerator's Verilog, as seen from the folder of the test.
        bus: what the accelerator is reached by.
    """
    folder = resources.files("baco.accel.package")
    beside = _BUS_SOURCES[bus]
    files = {name: (folder / name).read_text(encoding="utf-8") for name in (*_SOURCES, *beside)}
    macros = {
        "STEPS": str(len(program.steps)),
        "BYTES": str(len(program.before)),
        "BASE": f"64'h{program.base:x}",
    }
    if bus == "axi4":
        macros["BUS"] = ""
    defines = "".join(f"`define BACO_TEST_{name} {value}".rstrip() + "\n" for name, value in macros.items())
    includes = "".join(f"+incdir+{folder}\n" for folder in dict.fromkeys((".", *map(_folder, modules))))
    return files | {
        "test_config.vh": f"// The test of seed {program.seed}\n{defines}",
        "memory.hex": _memory(program.before),
        "expected.hex": _memory(program.after),
        "commands.hex": "".join(f"{_step(step):036x}\n" for step in program.steps),
        "files.f": includes
        + "".join(f"{name}\n" for name in (*modules, *beside) if not name.endswith(CONFIG_FILE)),
        "Makefile": _MAKEFILE.format(
            more="" if bus == "rocc" else ", BUS_ERRORS=N lets one burst of N fail\nBUS_ERRORS ?= 0",
            arguments="" if bus == "rocc" else " +bus_seed=$(SEED) +bus_errors=$(BUS_ERRORS)",
        ),
    }


def _folder(file: str) -> str:
    return file.rpartition("/")[0] or "."


def _memory(content: bytes) -> str:
    return "".join(content[at : at + _LINE].hex(" ") + "\n" for at in range(0, len(content), _LINE))


def _step(step: Command | None) -> int:
    if step is None:
        return _FENCE << 136
    return (
        (_RESULT if gives_result(step.funct) else _COMMAND) << 136
        | step.funct << 128
        | step.rs1 << 64
        | step.rs2
    )


def behind_axi4(machine: Accelerator | System) -> str:
    """Verilog with the ports of `baco_accelerator`, or `baco_system`, in which everything goes over AXI4 to the accelerators and from them.

    For simulators that know those ports: registers, bursts and waits as in the test of a package, with its checks of the
    protocol. Raises InfeasibleError as `baco.accel.verilog.generate.check_rtl`.
    """
    folder = resources.files("baco.accel.package")
    beside = [(folder / name).read_text(encoding="utf-8") for name in _BUS_SOURCES["axi4"]]
    if isinstance(machine, System):
        beside = [*beside[1:], (folder / "axi4_join.v").read_text(encoding="utf-8")]
        text = "\n".join([_system_bench(machine), system_verilog(machine, bus="axi4"), *beside])
        return re.sub(r"^`include.*\n", "", text, flags=re.M)
    text = "\n".join([verilog(machine, bus="axi4"), *beside])
    text = re.sub(r"^`include.*\n", "", text, flags=re.M)
    text = re.sub(rf"\b{BUS_TOPS['rocc']}\b", "baco_accelerator_on_bus", text)
    return text.replace("module axi4_bench ", f"module {BUS_TOPS['rocc']} ")


#: Signals of AXI4-Lite's channels without what they carry, of all 32 bits of a unit's commands, and of AXI4 behind the accelerators.
_LITE = (
    "awvalid", "awready", "wvalid", "wready", "bvalid", "bready", "arvalid", "arready", "rvalid", "rready",
)  # fmt: skip
_TALK = (
    "cmd_valid", "cmd_ready", "cmd_funct", "cmd_rd", "cmd_xd", "cmd_rs1", "cmd_rs2", "resp_valid", "resp_ready",
    "resp_rd", "resp_data", "busy", "error_valid", "error_code", "error_funct", "error_rs1", "error_rs2",
)  # fmt: skip
_MANAGER = (
    "awvalid", "awready", "awaddr", "awlen", "awsize", "awburst", "wvalid", "wready", "wdata", "wstrb", "wlast",
    "bvalid", "bready", "bresp", "arvalid", "arready", "araddr", "arlen", "arsize", "arburst", "rvalid",
    "rready", "rdata", "rresp", "rlast",
)  # fmt: skip
#: Bits of those that are no single ones, without those of data.
_WIDTHS = {
    **dict.fromkeys(("awaddr", "araddr"), 40),
    **dict.fromkeys(("awlen", "arlen"), 8),
    **dict.fromkeys(("awsize", "arsize"), 3),
    **dict.fromkeys(("awburst", "arburst", "bresp"), 2),
    "rresp": 2,
}
#: Pins of the system that nothing listens to.
_UNUSED = (
    "awid", "awlock", "awcache", "awprot", "awqos", "arid", "arlock", "arcache", "arprot", "arqos",
)  # fmt: skip


def _system_bench(system: System) -> str:
    """The module `baco_system` around `baco_system_axi4`."""
    inside = system_top(system)
    head = inside[: inside.index(");") + 2]
    ports = [port.name for port in module_ports(head)]
    return "\n".join(
        [head, *_registers(system), *_drivers(system, ports), *_memory_side(system, ports), "endmodule", ""]
    )


def _registers(system: System) -> list[str]:
    """Chance, and the registers' port, which units share."""
    count, select = len(system.accelerators), select_bits(system)
    stirs = "rd_req_ready === 1'b1, wr_req_ready === 1'b1, rd_resp_valid === 1'b1, wr_ack_valid === 1'b1"
    both = ", ".join(f".{name}({name}), .unit_{name}(unit_{name})" for name in _LITE)
    return [
        "  wire [31:0] chance, errors;",
        "  wire [7:0] go;",
        "  wire broken;",
        f"  wire [{count - 1}:0] irq, forgotten;",
        f"  axi4_chance random (.clock(clock), .stirs({{{stirs}}}), .forgotten(|forgotten), .chance(chance), .errors(errors), .go(go));",
        *(f"  wire {name};" for name in _LITE),
        *(f"  wire [{count - 1}:0] unit_{name};" for name in _LITE),
        f"  wire [{count * 12 - 1}:0] unit_address;",
        f"  wire [{count * 32 - 1}:0] unit_data;",
        f"  wire [{select + 11}:0] address;",
        "  wire [31:0] wdata, rdata;",
        "  wire [1:0] bresp, rresp;",
        f"  axi4_join #(.UNITS({count}), .SELECT_BITS({select})) join_ (.clock(clock), .reset(reset), {both},"
        " .unit_address(unit_address), .unit_data(unit_data), .wdata(wdata), .address(address));",
    ]


def _drivers(system: System, ports: Sequence[str]) -> list[str]:
    """What brings the commands of every unit to its registers."""
    lines = []
    numbers = [number for number, unit in enumerate(system.units) if unit.accelerator is not None]
    for at, (number, machine) in enumerate(zip(numbers, system.accelerators, strict=True)):
        pins = [f".{name}(unit{number}_{name})" for name in _TALK]
        pins += [f".{name}(unit_{name}[{at}])" for name in _LITE if not name.startswith(("ar", "r"))]
        pins += [f".arvalid(unit_arvalid[{at}]), .s_arready(unit_arready[{at}])"]
        pins += [
            f".s_rvalid(unit_rvalid[{at}]), .s_rready(unit_rready[{at}]), .s_rdata(rdata), .s_rresp(rresp)"
        ]
        pins += [f".address(unit_address[{at * 12} +: 12]), .data(unit_data[{at * 32} +: 32]), .bresp(bresp)"]
        lines.append(
            f"  axi4_driver #(.HASH(64'h{machine.config_hash})) driver{at} (.clock(clock), .reset(reset), .chance(chance), .go(go[3:0]),"
            f" .broken(broken), .restart(1'b0), .forgotten(forgotten[{at}]), .irq(irq[{at}]),\n      {', '.join(pins)});"
        )
        events = [name for name in ports if name.startswith(f"unit{number}_event_")]
        lines += [f"  assign {name} = bus.unit{number}.{name.partition('_')[2]};" for name in events]
    return lines


def _memory_side(system: System, ports: Sequence[str]) -> list[str]:
    """The system on its bus, main memory behind it, and checks of the protocol on both sides."""
    select, bits = select_bits(system), system.dma_bits
    widths = {**_WIDTHS, "wdata": bits, "rdata": bits, "wstrb": bits // 8}
    lite = {"awaddr": "address", "araddr": "address", "wdata": "wdata", "wstrb": "4'hf", "rdata": "rdata"}
    lite |= {name: name for name in (*_LITE, "bresp", "rresp")}
    bus = [f".s_axi_{name}({signal})" for name, signal in lite.items()]
    bus += [f".m_axi_{name}(m_{name})" for name in _MANAGER] + [".s_axi_awprot(3'd0), .s_axi_arprot(3'd0)"]
    bus += [".m_axi_bid(1'b0), .m_axi_rid(1'b0)", *(f".m_axi_{name}()" for name in _UNUSED)]
    checks = [f".s_{name}({signal})" for name, signal in lite.items()]
    checks += [f".m_{name}(m_{name})" for name in _MANAGER]
    port = [f".m_{name}(m_{name})" for name in _MANAGER if not name.endswith(("size", "burst"))]
    port += [f".{name}({name})" for name in ports if name.startswith(("rd_", "wr_"))]
    return [
        *(f"  wire [{widths.get(name, 1) - 1}:0] m_{name};" for name in _MANAGER),
        f"  {SYSTEM_BUS_TOP} bus (.aclk(clock), .aresetn(!reset), .irq(irq),\n      {', '.join(bus)});",
        f"  axi4_checks #(.ADDR_BITS(40), .DMA_BITS({bits}), .S_BITS({select + 12})) checks (.aclk(clock), .aresetn(!reset), .broken(broken),"
        f"\n      {', '.join(checks)});",
        f"  axi4_port #(.BITS({bits})) port (.clock(clock), .reset(reset), .chance(chance), .go(go[7:3]), .errors(errors),"
        f"\n      {', '.join(port)});",
    ]
