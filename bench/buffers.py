"""Where fusion does not pay: predicted costs of whole programs on machines with smaller and larger buffers, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from baco.accel.presets import load_accelerator
from baco.common.files import atomic_write, output_folder
from baco.compiler.network.group_choice import Considered, GroupChoice
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.program import scheduler
from baco.compiler.network.quantise import sketch
from baco.exploration.cost.program import program_cost
from baco.workloads.inputs.load import load_network

__all__ = ["BUFFERS_KIB", "buffers", "buffers_table"]

#: Scratchpads that are compared; the accumulator has a quarter of each.
BUFFERS_KIB = (16, 32, 64, 128, 256)
_MACHINE = "gemmini-transformer"


def buffers(
    networks: Sequence[str],
    *,
    scratchpads_kib: Sequence[int] = BUFFERS_KIB,
    out: Path,
    watch: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A row a network and scratchpad (16 x 16 array with row functions): cycles and energy of the whole program with groups and one
    by one, groups taken, and why not the others. Nothing is simulated. Raises what compiling raises."""
    folder, rows = output_folder(out), []
    for name in networks:
        network = sketch(load_network(name))
        for kib in scratchpads_kib:
            watch(f"{name}, {kib} KiB")
            machine = load_accelerator(_MACHINE).replace(
                name=f"16x16-{kib}", scratchpad_kib=kib, accumulator_kib=kib // 4
            )
            schedule = scheduler(machine)
            choice = GroupChoice(machine, schedule)
            fused = lower_network(network, machine, schedule, choice)
            costs = [program_cost(one, machine) for one in (lower_network(network, machine, schedule), fused)]
            taken = set(fused.units)
            rows.append(
                {
                    "network": name,
                    "scratchpad_kib": kib,
                    "cycles": [one.cycles for one in costs],
                    "energy_uj": [one.energy_pj * 1e-6 for one in costs],
                    "groups": len(taken),
                    "reasons": dict(
                        Counter(_reason(one) for one in choice.considered if one.names not in taken)
                    ),
                }
            )
            atomic_write(folder / "fusion-buffers.json", json.dumps(rows, indent=1) + "\n")
            atomic_write(folder / "fusion-buffers.md", buffers_table(rows))
    return rows


def _reason(one: Considered) -> str:
    if not one.reason:
        return "others taken"
    if one.schedule is not None:
        return "slower"
    place = next((place for place in ("scratchpad", "accumulator") if f"of the {place}" in one.reason), None)
    return f"{place} too small" if place else "no code"


def buffers_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page."""
    lines = [
        "# Where fusion does not pay",
        "",
        "Predicted whole programs on a 16 × 16 array with row functions, whose accumulator has a quarter of its scratchpad: how many times"
        " fewer cycles, and less energy-delay product, with groups than one by one; groups taken; and of those that were looked at and not"
        " taken, how many do not fit, are slower as one unit, have no code, or overlap with better ones.",
        "",
        "| network | scratchpad, KiB | cycles | EDP | groups | scratchpad too small | accumulator too small | slower | no code | others taken |",
        "|---|" + "--:|" * 9,
    ]
    for row in rows:
        (alone, fused), (before, after) = row["cycles"], row["energy_uj"]
        reasons = [
            row["reasons"].get(name, 0)
            for name in ("scratchpad too small", "accumulator too small", "slower", "no code", "others taken")
        ]
        cells = [row["network"], row["scratchpad_kib"], f"{alone / fused:.2f}", f"{alone * before / fused / after:.2f}", row["groups"], *reasons]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, ""])
