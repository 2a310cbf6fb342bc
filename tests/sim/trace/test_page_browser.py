"""Pages of traces and of networks in a real browser: they draw, react, fit any window, and call nobody."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from baco.accel.isa import encode
from baco.sim.network.chart import draw_network_html
from baco.sim.network.profile import OperatorProfile
from baco.sim.network.table import COLUMNS, table_rows
from baco.sim.trace import draw_html, read_log
from tests.browser import ATTACK, LOOKS, Browser

pytestmark = pytest.mark.timeout(180)
HEAD = "# baco command log 1, dim 16\nunit,id,funct,rs1,rs2,allocated,issued,done\n"


def fits_any_window(browser: Browser, path: Path) -> None:
    """Open a page; in the end it is as wide as a screen, and light."""
    browser.requests.clear()
    browser.problems.clear()
    for width in (420, 1400):
        browser.look(width)
        browser.open(path)
        browser.wait_for("document.body.dataset.ready")
        for look in LOOKS:
            browser.look(width, look=look)
            assert browser.layout_problems() == [], (width, look)
    browser.look(1400)


def write_log(path: Path, commands: int) -> list[tuple[str, int, int, int]]:
    """A log of random commands, as many for each unit; (unit, allocated, issued, done) of each."""
    chance, rows, lines = random.Random(commands), [], []
    for unit, name in (("load", "MVIN"), ("execute", "PRELOAD"), ("store", "MVOUT")):
        at = 100
        for _ in range(commands // 3):
            at += chance.randrange(1, 40)
            issued = at + chance.randrange(0, 30)
            done = issued + chance.randrange(1, 60)
            one = encode(name)
            rows.append((unit, at, issued, done))
            lines.append(f"{unit},0,{one.funct},{one.rs1:#x},{one.rs2:#x},{at},{issued},{done}\n")
    path.write_text(HEAD + "".join(lines))
    return rows


def busy(rows: list[tuple[str, int, int, int]], unit: str, begin: int, end: int) -> float:
    """Share of the cycles in which a unit runs something, cycle by cycle."""
    cycles = {
        c for one, _, issued, done in rows if one == unit for c in range(max(issued, begin), min(done, end))
    }
    return len(cycles) / (end - begin)


@pytest.mark.parametrize("commands", [pytest.param(30, marks=pytest.mark.slow), 9000])
def test_trace_page(browser: Browser, tmp_path: Path, commands: int) -> None:
    rows = write_log(tmp_path / "log.csv", commands)
    path = tmp_path / "chart.html"
    draw_html(read_log(tmp_path / "log.csv"), path)
    fits_any_window(browser, path)
    begin, end = min(r[1] for r in rows), max(r[3] for r in rows) + 1
    shares = "[...document.querySelectorAll('.chart .label span')].map((e) => parseFloat(e.textContent))"
    for window in range(3):
        view = [int(v) for v in browser.evaluate("document.body.dataset.view").split(",")]
        assert (view == [begin, end]) == (window == 0)
        for share, unit in zip(browser.evaluate(shares), ("load", "execute", "store"), strict=True):
            assert share / 100 == pytest.approx(busy(rows, unit, *view), abs=0.02)
        browser.evaluate("document.getElementById('in').click()")
        browser.evaluate("document.getElementById('left').click()")
    # the first command, from close by, says what it is
    for _ in range(30):
        browser.evaluate("document.getElementById('in').click(); document.getElementById('left').click()")
    first = min(rows, key=lambda row: row[1])
    place = ("load", "execute", "store").index(first[0])
    box = browser.evaluate(
        f"(() => {{ const b = document.querySelectorAll('canvas')[{place}].getBoundingClientRect(); return [b.x, b.y, b.width]; }})()"
    )
    view = [int(v) for v in browser.evaluate("document.body.dataset.view").split(",")]
    x = box[0] + box[2] * (first[1] + 0.5 - view[0]) / (view[1] - view[0])
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=box[1] + 44)
    tip = browser.wait_for("document.getElementById('tip').textContent.trim()")
    assert f"allocated {first[1]:,}, issued {first[2]:,}, done {first[3]:,}" in tip
    assert tip.startswith(("MVIN", "PRELOAD", "MVOUT")[place])
    numbers = browser.evaluate(
        "[...document.querySelectorAll('#commands tbody tr')].map((r) => r.cells[1].textContent)"
    )
    assert [int(n.replace(",", "")) for n in numbers] == [commands // 3] * 3
    painted = browser.evaluate(
        "[...document.querySelectorAll('canvas')].map((c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v))"
    )
    assert painted == [True] * 3
    assert browser.problems == []
    assert set(browser.requests) == {path.resolve().as_uri()}


def operator(number: int, name: str, start: int) -> OperatorProfile:
    """What a simulation measures of one operator."""
    cycles = 1000 + 500 * number
    counters = {
        "accelerator_load_busy_cycles": cycles // 2,
        "accelerator_execute_busy_cycles": cycles - 100,
        "accelerator_store_busy_cycles": cycles // 8,
        "accelerator_mesh_cycles": cycles // 3,
        "host_stall_command": cycles // 4,
        "host_stall_fence": cycles // 5,
        "host_stall_response": 0,
        "dram_read_bytes": 4096 * number,
        "dram_write_bytes": 1024,
    }
    return OperatorProfile(
        start, cycles, counters, {}, name, 1, f"layer {name}", "accelerator", cycles * 1.02
    )


def network_page(path: Path, names: list[str]) -> None:
    """The page of a made-up run; it needs of a program no more than names of its steps."""
    operators, start = [], 0
    for number, name in enumerate(names):
        operators.append(operator(number, name, start))
        start += operators[-1].cycles
    lowered = SimpleNamespace(
        steps=[SimpleNamespace(operator=name, function=f"net_{i % 3}") for i, name in enumerate(names)],
        layers={"net_0": 1},
        codes={"net_1": SimpleNamespace(kind="addition")},
        groups={},
    )
    built: Any = SimpleNamespace(lowered=lowered, network=SimpleNamespace(name=names[0]))
    run: Any = SimpleNamespace(operators=operators, steps=operators)
    draw_network_html(built, run, path)


def test_network_page(browser: Browser, tmp_path: Path) -> None:
    names = ["resnet", *(f"layer{i // 4}.{i % 4}.conv{i}" for i in range(40))]
    path = tmp_path / "network.html"
    network_page(path, names)
    fits_any_window(browser, path)
    column = "[...document.querySelectorAll('tbody tr')].map((r) => r.cells[1].textContent)"
    before = [int(text.replace(",", "")) for text in browser.evaluate(column)]
    assert before == [1000 + 500 * n for n in range(41)]
    browser.evaluate("document.querySelectorAll('th button')[1].click()")
    assert [int(text.replace(",", "")) for text in browser.evaluate(column)] == before[::-1]
    assert browser.evaluate("document.querySelector('tfoot td').textContent") == "all operators"
    assert browser.evaluate("document.querySelectorAll('#chart .bars path').length") > 41 * 4
    assert browser.problems == []
    assert set(browser.requests) == {path.resolve().as_uri()}


def test_hostile_names_of_operators(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "network.html"
    network_page(path, [ATTACK, ATTACK + "2"])
    browser.requests.clear()
    browser.problems.clear()
    browser.open(path)
    browser.wait_for("document.body.dataset.ready")
    assert browser.evaluate("window.attacked") is None
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.querySelector('h1').textContent") == ATTACK
    assert browser.problems == []
    assert browser.requests == [path.resolve().as_uri()]


def test_a_core_that_tells_its_fences_only_is_shown_without_its_other_waits() -> None:
    """As the SoC's does."""
    told = operator(0, "layer", 0)
    counters = {
        name: n
        for name, n in told.counters.items()
        if name not in ("host_stall_command", "host_stall_response")
    }
    run: Any = SimpleNamespace(operators=[replace(told, counters=counters)], steps=[])
    rows = table_rows(run)
    assert len(rows) == 2
    for row in rows:
        shown = dict(zip(COLUMNS, row, strict=True))
        assert (shown["host waits: command"], shown["fence"], shown["other"]) == ("", "20 %", "")
