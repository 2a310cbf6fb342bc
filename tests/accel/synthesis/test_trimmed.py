"""What Yosys gets of a library: the same cells map from it, and files of other units stay apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.accel.synthesis.liberty import read_library
from baco.accel.synthesis.trimmed import GATES, REGISTERS, trim
from tests.accel.synthesis.tiny_library import AREA, FUNCTIONS, tiny_library

#: Two arcs of one pair of pins that differ in their condition alone.
CONDITIONS = """library (t) {{ time_unit : "1ps"; capacitive_load_unit (1, ff);
  cell (X) {{ area : 2; leakage_power () {{ value : 1; }}
    pin (A) {{ direction : input; internal_power () {{ rise_power (x) {{ values ("1"); }} }} }}
    pin (Y) {{ direction : output; function : "A"; {arcs} }} }} }}"""


def _arc(when: str, first: str, second: str) -> str:
    tables = "".join(
        f'{kind} (x) {{ index_1 ("1, 2"); index_2 ("3, 4"); values ("{first}", "{second}"); }}'
        for kind in ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
    )
    return f'timing () {{ related_pin : "A"; timing_sense : positive_unate; when : "{when}"; {tables} }}'


def test_gates_and_registers_apart_with_the_same_delays(tmp_path: Path) -> None:
    source = tmp_path / "tiny.lib"
    source.write_text(tiny_library())
    whole = read_library([source])
    trim([source], tmp_path)
    gates = read_library([tmp_path / GATES.format(0)])
    registers = read_library([tmp_path / REGISTERS.format(0)])
    assert set(gates.cells) == set(FUNCTIONS)
    assert set(registers.cells) == set(AREA) - set(FUNCTIONS)
    for name, cell in gates.cells.items():
        assert cell.area_um2 == AREA[name]
        for one, other in zip(cell.arcs, whole.cells[name].arcs, strict=True):
            assert one.source == other.source
            assert one.rise is not None
            assert other.rise is not None
            assert (one.rise.values == other.rise.values).all()
            assert (one.rise.second == other.rise.second).all()


def test_of_several_conditions_the_slowest_stays(tmp_path: Path) -> None:
    source = tmp_path / "t.lib"
    source.write_text(CONDITIONS.format(arcs=_arc("B", "10, 20", "30, 40") + _arc("!B", "15, 5", "25, 50")))
    trim([source], tmp_path)
    (arc,) = read_library([tmp_path / GATES.format(0)]).cells["X"].arcs
    assert arc.rise is not None
    assert (arc.rise.values * 1e12).round(9).tolist() == [[15, 20], [30, 50]]
    text = (tmp_path / GATES.format(0)).read_text()
    assert "power" not in text


@pytest.mark.parametrize(("time", "files"), [("ps", 1), ("ns", 2)])
def test_files_of_other_units_stay_apart(tmp_path: Path, time: str, files: int) -> None:
    one, other = tmp_path / "one.lib", tmp_path / "other.lib"
    one.write_text(tiny_library(without=("DFF", "XOR2")))
    other.write_text(tiny_library(time=time, without=("INV", "BUF", "NAND2", "NOR2")))
    trim([one, other], tmp_path)
    found = sorted(tmp_path.glob(GATES.format("*")))
    assert len(found) == files
    assert set(read_library(found).cells) == set(FUNCTIONS)
    arc = read_library(found).cells["XOR2"].arcs[0]
    assert arc.rise is not None
    assert arc.rise.values[0, 0] == pytest.approx(30e-12)
