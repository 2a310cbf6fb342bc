"""Proofs about modules of the accelerator, for all inputs and any number of cycles: properties in Verilog, decided by Yosys.

A file of properties is a piece of Verilog that stands inside the flattened module: it sees every register, those of instances as
`\\instance.name ` with the space. `assume` says what the surroundings keep, `assert` what is proven, by induction over some cycles
(Yosys' `sat -tempinduct`, on Minisat); registers hold anything before reset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from baco.accel.verilog.yosys import run_yosys
from baco.common.errors import BacoError
from baco.common.scratch import scratch_folder

PROPERTIES = Path(__file__).parent
#: Every file of properties begins with this: the first cycle is one of reset.
_RESET = """\
  reg started = 1'b0;
  always @(posedge clock) started <= 1'b1;
  always @* if (!started) assume (reset);
"""
_LIMIT_S = 280


def stubbed(verilog: str, module: str) -> str:
    """The Verilog with a module of which nothing is known: its outputs are whatever the solver likes, in every cycle."""
    start = verilog.index(f"module {module} ")
    end = verilog.index("endmodule", start)
    head = verilog[start : verilog.index(");\n", start) + 3].replace("output reg", "output wire")
    outputs = re.findall(r"output wire (\[[^\]]+\])? *(\w+)", head)
    free = [f"  wire {width} any_{name};\n  assign {name} = any_{name};\n" for width, name in outputs]
    return verilog[:start] + head + "".join(free) + verilog[end:]


def flattened(verilog: str, top: str, parameters: Mapping[str, int]) -> str:
    """A module with all its instances inside, for some values of its parameters, as Verilog."""
    values = " ".join(f"-chparam {name} {value}" for name, value in parameters.items())
    with scratch_folder() as folder:
        (folder / "design.v").write_text(verilog, encoding="utf-8")
        commands = [
            "read_verilog -sv -defer design.v", f"hierarchy -check -top {top} {values}", "proc -noopt", "flatten",
            "rename -top flat", "write_verilog -noattr -norename flat.v",
        ]  # fmt: skip
        run_yosys("\n".join(commands) + "\n", folder, limit_s=_LIMIT_S, task=f"flattening {top}")
        return (folder / "flat.v").read_text(encoding="utf-8")


def proven(flat: str, properties: str, parameters: Mapping[str, int], cycles: int) -> bool:
    """Whether the assertions hold in every cycle, for all inputs that the assumptions allow.

    Args:
        flat: of `flattened`.
        properties: name of a file of this folder; the module's parameters are constants there.
        cycles: longest induction that is tried.

    False also where the induction does not close. Raises BacoError where Yosys cannot read the properties.
    """
    text = (PROPERTIES / properties).read_text(encoding="utf-8")
    constants = "".join(f"  localparam {name} = {value};\n" for name, value in parameters.items())
    end = flat.rindex("endmodule")
    commands = [
        "read_verilog -formal -sv bound.v", "hierarchy -check -top flat", "proc", "setundef -undriven -anyseq",
        "delete -output w:*", "opt_clean -purge", "opt", "opt_clean -purge",  # what no property sees
        "opt_mem", "opt_mem_priority", "memory_share", "memory_map", "opt", "async2sync", "formalff -clk2ff",
        "chformal -lower", "opt", "clean",
    ]  # fmt: skip
    with scratch_folder() as folder:
        (folder / "bound.v").write_text(
            "`default_nettype none\n" + flat[:end] + constants + _RESET + text + flat[end:], encoding="utf-8"
        )
        prepared = "\n".join([*commands, "write_rtlil ready.il"]) + "\n"
        run_yosys(prepared, folder, limit_s=_LIMIT_S, task=f"reading {properties}")
        script = (
            f"read_rtlil ready.il\nsat -tempinduct -prove-asserts -set-assumes -maxsteps {cycles} -verify\n"
        )
        try:
            run_yosys(script, folder, limit_s=_LIMIT_S, task=f"proving {properties}")
        except BacoError as error:
            if "proof did fail" in "\n".join((str(error), *error.details)):
                return False
            raise
    return True
