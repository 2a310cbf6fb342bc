"""Buffers and strengths: the same logic by proof and by structure, OpenSTA's period, and a shorter one."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import baco
from baco.accel.synthesis.closing import close
from baco.accel.synthesis.flat import Flat, flatten
from baco.accel.synthesis.gates import gate_verilog
from baco.accel.synthesis.liberty import Library, read_library
from baco.accel.synthesis.mapping import CellInstance, Mapped, NetlistModule, map_design
from baco.accel.synthesis.sizing import resized
from baco.accel.synthesis.timing import Assumptions, PathStep, Timing, analyse
from baco.accel.synthesis.timing import Path as TimingPath
from baco.accel.verilog.yosys import run_yosys
from baco.common.cache import Cache
from tests.accel.synthesis.test_gates import _EQUAL
from tests.accel.synthesis.test_static_timing import (
    DESIGNS,
    LIBRARIES,
    SOME_DESIGNS,
    _random_module,
    ihp_library,
    mapped_design,
    opensta_need_ns,
    without_ports,
)
from tests.accel.synthesis.tiny_library import LOAD_PS_A_FF, OWN, SETUP_PS, tiny_file, tiny_library
from tests.seeds import seeds

ASSUMED = Assumptions(1e-15, 20e-12, most_sinks=16, margin=0.0)
#: A strong cell drives so many times the load, with so many times the inputs and area.
STRONG = 4
#: Carries that a mapper for area lets ripple, behind a module's border, and a net with many pins.
WIDE = """
module sums(input [23:0] a, b, input enable, output [23:0] s);
  assign s = enable ? a + b : a;
endmodule
module top(input clock, input [23:0] d, input run, output reg [23:0] total);
  reg [23:0] held; reg enable; wire [23:0] s;
  sums inside (.a(total), .b(held), .enable(enable), .s(s));
  always @(posedge clock) begin enable <= run; held <= d; total <= s; end
