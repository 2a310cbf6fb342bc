"""Things that are slow to make, kept by content in a folder of our own inside the user's cache folder.

Everything here may be run later, so the folder must be its owner's alone (`baco.common.private`), and every entry carries
digests of its files, checked before it is used. What does not match them is made anew.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from baco.common.errors import BacoError, Location, StorageError
from baco.common.files import own_place, read_input, storage_error, sync_folder
from baco.common.locks import hold, open_lock, try_lock
from baco.common.private import private_folder, trusted_owner

#: Entries that nobody used for this long are dropped.
KEEP_SECONDS = 30 * 24 * 3600.0
#: Keys of entries; nothing of another name is ever removed.
_KEY = r"[a-z]{1,20}-[0-9a-f]{16}"
_MANIFEST, _MANIFEST_BYTES = "manifest.json", 16 << 20
#: Says to backup programs that this folder need not be kept (the convention is at bford.info/cachedir).
_TAG_NAME, _TAG = (
    "CACHEDIR.TAG",
    "Signature: 8a477f597d28d172789f06886806bc55\n# Made by baco; safe to remove.\n",
)


def cache_folder() -> Path:
    """$BACO_CACHE, else `baco` in $XDG_CACHE_HOME, else ~/.cache/baco: the user's, who may keep other things there."""
    own = os.environ.get("BACO_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification has relative paths ignored
    return (Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()) / "baco"


def own_folder(within: Path | None = None) -> Path:
    """Our folder inside `within` (default: `cache_folder()`), made when missing.

    Raises StorageError when it cannot be made or is not this user's alone.
    """
    folder = (within if within is not None else cache_folder()) / "baco-cache"
    try:
        private_folder(folder)
        tag = folder / _TAG_NAME
        if not os.path.lexists(tag):
            with suppress(OSError):  # a folder that may only be read serves as well
                tag.write_text(_TAG, encoding="ascii")
    except OSError as error:
        raise _explain(error, folder) from error
    return folder


class Cache:
    """Folders named by what determines their content; complete or absent, whoever is killed when.

    Several processes may ask for the same entry at once: one makes it, the others wait for it. Different
    entries are made side by side. A path that was given out stays good until the process ends.

    Args:
        within: the folder that holds ours; default: `cache_folder()`.
        note: gets a sentence when a damaged entry is found; default: standard error.

    Raises StorageError as `own_folder`.
    """

    def __init__(self, within: Path | None = None, *, note: Callable[[str], None] | None = None) -> None:
        self.folder = own_folder(within)
        own_place(self.folder)
        self._note = note or _to_standard_error
        try:
            _use(self.folder)
        except OSError as error:
            raise _explain(error, self.folder) from error

    def find(self, key: str) -> Path | None:
        """The folder of an entry that exists undamaged, marked as used now."""
        path = self._path(key)
        if not os.path.lexists(path) or _damage(path, key):
            return None
        with suppress(OSError):  # a cache that may be read but not written
            os.utime(path)
        return path

    def entry(self, key: str, make: Callable[[Path], None]) -> Path:
        """The folder of an entry; `make` fills an empty one if there is none yet, or a damaged one.

        Args:
            key: a word and the 16 digits of a hash: `model-0123456789abcdef`.

        Raises StorageError when the cache cannot be written, and whatever `make` raises (no entry is left then).
        """
        found = self.find(key)
        if found:
            return found
        try:
            with hold(_subfolder(self.folder, "locks") / key):
                found = self.find(key)  # made by another process while this one waited
                return found if found else self._make(key, make)
        except OSError as error:
            raise _explain(error, self.folder) from error

    def _path(self, key: str) -> Path:
        if not re.fullmatch(_KEY, key):
            raise ValueError(f"'{key}' is no key of the cache")
        return self.folder / "entries" / key

    def _make(self, key: str, make: Callable[[Path], None]) -> Path:
        target = self._path(key)
        _subfolder(self.folder, "entries")
        making = _subfolder(self.folder, "making")
        if os.path.lexists(target):
            self._note(f"note: {key} in the cache is damaged ({_damage(target, key)}): it is made anew")
            _remove(target, making)
        scratch = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=making))
        try:
            make(scratch)
            _seal(scratch, key)
            scratch.rename(target)
            sync_folder(target.parent)
            return target
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


#: Descriptors that say to other processes that this one uses a cache, by folder.
_uses: dict[Path, int] = {}
_uses_guard = threading.Lock()
#: Entries verified by this process, with all that their files' status tells: hashing them once is enough.
_verified: dict[Path, list[tuple[object, ...]]] = {}


