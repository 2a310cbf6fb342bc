"""The reference model written down once more, in scalars, from the method specification (section 3).

It knows nothing of the product but the text of an exported table: own parser, own formulas, no arrays.
Weight-stationary mappings only.
"""

from __future__ import annotations

import math
import re


def _loops(mapping: str) -> tuple[dict[int, list[tuple[str, int]]], dict[str, int]]:
    """Loops in time of each level, outermost first, and in space."""
    levels = {int(level): loops for level, loops in re.findall(r"L(\d)\[\w+\]((?: \w+)+)", mapping)}
    temporal: dict[int, list[tuple[str, int]]] = {}
    spatial: dict[str, int] = {"C": 1, "K": 1}
    for level, text in levels.items():
        temporal[level] = []
        for name, factor, cross in re.findall(r"([A-Z])(\d+)(X?)", text):
            if cross:
                spatial[name] = int(factor)
            elif int(factor) > 1:
                temporal[level].append((name, int(factor)))
    return temporal, spatial


def row_cost(row: dict[str, str]) -> tuple[float, float]:
    """Cycles and pJ of one row of `best/mappings.csv`."""
    temporal, spatial = _loops(row["mapping.mapping"])
    bounds = {d: int(row[f"prob.{d}"]) for d in "RSPQCKN"}
    for d, bound in bounds.items():
        covered = math.prod(f for loops in temporal.values() for name, f in loops if name == d)
        assert covered * spatial.get(d, 1) == bound, f"factors of {d} do not multiply to {bound}"

    def tile(level: int) -> dict[str, int]:
        size = dict.fromkeys("RSPQCKN", 1)
        for inner in range(level + 1):
            for name, factor in temporal[inner]:
                size[name] *= factor
        if level >= 1:
            size["C"] *= spatial["C"]
        if level >= 2:
            size["K"] *= spatial["K"]
        return size

    def outer(level: int) -> list[tuple[str, int]]:
        """Loops outside a level, innermost first."""
        return [loop for m in range(level + 1, 4) for loop in reversed(temporal[m])]

    def fills(level: int, dims: str) -> int:
        size = math.prod(tile(level)[d] for d in dims)
        loops = outer(level)
        while loops and loops[0][0] not in dims:
            loops = loops[1:]
        if level < 1 and "C" in dims:
            size *= spatial["C"]
        if level < 2 and "K" in dims:
            size *= spatial["K"]
        return size * math.prod(factor for _, factor in loops)

    def window(p: int, r: int, direction: str) -> int:
        stride, dilation = int(row[f"prob.{direction}stride"]), int(row[f"prob.{direction}dilation"])
        return (p - 1) * stride + (r - 1) * dilation + 1

    def input_size(t: dict[str, int]) -> int:
        return t["C"] * t["N"] * window(t["P"], t["R"], "W") * window(t["Q"], t["S"], "H")

    t2 = tile(2)
    loops = outer(2)
    while loops and loops[0][0] == "K":
        loops = loops[1:]
    input_fills = input_size(t2)
    if loops:
        name, factor = loops[0]
        if name in "PQRS":
            union = dict(t2)
            union[name] *= factor
            input_fills = min(input_size(union), input_fills * factor)
        else:
            input_fills *= factor
        input_fills *= math.prod(f for _, f in loops[1:])

    macs = math.prod(bounds.values())
    out = bounds["P"] * bounds["Q"] * bounds["K"] * bounds["N"]
    w0, w2, o1 = fills(0, "RSCK"), fills(2, "RSCK"), fills(1, "PQKN")
    updates = macs / spatial["C"]
    a0 = macs + w0
    a1 = updates + (updates - out) + o1
    a2 = macs / spatial["K"] + input_fills + w2 + w0
    a3 = w2 + input_fills + o1 + (o1 - out)
    side = int(row["arch.meshX"])
    cycles = max(macs / (spatial["C"] * spatial["K"]), a1 / (2 * spatial["K"]), a2 / (2 * side), a3 / 8)
    accumulator_kib = int(row["arch.mem1_entries"]) * side * int(row["arch.mem1_word-bits"]) / 8192
    scratchpad_kib = int(row["arch.mem2_entries"]) * int(row["arch.mem2_word-bits"]) / 8192
    energy = (
        0.5608 * macs
        + 0.48746 * a0
        + (1.94 + 0.1005 * accumulator_kib / side) * a1
        + (0.49 + 0.02513 * scratchpad_kib) * a2
        + 100 * a3
    )
    return cycles, energy
