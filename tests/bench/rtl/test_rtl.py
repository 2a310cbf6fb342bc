"""What `baco bench rtl` measures, on a small array: cycles of simulated hardware are the same everywhere."""

from pathlib import Path

import pytest

from baco.accel.presets import load_accelerator
from baco.accel.verilog.generate import verilog
from baco.api.simulation import simulate
from baco.bench.rtl import rtl
from baco.bench.rtl.facts import FACTS, MeasuredFact, measure
from baco.bench.rtl.hollow import hollow_verilog
from baco.bench.rtl.layers import LayerStream, Matmul, PlainConvolution
from baco.bench.rtl.probe import FAST_MEMORY, Probe
from baco.bench.rtl.program import matmul_program
from baco.bench.rtl.speed import shares, timed_layer
from baco.bench.rtl.stream import StreamText
from baco.common.errors import BacoError, InfeasibleError, InputError
from baco.compiler.choice.gemmini import gemmini_matmul_tile
from baco.sim.build import rtl_simulator
from baco.sim.job import MainMemory
from tests.machines import SMALL

DIM = SMALL.dim
#: Operand 2 cycles, operand register 1, through the array and its skew 2 * dim.
ROW = 2 * DIM + 3

#: Most cycles that our RTL may take at dim 4.
BOUNDS = {
    "ws_row": ROW,
    "ws_block": ROW + DIM - 1,
    "ws_block_weights": ROW + 2 * DIM - 1,
    "ws_garbage": ROW + 2 * DIM - 1,
    "ws_pass": DIM,
    "ws_pass_weights": DIM + 1,
    "ws_pass_half": DIM,
    "ws_pass_4": DIM,
    "ws_pass_half_weights": DIM + 1,
    "ws_pass_at": DIM,
    "ws_pass_bt": DIM + 1,
    "os_pass": DIM,
    "os_pass_short": DIM,
    "os_pass_new": DIM + 1,
    "os_flush": 2 * DIM + 22,
    "config_ex": 5,
    "config_ex_strides": 0,
    "config_ex_dataflow": ROW + DIM + 7,
    "conflict_2": DIM,
    "conflict_3": 2 * DIM,  # three streams on the two banks of a group
    "conflict_stride_weights": DIM + 1,
    "conflict_stride": 2 * DIM,
    "load_beside": 0,
    "store_beside": DIM + 2,
    # a queue before, between and behind the unrollers, and three steps in which operands are read
    "front": 6,
    # a register behind the walks of LOOP_WS besides, and one behind its verdict
    "loop_start": 9,
    "load_1": DIM,
    "load_wide": DIM,
    "load_row": 1,
    "load_scaled": DIM,
    "load_full": DIM,
    "load_shrunk": DIM,
    "load_zero": DIM,
    "load_repeat": DIM + 1,
    "load_latency": 6,
    "store_issue": -1,
    "store_gap": 0,
    "store_spad": DIM,
    "store_1": DIM,
    "store_4": 4 * DIM,
    "store_full": DIM,
    "store_pool": 1,
    "store_first_acc": 10,
    "store_first_spad": 8,
}


@pytest.fixture(scope="module")
def probe() -> Probe:
    return Probe(SMALL)


def test_every_fact_has_a_bound() -> None:
    assert set(FACTS) == set(BOUNDS)


@pytest.mark.parametrize("key", sorted(BOUNDS))
def test_timing(probe: Probe, key: str) -> None:
    (found,) = measure([key], probe)
    assert found.ours <= BOUNDS[key]


def test_latency_and_rate_of_the_array_are_what_its_structure_says(probe: Probe) -> None:
    keys = ("ws_row", "ws_block", "ws_pass", "load_full", "store_full")
    found = {fact.key: fact for fact in measure(keys, probe)}
    assert {key: fact.ours for key, fact in found.items()} == {
        "ws_row": ROW, "ws_block": ROW + DIM - 1, "ws_pass": DIM, "load_full": DIM, "store_full": DIM,
    }  # fmt: skip
    assert {fact.verdict for fact in found.values() if fact.key != "store_full"} == {"reproduced"}


def fact(original: float, ours: float) -> MeasuredFact:
    return MeasuredFact("f", "some pass", "3.2", "cycles", "because", original, ours)


def test_verdicts() -> None:
    verdicts = [fact(100.0, ours).verdict for ours in (100.4, 99.0, 101.0)]
    assert verdicts == ["reproduced", "beaten", "worse"]
    assert fact(100.0, 101.0).to_dict()["verdict"] == "worse"


PRODUCT = Matmul(64, 64, 64, (8, 8, 16))


