"""Finished measurements by what they are of, in a file that survives being killed."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from baco.accel.config import Accelerator
from baco.common.provenance import stable_hash
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import layer_text
from baco.compiler.schedules.schedule import Schedule
from baco.exploration._database import Format
from baco.exploration._record_store import RecordStore
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


class MeasurementStore(RecordStore[Measurement]):
    """Measurements by key."""

    FORMAT, TABLE, RECORD = _FORMAT, "measurements", "the measurement"

    @staticmethod
    def plain(value: Measurement) -> dict[str, Any]:
        """See `RecordStore`."""
        return value.to_dict()

    @staticmethod
    def value(data: dict[str, Any]) -> Measurement:
        """See `RecordStore`."""
        return Measurement.from_dict(data)
