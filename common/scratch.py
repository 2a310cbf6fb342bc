"""Folders for intermediate files, removed at the end of their use, or at a later start if a process was killed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from baco.common.errors import StorageError
from baco.common.files import own_place, storage_error
from baco.common.locks import open_lock, try_lock

#: In each folder; locked for as long as the folder is in use.
_LOCK = ".in-use"
#: A folder without a lock is one whose owner was killed in the moment between making the two.
_UNLOCKED_SECONDS = 24 * 3600.0


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new, empty folder for this process alone, in the system's folder of temporary files.

    Raises StorageError when it cannot be made, or when the block fails to write there.
    """
    place = tempfile.gettempdir()
    _remove_stale(place)
    folder, lock = None, None
    try:
        folder = Path(tempfile.mkdtemp(prefix=_prefix(), dir=place))
        own_place(folder)
        lock = open_lock(folder / _LOCK)
        try_lock(lock)
        yield folder
    except BrokenPipeError:
        raise  # of the program's own output
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(folder or place)):
            raise
        raise storage_error(error, place) from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _prefix() -> str:
    return f"baco-scratch-{os.geteuid()}-"


@cache
def _remove_stale(place: str) -> None:
    """What killed processes of this user left in `place`, once a process."""
    with suppress(OSError):
        for path in list(Path(place).glob(f"{_prefix()}*")):
            with suppress(OSError, StorageError):
                status = path.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    _remove_if_stale(path, status.st_mtime)


def _remove_if_stale(folder: Path, made: float) -> None:
    if not os.path.lexists(folder / _LOCK):
        if time.time() - made > _UNLOCKED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
        return
    lock = open_lock(folder / _LOCK)
    try:
        if try_lock(lock):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
