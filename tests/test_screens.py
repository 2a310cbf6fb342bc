"""Pictures in the documentation are those that `tests.screens` takes, and show the study that they are taken of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

import baco
from baco.display.console import amount
from baco.exploration.report.study_report import report_data
from baco.exploration.report.units import scientific, si
from tests.browser import NAMES, find_browser
from tests.screens import LOG, OUT, SHOTS, STUDY, made_from, made_from_of, take_pictures

ROOT = OUT.parents[1]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]


def test_every_picture_of_the_documentation_is_taken_by_the_command() -> None:
    named = {
        (page.parent / name).resolve()
        for page in PAGES
        for name in re.findall(r"[\w./-]*pictures/[\w.-]+\.\w+", page.read_text("utf-8"))
        if not name.startswith("//")
    }
    taken = {(OUT / f"{name}.png").resolve() for name in SHOTS}
    assert {path for path in named if path.parent == OUT} == named
    assert named == taken
    assert set(OUT.iterdir()) == taken
    guide = (ROOT / "docs/report.md").read_text("utf-8")
    assert "python -m tests.screens" in guide
    assert STUDY in guide.replace("\n", " ")
    assert LOG in guide.replace("\n", " ")


@pytest.mark.parametrize("name", [name for name, shot in SHOTS.items() if not shot.chart])
def test_pictures_show_what_the_text_beside_them_says(name: str) -> None:
    """All are of one study, made by the command that README gives, with the figures that README prints."""
    made = made_from_of(OUT / f"{name}.png")
    assert made["command"].startswith(STUDY)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert STUDY in readme
    product = f"{made['edp_uj_cycles']:.4e} µJ·cycles, {si(made['edp_js'], 'J·s')}"
    assert f"EDP               {product} ({made['source']})" in readme
    assert f"latency           {made['latency_cycles']:.4e} cycles" in readme
    assert f"energy            {amount(made['energy_uj'])} µJ" in readme
    assert f"area              {made['area_mm2']:.4g} mm²" in readme


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_command_takes_all_pictures_of_the_study_that_it_is_given(tmp_path: Path) -> None:
    if find_browser() is None:
        pytest.skip(f"no browser found (looked for BACO_BROWSER, {', '.join(NAMES)})")
    table = tmp_path / "little.yaml"
    table.write_text(
        "name: little_net\nlayers:\n"
        "  - {type: gemm, M: 64, K: 96, N: 32, name: first}\n"
        "  - {type: gemm, M: 96, K: 64, N: 80, name: second}\n"
        "  - {type: gemm, M: 32, K: 48, N: 112, name: third}\n"
    )
    found = baco.explore(table, samples=60, out=tmp_path / "study", progress=False, seed=3)
    log = tmp_path / "log.csv"
    baco.compile(baco.gemm(64, 48, 32)).run("timed", log=log)
    out = tmp_path / "pictures"
    texts = take_pictures(tmp_path / "study", log, out)
    assert {path.name for path in out.iterdir()} == {f"{name}.png" for name in SHOTS}
    data = report_data(tmp_path / "study" / "study.sqlite")
    cost = data.best.cost
    assert cost == found.best.cost
    for name, shot in SHOTS.items():
        with Image.open(out / f"{name}.png") as image:
            assert image.size == (shot.width, shot.height)
            assert len(image.convert("RGB").getcolors(1 << 24) or []) > 8  # not an empty page
        if not shot.chart:
            assert made_from_of(out / f"{name}.png") == made_from(data)
    for name in ("report", "report-dark-390"):
        assert "little_net" in texts[name]
        for figure in (scientific(cost.edp), si(cost.energy_pj * 1e-12, "J")):
            assert figure in texts[name]
    ids = re.findall(r"^#(\d+) · ", texts["compare"], re.MULTILINE)
    assert int(ids[0]) == data.best_index
    assert scientific(data.candidates[int(ids[1])].cost.edp) in texts["compare"]
    for name in ("bottlenecks", "graph"):
        assert all(operator in texts[name] for operator in ("first", "second", "third")), name
    assert "Loop nest" in texts["layer"]
    assert any(
        "L3[" in line and any(line.split("'")[1] == one for one in data.mapping_texts[data.best_index])
        for line in texts["layer"].splitlines()
        if "--mapping" in line and "'" in line
    )
    commands = [
        line for line in log.read_text().splitlines() if line.split(",")[0] in ("load", "execute", "store")
    ]
    assert f"{len(commands):,} commands" in texts["trace"]
