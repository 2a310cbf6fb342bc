"""`report.html`: one self-contained page (`baco.common.page`), whatever the names in the user's files are."""

from __future__ import annotations

from pathlib import Path

from baco.common.page import page
from baco.common.text import html_text
from baco.exploration.report.data import ReportData
from baco.exploration.report.payload import packed_payload, payload
from baco.exploration.report.resources import RESOURCES
from baco.exploration.report.summary import objective_words, summary_text

_ASSETS = Path(__file__).parent
#: Parts of the page's script, in the order in which they run.
_SCRIPTS = (
    "state.js",
    "why.js",
    "measured.js",
    "front.js",
    "parameters.js",
    "layers.js",
    "detail.js",
    "compare.js",
    "graph.js",
    "next.js",
    "main.js",
)


def page_html(data: ReportData) -> str:
    """The page as text. Raises StorageError when the plotting library's script is not installed."""
    body = _asset("body.html").replace("{{summary}}", html_text(summary_text(data)))
    explored = html_text(f"explored for {objective_words(data)} in the space '{data.search.space_name}'")
    tag = f'<span class="tag" title="where the costs come from">{html_text(data.source)}</span>'
    return page(
        title=f"{data.network_names}: {objective_words(data)} (baco)",
        brand="design-space exploration",
        heading=data.network_names,
        subheading=f"{explored} {tag}",
        body=body,
        data=payload(data),
        blocks={"resources": {name: one._asdict() for name, one in RESOURCES.items()}},
        packed={"packed": packed_payload(data)},
        styles=[_asset("report.css")],
        scripts=[_asset(name) for name in _SCRIPTS],
        plots=True,
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")
