"""What fits into the main memory that programs are simulated with."""

from __future__ import annotations

__all__ = ["check_memory", "main_memory_bytes"]


def main_memory_bytes() -> int:
    """Of a simulation that asks for nothing else."""
    from sim.job import Memory

    return Memory().size_bytes


def check_memory(
    what: str, size_bytes: int, most: int | None = None, *, hint: str = "make them smaller"
) -> None:
    """Raise InputError, before anything of it is made, for data that main memory does not hold.

    Args:
        what: the data, in the plural.
        most: bytes that are available; None for `main_memory_bytes`.
    """
    from common.errors import InputError

    room = main_memory_bytes() if most is None else most
    if size_bytes > room:
        raise InputError(
            f"{what} have {size_bytes:,} bytes, more than the {room:,} of main memory",
            hint=hint,
        )
