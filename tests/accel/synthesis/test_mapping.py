"""Mapping: what Yosys' own statistics count, memories apart, work kept; what is missing is said."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from baco.accel.synthesis.liberty import read_library
from baco.accel.synthesis.mapping import BankShape, NetlistModule, map_design
from baco.accel.synthesis.memories import banks
from baco.accel.verilog.yosys import run_yosys
from baco.common.cache import Cache
from baco.common.errors import BacoError
from tests.accel.synthesis.tiny_library import AREA, tiny_file

SRAM = Path(__file__).parents[3] / "accel" / "rtl" / "baco_sram.v"
DESIGN = """
module adder #(parameter W = 4) (input clock, input [W-1:0] a, b, output reg [W-1:0] s);
  always @(posedge clock) s <= a + b;
endmodule
module top(input clock, input [3:0] a, b, output [3:0] s, output [5:0] wide, output [15:0] data);
  wire [3:0] first, second;
  adder one (.clock(clock), .a(a), .b(b), .s(first));
  adder two (.clock(clock), .a(first), .b(b), .s(second));
  adder #(.W(6)) three (.clock(clock), .a({a, b[1:0]}), .b({b, a[1:0]}), .s(wide));
  assign s = second;
  baco_sram #(.ROWS(32), .LANES(4), .LANE_BITS(4)) bank (.clock(clock), .read_enable(s[0]), .read_row({s, a[0]}),
      .read_data(data), .write_enable(s[1]), .write_row({a, b[0]}), .write_mask(b), .write_data({a, b, a, b}));
endmodule
"""


def test_cells_are_those_that_yosys_counts_and_memories_stay_apart(tmp_path: Path) -> None:
    pytest.importorskip("pyosys")
    liberty = tiny_file(tmp_path)
    library = read_library([liberty])
    cache = Cache(tmp_path / "cache")
    mapped = map_design(DESIGN + SRAM.read_text(), library, 500, top="top", cache=cache)
    assert list(mapped.memories.values()) == [BankShape(rows=32, lanes=4, lane_bits=4)]
    found: Counter[str] = Counter()

    def count(name: str) -> None:
        for instance in mapped.modules[name].instances:
            if instance.kind in mapped.modules:
                count(instance.kind)
            else:
                found[instance.kind if instance.kind in AREA else "memory"] += 1

    count(mapped.top)
    # the same flow as one script of Yosys over the whole design
    (tmp_path / "whole.v").write_text(DESIGN + SRAM.read_text())
    script = f"""read_verilog -sv whole.v
hierarchy -check -top top
blackbox *baco_sram*
synth -run begin:fine
memory_map
opt -fast
techmap
opt -fast
dfflibmap -liberty {liberty}
opt
abc -liberty {liberty} -D 500
opt_clean
tee -q -o stat.txt stat -hierarchy -liberty {liberty}
"""
    run_yosys(script, tmp_path, limit_s=300, task="test")
    text = (tmp_path / "stat.txt").read_text()
    whole = text[text.index("design hierarchy") :]
    rows = re.findall(rf"^\s+(\d+)\s+\S+\s+\S+\s+\S+\s+({'|'.join(AREA)})$", whole, re.MULTILINE)
    theirs = {cell: int(number) for number, cell in rows}
    assert theirs == {kind: number for kind, number in found.items() if kind != "memory"}
    assert found["memory"] == 1
    assert found["DFF"] == 4 + 4 + 6


def test_what_is_mapped_once_is_not_mapped_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyosys")
    library = read_library([tiny_file(tmp_path)])
    cache = Cache(tmp_path / "cache")
    known: dict[tuple[str, str], NetlistModule] = {}
    before = map_design(DESIGN + SRAM.read_text(), library, 500, top="top", cache=cache, known=known)
    monkeypatch.setattr(
        "baco.accel.synthesis.mapping.run_yosys", lambda *a, **k: pytest.fail("Yosys ran again")
    )
    again = map_design(DESIGN + SRAM.read_text(), library, 500, top="top", cache=cache)
    assert again == before
    assert [*again.modules] == [*before.modules]
    same = map_design(DESIGN + SRAM.read_text(), library, 500, top="top", cache=cache, known=known)
    assert all(same.modules[name] is module for name, module in before.modules.items())


STORE = """
module store #(parameter W = 4) (input clock, write, input [1:0] row, input [W-1:0] data, output reg [W-1:0] read);
  reg [W-1:0] rows [0:3];
  always @(posedge clock) begin
    if (write) rows[row] <= data;
    read <= rows[row] + (data == 0 ? 1 : 2);
  end
