"""Products whose weights are streamed, measured on the original's RTL: read, and compiled as they were measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from baco.accel.config import Accelerator
from baco.common.errors import InputError, Location
from baco.common.numbers import whole_number
from baco.common.table import read_rows, read_table_text
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import draw_tensors
from baco.compiler.layers.text import parse_layer
from baco.compiler.schedules.schedule import Schedule
from baco.compiler.styles.registry import parse_schedule

#: Of a measured set, beside the programs of its archive; a set may lack it.
TABLE = "streaming.csv"
_COLUMNS = ("m", "k", "n", "original_cycles")
#: By m, k and n, how the compiler carried them out when they were measured: what it chooses today may be another program.
_SCHEDULES = {
    (8, 512, 768): "loop_ws 1,15,32 order ijk keep A",
    (8, 1024, 1024): "loop_ws 1,8,56 order ijk keep A",
    (8, 16384, 64): "loop_ws 1,4,102 order ijk",
    (8, 2048, 1024): "loop_ws 1,32,15 order ijk",
    (16, 768, 3072): "loop_ws 1,9,48 order ijk keep A",
}


@dataclass(frozen=True)
class StreamedProduct:
    """A product of m × k by k × n, the schedule under which it was measured, and cycles from reset to the end."""

    name: str
    layer: Layer
    schedule: Schedule
    measured: int

    def program(self, accelerator: Accelerator) -> bytes:
        """The ELF file for that machine, with random operands, which cycles do not depend on."""
        return layer_program(self.layer, self.schedule, accelerator, draw_tensors(self.layer, 0)).elf


def streamed_products(folder: Path) -> list[StreamedProduct]:
    """Those of a measured set; none where it has no such table.

    Raises InputError for a table that lacks a column, or has a product of which no schedule is known.
    """
    path = folder / TABLE
    if not path.exists():
        return []
    header, *rows = read_rows(read_table_text(path), str(path))
    for column in _COLUMNS:
        if column not in header.fields:
            raise InputError(
                f"the table has no column '{column}'", location=Location(str(path), line=header.line)
            )
    found = []
    for row in rows:
        numbers = {
            name: whole_number(name, text)
            for name, text in zip(header.fields, row.fields, strict=True)
            if name in _COLUMNS
        }
        m, k, n, measured = (numbers[name] for name in _COLUMNS)
        if (m, k, n) not in _SCHEDULES:
            raise InputError(
                f"how the product {m}x{k}x{n} was carried out when it was measured is not known",
                location=Location(str(path), line=row.line),
                hint=f"known are {', '.join('x'.join(map(str, one)) for one in _SCHEDULES)}",
            )
        layer = parse_layer(f"P{m} C{k} K{n} scale {2.0**-9}")
        found.append(StreamedProduct(f"{m}x{k}x{n}", layer, parse_schedule(_SCHEDULES[m, k, n]), measured))
    return found
