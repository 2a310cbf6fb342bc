"""A system on AXI4: its registers and its memory, with random waits, errors of one unit's bursts, and resets of one unit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from baco.accel.bus import register_header
from baco.accel.package.testbench import behind_axi4
from baco.accel.system import System, SystemUnit
from baco.accel.verilog.lint import lint, preprocess
from baco.accel.verilog.read_back import read_hierarchy, system_discrepancies
from baco.accel.verilog.system import accelerator_modules, system_verilog
from baco.accel.verilog.system_bus import SYSTEM_BUS_TOP
from baco.sim.build import rtl_simulator
from baco.sim.cosim.run import Simulator, system_stream
from baco.sim.engines.base import run_job
from baco.sim.engines.rtl import run_verilog
from baco.sim.toolchain import toolchain
from tests.accel.package.testbenches import verilator
from tests.machines import MIXED, PAIR, PLAIN
from tests.seeds import some
from tests.sim.compiled import compiled
from tests.sim.cosim_streams import faulty_sources
from tests.sim.systems.test_system_programs import FOLDER, pipeline_job, small_matrices

TOOLS = toolchain()
#: Three, so that a number of registers is nobody's; one has a narrower memory port.
THREE = System(
    "three",
    tuple(
        SystemUnit(name, PLAIN.replace(dma_bits=bits))
        for name, bits in zip("abc", (128, 64, 128), strict=True)
    ),
)


@pytest.mark.parametrize("system", some(1, [MIXED, PAIR, THREE]), ids=lambda one: one.name)
def test_the_verilog_is_clean_and_what_the_configuration_says(system: System) -> None:
    text = system_verilog(system, bus="axi4")
    assert lint(text, TOOLS.verilator, TOOLS.verilator_root, SYSTEM_BUS_TOP) == []
    hierarchy = read_hierarchy(preprocess(text, TOOLS.verilator, TOOLS.verilator_root), SYSTEM_BUS_TOP)
    assert system_discrepancies(hierarchy, system) == []
    count = len(system.accelerators)
    assert (hierarchy.modules["baco_axi4_commands"], hierarchy.modules["baco_axi4_memory"]) == (count, 1)
    ports = {port.name: port.width for port in hierarchy.top.ports}
    assert (ports["irq"], ports["s_axi_awaddr"]) == (count, 12 + (count - 1).bit_length())
    assert ports["m_axi_wdata"] == system.dma_bits


def test_a_program_of_both_units_gives_the_same_over_the_bus(tmp_path: Path) -> None:
    job = pipeline_job(tmp_path, PAIR)
    there, behind = run_job(job, engine="rtl"), run_verilog(job, behind_axi4(PAIR))
    assert behind.memory_dumps == there.memory_dumps
    assert (behind.exit_code, behind.commands, behind.macs) == (there.exit_code, there.commands, there.macs)
    a, b0, _ = small_matrices(1).astype(int)
    first = np.frombuffer(behind.memory_dumps[0], np.int8).reshape(4, 4)
    np.testing.assert_array_equal(first, (a @ b0).clip(-128, 127))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("system", [PAIR, MIXED], ids=lambda one: one.name)
@pytest.mark.parametrize("count", [8, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_streams_on_all_units_over_the_bus(count: int, system: System) -> None:
    """Against the functional model; waits of AXI differ by what memory does, which every stream draws."""
    simulator = Simulator(system)
    units = accelerator_modules(system)
    simulator.program = rtl_simulator(behind_axi4(system), TOOLS, units=units)
    outcomes = simulator.play([system_stream(system, 7, index) for index in range(count)])
    assert [one.describe() for one in outcomes if one.kind != "same"] == []
    assert len(outcomes) == count


#: Lines of the Verilog, and what stands there instead.
FAULTS = {
    "a unit is reset with bursts under way": (
        "baco_memory_gate",
        "assign idle = reads == 16'd0 && writes == 16'd0 && !read_offered && !write_offered;",
        "assign idle = 1'b1;",
    ),
    "an error of a burst is everybody's": (
        "baco_axi4_reads",
        ".in_data({req_tag, req_addr})",
        ".in_data({~req_tag, req_addr})",
    ),
    "an answer goes to another unit": (
        "baco_axi4_split",
        "write_unit <= write_asked;",
        "write_unit <= {write_asked[UNITS-1:0], 1'b0};",
    ),
}


@pytest.fixture(scope="module")
def bus_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_bench(tmp_path_factory.mktemp("three"))


def built_bench(folder: Path, sources: Path | None = None) -> Path:
    """Plays commands of three units by the C driver on the Verilated system."""
    (folder / "three.v").write_text(system_verilog(THREE, sources, bus="axi4"))
    (folder / "baco_registers.h").write_text(register_header())
    driver = Path(__file__).parents[3] / "accel/package/baco_driver.h"
    (folder / "baco_driver.h").write_text(driver.read_text())
    done = verilator(
        folder,
        "--cc",
        "-Wno-fatal",
        "--x-initial",
        "unique",
        "--top-module",
        SYSTEM_BUS_TOP,
        "--Mdir",
        "made",
        "three.v",
    )
    assert done.returncode == 0, done.stderr
    texts = {
        path.name: path.read_text()
        for path in sorted((folder / "made").glob("*"))
        if path.suffix in (".h", ".cpp")
    }
    return compiled(
        "c++",
        [FOLDER / "bus_bench.cpp"],
        flags=("-O0", f"-DBEAT_BYTES={PLAIN.dma_bits // 8}", f"-DDIM={PLAIN.dim}"),
        folders=[folder],
        written=texts,
        verilated=True,
    )


@pytest.mark.parametrize("count", some(0, [50, 1000]))
def test_errors_and_resets_of_one_unit_leave_the_others_alone(bus_program: Path, count: int) -> None:
    """Every seed: random waits, two units that copy rows without an error, one whose reads or writes fail and that is reset, with bursts
    under way in half of the cases, and then copies rows, too."""
    done = subprocess.run([str(bus_program), str(count)], capture_output=True, text=True, check=True)
    told = re.fullmatch(
        r"PASS: (\d+) seeds, (\d+) read errors, (\d+) write errors, (\d+) resets under way\n", done.stdout
    )
    assert told, done.stdout
    seeds, reads, writes, under_way = map(int, told.groups())
    assert seeds == count
    assert reads > count // 4
    assert writes > count // 4
    assert under_way > count // 10


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_bus_show(fault: str, tmp_path: Path) -> None:
    bench = built_bench(tmp_path, faulty_sources(tmp_path, FAULTS[fault]))
    done = subprocess.run([str(bench), "20"], capture_output=True, text=True, check=False)
    assert not done.stdout.startswith("PASS")
