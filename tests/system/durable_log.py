"""What the children of the kill tests say, in a file that survives them."""

from __future__ import annotations

import os


class DurableLog:
    """Lines that are on the disk before the next thing happens."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, line: str) -> None:
        os.write(self.descriptor, f"{line}\n".encode())
        os.fsync(self.descriptor)

    def note(self, text: str) -> None:
        """A remark of what is watched."""
        self.write(f"note {text}")
