"""The file under a study: one SQLite database in WAL mode, one writer, errors a user can act on.

What it promises beyond SQLite itself: a second writer is told who the first one is, and the write-ahead log
may lose its tail at *any* moment without damage. SQLite alone does not promise the latter: once a checkpoint
has copied newer pages into the database, replaying a shortened log would lay older pages over them. So
checkpoints happen here only, under a copy of the log that `_restore_log` puts back when it was cut meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from common.errors import Location, StorageError

#: Marks the file as a study ("baco" in ASCII), see `PRAGMA application_id`.
APPLICATION_ID = 0x6261636F
#: Version of the schema; an older one is read, and brought up to date by who writes it; a later one is refused.
SCHEMA_VERSION = 2
#: The log is folded into the database when it has grown beyond this, so that it stays small on disk.
CHECKPOINT_BYTES = 16 << 20
_WAL_HEADER_BYTES = 32
_NEW_COPY = "explore again into another folder (--out), or restore a copy of this file"


def damaged(path: Path, what: str) -> StorageError:
    """The error for a study whose content cannot be trusted; `what` names the damaged part."""
    return StorageError(f"the study is damaged: {what}", location=Location(str(path)), hint=_NEW_COPY)


@contextmanager
def storage_errors(path: Path, doing: str) -> Iterator[None]:
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
                hint="what was recorded before is intact: free some space and continue with --resume",
            ) from error
        if code == sqlite3.SQLITE_IOERR:
            raise StorageError(
                f"reading or writing failed ({doing}): {error}",
                location=where,
                hint="check free space, quotas and file size limits; what was recorded before is intact "
                "(continue with --resume)",
            ) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StorageError(
                f"another program holds the study ({doing})", location=where, hint="close that program"
            ) from error
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise StorageError(
                f"no access to the study ({doing}): {error}",
                location=where,
                hint="check the permissions of the file and of its folder, or choose another --out",
            ) from error
        if code == sqlite3.SQLITE_NOTADB:
            raise damaged(path, "its header is not that of a study (not an SQLite file)") from error
        raise damaged(path, str(error)) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes bytes of a damaged file
        raise damaged(path, "its schema is no text") from error
    except OSError as error:
        raise StorageError(
            f"{error.strerror or error} ({doing})",
            location=where,
            hint="check free space and permissions, or choose another --out",
        ) from error


def row_digest(*values: object) -> str:
    """Checksum of a row: SQLite notices a torn page, but not a changed digit."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(value if isinstance(value, bytes) else repr(value).encode())
        digest.update(b"|")
    return digest.hexdigest()[:16]


