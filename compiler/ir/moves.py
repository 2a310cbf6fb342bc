"""How the array is told to multiply: the two commands of a pass, for every code that writes passes."""

from __future__ import annotations

from dataclasses import dataclass

from baco.accel.isa import GARBAGE
from baco.compiler.ir.emit import Emitter, Number


@dataclass(frozen=True)
class PassWeights:
    """A block of B as passes take it.

    Attributes:
        row: of the scratchpad, its first one.
        inner, columns: extents of the block.
        stored: rows that are read, by default `inner`: others where the block lies transposed, or is the part of a larger one.
    """

    row: Number
    inner: Number
    columns: Number
    stored: Number | None = None


def array_pass(
    e: Emitter,
    dim: int,
    weights: PassWeights,
    rows: Number,
    *,
    a: Number,
    c: Number,
    d: Number = GARBAGE,
    new: bool = True,
    sums_stay: bool = False,
) -> None:
    """c [rows, columns] becomes, or grows by, a [rows, inner] times the weights plus d [rows, columns].

    Args:
        a, d: scratchpad rows.
        c: local address of the sums, which says whether they grow.
        new: the weights come; else they are still in the array from the pass before. Where sums stay they come every time.
        sums_stay: of an array that holds the sums while it multiplies, and not the weights.
    """
    inner, columns = weights.inner, weights.columns
    stored = inner if weights.stored is None else weights.stored
    sums = {"c": c, "c_rows": rows, "c_cols": columns}
    left = {"a": a, "a_rows": rows, "a_cols": inner}
    added = {"bd": d, "bd_rows": rows, "bd_cols": columns}
    if sums_stay:
        e.command("preload", **added, **sums)
        e.command("compute_preloaded", **left, bd=weights.row, bd_rows=inner, bd_cols=columns)
    elif new:
        e.command("preload", bd=weights.row, bd_rows=stored, bd_cols=columns, **sums)
        e.command("compute_preloaded", **left, **added)
    else:
        e.command("preload", bd=GARBAGE, bd_rows=dim, bd_cols=dim, **sums)
        e.command("compute_accumulated", **left, **added)
