"""Records by what they are of, in a file that survives being killed."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from baco.common.errors import BacoError
from baco.common.locks import Claims
from baco.exploration._database import Closing, Format, bounded_time, check_files, insert, prepare, row_digest
from baco.exploration._json import dump, load

#: Other processes write in between, each for a moment.
_WAIT_SECONDS = 60.0

ValueT = TypeVar("ValueT")


class RecordStore(Closing, Generic[ValueT]):
    """Records by key, in one SQLite file; several processes may have it open and write (see `baco.exploration.executors.tasks.Shelf`).

    `put` returns when the record is on disk: whoever is killed afterwards loses nothing. A row that does not match
    its checksum is as good as not there: what it held is made again.

    A kind of store says the `FORMAT` of its file, its `TABLE` there, what a `RECORD` is called, and how it becomes plain values and comes back.

    Args:
        path: of the file, made when missing.
        note: gets a sentence for each damaged row; default: standard error.

    Raises StorageError for a file that cannot be read or written, or is something else.
    """

    FORMAT: ClassVar[Format]
    TABLE: ClassVar[str]
    RECORD: ClassVar[str]

    @staticmethod
    def plain(value: ValueT) -> dict[str, Any]:
        """As JSON has it."""
        raise NotImplementedError

    @staticmethod
    def value(data: dict[str, Any]) -> ValueT:
        """Inverse of `plain`. Raises BacoError or ValueError for anything else."""
        raise NotImplementedError

    def __init__(self, path: str | Path, *, note: Callable[[str], None] | None = None) -> None:
        self.path = Path(path)
        self._note = note or _to_standard_error
        self._claims: Claims | None = None
        with self.FORMAT.errors(self.path, "opening it"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            check_files(self.path)
            if self.path.exists() and self.path.stat().st_size:
                self.FORMAT.check_header(self.path)
            self._connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._connection.close()
                raise

    def _open(self) -> None:
        with bounded_time(self._connection, self.path.stat().st_size):
            prepare(self._connection)
            self._connection.execute("BEGIN IMMEDIATE")  # of two processes that make the file, one waits
            try:
                if not self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                    for statement in filter(str.strip, self.FORMAT.creation.split(";")):
                        self._connection.execute(statement)
                self.FORMAT.check(self._connection, self.path)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("PRAGMA journal_mode=WAL")

    def get(self, key: str) -> ValueT | None:
        """The record of that key, None if there is none."""
        with self.FORMAT.errors(self.path, "reading it"):
            row = self._connection.execute(
                f"SELECT record, digest FROM {self.TABLE} WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else self._read(key, *row)

    def put(self, key: str, value: ValueT) -> ValueT:
        """Keep a record unless there is one of that key, and give back what is kept.

        The first counts: a worker whose parent was killed may finish what a later run has measured meanwhile.
        """
        how = "IGNORE" if self.get(key) else "REPLACE"  # a damaged one is replaced
        with self.FORMAT.errors(self.path, "writing it"):
            insert(self._connection, self.TABLE, key, dump(self.plain(value)), otherwise=how)
        found = self.get(key)
        return value if found is None else found

    def all(self) -> dict[str, ValueT]:
        """Everything by key."""
        with self.FORMAT.errors(self.path, "reading it"):
            rows = self._connection.execute(
                f"SELECT key, record, digest FROM {self.TABLE} ORDER BY key"
            ).fetchall()
        found = {key: self._read(key, record, digest) for key, record, digest in rows}
        return {key: one for key, one in found.items() if one is not None}

    def claim(self, key: str) -> bool:
        """Whether this process may work at that key, since no other does (in a file of locks beside this one)."""
        if self._claims is None:
            self._claims = Claims(self.path.with_name(f"{self.path.name}-claims"))
        return self._claims.claim(key)

    def release(self, key: str) -> None:
        """Give a claim back."""
        if self._claims is not None:
            self._claims.release(key)

    def __reduce__(self) -> tuple[type[RecordStore[ValueT]], tuple[Path]]:
        """Opened again where it arrives."""
        return type(self), (self.path.absolute(),)

    def close(self) -> None:
        """Close the file and give all claims back; a closed store cannot be used."""
        self._connection.close()
        if self._claims is not None:
            self._claims.close()

    def _read(self, key: str, record: str, digest: str) -> ValueT | None:
        try:
            if row_digest(key, record) == digest:
                return self.value(load(record))
        except (BacoError, ValueError):
            pass
        self._note(f"note: {self.RECORD} {key} in {self.path} is damaged: it is made again")
        return None


def _to_standard_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")
