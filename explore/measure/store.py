"""Finished measurements by what they are of, in a file that survives being killed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any

from accel.config import Accelerator
from common.errors import Location, StorageError
from common.provenance import stable_hash
from compiler.layer import Layer
from compiler.schedule import Schedule
from explore.measure.layer import LayerMeasurement
from explore.measure.text import layer_text, schedule_text
from sim.job import Memory

__all__ = ["MeasurementStore", "measurement_key", "source_hash"]

_SCHEMA = "CREATE TABLE IF NOT EXISTS measurements (key TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
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
        package, _, inside = folder.partition("/")
        root = Path(str(resources.files(package))) / inside
        for path in sorted(root.rglob("*")):
            if path.name.endswith(suffixes):
                digest.update(f"{folder}/{path.relative_to(root).as_posix()}\0".encode())
                digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class _Subject:
    config: str
    layer: str
    schedule: str
    memory: dict[str, Any]
    seed: int
    sources: str


def measurement_key(
    layer: Layer, schedule: Schedule, accelerator: Accelerator, *, seed: int = 0, memory: Memory | None = None
) -> str:
    """Equal for measurements that must come out equal. Raises InputError for layers that have no text."""
    subject = _Subject(
        accelerator.config_hash,
        layer_text(layer),
        schedule_text(schedule),
        asdict(memory or Memory()),
        seed,
        source_hash(),
    )
    return stable_hash(asdict(subject))


class MeasurementStore:
    """Measurements by key, in one SQLite file; several processes may have it open and write.

    `put` returns when the measurement is on disk: whoever is killed afterwards loses nothing. Raises StorageError
    for a file that cannot be read or written, or is something else.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._errors("opening"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute(_SCHEMA)

    def get(self, key: str) -> LayerMeasurement | None:
        """The measurement of that key, None if there is none."""
        with self._errors("reading"):
            row = self._connection.execute("SELECT record FROM measurements WHERE key = ?", (key,)).fetchone()
        return None if row is None else self._read(row[0])

    def put(self, key: str, measurement: LayerMeasurement) -> LayerMeasurement:
        """Keep a measurement unless there is one of that key, and give back what is kept.

        The first counts: a worker whose parent was killed may finish what a later run has measured meanwhile.
        """
        record = json.dumps(measurement.to_dict(), separators=(",", ":"))
        with self._errors("writing"):
            self._connection.execute("INSERT OR IGNORE INTO measurements VALUES (?, ?)", (key, record))
        return self.get(key) or measurement

    def all(self) -> dict[str, LayerMeasurement]:
        """Everything by key."""
        with self._errors("reading"):
            rows = self._connection.execute("SELECT key, record FROM measurements ORDER BY key").fetchall()
        return {key: self._read(record) for key, record in rows}

    def close(self) -> None:
        """Close the file; a closed store cannot be used."""
        self._connection.close()

    def __enter__(self) -> MeasurementStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, record: str) -> LayerMeasurement:
        try:
            return LayerMeasurement(**json.loads(record))
        except (TypeError, ValueError) as error:
            raise self._error("it holds something else than measurements") from error

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(f"{doing} failed: {error}") from error
        except OSError as error:
            raise self._error(f"{doing} failed: {error.strerror or error}") from error

    def _error(self, what: str) -> StorageError:
        return StorageError(
            f"the store of measurements cannot be used: {what}",
            location=Location(str(self.path)),
            hint="free disk space, check permissions, or name another file; finished measurements are kept",
        )
