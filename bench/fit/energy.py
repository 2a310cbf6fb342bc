"""How far predicted energy is from what switches in RTL: `python -m baco.bench.fit.energy [--out FOLDER]`.

Small forms of some networks are compiled for some machines and run on their Verilog, which counts what switches
(`baco.sim.energy.measured_energy`); predictions are made without running (`baco.exploration.cost.program`), with typical numbers and
with the network's own. Nothing is fitted but the typical numbers (`baco.accel.switched_energy.TYPICAL`): that they stand for networks
they were not taken from is judged by leaving out one network after the other. Every row is kept, so that an interrupted run goes on
where it was. Takes half an hour, most of it for building six machines.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from baco.accel.config import Accelerator
from baco.accel.structure_law import structure_law, terms
from baco.accel.switched_energy import SwitchedEnergy, Toggles
from baco.accel.technology import switching_figures
from baco.bench.harness.experiment import ResultFiles, Say, page_of, silent, table
from baco.bench.sets.accelerators import accelerators_of
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.exploration.cost.program import program_cost
from baco.exploration.cost.toggles import network_toggles
from baco.exploration.measure.program_job import other_inputs
from baco.sim.energy import measured_energy
from baco.sim.job import Simulation
from baco.sim.network.run import run_network
from baco.workloads.inputs.load import load_network

TECHNOLOGY = "ihp-sg13g2"
#: Networks, and how often their repeated blocks run; None: as often as they say.
NETWORKS: dict[str, int | None] = {
    "resnet18:image=32": None,
    "mobilenet_v2:image=32": None,
    "mobilenet_v2:image=96": None,
    "deepbench_ocr:width=96,height=48": None,
    "deepbench_face:image=64": None,
    "bert_base:seq=16": 1,
    "vit_b16:image=64": 1,
}
#: Small enough for whole programs in RTL: those of the measured set `test` of sides 4 to 16.
MACHINES = {name: one for name, one in accelerators_of("test").items() if one.dim <= 16}
Row = Mapping[str, Any]


def silicon(machine: Accelerator) -> Accelerator:
    """The machine in the technology, without main memory and host core, whose energies are assumed."""
    return machine.replace(technology=TECHNOLOGY, energy={"dram_pj": 0.0, "instruction_pj": 0.0})


def measured_row(
    network: str, name: str, machine: Accelerator, known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """One program: energies in pJ, measured and predicted, `clock` and all else of the accelerator.

    Args:
        known: the row with what was measured before, of which predictions alone are made anew.
    """
    bare = silicon(machine)
    graph = load_network(network)
    integers = quantise(graph, (), layers=NETWORKS.get(network))
    data = quantise_inputs(integers, other_inputs(graph, integers, 0))
    values = reference(integers, data)
    toggles = network_toggles(integers, values, machine.dim)
    built = compile_network(integers, bare, data=data)
    predicted = _predicted(built.lowered, bare, toggles)
    if known is not None:
        return {**known, **predicted}
    ran = run_network(built, values, "rtl")
    if ran.wrong or ran.result.exit_code:
        raise AssertionError(f"{network} on {name}: {[*map(str, ran.wrong[:2]), ran.result.exit_code]}")
    result = ran.result
    assert result.cycles is not None  # of the engine
    found = measured_energy(result, bare, result.cycles)
    clock = found.pop("static")
    return {
        "network": network,
        "machine": name,
        "cycles": result.cycles,
        "clock": clock,
        "switched": found,
        "gated": gated_clock(result, machine),
        **predicted,
    }


def _predicted(
    lowered: LoweredNetwork, machine: Accelerator, toggles: Mapping[str, Toggles]
) -> dict[str, Any]:
    """The part of a row that nothing was run for."""
    costs = {
        "typical": program_cost(lowered, machine),
        "numbers": program_cost(lowered, machine, toggles),
    }
    return {
        "predicted": {
            kind: {
                "cycles": one.cycles,
                "clock": machine.static_pj(one.cycles),
                "rest": one.energy_pj - machine.static_pj(one.cycles),
            }
            for kind, one in costs.items()
        },
        "toggles": _mean_toggles(lowered, toggles),
        "macs": _macs(lowered, toggles),
    }


def _macs(lowered: LoweredNetwork, toggles: Mapping[str, Toggles]) -> float:
    """Multiplications whose numbers are known."""
    layers = lowered.layers
    known = (step for step in lowered.steps if step.function in layers and step.operator in toggles)
    return float(sum(layers[step.function].layer.problem.macs for step in known))


def _mean_toggles(lowered: LoweredNetwork, toggles: Mapping[str, Toggles]) -> list[float]:
    """Fields of `Toggles`, weighted by multiplications."""
    layers, sums = lowered.layers, np.zeros(len(astuple(Toggles(0, 0, 0, 0))))
    for step in lowered.steps:
        if step.function in layers and step.operator in toggles:
            sums += layers[step.function].layer.problem.macs * np.array(astuple(toggles[step.operator]))
    return [float(one) for one in sums / max(1.0, _macs(lowered, toggles))]


def gated_clock(result: Simulation, machine: Accelerator) -> float:
    """Share of the clock's energy that gating the array and the two loop unrollers in cycles in which they do nothing would save:
    their registers by the law of structure, their idle cycles by counters of the run."""
    law, dim = structure_law(), machine.dim
    whole = float(law.counts(machine, dim)["register_bits"])
    values = terms(machine, dim)
    array = sum(
        factor * values[name]
        for name, factor in law.coefficients["register_bits"].items()
        if "dim^2" in name or "tiles" in name
    )
    cycles, counters = float(result.cycles or 1), result.counters
    saved = array * (1 - counters["array_cycles"] / cycles)
    for name in ("loop_ws", "loop_conv"):
        without = machine.replace(features=machine.features.model_copy(update={name: False}))
        bits = whole - float(law.counts(without, dim)["register_bits"])
        saved += bits * (1 - counters[f"accelerator_{name}_busy_cycles"] / cycles)
    return float(saved / whole)


def run(
    out: Path,
    networks: Sequence[str],
    machines: Mapping[str, Accelerator],
    say: Say = silent,
    *,
    anew: bool = False,
) -> list[dict[str, Any]]:
    """All rows, those of `out` as they are, or with predictions made `anew`; raises StorageError where they cannot be kept."""
    files = ResultFiles(out, "energy", page)
    rows: list[dict[str, Any]] = files.before() or []
    if anew:
        rows = [measured_row(row["network"], row["machine"], machines[row["machine"]], row) for row in rows]
        files.keep(rows)
    known = {(one["network"], one["machine"]) for one in rows}
    for name, machine in machines.items():
        for network in networks:
            if (network, name) in known:
                continue
            rows.append(measured_row(network, name, machine))
            files.keep(rows)
            say(
                f"{network} on {name}: {rows[-1]['cycles']:,} cycles, {_off(rows[-1], 'numbers', True):+.1%} off"
            )
    return rows


def _off(row: Row, kind: str, clock: bool) -> float:
    """Predicted over measured energy, less 1: of the accelerator, with or without its clock."""
    guess, true = row["predicted"][kind], sum(row["switched"].values())
    if clock:
        return float((guess["rest"] + guess["clock"]) / (true + row["clock"]) - 1)
    return float(guess["rest"] / true - 1)


def errors(rows: Sequence[Row], kind: str, *, clock: bool) -> dict[str, float]:
    """Mean, largest and bias of errors, and the rank correlation of energies over all rows and, in the mean of networks, over machines."""
    off = np.array([_off(row, kind, clock) for row in rows])
    energies: dict[str, list[tuple[float, float]]] = {}
    for row, error in zip(rows, off.tolist(), strict=True):
        true = sum(row["switched"].values()) + (row["clock"] if clock else 0.0)
        energies.setdefault(row["network"], []).append((true, true * (1 + error)))

    def rank(pairs: Sequence[tuple[float, float]]) -> float:
        return float(spearmanr(*zip(*pairs, strict=True)).statistic) if len(pairs) > 2 else math.nan

    ranks = [rank(pairs) for pairs in energies.values()]
    return {
        "mean": float(np.abs(off).mean()),
        "worst": float(np.abs(off).max()),
        "bias": float(off.mean()),
        "rank": rank([pair for pairs in energies.values() for pair in pairs]),
        "rank_of_machines": sum(ranks) / len(ranks),
    }


def left_out(rows: Sequence[Row], key: str) -> dict[str, float]:
    """Mean error without the clock of rows whose network (or machine) typical numbers are not taken from, by its name."""
    found = {}
    names = dict.fromkeys(row[key] for row in rows)
    for name in names if len(names) > 1 else ():
        others = [row for row in rows if row[key] != name]
        weights = np.array([row["macs"] for row in others])
        mean = np.average([row["toggles"] for row in others], axis=0, weights=weights)
        law = SwitchedEnergy(
            switching_figures(TECHNOLOGY), silicon(MACHINES["test-1"]).energy, MACHINES["test-1"]
        )
        shift = law.with_numbers(Toggles(*mean[:4])).mac_pj - law.mac_pj
        own = [row for row in rows if row[key] == name]
        off = [
            _off(row, "typical", False) + shift * row["macs"] / sum(row["switched"].values()) for row in own
        ]
        found[name] = float(np.abs(off).mean())
    return found


def _held(held: Mapping[str, float], group: tuple[str, Sequence[Row]]) -> str:
    return f"{held.get(group[0], math.nan):.1%}"


def page(rows: Sequence[Row]) -> str:
    """Errors of all rows, by network and by machine, and of each."""
    kinds = {
        "numbers of the network": "numbers",
        "typical numbers (searches)": "typical",
    }
    lines: list[dict[str, Any]] = [
        {"what": f"{words}, {part}", **errors(rows, kind, clock=clock)}
        for words, kind in kinds.items()
        for part, clock in (("whole", True), ("without the clock", False))
    ]
    share = [row["clock"] / (row["clock"] + sum(row["switched"].values())) for row in rows]
    gated = [row["gated"] for row in rows]

    def percent(name: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda line: f"{line[name]:.1%}"

    parts = [
        page_of(
            f"Energy: predicted, and what switches in RTL ({TECHNOLOGY})",
            f"{len({row['network'] for row in rows})} networks on {len({row['machine'] for row in rows})} machines, {len(rows)} whole programs,"
            " logic and memories of the accelerator before layout; main memory and host core, whose energies are assumed, are left out."
            f" The clock is {min(share):.0%} to {max(share):.0%} of it (mean {np.mean(share):.0%}), so that errors without it are"
            " what the model of switching is worth, and errors with it are mostly those of cycles.",
            table(
                lines,
                {
                    "predicted with": lambda line: line["what"],
                    "mean error": percent("mean"),
                    "worst": percent("worst"),
                    "bias": lambda line: f"{line['bias']:+.1%}",
                    "rank, all": lambda line: f"{line['rank']:.4f}",
                    "rank of machines": lambda line: f"{line['rank_of_machines']:.4f}",
                },
            ),
        )
    ]
    parts += [_by(rows, key) for key in ("network", "machine")]
    parts.append("Each program; without the clock as measured by part:")
    parts.append(_programs(rows))
    parts.append(
        f"Gating the clock of the array and of the loop unrollers in cycles in which they do nothing would save {min(gated):.0%} to"
        f" {max(gated):.0%} of the clock's energy (mean {np.mean(gated):.0%}): their registers by the law of structure, idle cycles by"
        " counters of these runs. No figure above has it, since our Verilog gates nothing.\n"
    )
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _by(rows: Sequence[Row], key: str) -> str:
    """Mean errors by network, or by machine."""
    held = left_out(rows, key)
    groups = [
        (name, [row for row in rows if row[key] == name]) for name in dict.fromkeys(row[key] for row in rows)
    ]
    return table(
        groups,
        {
            key: lambda group: group[0],
            "whole": lambda group: f"{errors(group[1], 'numbers', clock=True)['mean']:.1%}",
            "without the clock": lambda group: f"{errors(group[1], 'numbers', clock=False)['mean']:.1%}",
            "typical numbers": lambda group: f"{errors(group[1], 'typical', clock=False)['mean']:.1%}",
            "typical numbers of all others": partial(_held, held),
        },
    )


def _programs(rows: Sequence[Row]) -> str:
    """All rows."""
    parts = ("array", "accumulator", "scratchpad")

    def shares(row: Row) -> str:
        whole = sum(row["switched"].values())
        return ", ".join(f"{row['switched'][name] / whole:.0%}" for name in parts)

    return table(
        rows,
        {
            "network": lambda row: row["network"],
            "machine": lambda row: row["machine"],
            "cycles": lambda row: f"{row['cycles']:,}",
            "predicted": lambda row: f"{row['predicted']['numbers']['cycles'] / row['cycles'] - 1:+.1%}",
            "clock, µJ": lambda row: f"{row['clock'] * 1e-6:.0f}",
            "rest, µJ": lambda row: f"{sum(row['switched'].values()) * 1e-6:.0f}",
            ", ".join(parts): shares,
            "whole": lambda row: f"{_off(row, 'numbers', True):+.1%}",
            "without the clock": lambda row: f"{_off(row, 'numbers', False):+.1%}",
        },
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, write `energy.json` and `energy.md`, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("results"), help="folder of energy.json and energy.md"
    )
    parser.add_argument("--predict", action="store_true", help="make predictions anew of what was measured")
    given = parser.parse_args(arguments)
    rows = run(given.out, list(NETWORKS), MACHINES, print, anew=given.predict)
    ResultFiles(given.out, "energy", page).keep(rows)
    print(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
