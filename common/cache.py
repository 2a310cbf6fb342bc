"""Things that are slow to make, kept by content in the user's cache folder."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from common.errors import BacoError, Location, StorageError
from common.files import storage_error

__all__ = ["Cache", "cache_folder"]

#: Entries that nobody used for this long are dropped when something new is made.
KEEP_SECONDS = 30 * 24 * 3600.0


def cache_folder() -> Path:
    """$BACO_CACHE, else `baco` in $XDG_CACHE_HOME, else ~/.cache/baco."""
    own = os.environ.get("BACO_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification has relative paths ignored
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "baco"


class Cache:
    """Folders named by what determines their content; complete or absent, whoever is killed when.

    Several processes may ask for the same entry at once: one makes it, the others wait for it. Different
    entries are made side by side.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else cache_folder()

    def find(self, key: str) -> Path | None:
        """The folder of an entry that exists, marked as used now."""
        path = self.folder / key
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError:  # a cache that may be read but not written
            return path if path.is_dir() else None
        return path

    def entry(self, key: str, make: Callable[[Path], None]) -> Path:
        """The folder of an entry; `make` fills an empty one if there is none yet.

        Raises StorageError when the cache cannot be written, and whatever `make` raises (no entry is left then).
        """
        found = self.find(key)
        if found:
            return found
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock(key):
                found = self.find(key)  # made by another process while this one waited
                return found if found else self._make(key, make)
        except OSError as error:
            raise self._explain(error) from error

    def _make(self, key: str, make: Callable[[Path], None]) -> Path:
        self._drop_old()
        scratch = Path(tempfile.mkdtemp(prefix=f".making-{key[:40]}-", dir=self.folder))
        try:
            make(scratch)
            target = self.folder / key
            scratch.rename(target)
            return target
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        path = self.folder / f".lock-{key}"
        with open(path, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # released by the system if this process dies
            yield
            # the file stays: removing it would let two processes lock different files of the same name

    def _drop_old(self) -> None:
        limit = time.time() - KEEP_SECONDS
        with suppress(OSError):  # tidying may fail; making must not
            for path in list(self.folder.iterdir()):
                with suppress(OSError):
                    if path.stat().st_mtime < limit:
                        if path.is_dir():
                            shutil.rmtree(path, ignore_errors=True)
                        elif path.name.startswith(".lock-"):
                            path.unlink()

    def _explain(self, error: OSError) -> BacoError:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EROFS, errno.EPERM, errno.EEXIST):
            return StorageError(
                f"the cache of built programs cannot be written: {(error.strerror or str(error)).lower()}",
                location=Location(str(self.folder)),
                hint="set BACO_CACHE to a folder that you may write to",
            )
        return storage_error(error, self.folder)
