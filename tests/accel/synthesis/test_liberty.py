"""Liberty files: what is read equals what stands there, whatever its units; what is damaged is said with its line."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import baco
from baco.accel.synthesis.liberty import read_library
from baco.accel.synthesis.memories import doubts
from baco.accel.synthesis.report import in_cells
from baco.common.errors import InputError
from tests.accel.synthesis.tiny_library import AREA, INPUT_FF, OWN, tiny_file, tiny_library


@pytest.mark.parametrize("time", ["ps", "ns"])
@pytest.mark.parametrize("load", ["ff", "pf"])
def test_units_are_those_of_the_file(tmp_path: Path, time: str, load: str) -> None:
    library = read_library([tiny_file(tmp_path, time=time, load=load)])
    assert {name: cell.area_um2 for name, cell in library.cells.items()} == AREA
    for name, cell in library.cells.items():
        pins = [pin for pin in cell.pins_of("input") if not cell.pins[pin].is_clock]
        assert [cell.pins[pin].rise_f for pin in pins] == pytest.approx([INPUT_FF[name] * 1e-15] * len(pins))
        assert cell.leakage_w == pytest.approx(AREA[name] * 1e-9)
        arcs = [arc for arc in cell.arcs if arc.rise_slew is not None]
        assert arcs
        for arc in arcs:
            assert arc.rise is not None
            assert arc.rise.values[0, 0] == pytest.approx(OWN[name] * 1e-12)
            assert arc.rise.second[-1] == pytest.approx(100e-15)
    assert [cell.name for cell in library.kinds("flip-flop")] == ["DFF"]
    assert [cell.name for cell in library.buffers()] == ["BUF"]
    assert library.volts == 1.0


def test_compressed_files_and_several(tmp_path: Path) -> None:
    first, second = tmp_path / "a.lib.gz", tmp_path / "b.lib"
    first.write_bytes(gzip.compress(tiny_library(without=("DFF",)).encode()))
    second.write_text(tiny_library(without=("INV", "BUF", "NAND2", "NOR2", "XOR2")))
    assert set(read_library([first, second]).cells) == set(AREA)


def test_axes_in_the_other_order_and_templates_without_them(tmp_path: Path) -> None:
    text = """library (t) { time_unit : "1ns"; capacitive_load_unit (1, pf);
    lu_table_template (swapped) { variable_1 : total_output_net_capacitance; variable_2 : input_net_transition;
      index_1 ("1, 2, 3"); index_2 ("4, 5"); }
    lu_table_template (loads) { variable_1 : total_output_net_capacitance; index_1 ("1, 2"); }
    cell (X) { area : 1 ; pin (A) { direction : input } pin (Y) { direction : output
      timing () { related_pin : "A" timing_sense : positive_unate
        cell_rise (swapped) { values ("1, 2", "3, 4", \\
                                      "5, 6"); }
        cell_fall (loads) { index_1 ("7, 8"); values ("9, 10"); }
        rise_transition (scalar) { values ("11"); } fall_transition (scalar) { values ("12"); } } } } }"""
    path = tmp_path / "t.lib"
    path.write_text(text)
    (arc,) = read_library([path]).cells["X"].arcs
    assert arc.rise is not None
    assert arc.fall is not None
    assert (arc.rise.values * 1e9).round(6).tolist() == [[1, 3, 5], [2, 4, 6]]
    assert (arc.rise.first * 1e9).round(6).tolist() == [4, 5]
    assert (arc.rise.second * 1e12).round(6).tolist() == [1, 2, 3]
    assert (arc.fall.second * 1e12).round(6).tolist() == [7, 8]
    assert arc.fall.values.shape == (1, 2)


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("", "the file holds no library", None),
        ("cell (X) { }", "the file holds no library", None),
        ("library (t) { }", "no cells in this library", None),
        (tiny_library()[:2000], "the file ends inside library (tiny)", None),
        ("library (t) {\n cell (X) { area 1; } }", "neither an attribute nor a group", 2),
        ("library (t) { }\n}", "a brace too many", 2),
        ("library (t) {\n cell (X; { } }", "a parenthesis that is not closed", 2),
        ('library (t) { time_unit : "1 fortnight"; }', "no unit of time_unit", 1),
        ("library (t) {\ncell (X) { pin (Y) {\ntiming () { related_pin : A; cell_rise (x) { index_1 (\"1, 2\"); values (\"1, 2, 3\"); }}}}}", "as many values as its axes", 3),
        ("library (t) {\ncell (X) { pin (Y) {\ntiming () { related_pin : A; cell_rise (x) { values (\"1, two\"); }}}}}", "'1, two' of 'cell_rise' are no numbers", 3),
        ("library (t) {\ncell (X) { pin (Y) { rise_capacitance_range (1, nan); }}}", "are no numbers", 2),
        ("library (t) {\ncell (X) { memory () { address_width : 1e9; word_width : 8; }}}", "a memory of 1e+09 bits of address", 2),
    ],
)  # fmt: skip
def test_damaged_files_are_one_message(tmp_path: Path, text: str, said: str, line: int | None) -> None:
    path = tmp_path / "bad.lib"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        read_library([path])
    assert caught.value.location is not None
    assert caught.value.location.file == str(path)
    if line is not None:
        assert caught.value.location.line == line


def test_a_cut_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.lib.gz"
    path.write_bytes(gzip.compress(tiny_library().encode())[:-30])
    with pytest.raises(InputError, match="cut"):
        read_library([path])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            lambda text: text.replace("cell_leakage_power", "x").replace(" area :", " size :"),
            "no areas of gates: tiny",
        ),
        (
            lambda text: text.replace("cell_rise", "x").replace("cell_fall", "y"),
            "no inverter with delays: tiny",
        ),
    ],
)
def test_a_library_whose_figures_say_nothing_is_one_message(
    tmp_path: Path, changed: Callable[[str], str], said: str
) -> None:
    path = tmp_path / "silent.lib"
    path.write_text(changed(tiny_library()))
    with pytest.raises(InputError, match=said):
        in_cells(baco.accelerator(dim=4), [path])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (('time_unit : "1ps"', 'time_unit : "1ns"'), "an inverter that drives four takes 3.4e+04 ps"),
        (('time_unit : "1ps"', 'time_unit : "1fs"'), "an inverter that drives four takes 0.034 ps"),
        (('time_unit : "1ps";', ""), "an inverter that drives four takes 3.4e+04 ps"),  # Liberty's default
        (("capacitive_load_unit (1, ff)", "capacitive_load_unit (1, pf)"), "input takes 2e+03 fF"),
        (("area : 1.5;", "area : 1.5e-6;"), "a NAND takes 1.5e-06 µm²"),
    ],
)
def test_figures_that_no_process_has_are_told(tmp_path: Path, changed: tuple[str, str], said: str) -> None:
    path = tiny_file(tmp_path)
    assert doubts(read_library([path])) == []
    path.write_text(tiny_library().replace(*changed))
    (told,) = doubts(read_library([path]))
    assert said in told
    assert "are the library's units right?" in told
