"""Locks between processes: files that the system unlocks when their holder ends, in whatever way."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import Location, StorageError

__all__ = ["hold", "open_lock", "try_lock"]


def open_lock(path: Path, *, may_be_read_only: bool = False) -> int:
    """A descriptor of the lock file at `path`, made when missing.

    Nothing but a regular file of a single name is opened: a folder that somebody else made may hold a link of that
    name, through which the text of a lock would land in a file of the user's.

    Args:
        may_be_read_only: a lock that exists and may only be read will do, to see whether somebody holds it.

    Raises StorageError for something else than a file, OSError where the place cannot be written.
    """
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
        except OSError as error:
            if not may_be_read_only or error.errno not in (errno.EACCES, errno.EROFS) or not path.exists():
                raise
            descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO):
            raise _no_file(path) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise _no_file(path)
    return descriptor


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file unless another process holds it; whether that worked."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, after whoever has it now. The file stays: to remove it would let two processes lock
    different files of one name. Raises as `open_lock`."""
    descriptor = open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _no_file(path: Path) -> StorageError:
    return StorageError(
        "this should be a lock file, but it is a link or something else",
        location=Location(str(path)),
        hint="remove it, if you know where it comes from",
    )
