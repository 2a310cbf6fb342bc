"""The file under a study: one SQLite database in WAL mode, one writer, errors a user can act on.

What it promises beyond SQLite itself: a second writer is told who the first one is, and the write-ahead log
may lose its tail at *any* moment without damage. SQLite alone does not promise the latter: once a checkpoint
has copied newer pages into the database, replaying a shortened log would lay older pages over them. So
checkpoints happen here only, under a copy of the log that `_restore_log` puts back when it was cut meanwhile.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from baco.common.door import argument, words
from baco.common.errors import Location, StorageError
from baco.common.files import sync_folder
from baco.common.locks import open_lock, try_lock
from baco.exploration._database import Closing, Format, bounded_time, check_files, insert, prepare

#: The log is folded into the database when it has grown beyond this, so that it stays small on disk.
CHECKPOINT_BYTES = 16 << 20
_WAL_HEADER_BYTES = 32
STUDY = Format(
    name="the study",
    application_id=0x6261636F,  # "baco" in ASCII
    version=5,
    schema="""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE tasks (position INTEGER PRIMARY KEY, task TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE sessions (number INTEGER PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE batches (batch INTEGER PRIMARY KEY, evaluations INTEGER NOT NULL, seconds REAL NOT NULL,
    best_objective REAL, phase TEXT NOT NULL, details TEXT NOT NULL, done INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TABLE candidates (id INTEGER PRIMARY KEY, batch INTEGER NOT NULL, config_hash TEXT NOT NULL,
    accelerator TEXT NOT NULL, mappings TEXT NOT NULL, latency_cycles REAL NOT NULL, energy_pj REAL NOT NULL,
    area_mm2 REAL NOT NULL, source TEXT NOT NULL, samples INTEGER NOT NULL, objective REAL NOT NULL,
    improved INTEGER NOT NULL, front INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TABLE snapshot (one INTEGER PRIMARY KEY CHECK (one = 1), batch INTEGER NOT NULL, arrays BLOB NOT NULL,
    digest TEXT NOT NULL);
CREATE TABLE measurements (key TEXT PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE validations (design TEXT PRIMARY KEY, number INTEGER NOT NULL, record TEXT NOT NULL,
    digest TEXT NOT NULL);
""",
    remedy="explore again into another folder, or restore a copy of this file",
    going_on="resume the study",
)


class HeldError(StorageError):
    """Another process is writing the study."""


class WriterLock:
    """Exclusive right to write one study, held by a process until it ends in whatever way.

    Raises HeldError naming the holder's process, host and command when it is taken, StorageError where there can be
    no lock.
    """

    def __init__(self, study: Path) -> None:
        self.path = study.with_name(study.name + ".lock")
        check_files(study)
        with STUDY.errors(study, "locking it"):
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
            descriptor = open_lock(self.path)
            try:
                free = try_lock(descriptor)
            except OSError:
                os.close(descriptor)
                raise
            if not free:
                text = os.pread(descriptor, 4096, 0)
                os.close(descriptor)
                raise HeldError(
                    f"{self._holder(text)} is writing this study",
                    location=Location(str(study)),
                    hint=f"wait for it, stop it, or choose another {argument('out')}",
                )
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
        except (ValueError, KeyError, TypeError, RecursionError):
            return "another process"

    def release(self) -> None:
        """Give the lock back; harmless when repeated."""
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


class StudyFile(Closing):
    """A connection to a study's file.

    Args:
        path: the database; it must exist (see `create`).
        read_only: never writes, needs no lock, and may be used while another process explores.

    Raises StorageError when it is missing, damaged, of another version, locked, or without access.
    """

    def __init__(self, path: Path, *, read_only: bool = False, lock: WriterLock | None = None) -> None:
        self.path = path
        self.read_only = read_only
        self._log = path.with_name(path.name + "-wal")
        self._kept = path.with_name(path.name + "-wal.kept")
        if not path.is_file():
            raise StorageError(
                "there is no study here",
                location=Location(str(path)),
                hint=f"check {argument('out')}, or explore first",
            )
        check_files(path)
        self._lock = lock
        if not read_only and lock is None:
            self._lock = WriterLock(path)
        try:
            with STUDY.errors(path, "opening it"):
                STUDY.check_header(path)
                self._restore_log()
                self.connection = self._connect()
                try:
                    with self.bounded_time():
                        STUDY.check(self.connection, path)
                except BaseException:
                    self.connection.close()
                    raise
        except BaseException:
            self._release()
            raise

    @classmethod
    def create(cls, path: Path, rows: Sequence[tuple[object, ...]]) -> StudyFile:
        """A new database with the `rows` (table, values), complete or not there at all.

        Raises StorageError when a file is already there or the folder cannot be written.
        """
        lock = WriterLock(path)
        new = path.with_name(path.name + ".new")
        try:
            if path.exists():
                raise StorageError(
                    "a study is already here",
                    location=Location(str(path)),
                    hint=words("use --resume", "use resume=True"),
                )
            with STUDY.errors(path, "creating it"):
                # What an interrupted creation left must not be taken for the log of the new file.
                for name in (path.name, new.name):
                    for end in ("-wal", "-shm", "-wal.kept", "-journal"):
                        path.with_name(name + end).unlink(missing_ok=True)
                new.unlink(missing_ok=True)
                connection = sqlite3.connect(new, isolation_level=None)
                try:
                    connection.executescript(f"PRAGMA synchronous=FULL; BEGIN; {STUDY.creation}")
                    for table, *values in rows:
                        insert(connection, str(table), *values)
                    connection.execute("COMMIT")
                    connection.execute("PRAGMA journal_mode=WAL")
                finally:
                    connection.close()
                os.replace(new, path)
                sync_folder(path.parent)
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
                    image[18:20] = b"\x01\x01"
                    connection.deserialize(image)
                connection.execute("PRAGMA query_only=ON")
                return self._prepared(connection)
        uri = f"{self.path.absolute().as_uri()}?mode={'ro' if self.read_only else 'rw'}"
        return self._prepared(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10.0))

    def _prepared(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        prepare(connection)
        try:
            with self.bounded_time(connection):
                connection.execute("PRAGMA wal_autocheckpoint=0")
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except (sqlite3.Error, UnicodeDecodeError):
            connection.close()
            raise
        return connection

    def bounded_time(self, connection: sqlite3.Connection | None = None) -> AbstractContextManager[None]:
        """For reading what nobody has checked yet; see `baco.exploration._database.bounded_time`."""
        return bounded_time(connection or self.connection, self.path.stat().st_size)

    def _image(self) -> bytearray | None:
        """The whole study as bytes, if nobody is writing it and nothing waits in a log; else None.

        SQLite's own way of reading would leave its index and an empty log beside the study, and needs the
        right to write them.
        """
        try:
            lock = WriterLock(self.path)
        except HeldError:
            return None
        except StorageError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            lock = None  # a folder without write access: nobody can write
        try:
            if self._log.exists() and self._log.stat().st_size:
                return None
            return bytearray(self.path.read_bytes())
        finally:
            if lock is not None:
                lock.release()

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
        with STUDY.errors(self.path, doing):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self, doing: str) -> Iterator[sqlite3.Connection]:
        """A consistent view for several reads while another process writes."""
        with STUDY.errors(self.path, doing):
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
            sync_folder(self.path.parent)
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

    def discard(self) -> None:
        """Close it and remove it, with all that lies beside it."""
        self.connection.close()
        for end in ("", "-wal", "-shm", "-wal.kept"):
            self.path.with_name(self.path.name + end).unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
