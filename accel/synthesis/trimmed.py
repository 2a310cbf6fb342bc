"""A library as Yosys needs it: one file of its gates and one of its registers, without what neither pass reads.

ABC reads gates' areas, functions and delays, `dfflibmap` what registers do; of each of them, Yosys reads the files anew for each module.
So energies, leakage, constraints, delays of registers and memories are left out, and of arcs that differ in nothing but their
condition the slowest stays (which is what ABC makes of them). Files of several units stay apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from baco.accel.synthesis.liberty_text import Group, read_groups

#: Names of the files, by their number.
GATES, REGISTERS = "gates{}.lib", "registers{}.lib"
#: What arcs that stay are told apart by.
_ARC = ("related_pin", "timing_sense", "timing_type")
_TABLES = ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
_STATE = ("ff", "ff_bank", "latch", "latch_bank", "statetable", "memory")
#: Attributes that stand with parentheses.
_COMPLEX = ("index_1", "index_2", "index_3", "values", "capacitive_load_unit")
_LIBRARY = (
    "time_unit",
    "voltage_unit",
    "capacitive_load_unit",
    "delay_model",
    "default_max_transition",
    "default_input_pin_cap",
)


def trim(paths: Sequence[Path], folder: Path) -> None:
    """Write the files of a library into a folder: `GATES` and `REGISTERS`, numbered by what shares units and templates.

    Raises InputError as `read_groups`.
    """
    found: list[tuple[Group, Group]] = []
    for path in paths:
        for library in (group for group in read_groups(path) if group.kind == "library"):
            gates, registers = _shared(found, library)
            for cell in library.all("cell"):
                if _is_gate(cell):
                    gates.groups.append(_gate(cell))
                else:
                    registers.groups.append(_register(cell))
    for number, pair in enumerate(found):
        for name, group in zip((GATES, REGISTERS), pair, strict=True):
            if next(group.all("cell"), None) is not None:
                text = "\n".join(_lines(group))
                (folder / name.format(number)).write_text(text + "\n", encoding="utf-8")


def _shared(found: list[tuple[Group, Group]], library: Group) -> tuple[Group, Group]:
    """The gates and registers that a library's cells may join, added to `found` where there are none yet."""
    header = _header(library)
    for gates, registers in found:
        if gates.attributes == header.attributes and _templates_agree(gates, header):
            gates.groups += [one for one in header.groups if one not in gates.groups]
            return gates, registers
    found.append((header, Group("library", header.names, 1, header.attributes)))
    return found[-1]


def _is_gate(cell: Group) -> bool:
    return "clock_gating_integrated_cell" not in cell.attributes and not any(
        group.kind in _STATE for group in cell.groups
    )


def _header(library: Group) -> Group:
    kept = {name: library.attributes[name] for name in _LIBRARY if name in library.attributes}
    return Group("library", library.names, 1, kept, list(library.all("lu_table_template")))


def _templates_agree(one: Group, other: Group) -> bool:
    known = {group.name: group.attributes for group in one.all("lu_table_template")}
    return all(known.get(group.name, group.attributes) == group.attributes for group in other.groups)


def _gate(cell: Group) -> Group:
    pins = [
        Group(pin.kind, pin.names, pin.line, pin.attributes, [*_slowest(pin.all("timing"))])
        for pin in cell.groups
        if pin.kind in ("pin", "bus", "bundle")
    ]
    return Group("cell", cell.names, cell.line, cell.attributes, pins)


def _register(cell: Group) -> Group:
    pins = [
        Group(one.kind, one.names, one.line, one.attributes)
        for one in cell.groups
        if one.kind in ("pin", *_STATE)
    ]
    return Group("cell", cell.names, cell.line, cell.attributes, pins)


def _slowest(timings: Iterable[Group]) -> Iterable[Group]:
    """Those between the same pins with the same axes, of any condition, as one."""
    merged: dict[str, Group] = {}
    for timing in timings:
        tables = [
            Group(table.kind, table.names, table.line, dict(table.attributes))
            for table in timing.groups
            if table.kind in _TABLES
        ]
        kept = {name: timing.attributes[name] for name in _ARC if name in timing.attributes}
        axes = [(table.kind, table.names, _shape(table)) for table in tables]
        key = repr((kept, axes))
        if key in merged:
            for table, other in zip(merged[key].groups, tables, strict=True):
                table.attributes["values"] = _largest(table, other)
        else:
            merged[key] = Group("timing", [], timing.line, kept, tables)
    return merged.values()


def _shape(table: Group) -> tuple[object, ...]:
    """Axes, and how many values in each row."""
    axes = [table.attributes.get(f"index_{number}") for number in (1, 2)]
    return (*axes, [len(row) for row in _rows(table)])


def _rows(table: Group) -> list[list[float]]:
    texts = table.attributes.get("values", [])
    return [[float(word) for word in text.replace(",", " ").replace("\\", " ").split()] for text in texts]


def _largest(one: Group, other: Group) -> list[str]:
    pairs = zip(_rows(one), _rows(other), strict=True)
    return [
        ", ".join(f"{max(both):.9g}" for both in zip(first, second, strict=True)) for first, second in pairs
    ]


def _lines(group: Group) -> Iterable[str]:
    yield f"{group.kind} ({', '.join(group.names)}) {{"
    for name, values in group.attributes.items():
        if name in _COMPLEX:
            quoted = [value if name == "capacitive_load_unit" else f'"{value}"' for value in values]
            yield f"{name} ({', '.join(quoted)});"
        elif len(values) == 1:
            yield f'{name} : "{values[0]}";'
    for inner in group.groups:
        yield from _lines(inner)
    yield "}"
