"""The note that binds an ELF program to the accelerator it was compiled for.

A program carries, in the section `.note.baco`, one ELF note of owner `baco` whose description is the configuration
hash (`Accelerator.config_hash`) in ASCII. Programs from elsewhere have none and are accepted.
"""

from __future__ import annotations

import struct

#: Section that holds the note, and what identifies it there.
SECTION, OWNER, CONFIG_HASH = ".note.baco", b"baco", 1


def note_bytes(config_hash: str) -> bytes:
    """The section's content: header, owner and hash, each padded to four bytes (ELF, little-endian)."""
    owner, description = OWNER + b"\0", config_hash.encode("ascii")
    header = struct.pack("<III", len(owner), len(description), CONFIG_HASH)
    return header + _padded(owner) + _padded(description)


def read_note(data: bytes) -> str | None:
    """The configuration hash in the notes of a section or segment; None when there is none."""
    at = 0
    while at + 12 <= len(data):
        owner_bytes, description_bytes, kind = struct.unpack_from("<III", data, at)
        owner_at = at + 12
        description_at = owner_at + _aligned(owner_bytes)
        at = description_at + _aligned(description_bytes)
        if at > len(data) + 3:  # damaged: sizes point beyond the end
            return None
        owner = data[owner_at : owner_at + owner_bytes].rstrip(b"\0")
        if owner == OWNER and kind == CONFIG_HASH:
            return data[description_at : description_at + description_bytes].decode("ascii", "replace")
    return None


def _aligned(size: int) -> int:
    return (size + 3) & ~3


def _padded(data: bytes) -> bytes:
    return data.ljust(_aligned(len(data)), b"\0")
