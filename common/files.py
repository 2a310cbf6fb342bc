"""Reading user files and writing results: size limits in, all or nothing out."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from baco.common.door import argument
from baco.common.errors import InputError, Location, StorageError

#: Largest user file read whole; layer tables and mapping tables stay far below it.
MAX_INPUT_BYTES = 1 << 30
#: Names of what this process has open; opened anew, a file that standard output goes to would be overwritten.
_OWN_STREAM = re.compile(r"/dev/(stdout|stderr)|(?:/dev|/proc/self)/fd/(\d{1,9})", re.ASCII)
#: How long a pipe may lack a reader.
_PIPE_SECONDS = 2.0


#: Folder that users' files are read from alone, while somebody asks for that.
_only_below: ContextVar[Path | None] = ContextVar("only_below", default=None)
#: Folders of this process's own making, whose files it may read at any time: scratch folders, the cache.
_own_places = {str(Path(__file__).parents[1])}


def own_place(folder: str | Path) -> None:
    """This process made a folder for itself: `only_below` does not concern what it reads there."""
    _own_places.add(os.path.abspath(folder))


@contextmanager
def only_below(folder: Path) -> Iterator[None]:
    """Meanwhile, files that users name are read only if they lie below a folder, wherever links lead, or come with baco: for callers
    who are not to see the rest of the machine."""
    token = _only_below.set(folder)
    try:
        yield
    finally:
        _only_below.reset(token)


def check_place(path: str | Path) -> None:
    """Raises InputError for a file outside of where files may be read (`only_below`)."""
    allowed = _only_below.get()
    if allowed is None or is_below(path, allowed):
        return
    # not followed through links, which in a checkout lead from baco's own folder to its parts
    if not any(os.path.abspath(path).startswith(own + os.sep) for own in _own_places):
        raise InputError(
            "this file is outside of the folder that is worked in",
            location=Location(str(path)),
            hint=f"put it below {allowed}",
        )


def is_below(path: str | Path, folder: str | Path) -> bool:
    """Whether a path, followed through all links, lies in a folder or below; false for a name that no file can have."""
    try:
        own, root = os.path.realpath(path), os.path.realpath(folder)
        return os.path.commonpath([own, root]) == root
    except (OSError, ValueError):
        return False


def read_input(path: str | Path, *, limit_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Content of a file named by the user.

    Raises InputError when it is missing, a folder, a pipe or device (which could block for ever),
    unreadable or larger than `limit_bytes`, and as `check_place` does.
    """
    path = Path(path)
    check_place(path)
    here = Location(str(path))
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise InputError("this is a folder, not a file", location=here)
        if not stat.S_ISREG(status.st_mode):
            raise InputError("this is not a regular file", location=here, hint="save its content to a file")
        if status.st_size > limit_bytes:
            raise InputError(
                f"the file has {status.st_size:,} bytes, more than the {limit_bytes:,} allowed", location=here
            )
        # files of /proc have no size and may have no end; the others are read into a buffer of their size
        data = path.read_bytes() if status.st_size else _read_bounded(path, limit_bytes)
        if len(data) > limit_bytes:
            raise InputError(f"the file has more than {limit_bytes:,} bytes", location=here)
        return data
    except FileNotFoundError:
        raise InputError("no such file", location=here) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        raise InputError(f"cannot be read: {_reason(error)}", location=here) from None


def _read_bounded(path: Path, limit_bytes: int) -> bytes:
    """The first bytes of a file, one more than the limit at most."""
    with open(path, "rb") as file:
        return file.read(limit_bytes + 1)


def read_input_text(path: str | Path, *, limit_bytes: int = MAX_INPUT_BYTES) -> str:
    """Content of a UTF-8 text file named by the user (a byte-order mark is dropped).

    Raises InputError as `read_input` does, and with the line for bytes that are no UTF-8 text.
    """
    return decode_text(read_input(path, limit_bytes=limit_bytes), str(path))


def decode_text(data: bytes, name: str) -> str:
    """UTF-8 text of `data`, or InputError naming `name` and the line of the first bad byte."""
    zero = data.find(b"\0")
    if zero >= 0:
        raise InputError(
            "this is a binary file, not text",
            location=Location(name, data.count(b"\n", 0, zero) + 1),
            hint="save it as UTF-8 text" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else None,
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise InputError(
            f"byte 0x{data[error.start]:02x} is not UTF-8 text",
            location=Location(name, line, column),
            hint="save the file as UTF-8",
        ) from None


def atomic_write(path: str | Path, data: bytes | str) -> None:
    """Write a file so that readers see either the old content or the whole new one, even after a crash.

    What is no file is written in place instead: see `open_in_place`. Text is written as UTF-8. Raises StorageError
    as `check_output`, and when the disk is full or the place cannot be written; the old content is then untouched.
    """
    path = Path(path)
    content = data.encode("utf-8") if isinstance(data, str) else data
    temporary: str | None = None
    try:
        stream = open_in_place(path)
        if stream is not None:
            with os.fdopen(stream, "wb") as file:
                file.write(content)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), _file_mode(path))
            os.fsync(file.fileno())
        os.replace(temporary, path)
        temporary = None
        sync_folder(path.parent)
    except (OSError, ValueError) as error:
        raise storage_error(error, path) from error
    finally:
        if temporary is not None:
            with suppress(OSError):  # the error on its way up is the one that matters
                os.unlink(temporary)


