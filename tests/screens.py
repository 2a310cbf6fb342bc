"""Pictures of the pages, for the documentation: `python -m tests.screens [STUDY [LOG.csv]]` writes docs/pictures.

Without arguments it makes what they show by the commands `STUDY` and `LOG` (minutes); with them it takes the folder of
such a study and such a log. A browser is needed (tests/browser.py). Each picture is a PNG below 300 kB, which keeps in a
text `baco` what it was made from (`made_from`). `tests/test_screens.py` takes all of them of a small study, and compares
those of the documentation with what it says.
"""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from baco.exploration.report import ReportData
from baco.exploration.report.page import page_html
from baco.exploration.report.study_report import report_data
from baco.sim.trace import draw_html, read_log
from tests.browser import Browser, Look, find_browser

OUT = Path(__file__).parents[1] / "docs" / "pictures"
STUDY = "explore --network resnet50 --objective edp"
LOG = "baco run --gemm 256x256x256 --style explicit --engine rtl"
_MOST_BYTES = 300_000


@dataclass(frozen=True)
class Shot:
    """One picture: of a window's content, scrolled to the element `at`, after a click on `press`, of the report or the chart."""

    width: int = 1200
    height: int = 1000
    look: Look = "light"
    pins: bool = False
    at: str = ""
    press: str = ""
    chart: bool = False


SHOTS = {
    "report": Shot(height=1300),
    "report-dark-390": Shot(width=390, height=1500, look="dark"),
    "compare": Shot(pins=True, at="compare-section"),
    "bottlenecks": Shot(at="h-layers", height=1300),
    "layer": Shot(press="#layers tbody tr:nth-child(3) button.link", height=1150),
    "graph": Shot(at="h-graph", height=760),
    "trace": Shot(chart=True, height=980),
}


def take_pictures(study: Path, log: Path, out: Path) -> dict[str, str]:
    """Write all pictures to a folder, of the study in `study` and the log of commands `log`.

    Returns for each the text that was in view. Raises SystemExit where no browser is found or a picture is too large, and
    AssertionError where a page is not laid out well.
    """
    program = find_browser()
    if program is None:
        raise SystemExit("a browser is needed: install Chromium or Chrome, or set BACO_BROWSER")
    data = report_data(study / "study.sqlite")
    texts = {}
    with tempfile.TemporaryDirectory() as scratch:
        report, chart = Path(scratch) / "report.html", Path(scratch) / "trace.html"
        report.write_text(page_html(data), "utf-8")
        draw_html(read_log(log), chart)
        with Browser(program, Path(scratch) / "profile") as browser:
            for name, shot in SHOTS.items():
                raw = Path(scratch) / "raw.png"
                texts[name] = _take(browser, shot, chart if shot.chart else report, raw)
                content = _small_png(raw, {} if shot.chart else made_from(data))
                if len(content) > _MOST_BYTES:
                    raise SystemExit(f"{name}.png has {len(content):,} bytes, more than {_MOST_BYTES:,}")
                out.mkdir(exist_ok=True)
                (out / f"{name}.png").write_bytes(content)
    return texts


def made_from(data: ReportData) -> dict[str, Any]:
    """What a report's picture shows, to be compared with what a text says beside it."""
    cost = data.best.cost
    return {
        "command": data.command,
        "edp_uj_cycles": cost.edp,
        "edp_js": cost.edp_js(data.best.accelerator.clock_mhz),
        "latency_cycles": cost.latency_cycles,
        "energy_uj": cost.energy_uj,
        "area_mm2": cost.area_mm2,
        "source": cost.source,
    }


def made_from_of(picture: Path) -> dict[str, Any]:
    """What `made_from` said when a picture was taken; nothing for a picture that is not of a report."""
    with Image.open(picture) as image:
        return dict(json.loads(image.info["baco"]))


def _take(browser: Browser, shot: Shot, page: Path, raw: Path) -> str:
    browser.look(shot.width, shot.height, look=shot.look)
    browser.open(page, "#")
    browser.wait_for("document.body.dataset.view || document.body.dataset.ready")
    if shot.pins:  # the best and the second best accelerator beside Gemmini's
        names = "[...document.querySelectorAll('#designs tbody button')].map((e) => e.textContent)"
        second = browser.evaluate(f"{names}.filter((name) => name.startsWith('#'))[1].slice(1)")
        best = browser.evaluate("document.body.dataset.shown")
        browser.open(page, f"#pin={best},{second},gemmini")
        browser.wait_for("document.body.dataset.ready")
    if shot.press:
        browser.evaluate(f"document.querySelector({shot.press!r}).click()")
    if shot.at:
        browser.evaluate(f"document.getElementById({shot.at!r}).scrollIntoView()")
    problems = browser.layout_problems()
    assert problems == [], problems
    browser.screenshot(raw, whole=False)
    inside = (
        "[...document.querySelectorAll('body *')].filter((e) => e.childElementCount === 0 && e.checkVisibility())"
        ".filter((e) => { const b = e.getBoundingClientRect(); return b.width && b.bottom > 0 && b.top < innerHeight; })"
        ".map((e) => e.textContent.trim()).filter(Boolean).join('\\n')"
    )
    return str(browser.evaluate(inside))


def _small_png(raw: Path, made: dict[str, Any]) -> bytes:
    few = Image.open(raw).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    notes = PngInfo()
    notes.add_text("baco", json.dumps(made))
    data = io.BytesIO()
    few.save(data, "png", optimize=True, pnginfo=notes)
    return data.getvalue()


def main(arguments: list[str]) -> None:
    """Take all pictures, after making what they show where that is not given."""
    with tempfile.TemporaryDirectory() as scratch:
        study = Path(arguments[0] if arguments else scratch + "/study")
        log = Path(arguments[1] if len(arguments) > 1 else scratch + "/log.csv")
        if not arguments:
            _run("explore", STUDY, "--out", str(study))
        if len(arguments) < 2:
            _run("baco", LOG, "--log", str(log))
        take_pictures(study, log, OUT)
    for path in sorted(OUT.glob("*.png")):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


def _run(name: str, command: str, *more: str) -> None:
    program = [sys.executable, "-m", "baco", *([] if name == "baco" else [name])]
    subprocess.run([*program, *shlex.split(command)[1:], *more], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
