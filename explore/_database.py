"""SQLite files of ours: recognised before they are touched, read in bounded time and memory, errors one can act on.

Such a file may come from somebody else. So its schema must be ours to the letter (no views, no triggers, no tables of
another program's), every row carries a checksum, and no link stands in the place of one of its files.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from baco.common.errors import Location, StorageError

#: Larger files are not opened: real ones have a few MiB.
MAX_BYTES = 512 << 20
#: What SQLite, and we, write beside a database.
_BESIDE = (
    "-wal",
    "-shm",
    "-journal",
    "-wal.kept",
    "-wal.kept.new",
    ".new",
    ".new-wal",
    ".new-shm",
    ".new-journal",
)
#: How long checking a file may take: far more than any real one needs, since its pages may form a maze.
_SECONDS, _SECONDS_A_BYTE = 6.0, 1 / (5 << 20)
#: Instructions of SQLite's between two looks at the clock.
_INSTRUCTIONS = 50_000


@dataclass(frozen=True)
class Format:
    """What a kind of database is.

    Attributes:
        name: for messages, with its article: `the study`.
        application_id: marks the file (`PRAGMA application_id`).
        version: of the schema.
        schema: the statements that make it.
        remedy: what to do about a damaged one.
        going_on: how to go on when the disk was full.
    """

    name: str
    application_id: int
    version: int
    schema: str
    remedy: str
    going_on: str

    def damaged(self, path: Path, what: str) -> StorageError:
        """The error for a file whose content cannot be trusted; `what` names the damaged part."""
        return StorageError(f"{self.name} is damaged: {what}", location=Location(str(path)), hint=self.remedy)

    @contextmanager
    def errors(self, path: Path, doing: str) -> Iterator[None]:
        """Turn errors of SQLite and of the operating system into a StorageError that says what to do."""
        where = Location(str(path))
        try:
            yield
        except sqlite3.Error as error:
            # Errors that Python's binding finds itself (undecodable text) carry no code: they are damage.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise StorageError(
                    f"the disk is full ({doing})",
                    location=where,
                    hint=f"what was recorded before is intact: free some space and {self.going_on}",
                ) from error
            if code == sqlite3.SQLITE_IOERR:
                raise StorageError(
                    f"reading or writing failed ({doing}): {error}",
                    location=where,
                    hint="check free space, quotas and file size limits; what was recorded before is intact "
                    f"({self.going_on})",
                ) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StorageError(
                    f"another program holds {self.name} ({doing})", location=where, hint="close that program"
                ) from error
            if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
                raise StorageError(
                    f"no access to {self.name} ({doing}): {error}",
                    location=where,
                    hint="check the permissions of the file and of its folder, or choose another place",
                ) from error
            if code == sqlite3.SQLITE_NOTADB:
                raise self.damaged(
                    path, f"its header is not that of {self.name} (not an SQLite file)"
                ) from error
            if code == sqlite3.SQLITE_INTERRUPT:
                raise self.damaged(path, "checking it takes too long") from error
            raise self.damaged(path, str(error)) from error
        except UnicodeDecodeError as error:  # SQLite's message quotes bytes of a damaged file
            raise self.damaged(path, "its schema is no text") from error
        except MemoryError as error:
            raise self.damaged(path, "its values are larger than memory") from error
        except OSError as error:
            raise StorageError(
                f"{error.strerror or error} ({doing})",
                location=where,
                hint="check free space and permissions, or choose another place",
            ) from error

    @property
    def creation(self) -> str:
        """The statements that make the empty tables of a new file."""
        return (
            f"PRAGMA application_id={self.application_id}; PRAGMA user_version={self.version}; {self.schema}"
        )

    def check_header(self, path: Path) -> None:
        """Raise StorageError unless a file bears the mark of this format. SQLite is not asked: to open another
        program's database may change it."""
        with open(path, "rb") as file:
            header = file.read(100)
        if not header.startswith(b"SQLite format 3\0"):
            raise self.damaged(path, f"its header is not that of {self.name} (not an SQLite file)")
        # the offset: file format of SQLite, 1.3
        if int.from_bytes(header[68:72], "big") != self.application_id:
            raise self.damaged(path, f"its header is not that of {self.name}")

    def check(self, connection: sqlite3.Connection, path: Path) -> None:
        """Raise StorageError unless an open file is of this version, with exactly these tables."""
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != self.version:
            raise StorageError(
                f"{self.name} has format version {version}, this baco reads version {self.version}",
                location=Location(str(path)),
                hint="use the version of baco that made it, or start anew in another place",
            )
        found, expected = set(connection.execute(_TABLES)), self._tables()
        if found != expected:
            names = sorted({str(row[1]) for row in found ^ expected})
            raise self.damaged(path, f"its tables are not those of {self.name}: {', '.join(names)[:200]}")

    def _tables(self) -> set[tuple[object, ...]]:
        with sqlite3.connect(":memory:") as empty:
            empty.executescript(self.schema)
            return set(empty.execute(_TABLES))


_TABLES = "SELECT type, name, tbl_name, sql FROM sqlite_schema LIMIT 1000"


def prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Settings of every connection; it is closed when they cannot be made."""
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
        # FULL: a commit is on the disk before it is acknowledged, so a power cut loses nothing either.
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "synchronous=FULL", "mmap_size=0"):
            connection.execute(f"PRAGMA {pragma}")
    except (sqlite3.Error, UnicodeDecodeError):
        connection.close()
        raise
    return connection


def check_files(path: Path) -> None:
    """Raise StorageError where a link or something else than a file stands at `path` or beside it under a name that
    SQLite or we would write to, and where a file is too large."""
    for beside in ("", *_BESIDE):
        name = path.with_name(path.name + beside)
        try:
            status = os.lstat(name)
        except OSError:
            continue  # not there, or not to be seen: opening it tells
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(
                "this should be a file, but it is a link or something else",
                location=Location(str(name)),
                hint="remove it, if you know where it comes from" if beside else "name the file itself",
            )
        if status.st_size > MAX_BYTES:
            raise StorageError(
                f"the file has {status.st_size:,} bytes, more than the {MAX_BYTES:,} allowed",
                location=Location(str(name)),
            )


@contextmanager
def bounded_time(connection: sqlite3.Connection, size_bytes: int) -> Iterator[None]:
    """Interrupt SQLite within the block when checking a file of that size takes far longer than it should."""
    # of the processor, since a busy machine is no reason to call a file damaged
    end = time.thread_time() + _SECONDS + size_bytes * _SECONDS_A_BYTE
    connection.set_progress_handler(lambda: time.thread_time() > end, _INSTRUCTIONS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def row_digest(*values: object) -> str:
    """Checksum of a row: SQLite notices a torn page, but not a changed digit."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(value if isinstance(value, bytes) else repr(value).encode())
        digest.update(b"|")
    return digest.hexdigest()[:16]


def insert(connection: sqlite3.Connection, table: str, *values: object, otherwise: str = "ABORT") -> None:
    """A row of a table of ours, whose last column is the checksum of the others.

    Args:
        otherwise: what becomes of it where there is one of its key (`INSERT OR ...`).
    """
    row = (*values, row_digest(*values))
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT OR {otherwise} INTO {table} VALUES ({marks})", row)


class Closing:
    """An open file of ours, closed at the end of a `with` block."""

    def close(self) -> None:
        """Give the file back; harmless when repeated."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
