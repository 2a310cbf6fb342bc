"""`report.html` without a browser: what is in the file, and what its script does in a bare JavaScript engine."""

from __future__ import annotations

import base64
import html.parser
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

from baco.common.page import plotly_script
from baco.exploration.report.page import page_html
from tests.explore import report_helpers as helpers

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&lt;{{plotly}}\u2028${x}"


class Page(html.parser.HTMLParser):
    """Tags, attributes and the text of each script, as a browser's tokenizer sees them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._inside: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._inside != "style":
            self.text += data

    def script(self, name: str) -> str:
        return next(text for attributes, text in self.scripts if attributes.get("id") == name)


def test_self_contained_and_small() -> None:
    page = page_html(helpers.report_data(candidates=50, layers=25))
    assert len(page.encode()) < 6_000_000
    parsed = Page(page)
    for tag, attributes in parsed.tags:
        assert not attributes.get("src"), tag
        assert (attributes.get("href") or "data:,") == "data:,"
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]
    assert page.count(plotly_script()[:200]) == 1  # inlined once
    policy = next(a["content"] for t, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy  # nothing opens the network again


@pytest.mark.slow
def test_largest_page_stays_small() -> None:
    label = "transformer.encoder.layers.block.attention.self.query_projection_"
    data = helpers.report_data(candidates=60, layers=200, label=label)
    assert len(page_html(data).encode()) < 7_000_000


def test_hostile_names_stay_text() -> None:
    plain = Page(page_html(helpers.report_data()))
    hostile = Page(page_html(helpers.hostile(helpers.report_data(), ATTACK)))
    assert hostile.tags == plain.tags  # not one element or attribute more
    assert len(hostile.scripts) == len(plain.scripts) == 5
    content = json.loads(hostile.script("data"))
    shown = ATTACK.replace("\u2028", "\\u2028")
    assert content["tasks"][0]["operators"][0] == shown
    assert content["command"] == shown
    assert "<" not in hostile.script("data")
    assert ATTACK.split("\u2028")[0] in hostile.text  # readable where names belong


def test_packed_layers_hold_every_design() -> None:
    data = helpers.report_data(candidates=7, layers=5)
    page = Page(page_html(data))
    content = json.loads(zlib.decompress(base64.b64decode(page.script("packed"))))
    assert sorted(content["rows"], key=int) == [str(i) for i in range(8)]  # the baseline comes last
    for index, candidate in enumerate(data.candidates):
        latency = sum(
            task.count * row["cycles"]
            for task, row in zip(candidate.tasks, content["rows"][str(index)], strict=True)
        )
        assert latency == pytest.approx(candidate.cost.latency_cycles, rel=1e-12)
        texts = [content["mappings"][row["mapping"]]["text"] for row in content["rows"][str(index)]]
        assert texts == data.mapping_texts[index]


class Engine:
    """The page's own script in QuickJS, on a stand-in for the page and for Plotly."""

    def __init__(self, page: str, *, address: str = "", before: str = "") -> None:
        quickjs = pytest.importorskip(
            "quickjs", reason="checks of the page's script need the package quickjs-ng (extra `test`)"
        )
        parsed = Page(page)
        self.context = quickjs.Context()
        self.context.set_time_limit(60)
        ids = [a["id"] for _, a in parsed.tags if a.get("id")]
        self.context.eval(f"var IDS = {json.dumps(ids)};")
        self.context.eval((Path(__file__).parents[2] / "fake_page.js").read_text("utf-8"))
        for name in ("data", "resources", "packed"):
            self.set_text(name, parsed.script(name))
        unpacked = zlib.decompress(base64.b64decode(parsed.script("packed"))).decode()
        # the engine lacks streams: what they would give is handed over ready
        self.context.eval(
            f"var UNPACKED = {json.dumps(unpacked)};"
            "var atob = () => ''; var DecompressionStream = class {};"
            "var Blob = class { constructor(parts) { this.text = parts.join(''); } stream() { return { pipeThrough: () => null }; } };"
            "var Response = class { async text() { return UNPACKED; } };"
        )
        self.context.eval(f"location.hash = {json.dumps(address)}; {before}")
        self.context.eval(parsed.scripts[-1][1])
        self.settle()

    def set_text(self, name: str, text: str) -> None:
        self.context.eval(f"document.getElementById({json.dumps(name)}).textContent = {json.dumps(text)}")

    def settle(self) -> None:
        while self.context.execute_pending_job():
            pass

    def get(self, expression: str) -> Any:
        return json.loads(self.context.eval(f"JSON.stringify({expression} ?? null)"))

    def change(self, name: str, value: str) -> None:
        self.do(
            f"elements['{name}'].value = {json.dumps(value)}; elements['{name}'].checked = {json.dumps(value)} === 'on';"
        )
        self.do(f"for (const kind of ['change', 'input', 'click']) elements['{name}'].fire(kind)")

    def do(self, statement: str) -> None:
        self.context.eval(statement)
        self.settle()

    def text(self, name: str) -> str:
        return str(self.get(f"elements[{json.dumps(name)}].textContent"))

    def rows(self, table: str) -> list[str]:
        found = self.get(
            f"elements[{json.dumps(table)}].tBodies[0].children.filter((r) => r.getAttribute('class') !== 'more')"
            ".map((r) => r.children.map((c) => c.textContent).join(' | '))"
        )
        return list(found)


