"""`baco bench plans`: plans of networks on systems, replayed in Verilog: planned and measured makespans beside the best single accelerator's, what
units hand to each other, and whether every operator's result is that of the integers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval

from baco.accel.presets import load_accelerator
from baco.accel.system import HOST, System
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, page_of, silent, table
from baco.common.errors import BacoError
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.exploration.measure.program_job import other_inputs
from baco.exploration.space import load_space
from baco.exploration.systems.measured import measured_profile, replay_plan
from baco.exploration.systems.mix import Demand
from baco.exploration.systems.system_plan import plan_system
from baco.workloads.inputs.load import load_network

#: Networks at sizes that Verilog runs in minutes, how often each runs, and how often repeated blocks run at most.
NETWORKS: dict[str, tuple[tuple[str, ...], int, int | None]] = {
    "bert": (("bert_base:seq=64",), 4, 1),
    "resnet18": (("resnet18:image=112",), 4, None),
    "mobilenet": (("mobilenet_v2:image=64",), 4, None),
    "retinanet": (("retinanet:image=64",), 1, None),
    # the searches' mixes (`baco bench systems`), smaller
    "images": (("resnet18:image=64", "mobilenet_v2:image=64", "retinanet:image=64"), 1, None),
    "transformers": (("bert_base:seq=32", "vit_b16:image=64", "deepbench_ocr"), 1, 1),
}
#: By name: accelerators, as `--unit` takes them.
UNITS = {
    "WS + OS + host": ("gemmini-default,dataflow=WS", "gemmini-default,dataflow=OS", HOST),
    "16x16 + 8x8 + host": ("gemmini-default", "gemmini-default,dim=8", HOST),
    "16x16 + 8x8 of 64 bits + host": ("gemmini-default", "gemmini-default,dim=8,dma_bits=64", HOST),
}
#: Of the default space: side, accumulator, scratchpad (KiB), what the first searches for the mixes of
#: `results/systems.md` found; others since then find others, and rows stay comparable.
SEARCHED: dict[str, tuple[tuple[int, int, int] | str, ...]] = {
    "searched for images": ((16, 32, 32), (16, 32, 32), HOST),
    "searched for transformers": ((16, 64, 64), (16, 64, 64)),
    "searched single array": ((32, 64, 256),),
}
#: What is run on what unless asked for otherwise.
ROWS = (
    *((network, system) for network in list(NETWORKS)[:4] for system in list(UNITS)[:2]),
    ("mobilenet", "16x16 + 8x8 of 64 bits + host"),
    ("images", "searched for images"),
    ("transformers", "searched for transformers"),
    ("images", "searched single array"),
    ("transformers", "searched single array"),
)


def run(
    networks: Sequence[str] = (),
    systems: Sequence[str] = (),
    *,
    seconds: Annotated[float, Interval(ge=0.1)] = 10.0,
    engine: str = "rtl",
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Plan networks on systems, from groups that were measured alone (timed), and run the plans.

    Args:
        networks (--network, -n): repeatable; by default all.
        systems (--system, -s): repeatable; by default all.
        seconds: that solvers have for each plan.
        engine: that runs the plans: rtl or timed.
        out: folder for system-plans.md and .json; rows that are there, of the same systems, are not run again.

    Raises BacoError for a result that is not that of the integers, and InputError for what is not known.
    """
    check_names(networks, NETWORKS, "network", "network")
    check_names(systems, (*UNITS, *SEARCHED), "system", "system")
    files = ResultFiles(out, "system-plans", page)
    hashes = {name: _system(name).config_hash for name in (*UNITS, *SEARCHED)}
    # of systems as they are today: the default space's clock and memories follow its technology
    rows = [row for row in files.before() or [] if row["hash"] == hashes[row["system"]]]
    done = {(row["network"], row["system"], row["engine"]) for row in rows}
    for network, system in ROWS:
        wanted = (not networks or network in networks) and (not systems or system in systems)
        if wanted and (network, system, engine) not in done:
            say(f"{network} on {system}")
            rows.append(_row(network, system, seconds, engine, say))
            rows.sort(key=lambda row: ROWS.index((row["network"], row["system"])))
            files.keep(rows)
    return rows


def _system(name: str) -> System:
    if name in UNITS:
        return System.of((unit, None if unit == HOST else load_accelerator(unit)) for unit in UNITS[name])
    space = load_space("gemmini").without_units()
    machines = [None if isinstance(unit, str) else space.accelerator(*unit) for unit in SEARCHED[name]]
    return System.of((HOST if machine is None else machine.name, machine) for machine in machines)