endmodule
"""


def _library(folder: Path) -> Library:
    """The tiny one with a strong cell of each kind."""
    text = tiny_library()
    slow = re.compile(r'values \("([\d.]+), ([\d.]+)"|values \("([\d.]+), ([\d.]+)", "')
    strong = []
    for cell in re.findall(r"^cell \((?:INV|BUF|NAND2|NOR2|XOR2)\).*$", text, re.MULTILINE):
        name = cell.split("(")[1].split(")")[0]
        steep = f"{OWN[name] + LOAD_PS_A_FF * 100:g}"
        flat = f"{OWN[name] + LOAD_PS_A_FF * 100 / STRONG:g}"
        assert slow.search(cell)
        assert steep in cell
        cell = cell.replace(f"cell ({name})", f"cell ({name}_4)").replace(steep, flat)
        cell = re.sub(r"(area|capacitance) : ([\d.]+)", lambda m: f"{m[1]} : {float(m[2]) * STRONG:g}", cell)
        strong.append(cell)
    path = folder / "strong.lib"
    path.write_text(text.rstrip().removesuffix("}") + "\n".join(strong) + "\n}\n")
    return read_library([path])


def _plain(flat: Flat, buffers: Collection[str]) -> Counter[tuple[object, ...]]:
    """Cells with their nets, whatever their strength, and nets behind added buffers named as those before them."""
    before: dict[int, int] = {}
    for name in buffers:
        for instances in (flat.instances[name],) if name in flat.instances else ():
            before.update(zip(instances.column("Y").tolist(), instances.column("A").tolist(), strict=True))

    def source(net: int) -> int:
        while net in before:
            net = before[net]
        return net

    return Counter(
        (name.removesuffix("_4"), *(source(net) for net in row))
        for name, instances in flat.instances.items()
        if name not in buffers
        for row in instances.nets.tolist()
    )


@pytest.mark.parametrize("seed", seeds(4, of=40))
def test_random_logic_stays_what_it_is_and_is_no_slower(tmp_path: Path, seed: int) -> None:
    library = _library(tmp_path)
    rng = random.Random(seed)
    module = _random_module(rng, rng.randint(1, 4), rng.randint(20, 200))
    instances = tuple(one for one in module.instances if one.kind != "BUF")
    driven = {net for one in instances for pin, (net,) in one.nets.items() if pin in ("Y", "Q")}
    instances = tuple(  # what a buffer drove is the first register's
        CellInstance(
            one.name,
            one.kind,
            {p: n if p in ("Y", "CK") or n[0] in driven else [1] for p, n in one.nets.items()},
        )
        for one in instances
    )
    module = NetlistModule("random", module.ports, instances, {}, module.nets)
    flat = flatten(Mapped("top", {"top": module}, {}, "", 0.0), library.cells)
    found = resized(flat, library, ASSUMED).graph.flat
    assert _plain(found, {"BUF", "BUF_4"}) == _plain(flat, ())
    assert analyse(found, library, ASSUMED).need_s <= analyse(flat, library, ASSUMED).need_s * 1.05
    assert analyse(
        flatten(Mapped("top", {"top": module}, {}, "", 0.0), library.cells), library, ASSUMED
    ).need_s == (analyse(flat, library, ASSUMED).need_s)  # what was given is as it was


def test_a_row_of_weak_cells_becomes_as_strong_as_a_search_over_all_strengths_finds(tmp_path: Path) -> None:
    library = _library(tmp_path)
    kinds, load = ("NAND2", "INV", "NOR2"), 12
    rows = [CellInstance("r", "DFF", {"CK": [0], "D": [4], "Q": [1]})]
    for place, kind in enumerate(kinds):
        pins = {"A": [place + 1], "Y": [place + 2]} | ({} if kind == "INV" else {"B": [place + 1]})
        rows.append(CellInstance(f"g{place}", kind, pins))
    rows += [CellInstance(f"s{n}", "DFF", {"CK": [0], "D": [4], "Q": [5 + n]}) for n in range(load - 1)]

    def need(strengths: tuple[bool, ...], sized: bool = False) -> float:
        strong = {f"g{place}": "_4" for place, chosen in enumerate(strengths) if chosen}
        cells = tuple(CellInstance(one.name, one.kind + strong.get(one.name, ""), one.nets) for one in rows)
        module = NetlistModule("row", {"clock": ("input", [0])}, cells, {}, 4 + load)
        flat = flatten(Mapped("top", {"top": module}, {}, "", 0.0), library.cells)
        assumed = Assumptions(0.0, 20e-12, most_sinks=0, margin=0.0)
        flat = resized(flat, library, assumed).graph.flat if sized else flat
        return analyse(flat, library, assumed).need_s

    choices = [tuple(bool(number >> bit & 1) for bit in range(3)) for number in range(8)]
    best = min(map(need, choices))
    assert best < need((False,) * 3)
    assert need((False,) * 3, sized=True) <= best * 1.02  # with a buffer it may be lower still
    assert best > SETUP_PS * 1e-12


@pytest.mark.parametrize("name", ["compare and select", "shift and round"])
def test_it_is_proven_equal_to_the_rtl(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    library = _library(tmp_path)
    flat = mapped_design(name, library, tmp_path)
    found = resized(flat, library, replace(ASSUMED, most_sinks=4)).graph.flat
    assert found.nets > flat.nets
    assert _strong(found) > 0
    (tmp_path / "rtl.v").write_text(DESIGNS[name][0])
    (tmp_path / "gates.v").write_text(gate_verilog(found, {}, "top", counted=False))
    run_yosys(_EQUAL, tmp_path, limit_s=300, task="test")  # raises where they are not


@pytest.mark.parametrize("without", [("BUF",), ("BUF", "XOR2"), ("NOR2", "XOR2")], ids=str)
def test_libraries_that_lack_cells_hold_the_same_design(tmp_path: Path, without: tuple[str, ...]) -> None:
    """ABC's usual script stops where there is no buffer."""
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    library = read_library([tiny_file(tmp_path, without=without)])
    flat = mapped_design("shift and round", library, tmp_path)
    found = resized(flat, library, replace(ASSUMED, most_sinks=4)).graph.flat
    assert not set(found.instances) & set(without)
    (tmp_path / "rtl.v").write_text(DESIGNS["shift and round"][0])
    (tmp_path / "gates.v").write_text(gate_verilog(found, {}, "top", counted=False))
    run_yosys(_EQUAL, tmp_path, limit_s=300, task="test")  # raises where they are not


def _strong(flat: Flat) -> int:
    return sum(len(one.nets) for name, one in flat.instances.items() if name.endswith("_4"))


