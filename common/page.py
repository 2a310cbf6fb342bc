"""Pages of HTML: one self-contained file each, in one style, whatever the names in users' files are.

Names from outside reach a page in two ways only: as HTML text escaped by `baco.common.text.html_text`, and inside blocks of
data that the page's script shows as text (`script_json`, or deflated where they are large). A content security policy
forbids a page all network access. `page.js` has what pages share: numbers as text, elements, tables that sort, the
look of plots; `page.css` their style, light, dark and printed.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from baco.common.errors import StorageError
from baco.common.text import fit_strings, html_text, script_json

_ASSETS = Path(__file__).parent


def page(
    *,
    title: str,
    brand: str,
    heading: str,
    body: str,
    subheading: str = "",
    head: str = "",
    data: Any = None,
    blocks: Mapping[str, Any] | None = None,
    packed: Mapping[str, Any] | None = None,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    plots: bool = False,
) -> str:
    """A page as text.

    Args:
        title, brand, heading: plain text; `brand` is the kind of page.
        body, subheading, head: HTML of ours, in which all that is from outside is escaped already.
        data: what the script finds as JSON in the element `data`.
        blocks: more of that, by the name of the element.
        packed: large values by the name of the element that holds them, for `Baco.unpack`.
        styles, scripts: more CSS, and JavaScript that runs after `page.js`, in one function.
        plots: whether the scripts draw with plotly.

    Raises StorageError when the plotting library's script is needed and not installed.
    """
    found = {} if data is None else {"data": data}
    texts = [
        f'<script type="application/json" id="{name}">{script_json(value)}</script>'
        for name, value in (found | dict(blocks or {})).items()
    ]
    texts += [
        f'<script type="text/plain" id="{name}">{packed_json(value)}</script>'
        for name, value in (packed or {}).items()
    ]
    if plots:
        texts.append(f"<script>{_in_script(plotly_script())}</script>")
    code = "\n".join([_asset("page.js"), "(() => {", '"use strict";', *scripts, "})();"])
    parts = {
        "head": head,
        "title": html_text(title),
        "style": "\n".join([_asset("page.css"), *styles]),
        "brand": html_text(brand),
        "heading": html_text(heading),
        "subheading": subheading,
        "body": body,
        "scripts": "\n".join([*texts, f"<script>\n{_in_script(code)}\n</script>"]),
    }
    # one pass: a name that looks like a placeholder is not expanded again
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def packed_json(value: Any) -> str:
    """JSON deflated and in base 64: repetitive numbers and texts compress eightfold."""
    content = json.dumps(fit_strings(value), allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(content.encode("ascii"), 6)).decode("ascii")


def html_cards(cards: Iterable[tuple[str, str, str]]) -> str:
    """Items of a list of the class `cards`: label, value and remark of each, plain text."""
    return "".join(
        f'<li><span class="label">{html_text(label)}</span><span class="value">{html_text(value)}</span>'
        f'<span class="remark">{html_text(remark)}</span></li>'
        for label, value, remark in cards
    )


def html_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[int] = (),
    total: Sequence[str] | None = None,
    *,
    caption: str,
) -> str:
    """A table whose headings sort it; `caption` says what it holds. Cells are plain text; those of the columns `numeric` stand to the right, and sort
    as the numbers they begin with. The row `total` stays below."""
    numbers = set(numeric)

    def cell(index: int, text: str) -> str:
        return f'<td class="{"num" if index in numbers else "wrap"}">{html_text(text)}</td>'

    head = "".join(
        f'<th scope="col"{" class=num" if i in numbers else ""}><span>{html_text(one)}</span></th>'
        for i, one in enumerate(heads)
    )

    def line(row: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(i, text) for i, text in enumerate(row))}</tr>"

    foot = "" if total is None else f"<tfoot>{line(total)}</tfoot>"
    body = "".join(map(line, rows))
    table = f'<table class="sorts"><caption>{html_text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table>'
    return f'<div class="scroll" tabindex="0">{table}</div>'


def plotly_script() -> str:
    """Plotly's own JavaScript, from the installed package; the package itself, slow to import, is not."""
    found = importlib.util.find_spec("plotly")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text("utf-8")
    raise StorageError(
        "the script of the plotly package is missing", hint="pip install --force-reinstall plotly"
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _in_script(text: str) -> str:
    """Keep a script from ending its HTML element early."""
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)
