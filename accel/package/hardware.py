"""The hardware's part of a package: Verilog, file list, constraints, and what must be known of ports and memories."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

from baco.accel.area import TABLE_BITS, TABLE_ENTRIES
from baco.accel.bus import BUS_TOPS, Bus, register_header, registers_page
from baco.accel.c_header import c_header
from baco.accel.config import Accelerator
from baco.accel.legality.document import reference
from baco.accel.structure_law import terms
from baco.accel.synthesis.mapping import BankShape
from baco.accel.verilog.generate import CONFIG_FILE, verilog_files

#: Where the package has its Verilog.
RTL_FOLDER = "rtl"
_PORT = re.compile(
    r"^\s*(input|output) (?:wire|reg) (?:\[([^\]]+)\] )?(\w+),?\s*(?://\s*(.*))?$|^\s*//\s?(.*)$"
)
#: Delay outside of the accelerator, as a part of the period, before inputs come and after outputs leave.
_OUTSIDE = 0.25


@dataclass(frozen=True)
class MemoryBanks:
    """Equal banks of memory, each one instance of baco_sram.

    Attributes:
        use: what they hold.
        banks: how many.
        shape: of each.
    """

    use: str
    banks: int
    shape: BankShape

    @property
    def kib(self) -> float:
        """Capacity of all of them."""
        return self.banks * self.shape.bits / 8 / 1024


def memory_banks(accelerator: Accelerator) -> list[MemoryBanks]:
    """All memories that a technology's macros replace."""
    a = accelerator
    scratchpad = BankShape(a.scratchpad_rows // a.scratchpad_banks, a.dim, 8)
    accumulator = BankShape(a.accumulator_rows // a.accumulator_banks, a.dim, 32)
    found = [
        MemoryBanks("scratchpad", a.scratchpad_banks, scratchpad),
        MemoryBanks("accumulator", a.accumulator_banks, accumulator),
    ]
    if a.features.row_functions:
        lanes = int(terms(a, a.dim)["lanes"])
        found.append(MemoryBanks("tables of functions", lanes, BankShape(TABLE_ENTRIES, 1, TABLE_BITS)))
    return found


def hardware_files(
    accelerator: Accelerator, clock_mhz: float, clock_source: str, bus: Bus = "rocc"
) -> dict[str, str]:
    """Text of each file, by its path in the package.

    Args:
        clock_mhz, clock_source: what the constraints ask for, and who says that it can be kept.
        bus: what the accelerator is reached by.

    Raises InfeasibleError where no RTL can be built.
    """
    modules, top = verilog_files(accelerator, bus), BUS_TOPS[bus]
    names = [f"{RTL_FOLDER}/{name}" for name in modules]
    listed = [f"+incdir+{RTL_FOLDER}", *(name for name in names if not name.endswith(CONFIG_FILE))]
    return {
        **{f"{RTL_FOLDER}/{name}": text for name, text in modules.items()},
        "files.f": "\n".join(listed) + "\n",
        "constraints.sdc": _constraints(clock_mhz, clock_source, bus),
        "memories.md": _memories(accelerator),
        "ports.md": _ports(top, modules[f"{top}.v"]),
        "commands.md": reference(),
        "accelerator.yaml": accelerator.to_yaml(),
        "software/gemmini_params.h": c_header(accelerator),
        **(_on_axi4() if bus == "axi4" else {}),
    }


def _on_axi4() -> dict[str, str]:
    """What programs need that reach the accelerator by registers."""
    driver = resources.files("baco.accel.package") / "baco_driver.h"
    return {
        "registers.md": registers_page(),
        "software/baco_registers.h": register_header(),
        "software/baco_driver.h": driver.read_text(encoding="utf-8"),
    }


def _constraints(clock_mhz: float, source: str, bus: Bus) -> str:
    clock, reset = ("clock", "reset") if bus == "rocc" else ("aclk", "aresetn")
    period = 1000 / clock_mhz
    outside = period * _OUTSIDE
    return f"""\
# {BUS_TOPS[bus]}: one clock of {clock_mhz:g} MHz ({source}); every register has it, {reset} is synchronous
set_units -time ns
create_clock -name clock -period {period:.4f} [get_ports {clock}]
set inputs {{}}
foreach port [all_inputs] {{
  if {{ [get_property $port full_name] ne "{clock}" }} {{ lappend inputs $port }}
}}
# a quarter of the period lies outside of the accelerator: change it to what your bus needs
set_input_delay {outside:.4f} -clock clock $inputs
set_output_delay {outside:.4f} -clock clock [all_outputs]
"""


def _memories(accelerator: Accelerator) -> str:
    rows = "\n".join(
        f"| {one.use} | {one.banks} | {one.shape.rows:,} | {one.shape.width} | {one.shape.lanes} x {one.shape.lane_bits} |"
        f" {one.kib:g} |"
        for one in memory_banks(accelerator)
    )
    return f"""\
# Memories

Every bank of memory is one instance of `baco_sram` ({RTL_FOLDER}/baco_sram.v), which is there to be replaced: put your macros into a
module of this name and these ports. Nothing else holds memory arrays but queues of a few words.

| holds | banks | rows | bits of a row | lanes x bits | KiB in all |
|---|---|---|---|---|---|
{rows}

What the rest relies on:

* One clock; a read port and a write port that work in the same cycle, on rows of their own.
* `read_data` comes in the cycle after `read_enable` and **is held** until the next read. Macros that lose it need a register behind.
* A read of the row that is written in the same cycle returns the **old** contents.
* `write_mask` has a bit for each lane: lanes without it keep what they held. Macros without masks need a macro a lane.
* Contents after power-up do not matter, and no memory is reset.
"""


def _ports(top: str, text: str) -> str:
    lines = [f"# Ports of {top}", "", "| port | direction | width | meaning |", "|---|---|---|---|"]
    said = ""
    for line in text[text.index(") (") : text.index(");")].splitlines()[1:]:
        found = _PORT.match(line)
        if found is None:
            continue
        direction, width, name, comment, alone = found.groups()
        if name is None:  # a comment of its own says something of the ports below
            said = f"{said} {alone}".strip()
            continue
        if said:
            lines.append(f"| | | | *{said}* |")
            said = ""
        lines.append(f"| `{name}` | {direction} | {f'[{width}]' if width else '1'} | {comment or ''} |")
    lines[-1] = lines[-1].removesuffix(" |") + f" {said} |" if said else lines[-1]
    return "\n".join(lines) + "\n"
