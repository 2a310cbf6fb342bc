"""Whether anybody is looking at what is written to standard error."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """Whether output goes to cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


def is_watched() -> bool:
    """Whether somebody sees lines as they are written: in a notebook, or on a terminal."""
    return in_notebook() or sys.stderr.isatty()


def told_on_stderr(text: str) -> None:
    """A line for whoever is looking; nothing where nobody is."""
    if is_watched():
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
