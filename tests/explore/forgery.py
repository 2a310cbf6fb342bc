"""Studies as somebody with time and SQLite would forge them: wrong content under right checksums."""

from __future__ import annotations

import io
import json
import random
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from baco.exploration._database import row_digest

#: Columns under the checksum of each table, the first of them the key.
COLUMNS = {
    "meta": ("key", "value"),
    "tasks": ("position", "task"),
    "sessions": ("number", "record"),
    "batches": ("batch", "evaluations", "seconds", "best_objective", "phase", "details", "done"),
    "candidates": (
        *("id", "batch", "config_hash", "accelerator", "mappings", "latency_cycles", "energy_pj", "area_mm2"),
        *("source", "samples", "objective", "improved", "front"),
    ),
    "snapshot": ("batch", "arrays"),
    "measurements": ("key", "record"),
    "validations": ("design", "number", "record"),
}
_DEEP = "@deep@"
#: What takes the place of a value: of other kinds, beyond all bounds, or what no reader expects.
_VALUES: tuple[Any, ...] = (
    *(
        [],
        {},
        None,
        "",
        "x",
        "\x1b[31m\nerror: forged",
        "\x00",
        "NaN",
        True,
        -1,
        0,
        1.5,
        3,
        10**18,
        10**30,
        10**400,
    ),
    *(float("inf"), float("nan"), 1e308, -1e308, [1, 2], {"a": {}}, [[[]]], _DEEP),
)


def replace_row(path: Path, table: str, row: tuple[Any, ...], key: Any) -> None:
    """Write a row, with its checksum, in the place of the one of `key`."""
    columns = COLUMNS[table]
    with closing(sqlite3.connect(path)) as connection, connection:
        sets = ", ".join(f"{name} = ?" for name in columns)
        connection.execute(
            f"UPDATE {table} SET {sets}, digest = ? WHERE {columns[0]} = ?",
            (*row, row_digest(*_stored(row)), key),
        )


def _stored(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """As SQLite gives it back: no number is `nan`."""
    return tuple(None if isinstance(one, float) and one != one else one for one in row)


def forge(path: Path, rng: random.Random) -> str:
    """Change one value somewhere, under a right checksum; a sentence that says which."""
    table = rng.choice([*COLUMNS, "candidates", "meta", "validations"])
    columns = COLUMNS[table]
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    row = list(rng.choice(rows))
    key = row[0]
    place = rng.randrange(1 if len(columns) > 1 else 0, len(columns))
    value = row[place]
    if isinstance(value, bytes):
        row[place], what = _forged_arrays(value, rng)
    elif isinstance(value, str) and value.startswith("{") and rng.random() < 0.9:
        row[place], what = forged_json(value, rng)
    else:
        row[place] = rng.choice([one for one in (*_VALUES, b"\xff\x00", "9" * 50) if _storable(one)])
        what = f"is {row[place]!r:.40}"
    try:
        replace_row(path, table, tuple(row), key)
    except (sqlite3.IntegrityError, OverflowError):
        return "nothing, since the table's own rules refuse it"
    return f"{table} {key!r}, {columns[place]} {what}"


def _storable(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) < 2**63
    return value is None or isinstance(value, (float, str, bytes))


def forged_json(text: str, rng: random.Random) -> tuple[str, str]:
    """JSON with one value changed, and a description."""
    data = json.loads(text)
    places: list[tuple[Any, Any, str]] = []

    def walk(node: Any, name: str) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, inner in list(items):
            places.append((node, key, f"{name}.{key}"))
            walk(inner, f"{name}.{key}")

    walk(data, "")
    if not places:
        return "[]", "is a list"
    node, key, name = rng.choice(places)
    value = rng.choice(_VALUES)
    if rng.random() < 0.15:
        del node[key]
        what = "is missing"
    elif rng.random() < 0.1 and isinstance(node, list):
        node.append(node[key])
        what = "is there twice"
    else:
        node[key] = value
        what = f"is {value!r:.40}"
    found = json.dumps(data)
    return found.replace(f'"{_DEEP}"', "[" * 100_000 + "]" * 100_000), f"{name} {what}"


def _forged_arrays(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    kinds: list[Callable[[dict[str, np.ndarray], str], Any]] = [
        lambda arrays, name: arrays.pop(name),
        lambda arrays, name: arrays.update({name: arrays[name][:-1] if arrays[name].ndim else np.zeros(3)}),
        lambda arrays, name: arrays.update({name: arrays[name].astype(np.float32) * np.float32(np.nan)}),
        lambda arrays, name: arrays.update({name: np.zeros((2, 2, 2))}),
        lambda arrays, name: arrays.update({name: np.array("text")}),
        lambda arrays, name: arrays.update({name: arrays[name] * 0}),
        lambda arrays, name: arrays.update({"more": np.zeros(1)}),
    ]
    if rng.random() < 0.3:
        return rng.choice(
            [b"", data[: len(data) // 2], data[::-1], bomb(), huge_header(), pickled()]
        ), "is no archive"
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = rng.choice(sorted(arrays))
    kind = rng.randrange(len(kinds))
    kinds[kind](arrays, name)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue(), f"has {name} changed in way {kind}"


def bomb(mib: int = 600) -> bytes:
    """A small archive that inflates to `mib` MiB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (mib << 20,)}
    )
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("numbers.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(mib):
            member.write(bytes(1 << 20))
    return buffer.getvalue()


def huge_header() -> bytes:
    """An archive whose array claims a TiB and holds nothing."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 37,)}
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("numbers.npy", header.getvalue())
    return buffer.getvalue()


def pickled() -> bytes:
    """An archive with an array of Python objects."""
    buffer = io.BytesIO()
    np.savez(buffer, numbers=np.array([{"a": 1}], dtype=object))
    return buffer.getvalue()
