"""Predict cycles of products, and of two chained products, in given tiles on any machine (`baco evaluate --machine`).

Rows name sizes and tiles: `M,N,K,tile_M,tile_N,tile_K` of a product; `M,N1,K1,tile_M,tile_N1,tile_K1,N2,K2,tile_N2,
tile_K2` of C[M,N1] = A[M,K1] B[K1,N1] and E[M,N2] = C[M,K2] D[K2,N2] with K2 = N1 and C on chip: the columns of the
published RTL measurements of TileFlow, which `cycles` and `words_...` may stand beside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco.common.errors import InputError, Location, did_you_mean
from baco.common.numbers import real_number, whole_number
from baco.common.table import TableRow, csv_text, read_rows, read_table_text
from baco.common.text import one_line
from baco.compiler.mapping.machine import Machine
from baco.compiler.mapping.pipeline import run_pipeline
from baco.compiler.mapping.templates import chained_products, tiled_product
from baco.exploration.cost.evaluate import Error, write_table

_PRODUCT = ("M", "N", "K", "tile_M", "tile_N", "tile_K")
_CHAIN = ("M", "N1", "K1", "tile_M", "tile_N1", "tile_K1", "N2", "K2", "tile_N2", "tile_K2")
#: What chains move, in bits as the published table has it: between memory and buffer, buffer and registers, both ways.
_WORDS = (
    "words_memory_to_buffer",
    "words_buffer_to_memory",
    "words_buffer_to_registers",
    "words_registers_to_buffer",
)
#: Sizes, and passes of a row, beyond which a row takes minutes.
_LARGEST, _MOST_PASSES = 1 << 20, 2_000_000


@dataclass(frozen=True)
class TiledStatistics:
    """What `evaluate_tiled_rows` found.

    Attributes:
        machine: its name.
        rows: predicted.
        errors: by column measured, for those in the file.
        out: the file written.
    """

    machine: str
    rows: int
    errors: dict[str, Error]
    out: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; the keys are the attributes' names."""
        errors = {name: error.to_dict() for name, error in self.errors.items()}
        return {**vars(self), "errors": errors}

    def text(self) -> str:
        """For people."""
        lines = [f"{self.rows:,} rows predicted for machine {self.machine}: {one_line(self.out)}"]
        for name, error in self.errors.items():
            lines += error.text(name)
        return "\n".join(lines)


def evaluate_tiled_rows(path: str | Path, out: str | Path, machine: Machine) -> TiledStatistics:
    """Predict every row of a table of products or chains in tiles and write it with the predictions added.

    Args:
        path: CSV, or gzipped CSV if its name ends in `.gz`; columns as above, others are kept.
        out: written with `predicted.cycle`, and for chains with four columns `predicted.words_...`; gzipped likewise.

    Raises InputError naming file, line and column of what is wrong, StorageError when `out` cannot be written.
    """
    name = str(path)
    header, rows = _read(name)
    wanted = _columns(header, name)
    predict: Callable[[dict[str, int], Machine], list[float]] = _chain if wanted is _CHAIN else _product
    made = ["predicted.cycle", *(f"predicted.{one}" for one in (_WORDS if wanted is _CHAIN else ()))]
    places = {column: field for field, column in enumerate(header)}
    known: dict[tuple[int, ...], list[float]] = {}
    found, layers = [], []
    for row in rows:
        values = {column: _size(row, places[column], column, name) for column in wanted}
        _check(values, Location(name, row.line))
        key = tuple(values.values())
        if key not in known:
            known[key] = predict(values, machine)
        found.append(known[key])
        layers.append(" ".join(f"{column} {values[column]}" for column in wanted if "tile" not in column))
    predicted = np.array(found)
    errors = {}
    for number, column in enumerate(("cycles", *_WORDS)[: len(made)]):
        if column in places:
            target = np.array([_target(row, places[column], column, name) for row in rows])
            if np.isfinite(target).any():
                lines = [row.line for row in rows]
                errors[column] = Error.of(lines, layers, predicted[:, number], target)
    kept = [field for field, column in enumerate(header) if column not in made]
    table = [[*(header[field] for field in kept), *made]]
    for row, values_ in zip(rows, predicted.tolist(), strict=True):
        table.append([*(row.fields[field] for field in kept), *map(repr, values_)])
    write_table(csv_text(table), out)
    return TiledStatistics(machine.name, len(rows), errors, str(out))


