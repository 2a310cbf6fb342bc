"""An accelerator in a technology: its area by module, its clock with the paths that limit it, and its leakage."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.accel.synthesis.closing import Closed, close
from baco.accel.synthesis.flat import Flat, flatten
from baco.accel.synthesis.gates import gate_verilog
from baco.accel.synthesis.liberty import Library, read_library
from baco.accel.synthesis.mapping import Mapped, NetlistModule, check_cells, map_design
from baco.accel.synthesis.memories import Bank, bank_cell, banks, doubts, fo4_s, nand2_um2
from baco.accel.synthesis.power import KINDS, Power, dynamic_energy, power
from baco.accel.synthesis.switching import read_switching
from baco.accel.synthesis.timing import Assumptions, Timing, analyse
from baco.accel.synthesis.timing import Path as TimingPath
from baco.accel.verilog.generate import TOP, verilog
from baco.common.cache import Cache
from baco.common.errors import InputError, did_you_mean
from baco.common.scratch import scratch_folder

#: Delays of an inverter that drives four which logic between registers is mapped for, unless told otherwise.
PERIOD_FO4 = 65
#: Nets of a netlist that is simulated: a million take an hour to compile.
MOST_NETS = 400_000
#: Capacitance of wires, F a um: 0.15 to 0.25 fF in technologies from 180 to 7 nm (Ho, Mai, Horowitz, "The Future of Wires",
#: Proc. IEEE 2001, fig. 3; it hardly scales).
WIRE_F_A_UM = 0.2e-15
#: Wire to one pin, in sides of an average cell: two cells away at a density of 70 %.
WIRE_CELLS = 2 / 0.7**0.5


#: What a netlist may be made for.
GOALS = ("area", "clock")
#: Libraries that are named in text.
_NAMED = 2


@dataclass(frozen=True)
class MappedModule:
    """All instances of one module: their own cells, without the modules and memories inside."""

    name: str
    instances: int
    mm2: float
    leakage_mw: float


@dataclass(frozen=True)
class WorstPath:
    """A path from register to register (or from or to a port).

    Attributes:
        need_ns: period that it needs, without margin.
        start, end: registers, as the source names them.
        through: module instances passed, in order, and how many cells of each.
        cells: how many in all.
    """

    need_ns: float
    start: str
    end: str
    through: tuple[tuple[str, int], ...]
    cells: int

    @property
    def text(self) -> str:
        """In words."""
        passed = ", ".join(f"{scope or 'the top'} ({cells})" for scope, cells in self.through)
        return f"{self.need_ns:.2f} ns, {self.cells} cells: {self.start} to {self.end} through {passed}"


@dataclass(frozen=True)
class Synthesis:
    """What a design is in a technology.

    Attributes:
        logic_mm2, memories_mm2: cells, and macros of banks.
        clock_mhz: that it closes at before layout, `margin` of the period left for it.
        leakage_mw: of both.
        modules: largest first.
        cell_classes: area by class of cells, mm2.
        banks: kinds of banks and how many of each.
        worst_paths: worst first, one a module.
        library: names of the libraries; volts and celsius: their corner.
        period_ps, wire_ff, margin: what was asked of the mapper, and assumed.
        yosys: what mapped it.
        remarks: what was missing and what was done about it.
        power: dynamic, where a program was run.
    """

    logic_mm2: float
    memories_mm2: float
    clock_mhz: float
    leakage_mw: float
    modules: tuple[MappedModule, ...]
    cell_classes: dict[str, float]
    banks: tuple[tuple[str, int], ...]
    worst_paths: tuple[WorstPath, ...]
    library: tuple[str, ...]
    volts: float
    celsius: float
    period_ps: float
    wire_ff: float
    margin: float
    yosys: str
    remarks: tuple[str, ...]
    power: Power | None = None

    @property
    def area_mm2(self) -> float:
        """Logic and memories, before layout."""
        return self.logic_mm2 + self.memories_mm2

    @property
    def libraries(self) -> str:
        """Names of the first libraries, and how many more there are: memories come in a file each."""
        names, more = self.library[:_NAMED], len(self.library) - _NAMED
        return ", ".join(names) + (f" and {more} more" if more > 0 else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"area_mm2": self.area_mm2, **asdict(self)}

    def text(self) -> str:
        """What it is, with what is assumed; modules and paths below."""
        corner = f"{self.volts:g} V, {self.celsius:g} °C" if self.volts else "no corner given"
        lines = [
            f"technology  {self.libraries} ({corner}), mapped by {self.yosys}",
            f"area        {self.area_mm2:.4g} mm² before layout: logic {self.logic_mm2:.4g}, memories {self.memories_mm2:.4g}",
            f"clock       {self.clock_mhz:.4g} MHz before layout, {self.margin:.0%} of the period kept for it;"
            f" {self.wire_ff:.3g} fF of wire to each pin assumed",
            f"leakage     {self.leakage_mw:.4g} mW",
        ]
        lines += [f"memories    {number} banks of {text}" for text, number in self.banks]
        width = max(len(module.name) for module in self.modules)
        lines += ["", f"{'module':{width}}  instances        mm²  of the logic"]
        for module in self.modules:
            share = module.mm2 / self.logic_mm2
            lines.append(f"{module.name:{width}}  {module.instances:9,}  {module.mm2:9.5f}  {share:12.1%}")
        if self.power is not None:
            lines += ["", *_power_lines(self.power)]
        lines += ["", *(f"path        {path.text}" for path in self.worst_paths)]
        lines += [f"note: {remark}" for remark in self.remarks]
        return "\n".join(lines)


def _power_lines(found: Power) -> list[str]:
    """What a run took, by module."""
    parts = ", ".join(f"{kind} {mw:.4g}" for kind, mw in found.mw.items())
    width = max(len(module.name) for module in found.modules)
    columns = "".join(f"{kind:>12}" for kind in KINDS)
    lines = [
        f"power       {found.dynamic_mw:.4g} mW at {found.clock_mhz:.4g} MHz, leakage apart: {parts}",
        f"energy      {found.energy_uj:.4g} µJ in {found.cycles:,} cycles, each net's switching counted in the netlist",
        "",
        f"{'module':{width}}{'mW':>12}{columns}",
    ]
    for module in found.modules:
        row = "".join(f"{module.mw[kind]:12.5f}" for kind in KINDS)
        lines.append(f"{module.name:{width}}{module.total_mw:12.5f}{row}")
    return lines


@dataclass(frozen=True)
class CellDesign:
    """An accelerator in the cells of a library, timed.

    Attributes:
        mapped, flat: its modules, and without hierarchy.
        library: the cells.
        banks: its memories, by the name of their cell.
        timing: with slews and loads.
        remarks: what was missing and what was done about it.
    """

    mapped: Mapped
    flat: Flat
    library: Library
    banks: dict[str, Bank]
    timing: Timing
    remarks: tuple[str, ...]

    def synthesis(self, run: Callable[[str, Path], int] | None = None) -> Synthesis:
        """What it is there.

        Args:
            run: simulates a program on a netlist, its Verilog; returns cycles, with what the netlist counted at a path
                (`baco.accel.synthesis.switching`). None: no power.
        """
        found = _summary(self)
        return found if run is None else replace(found, power=self.power(run))

    @cached_property
    def verilog(self) -> str:
        """Of its netlist. Raises InputError where that is too large to simulate."""
        if self.flat.nets > MOST_NETS:
            raise InputError(
                f"a netlist of {self.flat.nets:,} nets takes too long to simulate; the most are {MOST_NETS:,}",
                hint="try a smaller array with fewer entries, or leave the program out",
            )
        return gate_verilog(self.flat, self.mapped.memories, TOP)

    def power(self, run: Callable[[str, Path], int]) -> Power:
        """Dynamic power of a run, which is simulated as `synthesis` says."""
        with scratch_folder() as scratch:
            cycles = run(self.verilog, scratch / "counts")
            switching = read_switching(scratch / "counts", self.flat.nets, cycles)
        energy = dynamic_energy(self.flat, self.library, self.timing, switching, self.banks)
        return power(self.flat, energy, self.timing.clock_mhz)


def in_cells(
    accelerator: Accelerator,
    liberty: Sequence[Path] | Library,
    memories: Sequence[Path] | Library = (),
    *,
    period_ns: float | None = None,
    margin: float = 0.2,
    optimise: str = "area",
    progress: Callable[[int, int, str], None] | None = None,
    cache: Cache | None = None,
) -> CellDesign:
    """Map an accelerator to a library and time it.

    Args:
        liberty: files of one library of standard cells, Liberty, gzip or not, or the library as it was read.
        memories: files of memory macros, likewise; none: banks cost a law.
        period_ns: delay that logic between registers is mapped for; default: 65 delays of an inverter that drives four.
        margin: part of the period kept for layout, clock tree and variation.
        optimise: what for: `area` takes the mapper's cells as they are, and trees of buffers for granted; `clock` adds buffers,
            chooses cells' strengths and maps modules on long paths again (`baco.accel.synthesis.closing`).
        progress: told how many modules are mapped, of how many, and the last one's name.
        cache: keeps mapped modules; default: the user's.

    Raises InputError for files that are no Liberty or lack flip-flops or gates, for another `optimise`, and where Yosys is
    not installed; BacoError where it fails.
    """
    if optimise not in GOALS:
        raise InputError(f"a netlist is not optimised for '{optimise}'", hint=did_you_mean(optimise, GOALS))
    library = liberty if isinstance(liberty, Library) else read_library(liberty)
    macros = memories if isinstance(memories, Library) else read_library(memories) if memories else None
    _check_gates(library)
    period_ps = period_ns * 1e3 if period_ns is not None else PERIOD_FO4 * fo4_s(library) * 1e12
    text = verilog(accelerator)

    known: dict[tuple[str, str], NetlistModule] = {}

    def mapping(fast: Collection[str]) -> Mapped:
        return map_design(text, library, period_ps, fast=fast, progress=progress, cache=cache, known=known)

    mapped = mapping(())
    found, remarks = banks(mapped.memories.values(), library, macros)
    remarks += doubts(library)
    kinds = {name: found[memory] for name, memory in mapped.memories.items()}
    cells = {**library.cells, **{name: bank_cell(name, bank) for name, bank in kinds.items()}}
    assumed = Assumptions(_wire_f(mapped, library), 2 * fo4_s(library), margin=margin)
    if optimise == "clock":
        told = progress or (lambda done, of, what: None)
        closed = close(mapping, cells, library, assumed, lambda what: told(0, 0, what))
        mapped, flat, timing = closed.mapped, closed.flat, closed.timing
        remarks.append(_closing(closed))
    else:
        flat = flatten(mapped, cells)
        timing = analyse(flat, library, assumed)
    if not library.adders:
        remarks.append(
            "the library has no full adder; none is missed: sums are mapped to gates of one output"
        )
    if timing.loops:
        remarks.append(f"{timing.loops} nets lie in combinational loops, which timing leaves out")
    return CellDesign(mapped, flat, library, kinds, timing, tuple(remarks))


def _closing(closed: Closed) -> str:
    """What the clock took."""
    names = sorted({closed.mapped.modules[key].name for key in closed.fast})
    again = f"; mapped for short paths: {', '.join(names)}" if names else ""
    return f"for the clock: {closed.buffers:,} buffers and {closed.stronger:,} stronger cells{again}"


def _check_gates(library: Library) -> None:
    """Raises InputError where the library cannot hold a design, or its figures say nothing."""
    check_cells(library)
    for there, wanted in (
        (fo4_s(library) > 0, "no inverter with delays"),
        (any(cell.area_um2 for cell in library.kinds("gate")), "no areas of gates"),
    ):
        if not there:
            raise InputError(
                f"the library has {wanted}: {', '.join(library.names)}",
                hint="give all of its Liberty files, with areas and tables of delays (NLDM)",
            )


def _wire_f(mapped: Mapped, library: Library) -> float:
    """Capacitance of the wire to one pin, F."""
    areas = [
        library.cells[instance.kind].area_um2
        for module in mapped.modules.values()
        for instance in module.instances
        if instance.kind in library.cells
    ]
    mean = sum(areas) / len(areas) if areas else nand2_um2(library)
    return float(WIRE_F_A_UM * WIRE_CELLS * mean**0.5)


def _summary(design: CellDesign) -> Synthesis:
    mapped, flat, library, timing = design.mapped, design.flat, design.library, design.timing
    area: defaultdict[str, float] = defaultdict(float)
    leakage: defaultdict[str, float] = defaultdict(float)
    classes: defaultdict[str, float] = defaultdict(float)
    for instances in flat.instances.values():
        cell = instances.cell
        if cell.kind == "memory":
            continue
        classes[cell.kind] += cell.area_um2 * len(instances.nets)
        for scope, count in Counter(instances.scopes.tolist()).items():
            name = flat.modules[scope].name
            area[name] += cell.area_um2 * count
            leakage[name] += cell.leakage_w * count
    number = Counter(module.name for module in flat.modules)
    kinds: Counter[str] = Counter()
    memories_um2 = memories_w = 0.0
    for name, bank in design.banks.items():
        count = len(flat.instances[name].nets) if name in flat.instances else 0
        kinds[bank.text] += count
        memories_um2 += bank.area_um2 * count
        memories_w += bank.leakage_w * count
    modules = [MappedModule(name, number[name], area[name] / 1e6, leakage[name] * 1e3) for name in number]
    return Synthesis(
        sum(area.values()) / 1e6,
        memories_um2 / 1e6,
        timing.clock_mhz,
        (sum(leakage.values()) + memories_w) * 1e3,
        tuple(sorted(modules, key=lambda module: (-module.mm2, module.name))),
        {kind: um2 / 1e6 for kind, um2 in classes.items()},
        tuple(kinds.items()),
        tuple(_in_words(path, flat) for path in timing.paths),
        tuple(library.names),
        library.volts,
        library.celsius,
        mapped.period_ps,
        timing.assumptions.wire_f * 1e15,
        timing.assumptions.margin,
        mapped.yosys,
        design.remarks,
    )


def _in_words(path: TimingPath, flat: Flat) -> WorstPath:
    through: list[tuple[str, int]] = []
    for step in path.steps[1:]:
        scope = flat.scopes[step.scope] if step.scope >= 0 else ""
        if through and through[-1][0] == scope:
            through[-1] = scope, through[-1][1] + 1
        else:
            through.append((scope, 1))
    names = [flat.name(step.net) for step in path.steps]
    named = [name for name in names if name]
    start = names[0] or (named[0] if named else "a register")
    end = next((name for name in reversed(names[1:]) if name), "a register")
    where = flat.scopes[path.end_scope] if path.end else ""
    told = f"a register of {where or 'the top'}, behind {end}" if path.end else f"the port {end}"
    return WorstPath(path.need_s * 1e9, start, told, tuple(through), len(path.steps) - 1)
