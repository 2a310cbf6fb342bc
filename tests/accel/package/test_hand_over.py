"""What is handed over to a hardware team: files that other tools read, a test that passes and can fail, figures of the models."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import baco
from baco.accel.config import Accelerator
from baco.accel.package.hardware import memory_banks
from baco.accel.package.sheet import data_sheet
from baco.accel.package.testbench import Stimulus, simulation_files
from baco.accel.verilog.generate import verilog, verilog_files
from baco.accel.verilog.lint import preprocess
from baco.accel.verilog.read_back import read_hierarchy
from baco.common.units import significant
from baco.sim.cosim.testbench import stimulus
from baco.sim.toolchain import toolchain
from tests.accel.package.testbenches import compiled_testbench, verdict, verilator
from tests.machines import GEMMINI, NORMAL, PLAIN, SMALL, WIDE

TOOLS = toolchain()


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of the smallest machine."""
    folder = tmp_path_factory.mktemp("package") / "plain"
    files = baco.hand_over(PLAIN, folder, seed=2)
    assert sorted(files) == sorted(path for path in folder.rglob("*") if path.is_file())
    return folder


def test_the_files_are_the_one_file_and_a_list_that_verilator_reads(handed: Path) -> None:
    bodies = [
        text.split("\n", 1)[1] if text.startswith("`include") else text
        for text in verilog_files(PLAIN).values()
    ]
    whole = verilog(PLAIN)
    assert all(body in whole for body in bodies[:-1])  # the last one holds the macros
    done = verilator(handed, "--lint-only", "-Wall", "--top-module", "baco_accelerator", "-f", "files.f")
    assert (done.returncode, done.stderr) == (0, "")


def test_each_file_stands_by_itself(handed: Path) -> None:
    for file in sorted((handed / "rtl").glob("*.v")):
        done = verilator(handed / "rtl", "-E", file.name)
        assert "BACO_" not in re.sub(r"//.*", "", done.stdout), (file.name, done.stderr)
        assert done.returncode == 0


@pytest.mark.parametrize("machine", [GEMMINI, NORMAL, WIDE, PLAIN], ids=lambda one: one.name)
def test_memories_are_the_instances_of_the_verilog(machine: Accelerator) -> None:
    text = preprocess(verilog(machine), TOOLS.verilator, TOOLS.verilator_root)
    there = sorted(
        (instance.parameters["ROWS"], instance.parameters["LANES"], instance.parameters["LANE_BITS"])
        for instance in read_hierarchy(text).instances
        if instance.module == "baco_sram"
    )
    said = sorted(
        (bank.shape.rows, bank.shape.lanes, bank.shape.lane_bits)
        for bank in memory_banks(machine)
        for _ in range(bank.banks)
    )
    assert said == there


def test_every_port_is_described_in_its_order(handed: Path) -> None:
    text = preprocess(verilog(PLAIN), TOOLS.verilator, TOOLS.verilator_root)
    ports = [(one.name, one.direction) for one in read_hierarchy(text).top.ports]
    said = re.findall(r"^\| `(\w+)` \| (\w+) \|", (handed / "ports.md").read_text(), re.M)
    assert said == ports


def simulated(folder: Path) -> str:
    """The last words of the testbench in Verilator, with two kinds of waits."""
    program = compiled_testbench(folder)
    return "\n".join(verdict(program, folder, seed) for seed in (1, 2))


def test_the_testbench_passes_in_verilator_and_fails_for_other_memory(handed: Path) -> None:
    test = handed / "test"
    first, second = simulated(test).splitlines()
    assert first.startswith("PASS")
    assert second.startswith("PASS")
    assert first != second  # other waits, other cycles
    before = (test / "expected.hex").read_text()
    (test / "expected.hex").write_text(before[:-3] + ("1" if before[-3] != "1" else "2") + before[-2:])
    try:
        assert all(line.startswith("FAIL: main memory differs") for line in simulated(test).splitlines())
    finally:
        (test / "expected.hex").write_text(before)


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="Icarus Verilog is not installed")
@pytest.mark.parametrize("machine", [PLAIN, SMALL], ids=lambda one: one.name)
def test_the_testbench_passes_in_icarus_with_unknown_values_at_power_up(
    machine: Accelerator, tmp_path: Path
) -> None:
    baco.hand_over(machine, tmp_path)
    done = subprocess.run(
        ["make", "icarus"], cwd=tmp_path / "test", capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].startswith("PASS")


def test_the_stimulus_is_what_rtl_leaves(tmp_path: Path) -> None:
    drawn = stimulus(SMALL, 1)
    kinds = {None if step is None else step.funct for step in drawn.steps}
    assert {None, 2, 3, 4, 6} <= kinds  # fences, loads, stores, products
    assert drawn.after != drawn.before
    lines = [f"write {drawn.base:x} {drawn.before.hex()}"]
    lines += [
        "fence" if step is None else f"cmd {step.funct:x} {step.rs1:x} {step.rs2:x}" for step in drawn.steps
    ]
    stream = tmp_path / "stream.txt"
    stream.write_text("\n".join([*lines, "fence", f"dump {drawn.base:x} {len(drawn.before):x}"]))
    done = baco.simulate(stream=stream, accelerator=SMALL, engine="rtl")
    assert done.memory_dumps[0] == drawn.after


def test_steps_are_written_as_the_testbench_reads_them() -> None:
    counter = next(step for step in stimulus(SMALL, 1).steps if step is not None and step.funct == 126)
    files = simulation_files(
        Stimulus((None, counter), 0x80000000, b"\x01\x02", b"\xff\x00", 7), ["../rtl/a.v"]
    )
    fence, answered = (int(line, 16) for line in files["commands.hex"].split())
    assert fence >> 136 == 2
    assert (answered >> 136, answered >> 128 & 255) == (1, 126)
    assert (answered >> 64 & (1 << 64) - 1, answered & (1 << 64) - 1) == (counter.rs1, counter.rs2)
    assert files["memory.hex"].split() == ["01", "02"]
    assert files["expected.hex"].split() == ["ff", "00"]
    assert "`define BACO_TEST_STEPS 2\n" in files["test_config.vh"]


def test_the_data_sheet_has_the_figures_of_the_models(tmp_path: Path) -> None:
    network = "deepbench_ocr"
    baco.hand_over(SMALL, tmp_path, networks=[network])
    page = (tmp_path / "data_sheet.html").read_text()
    assert f"{baco.cost(network, SMALL).latency_cycles:,.0f}" in page
    assert f"{significant(SMALL.area_mm2)} mm²" in page
    assert "<b>assumed</b>" in page  # the clock
    assert "mean error" in page
    assert all(f'<td class="wrap">{name}</td>' in page for name in ("dim", "dma_bits", "features.max_pool"))
    assert "create_clock -name clock -period 1.0000" in (tmp_path / "constraints.sdc").read_text()


def test_the_data_sheet_says_which_netlists_predicted_it() -> None:
    silicon = SMALL.replace(technology="ihp-sg13g2").in_technology(())
    page = data_sheet(silicon, networks=[], sources={})
    assert f"{silicon.clock_mhz:,.4g} MHz, predicted in ihp-sg13g2" in page
    assert "Area by block, predicted in ihp-sg13g2: laws fitted to netlists" in page
    assert "<b>assumed</b>" not in page


def test_a_machine_without_rtl_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(baco.InfeasibleError, match="power of two"):
        baco.hand_over(PLAIN.replace(dim=3, scratchpad_kib=3, accumulator_kib=3), tmp_path / "no")
    assert not (tmp_path / "no").exists()