def size_of_unit(title: str, unit: str) -> float:
    """What one stands for on an axis, by the prefix before the unit that its title ends in."""
    prefix = re.fullmatch(rf"(?:.*, )?(.?){unit}", title)
    assert prefix is not None, title
    return {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "m": 1e-3, "µ": 1e-6, "n": 1e-9, "p": 1e-12}[prefix[1]]


def test_script_draws_all_plots() -> None:
    data = helpers.report_data(candidates=9, layers=8)
    engine = Engine(page_html(data))
    assert engine.get("document.body.dataset") == {"shown": str(data.best_index), "ready": "yes"}
    assert sorted(engine.get("plots")) == ["plot-front", "plot-history", "plot-layers", "plot-roof"]
    shown = [i for trace in engine.get("plots['plot-front'].traces") for i in trace.get("customdata", [])]
    assert {data.best_index, 9} <= set(shown) <= set(range(10))  # far ones may be outside the picture
    engine.do("elements['zoom-all'].checked = true; elements['zoom-all'].fire('change')")
    shown = [i for trace in engine.get("plots['plot-front'].traces") for i in trace.get("customdata", [])]
    assert set(shown) == set(range(10))  # the baseline is the last
    bars = engine.get("plots['plot-layers'].traces")
    axes = engine.get("plots['plot-layers'].layout")
    cycles = sum(sum(trace["x"]) for trace in bars if trace.get("xaxis") != "x2")
    joules = sum(sum(trace["x"]) for trace in bars if trace.get("xaxis") == "x2")
    cycles *= size_of_unit(axes["xaxis"]["title"]["text"], "cycles")
    joules *= size_of_unit(axes["xaxis2"]["title"]["text"], "J")
    assert cycles == pytest.approx(data.best.cost.latency_cycles, rel=1e-4)
    assert joules == pytest.approx(data.best.cost.energy_pj * 1e-12, rel=1e-4)
    roof = engine.get("plots['plot-roof'].traces")
    side, rate = data.best.accelerator.dim, data.best.accelerator.dram_bytes_per_cycle
    points = [(x, y) for trace in roof[1:] for x, y in zip(trace["x"], trace["y"], strict=True)]
    assert len(points) == len(data.tasks)
    for x, y in points:  # nothing is above the roof
        assert y <= min(side * side, rate * x) * (1 + 1e-4)


def test_script_shows_another_design_on_click() -> None:
    data = helpers.report_data(candidates=5, layers=5)
    engine = Engine(page_html(data))
    other = next(i for i in range(5) if i != data.best_index)
    before = engine.rows("layers")
    assert [data.mapping_texts[data.best_index][i].replace(" - ", " ").split() for i in range(5)] == [
        row.split(" | ")[-1].split() for row in before
    ]
    engine.do(f"elements['plot-front'].fire('plotly_click', {{points: [{{customdata: {other}}}]}})")
    after = engine.rows("layers")
    assert [data.mapping_texts[other][i].replace(" - ", " ").split() for i in range(5)] == [
        row.split(" | ")[-1].split() for row in after
    ]
    assert engine.text("showing-name").startswith(f"#{other} ")
    engine.do("elements['back'].fire('click')")
    assert engine.rows("layers") == before


