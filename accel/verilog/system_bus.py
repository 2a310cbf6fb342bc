"""The system on AXI4: one AXI4-Lite port for the registers of all units, one AXI4 manager for main memory, a line of interrupt a unit.

Registers of the accelerator that is the n-th (from 0) lie from n * 4096 on, each as those of a single accelerator (`baco.accel.bus`), with
its own errors of main memory and its own reset: the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from baco.accel.bus import BUS_TOPS, bus_constants
from baco.accel.system import System
from baco.accel.verilog.generate import ADDRESS_BITS, TOP, module_texts, source_text
from baco.accel.verilog.memory_adapter import ADAPTER, adapter_parameters, adapter_pins, port_widths
from baco.accel.verilog.source import ModulePort, module_ports

#: Name of the top module.
SYSTEM_BUS_TOP = "baco_system_axi4"
_MODULES = (
    "baco_axi4_split",
    "baco_axi4_commands",
    "baco_axi4_registers",
    "baco_memory_gate",
    "baco_axi4_memory",
    "baco_axi4_reads",
    "baco_axi4_writes",
)
#: Bits of addresses of a unit's registers.
_REGISTER_BITS = 12
#: Of the registers' port, what all units get alike.
_ALIKE = ("awaddr", "araddr", "wdata", "wstrb")


def select_bits(system: System) -> int:
    """Bits of addresses of registers that say whose they are."""
    return max(1, (len(system.accelerators) - 1).bit_length())


def bus_modules(system: System, sources: Path | None = None) -> list[str]:
    """Texts of the modules between the accelerators and the bus, with the macros that they need before them."""
    texts = [source_text(f"{name}.v", sources) for name in _MODULES]
    first = system.accelerators[0]
    values = bus_constants() | {
        "BACO_AXI_CONFIGURATION": f"64'h{system.config_hash}",
        "BACO_ADDR_BITS": str(ADDRESS_BITS),
        "BACO_DMA_BITS": str(system.dma_bits),
        "BACO_DMA_REQUESTS": str(first.dma_requests),
    }
    lines = [
        f"`ifdef {name}\n`undef {name}\n`endif\n`define {name} {value}" for name, value in values.items()
    ]
    return [*lines, *texts]


class _Top:
    """Text of the top module as it is put together."""

    def __init__(self, system: System, units: list[tuple[int, str]]) -> None:
        self.system, self.units, self.count = system, units, len(units)
        self.widths = port_widths(system.dma_bits)
        self.wires: list[str] = []
        self.instances: list[str] = []

    def wire(self, name: str, width: str) -> None:
        """Declare what there is once."""
        self.wires.append(f"  wire {self.bits(width)}{name};")

    def wires_of_all(self, name: str, width: str) -> None:
        """Declare what each unit has."""
        self.wires.append(f"  wire [{self.count * self.size(width) - 1}:0] {name};")

    def size(self, width: str) -> int:
        """Bits of an expression of parameters."""
        return self.widths[width] if width in self.widths else int(width)

    def bits(self, width: str) -> str:
        """A range; nothing for one bit."""
        return f"[{self.size(width) - 1}:0] " if self.size(width) > 1 else ""

    def own(self, name: str, at: int, width: str) -> str:
        """The bits of a unit of what there is of all units."""
        size = self.size(width)
        return f"{name}[{at * size} +: {size}]" if size > 1 else f"{name}[{at}]"

    def place(self, module: str, name: str, pins: Mapping[str, str], **parameters: object) -> None:
        """An instance, clock included; the bus's reset unless another one is among the pins."""
        every = {"clock": "aclk", "reset": "!aresetn", **pins}
        cells = [f".{pin}({signal})" for pin, signal in every.items()]
        rows = ["      " + ", ".join(cells[n : n + 4]) for n in range(0, len(cells), 4)]
        given = ", ".join(f".{key}({value})" for key, value in parameters.items())
        self.instances.append(
            f"  {module} {f'#({given}) ' if given else ''}{name} (\n" + ",\n".join(rows) + ");"
        )


def bus_top(system: System, units: list[tuple[int, str]], arbiter: str) -> str:
    """Text of the top module.

    Args:
        units: number and module of each accelerator.
        arbiter: name of its module.
    """
    top = _Top(system, units)
    single = module_ports(source_text(f"{BUS_TOPS['axi4']}.v"))
    select = select_bits(system)
    outside = [
        replace(port, width=str(_REGISTER_BITS + select))
        if port.name in ("s_axi_awaddr", "s_axi_araddr")
        else port
        for port in single
        if port.name.startswith(("s_axi_", "m_axi_"))
    ]
    ports = ["input wire aclk", "input wire aresetn", f"output wire [{top.count - 1}:0] irq"]
    ports += [
        f"{'output' if port.output else 'input'} wire {top.bits(port.width)}{port.name}" for port in outside
    ]
    memory = [
        port
        for port in module_ports(source_text("baco_axi4_memory.v"))
        if port.name.startswith(("rd_", "wr_"))
    ]
    shared = {port.name: port.width for port in memory if not port.name.endswith("_tag")}
    for name, width in shared.items():
        top.wire(name, width)
        top.wires_of_all(f"unit_{name}", width)
    _registers(top, outside, select)
    for at in range(top.count):
        _unit(top, at, shared)
    owners = ("rd_req_unit", "wr_req_unit", "read_unit", "write_unit")
    for name in owners:
        top.wires_of_all(name, "1")
    depths = {"READS": system.reads_in_flight, "WRITES": system.writes_in_flight}
    pins = {name: name for name in (*shared, *owners[:2])} | {
        f"unit_{name}": f"unit_{name}" for name in shared
    }
    sizes = {"ADDR_BITS": ADDRESS_BITS, "DMA_BITS": top.widths["DMA_BITS"]}
    top.place(arbiter, "arbiter", pins, UNITS=top.count, **sizes, **depths)
    pins = {
        "halted": "1'b0",
        "idle": "_unused_idle",
        "rd_req_tag": "rd_req_unit",
        "wr_req_tag": "wr_req_unit",
    }
    pins |= {name: name for name in shared} | {"read_tag": "read_unit", "write_tag": "write_unit"}
    top.wire("_unused_idle", "1")
    for kind in ("read", "write"):
        for what, width in (("error", "1"), ("response", "2"), ("address", "ADDR_BITS")):
            top.wire(f"{kind}_{what}", width)
            pins[f"{kind}_{what}"] = f"{kind}_{what}"
    manager = [port.name for port in outside if port.name.startswith("m_axi_")]
    ids = ("m_axi_bid", "m_axi_rid")
    pins |= {name.removeprefix("m_axi_"): name for name in manager if name not in ids}
    top.place("baco_axi4_memory", "memory", pins, **sizes, REQUESTS=depths["READS"], TAG_BITS=top.count)
    unused = ", ".join(("s_axi_awprot", "s_axi_arprot", *ids, "_unused_idle"))
    return "\n".join(
        [
            "// Accelerators of a system on AXI4: registers of each from its number times 4096 on, and one manager of main memory.",
            f"module {SYSTEM_BUS_TOP} (",
            ",\n".join(f"    {port}" for port in ports),
            ");",
            *top.wires,
            "  // verilator lint_off PINCONNECTEMPTY",
            *top.instances,
            "  // verilator lint_on PINCONNECTEMPTY",
            f"  wire _unused = &{{1'b0, {unused}}};",
            "endmodule",
            "",
        ]
    )


