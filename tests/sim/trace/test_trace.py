"""Reading command logs and drawing them."""

import base64
import itertools
import json
import random
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from baco.accel.isa import encode
from baco.common.errors import InputError
from baco.sim.trace import LogEntry, draw_html, draw_image, read_log, write_perfetto
from baco.sim.trace.chart import Bar, busy_spans

HEAD = "# baco command log 1, dim 16\nunit,id,funct,rs1,rs2,allocated,issued,done\n"


def line(unit: str, name: str, allocated: int, issued: int | str, done: int | str, entry: int = 0) -> str:
    one = encode(name)
    return f"{unit},{entry},{one.funct},{one.rs1:#x},{one.rs2:#x},{allocated},{issued},{done}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(
        HEAD
        + line("front", "MVIN", 5, "", "")
        + line("load", "MVIN", 10, 12, 40, 3)
        + line("load", "MVIN", 11, 13, 50)
        + line("execute", "PRELOAD", 20, 50, 60)
        + line("store", "MVOUT", 55, "", "")
    )
    return path


def test_read(log: Path) -> None:
    found = read_log(log)
    assert found.dim == 16
    assert found.end == 60
    assert [entry.unit for entry in found.entries] == ["front", "load", "load", "execute", "store"]
    one = encode("MVIN")
    assert found.entries[1] == LogEntry("load", 3, one.funct, one.rs1, one.rs2, 10, 12, 40)
    assert found.entries[3].name == "PRELOAD"
    assert (found.entries[4].issued, found.entries[4].done) == (None, None)


def test_windows(log: Path) -> None:
    found = read_log(log)
    assert [e.allocated for e in found.window(0, None)] == [10, 11, 20, 55]
    assert [e.allocated for e in found.window(45, 55)] == [11, 20]
    assert [e.allocated for e in found.window(1000, None)] == [55]  # it never ended


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_images(log: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"chart{suffix}"
    draw_image(read_log(log), target)
    magic = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert target.read_bytes().startswith(magic)


def page_data(path: Path) -> dict[str, Any]:
    """What a page's script unpacks."""
    found = re.search(r'<script type="text/plain" id="packed">([^<]*)<', path.read_text())
    assert found is not None
    return dict(json.loads(zlib.decompress(base64.b64decode(found[1]))))


def test_page_is_offline_and_has_each_command(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "chart.html"
    draw_html(read_log(log), target)
    text = target.read_text()
    assert not re.search(r'<(script|link)[^>]*(src|href)="?http', text)
    assert "default-src 'none'" in text
    data = page_data(target)
    starts = list(itertools.accumulate(data["allocated"]))
    assert starts == [10, 11, 20, 55]
    issued = [start + wait for start, wait in zip(starts, data["wait"], strict=True)]
    assert issued == [12, 13, 50, 60]  # what has not come to pass ends with the log
    assert [at + run for at, run in zip(issued, data["run"], strict=True)] == [40, 50, 60, 60]
    assert data["unfinished"] == [3]
    assert data["texts"][0].startswith("MVIN")
    # two loads at a time need two lanes
    assert data["lane"] == [0, 1, 2, 3]


def test_perfetto(log: Path, tmp_path: Path) -> None:
    write_perfetto(read_log(log), tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(names.values()) == ["load 0", "load 1", "execute 0", "store 0"]
    bars = [(names[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert bars == [
        ("load 0", "MVIN waits", 10, 2),
        ("load 0", "MVIN", 12, 28),
        ("load 1", "MVIN waits", 11, 2),
        ("load 1", "MVIN", 13, 37),
        ("execute 0", "PRELOAD waits", 20, 30),
        ("execute 0", "PRELOAD", 50, 10),
        ("store 0", "MVOUT waits", 55, 5),
    ]
    assert [e["args"].get("unfinished") for e in events if e["ph"] == "X"][-1] is not None
    counters = [(e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert counters == [
        (12, {"load": 1}), (50, {"load": 0}), (50, {"execute": 1}), (60, {"execute": 0})
    ]  # fmt: skip


def test_no_two_events_of_a_thread_overlap(tmp_path: Path) -> None:
    chance = random.Random(5)
    path = tmp_path / "log.csv"
    lines = []
    for unit, name in (("load", "MVIN"), ("execute", "PRELOAD"), ("store", "MVOUT")):
        at = 0
        for _ in range(4000):
            at += chance.randrange(0, 9)
            lines.append(
                line(unit, name, at, at + (wait := chance.randrange(30)), at + wait + chance.randrange(40))
            )
    path.write_text(HEAD + "".join(lines))
    write_perfetto(read_log(path), tmp_path / "t.json")
    draw_html(read_log(path), tmp_path / "c.html")  # 12,000 commands are no problem
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"]:
        if event["ph"] == "X":
            spans.setdefault((event["pid"], event["tid"]), []).append(
                (event["ts"], event["ts"] + event["dur"])
            )
    for mine in spans.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(mine)):
            assert end <= start
    assert len(page_data(tmp_path / "c.html")["lane"]) == 12_000


def test_busy_spans_are_those_counted_cycle_by_cycle() -> None:
    chance = random.Random(2)
    for _ in range(50):
        bars = []
        for _ in range(chance.randrange(1, 12)):
            start = chance.randrange(100)
            bars.append(
                Bar(0, LogEntry("load", 0, 2, 0, 0, start, start, None), start, start + chance.randrange(20))
            )
        cycles = {cycle for bar in bars for cycle in range(bar.issued, bar.done)}
        spans = busy_spans(bars)
        assert {cycle for start, end in spans for cycle in range(start, end)} == cycles
        assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: this is no command log"),
        ("unit,id\n", "1: this is no command log"),
        (HEAD.splitlines()[0] + "\nunit\n", "2: the columns"),
        (HEAD + "load,0,2,0x0,0x0,1,2\n", "3: this line"),
        (HEAD + line("load", "MVIN", 1, 2, 3) + "load,0,2,zz,0x0,1,2,3\n", "4: this line"),
        (HEAD + "lload,0,2,0x0,0x0,1,2,3\n", "3: this line"),
    ],
)
def test_what_is_no_log(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_log(path)


def test_nothing_to_draw_and_unknown_kinds(log: Path, tmp_path: Path) -> None:
    found = read_log(log)
    with pytest.raises(InputError, match="no command was in flight"):
        draw_image(found, tmp_path / "c.png", first=0, until=5)
    with pytest.raises(InputError, match=r"'\.xyz'"):
        draw_image(found, tmp_path / "c.xyz")
    many = tmp_path / "many.csv"
    many.write_text(HEAD + "".join(line("load", "MVIN", i, i, i) for i in range(20_001)))
    with pytest.raises(InputError, match="20,001 commands are too many") as caught:
        draw_image(read_log(many), tmp_path / "c.png")
    assert ".html" in str(caught.value.hint)
    wide = tmp_path / "wide.csv"
    wide.write_text(HEAD + "".join(line("load", "MVIN", 1, 2, 1000) for _ in range(401)))
    with pytest.raises(InputError, match="401 commands at once"):
        draw_html(read_log(wide), tmp_path / "c.html")