def _use(folder: Path) -> None:
    """Say that this process uses the cache, until it ends; if no other does, remove what is stale."""
    with _uses_guard:
        if folder in _uses:
            return
        users = open_lock(folder / "users", may_be_read_only=True)
        if try_lock(users):
            _drop_old(folder)
        while not try_lock(
            users, shared=True
        ):  # another process is removing what is stale: a matter of moments
            time.sleep(0.01)
        _uses[folder] = users


def _drop_old(folder: Path) -> None:
    """Remove old entries, what killed processes left, and locks. For a process that is alone in the cache: nobody
    holds an entry, so that the clock (which may be another machine's) decides only how often things are made."""
    limit = time.time() - KEEP_SECONDS
    for path in _own_children(folder / "making", ends="-.*"):
        _remove(path)
    for path in _own_children(folder / "entries"):
        with suppress(OSError):
            if path.lstat().st_mtime < limit:
                _remove(path, folder / "making")
    for path in _own_children(folder / "locks"):
        with suppress(OSError):
            path.unlink()


def _own_children(folder: Path, ends: str = "") -> list[Path]:
    """What is called like a key, followed by `ends`, in a real folder (no link to another)."""
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(folder).st_mode):
            return [path for path in folder.iterdir() if re.fullmatch(_KEY + ends, path.name)]
    return []


def _remove(path: Path, trash: Path | None = None) -> None:
    """Remove what is at `path`, a link itself and not what it points to; through `trash`, nobody sees a part of it.

    Raises OSError where it cannot be moved away.
    """
    if trash is not None:
        place = Path(tempfile.mkdtemp(prefix=f"{path.name}-", dir=trash))
        os.rename(path, place / "old")
        path = place
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _subfolder(folder: Path, name: str) -> Path:
    return private_folder(folder / name)


def _seal(folder: Path, key: str) -> None:
    """Write the digests of all files, and everything to the disk: a renamed folder must not be ahead of its content."""
    files = {}
    for path in sorted(_walk(folder)):
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is no regular file")
        runs = bool(status.st_mode & 0o100)
        os.chmod(path, 0o700 if runs else 0o600)
        files[path.relative_to(folder).as_posix()] = {"sha256": _digest(path, sync=True), "runs": runs}
    manifest = folder / _MANIFEST
    manifest.write_text(json.dumps({"key": key, "files": files}, indent=0), encoding="utf-8")
    _digest(manifest, sync=True)
    for below, _, _ in os.walk(folder):
        sync_folder(Path(below))


def _damage(folder: Path, key: str) -> str | None:
    """What is wrong with an entry; None if it is as it was made."""
    try:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            return "it is no folder"
        paths = sorted(_walk(folder))
        now = [_facts(path) for path in (folder, *paths)]
        if _verified.get(folder) == now:
            return None
        for path in (folder, *paths):
            status = os.lstat(path)
            if path != folder and not stat.S_ISREG(status.st_mode):
                return f"{path.name} is no file"
            if not trusted_owner(status) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return f"others may change {path.name}"
        manifest = json.loads(read_input(folder / _MANIFEST, limit_bytes=_MANIFEST_BYTES))
        files = manifest["files"]
        names = {path.relative_to(folder).as_posix() for path in paths} - {_MANIFEST}
        if manifest["key"] != key:
            return "it is another entry's content"
        if names != set(files):
            return f"{sorted(names ^ set(files))[0]} is missing or was added"
        for name in sorted(names):
            path = folder / name
            if _digest(path) != files[name]["sha256"]:
                return f"{name} was changed"
            if bool(os.lstat(path).st_mode & 0o100) != files[name]["runs"]:
                return f"{name} has lost or gained its permission to run"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (BacoError, ValueError, TypeError, KeyError, RecursionError):
        return "its list of files is missing or no such list"
    _verified[folder] = now
    return None


def _walk(folder: Path) -> Iterator[Path]:
    """All that is in a folder and below, but folders."""
    for below, folders, names in os.walk(folder, onerror=_raise):
        yield from (Path(below, name) for name in names)
        yield from (Path(below, name) for name in folders if Path(below, name).is_symlink())


def _raise(error: OSError) -> None:
    raise error


def _facts(path: Path) -> tuple[object, ...]:
    """What changes with a file's content or rights; the time of its last change of status cannot be set back."""
    status = os.lstat(path)
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    changed = status.st_ctime_ns if stat.S_ISREG(status.st_mode) else 0  # a folder's changes with every use
    return (str(path), status.st_ino, status.st_mode, status.st_uid, size, changed)


def _digest(path: Path, *, sync: bool = False) -> str:
    with open(path, "rb") as file:
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _to_standard_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _explain(error: OSError, folder: Path) -> BacoError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EROFS, errno.EPERM, errno.EEXIST):
        return StorageError(
            f"the cache of built programs cannot be written: {(error.strerror or str(error)).lower()}",
            location=Location(str(folder)),
            hint="set BACO_CACHE to a folder that you may write to",
        )
    return storage_error(error, folder)