def test_a_product_fills_the_array(probe: Probe) -> None:
    found = timed_layer(probe, PRODUCT.layer(SMALL), MainMemory())
    assert found.result.macs == 64**3
    assert found.result.utilisation is not None
    assert found.result.utilisation >= 0.93
    assert found.to_dict()["utilisation"] == found.result.utilisation
    parts = shares({"harness": 1.0, "idle": 2.0, "array": 3.0, "loads": 4.0, "stores": 5.0}, found)
    assert sum(parts.values()) == pytest.approx(1)


def test_a_program_does_what_the_stream_does(probe: Probe, tmp_path: Path) -> None:
    stream = timed_layer(probe, PRODUCT.layer(SMALL), MainMemory()).result
    program = simulate(matmul_program(PRODUCT, DIM, tmp_path), SMALL)
    assert program.exit_code == 0
    assert (program.commands, program.unrolled, program.macs) == (
        stream.commands,
        stream.unrolled,
        stream.macs,
    )
    assert program.cycles is not None
    assert stream.cycles is not None
    assert stream.cycles <= program.cycles < 1.05 * stream.cycles


@pytest.mark.parametrize("tile", [(1, 4, 12, 8), (2, 3, 5, 4)])
def test_convolutions_are_right(probe: Probe, tile: tuple[int, int, int, int]) -> None:
    layer = PlainConvolution(2, 12, 8, 12, tile).layer(SMALL)
    found = timed_layer(probe, layer, FAST_MEMORY)
    assert found.result.macs == layer.macs


def test_a_wrong_result_is_no_measurement(probe: Probe) -> None:
    layer = PRODUCT.layer(SMALL)
    wrong = LayerStream(layer.name, layer.tile, layer.macs, layer.stream, b"\x01" + layer.wanted[1:])
    with pytest.raises(BacoError, match="the simulated result is wrong"):
        timed_layer(probe, wrong, MainMemory())


def test_tiles_that_do_not_fit() -> None:
    with pytest.raises(InfeasibleError, match="does not fit"):
        Matmul(64, 64, 64, (16, 16, 4)).layer(SMALL)
    with pytest.raises(InfeasibleError, match="does not fit"):
        PlainConvolution(1, 64, 8, 8, (1, 64, 64, 8)).layer(SMALL)


@pytest.mark.parametrize(
    ("size", "tile"),
    [
        ((64, 64, 64), (4, 4, 4)),
        ((128, 128, 128), (5, 6, 8)),
        ((512, 512, 512), (5, 6, 32)),
        ((1024, 1024, 1024), (5, 5, 51)),
        ((16, 1000, 2048), (1, 8, 56)),
        ((3136, 64, 64), (8, 4, 4)),
        ((196, 1024, 256), (5, 6, 16)),
        ((49, 2048, 512), (4, 8, 32)),
        ((128, 3072, 768), (5, 5, 48)),
    ],
)
def test_tiles_of_the_library(size: tuple[int, int, int], tile: tuple[int, int, int]) -> None:
    """Tiles that the C library's own code picked when executed for these products."""
    assert gemmini_matmul_tile(load_accelerator("gemmini-default"), *size) == tile


def test_the_hollow_accelerator_only_counts(probe: Probe) -> None:
    hollow = Probe(SMALL, program=rtl_simulator(hollow_verilog(verilog(SMALL)), probe.tools))
    stream = StreamText(DIM)
    stream.lines = ["cmd 2 3e8 0"]
    result = hollow.result(stream)
    assert result.cycles is not None
    assert 1000 <= result.cycles < 1010
    assert result.counters["accelerator_evaluated_cycles"] == result.cycles


def test_the_report_names_what_is_worse() -> None:
    costs = dict.fromkeys(("harness", "idle", "array", "loads", "stores"), 1.5)
    layer = {"layer": "matmul", "tile": "1x1x1", "what": "ours", "by": "stream", "memory_bytes_per_cycle": 8.0,
             "cycles": 1234, "utilisation": 0.5, "dram_bytes_per_cycle": 7.5}  # fmt: skip
    array = {
        "accelerator": "some", "dim": 16, "layers": [layer],
        "build": {"cold_s": 60.0, "cold_cpu_s": 100.0, "warm_s": 0.01, "shared_s": 9.0},
        "speed": {"cycles_per_cpu_s": 3e5, "cycles_per_wall_s": 2e5, "target": 300_000,
                  "nanoseconds_per_cycle": costs, "shares": {"harness": 0.1, "rest": 0.9}},
    }  # fmt: skip
    result = {
        "processor": "x86_64",
        "tools": {"c++": "1"},
        "arrays": [array],
        "facts": [fact(16, 17).to_dict()],
    }
    text = rtl.page(result)
    assert "| some pass | 3.2 | 16 | 17 | cycles | **worse** | because |" in text
    assert "0 reproduced, 0 beaten, 1 worse" in text
    assert "50.00%" in text


def test_sides_without_a_benchmark() -> None:
    with pytest.raises(InputError, match="no benchmark for dim 5"):
        rtl.run([5])
