"""`report.html`: one self-contained page (`baco.common.page`), whatever the names in the user's files are."""

from __future__ import annotations

import re
from pathlib import Path

from baco.common.page import page
from baco.common.text import html_text
from baco.exploration.report.data import ReportData
from baco.exploration.report.payload import packed_payload, payload
from baco.exploration.report.resources import RESOURCES
from baco.exploration.report.summary import objective_words, summary_text
from baco.exploration.report.validation import validation_html
from baco.exploration.report.why_html import why_html

_ASSETS = Path(__file__).parent
#: Parts of the page's script, in the order in which they run.
_SCRIPTS = (
    "state.js",
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
    parts = {
        "summary": html_text(summary_text(data)),
        "why": why_html(data),
        "validation": validation_html(data),
    }
    # one pass: a name that looks like a placeholder is not expanded again
    body = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("body.html"))
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
