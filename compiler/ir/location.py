"""Where in a text of the IR an operation was written."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from baco.common.errors import Location


def location_of(op: Operation | None) -> Location | None:
    """The line that an operation, or the nearest one around it, was read from; None for one made otherwise."""
    while op is not None:
        if isinstance(op.location, FileLineColLoc):
            at = op.location
            return Location(at.filename.data, at.line.data, at.column.data or None)
        op = op.parent_op()
    return None
