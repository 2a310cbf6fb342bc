"""From Verilog to gates of a library: each module mapped once by Yosys, side by side, and kept by content.

The flow is Yosys' own `synth` up to its fine-grained part, then ABC on each module for a given delay. Modules keep their
borders: an array of 256 elements is one row mapped and counted sixteen times. Memories stay apart (`MEMORY`): they are
macros in silicon. What a module maps to depends on its own text alone, without names of modules, which hold their parameters: so
designs that share logic share the work, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco.accel.synthesis.liberty import Library
from baco.accel.synthesis.trimmed import GATES, REGISTERS, trim
from baco.accel.verilog.generate import TOP
from baco.accel.verilog.yosys import run_yosys, source_name, yosys_identity
from baco.common.cache import Cache
from baco.common.errors import BacoError, InputError
from baco.common.processes import processors
from baco.common.scratch import scratch_folder

#: The module that is a bank of memory, and stays apart.
MEMORY = "baco_sram"
#: In the place of a net: nothing, or a constant.
OPEN, ZERO, ONE = -1, -2, -3
_CONSTANTS = {"0": ZERO, "1": ONE}
#: Modules as the source has them for each choice of parameters, and their ports alone.
_FRONT = """\
read_verilog -sv design.v
hierarchy -check -top {top}
rename -enumerate -pattern $made%
blackbox *{memory}*
write_rtlil design.il
blackbox *
write_rtlil ports.il
write_json ports.json
"""
_MAP = """\
read_rtlil module.il
synth -run coarse:fine
memory_map
opt -fast
techmap
opt -fast
dfflibmap {registers}
opt
abc {gates} -D {period_ps:.0f}
opt_clean
write_json mapped.json
"""
#: What ABC does to modules that are to be fast. Its usual script shares logic before it maps (its dc2), which makes ripples of the
#: carries that Yosys had laid out as prefix trees; here they stay, for some area, and what is left of chains is balanced by
#: sums of products (if -g). Its mapper for delay (map) stops at some small libraries, where the one that looks at area, too,
#: (&nf) does it. Commas are blanks.
_MAP_FAST, _MAP_FAST_OTHERWISE = (
    _MAP.replace("-D {period_ps:.0f}", f"-script +strash;ifraig;scorr;if,-g,-K,6;strash;{mapper}")
    for mapper in ("dch,-f;map,-B,0.9;topo", "&get,-n;&dch,-f;&nf;&put")
)
#: Without buffers in the library ABC's usual mapper (&nf) stops, and at some its older one for delay, too; the one for area does not.
_MAP_UNBUFFERED = _MAP.replace(
    "-D {period_ps:.0f}", "-script +strash;&get,-n;&fraig,-x;&put;scorr;dc2;dch,-f;amap;topo"
)
#: Functions of gates: ABC refuses libraries of fewer.
_FEWEST = 3
_TASK = "synthesis"
#: Of the form of what `_front` writes, and of what `trim` writes.
_READ = "3"
_TRIMMED = "1"
_HINT = "try a smaller array"
#: Names that Yosys makes up hold numbers that count over the whole design. Those of nets and cells count in their module once
#: they are enumerated, which makes public names of them.
_ENUMERATED, _PRIVATE = "\\$made", "$made"
#: What a module and those inside it are called while they are mapped, the latter with their place among them.
_ITSELF, _INSIDE = "mapped_itself", "mapped_inside_"
_PARAMETERS = re.compile(r"^  parameter \\\S+.*\n", re.MULTILINE)
_MADE_UP = re.compile(r"\$[\w./:$\\-]*\$\d+[\w$.]*(?:\[\d+:\d+\]\$\d+)?")
_SOURCE = re.compile(r"^\s*attribute \\src .*\n", re.MULTILINE)


@dataclass(frozen=True)
class CellInstance:
    """A cell, memory or module inside a module.

    Attributes:
        name: unique in its module.
        kind: name of the cell or module.
        nets: by pin the net of each of its bits, the lowest first; `OPEN` (also what may be anything), `ZERO` or `ONE`.
    """

    name: str
    kind: str
    nets: dict[str, list[int]]


@dataclass(frozen=True)
class NetlistModule:
    """A mapped module.

    Attributes:
        name: in the source, without what Yosys adds for parameters.
        ports: by name, direction and the net of each bit.
        instances: cells of the library, memories and modules.
        net_names: of nets that the source names, `register[3]`.
        nets: how many there are; nets are 0 ... nets - 1.
    """

    name: str
    ports: dict[str, tuple[str, list[int]]]
    instances: tuple[CellInstance, ...]
    net_names: dict[int, str]
    nets: int


@dataclass(frozen=True)
class BankShape:
    """What a bank is: `rows` of `lanes` of `lane_bits`, one port that reads and one that writes lanes."""

    rows: int
    lanes: int
    lane_bits: int

    @property
    def width(self) -> int:
        """Bits of a row."""
        return self.lanes * self.lane_bits

    @property
    def bits(self) -> int:
        """In all."""
        return self.rows * self.width


@dataclass(frozen=True)
class Mapped:
    """A design in cells.

    Attributes:
        top: key of the outermost module.
        modules: by the name that instances use.
        memories: kinds of banks, by the name that instances use.
        yosys: what mapped it.
        period_ps: delay that ABC was asked for.
    """

    top: str
    modules: dict[str, NetlistModule]
    memories: dict[str, BankShape]
    yosys: str
    period_ps: float


def map_design(
    verilog: str,
    library: Library,
    period_ps: float,
    *,
    top: str = TOP,
    fast: Collection[str] = (),
    progress: Callable[[int, int, str], None] | None = None,
    cache: Cache | None = None,
    known: dict[tuple[str, str], NetlistModule] | None = None,
    limit_s: float = 7200.0,
) -> Mapped:
    """Map a design.

    Args:
        verilog: the whole text.
        period_ps: delay that logic between registers should have, ps.
        fast: keys of `Mapped.modules` which are mapped for short paths rather than for little area.
        progress: told how many modules are mapped, of how many, and the last one's name.
        cache: keeps mapped modules; default: the user's.
        known: modules that were read before, by name and by what they were mapped from and how; gets those that are read now.
        limit_s: time after which one step of Yosys is stopped.

    Raises InputError when Yosys is not installed or the library has no flip-flop or no gates, BacoError when Yosys
    fails or takes too long.
    """
    check_cells(library)
    kept = cache or Cache()
    told = progress or (lambda done, of, name: None)
    yosys = yosys_identity()
    told(0, 0, "reading the design (Yosys)")
    front = kept.entry(
        _key("front", yosys, verilog, top, _FRONT, _READ),
        lambda folder: _front(verilog, top, folder, limit_s),
    )
    fronts: dict[str, dict[str, Any]] = json.loads((front / "modules.json").read_text(encoding="utf-8"))
    cells = kept.entry(_key("cells", library.digest, _TRIMMED), lambda folder: trim(library.files, folder))
    gates, registers = (sorted(cells.glob(name.format("*"))) for name in (GATES, REGISTERS))
    jobs: dict[str, tuple[str, str]] = {}

    buffered = bool(library.buffers())
    flows = {name: _flows(name in fast, buffered) for name in fronts}
    for name, one in fronts.items():
        text = gzip.decompress((front / one["file"]).read_bytes()).decode()
        jobs[name] = (
            _key("gates", yosys, _without_numbers(text), library.digest, f"{period_ps:.0f}", *flows[name]),
            text,
        )
    known = {} if known is None else known
    with ThreadPoolExecutor(processors()) as pool:

        def mapping(name: str) -> None:
            key, text = jobs[name]
            if (name, key) in known:
                return
            scripts = [
                flow.format(registers=_options(registers), gates=_options(gates), period_ps=period_ps)
                for flow in flows[name]
            ]
            entry = kept.entry(key, lambda folder: _map(name, text, scripts, folder, limit_s))
            content = json.loads(gzip.decompress((entry / "mapped.json.gz").read_bytes()))
            known[name, key] = _module(name, content, fronts[name]["inside"])

        # large modules first, or the last one would run alone
        order = sorted(jobs, key=lambda name: -len(jobs[name][1]))
        running = {pool.submit(mapping, name): name for name in order}
        try:
            for done, future in enumerate(as_completed(running), 1):
                name = running[future]
                future.result()
                told(done, len(jobs), source_name(name))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    found = json.loads((front / "design.json").read_text(encoding="utf-8"))
    modules = {name: known[name, key] for name, (key, _) in jobs.items()}
    memories = {name: BankShape(**shape) for name, shape in found["memories"].items()}
    return Mapped(found["top"], modules, memories, found["creator"], period_ps)


def _flows(short: bool, buffered: bool) -> tuple[str, ...]:
    """Scripts that map a module, one tried after the other: for short paths, or little area; for cells with buffers or without."""
    if short:
        return _MAP_FAST, _MAP_FAST_OTHERWISE if buffered else _MAP_UNBUFFERED
    return (_MAP if buffered else _MAP_UNBUFFERED,)


def check_cells(library: Library) -> None:
    """Raises InputError where the library cannot hold a design."""
    gates = library.kinds("gate")
    functions = {pin.function for cell in gates for pin in cell.pins.values() if pin.direction == "output"}
    for there, wanted in (
        (library.kinds("flip-flop"), "no flip-flops"),
        (gates, "no gates"),
        (
            len(functions) >= _FEWEST,
            f"gates of {len(functions)} functions only, and ABC maps to {_FEWEST} or more",
        ),
    ):
        if not there:
            raise InputError(
                f"the library has {wanted}: {', '.join(library.names)}",
                hint="give all of its Liberty files",
            )


def _key(word: str, *parts: str) -> str:
    """Key of the cache for content made of some texts."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{word}-{digest[:16]}"


