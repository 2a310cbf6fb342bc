"""Measured sets as files: a compressed table, a row a measurement, and the accelerators beside it."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.bench.sets.accelerators import SETS
from baco.bench.sets.sample import STRATA, Stratum
from baco.common.errors import InputError, Location
from baco.common.files import atomic_write
from baco.common.numbers import real_number, whole_number
from baco.common.portable import Floats
from baco.common.table import csv_text, read_rows, read_table_text
from baco.common.yaml import load_yaml, parse_model
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.mapping.text import mapping_text, parse_mapping_text
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import parse_schedule
from baco.exploration.measure.measurement import Measurement
from baco.sim.energy import ENERGY_TERMS
from baco.workloads.problem import Problem

ACCELERATORS_FILE = "accelerators.yaml"
#: Columns that are counters of the measurement, and the counters' names.
_COUNTERS = {
    "program_cycles": "",
    "mesh_cycles": "accelerator_mesh_cycles",
    "load_busy_cycles": "accelerator_load_busy_cycles",
    "execute_busy_cycles": "accelerator_execute_busy_cycles",
    "store_busy_cycles": "accelerator_store_busy_cycles",
    "busy_cycles": "accelerator_busy_cycles",
    "channel_busy_cycles": "memory_channel_busy_cycles",
    "host_instructions": "host_instructions",
    "host_commands": "host_rocc_commands",
    "host_stall_command": "host_stall_command",
    "host_stall_fence": "host_stall_fence",
    "read_requests": "memory_read_requests",
    "read_request_bytes": "memory_read_request_bytes",
    "read_latency_cycles": "memory_read_latency_sum_cycles",
    "write_beats": "memory_write_beats",
    "write_bytes": "memory_write_beat_bytes",
    "loads": "MVIN MVIN2 MVIN3",
    "stores": "MVOUT MVOUT_SPAD",
    "preloads": "PRELOAD",
    "computes": "COMPUTE_PRELOADED COMPUTE_ACCUMULATED",
    "configurations": "CONFIG_EX CONFIG_LD CONFIG_ST",
}
_ACTIVITY = (
    "macs", "array_macs", "stationary_words", "accumulator_read_words", "accumulator_write_words",
    "scratchpad_read_bytes", "scratchpad_write_bytes", "dram_read_bytes", "dram_write_bytes",
)  # fmt: skip
_TEXTS = (
    *("index", "what", "accelerator", "status"),
    *("layer", "mapping", "style", "schedule", "seed", "stratum"),
)
#: Columns of numbers.
NUMBERS = ("cycles", *_COUNTERS, *_ACTIVITY, "energy_pj", *(f"{term}_pj" for term in ENERGY_TERMS))
_COLUMNS = (*_TEXTS, *NUMBERS, "reason")


@dataclass(frozen=True)
class MeasuredRow:
    """One measurement as its set has it.

    Attributes:
        index: in the set.
        what: of a systematic set the thing varied, of a random one the resource it was drawn for.
        accelerator: its name.
        status, reason: of the measurement.
        numbers: by `NUMBERS`; 0 unless measured.
        stratum: what the layer waited for by the measured counters; empty unless measured.
    """

    index: int
    what: str
    accelerator: str
    status: str
    layer: str
    mapping: str
    style: str
    schedule: str
    seed: int
    stratum: str
    numbers: Dictionary[str, float]
    reason: str = ""

    @classmethod
    def of(
        cls,
        index: int,
        what: str,
        accelerator: Accelerator,
        layer: Layer,
        mapping: Mapping,
        measurement: Measurement,
        seed: int = 0,
    ) -> MeasuredRow:
        """The row of a measurement."""
        measured = measurement.status == "measured"
        return cls(
            index=index,
            what=what,
            accelerator=accelerator.name,
            status=measurement.status,
            layer=layer_text(layer),
            mapping=mapping_text(mapping),
            style=measurement.style,
            schedule=measurement.schedule,
            seed=seed,
            stratum=measured_stratum(measurement) if measured else "",
            numbers=_numbers(measurement) if measured else dict.fromkeys(NUMBERS, 0.0),
            reason=measurement.reason,
        )


def measured_stratum(measurement: Measurement) -> Stratum:
    """What a measured layer waited for: the resource that was busy for the largest part of its cycles.

    The array while waves enter it, the load and the store unit while a command is in them, and the host core while
    neither a full queue nor a fence holds it, that is, while the accelerator waits for its commands or none are due.
    """
    c = measurement.counters
    busy = {
        "compute": c["accelerator_mesh_cycles"],
        "load": c["accelerator_load_busy_cycles"],
        "store": c["accelerator_store_busy_cycles"],
        # what the host does before the first and after the last command is not the layer's
        "issue": measurement.cycles - c["host_stall_command"] - c["host_stall_fence"],
    }
    return max(STRATA, key=lambda name: busy[name])


def _numbers(m: Measurement) -> dict[str, float]:
    found: dict[str, float] = {"cycles": m.cycles}
    for column, names in _COUNTERS.items():
        if column == "program_cycles":
            found[column] = m.program_cycles
        elif names[0].isupper():
            found[column] = sum(m.counters.get(f"unrolled_{name}", 0) for name in names.split())
        else:
            found[column] = m.counters[names]
    found |= {name: m.activity[name] for name in _ACTIVITY}
    energies = {"energy_pj": m.energy_pj} | {f"{term}_pj": m.energy_terms_pj[term] for term in ENERGY_TERMS}
    return found | {name: round(energy, 3) for name, energy in energies.items()}


@dataclass(frozen=True)
class Dataset:
    """A set: its rows and the accelerators they name. Rows that were not measured are `unmeasured`, apart.

    Attributes:
        rows: measured, in order of their index.
        configurations: accelerators by name.
        unmeasured: rows that failed or were infeasible.
    """

    rows: tuple[MeasuredRow, ...]
    configurations: Dictionary[str, Accelerator]
    unmeasured: tuple[MeasuredRow, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Of each row."""
        return tuple(parse_layer(row.layer) for row in self.rows)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Of each row."""
        return tuple(layer.problem for layer in self.layers)

    @cached_property
    def mappings(self) -> tuple[Mapping, ...]:
        """Of each row."""
        return tuple(parse_mapping_text(row.mapping) for row in self.rows)

    @cached_property
    def schedules(self) -> tuple[Schedule, ...]:
        """Of each row: what its mapping was realised as."""
        return tuple(parse_schedule(row.schedule) for row in self.rows)

    @property
    def macros(self) -> NDArray[np.bool_]:
        """(rows,) which a loop macro carried out."""
        return np.array([row.style.startswith("loop_") for row in self.rows], dtype=np.bool_)

    @property
    def accelerators(self) -> tuple[Accelerator, ...]:
        """Of each row."""
        return tuple(self.configurations[row.accelerator] for row in self.rows)

    @property
    def mac_cycles(self) -> Floats:
        """Multiply-accumulates over the array's elements, float64 (rows,): cycles of an array that never waits."""
        pairs = zip(self.problems, self.accelerators, strict=True)
        return np.array([problem.macs / one.dim**2 for problem, one in pairs], dtype=np.float64)

    @property
    def strata(self) -> tuple[str, ...]:
        """Of each row."""
        return tuple(row.stratum for row in self.rows)

    @cached_property
    def cycles(self) -> Floats:
        """Of each row, float64 (rows,)."""
        return self.numbers("cycles")

    def numbers(self, name: str) -> Floats:
        """A column of `NUMBERS`, float64 (rows,)."""
        return np.array([row.numbers[name] for row in self.rows], dtype=np.float64)

    def where(self, keep: Sequence[bool] | np.ndarray[Any, Any]) -> Dataset:
        """The measured rows for which `keep` holds."""
        rows = tuple(row for row, kept in zip(self.rows, keep, strict=True) if kept)
        return Dataset(rows, self.configurations)