def _row(network: str, name: str, seconds: float, engine: str, say: Say) -> dict[str, Any]:
    names, runs, layers = NETWORKS[network]
    system = _system(name)
    sources = [load_network(source) for source in names]
    integers = [quantise(source, layers=layers) for source in sources]
    inputs = [
        quantise_inputs(own, other_inputs(source, own, 0))
        for source, own in zip(sources, integers, strict=True)
    ]
    profiles = [
        measured_profile(own, held, system, "timed", say) for own, held in zip(integers, inputs, strict=True)
    ]
    plan = plan_system(profiles, [Demand(runs=runs)] * len(names), system, seconds=seconds)
    data = []
    for number, asked in enumerate(plan.mix.runs):
        own = integers[asked.network]
        held = quantise_inputs(own, other_inputs(sources[asked.network], own, number))
        data.append((held, reference(own, held)))
    alone_ns = {unit: ns for unit, (ns, _) in plan.alone().items()}
    measured = replay_plan(plan, data, engine, alone_ns=alone_ns, report=say)
    if measured.wrong:
        raise BacoError(f"{network} on {name}: {'; '.join(measured.wrong[:3])}")
    assert measured.speedup is not None, "without rates"
    alone, times = measured.speedup
    return {
        "network": network,
        "system": name,
        "hash": system.config_hash,
        "engine": engine,
        "seconds": seconds,
        "planned_ms": plan.timetable.makespan * 1e-6,
        "measured_ms": measured.makespan_ns * 1e-6,
        "error": measured.error,
        "alone": alone,
        "alone_ms": alone_ns[alone] * 1e-6,
        "times": times,
        "operators": measured.checked,
        "gap": plan.gap,
        "handover": plan.handover()._asdict(),
    }


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table, and what a memory that units share could save of these plans at most."""
    named = {
        key: f"`{'`, `'.join(names)}`" + f", {runs} images" * (runs > 1) + ", 1 layer" * (layers == 1)
        for key, (names, runs, layers) in NETWORKS.items()
    }
    columns = {
        "networks": lambda row: named[row["network"]],
        "system": lambda row: row["system"],
        "planned, ms": lambda row: f"{row['planned_ms']:.4g}",
        "measured, ms": lambda row: f"{row['measured_ms']:.4g}",
        "by": lambda row: row["engine"],
        "error": lambda row: f"{row['error']:+.1%}",
        "best alone, ms": lambda row: f"{row['alone_ms']:.4g}",
        "times as fast": lambda row: f"{row['times']:.2f}",
        "operators, all right": lambda row: row["operators"],
        "between units, kB": lambda row: f"{row['handover']['nbytes'] * 1e-3:,.0f}",
        "of the channel's": lambda row: f"{row['handover']['share']:.1%}",
        "if that took no time": lambda row: f"-{row['handover']['saved']:.1%}",
    }
    several = [row for row in rows if row["handover"]["nbytes"]]
    told = ""
    if several:
        kept = math.prod(1 - row["handover"]["saved"] for row in several) ** (1 / len(several))
        told = (
            "What units hand to each other goes through main memory. If what is written for another unit and read by it took no time, and nobody"
            f" were held up by it, plans would be {1 - kept:.1%} shorter in the geometric mean,"
            f" {max(row['handover']['saved'] for row in several):.1%} at most (predicted, same units and orders): more than a scratchpad that"
            " units share could save, which holds a part of it."
        )
    faster = []
    for network in ("images", "transformers"):
        own = {row["system"]: row["measured_ms"] for row in rows if row["network"] == network}
        if len(own) == 2:
            times = own["searched single array"] / own[f"searched for {network}"]
            faster.append(
                f"The system that was searched for the mix {named[network]} is **{times:.2f} times** as fast as"
                " the searched single array of the same area, measured."
            )
    return page_of(
        "Plans of systems, run",
        "Times of groups are those of each accelerator alone (`timed`, which counts the Verilog's cycles). Best alone: all runs by the own program of"
        " the system's best accelerator, one behind the other. Every result of every operator is that of the integers; one clock of 1 GHz"
        f" for presets. Solvers had {' or '.join(sorted({format(row['seconds'], 'g') for row in rows}))} s: other seconds, or another machine,"
        " give other plans.",
        table(rows, columns),
        *faster,
        told,
    )