def check_output(path: str | Path) -> None:
    """The rule for everything that is written: a new file, or a file that may be written, or a stream (see
    `open_in_place`).

    Links are refused. Most that users name would be harmless, but a folder that somebody else made may hold one
    under the name of a result, and what it points to would be overwritten. Raises StorageError for links, for
    files that are write-protected, for what is no file (folders, sockets, disks), and where there is no such folder.
    """
    path = Path(path)
    if _own_stream(path) is not None:
        return
    here = Location(str(path))
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise StorageError(
                "cannot be written: there is no such folder", location=here, hint="make it first"
            ) from None
        return
    except (OSError, ValueError) as error:
        raise storage_error(error, path) from error
    kind = status.st_mode
    if stat.S_ISLNK(kind):
        raise StorageError(
            f"cannot be written: this is a link to {os.readlink(path)}",
            location=here,
            hint="name the file itself, or remove the link",
        )
    if stat.S_ISDIR(kind):
        raise StorageError("cannot be written: is a directory", location=here, hint="name a file inside it")
    if not (stat.S_ISREG(kind) or stat.S_ISCHR(kind) or stat.S_ISFIFO(kind)):
        what = "a disk" if stat.S_ISBLK(kind) else "a socket"
        raise StorageError(f"cannot be written: this is {what}", location=here, hint="name a file")
    # the permission bits as well, since nothing is denied to the superuser
    if not os.access(path, os.W_OK) or not stat.S_IMODE(kind) & 0o222:
        raise StorageError(
            "cannot be written: the file is write-protected",
            location=here,
            hint="choose another name, or make it writable",
        )


def open_in_place(path: str | Path) -> int | None:
    """A descriptor to write to if `path` is a stream, None where it is a file or nothing yet.

    Streams are character devices (`/dev/null`), pipes, and what this process has open already (`/dev/stdout`, the
    `/dev/fd/63` of a shell's `>(...)`). Raises StorageError as `check_output` and for a pipe that nobody reads.
    """
    path = Path(path)
    check_output(path)
    number = _own_stream(path)
    try:
        if number is not None:
            sys.stdout.flush()  # what was printed before comes before
            return os.dup(number)
        try:
            kind = os.lstat(path).st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISREG(kind):
            return None
        # not blocking, since a pipe that nobody reads would hold us up for ever
        descriptor = _open_pipe(path) if stat.S_ISFIFO(kind) else os.open(path, os.O_WRONLY | os.O_NOCTTY)
        os.set_blocking(descriptor, True)
        return descriptor
    except (OSError, ValueError) as error:
        raise storage_error(error, path) from error


def _own_stream(path: Path) -> int | None:
    """Number of this process's descriptor that a path names."""
    found = _OWN_STREAM.fullmatch(os.path.normpath(path))
    if not found:
        return None
    return {"stdout": 1, "stderr": 2}[found[1]] if found[1] else int(found[2])


def _open_pipe(path: Path) -> int:
    """Wait a moment for the reader of a pipe. Raises StorageError when there is none."""
    end = time.monotonic() + _PIPE_SECONDS
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > end:
                raise StorageError(
                    "cannot be written: nobody reads this pipe",
                    location=Location(str(path)),
                    hint="start its reader first, or name a file",
                ) from None
            time.sleep(0.05)


def output_folder(path: str | Path, *inside: str) -> Path:
    """The folder at `path`, created with its parents when missing, checked to be writable.

    Args:
        path: as the user names it; may be a link to a folder.
        inside: names of folders below it, which must be no links (see `check_output`); the last one is returned.

    Raises StorageError when it is a file, cannot be created, cannot be written, or its disk is full.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in inside:
            folder = folder / name
            folder.mkdir(exist_ok=True)
            if folder.is_symlink():
                raise StorageError(
                    f"this folder is a link to {os.readlink(folder)}",
                    location=Location(str(folder)),
                    hint=f"remove the link, or choose another {argument('out')}",
                )
        # permission bits lie for the superuser and on network file systems: only writing proves it
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"baco")
            probe.flush()
    except FileExistsError as error:
        raise StorageError(
            "the output folder is an existing file",
            location=Location(str(folder)),
            hint=f"choose another {argument('out')}",
        ) from error
    except (OSError, ValueError) as error:
        raise storage_error(error, folder) from error
    return folder


def storage_error(error: OSError | ValueError, path: str | Path) -> StorageError:
    """The StorageError that explains a failed write to `path`."""
    here = Location(str(path))
    code = error.errno if isinstance(error, OSError) else None
    if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageError(
            f"cannot be written: {_reason(error)}",
            location=here,
            hint="free disk space or choose another folder",
        )
    return StorageError(
        f"cannot be written: {_reason(error)}", location=here, hint="choose a folder that you may write to"
    )


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full"
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).lower()


def _file_mode(path: Path) -> int:
    """Mode of the file replaced, or what the process's mask gives a new one (mkstemp's is private)."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def sync_folder(folder: Path) -> None:
    """Make the renaming itself durable, where the file system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # not a folder one may open: the content is safe, only the crash guarantee is weaker
    with suppress(OSError):  # some network file systems refuse to sync a folder
        os.fsync(handle)
    os.close(handle)
