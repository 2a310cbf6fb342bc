"""The accelerator's unit for functions of rows: its table, and which function stores are under."""

from __future__ import annotations

from typing import Literal

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.ir.emit import Emitter, Number, parts

RowFunctionName = Literal["copy", "table", "softmax", "normalisation", "product"]

#: Values of CONFIG_FUNCTION's field `function` (instruction set).
FUNCTIONS: dict[RowFunctionName, int] = {
    "copy": 0,
    "table": 1,
    "softmax": 2,
    "normalisation": 3,
    "product": 3,
}

#: Of a table in main memory.
TABLE_BYTES = 512


def table_rows(accelerator: Accelerator) -> int:
    """Accumulator rows that a table takes."""
    return max(1, 128 // accelerator.dim)


def packed_table(entries: np.ndarray) -> np.ndarray:
    """int32 [128]: two entries of 16 bits to an element, as LOAD_TABLE takes them; `entries` [256] in its order."""
    words = entries.astype(np.int64) & 0xFFFF
    return np.asarray(words[0::2] | words[1::2] << 16, dtype=np.int64).astype(np.uint32).view(np.int32)


def table_words(entries: np.ndarray) -> list[int]:
    """A packed table as words of 64 bits."""
    words: list[int] = packed_table(entries).view(np.int64).tolist()
    return words


def begin_softmax(
    e: Emitter, numerator: Number, shift: Number, valid: Number | None = None, apart: int = 0
) -> None:
    """Stores softmax whole rows from here on, with the table that was loaded last, until `end_function`.

    Args:
        numerator, shift: `baco.compiler.row_functions.numerator_parts`.
        valid: of a causal softmax, elements of the first row that take part, one more in every further row; None: all do.
        apart: rows from one block of columns to the next in the accumulator; 0: the array's side.
    """
    e.command(
        "config_function",
        function=FUNCTIONS["softmax"],
        causal=int(valid is not None),
        shift=shift,
        valid=0 if valid is None else valid,
        parameter=numerator,
        apart=apart,
    )


def begin_table(e: Emitter, accelerator: Accelerator, table: Number) -> None:
    """Stores take their int8 elements through a table (`packed_table`) from here on, until `end_function`."""
    load_table(e, accelerator, table)
    let_through(e, on=True)


def let_through(e: Emitter, on: bool) -> None:
    """Stores take their elements through the table that was loaded last, or leave them alone."""
    e.command("config_function", function=FUNCTIONS["table"] if on else 0)


def end_function(e: Emitter) -> None:
    """Stores leave their elements alone again."""
    let_through(e, on=False)


def load_table(e: Emitter, accelerator: Accelerator, table: Number) -> None:
    """Bring a table (`packed_table`) into the unit, through the accumulator's first rows."""
    rows = table_rows(accelerator)
    load_wide(e, accelerator, table, rows, min(accelerator.dim, 128))
    e.command("load_table", table=e.local(0, accumulator=True))


def load_wide(e: Emitter, accelerator: Accelerator, address: Number, rows: int, columns: int) -> None:
    """Dense int32 rows to the accumulator's first ones."""
    dim = accelerator.dim
    e.command("config_ld", state=2, block_stride=dim, stride=columns * 4)
    for height, first, count in parts(rows, dim):
        with e.loop(count) as n:
            row = e.mul(e.add(n, first), dim)
            e.command(
                "mvin3",
                address=e.add(address, e.mul(row, columns * 4)),
                local=e.local(row, accumulator=True),
                cols=columns,
                rows=height,
            )
