"""Files of constants with an entry for each timing (`baco.accel.config.TIMINGS`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from baco.common.files import atomic_write

__all__ = ["write_entry"]


def write_entry(path: Path, timing: str, values: dict[str, Any]) -> None:
    """Write the constants of one timing; those of others stay as they are. Raises StorageError when that fails."""
    entries = json.loads(path.read_text("utf-8")) if path.exists() else {}
    atomic_write(path, json.dumps(entries | {timing: values}, indent=1) + "\n")
