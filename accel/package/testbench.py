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
from baco.accel.verilog.generate import CONFIG_FILE, verilog

#: Kinds of steps, as in testbench.v.
_COMMAND, _RESULT, _FENCE = 0, 1, 2
#: Bytes on a line of memory files.
_LINE = 32
_SOURCES = ("testbench.v", "clock.v", "main.cpp")
#: Beside them where the accelerator is on a bus.
_BUS_SOURCES: dict[Bus, tuple[str, ...]] = {"rocc": (), "axi4": ("axi4_bench.v", "axi4_checks.v")}
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


def behind_axi4(accelerator: Accelerator) -> str:
    """Verilog with the ports of `baco_accelerator`, in which everything goes over AXI4 to the accelerator and from it.

    For simulators that know those ports: registers, bursts and waits as in the test of a package, with its checks of the
    protocol. Raises InfeasibleError as `baco.accel.verilog.generate.check_rtl`.
    """
    folder = resources.files("baco.accel.package")
    beside = [(folder / name).read_text(encoding="utf-8") for name in _BUS_SOURCES["axi4"]]
    text = "\n".join([verilog(accelerator, bus="axi4"), *beside])
    text = re.sub(r"^`include.*\n", "", text, flags=re.M)
    text = re.sub(rf"\b{BUS_TOPS['rocc']}\b", "baco_accelerator_on_bus", text)
    return text.replace("module axi4_bench ", f"module {BUS_TOPS['rocc']} ")
