"""Pictures of the pages, for the documentation: `python -m tests.screens FOLDER_OF_A_STUDY [LOG.csv]` writes docs/pictures.

The study is one of `explore --network resnet50 --objective edp`, the log one of `baco run --gemm 256x256x256 -e rtl --log`. A
browser is needed (tests/browser.py). Each picture is a PNG below 300 kB.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from baco.exploration.report.page import page_html
from baco.exploration.report.study_report import report_data
from baco.sim.trace import draw_html, read_log
from tests.browser import Browser, Look, find_browser

OUT = Path(__file__).parents[1] / "docs" / "pictures"
_MOST_BYTES = 300_000


def main(study: Path, log: Path | None) -> None:
    """Take all pictures."""
    program = find_browser()
    if program is None:
        raise SystemExit("a browser is needed: install Chromium or Chrome, or set BACO_BROWSER")
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.html"
        report.write_text(page_html(report_data(study / "study.sqlite")), "utf-8")
        trace = Path(scratch) / "trace.html"
        if log is not None:
            draw_html(read_log(log), trace)
        with Browser(program, Path(scratch) / "profile") as browser:
            take = _taker(browser)
            take("report", report, height=1250)
            take("report-dark-420", report, width=420, height=1500, look="dark")
            take("compare", report, address="#pin=PINS", at="compare-section", height=1000)
            take("bottlenecks", report, at="h-layers", height=1080)
            take("layer", report, press="#layers tr:nth-child(3) button.link", height=1150)
            take("graph", report, at="h-graph", height=760)
            if log is not None:
                take("trace", trace, height=980)


def _taker(browser: Browser) -> Callable[..., None]:
    def take(
        name: str,
        page: Path,
        *,
        width: int = 1200,
        height: int = 1000,
        look: Look = "light",
        address: str = "",
        at: str = "",
        press: str = "",
    ) -> None:
        """A picture of the window's content, scrolled to the element `at`, after a click on `press`."""
        browser.look(width, height, look=look)
        browser.open(page, "#")
        browser.wait_for("document.body.dataset.ready")
        if address:  # the best and the second best accelerator beside Gemmini's
            second = browser.evaluate(
                "document.querySelectorAll('#designs tbody button')[1].textContent.slice(1)"
            )
            best = browser.evaluate("document.body.dataset.shown")
            browser.open(page, address.replace("PINS", f"{best},{second},gemmini"))
            browser.wait_for("document.body.dataset.ready")
        if press:
            browser.evaluate(f"document.querySelector({press!r}).click()")
        if at:
            browser.evaluate(f"document.getElementById({at!r}).scrollIntoView()")
        problems = browser.layout_problems()
        assert problems == [], problems
        raw = Path(page.parent / "raw.png")
        browser.screenshot(raw, whole=False)
        data = io.BytesIO()
        few = (
            Image.open(raw).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        )
        few.save(data, "png", optimize=True)
        if len(data.getvalue()) > _MOST_BYTES:
            raise SystemExit(f"{name}.png has {len(data.getvalue()):,} bytes, more than {_MOST_BYTES:,}")
        (OUT / f"{name}.png").write_bytes(data.getvalue())
        print(f"{name}.png: {len(data.getvalue()):,} bytes")

    return take


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
