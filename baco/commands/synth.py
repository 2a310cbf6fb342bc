"""`baco synth`: what an accelerator is in a technology, by synthesis of its Verilog."""

from __future__ import annotations

from pathlib import Path

from baco.cli.compile_options import AcceleratorArgument


def synth(
    accelerator: AcceleratorArgument,
    liberty: list[Path],
    memories: list[Path] | None = None,
    period_ns: float | None = None,
    margin: float = 0.2,
    optimise: str = "area",
    program: Path | None = None,
    json: bool = False,
) -> None:
    """Map an accelerator's Verilog to a library's cells (Yosys): area by module, clock with its worst paths, leakage.

    Mapped modules are kept: an interrupted run goes on where it was.

    Args:
        liberty (FILE.lib): The library of standard cells, Liberty, gzip or not; again for each of its files.
        memories (FILE.lib): Memory macros, Liberty; again for each file. Without, memories cost what a law says.
        period_ns (NANOSECONDS): Delay that logic between registers is mapped for; by default 65 times that of an
            inverter that drives four.
        margin (SHARE): Part of the period kept for layout, clock tree and variation.
        optimise: What the netlist is made for. Area: the mapper's cells as they are. Clock: buffers, stronger cells, and modules on
            long paths mapped again for speed; takes several times as long.
        program (FILE.elf): Run a program on the netlist: dynamic power by module, from what switched. Minutes; small
            designs only.
    """
    from baco.api.hardware import synthesise
    from baco.display.console import print_json, stderr, stdout

    found = synthesise(
        str(accelerator),
        liberty=liberty,
        memories=memories or [],
        period_ns=period_ns,
        margin=margin,
        optimise=optimise,
        program=program,
        report=stderr().print,
    )
    if json:
        print_json(found.to_dict())
    else:
        stdout().print(found.text(), highlight=False)
