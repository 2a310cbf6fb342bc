"""`baco rtl`: the Verilog of an accelerator or a system, with a C header and a count of its structure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baco.cli.checked import Seed
from baco.cli.compile_options import ACCELERATOR_HELP
from baco.cli.completions import accelerator_completions

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.accel.system import System


@dataclass(frozen=True)
class PackageFlags:
    """What a hardware team is handed.

    Attributes:
        package (DIR): The folder to write instead of a file.
        network (-n, NETWORK): With --package: a network whose cycles, energy and power the data sheet shows; again for each.
        liberty (FILE.lib): With --package: a library of cells, for area and clock of the netlist; again for each of its files.
        memories (FILE.lib): With --package: memory macros; again for each file.
        seed: With --package: that the test's commands are drawn from.
    """

    package: Path | None = None
    network: list[str] | None = None
    liberty: list[Path] | None = None
    memories: list[Path] | None = None
    seed: Seed = 0

    def check(self, out: Path | None, *, of_files: bool) -> None:
        """Raises InputError unless there is either a file or a package, with options that belong to it."""
        from baco.common.errors import InputError

        if (out is None) == (self.package is None):
            raise InputError("give either -o FILE.v, or --package DIR")
        if self.package is not None and of_files:
            raise InputError("--header, --structure, --check and --soc belong to -o FILE.v")
        if self.package is None and (self.network or self.liberty or self.memories or self.seed):
            raise InputError("--network, --liberty, --memories and --seed belong to --package DIR")


def rtl(
    accelerator: Annotated[
        str,
        typer.Argument(
            metavar="ACCELERATOR|SYSTEM.yaml",
            help=f"{ACCELERATOR_HELP} Or a file with `units`: a system.",
            autocompletion=accelerator_completions,
        ),
    ],
    out: Path | None = None,
    header: Path | None = None,
    structure: Path | None = None,
    check: bool = False,
    *,
    handed: PackageFlags,
    bus: str = "rocc",
    soc: bool = False,
    json: bool = False,
) -> None:
    """Write an accelerator as one self-contained Verilog file; its top module is baco_accelerator, on a bus baco_axi4.

    Of a system, whose file has a list `units` of accelerators and cores without one (host), the top is baco_system: ports for the
    commands of each unit, and one memory port; on a bus it is baco_system_axi4: registers of all units behind one port, 4096 bytes each.

    With --package, write all that a hardware team needs into a folder: Verilog in files, constraints, documents, a test for plain
    simulators, and a data sheet.

    Args:
        out (-o, FILE.v): The Verilog file to write.
        header (FILE.h): Also write the C header gemmini_params.h.
        structure (FILE.json): Also count registers, memories and units (Yosys).
        check: Lint the file, read it back and compare it with the configuration.
        bus (rocc|axi4): What the accelerator is reached by: ports for RoCC commands and main memory, or registers on AXI4-Lite and
            main memory on AXI4.
        soc: A SoC in SystemVerilog, the top is baco_soc: the core CVA6 (of the package that baco[soc] installs) with the accelerator on its
            extension port, a boot ROM, and one AXI4 manager for the memory of both.
    """
    from baco.accel.c_header import c_header
    from baco.accel.system import System
    from baco.common.files import atomic_write
    from baco.common.text import one_line
    from baco.display.console import print_json, stdout, table

    handed.check(out, of_files=bool(header or structure or check or soc))
    if out is None:
        _package(accelerator, handed, bus, json)
        return
    counted_too = check or structure is not None
    _check_single(accelerator, bus=bus, soc=soc, header=header is not None, counted=counted_too)
    configuration, top, text = _verilog(accelerator, bus, soc=soc)
    atomic_write(out, text)
    summary: dict[str, Any] = {
        "system" if isinstance(configuration, System) else "accelerator": configuration.name,
        "configuration_hash": configuration.config_hash,
        "verilog": str(out),
    }
    lines = [
        f"{one_line(str(out))}: {len(text.splitlines()):,} lines of Verilog, configuration {configuration.config_hash}"
    ]
    if header is not None:
        assert not isinstance(configuration, System)
        atomic_write(header, c_header(configuration))
        summary["header"] = str(header)
        lines.append(f"{one_line(str(header))}: C header")
    if check:
        summary["instances"] = counts = _check(configuration, text, top)
        instances = f"{len(counts)} modules, {sum(counts.values()):,} instances"
        lines.append(f"checked: {instances}, all as the configuration says")
    counted = None
    if structure is not None:
        summary["structure"], yosys, counted = _structure(configuration, text, top, structure)
        lines.append(f"{one_line(str(structure))}: structure, by {yosys}")
    if json:
        print_json(summary)
        return
    for line in lines:
        stdout().print(line)
    if counted is not None:
        stdout().print(table(*counted, left=counted[0][:1]))


def _structure(
    configuration: Accelerator | System, text: str, top: str, path: Path
) -> tuple[dict[str, Any], str, tuple[Any, Any]]:
    """Write what is counted in the Verilog; that, by which Yosys, and its table."""
    from baco.accel.verilog.structure import structure
    from baco.common.files import atomic_write
    from baco.display.console import stderr

    report = structure(text, top, note=lambda note: stderr().print(note))
    record = report.to_dict()
    atomic_write(path, _document(configuration, record))
    return record, report.yosys, report.table()


def _check_single(accelerator: str, *, bus: str, soc: bool, header: bool, counted: bool) -> None:
    """Raises InputError for what there is of a single accelerator only, or of one without more."""
    from baco.accel.presets import is_system
    from baco.common.errors import InputError

    if soc and (is_system(accelerator) or bus != "rocc" or counted):
        raise InputError("a SoC is of a single accelerator, without --bus, --check and --structure")
    if header and is_system(accelerator):
        raise InputError("--header belongs to a single accelerator, not to a system")


def _verilog(accelerator: str, bus: str, *, soc: bool) -> tuple[Accelerator | System, str, str]:
    """What is described, its top module, and the text."""
    from baco.accel.bus import BUS_TOPS, bus_named
    from baco.accel.presets import is_system, load_accelerator, load_system
    from baco.accel.verilog.generate import verilog
    from baco.accel.verilog.soc import SOC_TOP, soc_verilog
    from baco.accel.verilog.system import SYSTEM_TOP, system_verilog
    from baco.accel.verilog.system_bus import SYSTEM_BUS_TOP

    reached_by = bus_named(bus)
    if is_system(accelerator):
        system = load_system(accelerator)
        top = SYSTEM_TOP if reached_by == "rocc" else SYSTEM_BUS_TOP
        return system, top, system_verilog(system, bus=reached_by)
    machine = load_accelerator(accelerator)
    if soc:
        return machine, SOC_TOP, soc_verilog(machine)
    return machine, BUS_TOPS[reached_by], verilog(machine, bus=reached_by)


def _package(accelerator: str, handed: PackageFlags, bus: str, json: bool) -> None:
    from baco.api.hardware import hand_over
    from baco.common.text import one_line
    from baco.display.console import print_json, stderr, stdout

    folder = handed.package
    assert folder is not None
    files = hand_over(
        accelerator,
        folder,
        networks=handed.network or None,
        liberty=handed.liberty or [],
        memories=handed.memories or [],
        seed=handed.seed,
        bus=bus,
        report=stderr().print,
    )
    if json:
        print_json({"package": str(folder), "files": [str(file) for file in files]})
        return
    console = stdout()
    console.print(
        f"{one_line(str(folder))}: {len(files)} files, README.md says what they are", highlight=False
    )
    console.print(f"data sheet: {one_line(str(folder / 'data_sheet.html'))}", highlight=False)


def _check(configuration: Accelerator | System, text: str, top: str) -> dict[str, int]:
    """Number of instances by module. Raises BacoError naming everything that is wrong with the Verilog."""
    from baco.accel.system import System
    from baco.accel.verilog.lint import lint, preprocess
    from baco.accel.verilog.read_back import discrepancies, read_hierarchy, system_discrepancies
    from baco.common.errors import BacoError
    from baco.sim.toolchain import toolchain

    tools = toolchain()
    tools.need_verilator()
    problems = lint(text, tools.verilator, tools.verilator_root, top)
    hierarchy = read_hierarchy(preprocess(text, tools.verilator, tools.verilator_root), top)
    if isinstance(configuration, System):
        problems += system_discrepancies(hierarchy, configuration)
    else:
        problems += discrepancies(hierarchy, configuration)
    if problems:
        raise BacoError(
            "the Verilog is not what the configuration says:",
            hint="this is a mistake in baco; please report it with the configuration",
            details=problems,
        )
    return hierarchy.modules


def _document(configuration: Accelerator | System, structure: dict[str, Any]) -> str:
    import json

    from baco.common.provenance import versions

    head = {
        "accelerator": configuration.name,
        "configuration_hash": configuration.config_hash,
        "versions": versions(),
    }
    return json.dumps({**head, **structure}, indent=2) + "\n"
