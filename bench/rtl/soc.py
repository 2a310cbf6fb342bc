"""`baco bench soc`: the same programs with the C++ host core and with the core in Verilog (CVA6), cycles side by side.

What differs is the core and what lies between: the accelerator, its program and main memory are the same. Whose cycles they are is told
by operator: those of the accelerator, and those that the core computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, page_of, silent, table
from baco.common.errors import BacoError
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.exploration.measure.program_job import other_inputs
from baco.sim.engines.base import run_job
from baco.sim.job import Job, Simulation
from baco.sim.network.run import NetworkRun, run_network
from baco.workloads.inputs.load import load_network

#: Networks that run in minutes: the array's, mostly; many small layers; half the core's.
NETWORKS = ("resnet18:image=64", "mobilenet_v2:image=64", "deepbench_face:image=64", "bert_base:seq=32")


def run(
    networks: Sequence[str] = (),
    elfs: Sequence[Path] = (),
    *,
    accelerator: str = "gemmini-default",
    host: str = "timed",
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Run programs with both cores, compare every result with integers, and count cycles.

    Args:
        networks (--network): repeatable; by default some that run in minutes, or none where there is --elf. Repeated blocks run once.
        elfs (--elf, FILE.elf): a program for that accelerator; repeatable.
        accelerator (-a, NAME): that runs them.
        host (--engine): of the C++ core: timed or rtl.
        out: folder for soc.md and .json.

    Raises BacoError for a result that is wrong.
    """
    files = ResultFiles(out, "soc", page)
    rows: list[dict[str, Any]] = []

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        say(f"{row['program']}: {row['host']['cycles']:,} and {row['core']['cycles']:,} cycles")
        files.keep(rows)

    machine = load_accelerator(accelerator)
    for name in networks or ([] if elfs else NETWORKS):
        graph = load_network(name)
        integers = quantise(graph, (), layers=1)
        data = quantise_inputs(integers, other_inputs(graph, integers, 0))
        values, built = reference(integers, data), compile_network(integers, machine, data=data)
        keep(_row(name, [_checked(name, run_network(built, values, engine)) for engine in (host, "soc")]))
    for elf in elfs:
        results = [run_job(Job(machine=machine, program=elf), engine=engine) for engine in (host, "soc")]
        if any(result.exit_code for result in results):
            raise BacoError(f"{elf} ends with another code than 0: {results[-1].console[-200:]}")
        keep(_row(elf.stem, [(result, None) for result in results]))
    return rows


def _checked(name: str, ran: NetworkRun) -> tuple[Simulation, NetworkRun]:
    if ran.wrong or ran.result.exit_code:
        raise BacoError(f"{name} on {ran.result.engine}: {[*map(str, ran.wrong[:2]), ran.result.exit_code]}")
    return ran.result, ran


def _row(program: str, runs: Sequence[tuple[Simulation, NetworkRun | None]]) -> dict[str, Any]:
    row: dict[str, Any] = {"program": program}
    for name, (result, network) in zip(("host", "core"), runs, strict=True):
        row[name] = {
            "cycles": result.cycles,
            "instructions": result.instructions,
            "seconds": result.wall_seconds,
            **{key: result.counters.get(f"host_{key}") for key in _COUNTED},
        }
        if network is not None:
            on: Counter[str] = Counter()
            for operator in network.operators:
                on[operator.on] += operator.cycles
            row[name]["on"] = dict(on)
    return row


_COUNTED = ("instruction_misses", "data_misses", "stall_fence", "mispredictions", "stall_branch")


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Cycles of both, and by who computes."""

    def more(row: Mapping[str, Any], where: str = "") -> str:
        pair = [row[name]["on"].get(where, 0) if where else row[name]["cycles"] for name in ("host", "core")]
        return f"{pair[0]:,} | {pair[1]:,} | {pair[1] / pair[0] - 1:+.1%}" if pair[0] else "- | - | -"

    def split(where: str) -> dict[str, Any]:
        def cell(at: int) -> Any:
            return lambda row: more(row, where).split(" | ")[at] if "on" in row["host"] else "-"

        title = f"operators of the {where}" if where else "all"
        return {f"{title}, C++": cell(0), f"{title}, CVA6": cell(1), f"{title}, difference": cell(2)}

    columns: dict[str, Any] = {"program": lambda row: row["program"]}
    columns |= {
        name: (lambda row, at=at: more(row).split(" | ")[at])
        for at, name in enumerate(("C++ host", "CVA6", "difference"))
    }
    columns |= split("accelerator") | split("host")
    for key, title in (("instruction_misses", "instruction misses"), ("data_misses", "data misses")):
        columns[title] = lambda row, key=key: f"{row['host'][key]:,}, {row['core'][key]:,}"
    columns["mispredicted"] = lambda row: f"{row['core']['mispredictions']:,}"
    columns["thousand cycles/s"] = lambda row: f"{row['core']['cycles'] / row['core']['seconds'] / 1e3:,.0f}"
    return page_of(
        "The host core's cycles beside those of a core in Verilog",
        "The same programs, every result compared with integers. C++: the host core of the simulators (`sim/cpp/host.h`); CVA6: the SoC in Verilog.",
        table(rows, columns),
    )
