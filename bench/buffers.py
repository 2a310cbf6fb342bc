"""Where fusion does not pay: predicted costs of whole programs on machines with smaller and larger buffers, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import ResultFiles, Say, each, page_of, silent, table
from baco.compiler.network.group_choice import Considered, GroupChoice
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.program import scheduler
from baco.compiler.network.quantise import sketch
from baco.exploration.cost.program import program_cost
from baco.workloads.inputs.load import load_network

#: Scratchpads that are compared; the accumulator has a quarter of each.
BUFFERS_KIB = (16, 32, 64, 128, 256)
_MACHINE = "gemmini-transformer"


def buffers(
    networks: Sequence[str],
    *,
    scratchpads_kib: Sequence[int] = BUFFERS_KIB,
    out: Path,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """A row a network and scratchpad (16 x 16 array with row functions): cycles and energy of the whole program with groups and one
    by one, groups taken, and why not the others. Nothing is simulated. Raises what compiling raises."""
    files, rows = ResultFiles(out, "fusion-buffers", buffers_page), []
    for name in networks:
        network = sketch(load_network(name))
        for kib in scratchpads_kib:
            say(f"{name}, {kib} KiB")
            machine = load_accelerator(_MACHINE).replace(
                name=f"16x16-{kib}", scratchpad_kib=kib, accumulator_kib=kib // 4
            )
            schedule = scheduler(machine)
            choice = GroupChoice(machine, schedule)
            fused = lower_network(network, machine, schedule, choice)
            costs = [
                program_cost(lowered, machine)
                for lowered in (lower_network(network, machine, schedule), fused)
            ]
            taken = set(fused.units)
            rows.append(
                {
                    "network": name,
                    "scratchpad_kib": kib,
                    "cycles": [cost.cycles for cost in costs],
                    "energy_uj": [cost.energy_pj * 1e-6 for cost in costs],
                    "groups": len(taken),
                    "reasons": dict(
                        Counter(_reason(group) for group in choice.considered if group.names not in taken)
                    ),
                }
            )
            files.keep(rows)
    return rows


def _reason(one: Considered) -> str:
    if not one.reason:
        return "others taken"
    if one.schedule is not None:
        return "slower"
    memory = next(
        (memory for memory in ("scratchpad", "accumulator") if f"of the {memory}" in one.reason), None
    )
    return f"{memory} too small" if memory else "no code"


def buffers_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """What groups gain by the size of buffers, and why others are not taken."""

    def times(row: Mapping[str, Any], energy: bool) -> str:
        (alone, fused), (before, after) = row["cycles"], row["energy_uj"]
        return f"{alone / fused * (before / after if energy else 1):.2f}"

    reasons = ("scratchpad too small", "accumulator too small", "slower", "no code", "others taken")
    return page_of(
        "Where fusion does not pay",
        "Predicted whole programs on a 16 × 16 array with row functions, whose accumulator has a quarter of its scratchpad: how many times"
        " fewer cycles, and less energy-delay product, with groups than one by one; groups taken; and of those that were looked at and not"
        " taken, how many do not fit, are slower as one unit, have no code, or overlap with better ones.",
        table(
            rows,
            {
                "network": lambda row: row["network"],
                "scratchpad, KiB": lambda row: row["scratchpad_kib"],
                "cycles": lambda row: times(row, energy=False),
                "EDP": lambda row: times(row, energy=True),
                "groups": lambda row: row["groups"],
                **each({name: name for name in reasons}, lambda name, row: row["reasons"].get(name, 0)),
            },
        ),
    )
