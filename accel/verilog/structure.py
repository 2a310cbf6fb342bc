"""What generated Verilog consists of, counted by Yosys: flip-flops, memories, multipliers, adders.

Counts are of the design before technology mapping: words narrowed to the bits that matter, what nothing reads
removed (register by register, so that of the skew registers only the triangle in use counts), nothing mapped
to gates. They are what an area model starts from, not an area.

Products are counted as the sources have them for simulators, one multiplier each (`WORD_LEVEL`); for gates, the array
writes their rows out.

A report takes about 10 s of one core for an array of 4 x 4, most of it for the control that all have, 15 s for
16 x 16 and 30 s for 32 x 32.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from baco.accel.verilog.generate import TOP
from baco.accel.verilog.yosys import run_yosys, source_name
from baco.common.scratch import scratch_folder

_SCRIPT = """\
read_verilog -D WORD_LEVEL design.v
hierarchy -check -top {top}
proc
opt_expr
wreduce
opt_clean -purge
opt_merge
opt_muxtree
opt_reduce
opt_dff
opt_expr
opt_clean -purge
splitcells t:$dff t:$dffe t:$sdff t:$sdffe t:$sdffce
opt_clean -purge
wreduce
opt_clean -purge
pmuxtree
tee -q -o report.json stat -json -width -top {top}
"""
#: Yosys' cells that the report counts, by what they are.
_FLIP_FLOPS = {
    "dff",
    "dffe",
    "adff",
    "adffe",
    "sdff",
    "sdffe",
    "sdffce",
    "aldff",
    "aldffe",
    "dffsr",
    "dffsre",
}
_LATCHES = {"dlatch", "adlatch", "dlatchsr", "sr"}
_MULTIPLIERS = {"mul", "macc", "macc_v2"}
_ADDERS = {"add", "sub", "neg", "alu"}
_COMPARATORS = {"lt", "le", "gt", "ge", "eq", "ne", "eqx", "nex"}
_SHIFTERS = {"shl", "shr", "sshl", "sshr", "shift"}
#: Yosys' shiftx selects some of many bits, one multiplexer a bit that it selects from.
_MULTIPLEXERS = {"mux", "pmux", "bmux", "shiftx"}

_CELL = re.compile(r"\$(\w+?)(?:_(\d+))?$")


@dataclass
class ModuleStructure:
    """Contents of all instances of one module together, without the modules inside it.

    Attributes:
        module: its name; `total` for the whole design.
        instances: how many there are.
        flip_flop_bits: bits held in registers.
        latch_bits: bits held in latches, of which there should be none.
        memory_bits: bits held in memories.
        multipliers, adders, comparators, shifters: numbers of units by the width of their widest port, bits.
        multiplexer_bits: widths of all multiplexers, added up.
    """

    module: str
    instances: int = 0
    flip_flop_bits: int = 0
    latch_bits: int = 0
    memory_bits: int = 0
    multipliers: dict[int, int] = field(default_factory=dict)
    adders: dict[int, int] = field(default_factory=dict)
    comparators: dict[int, int] = field(default_factory=dict)
    shifters: dict[int, int] = field(default_factory=dict)
    multiplexer_bits: int = 0

    def _add_cells(self, kind: str, width: int, count: int) -> None:
        if kind in _FLIP_FLOPS:
            self.flip_flop_bits += width * count
        elif kind in _LATCHES:
            self.latch_bits += width * count
        elif kind in _MULTIPLEXERS:
            self.multiplexer_bits += width * count
        for kinds, units in (
            (_MULTIPLIERS, self.multipliers),
            (_ADDERS, self.adders),
            (_COMPARATORS, self.comparators),
            (_SHIFTERS, self.shifters),
        ):
            if kind in kinds:
                units[width] = units.get(width, 0) + count

    def _add(self, other: ModuleStructure) -> None:
        for name in ("instances", "flip_flop_bits", "latch_bits", "memory_bits", "multiplexer_bits"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("multipliers", "adders", "comparators", "shifters"):
            mine = getattr(self, name)
            for width, count in getattr(other, name).items():
                mine[width] = mine.get(width, 0) + count


@dataclass(frozen=True)
class Structure:
    """The report: one entry a module, sorted by name, and their sum."""

    modules: tuple[ModuleStructure, ...]
    total: ModuleStructure
    yosys: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column titles and rows of text, the sum last."""
        titles = ["module", "instances", "flip-flop bits", "memory bits", "multipliers", "adders", "mux bits"]
        rows = [
            [
                one.module,
                f"{one.instances:,}",
                f"{one.flip_flop_bits:,}",
                f"{one.memory_bits:,}",
                f"{sum(one.multipliers.values()):,}",
                f"{sum(one.adders.values()):,}",
                f"{one.multiplexer_bits:,}",
            ]
            for one in (*self.modules, self.total)
        ]
        return titles, rows


def structure(
    verilog: str, top: str = TOP, *, note: Callable[[str], None] | None = None, limit_s: float = 1800.0
) -> Structure:
    """Count what a Verilog text consists of.

    Args:
        verilog: the whole design, as `baco.accel.verilog.generate.verilog` writes it.
        top: name of the top module.
        note: told, in a sentence, what takes time.
        limit_s: time after which Yosys is stopped.

    Raises InputError when Yosys is not installed, BacoError when it fails or takes too long.
    """
    if note is not None:
        note("Yosys counts the structure (seconds to minutes by array size)")
    with scratch_folder() as folder:
        (folder / "design.v").write_text(verilog, encoding="utf-8")
        script = _SCRIPT.format(top=top)
        run_yosys(script, folder, limit_s=limit_s, task="structure", hint="try a smaller array")
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return _summary(report, top)


def _summary(report: dict[str, Any], top: str) -> Structure:
    modules: dict[str, dict[str, Any]] = report["modules"]
    found: dict[str, ModuleStructure] = {}

    def visit(name: str, instances: int) -> None:
        content = modules[name]
        base = source_name(name)
        own = ModuleStructure(base, instances, memory_bits=instances * content["num_memory_bits"])
        for cell, count in content["num_cells_by_type"].items():
            if cell in modules or f"\\{cell}" in modules:
                visit(cell if cell in modules else f"\\{cell}", instances * count)
            elif match := _CELL.fullmatch(cell):
                own._add_cells(match[1], int(match[2] or 1), instances * count)
        found.setdefault(base, ModuleStructure(base))._add(own)

    visit(f"\\{top}", 1)
    total = ModuleStructure("total")
    for one in found.values():
        total._add(one)
    ordered = tuple(found[name] for name in sorted(found))
    return Structure(ordered, total, str(report["creator"]).split(" (")[0])
