"""Reading of generated Verilog: elaboration against hand-made and pyslang's results, discrepancies."""

import pytest

from baco.accel.presets import load_accelerator
from baco.accel.verilog.generate import TOP, rtl_parameters
from baco.accel.verilog.lint import preprocess
from baco.accel.verilog.read_back import Hierarchy, Instance, Port, discrepancies, read_hierarchy
from baco.common.errors import BacoError, InputError

pytest.importorskip("pyverilog")

DESIGN = """
module leaf #(parameter W = 8, parameter DEPTH = W * 2) (
  input wire clock, input wire signed [W-1:0] a, output reg [$clog2(DEPTH+1)-1:0] q);
  always @(posedge clock) q <= a[0] ? {($clog2(DEPTH+1)){1'b1}} : 0;
endmodule
module middle #(parameter N = 3) (input wire clock, input wire [7:0] a, output wire [N-1:0] q);
  localparam HALF = (N + 1) / 2;
  localparam [3:0] MASK = 4'hc;
  genvar i, j;
  generate
    for (i = 0; i < N; i = i + 1) begin : lane
      if (i < HALF) begin : low
        wire [4:0] r;
        leaf u (.clock(clock), .a(a), .q(r));
        assign q[i] = r[0];
      end else begin : high
        for (j = 0; j < 2; j = j + 1) begin : pair
          wire [31:0] r;
          leaf #(.W(i == 2 ? 4 : MASK[3:2]), .DEPTH(1 << j)) u (.clock(clock), .a(a[3:0]), .q(r[$clog2((1<<j)+1)-1:0]));
        end
        assign q[i] = 1'b0;
      end
    end
  endgenerate
endmodule
module top #(parameter WIDTH = 16) (input wire clock, input wire [WIDTH-1:0] a, output wire [WIDTH/4-1:0] q);
  middle #(.N(WIDTH / 4)) u_m (.clock(clock), .a(a[7:0]), .q(q));
  leaf last (.clock(clock), .a(a[7:0]), .q());
endmodule
"""


def test_elaboration() -> None:
    hierarchy = read_hierarchy(DESIGN, "top")
    assert hierarchy.top == Instance(
        "top",
        "top",
        {"WIDTH": 16},
        (Port("clock", "input", 1), Port("a", "input", 16), Port("q", "output", 4)),
    )
    found = {one.path: (one.parameters, [port.width for port in one.ports]) for one in hierarchy.instances}
    small = [1, 4, 1], [1, 4, 2]
    assert found == {
        "top": ({"WIDTH": 16}, [1, 16, 4]),
        "top.u_m": ({"N": 4}, [1, 8, 4]),
        "top.u_m.lane[0].low.u": ({"W": 8, "DEPTH": 16}, [1, 8, 5]),
        "top.u_m.lane[1].low.u": ({"W": 8, "DEPTH": 16}, [1, 8, 5]),
        "top.u_m.lane[2].high.pair[0].u": ({"W": 4, "DEPTH": 1}, small[0]),
        "top.u_m.lane[2].high.pair[1].u": ({"W": 4, "DEPTH": 2}, small[1]),
        "top.u_m.lane[3].high.pair[0].u": ({"W": 3, "DEPTH": 1}, [1, 3, 1]),
        "top.u_m.lane[3].high.pair[1].u": ({"W": 3, "DEPTH": 2}, [1, 3, 2]),
        "top.last": ({"W": 8, "DEPTH": 16}, [1, 8, 5]),
    }
    assert hierarchy.modules == {"top": 1, "middle": 1, "leaf": 7}


def test_elaboration_agrees_with_pyslang() -> None:
    pyslang = pytest.importorskip("pyslang")
    compilation = pyslang.ast.Compilation() if hasattr(pyslang, "ast") else pyslang.Compilation()
    tree = pyslang.syntax.SyntaxTree if hasattr(pyslang, "syntax") else pyslang.SyntaxTree
    compilation.addSyntaxTree(tree.fromText(DESIGN))
    expected = {}

    def visit(symbol: object) -> None:
        if type(symbol).__name__ == "InstanceSymbol":
            ports = [port.type.bitWidth for port in symbol.body.portList]  # type: ignore[attr-defined]
            expected[symbol.hierarchicalPath] = ports  # type: ignore[attr-defined]

    compilation.getRoot().visit(visit)
    found = {one.path: [port.width for port in one.ports] for one in read_hierarchy(DESIGN, "top").instances}
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module top (; endmodule", "Pyverilog cannot read"),
        ("module other (input wire a); endmodule", "no module 'top'"),
        ("module top (input wire a); gone u (.a(a)); endmodule", "top.u: there is no module 'gone'"),
        ("module top (input wire [N-1:0] a); endmodule", "'N' is no constant"),
        (
            "module leaf (input wire a); endmodule module top (input wire a); leaf #(.X(1)) u (.a(a)); endmodule",
            "top.u: module 'leaf' has no parameter 'X'",
        ),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(BacoError) as error:
        read_hierarchy(text, "top")
    assert message in error.value.message


def test_preprocessing() -> None:
    from baco.sim.toolchain import toolchain

    tools = toolchain()
    if not tools.verilator:
        pytest.skip("no Verilator")
    text = preprocess(
        "`define W 4\nmodule top (input wire [`W-1:0] a); // comment\nendmodule\n",
        tools.verilator,
        tools.verilator_root,
    )
    assert "`" not in text
    assert "comment" not in text
    assert read_hierarchy(text, "top").top.ports == (Port("a", "input", 4),)
    with pytest.raises(BacoError, match="Verilator refuses"):
        preprocess('`include "gone.v"\n', tools.verilator, tools.verilator_root)


def test_discrepancies_are_named() -> None:
    accelerator = load_accelerator("gemmini-lean")
    parameters = rtl_parameters(accelerator)
    units = ("baco_load", "baco_execute", "baco_store", "baco_mesh", "baco_loop_ws")
    top = Instance(
        TOP, TOP, parameters | {"SP_ROWS": 5}, (Port("clock", "input", 1), Port("rd_resp_data", "input", 64))
    )
    below = [Instance(f"{TOP}.{name}", name, {"DIM": 16, "OTHER": 3}, ()) for name in units[:-1]]
    below += [Instance(f"{TOP}.w", "baco_loop_ws", {"DIM": 8}, ())]
    found = discrepancies(Hierarchy((top, *below)), accelerator)
    assert f"{TOP}: SP_ROWS is 5, the configuration says 16384" in found
    assert f"{TOP}.w: DIM is 8, the configuration says 16" in found
    assert f"{TOP}: port rd_resp_data is an input of 64 bits, it should be an input of 128" in found
    assert f"{TOP}: port busy is missing" in found
    assert "there should be 1 of the module baco_loop_conv, not 0" in found
    assert not any("OTHER" in one or "clock" in one or "baco_mesh" in one for one in found)


def test_without_pyverilog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs Pyverilog") as error:
        read_hierarchy(DESIGN, "top")
    assert "baco[rtl]" in str(error.value.hint)
