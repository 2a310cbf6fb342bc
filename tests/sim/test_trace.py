"""Reading command logs and drawing them."""

import re
from pathlib import Path

import pytest

from accel.isa import encode
from common.errors import InputError
from sim.trace import LogEntry, draw_html, draw_image, read_log

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


def test_page_is_offline_and_shows_each_command(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "chart.html"
    draw_html(read_log(log), target)
    text = target.read_text()
    assert not re.search(r'<(script|link)[^>]*(src|href)="?http', text)
    data = text[text.rindex("const [traces, layout]") :]
    assert data.count("allocated 10, issued 12, done 40") == 2  # waiting and running
    assert "allocated 55, not issued, not done" in data
    # two loads at a time need two lanes
    assert '"load 0","load 1","execute 0","store 0"' in data


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
    many.write_text(HEAD + "".join(line("load", "MVIN", i, i, i) for i in range(5001)))
    with pytest.raises(InputError, match="5,001 commands are too many"):
        draw_html(read_log(many), tmp_path / "c.html")
