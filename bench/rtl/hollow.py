"""An accelerator with the real one's ports and nothing inside: what is left is the time of the simulator's own C++."""

from __future__ import annotations

import re

from baco.accel.verilog.generate import TOP

_HEADER = re.compile(rf"module\s+{TOP}\s*#\((.*?)\)\s*\((.*?)\)\s*;", re.DOTALL)
_OUTPUT = re.compile(r"output\s+(?:wire|reg)\s*(?:\[[^\]]*\]\s*)?(\w+)")


def hollow_verilog(verilog: str) -> str:
    """Of the Verilog of an accelerator, one with the same ports that takes every command.

    A command keeps it busy for as many cycles as its rs1 says.
    """
    header = _HEADER.search(verilog)
    assert header is not None, "the top module has a header of parameters and ports"
    defines = "\n".join(line for line in verilog.splitlines() if line.startswith("`define"))
    ports = re.sub(r"output\s+reg\b", "output wire", header[2])
    driven = {"cmd_ready": "1'b1", "busy": "left != 32'd0"}
    outputs = "\n".join(f"  assign {name} = {driven.get(name, '0')};" for name in _OUTPUT.findall(ports))
    return f"""{defines}
module {TOP} #({header[1]}) ({ports});
  reg [31:0] left;
{outputs}
  always @(posedge clock)
    if (reset) left <= 32'd0;
    else if (cmd_valid) left <= cmd_rs1[31:0];
    else if (left != 32'd0) left <= left - 32'd1;
endmodule
"""
