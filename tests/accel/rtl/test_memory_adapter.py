"""A memory port before a wider one: random reads and writes against a memory in C++, and planted faults that it must find."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.accel.testbench import BENCHES, RTL, build

SOURCE = RTL / "baco_memory_adapter.v"


def played(source: Path, unit_bits: int, seed: int, cycles: int = 60_000) -> subprocess.CompletedProcess[str]:
    """What a run of the bench says."""
    parameters = {
        "ADDR_BITS": 12,
        "UNIT_BITS": unit_bits,
        "DMA_BITS": 64,
        "READS": 4,
        "BEATS": 4,
        "WRITES": 6,
    }
    bench = build(
        [source, RTL / "baco_fifo.v"],
        "baco_memory_adapter",
        parameters,
        [],
        BENCHES / "memory_adapter_bench.cpp",
    )
    return subprocess.run([str(bench), str(seed), str(cycles)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("unit_bits", [32, 16])
def test_every_byte_is_read_and_written_once(unit_bits: int) -> None:
    for seed in range(6):
        done = played(SOURCE, unit_bits, seed)
        assert done.returncode == 0, (seed, done.stdout)
        said = re.fullmatch(r"reads (\d+) beats (\d+) writes (\d+) wider (\d+)\n", done.stdout)
        assert said is not None
        reads, beats, writes, wider = map(int, said.groups())
        assert beats > 2 * reads > 2000
        # gathered: runs are six beats on average, at times with gaps
        assert writes > 5000
        assert wider < 0.85 * writes


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("first_lane + given[LANE_BITS-1:0];", "given[LANE_BITS-1:0];", "a beat has other bytes"),
        ("(last_given || lane == LAST_LANE)", "last_given", "a beat has other bytes"),
        (".in_data(last - first)", ".in_data({LANE_BITS{1'b0}})", "writes are not acknowledged"),
        ("offered <= wr_req_valid && !write_goes;", "offered <= 1'b0;", "a write that is offered changes"),
        ("end else if (!follows) wr_req_mask", "end else if (1'b0) wr_req_mask", "memory holds something else"),
        ("unit_wr_req_addr[ADDR_BITS-1:BEAT_LOG] == held_addr;", "1'b1;", "memory holds something else"),
        ("(wr_ack_valid ? come", "(write_goes ? come", "a write is acknowledged before it is done"),
    ],
)  # fmt: skip
def test_planted_faults_are_found(right: str, wrong: str, message: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert text.count(right) == 1
    faulty = tmp_path / SOURCE.name
    faulty.write_text("// verilator lint_off UNUSEDSIGNAL\n" + text.replace(right, wrong))
    found = [played(faulty, 16, seed) for seed in range(3)]
    assert {done.returncode for done in found} == {1}
    assert any(message in done.stdout for done in found), [done.stdout for done in found]
