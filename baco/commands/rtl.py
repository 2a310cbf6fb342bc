"""`baco rtl`: the Verilog of an accelerator or a system, with a C header and a count of its structure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baco.cli.checked import Seed
from baco.cli.compile_options import ACCELERATOR_HELP
from baco.cli.completions import accelerator_completions

if TYPE_CHECKING:
    from baco.accel.config import Accelerator
    from baco.accel.system import System


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
    package: Path | None = None,
    network: list[str] | None = None,
    liberty: list[Path] | None = None,
    memories: list[Path] | None = None,
    seed: Seed = 0,
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
        package (DIR): The folder to write instead of a file.
        network (-n, NETWORK): With --package: a network whose cycles, energy and power the data sheet shows; again for each.
        liberty (FILE.lib): With --package: a library of cells, for area and clock of the netlist; again for each of its files.
        memories (FILE.lib): With --package: memory macros; again for each file.
        seed: With --package: that the test's commands are drawn from.
        bus (rocc|axi4): What the accelerator is reached by: ports for RoCC commands and main memory, or registers on AXI4-Lite and
            main memory on AXI4.
        soc: A SoC in SystemVerilog, the top is baco_soc: the core CVA6 (of the package that baco[soc] installs) with the accelerator on its
            extension port, a boot ROM, and one AXI4 manager for the memory of both.
    """
    from baco.accel.bus import BUS_TOPS, bus_named
    from baco.accel.c_header import c_header
    from baco.accel.presets import is_system, load_accelerator, load_system
    from baco.accel.system import System
    from baco.accel.verilog.generate import verilog
    from baco.accel.verilog.soc import SOC_TOP, soc_verilog
    from baco.accel.verilog.system import SYSTEM_TOP, system_verilog
    from baco.accel.verilog.system_bus import SYSTEM_BUS_TOP
    from baco.common.errors import InputError
    from baco.common.files import atomic_write
    from baco.common.text import one_line
    from baco.display.console import print_json, stderr, stdout, table

    if (out is None) == (package is None):
        raise InputError("give either -o FILE.v, or --package DIR")
    if package is not None:
        if header or structure or check or soc:
            raise InputError("--header, --structure, --check and --soc belong to -o FILE.v")
        _package(str(accelerator), package, network or [], liberty or [], memories or [], seed, bus, json)
        return
    if network or liberty or memories or seed:
        raise InputError("--network, --liberty, --memories and --seed belong to --package DIR")
    assert out is not None
    if soc and (is_system(accelerator) or bus != "rocc" or check or structure):
        raise InputError("a SoC is of a single accelerator, without --bus, --check and --structure")
    configuration: Accelerator | System
    reached_by = bus_named(bus)
    if is_system(accelerator):
        if header is not None:
            raise InputError("--header belongs to a single accelerator, not to a system")
        configuration = load_system(accelerator)
        top = SYSTEM_TOP if reached_by == "rocc" else SYSTEM_BUS_TOP
        text = system_verilog(configuration, bus=reached_by)
    elif soc:
        configuration, top = load_accelerator(accelerator), SOC_TOP
        text = soc_verilog(configuration)
    else:
        configuration, top = load_accelerator(accelerator), BUS_TOPS[reached_by]
        text = verilog(configuration, bus=reached_by)
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
        counts = _check(configuration, text, top)
        summary["instances"] = counts
        lines.append(
            f"checked: {len(counts)} modules, {sum(counts.values()):,} instances, all as the configuration says"
        )
    counted = None
    if structure is not None:
        from baco.accel.verilog.structure import structure as count

        report = count(text, top, note=lambda note: stderr().print(note))
        summary["structure"] = report.to_dict()
        atomic_write(structure, _document(configuration, summary["structure"]))
        lines.append(f"{one_line(str(structure))}: structure, by {report.yosys}")
        counted = report.table()
    if json:
        print_json(summary)
        return
    console = stdout()
    for line in lines:
        console.print(line)
    if counted is not None:
        console.print(table(*counted, left=counted[0][:1]))


def _package(
    accelerator: str,
    folder: Path,
    networks: list[str],
    liberty: list[Path],
    memories: list[Path],
    seed: int,
    bus: str,
    json: bool,
) -> None:
    from baco.api.hardware import hand_over
    from baco.common.text import one_line
    from baco.display.console import print_json, stderr, stdout

    files = hand_over(
        accelerator,
        folder,
        networks=networks or None,
        liberty=liberty,
        memories=memories,
        seed=seed,
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