def _without_numbers(text: str) -> str:
    """A module's text without what depends on other modules: places in the file, and numbers of made-up names."""
    numbers: dict[str, str] = {}
    return _MADE_UP.sub(
        lambda match: numbers.setdefault(match[0], f"$made{len(numbers)}"), _SOURCE.sub("", text)
    )


def _front(verilog: str, top: str, folder: Path, limit_s: float) -> None:
    """Fill an entry with the design's modules before they are mapped, each with the ports of those inside."""
    with scratch_folder() as work:
        (work / "design.v").write_text(verilog, encoding="utf-8")
        run_yosys(_FRONT.format(top=top, memory=MEMORY), work, limit_s=limit_s, task=_TASK, hint=_HINT)
        content = json.loads((work / "ports.json").read_text(encoding="utf-8"))
        ports, creator = content["modules"], content["creator"].split(" (")[0]
        texts, boxes = (
            _split((work / f"{name}.il").read_text(encoding="utf-8").replace(_ENUMERATED, _PRIVATE))
            for name in ("design", "ports")
        )
    memories = {name: _bank(one) for name, one in ports.items() if MEMORY in (source_name(name), name)}
    fronts: dict[str, dict[str, Any]] = {}
    for name in ports:
        if name in memories:
            continue
        kinds = dict.fromkeys(re.findall(r"^  cell \\?(\S+) ", texts[name], re.MULTILINE))
        inside = [kind for kind in kinds if kind in boxes]
        parts = [f"attribute \\blackbox 1\n{boxes[kind]}" for kind in inside]
        fronts[name] = {"file": f"m{len(fronts)}.il.gz", "inside": inside}
        text = _anonymous("".join([texts[name], *parts]), name, inside)
        (folder / fronts[name]["file"]).write_bytes(gzip.compress(text.encode(), mtime=0))
    tops = [name for name in fronts if name == top or source_name(name) == top]
    (folder / "modules.json").write_text(json.dumps(fronts), encoding="utf-8")
    design = {"top": tops[0], "memories": memories, "creator": creator}
    (folder / "design.json").write_text(json.dumps(design), encoding="utf-8")


