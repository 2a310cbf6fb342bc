"""An accelerator on AXI4: what is handed over, its registers, and random waits and errors of the bus."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import baco
from baco.accel.bus import REGISTERS, register_header
from baco.accel.package.testbench import behind_axi4
from baco.accel.verilog.generate import verilog
from baco.accel.verilog.lint import preprocess
from baco.accel.verilog.read_back import discrepancies, read_hierarchy
from baco.sim.engines.rtl import run_verilog
from baco.sim.job import Job
from baco.sim.toolchain import toolchain
from tests.accel.package.testbenches import compiled_testbench, verdict, verilator
from tests.machines import NORMAL, PLAIN, SMALL
from tests.sim.accel_programs import build_source
from tests.sim.compiled import compiled

TOOLS = toolchain()
ROCC_PROGRAM = """
static signed char in[4] = {2, -4, 6, 126}, out[4];
int main(void) {
  const uint64_t row = (uint64_t)1 << 48 | (uint64_t)4 << 32;
  baco_command_result(126, 1, 0);                                // COUNTER_OP: all of them 0
  baco_command(0, (uint64_t)0x3f000000 << 32 | 1, sizeof in);    // CONFIG_LD: 0.5
  baco_command(0, 2, (uint64_t)0x3f800000 << 32 | sizeof out);   // CONFIG_ST
  baco_command(2, (uintptr_t)in, row);                           // MVIN
  baco_command(3, (uintptr_t)out, row);                          // MVOUT
  baco_fence();
  for (int i = 0; i < 4; i++)
    if (out[i] != in[i] / 2) return i + 1;
  return baco_command_result(126, 0, 0) != 0;
}
"""


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of the smallest machine, on AXI4."""
    folder = tmp_path_factory.mktemp("axi4") / "plain"
    files = baco.hand_over(PLAIN, folder, seed=2, bus="axi4")
    assert sorted(files) == sorted(path for path in folder.rglob("*") if path.is_file())
    return folder


@pytest.fixture(scope="module")
def bench(handed: Path) -> Path:
    return compiled_testbench(handed / "test")


@pytest.mark.parametrize("machine", [PLAIN, NORMAL], ids=lambda one: one.name)
def test_the_verilog_is_clean_and_what_the_configuration_says(machine: baco.Accelerator) -> None:
    text = preprocess(verilog(machine, bus="axi4"), TOOLS.verilator, TOOLS.verilator_root)
    hierarchy = read_hierarchy(text, "baco_axi4")
    assert discrepancies(hierarchy, machine) == []
    ports = {port.name: port.width for port in hierarchy.top.ports}
    assert (ports["m_axi_wdata"], ports["m_axi_rdata"]) == (machine.dma_bits, machine.dma_bits)
    assert (ports["s_axi_wdata"], ports["m_axi_araddr"]) == (32, 40)


def test_what_is_handed_over_fits_together(handed: Path) -> None:
    done = verilator(handed, "--lint-only", "-Wall", "--top-module", "baco_axi4", "-f", "files.f")
    assert (done.returncode, done.stderr) == (0, "")
    ports = re.findall(r"^\| `(\w+)` \| (\w+) \|", (handed / "ports.md").read_text(), re.M)
    text = preprocess(verilog(PLAIN, bus="axi4"), TOOLS.verilator, TOOLS.verilator_root)
    assert ports == [(port.name, port.direction) for port in read_hierarchy(text, "baco_axi4").top.ports]
    assert "[get_ports aclk]" in (handed / "constraints.sdc").read_text()
    told = re.findall(r"^\| (0x\w+) \| `(\w+)`", (handed / "registers.md").read_text(), re.M)
    assert [(int(offset, 16), name) for offset, name in told] == [(one.offset, one.name) for one in REGISTERS]
    assert (handed / "software" / "baco_registers.h").read_text() == register_header()


def test_registers_and_their_fields_do_not_overlap() -> None:
    offsets = [one.offset for one in REGISTERS]
    assert len(set(offsets)) == len(offsets)
    assert all(offset % 4 == 0 for offset in offsets)
    for one in REGISTERS:
        bits = [bit for field in one.fields for bit in range(field.low, field.high + 1)]
        assert len(set(bits)) == len(bits), one.name
        assert all(0 <= bit < 32 for bit in bits)


def test_programs_pass_whatever_waits_and_fails(handed: Path, bench: Path) -> None:
    test = handed / "test"
    for seed in (1, 2, 3):
        assert verdict(bench, test, seed, f"+bus_seed={seed}").startswith("PASS"), seed
    begun_anew = [verdict(bench, test, seed, f"+bus_seed={seed}", "+bus_errors=30") for seed in (4, 5)]
    assert all(line.startswith("PASS") for line in begun_anew)


