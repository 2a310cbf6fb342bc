"""Linting of Verilog texts."""

import pytest

from baco.accel.verilog.lint import lint
from baco.sim.toolchain import toolchain


def _lint(text: str) -> list[str]:
    tools = toolchain()
    if not tools.verilator:
        pytest.skip("no Verilator")
    return lint(text, tools.verilator, tools.verilator_root, "unit")


def test_clean() -> None:
    assert _lint("module unit (input wire a, output wire b);\n  assign b = !a;\nendmodule\n") == []


def test_warnings_and_errors() -> None:
    warnings = _lint("module unit (input wire [1:0] a, output wire b);\n  assign b = a;\nendmodule\n")
    assert any("WIDTHTRUNC: unit.v:2" in message for message in warnings)
    assert any("UNUSEDSIGNAL" in message for message in warnings)
    assert any("syntax error" in message for message in _lint("module unit (;\nendmodule\n"))
    assert any(
        "gone" in message for message in _lint("module unit (input wire a);\n  gone u (.a(a));\nendmodule\n")
    )