def _anonymous(text: str, name: str, inside: Sequence[str]) -> str:
    """A module and the ports of those inside it without their names and parameters, which their logic has no need of."""
    names = {name: _ITSELF} | {kind: f"{_INSIDE}{place}" for place, kind in enumerate(inside)}
    renamed = re.sub(
        r"^(module |  cell )(\S+)",
        lambda match: (
            f"{match[1]}\\{names[kind]}" if (kind := match[2].removeprefix("\\")) in names else match[0]
        ),
        text,
        flags=re.MULTILINE,
    )
    return _PARAMETERS.sub("", renamed)


def _bank(content: dict[str, Any]) -> dict[str, int]:
    """Fields of `BankShape`, of a memory in Yosys' JSON."""
    ports = {port: len(one["bits"]) for port, one in content["ports"].items()}
    rows = content.get("parameter_default_values", {}).get("ROWS")
    lanes = ports["write_mask"]
    return {
        "rows": int(rows, 2) if rows else 1 << ports["read_row"],
        "lanes": lanes,
        "lane_bits": ports["write_data"] // lanes,
    }


def _split(text: str) -> dict[str, str]:
    """The text of each module of a design in Yosys' own form, by name."""
    found = {}
    for match in re.finditer(r"^module (\S+)\n.*?^end\n", text, re.MULTILINE | re.DOTALL):
        found[match[1].removeprefix("\\")] = match[0]
    return found


