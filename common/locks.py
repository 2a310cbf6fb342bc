"""Locks between processes: files that the system unlocks when their holder ends, in whatever way."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from baco.common.errors import Location, StorageError
from baco.common.files import storage_error


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


class Claims:
    """Which of many keys this process works at, so that no other does: each is a locked byte of one file, which the system
    unlocks when the process ends, in whatever way.

    Of one file a process may have one `Claims` only: closing another would give all of them back.

    Raises StorageError as `open_lock`, on construction and where the place cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = open_lock(path)
        except OSError as error:
            raise storage_error(error, path) from error
        self._held: set[int] = set()

    def claim(self, key: str) -> bool:
        """Claim a key, unless this process or another has it; whether that worked."""
        place = _place(key)
        if place in self._held:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        self._held.add(place)
        return True

    def release(self, key: str) -> None:
        """Give a key back; one that is not claimed is left alone."""
        place = _place(key)
        if place in self._held:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)
            self._held.remove(place)

    def close(self) -> None:
        """Give everything back; harmless when repeated."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _place(key: str) -> int:
    """A byte of a file that may have 2^62: two of a million keys share one with a chance of 1 in 10 million, and then one
    only waits for the other."""
    return int.from_bytes(sha256(key.encode()).digest()[:8], "little") >> 2


def _no_file(path: Path) -> StorageError:
    return StorageError(
        "this should be a lock file, but it is a link or something else",
        location=Location(str(path)),
        hint="remove it, if you know where it comes from",
    )
