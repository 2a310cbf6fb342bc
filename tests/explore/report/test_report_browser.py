"""`report.html` in a real browser: it draws, reacts to the mouse, complains of nothing and calls nobody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from baco.exploration.progress import Budget
from baco.exploration.report import ReportData
from baco.exploration.report.live import PROGRESS_PAGE, LivePage
from baco.exploration.report.page import page_html
from tests.browser import ATTACK, LOOKS, Browser
from tests.explore import report_helpers as helpers
from tests.seeds import some

pytestmark = pytest.mark.timeout(180)


def show(browser: Browser, data: ReportData, folder: Path, address: str = "") -> Path:
    browser.requests.clear()
    browser.problems.clear()
    path = folder / "report.html"
    path.write_text(page_html(data), "utf-8")
    browser.open(path, address)
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
    browser.evaluate(
        "document.getElementById('zoom-all').click(); document.getElementById('every-mapping').click()"
    )
    points = "document.querySelectorAll('#plot-front .scatterlayer .point').length"
    browser.wait_for(f"{points} === {len(data.candidates) + 3}")  # Gemmini's machine too
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
    "options",
    [
        {"candidates": 1, "layers": 1},
        {"candidates": 200, "layers": 2},
        pytest.param({"candidates": 1000, "layers": 2}, marks=pytest.mark.slow),
        pytest.param({"layers": 200}, marks=pytest.mark.slow),
    ],
)
def test_extreme_sizes_in_a_browser(browser: Browser, tmp_path: Path, options: dict[str, int]) -> None:
    data = helpers.report_data(**options)
    show(browser, data, tmp_path)
    assert len(layer_rows(browser)) == len(data.tasks)
    browser.evaluate(
        "document.getElementById('zoom-all').click(); document.getElementById('every-mapping').click()"
    )
    points = "document.querySelectorAll('#plot-front .scatterlayer .point').length"
    browser.wait_for(f"{points} === {len(data.candidates) + 3}")
    # tables make their rows as they are asked for
    assert browser.evaluate("document.querySelectorAll('#designs tbody tr').length") <= 11
    assert browser.problems == []


@pytest.mark.parametrize("width", some(1, [390, 1440]))
def test_layout(browser: Browser, tmp_path: Path, width: int) -> None:
    """Nothing is wider than the window, cut off or on top of something else: two networks, long names, designs side by
    side, a design other than the best in view; with everything unfolded; with a layer open; light, dark, printed."""
    label = "encoder.block.attention.self.query_projection_"
    data = helpers.report_data(candidates=14, layers=12, networks=("resnet50", "bert_base"), label=label)
    browser.look(width)
    show(browser, data, tmp_path, f"#design=2&pin=2,{data.best_index},5,gemmini")
    assert browser.evaluate("document.getElementById('compare-section').hidden") is False
    assert browser.layout_problems() == []
    browser.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.evaluate("document.getElementById('zoom-all').click()")
    for look in LOOKS:
        browser.look(718 if look == "print" else width, look=look)  # A4 between margins
        assert browser.layout_problems() == [], look
        ink = browser.evaluate("getComputedStyle(document.querySelector('#plot-roof .xtitle')).fill")
        assert (min(int(part) for part in re.findall(r"[0-9]+", ink)) > 128) == (look == "dark")
    browser.look(width)
    browser.evaluate("document.querySelector('#layers button.link').click()")
    assert browser.evaluate("document.getElementById('layer').open") is True
    assert browser.layout_problems() == []
    assert browser.problems == []
    browser.look(1300)


def test_layout_of_the_page_that_lives(browser: Browser, tmp_path: Path) -> None:
    data = helpers.report_data(candidates=30)
    page = LivePage(tmp_path, "resnet50, bert_base", data.objective)
    page.note("a remark " * 20)
    for summary in data.summaries:
        page.update(summary, Budget(5000, None, None, len(data.tasks)))
    (tmp_path / PROGRESS_PAGE).write_text(
        (tmp_path / PROGRESS_PAGE).read_text("utf-8").replace('http-equiv="refresh"', ""), "utf-8"
    )  # or it would be shown anew while it is looked at
    browser.problems.clear()
    for width in (1440, 390):
        browser.open(tmp_path / PROGRESS_PAGE)
        browser.wait_for("document.body.dataset.ready")
        for look in LOOKS:
            browser.look(width, look=look)
            assert browser.layout_problems() == []
    assert browser.problems == []
    browser.look(1300)


def test_what_is_wrong_with_a_layout_is_seen(browser: Browser, tmp_path: Path) -> None:
    """The check that the others rely on finds each fault put into a page that has none."""
    show(browser, helpers.report_data(), tmp_path)
    assert browser.layout_problems() == []
    heading = "document.querySelector('h1')"
    for fault, words in (
        (f"{heading}.style.width = '3000px'", "wide"),
        (f"{heading}.style.cssText = 'width:20px;overflow:hidden;white-space:nowrap'", "cut off"),
        (f"{heading}.style.cssText = 'position:relative;top:30px'", "overlap"),
        ("document.querySelector('#plot-roof .xtitle').setAttribute('x', -20)", "cut off"),
    ):
        browser.evaluate(fault)
        found = browser.layout_problems()
        assert any(words in one for one in found), (fault, found)
        browser.evaluate(f"{heading}.style.cssText = ''")


#: Of every plot: what of it, its axes, legend and ticks included, ends where (pixels from the left).
EDGES = """[...document.querySelectorAll('.plot')].map((plot) => {
  const texts = [...plot.querySelectorAll('svg text')].map((text) => text.getBoundingClientRect()).filter((box) => box.width);
  const frame = plot.getBoundingClientRect(), drawing = plot.querySelector('svg.main-svg').getBoundingClientRect();
  return { id: plot.id, right: frame.right, left: frame.left, drawing: drawing.right, texts: Math.max(...texts.map((box) => box.right)), first: Math.min(...texts.map((box) => box.left)) };
})"""


def outside(browser: Browser, right: float) -> list[object]:
    """Plots that are wider than what holds them, or end beyond `right`."""
    found = browser.evaluate(EDGES)
    assert len(found) == 4
    return [
        one
        for one in found
        if max(one["drawing"], one["texts"]) > one["right"] + 1
        or one["first"] < one["left"] - 1
        or one["right"] > right
    ]


@pytest.mark.parametrize("bars", some(1, [True, False]))
def test_plots_end_before_the_right_edge_of_a_phone(browser: Browser, tmp_path: Path, bars: bool) -> None:
    """A scroll bar that comes when the page gets long takes room from plots that are drawn by then."""
    browser.call("Emulation.setScrollbarsHidden", hidden=not bars)
    try:
        for width in (390, 1440):
            browser.look(width, 844)
            show(browser, helpers.report_data(layers=12, candidates=14), tmp_path)
            browser.look(390, 844)
            browser.layout_problems()  # waits for what answers to the window
            room = browser.evaluate("document.documentElement.clientWidth")
            assert room == (375 if bars else 390)
            assert outside(browser, room) == []
            # something beside the plots makes them narrower, the window as it was
            browser.evaluate("document.querySelector('main').style.paddingRight = '60px'")
            browser.layout_problems()
            assert outside(browser, room - 60) == []
    finally:
        browser.call("Emulation.setScrollbarsHidden", hidden=True)
        browser.look(1300)


def test_on_a_phone_costs_are_in_view_and_tables_say_that_they_go_on(
    browser: Browser, tmp_path: Path
) -> None:
    browser.look(390, 844)
    show(browser, helpers.report_data(layers=12, candidates=14), tmp_path)
    ends = browser.evaluate(
        "[...document.querySelectorAll('#designs thead th')].slice(0, 4).map((head) => [head.textContent, head.getBoundingClientRect().right])"
    )
    assert [re.split(", | ±", title)[0] for title, _ in ends] == ["Design", "Latency", "Energy", "EDP"]
    assert max(right for _, right in ends) <= browser.evaluate(
        "document.querySelector('.scroll').getBoundingClientRect().right"
    )
    for heading in ("layers", "host", "networks"):
        assert browser.evaluate(
            f"[...document.querySelectorAll('#{heading} thead th')].filter((e) => e.getClientRects().length).slice(0, 3)"
            ".every((e) => e.getBoundingClientRect().right <= innerWidth)"
        ), heading
    # the shade at the right edge, where there is more, is there in both schemes
    for look in ("light", "dark"):
        browser.look(390, 844, look=look)
        assert "rgb" in browser.evaluate(
            "getComputedStyle(document.querySelector('#designs').parentElement).backgroundImage"
        )
    # a window that grows shows the columns in the other order again
    browser.look(1440)
    browser.wait_for("document.querySelector('#designs thead th').textContent === 'Compare'")
    browser.look(1300)


def test_paper_shows_every_row_with_its_name(browser: Browser, tmp_path: Path) -> None:
    browser.look(1440)
    data = helpers.report_data(candidates=15, layers=25)
    show(browser, data, tmp_path, "#pin=1,2")
    browser.look(718, look="print")  # A4 between margins
    assert browser.layout_problems() == []
    assert outside(browser, 719) == []
    cells = browser.evaluate(
        "[...document.querySelectorAll('#designs tbody tr')].map((row) => [...row.cells].find((cell) => cell.innerText.trim()).innerText.trim())"
    )
    heads = {one.accelerator.config_hash for one in data.candidates}
    assert len(cells) == len(heads) + 1
    assert sum(bool(re.fullmatch("#[0-9]+", text)) for text in cells) == len(heads)
    assert browser.evaluate("document.querySelectorAll('#layers tbody tr').length") == len(data.tasks)
    graph = browser.evaluate(
        "(() => { const box = document.getElementById('graph'); return [box.querySelectorAll('.unit').length, box.scrollHeight - box.clientHeight]; })()"
    )
    assert graph == [len(data.workload.networks[0].operators), 0]
    browser.look(1440)
    browser.layout_problems()
    assert browser.evaluate("document.querySelectorAll('#designs tbody tr:not(.more)').length") == 10
    browser.look(1300)


def test_printing_scales_plots_to_the_paper(browser: Browser, tmp_path: Path) -> None:
    browser.look(1400)
    show(browser, helpers.report_data(), tmp_path)
    seen = "window.seen = []; addEventListener('beforeprint', () => seen.push([...document.querySelectorAll('.plot')].map((plot) => plot.querySelector('svg.main-svg').getAttribute('viewBox'))))"
    browser.evaluate(seen)
    assert len(browser.call("Page.printToPDF", printBackground=True)["data"]) > 50_000
    (boxes,) = browser.evaluate("seen")
    assert [float(box.split()[2]) for box in boxes] == [680] * 4
    assert browser.evaluate(
        "[...document.querySelectorAll('svg.main-svg')].every((one) => !one.hasAttribute('viewBox') && one.getBoundingClientRect().width !== 680)"
    )


def test_the_network_is_closed_to_the_page(browser: Browser, tmp_path: Path) -> None:
    """The test above would notice a request: the policy of the page blocks one and the browser says so."""
    show(browser, helpers.report_data(), tmp_path)
    outcome = browser.evaluate("fetch('http://127.0.0.1:9/').then(() => 'open', (e) => e.name)")
    assert outcome == "TypeError"
    assert any("Content Security Policy" in problem for problem in browser.problems)
