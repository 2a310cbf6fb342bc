"""Reading of Verilog sources: conditionals against a brute-force evaluation, instances, macros."""

import itertools

import pytest

from baco.accel.verilog.source import (
    instantiated_modules,
    resolve_conditionals,
    used_macros,
    without_comments,
)

TEXT = """a
`ifdef BACO_X // why
  b
`ifndef BACO_Y
  c
`else
  d
`endif
`else
  e
`ifdef VERILATOR
  f
`endif
`endif
g // `ifdef in a comment
"""


@pytest.mark.parametrize(("x", "y"), list(itertools.product([False, True], repeat=2)))
def test_conditionals(x: bool, y: bool) -> None:
    lines = resolve_conditionals(TEXT, {"BACO_X": x, "BACO_Y": y}).split("\n")
    expected = ["a", *(["  b", "  d" if y else "  c"] if x else ["  e", "`ifdef VERILATOR", "  f", "`endif"])]
    assert lines == [*expected, "g // `ifdef in a comment", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("`ifdef BACO_Z\n`endif", "f.v:1: there is no feature BACO_Z"),
        ("x\n`endif", "f.v:2: `endif without `ifdef"),
        ("`else", "f.v:1: `else without `ifdef"),
        ("`ifdef BACO_X\n", "f.v:1: `ifdef without `endif"),
        ("`ifdef BACO_X\n`else\n`else\n`endif", "f.v:3: a second `else"),
        ("`ifdef BACO_X\n`elsif BACO_Y\n`endif", "f.v:2: `elsif is not supported"),
        ("wire x; `ifdef BACO_X\n`endif", "f.v:1: a conditional directive must be alone"),
    ],
)
def test_conditionals_invalid(text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        resolve_conditionals(text, {"BACO_X": True, "BACO_Y": True}, "f.v")
    assert message in str(error.value)


def test_comments() -> None:
    assert without_comments('a // b\nc /* d\ne */ f "x // y"') == 'a  \nc   f "x // y"'


def test_instances() -> None:
    text = """
    module baco_top (input wire baco_clock);  // baco_comment u (
      wire baco_signal = baco_clock & (baco_clock);
      baco_one u_one (.baco_port (baco_signal));
      baco_two #(.DIM(4)) u_two (.a(1'b0));
      baco_one u_again (
      );
      generate
        for (i = 0; i < 4; i = i + 1) begin : baco_block
          baco_three
            #(.A(1))
            u (.x(i));
        end
      endgenerate
    endmodule
    """
    assert instantiated_modules(text) == ["baco_one", "baco_two", "baco_three"]


def test_macros() -> None:
    assert used_macros("parameter A = `BACO_DIM; // `BACO_NO\nx[`BACO_ISA_MVIN_ROWS]") == {
        "BACO_DIM",
        "BACO_ISA_MVIN_ROWS",
    }
