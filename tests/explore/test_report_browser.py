"""`report.html` in a real browser: it draws, reacts to the mouse, complains of nothing and calls nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from explore.report import ReportData
from explore.report.page import page_html
from tests.browser import NAMES, Browser, find_browser
from tests.explore import report_helpers as helpers

pytestmark = pytest.mark.timeout(180)

ATTACK = (
    '<img src=http://127.0.0.1:9/x onerror="window.attacked=1"></script><script>window.attacked=1</script>'
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser found (looked for BACO_BROWSER, {', '.join(NAMES)})")
    with Browser(program, tmp_path_factory.mktemp("profile")) as started:
        yield started


def show(browser: Browser, data: ReportData, folder: Path) -> Path:
    browser.requests.clear()
    browser.problems.clear()
    path = folder / "report.html"
    path.write_text(page_html(data), "utf-8")
    browser.open(path)
    browser.wait_for("document.body.dataset.ready")
    return path


def layer_rows(browser: Browser) -> list[str]:
    script = "[...document.querySelectorAll('#layers tbody tr')].map((r) => r.lastChild.textContent.trim().replace(/ +/g, ' '))"
    return list(browser.evaluate(script))


def expected_rows(data: ReportData, index: int) -> list[str]:
    return [text.replace(" - ", " ") for text in data.mapping_texts[index]]


def test_report_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    data = helpers.report_data(candidates=20, layers=10, networks=("resnet50", "bert_base"))
    path = show(browser, data, tmp_path)

    for plot in ("front", "history", "layers", "roof"):
        size = browser.evaluate(
            f"(() => {{ const b = document.querySelector('#plot-{plot} svg.main-svg').getBoundingClientRect();"
            " return [b.width, b.height]; })()"
        )
        assert min(size) > 200, plot
    # every candidate is a point; the best and the one shown are drawn once more
    points = browser.evaluate("document.querySelectorAll('#plot-front .scatterlayer .point').length")
    assert points == len(data.candidates) + 2
    assert browser.evaluate("document.querySelectorAll('#plot-layers .bars path').length") > len(data.tasks)
    # nothing is wider than the window
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")

    assert layer_rows(browser) == expected_rows(data, data.best_index)
    xs = [c.cost.latency_cycles for c in data.candidates]
    other = max(
        (i for i in range(20) if i != data.best_index), key=lambda i: abs(xs[i] - xs[data.best_index])
    )
    browser.evaluate("document.getElementById('plot-front').scrollIntoView({block: 'center'})")
    x, y = browser.evaluate(
        "(() => { const plot = document.getElementById('plot-front');"
        f" for (const group of plot.querySelectorAll('.scatterlayer .trace')) for (const p of group.querySelectorAll('.point'))"
        f" if (p.__data__ && p.__data__.data === {other}) {{ const b = p.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }}"
        " return [0, 0]; })()"
    )
    assert x > 0, "the point to click was not found"
    browser.click(x, y)
    shown = int(
        browser.wait_for(
            f"document.body.dataset.shown !== '{data.best_index}' && document.body.dataset.shown"
        )
    )
    assert layer_rows(browser) == expected_rows(data, shown)
    assert layer_rows(browser) != expected_rows(data, data.best_index)
    assert browser.evaluate("document.getElementById('showing-name').textContent").startswith(f"#{shown} ")
    hover = browser.evaluate("document.querySelector('#plot-front .hoverlayer').textContent")
    assert "latency" in hover
    assert f"#{shown}" in hover
    assert shown == other

    browser.evaluate("document.getElementById('back').click()")
    browser.wait_for(f"document.body.dataset.shown === '{data.best_index}'")
    assert layer_rows(browser) == expected_rows(data, data.best_index)

    assert browser.problems == []
    assert browser.requests == [path.resolve().as_uri()]


def test_hostile_names_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    path = show(browser, helpers.hostile(helpers.report_data(candidates=4), ATTACK), tmp_path)
    browser.evaluate("document.getElementById('all-bars').click()")
    assert browser.evaluate("window.attacked") is None
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.querySelector('h1').textContent") == ATTACK
    assert browser.problems == []
    assert browser.requests == [path.resolve().as_uri()]


@pytest.mark.parametrize(
    "options", [{"candidates": 1, "layers": 1}, {"candidates": 1000, "layers": 2}, {"layers": 200}]
)
def test_extreme_sizes_in_a_browser(browser: Browser, tmp_path: Path, options: dict[str, int]) -> None:
    data = helpers.report_data(**options)
    show(browser, data, tmp_path)
    assert len(layer_rows(browser)) == len(data.tasks)
    points = browser.evaluate("document.querySelectorAll('#plot-front .scatterlayer .point').length")
    assert points == len(data.candidates) + 2
    assert browser.problems == []


def test_the_network_is_closed_to_the_page(browser: Browser, tmp_path: Path) -> None:
    """The test above would notice a request: the policy of the page blocks one and the browser says so."""
    show(browser, helpers.report_data(), tmp_path)
    outcome = browser.evaluate("fetch('http://127.0.0.1:9/').then(() => 'open', (e) => e.name)")
    assert outcome == "TypeError"
    assert any("Content Security Policy" in problem for problem in browser.problems)
