"""Elements in floating point: RTL, functional model and numpy model agree on random streams; what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.accel.config import Accelerator
from baco.accel.verilog.generate import verilog
from baco.common.errors import InfeasibleError, InputError
from baco.exploration.cosim import run_campaign
from baco.main import run as baco
from baco.sim.cosim.run import Simulator, in_place_stream, powered_stream, random_stream
from baco.sim.energy import energy_uj
from baco.sim.engines.base import run_job
from baco.sim.job import Job
from tests.machines import BFLOATS, BLOCKS, FEW_FLOATS, FLOATS, SMALL
from tests.sim.accel_programs import build_source
from tests.sim.cosim.test_cosim import same_as_numpy, same_as_synthesised, sees_fault
from tests.sim.cosim_streams import faulty_sources

EACH = pytest.mark.parametrize(
    "machine", [FLOATS, FEW_FLOATS, BFLOATS, BLOCKS], ids=lambda machine: machine.name
)
EFFORT = pytest.mark.parametrize("times", [1, pytest.param(400, marks=pytest.mark.slow)])


@EFFORT
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "count"), [("legal", 5), ("in place", 3), ("wide", 3), ("illegal", 5)])
@EACH
def test_random_streams(machine: Accelerator, kind: str, count: int, times: int) -> None:
    # streams take ten times as long where memory answers one request at a time
    count *= times * (1 if machine is FEW_FLOATS else 4)
    (result,) = run_campaign([machine], count, seed=0, kind=kind, shorten=False)
    assert [failure.outcome.describe() for failure in result.failures] == []
    assert result.streams == count


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("machine", "count"),
    [
        (FLOATS, 5),
        pytest.param(FLOATS, 1000, marks=pytest.mark.slow),
        pytest.param(FEW_FLOATS, 250, marks=pytest.mark.slow),
        pytest.param(BFLOATS, 250, marks=pytest.mark.slow),
        pytest.param(BLOCKS, 250, marks=pytest.mark.slow),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_streams_from_random_contents(machine: Accelerator, count: int) -> None:
    simulator = Simulator(machine, checked=True, brief=count < 10)
    outcomes = simulator.play([powered_stream(machine, 0, index) for index in range(count)])
    assert [outcome.describe() for outcome in outcomes if outcome.failed] == []
    assert len(outcomes) == count


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
@EACH
def test_numpy_model_agrees(machine: Accelerator, times: int) -> None:
    count = times * (5 if machine is FEW_FLOATS else 20)
    streams = [random_stream(machine, 1, index) for index in range(count)]
    streams += [in_place_stream(machine, 1, index) for index in range(count // 4)]
    same_as_numpy(machine, streams)


def test_what_synthesis_reads_does_the_same(tmp_path: Path) -> None:
    same_as_synthesised(FLOATS, [random_stream(FLOATS, 2, index) for index in range(15)], tmp_path)


@pytest.mark.parametrize(
    ("module", "right", "wrong"),
    [
        ("baco_float_add", "normal[2] & (normal[3] | normal[1] | normal[0])", "normal[2]"),
        pytest.param("baco_fp8_narrow", "round = word[W-F-2] & ", "round = 1'b0 & ", marks=pytest.mark.slow),
        pytest.param(
            "baco_store_convert",
            "lane[`ELEMENT_TOP-1:0] ^ {`ELEMENT_TOP{lane[`ELEMENT_TOP]}}",
            "lane[`ELEMENT_TOP-1:0]",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "baco_store_convert", "power = src_scale[30:23]", "power = 8'd127", marks=pytest.mark.slow
        ),
        pytest.param(
            "baco_fp8_mesh_row", ".x(p[j*32 +: 32])", ".x({1'b0, p[j*32 +: 31]})", marks=pytest.mark.slow
        ),
    ],
)
def test_wrong_arithmetic_is_seen(module: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert sees_fault(FLOATS, (module, right, wrong), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "right", "wrong"),
    [
        ("baco_load_rows", "block <= block + 1'b1;", "block <= block;"),
        ("baco_load", "powers[row_block] <= row_bits", "powers[0] <= row_bits"),
    ],
)
def test_wrong_loads_of_blocks_are_seen(module: str, right: str, wrong: str, tmp_path: Path) -> None:
    """Powers of another block of columns, read and written."""
    simulator = Simulator(BLOCKS, sources=faulty_sources(tmp_path, (module, right, wrong)), brief=True)
    streams = [random_stream(BLOCKS, 0, index) for index in range(40)]
    assert any(outcome.failed for outcome in simulator.play(streams))


#: A product as a programmer writes it, against the same sums on the host core.
_PROGRAM = """
#include "accel.h"
static elem_t a[DIM][DIM] __attribute__((aligned(64))), b[DIM][DIM] __attribute__((aligned(64)));
static acc_t c[DIM][DIM] __attribute__((aligned(64)));
static float number(elem_t code) {
  if (sizeof(elem_t) == 2) {
    union { uint32_t bits; float number; } wide = {(uint32_t)code << 16};
    return wide.number;
  }
  int fraction_bits = elem_t_max == 0x7e ? 3 : 2, bias = elem_t_max == 0x7e ? 7 : 15, exponent = (code & 127) >> fraction_bits;
  float x = (code & ((1 << fraction_bits) - 1)) + (exponent ? 1 << fraction_bits : 0);
  for (int e = (exponent ? exponent : 1) - bias - fraction_bits; e < 0; ++e) x /= 2;
  for (int e = (exponent ? exponent : 1) - bias - fraction_bits; e > 0; --e) x *= 2;
  return code & 128 ? -x : x;
}
int main(void) {
  uint32_t random = 1;
  for (int n = 0; n < DIM * DIM; ++n) {
    ((elem_t*)a)[n] = (elem_t)((random = random * 1664525u + 1013904223u) >> (32 - 8 * sizeof(elem_t)) & (elem_t)0xbfbf);
    ((elem_t*)b)[n] = (elem_t)((random = random * 1664525u + 1013904223u) >> (32 - 8 * sizeof(elem_t)) & (elem_t)0xbfbf);
  }
  config_ex(.dataflow = WEIGHT_STATIONARY);
  config_ld(.stride = DIM * sizeof(elem_t));
  mvin(a, SP(0), DIM, DIM);
  mvin(b, SP(DIM), DIM, DIM);
  preload(SP(DIM), DIM, DIM, ACC(0), DIM, DIM);
  compute_preloaded(SP(0), DIM, DIM, NONE, DIM, DIM);
  config_st(.stride = DIM * sizeof(acc_t));
  mvout(c, ACC_RAW(0), DIM, DIM);
  fence();
  for (int i = 0; i < DIM; ++i)
    for (int j = 0; j < DIM; ++j) {
      float sum = 0;
      for (int k = 0; k < DIM; ++k) sum += number(a[i][k]) * number(b[k][j]);
      check("sum", i * DIM + j, float_bits(c[i][j]), float_bits(sum));
    }
  return 0;
}
"""


@pytest.mark.parametrize("engine", ["functional", "timed", "rtl"])
@EACH
def test_own_program(machine: Accelerator, engine: str, tmp_path: Path) -> None:
    elf = build_source("product", _PROGRAM, machine, tmp_path)
    result = run_job(Job(machine, program=elf), engine=engine)
    assert result.exit_code == 0, result.console
    energy = energy_uj(result, machine)
    assert energy is not None
    assert energy > 0


def test_what_it_needs() -> None:
    with pytest.raises(
        InputError,
        match=r"fp8-e4m3 needs dataflow WS .*features.mvin_scale false",
    ):
        SMALL.replace(input_format="fp8-e4m3")
    with pytest.raises(InputError, match=r"needs partial_sum_bits 32 \(not 20\)"):
        FLOATS.replace(partial_sum_bits=20)
    with pytest.raises(InputError, match=r"bf16 needs input_bits 16 \(not 32\)"):
        BFLOATS.replace(input_bits=32)
    for other in (SMALL, FLOATS):
        with pytest.raises(
            InputError, match=rf"block_weights needs input_format bf16 \(not {other.input_format}"
        ):
            other.replace(features=other.features.model_copy(update={"block_weights": True}))
    assert not BLOCKS.in_format("integer").features.block_weights
    assert (BFLOATS.input_bits, BFLOATS.scratchpad_rows) == (16, FLOATS.scratchpad_rows)
    assert FLOATS.area_mm2 > FLOATS.replace(input_format="integer").area_mm2
    with pytest.raises(InfeasibleError, match="of arrays of int8 only, and floats has elements of fp8-e4m3"):
        run_job(Job(FLOATS, stream=Path("none"), timing="gemmini"), engine="rtl")
    assert "32" in FLOATS.elements


def test_layers_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "floats.yaml"
    path.write_text(FLOATS.to_yaml())
    assert baco("baco", ["run", "--gemm", "8x8x8", "-a", str(path)]) == 0
    assert "results         right" in capsys.readouterr().out


def test_integers_are_as_before() -> None:
    """An accelerator of integers has neither the field in its file and hash nor anything of it in its Verilog."""
    assert "input_format" not in SMALL.model_dump()
    assert "input_format" not in SMALL.to_yaml()
    assert "float" not in verilog(SMALL).replace("float32", "")
    written = FLOATS.to_yaml()
    assert 'input_format: "fp8-e4m3"' in written
    assert FLOATS.config_hash != FLOATS.replace(input_format="fp8-e5m2").config_hash
