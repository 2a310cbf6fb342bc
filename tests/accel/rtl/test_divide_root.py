"""Quotients and square roots in Verilog against those of this computer's processor."""

import platform
import subprocess

import pytest

from tests.accel.testbench import BENCHES, RTL, build


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="others may find tininess before rounding"
)
@pytest.mark.parametrize("steps", [3, 2])
def test_quotients_and_roots_are_rounded_as_ieee_754_says(steps: int) -> None:
    module = "baco_divide_root"
    bench = build([RTL / f"{module}.v"], module, {"STEPS": steps}, [], BENCHES / "divide_root_bench.cpp")
    done = subprocess.run([bench, "1", "200000"], capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "0 wrong\n"
