"""Folders that hold what will be run: nobody but their owner may put anything there."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from baco.common.errors import Location, StorageError


def private_folder(path: Path) -> Path:
    """The folder at `path`, made for this user alone (with its parents) when missing.

    Raises StorageError where it is a link, belongs to somebody else or may be written by others, and where others
    could put a folder of theirs in its place; OSError where it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise _refused(path, "is a link" if stat.S_ISLNK(status.st_mode) else "is no folder")
    if not trusted_owner(status):
        raise _refused(path, f"belongs to another user (number {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(path, "may be written by others")
    for folder in path.resolve().parents:
        above = os.stat(folder)
        # in a folder with the sticky bit, like /tmp, everybody may only rename what is his own
        if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
            raise _refused(folder, "may be written by everybody")
    return path


def trusted_owner(status: os.stat_result) -> bool:
    """Whether a file is this user's, or the superuser's, who could do anything anyway."""
    return status.st_uid in (os.geteuid(), 0)


def _refused(path: Path, what: str) -> StorageError:
    return StorageError(
        f"programs kept here would be run, but this {what}",
        location=Location(str(path)),
        hint="set BACO_CACHE to a folder that only you may write to, or correct this one's owner and mode (chmod go-w)",
    )