def _options(liberty: Sequence[Path]) -> str:
    return " ".join(f"-liberty {path}" for path in liberty)


def _map(name: str, text: str, scripts: Sequence[str], folder: Path, limit_s: float) -> None:
    """Fill an entry with a mapped module, by the first script that Yosys does not stop at."""
    with scratch_folder() as work:
        (work / "module.il").write_text(text, encoding="utf-8")
        for script in scripts:
            try:
                run_yosys(script, work, limit_s=limit_s, task=f"{_TASK} of {source_name(name)}", hint=_HINT)
                break
            except BacoError:
                if script is scripts[-1]:
                    raise
        packed = gzip.compress((work / "mapped.json").read_bytes(), 3, mtime=0)
    (folder / "mapped.json.gz").write_bytes(packed)


def _module(name: str, content: dict[str, Any], inside: Sequence[str]) -> NetlistModule:
    """A module of Yosys' JSON, with the modules inside it as they are called."""
    # those with the attribute are the ports of what is inside
    (module,) = [record for record in content["modules"].values() if "blackbox" not in record["attributes"]]
    numbers: dict[int, int] = {}

    def nets(bits: list[int | str]) -> list[int]:
        return [
            _CONSTANTS.get(bit, OPEN) if isinstance(bit, str) else numbers.setdefault(bit, len(numbers))
            for bit in bits
        ]

    ports = {port: (record["direction"], nets(record["bits"])) for port, record in module["ports"].items()}
    kinds = {f"{_INSIDE}{place}": kind for place, kind in enumerate(inside)}
    instances = tuple(
        CellInstance(
            cell,
            kinds.get(record["type"], record["type"]),
            {pin: nets(bits) for pin, bits in record["connections"].items()},
        )
        for cell, record in module["cells"].items()
    )
    named: dict[int, str] = {}
    for net, record in module["netnames"].items():
        if record.get("hide_name"):
            continue
        bits = nets(record["bits"])
        for place, number in enumerate(bits):
            if number >= 0:
                text = net if len(bits) == 1 else f"{net}[{place}]"
                # of several names the one with the fewest levels, as the source gives it
                if number not in named or (len(text), text) < (len(named[number]), named[number]):
                    named[number] = text
    return NetlistModule(source_name(name), ports, instances, named, len(numbers))
