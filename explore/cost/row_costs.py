"""Costs of rows of mappings by the instruction-aware model, each on the accelerator of its row."""

from __future__ import annotations

import math

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.common.errors import BacoError, InfeasibleError, InputError, Location
from baco.common.portable import Floats
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.compiler.styles.explicit.code import buffered
from baco.exploration.cost.predicted import instruction_costs
from baco.exploration.mapping_rows import ARCH, MappingTable

#: What a row does not say of its accelerator.
_BASE = "gemmini-default"
_CHUNK = 4096


def predict_instruction(table: MappingTable, timing: str = "baco") -> tuple[Floats, Floats]:
    """Cycles and µJ of every row (B,), as programs on the generated hardware, or with another timing on the original's.

    A row's accelerator is `gemmini-default` with the row's array side and capacities, these rounded up to whole KiB.
    Rows stand for plain layers without bias, padding and ReLU, results requantised to int8; tiles have two copies where
    they fit.

    Raises InputError, with the line, for a side or capacity that no accelerator has, and for a mapping that no code can
    carry out.
    """
    cycles, microjoules = np.empty((2, len(table)))
    groups: dict[tuple[float, ...], list[int]] = {}
    for row, sizes in enumerate(table.arch.tolist()):
        groups.setdefault(tuple(sizes), []).append(row)
    for key, rows in groups.items():
        machine = _accelerator(table, rows[0], *key).replace(timing=timing)
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            _predict(table, part, machine, cycles, microjoules)
    return cycles, microjoules


def _predict(
    table: MappingTable, rows: list[int], machine: Accelerator, cycles: Floats, microjoules: Floats
) -> None:
    layers = [Layer(table.problems[row]) for row in rows]
    mappings = [
        _with_copies(layer, table.mappings[row], machine) for layer, row in zip(layers, rows, strict=True)
    ]
    try:
        costs = instruction_costs(layers, mappings, machine)
    except BacoError as error:
        if len(rows) > 1:  # find the row
            half = len(rows) // 2
            _predict(table, rows[:half], machine, cycles, microjoules)
            _predict(table, rows[half:], machine, cycles, microjoules)
            return
        raise InputError(error.message, location=_at(table, rows[0]), hint=error.hint) from None
    for row, cost in zip(rows, costs, strict=True):
        if not math.isfinite(cost.latency_cycles):
            raise InputError(
                f"this mapping cannot be carried out on an array of side {machine.dim}",
                location=_at(table, row),
            )
        cycles[row], microjoules[row] = cost.latency_cycles, cost.energy_pj * 1e-6


def _with_copies(layer: Layer, mapping: Mapping, machine: Accelerator) -> Mapping:
    """The mapping as the compiler would carry it out, with copies of tiles where they fit: rows say nothing of them."""
    try:
        return buffered(layer, mapping, machine)
    except InfeasibleError:
        return mapping


def _accelerator(table: MappingTable, row: int, dim: float, words: float, scratchpad: float) -> Accelerator:
    """The accelerator of a row: array side, 32-bit words a column of the accumulator, bytes of the scratchpad."""
    try:
        return load_accelerator(_BASE).replace(
            dim=int(dim),
            accumulator_kib=math.ceil(words * dim * 4 / 1024),
            scratchpad_kib=math.ceil(scratchpad / 1024),
        )
    except InputError as error:
        raise InputError(
            f"no accelerator has {', '.join(ARCH)} of {dim:g}, {words:g}, {scratchpad:g}: {error.message}",
            location=_at(table, row),
            hint="--cost-model reference predicts it",
        ) from None


def _at(table: MappingTable, row: int) -> Location:
    return Location(table.path, table.lines[row])
