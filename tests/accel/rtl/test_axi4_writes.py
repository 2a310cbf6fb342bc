"""Writes as AXI4 bursts: against a memory in C++ that holds them to the protocol, and planted faults that it must find."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.accel.testbench import BENCHES, RTL, build

PARAMETERS = {"DMA_BITS": 32}
SOURCE = RTL / "baco_axi4_writes.v"


def played(source: Path, seed: int, cycles: int = 60_000) -> subprocess.CompletedProcess[str]:
    """What a run of the bench says."""
    bench = build(
        [source, RTL / "baco_fifo.v"], "baco_axi4_writes", PARAMETERS, [], BENCHES / "axi4_writes_bench.cpp"
    )
    return subprocess.run([str(bench), str(seed), str(cycles)], capture_output=True, text=True, check=False)


def test_bursts_bring_every_beat_to_its_place_once() -> None:
    for seed in range(6):
        done = played(SOURCE, seed)
        assert done.returncode == 0, (seed, done.stdout)
        said = re.fullmatch(r"bursts (\d+) beats (\d+) longest (\d+) errors (\d+)\n", done.stdout)
        assert said is not None
        bursts, beats, longest, errors = map(int, said.groups())
        assert longest == 16
        assert beats > 3 * bursts > 1000  # gathered: runs are 20 beats on average
        assert errors > 0


def slow(*fault: object) -> object:
    return pytest.param(*fault, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("&& req_addr[11:0] != 12'd0", "", "a burst crosses 4 KiB"),
        slow("open && req_addr == next &&", "open && req_addr >= next &&", ""),
        (".out_ready(wvalid && wready && wlast)", ".out_ready(wvalid && wready)", "beats are left"),
        ("{5'd0, answered} + 9'd1", "{5'd0, answered} + 9'd2", "a beat is acknowledged before its answer"),
        slow("assign idle = !open && !answer_due;", "assign idle = !open || !answer_due;", "idle with bursts under way"),
    ],
)  # fmt: skip
def test_planted_faults_are_found(right: str, wrong: str, message: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert text.count(right) == 1
    faulty = tmp_path / SOURCE.name
    faulty.write_text(text.replace(right, wrong))
    done = played(faulty, 1)
    assert done.returncode == 1
    assert message in done.stdout
