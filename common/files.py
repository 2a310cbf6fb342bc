"""Reading user files and writing results: size limits in, all or nothing out."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from common.errors import InputError, Location, StorageError

#: Largest user file read whole; layer tables and mapping tables stay far below it.
MAX_INPUT_BYTES = 1 << 30


def read_input(path: str | Path, *, limit_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Content of a file named by the user.

    Raises InputError when it is missing, a folder, a pipe or device (which could block for ever),
    unreadable or larger than `limit_bytes`.
    """
    path = Path(path)
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

    Text is written as UTF-8. Raises StorageError when the disk is full or the place cannot be written; the
    old content is then untouched.
    """
    path = Path(path)
    content = data.encode("utf-8") if isinstance(data, str) else data
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), _file_mode(path))
            os.fsync(file.fileno())
        os.replace(temporary, path)
        temporary = None
        _sync_folder(path.parent)
    except (OSError, ValueError) as error:
        raise storage_error(error, path) from error
    finally:
        if temporary is not None:
            with suppress(OSError):  # the error on its way up is the one that matters
                os.unlink(temporary)


def output_folder(path: str | Path) -> Path:
    """The folder at `path`, created with its parents when missing, checked to be writable.

    Raises StorageError when it is a file, cannot be created, cannot be written, or its disk is full.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # permission bits lie for the superuser and on network file systems: only writing proves it
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"baco")
            probe.flush()
    except FileExistsError as error:
        raise StorageError(
            "the output folder is an existing file",
            location=Location(str(folder)),
            hint="choose another --out",
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


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself durable, where the file system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # not a folder one may open: the content is safe, only the crash guarantee is weaker
    with suppress(OSError):  # some network file systems refuse to sync a folder
        os.fsync(handle)
    os.close(handle)