def test_script_without_decompression_says_so() -> None:
    data = helpers.report_data(candidates=3)
    engine = Engine(
        page_html(data), before="Blob = class { stream() { throw new Error('no streams here'); } }"
    )
    other = next(i for i in range(3) if i != data.best_index)
    assert len(engine.rows("layers")) == len(data.tasks)  # those of the best are there all the same
    engine.do(f"elements['plot-front'].fire('plotly_click', {{points: [{{customdata: {other}}}]}})")
    assert "no streams here" in engine.text("layers")
    engine.do(f"elements['plot-front'].fire('plotly_click', {{points: [{{customdata: {data.best_index}}}]}})")
    assert len(engine.rows("layers")) == len(data.tasks)


def test_script_sorts_and_filters() -> None:
    data = helpers.report_data(layers=12)
    engine = Engine(page_html(data))
    expected = [
        layer.latency_cycles * task.count for task, layer in zip(data.tasks, data.best_layers, strict=True)
    ]
    order = sorted(range(len(expected)), key=lambda i: -expected[i])
    heads = "elements['layers'].tHead.children[0].children"
    latency = f"{heads}.find((h) => h.textContent.startsWith('Latency'))"
    engine.do(f"{latency}.children[0].fire('click')")
    assert [int(row.split(" | ")[0]) - 1 for row in engine.rows("layers")] == order
    assert engine.get(f"{latency}.getAttribute('aria-sort')") == "descending"
    engine.do(f"{latency}.children[0].fire('click')")
    assert [int(row.split(" | ")[0]) - 1 for row in engine.rows("layers")] == order[::-1]
    engine.do("elements['filter'].value = 'DEPTHWISE'; elements['filter'].fire('input')")
    assert len(engine.rows("layers")) == sum(task.problem.kind == "depthwise conv" for task in data.tasks)


def test_script_axes_and_time() -> None:
    data = helpers.report_data(candidates=9)
    engine = Engine(page_html(data))
    engine.do("elements['axis-x'].value = 'area'; elements['axis-x'].fire('change')")
    plot = engine.get("plots['plot-front']")
    assert plot["layout"]["xaxis"]["title"]["text"] == "area, mm²"
    best = next(trace for trace in plot["traces"] if trace.get("name") == "best")
    assert best["x"][0] == pytest.approx(data.best.cost.area_mm2, rel=1e-4)
    engine.do("elements['by-seconds'].fire('click')")
    history = engine.get("plots['plot-history'].traces[0]")
    assert history["x"] == [s.seconds for s in data.summaries]
    assert history["y"] == pytest.approx([s.best_objective for s in data.summaries], rel=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"candidates": 1, "layers": 1},
        {"candidates": 200, "layers": 2},
        pytest.param({"candidates": 1000, "layers": 2}, marks=pytest.mark.slow),
        {"candidates": 3, "layers": 200},
        {"networks": ("a", "b")},
        {"objective": "area"},
        {"objective": "latency,energy"},
        {"objective": "edap,area"},
    ],
)
def test_script_copes_with_any_size(options: dict[str, Any]) -> None:
    data = helpers.report_data(**options)
    engine = Engine(page_html(data))
    assert engine.get("document.body.dataset.ready") == "yes"
    assert len(engine.rows("layers")) == len(data.tasks)
    engine.do("elements['every-mapping'].checked = true; elements['every-mapping'].fire('change')")
    assert len(engine.rows("designs")) == min(10, len(data.candidates) + 1)
    assert engine.text("designs-count") == f"{len(data.candidates) + 1:,} designs"
    bars = len(engine.get("plots['plot-layers'].layout.yaxis.tickvals"))
    assert bars == min(30, len(data.tasks))


def test_script_shows_hostile_names_as_text() -> None:
    engine = Engine(page_html(helpers.hostile(helpers.report_data(layers=3), "<b>&amp;</b>")))
    assert "<b>&amp;</b>" in engine.rows("layers")[0]
    # Plotly reads markup in labels: there the name must be escaped
    label = engine.get("plots['plot-layers'].layout.yaxis.ticktext[0]")
    assert label.startswith("&lt;b&gt;&amp;amp;&lt;/b&gt;")
    every = json.dumps(engine.get("plots"))
    assert "<b>&amp;</b>" not in every


def test_reports_without_bounds_history_or_host() -> None:
    from dataclasses import replace

    data = helpers.report_data()
    alone = [one and replace(one, beside=()) for one in data.costs]
    data = replace(data, bounds=(), summaries=(), costs=alone)
    engine = Engine(page_html(data))
    assert engine.get("document.body.dataset.ready") == "yes"
    assert "No bound" in engine.text("bounds")
    assert engine.get("elements['host-section'].hidden") is True