def dump(data: object) -> str:
    """Plain values as JSON, short."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True)


def marks(values: Sequence[object]) -> str:
    """Placeholders for `values` in an SQL statement."""
    return ", ".join("?" * len(values))


class WriterLock:
    """Exclusive right to write one study, held by a process until it ends in whatever way.

    Raises StorageError naming the holder's process, host and command when it is taken.
    """

    def __init__(self, study: Path) -> None:
        self.path = study.with_name(study.name + ".lock")
        with storage_errors(study, "locking it"):
            self._descriptor = self._acquire(study)
            holder = {"pid": os.getpid(), "host": platform.node(), "command": " ".join(sys.argv) or "python"}
            os.ftruncate(self._descriptor, 0)
            try:
                os.pwrite(self._descriptor, json.dumps(holder).encode(), 0)
            except OSError:
                # A full disk must not keep a study from being opened; only the name of the holder is lost.
                os.ftruncate(self._descriptor, 0)

    def _acquire(self, study: Path) -> int:
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = os.pread(descriptor, 4096, 0)
                os.close(descriptor)
                raise StorageError(
                    f"{self._holder(text)} is writing this study",
                    location=Location(str(study)),
                    hint="wait for it, stop it, or choose another --out",
                ) from None
            except OSError:
                os.close(descriptor)
                raise
            try:
                if os.fstat(descriptor).st_ino == os.stat(self.path).st_ino:
                    return descriptor
            except FileNotFoundError:
                pass  # the previous holder removed the file between our open and our lock: take a new one
            os.close(descriptor)

    @staticmethod
    def _holder(text: bytes) -> str:
        try:
            holder = json.loads(text)
            return f"process {holder['pid']} on {holder['host']} ({holder['command']})"
        except (ValueError, KeyError, TypeError):
            return "another process"

    def release(self) -> None:
        """Give the lock back; harmless when repeated."""
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Store:
    """A connection to a study's file.

    Args:
        path: the database; it must exist (see `create`).
        read_only: never writes, needs no lock, and may be used while another process explores.

    Attributes:
        version: of the file's schema, at most `SCHEMA_VERSION`.

    Raises:
        StorageError: missing, damaged, of another version, locked, or without access.
    """

    def __init__(self, path: Path, *, read_only: bool = False, lock: WriterLock | None = None) -> None:
        self.path = path
        self.read_only = read_only
        self._log = path.with_name(path.name + "-wal")
        self._kept = path.with_name(path.name + "-wal.kept")
        if not path.is_file():
            raise StorageError(
                "there is no study here", location=Location(str(path)), hint="check --out, or explore first"
            )
        self._lock = lock
        if not read_only and lock is None:
            self._lock = WriterLock(path)
        try:
            with storage_errors(path, "opening it"):
                self._restore_log()
                self.connection = self._connect()
                try:
                    self._check_header()
                except BaseException:
                    self.connection.close()
                    raise
        except BaseException:
            self._release()
            raise

    @classmethod
    def create(cls, path: Path, schema: str, rows: list[tuple[str, tuple[object, ...]]]) -> Store:
        """A new database with `schema` and the `rows` (statement, values), complete or not there at all.

        Raises StorageError when a file is already there or the folder cannot be written.
        """
        lock = WriterLock(path)
        new = path.with_name(path.name + ".new")
        try:
            if path.exists():
                raise StorageError(
                    "a study is already here", location=Location(str(path)), hint="use --resume"
                )
            with storage_errors(path, "creating it"):
                # What an interrupted creation left must not be taken for the log of the new file.
                for name in (path.name, new.name):
                    for end in ("-wal", "-shm", "-wal.kept", "-journal"):
                        path.with_name(name + end).unlink(missing_ok=True)
                new.unlink(missing_ok=True)
                connection = sqlite3.connect(new, isolation_level=None)
                try:
                    connection.executescript(
                        f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={SCHEMA_VERSION};"
                        f"PRAGMA synchronous=FULL; BEGIN; {schema}"
                    )
                    for statement, values in rows:
                        connection.execute(statement, values)
                    connection.execute("COMMIT")
                    connection.execute("PRAGMA journal_mode=WAL")
                finally:
                    connection.close()
                os.replace(new, path)
                _sync_folder(path.parent)
        except BaseException:
            new.unlink(missing_ok=True)
            lock.release()
            raise
        return cls(path, lock=lock)

    def _connect(self) -> sqlite3.Connection:
        if self.read_only:
            image = self._image()
            if image is not None:
                connection = sqlite3.connect(":memory:", isolation_level=None)
                if image:
                    # Memory has no room for a log: the header must not ask for one (file format, 1.3.3).
                    connection.deserialize(image[:18] + b"\x01\x01" + image[20:])
                connection.execute("PRAGMA query_only=ON")
                return self._prepared(connection)
        uri = f"{self.path.absolute().as_uri()}?mode={'ro' if self.read_only else 'rw'}"
        return self._prepared(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10.0))

    @staticmethod
    def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
        try:
            # FULL: a commit is on the disk before it is acknowledged, so a power cut loses nothing either.
            for pragma in (
                "trusted_schema=OFF",
                "cell_size_check=ON",
                "synchronous=FULL",
                "wal_autocheckpoint=0",
            ):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except (sqlite3.Error, UnicodeDecodeError):
            connection.close()
            raise
        return connection

    def _image(self) -> bytes | None:
        """The whole study as bytes, if nobody is writing it and nothing waits in a log; else None.

        SQLite's own way of reading would leave its index and an empty log beside the study, and needs the
        right to write them.
        """
        try:
            lock = WriterLock(self.path)
        except StorageError as error:
            if not isinstance(error.__cause__, OSError):
                return None  # somebody is writing
            lock = None  # a folder without write access: nobody can
        try:
            if self._log.exists() and self._log.stat().st_size:
                return None
            return self.path.read_bytes()
        finally:
            if lock is not None:
                lock.release()

    def _check_header(self) -> None:
        application = self.connection.execute("PRAGMA application_id").fetchone()[0]
        version = self.connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise damaged(self.path, "its header is not that of a study")
        if not 1 <= version <= SCHEMA_VERSION:
            raise StorageError(
                f"the study has format version {version}, this baco reads versions up to {SCHEMA_VERSION}",
                location=Location(str(self.path)),
                hint="use the version of baco that made it, or explore again into another folder (--out)",
            )
        self.version = int(version)

    def _restore_log(self) -> None:
        if not self._kept.exists():
            return
        lock = None
        if self._lock is None:
            try:
                lock = WriterLock(self.path)
            except StorageError:
                return  # a live writer needs no help, and without write access nothing can be restored
        try:
            kept = self._kept.read_bytes()
            log = self._log.read_bytes() if self._log.exists() else b""
            # The header of a log holds salts that change when it starts anew, which it does only after a
            # complete checkpoint: then the copy has served its purpose.
            if len(log) >= _WAL_HEADER_BYTES and log[:_WAL_HEADER_BYTES] != kept[:_WAL_HEADER_BYTES]:
                self._kept.unlink()
            elif len(log) < len(kept):
                with open(self._log, "r+b" if self._log.exists() else "wb") as file:
                    file.write(kept)
                    file.flush()
                    os.fsync(file.fileno())
        finally:
            if lock is not None:
                lock.release()

    @contextmanager
    def transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        """All or nothing: committed and on the disk when the block ends, undone when it raises."""
        with storage_errors(self.path, doing):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def migrate(self, schema: str) -> None:
        """Bring a study of an earlier version up to date: statements of `schema`, all or none."""
        with self.transaction("bringing it up to date") as connection:
            for statement in filter(str.strip, schema.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self.version = SCHEMA_VERSION

    @contextmanager
    def snapshot(self, doing: str) -> Iterator[sqlite3.Connection]:
        """A consistent view for several reads while another process writes."""
        with storage_errors(self.path, doing):
            if self.connection.in_transaction:
                yield self.connection
                return
            self.connection.execute("BEGIN")
            try:
                yield self.connection
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    def checkpoint(self, *, beyond_bytes: int = 0) -> None:
        """Fold the log into the database if it is longer than `beyond_bytes`.

        Housekeeping: whatever fails here (a full disk, a reader in the way) leaves the log in force and loses
        nothing, so it is not reported; a disk that is truly full fails the next commit.
        """
        temporary = self._kept.with_name(self._kept.name + ".new")
        try:
            if not self._log.exists() or self._log.stat().st_size <= beyond_bytes:
                return
            shutil.copyfile(self._log, temporary)
            descriptor = os.open(temporary, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, self._kept)
            _sync_folder(self.path.parent)
            busy = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if not busy:
                self._kept.unlink()
        except (OSError, sqlite3.Error):
            temporary.unlink(missing_ok=True)

    def close(self) -> None:
        """Fold the log in and give the lock back; harmless when repeated."""
        try:
            if not self.read_only and self._lock is not None:
                self.checkpoint()
            self.connection.close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
