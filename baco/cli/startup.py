"""The check that baco's packages are baco's own. Standard library only: nothing else can be trusted yet."""

from __future__ import annotations

import importlib.util
from pathlib import Path

#: Top-level packages that baco consists of; their names are common enough to clash.
PACKAGES = ("accel", "baco", "bench", "common", "compiler", "explore", "sim", "workloads")


def shadowed() -> list[tuple[str, str, str]]:
    """Packages that resolve to somebody else's files: (name, file found, folder expected)."""
    root = Path(__file__).resolve().parents[2]
    found = []
    for name in PACKAGES:
        expected = root / name
        spec = importlib.util.find_spec(name)
        if spec is None:
            found.append((name, "nothing", str(expected)))
            continue
        places = [Path(p).resolve() for p in spec.submodule_search_locations or []]
        if places != [expected]:
            found.append((name, spec.origin or ", ".join(map(str, places)) or "nothing", str(expected)))
    return found


def shadow_message() -> str | None:
    """What to tell the user when a package is shadowed; None when all is well."""
    wrong = shadowed()
    if not wrong:
        return None
    lines = [f"the package '{name}' resolves to {file}, not to {own}" for name, file, own in wrong]
    return "; ".join(lines) + (
        "\n  hint: another package or folder of that name comes first on Python's path: install baco in an "
        "environment of its own (pipx does), leave that folder, or unset PYTHONPATH"
    )