@pytest.mark.slow
@pytest.mark.parametrize("program", range(10))
def test_a_thousand_patterns_of_waits_and_errors(program: int, tmp_path: Path) -> None:
    """Every second pattern has errors, from one burst in 8 to one in 500; half of these reset with bursts under way."""
    baco.hand_over(SMALL, tmp_path, seed=program, bus="axi4")
    bench = compiled_testbench(tmp_path / "test")
    for seed in range(1000):
        errors = [8, 40, 150, 500][seed // 2 % 4] if seed % 2 else 0
        said = verdict(bench, tmp_path / "test", seed // 2 + 1, f"+bus_seed={seed}", f"+bus_errors={errors}")
        assert said.startswith("PASS"), (seed, errors, said)


def test_the_testbench_sees_what_differs(handed: Path, bench: Path, tmp_path: Path) -> None:
    test = tmp_path / "test"
    shutil.copytree(handed / "test", test)
    text = (test / "expected.hex").read_text()
    (test / "expected.hex").write_text(text[:-3] + ("1" if text[-3] != "1" else "2") + text[-2:])
    assert verdict(bench, test, 1).startswith("FAIL: main memory differs")
    assert verdict(bench, test, 1, "+bus_errors=30").startswith("FAIL: main memory differs")


@pytest.mark.slow
def test_a_whole_program_gives_the_same_over_the_bus(tmp_path: Path) -> None:
    """From the first instruction of the host core to the end, products compared in it; counters are read over the bus."""
    program = tmp_path / "program.elf"
    baco.compile(baco.gemm(24, 40, 16, bias=True, relu=True), SMALL, check=True).save(program)
    job = Job(machine=SMALL, program=program)
    there, behind = run_verilog(job, verilog(SMALL)), run_verilog(job, behind_axi4(SMALL))
    assert (there.exit_code, behind.exit_code) == (0, 0)
    assert behind.macs == there.macs > 0
    assert behind.commands == there.commands
    assert there.cycles < behind.cycles < 2 * there.cycles


def driver(handed: Path, tmp_path: Path) -> Path:
    """A program that plays the package's test through the C driver, one transaction after the other."""
    generated = tmp_path / "verilated"
    done = verilator(
        handed, "--cc", "-Wno-fatal", "--top-module", "baco_axi4", "--Mdir", str(generated), "-f", "files.f"
    )
    assert done.returncode == 0, done.stderr
    texts = {
        path.name: path.read_text() for path in sorted(generated.glob("*")) if path.suffix in (".h", ".cpp")
    }
    base = re.search(r"BASE (?:64'h)(\w+)", (handed / "test" / "test_config.vh").read_text())
    assert base is not None
    return compiled(
        "c++",
        [Path(__file__).parent / "driver_bench.cpp"],
        flags=("-O0", f"-DBEAT_BYTES={PLAIN.dma_bits // 8}", f"-DTEST_BASE=0x{base[1]}"),
        folders=[handed / "software"],
        written=texts,
        verilated=True,
    )


def test_the_driver_plays_programs_and_tells_problems(handed: Path, tmp_path: Path) -> None:
    program = driver(handed, tmp_path)
    for arguments in ([], ["problems"]):
        done = subprocess.run(
            [program, *arguments], cwd=handed / "test", capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("PASS"), done.stdout


def test_the_driver_sends_custom_instructions_where_there_is_no_bus(tmp_path: Path) -> None:
    """A row goes in scaled by a half and out again; a counter is set back, and read."""
    text = (Path(baco.__file__).parent / "accel" / "package" / "baco_driver.h").read_text()
    program = build_source("driver", text + ROCC_PROGRAM, SMALL, tmp_path)
    done = baco.simulate(program=program, accelerator=SMALL, engine="functional")
    assert done.exit_code == 0
    assert done.commands == {"CONFIG_LD": 1, "CONFIG_ST": 1, "MVIN": 1, "MVOUT": 1, "COUNTER_OP": 2}


def test_there_is_no_other_bus(tmp_path: Path) -> None:
    with pytest.raises(baco.InputError, match="there is no bus 'axi'"):
        baco.verilog(PLAIN, bus="axi")
    with pytest.raises(baco.InputError, match="there is no bus 'wishbone'"):
        baco.hand_over(PLAIN, tmp_path / "no", bus="wishbone")
    assert not (tmp_path / "no").exists()