def _registers(top: _Top, outside: list[ModulePort], select: int) -> None:
    """The port of all registers, parted."""
    own = [port for port in module_ports(source_text("baco_axi4_split.v")) if port.name.startswith("unit_")]
    for port in own:
        top.wires_of_all(
            port.name.replace("unit_", "lite_", 1), port.width.removeprefix("UNITS*").replace("UNITS", "1")
        )
    pins = {port.name: port.name.replace("unit_", "lite_", 1) for port in own}
    lite = [port.name.removeprefix("s_axi_") for port in outside if port.name.startswith("s_axi_")]
    pins |= {name: f"s_axi_{name}" for name in lite if name not in (*_ALIKE, "awprot", "arprot")}
    pins |= {f"{kind}select": f"s_axi_{kind}addr[{_REGISTER_BITS} +: {select}]" for kind in ("aw", "ar")}
    top.place("baco_axi4_split", "split", pins, UNITS=top.count, SELECT_BITS=select)


def _unit(top: _Top, at: int, shared: Mapping[str, str]) -> None:
    """An accelerator, its registers, and what cuts it off."""
    number, module = top.units[at]
    accelerator = top.system.accelerators[at]
    ports = module_ports(source_text("baco_axi4_commands.v"))
    names = [port.name for port in ports]
    begin, end = names.index("cmd_valid"), names.index("error_rs2") + 1
    talk = {port.name: port.width for port in ports[begin:end]}
    for name, width in talk.items():
        top.wire(f"{name}_{at}", width)
    for name in ("halted", "restart", "idle"):
        top.wire(f"{name}_{at}", "1")
    pins = {
        "irq": f"irq[{at}]",
        "halted": f"halted_{at}",
        "restart": f"restart_{at}",
        "bus_idle": f"idle_{at}",
    }
    for port in ports[names.index("irq") + 1 : begin]:
        said = f"s_axi_{port.name}" + (f"[{_REGISTER_BITS - 1}:0]" if port.name.endswith("addr") else "")
        pins[port.name] = said if port.name in _ALIKE else top.own(f"lite_{port.name}", at, port.width)
    for kind in ("read", "write"):
        pins |= {f"{kind}_error": f"{kind}_error && {kind}_unit[{at}]"}
        pins |= {f"{kind}_{what}": f"{kind}_{what}" for what in ("response", "address")}
    pins |= {name: f"{name}_{at}" for name in talk}
    top.place("baco_axi4_commands", f"commands{at}", pins, HASH=f"64'h{accelerator.config_hash}")
    outs = [
        port.name for port in module_ports(source_text("baco_memory_gate.v")) if port.name.startswith("out_")
    ]
    gated = [name.removeprefix("out_") for name in outs]
    for name in gated:
        top.wire(f"{name}_{at}", "1")
    memory = {name: top.own(f"unit_{name}", at, width) for name, width in shared.items()}
    if accelerator.dma_bits < top.system.dma_bits:
        own = port_widths(accelerator.dma_bits)
        inside = {name: f"narrow_{name}_{at}" for name in shared}
        for name, width in shared.items():
            top.wire(inside[name], str(own.get(width, width)))
        parameters = adapter_parameters(top.system, accelerator)
        top.place(ADAPTER, f"adapter{at}", adapter_pins(inside, memory), **parameters)
        memory = inside
    pins = {"halted": f"halted_{at}", "idle": f"idle_{at}", "rd_req_size": memory["rd_req_size"]}
    pins |= {name: f"{name}_{at}" for name in gated} | {f"out_{name}": memory[name] for name in gated}
    top.place("baco_memory_gate", f"gate{at}", pins, DMA_BITS=accelerator.dma_bits)
    pins = {"reset": f"!aresetn || restart_{at}"} | {name: f"{name}_{at}" for name in (*talk, *gated)}
    pins |= {name: signal for name, signal in memory.items() if name not in gated}
    every = [port.name for port in module_ports(module_texts(accelerator)[TOP])]
    top.place(module, f"unit{number}", pins | {name: "" for name in every if name.startswith("event_")})
