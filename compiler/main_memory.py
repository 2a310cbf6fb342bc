"""How much main memory a program may take: told from sizes alone, before anything of that size is built."""

from __future__ import annotations

from collections.abc import Mapping

from baco.common.errors import InfeasibleError, Location

#: Where main memory begins, and programs with it.
MEMORY_BASE = 0x80000000
#: Code reaches data by 32-bit offsets from where it is; above this programs would not link.
MOST_BYTES = (1 << 31) - (1 << 20)
#: Parts that a message lists.
_LISTED = 3


def check_memory(
    what: str, parts: Mapping[str, int], *, location: Location | None = None, hint: str | None = None
) -> None:
    """Raises InfeasibleError, with the bytes of the largest parts, where all parts together are beyond `MOST_BYTES`.

    Args:
        what: that takes the memory, in the singular.
        parts: bytes by name.
    """
    total = sum(parts.values())
    if total <= MOST_BYTES:
        return
    largest = sorted(parts.items(), key=lambda part: -part[1])[:_LISTED]
    listed = ", ".join(f"{name[:60]} {size:,}" for name, size in largest)
    raise InfeasibleError(
        f"{what} takes {total:,} bytes of main memory ({listed}{', ...' if len(parts) > _LISTED else ''}),"
        f" more than the {MOST_BYTES:,} that a program can reach",
        location=location,
        hint=hint,
    )
