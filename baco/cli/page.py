"""Opening a report in the browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

OpenPage = Annotated[bool, typer.Option("--open", help="Open the report in the browser.")]


def show_page(page: Path) -> None:
    """Open a page, or say why not: without a screen the browsers that are left would take over the terminal."""
    import webbrowser

    from baco.common.text import one_line
    from baco.display.console import stderr

    screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if not (screen and webbrowser.open(page.resolve().as_uri())):
        stderr().print(f"note: there is no browser to open {one_line(str(page))}")