def test_modules_on_long_paths_are_mapped_again(tmp_path: Path) -> None:
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    library, cache = _library(tmp_path), Cache(tmp_path / "cache")

    def mapping(fast: Collection[str]) -> Mapped:
        return map_design(WIDE, library, 5000, top="top", fast=fast, cache=cache)

    said: list[str] = []
    found = close(mapping, library.cells, library, ASSUMED, said.append)
    first = analyse(flatten(mapping(()), library.cells), library, ASSUMED)
    assert {found.mapped.modules[key].name for key in found.fast} == {"sums"}
    assert found.timing.need_s < 0.5 * first.need_s
    assert found.buffers + found.stronger > 0
    assert any("mapping 1 modules on long paths again" in text for text in said)
    (tmp_path / "rtl.v").write_text(WIDE)
    (tmp_path / "gates.v").write_text(gate_verilog(found.flat, {}, "top", counted=False))
    run_yosys(
        _EQUAL.replace("proc\nflatten", "proc\nflatten\nopt_clean", 1), tmp_path, limit_s=300, task="test"
    )


def test_modules_that_slow_each_other_down_are_mapped_again_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {key: NetlistModule(key, {}, (), {}, 0) for key in "abc"}
    made: list[frozenset[str]] = []

    def paths(fast: Collection[str]) -> list[list[float]]:
        """Delays in a, b and c of each: a's own; one that a passes on late to b once it is mapped for its own, and b likewise to c."""
        return [
            [4.0 if "a" in fast else 10.0, 0.0, 0.0],
            [7.0 if "a" in fast else 1.0, 2.0 if "b" in fast else 4.0, 0.0],
            [0.0, 6.0 if "b" in fast else 1.0, 2.0 if "c" in fast else 4.5],
        ]

    def timed(found: SimpleNamespace, *_: object) -> Timing:
        paths = []
        for delays in found.paths:
            steps = (PathStep(0, sum(delays[: place + 1]), "", place) for place in range(len(delays)))
            paths.append(TimingPath(sum(delays), tuple(steps), "", 0))
        worst = sorted(paths, key=lambda path: -path.need_s)
        return Timing(worst[0].need_s, 1.0, tuple(worst), 0, ASSUMED)

    def mapping(fast: Collection[str]) -> Mapped:
        made.append(frozenset(fast))
        return Mapped("a", kinds, {}, "", 0.0)

    flat = Flat(modules=[*kinds.values()])
    monkeypatch.setattr("baco.accel.synthesis.closing.flatten", lambda *_: flat)
    monkeypatch.setattr(
        "baco.accel.synthesis.closing.resized",
        lambda *_: SimpleNamespace(graph=SimpleNamespace(flat=flat), paths=paths(made[-1])),
    )
    monkeypatch.setattr("baco.accel.synthesis.closing.timing", timed)
    found = close(mapping, {}, _library(tmp_path), ASSUMED)
    every = [frozenset(keys) for keys in ("", "a", "b", "c", "ab", "ac", "bc", "abc")]
    best = min(every, key=lambda fast: max(map(sum, paths(fast))))
    assert found.fast == best == {"a", "b", "c"}
    # each is slower than the start but the last, and nothing is tried once the worst path has nothing left
    assert made == [frozenset(), {"a"}, {"a", "b"}, {"a", "b", "c"}]


@pytest.mark.skipif(shutil.which("sta") is None, reason="OpenSTA is not installed (Debian: opensta)")
@pytest.mark.skipif(not LIBRARIES.exists(), reason="the shared cell libraries are not there")
@pytest.mark.parametrize("name", SOME_DESIGNS)
def test_opensta_finds_the_same_period(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyosys", reason="Yosys is not installed")
    library = ihp_library(tmp_path)
    flat = mapped_design(name, library, tmp_path)
    assumed = Assumptions(0.0, 0.05e-9, most_sinks=0, margin=0.0)
    found = resized(without_ports(flat), library, assumed).graph.flat
    ours = analyse(found, library, assumed).need_s * 1e9
    before = analyse(without_ports(flat), library, assumed).need_s * 1e9
    assert ours <= before if name == "one hot" else ours < before  # no gate of which has a stronger one
    found.ports.update(flat.ports)
    assert ours == pytest.approx(opensta_need_ns(found, tmp_path / "cells.lib", tmp_path), rel=1e-3)
    assert np.isfinite(ours)


def test_another_goal_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "tiny.lib").write_text(tiny_library())
    with pytest.raises(baco.InputError, match="not optimised for 'speed'"):
        baco.synthesise("gemmini-default", liberty=tmp_path / "tiny.lib", optimise="speed")
