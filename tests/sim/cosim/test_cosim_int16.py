"""Integers of 16 bits: RTL, timed model, functional model and a model of numpy's integers agree on random streams; what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.accel.config import Accelerator
from baco.accel.verilog.generate import verilog
from baco.common.errors import InfeasibleError, InputError
from baco.exploration.cosim import run_campaign
from baco.sim.cosim.run import in_place_stream, random_stream
from baco.sim.engines.base import run_job
from baco.sim.job import Job
from tests.machines import FEW_INTS, SMALL, WIDE_INTS
from tests.sim.accel_programs import build_source
from tests.sim.cosim.test_cosim import same_as_numpy, same_as_synthesised, sees_fault

EACH = pytest.mark.parametrize("machine", [WIDE_INTS, FEW_INTS], ids=lambda machine: machine.name)
EFFORT = pytest.mark.parametrize("times", [1, pytest.param(400, marks=pytest.mark.slow)])


@EFFORT
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "count"), [("legal", 5), ("in place", 3), ("wide", 3), ("illegal", 5)])
@EACH
def test_random_streams(machine: Accelerator, kind: str, count: int, times: int) -> None:
    # streams take ten times as long where memory answers one request at a time
    count *= times * (1 if machine is FEW_INTS else 4)
    (result,) = run_campaign([machine], count, seed=0, kind=kind, shorten=False)
    assert [failure.outcome.describe() for failure in result.failures] == []
    assert result.streams == count


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
@EACH
def test_numpy_model_agrees(machine: Accelerator, times: int) -> None:
    count = times * (5 if machine is FEW_INTS else 20)
    streams = [random_stream(machine, 1, index) for index in range(count)]
    streams += [in_place_stream(machine, 1, index) for index in range(count // 4)]
    same_as_numpy(machine, streams)


def test_what_synthesis_reads_does_the_same(tmp_path: Path) -> None:
    """Products are rows of partial products then."""
    same_as_synthesised(WIDE_INTS, [random_stream(WIDE_INTS, 2, index) for index in range(15)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "right", "wrong"),
    [
        (
            "baco_load",
            "{{`ELEMENT_REST{land_data[lane*`ELEMENT_BITS+`ELEMENT_TOP]}}",
            "{{`ELEMENT_REST{1'b0}}",
        ),
        (
            "baco_store_convert",
            ".OUT_BITS(`ELEMENT_BITS)) u_scale",
            ".OUT_BITS(`ELEMENT_BITS), .SCALES(2)) u_scale",
        ),
        (
            "baco_mesh",
            "{{(PSUM_BITS-`ELEMENT_BITS){d[`ELEMENT_TOP]}}, d}",
            "{{(PSUM_BITS-`ELEMENT_BITS){1'b0}}, d}",
        ),
        ("baco_execute", ": `ELEMENT_LEAST)", ": `ELEMENT_MOST)"),
    ],
)
def test_wrong_arithmetic_is_seen(module: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert sees_fault(WIDE_INTS, (module, right, wrong), tmp_path)


#: A product as a programmer writes it; its sums leave 32 bits, and wrap as unsigned numbers do in C.
_PROGRAM = """
#include "accel.h"
static elem_t a[DIM][DIM] __attribute__((aligned(64))), b[DIM][DIM] __attribute__((aligned(64)));
static acc_t c[DIM][DIM] __attribute__((aligned(64)));
static elem_t small[DIM][DIM] __attribute__((aligned(64)));
int main(void) {
  uint32_t random = 1;
  for (int n = 0; n < DIM * DIM; ++n) {
    ((elem_t*)a)[n] = n < DIM ? elem_t_min : (elem_t)((random = random * 1664525u + 1013904223u) >> 16);
    ((elem_t*)b)[n] = n % DIM == 0 ? elem_t_min : (elem_t)((random = random * 1664525u + 1013904223u) >> 16);
  }
  config_ex(.dataflow = WEIGHT_STATIONARY);
  config_ld(.stride = DIM * sizeof(elem_t));
  mvin(a, SP(0), DIM, DIM);
  mvin(b, SP(DIM), DIM, DIM);
  preload(SP(DIM), DIM, DIM, ACC(0), DIM, DIM);
  compute_preloaded(SP(0), DIM, DIM, NONE, DIM, DIM);
  config_st(.stride = DIM * sizeof(acc_t));
  mvout(c, ACC_RAW(0), DIM, DIM);
  config_st(.stride = DIM * sizeof(elem_t), .scale = 0x37800000);
  mvout(small, ACC(0), DIM, DIM);
  fence();
  for (int i = 0; i < DIM; ++i)
    for (int j = 0; j < DIM; ++j) {
      uint32_t sum = 0;
      for (int k = 0; k < DIM; ++k) sum += (uint32_t)((int32_t)a[i][k] * b[k][j]);
      check("sum", i * DIM + j, (uint32_t)c[i][j], sum);
      check("result", i * DIM + j, (uint32_t)small[i][j], (uint32_t)(elem_t)ACC_SCALE((acc_t)sum, 1.0f / 65536));
    }
  return sizeof(elem_t) != 2;
}
"""


@pytest.mark.parametrize("engine", ["functional", "timed", "rtl"])
def test_own_program(engine: str, tmp_path: Path) -> None:
    elf = build_source("product", _PROGRAM, WIDE_INTS, tmp_path)
    result = run_job(Job(WIDE_INTS, program=elf), engine=engine)
    assert result.exit_code == 0, result.console


def test_what_it_needs() -> None:
    for feature in ("packed_weights", "row_functions", "requantization", "normalizations"):
        with pytest.raises(InputError, match=rf"int16 needs features.{feature} false \(int8 only\)"):
            SMALL.replace(input_bits=16, features={feature: True})
    with pytest.raises(InputError, match=r"int16 needs timing baco \(not gemmini\)"):
        WIDE_INTS.replace(timing="gemmini")
    with pytest.raises(InputError, match=r"int16 needs input_bits 16 \(not 32\)"):
        WIDE_INTS.replace(input_bits=32)
    with pytest.raises(InfeasibleError, match="of arrays of int8 only, and wide-ints has elements of int16"):
        run_job(Job(WIDE_INTS, stream=Path("none"), timing="gemmini"), engine="rtl")


def test_one_name_for_two_spellings() -> None:
    assert SMALL.replace(input_bits=16) == SMALL.replace(input_format="int16") == SMALL.in_format("int16")
    assert SMALL.replace(input_bits=16).scratchpad_rows == SMALL.scratchpad_rows // 2
    assert SMALL.in_format("int16").in_format("integer") == SMALL
    assert "int16" in verilog(WIDE_INTS).split("\n")[2]