endmodule
"""
TOP = """
module top(input clock, write, input [1:0] row, input [3:0] a, output [3:0] b);
  {extra}
  store one (.clock(clock), .write(write), .row(row), .data(a), .read(b));
endmodule
"""


def test_modules_are_shared_by_designs_that_differ_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyosys")
    library, cache = read_library([tiny_file(tmp_path)]), Cache(tmp_path / "cache")
    map_design(TOP.format(extra="") + STORE, library, 500, top="top", cache=cache)
    ran = []

    def counted(script: str, *rest: object, task: str, **named: object) -> str:
        ran.append(task)
        return run_yosys(script, *rest, task=task, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("baco.accel.synthesis.mapping.run_yosys", counted)
    # another store before it: whatever Yosys counts begins elsewhere
    wide = "wire [8:0] c; store #(.W(9)) other (.clock(clock), .write(b[0] ^ (a > 3)), .row(row), .data({b, a, write}), .read(c));"
    map_design(wide.join(TOP.split("{extra}")) + STORE, library, 500, top="top", cache=cache)
    assert sorted(ran) == ["synthesis", "synthesis of store", "synthesis of top"]


@pytest.mark.parametrize(
    ("design", "without", "said"),
    [
        (DESIGN, ("DFF",), "no flip-flops: tiny"),
        (DESIGN, ("INV", "BUF", "NAND2", "NOR2", "XOR2"), "no gates: tiny"),
        (DESIGN, ("BUF", "NOR2", "XOR2"), "gates of 2 functions only, and ABC maps to 3 or more: tiny"),
        (
            "module top(input a, output b); nothing_there x (.a(a), .b(b)); endmodule",
            (),
            r"Yosys refuses the Verilog: .*nothing_there",
        ),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, design: str, without: tuple[str, ...], said: str) -> None:
    pytest.importorskip("pyosys")
    library = read_library([tiny_file(tmp_path, without=without)])
    cache = Cache(tmp_path / "cache")
    with pytest.raises(BacoError, match=said):
        map_design(design, library, 500, top="top", cache=cache)


MACRO = """library (m) {{ time_unit : "1ns"; capacitive_load_unit (1, pf); leakage_power_unit : "1uW";
cell ({name}) {{ area : {area}; cell_leakage_power : {leakage};
  memory () {{ type : ram; address_width : {address}; word_width : {width}; }}
  pin (clk) {{ direction : input; clock : true; }}
  {outputs}
}} }}"""


def _macro(folder: Path, name: str, rows: int, width: int, area: float, ports: int = 2) -> Path:
    delay = 'timing () { related_pin : clk; timing_type : rising_edge; cell_rise (scalar) { values ("2"); }'
    delay += ' rise_transition (scalar) { values ("0.1"); } }'
    outputs = "\n".join(
        f"pin (q{port}_{bit}) {{ direction : output; {delay} }}"
        for port in range(ports)
        for bit in range(width)
    )
    path = folder / f"{name}.lib"
    address = rows.bit_length() - 1
    path.write_text(
        MACRO.format(name=name, area=area, leakage=3, address=address, width=width, outputs=outputs)
    )
    return path


def test_banks_take_the_macros_that_need_least_area(tmp_path: Path) -> None:
    cells = read_library([tiny_file(tmp_path)])
    macros = read_library(
        [
            _macro(tmp_path, "small", 64, 8, 100.0),
            _macro(tmp_path, "large", 256, 32, 1000.0),
            _macro(tmp_path, "single", 256, 32, 1.0, ports=1),
        ]
    )
    wanted = [BankShape(256, 4, 8), BankShape(32, 1, 8), BankShape(512, 4, 16)]
    found, remarks = banks(wanted, cells, macros)
    assert remarks == []
    made = {memory: (bank.macro, bank.across, bank.down) for memory, bank in found.items()}
    assert made == {wanted[0]: ("large", 1, 1), wanted[1]: ("small", 1, 1), wanted[2]: ("large", 2, 2)}
    assert found[wanted[0]].area_um2 == 1000.0
    assert found[wanted[0]].access_s == pytest.approx(2e-9)
    # four macros, and 64 multiplexers of three NAND2s each
    assert found[wanted[2]].area_um2 == pytest.approx(4 * 1000 + 64 * 3 * AREA["NAND2"])
    assert found[wanted[2]].leakage_w == pytest.approx(4 * 3e-6)
    _, said = banks(wanted, cells, read_library([tmp_path / "single.lib"]))
    assert "one" in said[0]
    by_law, _ = banks(wanted, cells, None)
    assert by_law[wanted[2]].area_um2 > by_law[wanted[0]].area_um2 > by_law[wanted[1]].area_um2