def dataset_path(name: str) -> Path:
    """The file of a set by its name, or the path given. Raises InputError when there is no such file."""
    path = Path(name)
    if name in SETS:
        path = Path(__file__).resolve().parents[2] / "results" / "measurements" / f"{name}.csv.gz"
        if not path.is_file():
            raise InputError(
                f"the measured set '{name}' is not here: it comes with the repository, not with the package",
                hint=f"name a file, or make one: baco bench measurements --set {name} --out FOLDER",
            )
    return path


def read_dataset(name: str | Path) -> Dataset:
    """A set by its name (`micro`, `train`, `test`) or file; the accelerators' file lies beside it.

    Raises InputError for what is missing or malformed, with the line.
    """
    path = dataset_path(str(name))
    table = read_rows(read_table_text(path), str(path))
    first = next(table, None)
    if first is None or tuple(first.fields) != _COLUMNS:
        raise InputError("these are not the columns of a measured set", location=Location(str(path), 1))
    rows = [
        _row(dict(zip(_COLUMNS, row.fields, strict=True)), Location(str(path), row.line)) for row in table
    ]
    rows.sort(key=lambda row: row.index)
    known = _read_accelerators(path.with_name(ACCELERATORS_FILE))
    if missing := {row.accelerator for row in rows} - set(known):
        raise InputError(
            f"accelerators are missing: {', '.join(sorted(missing))}",
            location=Location(str(path.with_name(ACCELERATORS_FILE))),
        )
    return Dataset(
        tuple(row for row in rows if row.status == "measured"),
        known,
        tuple(row for row in rows if row.status != "measured"),
    )


