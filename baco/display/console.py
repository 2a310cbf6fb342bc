"""What all that is printed shares: output streams, number formats, the command line, whether anybody is looking."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from baco.common.text import one_line, several_lines
from baco.common.viewer import is_watched

if TYPE_CHECKING:
    import typer

_Display = TypeVar("_Display")


def command_of(context: typer.Context) -> str:
    """The command line as it can be pasted into a shell (set by `baco.main.run`)."""
    return str(context.find_root().obj or "baco")


class FitConsole(Console):
    """A console that shows text as it is: no markup, no emoji codes, and nothing in it that a terminal would obey.

    Names from outside may stand in any text that is printed; line feeds are our own.
    """

    def __init__(self, file: TextIO, *, width: int | None, soft_wrap: bool) -> None:
        super().__init__(
            file=file, markup=False, emoji=False, highlight=False, width=width, soft_wrap=soft_wrap
        )

    def render_str(self, text: str, **options: Any) -> Text:
        """Plain text with escapes for unfit characters, before its width is measured."""
        return super().render_str(several_lines(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is rendered, unfit characters as escapes; what moves the cursor comes from rich, as control codes."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(several_lines(segment.text), segment.style)


def stdout() -> Console:
    """Where results go."""
    return _console(sys.stdout)


def stderr() -> Console:
    """Where progress and notes go."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # a file or pipe has no width: lines are kept whole for whatever reads them
    width = None if stream.isatty() else 240
    return FitConsole(stream, width=width, soft_wrap=width is not None)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, left: Collection[str] = ()) -> Table:
    """Cells side by side, without lines: figures, at the right of their columns, but for the columns `left`."""
    made = Table(box=None, pad_edge=False)
    for title in titles:
        made.add_column(title, justify="left" if title in left else "right", overflow="fold")
    for row in rows:
        made.add_row(*(Text(one_line(str(cell), 10_000)) for cell in row))
    return made


def amount(value: float) -> str:
    """A number of any magnitude for people: 12,345 or 0.0123 or 1.28e+11."""
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.4e}"


def rounded(seconds: float) -> float:
    """To as many digits as an estimate has: 7, 40, 200 s."""
    step = 1.0 if seconds < 10 else 5.0 if seconds < 60 else 10.0 if seconds < 300 else 60.0
    return math.ceil(seconds / step) * step


def duration(seconds: float) -> str:
    """7 s, 3 min 20 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def is_wanted(progress: object) -> bool:
    """Whether a display is wanted: as said, else where somebody is looking."""
    if progress is None:
        return is_watched()
    return bool(progress)


def chosen_display(progress: _Display | bool | None, make: Callable[[], _Display]) -> _Display | None:
    """The user's own display, else a new one if one is wanted, else none."""
    if progress is not None and not isinstance(progress, bool):
        return progress
    return make() if is_wanted(progress) else None
