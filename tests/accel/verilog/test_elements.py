"""Text of the sources for elements of 8 and of 16 bits."""

from __future__ import annotations

from importlib.resources import files

import pytest

from baco.accel.config import Accelerator, Features
from baco.accel.verilog.elements import MACROS, of_width
from baco.accel.verilog.generate import verilog

TEXT = """\
  wire [DIM*`ELEMENT_BITS-1:0] row;  // of `ROW_BYTES bytes
  wire [9:0] bytes = wide ? {count, 2'b00} : `BYTES(count);
  assign at = {base, `OFFSET(step)};
"""


def test_both_widths() -> None:
    assert of_width(TEXT, 8) == (
        "  wire [DIM*8-1:0] row;  // of DIM bytes\n"
        "  wire [9:0] bytes = wide ? {count, 2'b00} : {2'b00, count};\n"
        "  assign at = {base, step};\n"
    )
    assert of_width(TEXT, 16) == (
        "  wire [DIM*16-1:0] row;  // of (2 * DIM) bytes\n"
        "  wire [9:0] bytes = wide ? {count, 2'b00} : {1'b0, count, 1'b0};\n"
        "  assign at = {base, step[30:0], 1'b0};\n"
    )


@pytest.mark.parametrize(
    ("text", "wrong"), [("`BYTES + 1", "needs an argument"), ("`ELEMENT_BITS(x)", "takes no")]
)
def test_a_wrong_use_is_said(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        of_width(text, 8)


def test_sources_use_every_macro_and_none_is_left() -> None:
    sources = "".join(
        path.read_text() for path in (files("baco.accel") / "rtl").iterdir() if path.name.endswith(".v")
    )
    assert [name for name in MACROS if f"`{name}" not in sources] == []
    machine = Accelerator(
        dim=4, scratchpad_kib=4, accumulator_kib=4, dataflow="WS", features=Features(mvin_scale=False)
    )
    for one in (machine, machine.in_format("bf16")):
        text = verilog(one)
        assert [name for name in MACROS if f"`{name}" in text] == []
    assert "baco_bf16_product" in text
    assert "FP8" not in text.split("\n// Left out")[0]