def _row(line: dict[str, str], place: Location) -> MeasuredRow:
    texts: dict[str, Any] = {name: line[name] for name in (*_TEXTS, "reason")}
    texts["index"] = whole_number("index", line["index"], location=place)
    texts["seed"] = whole_number("seed", line["seed"], most=2**64, location=place)
    numbers = {name: real_number(name, line[name], positive=False, location=place) for name in NUMBERS}
    return MeasuredRow(**texts, numbers=numbers)


def write_dataset(path: str | Path, rows: Iterable[MeasuredRow], accelerators: Iterable[Accelerator]) -> None:
    """Write a set, and add its accelerators to the file beside it; the same rows give the same bytes.

    Raises StorageError where that cannot be written, InputError when the file beside it is malformed.
    """
    path = Path(path)
    table: list[Sequence[object]] = [_COLUMNS]
    for row in sorted(rows, key=lambda one: one.index):
        texts = [getattr(row, name) for name in _TEXTS]
        numbers = [_short(row.numbers[name]) for name in NUMBERS]
        table.append([*texts, *numbers, row.reason])
    beside = path.with_name(ACCELERATORS_FILE)
    known = _read_accelerators(beside) if os.path.exists(beside) else {}
    known |= {accelerator.name: accelerator for accelerator in accelerators}
    atomic_write(beside, _accelerators_text(known))
    atomic_write(path, gzip.compress(csv_text(table).encode(), mtime=0))


def _short(number: float) -> str:
    """Whole numbers as such."""
    return str(int(number)) if float(number).is_integer() else repr(number)


def _read_accelerators(path: Path) -> dict[str, Accelerator]:
    document = load_yaml(path)
    data = document.get(())
    if not isinstance(data, dict):
        raise InputError("accelerators by name are missing", location=Location(str(path)))
    return {
        str(name): parse_model(Accelerator, document, (name,), defaults={"name": str(name)}) for name in data
    }


def _accelerators_text(accelerators: Dictionary[str, Accelerator]) -> str:
    lines = ["# Accelerators of the measured sets; what is left out has its default."]
    for name, one in sorted(accelerators.items()):
        lines.append(f"{name}:")
        values = one.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
        lines += [f"  {key}: {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"