def _read(name: str) -> tuple[list[str], list[TableRow]]:
    rows = list(read_rows(read_table_text(name), name))
    if not rows:
        raise InputError("the file is empty", location=Location(name), hint="columns: " + ", ".join(_PRODUCT))
    if len(rows) == 1:
        raise InputError("the table has a header but no rows", location=Location(name))
    return [field.strip() for field in rows[0].fields], rows[1:]


def _columns(header: Sequence[str], name: str) -> tuple[str, ...]:
    """The columns of a product or of a chain, whichever the table has."""
    wanted = _CHAIN if {"N1", "K1", "N2", "K2"} & set(header) else _PRODUCT
    for column in wanted:
        if header.count(column) != 1:
            problem = "missing column" if column not in header else "given twice:"
            raise InputError(
                f"{problem} {column}",
                location=Location(name, 1),
                hint=f"{did_you_mean(column, header)}; products have {', '.join(_PRODUCT)}, chains {', '.join(_CHAIN)}",
            )
    return wanted


def _size(row: TableRow, place: int, column: str, name: str) -> int:
    at = Location(name, row.line, row.column(place))
    return whole_number(column, row.fields[place].strip(), least=1, most=_LARGEST, location=at)


def _target(row: TableRow, place: int, column: str, name: str) -> float:
    text = row.fields[place].strip()
    return real_number(column, text, location=Location(name, row.line, row.column(place))) if text else np.nan


def _check(values: dict[str, int], at: Location) -> None:
    if "K2" in values and values["K2"] != values["N1"]:
        raise InputError(
            f"K2 must be N1: the second product sums over {values['N1']} columns of C", location=at
        )
    passes = 1
    for column, tile in values.items():
        if column.startswith("tile_"):
            size = values[column.removeprefix("tile_")]
            if tile > size:
                raise InputError(f"{column} is {tile}, more than the {size} there are", location=at)
            passes *= -(-size // tile)
    if passes > _MOST_PASSES:
        raise InputError(f"{passes:,} tiles are more than the {_MOST_PASSES:,} allowed", location=at)


def _product(v: dict[str, int], machine: Machine) -> list[float]:
    sizes, tile = [v[name] for name in "MNK"], [v[f"tile_{name}"] for name in "MNK"]
    return [run_pipeline(*tiled_product(sizes, tile, machine), machine).cycles]


def _chain(v: dict[str, int], machine: Machine) -> list[float]:
    sizes = {"m": v["M"], "k": v["K1"], "l": v["N1"], "n": v["N2"]}
    tile = {"m": v["tile_M"], "k": v["tile_K1"], "l": v["tile_N1"], "l2": v["tile_K2"], "n": v["tile_N2"]}
    run = run_pipeline(*chained_products(sizes, tile, machine), machine)
    # Registers hold blocks as large as the array: two operands come and sums go with each. What the accumulation of a
    # result leaves is read once, and the result in between is once more copied to become an operand.
    side = machine.axes[0].size
    blocks = sum(
        -(-rows // tile_rows) * -(-columns // tile_columns) * -(-depth // tile_depth)
        * -(-tile_rows // side) * -(-tile_columns // side) * -(-tile_depth // side)
        for rows, tile_rows, columns, tile_columns, depth, tile_depth in (
            (v["M"], v["tile_M"], v["N1"], v["tile_N1"], v["K1"], v["tile_K1"]),
            (v["M"], v["tile_M"], v["N2"], v["tile_N2"], v["K2"], v["tile_K2"]),
        )
    )  # fmt: skip
    between, result = v["M"] * v["N1"], v["M"] * v["N2"]
    words = (
        run.read_words,
        run.written_words,
        2 * side**2 * blocks + 2 * between + result,
        side**2 * blocks + between,
    )
    bits = machine.levels[-1].word_bits or 1
    return [run.cycles, *(float(bits * one) for one in words)]
