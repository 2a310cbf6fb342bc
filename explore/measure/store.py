"""Finished measurements by what they are of, in a file that survives being killed."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path

from baco.accel.config import Accelerator
from baco.common.errors import BacoError
from baco.common.locks import Claims
from baco.common.provenance import stable_hash
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import layer_text
from baco.compiler.schedules.schedule import Schedule
from baco.exploration._database import Closing, Format, bounded_time, check_files, insert, prepare, row_digest
from baco.exploration._json import dump, load
from baco.exploration.measure.measurement import Measurement
from baco.sim.engines.base import CycleEngine
from baco.sim.job import MainMemory

_FORMAT = Format(
    name="the store of measurements",
    application_id=0x6261636D,  # "bacm" in ASCII
    version=1,
    schema="CREATE TABLE measurements (key TEXT PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID",
    remedy="remove the file, or name another one: what it held will be measured again",
    going_on="start the same command again",
)
#: Other processes write in between, each for a moment.
_WAIT_SECONDS = 60.0
#: What a measurement depends on beside the accelerator: Verilog, harness, compiler, and the runtime of programs.
_SOURCES = (
    ("accel", (".v", ".py")),
    ("sim/cpp", (".h", ".cpp")),
    ("compiler", (".py", ".c", ".h", ".S", ".ld")),
)


@cache
def source_hash() -> str:
    """16 hexadecimal digits over the sources that decide what a measurement gives."""
    digest = sha256()
    for folder, suffixes in _SOURCES:
        root = Path(str(resources.files("baco"))) / folder
        for path in sorted(root.rglob("*")):
            if path.name.endswith(suffixes):
                digest.update(f"{folder}/{path.relative_to(root).as_posix()}\0".encode())
                digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def measurement_key(
    layer: Layer, schedule: Schedule, accelerator: Accelerator, engine: CycleEngine = "rtl"
) -> str:
    """Equal for measurements that must come out equal. Raises InputError for layers that have no text."""
    other = {} if engine == "rtl" else {"engine": engine}
    return stable_hash(
        other
        | {
            "config": accelerator.config_hash,
            "timing": accelerator.timing,
            "layer": layer_text(layer),
            "schedule": schedule.text,
            "memory": asdict(MainMemory()),
            "sources": source_hash(),
        }
    )


class MeasurementStore(Closing):
    """Measurements by key, in one SQLite file; several processes may have it open and write (see `baco.exploration.executors.tasks.Shelf`).

    `put` returns when the measurement is on disk: whoever is killed afterwards loses nothing. A row that does not match
    its checksum is as good as not there: what it held is measured again.

    Args:
        path: of the file, made when missing.
        note: gets a sentence for each damaged row; default: standard error.

    Raises StorageError for a file that cannot be read or written, or is something else.
    """

    def __init__(self, path: str | Path, *, note: Callable[[str], None] | None = None) -> None:
        self.path = Path(path)
        self._note = note or _to_standard_error
        self._claims: Claims | None = None
        with _FORMAT.errors(self.path, "opening it"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            check_files(self.path)
            if self.path.exists() and self.path.stat().st_size:
                _FORMAT.check_header(self.path)
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
                    for statement in filter(str.strip, _FORMAT.creation.split(";")):
                        self._connection.execute(statement)
                _FORMAT.check(self._connection, self.path)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("PRAGMA journal_mode=WAL")

    def get(self, key: str) -> Measurement | None:
        """The measurement of that key, None if there is none."""
        with _FORMAT.errors(self.path, "reading it"):
            row = self._connection.execute(
                "SELECT record, digest FROM measurements WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else self._read(key, *row)

    def put(self, key: str, measurement: Measurement) -> Measurement:
        """Keep a measurement unless there is one of that key, and give back what is kept.

        The first counts: a worker whose parent was killed may finish what a later run has measured meanwhile.
        """
        how = "IGNORE" if self.get(key) else "REPLACE"  # a damaged one is replaced
        with _FORMAT.errors(self.path, "writing it"):
            insert(self._connection, "measurements", key, dump(measurement.to_dict()), otherwise=how)
        return self.get(key) or measurement

    def all(self) -> dict[str, Measurement]:
        """Everything by key."""
        with _FORMAT.errors(self.path, "reading it"):
            rows = self._connection.execute(
                "SELECT key, record, digest FROM measurements ORDER BY key"
            ).fetchall()
        found = {key: self._read(key, record, digest) for key, record, digest in rows}
        return {key: one for key, one in found.items() if one is not None}

    def claim(self, key: str) -> bool:
        """Whether this process may measure that key, since no other does (in a file of locks beside this one)."""
        if self._claims is None:
            self._claims = Claims(self.path.with_name(f"{self.path.name}-claims"))
        return self._claims.claim(key)

    def release(self, key: str) -> None:
        """Give a claim back."""
        if self._claims is not None:
            self._claims.release(key)

    def __reduce__(self) -> tuple[type[MeasurementStore], tuple[Path]]:
        """Opened again where it arrives."""
        return MeasurementStore, (self.path.absolute(),)

    def close(self) -> None:
        """Close the file and give all claims back; a closed store cannot be used."""
        self._connection.close()
        if self._claims is not None:
            self._claims.close()

    def _read(self, key: str, record: str, digest: str) -> Measurement | None:
        try:
            if row_digest(key, record) == digest:
                return Measurement.from_dict(load(record))
        except (BacoError, ValueError):
            pass
        self._note(f"note: the measurement {key} in {self.path} is damaged: it is made again")
        return None


def _to_standard_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")
