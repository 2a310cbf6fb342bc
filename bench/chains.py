"""Two operators as one unit and one by one on the RTL: the chains of products and of convolutions of Chimera's evaluation."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, page_of, silent, table
from baco.common.errors import BacoError, InfeasibleError
from baco.compiler.network.calibrate import random_inputs
from baco.compiler.network.chain_network import chain_network
from baco.compiler.network.group_choice import GroupChoice, group_schedule
from baco.compiler.network.groups import Group, GroupSchedule
from baco.compiler.network.program import compile_network, scheduler
from baco.compiler.network.quantise import quantise, quantise_inputs
from baco.compiler.network.reference import reference
from baco.compiler.network.row_code import RowCode
from baco.sim.network.run import NetworkRun, run_network
from baco.workloads.builder import GraphBuilder
from baco.workloads.network import Network

_MACHINE = "gemmini-default"

#: Batch, M, N, K, L of C[m, l] = A[m, k] B[k, l], E[m, n] = C[m, l] D[l, n].
PRODUCT_CHAINS = {
    "G1": (8, 512, 64, 64, 512), "G2": (12, 512, 64, 64, 512), "G3": (16, 512, 64, 64, 512), "G4": (12, 256, 64, 64, 256),
    "G5": (16, 256, 64, 64, 256), "G6": (16, 256, 80, 80, 256), "G7": (12, 208, 64, 64, 208), "G8": (16, 208, 64, 64, 208),
    "G9": (16, 208, 80, 80, 208), "G10": (1, 512, 64, 64, 256), "G11": (1, 768, 64, 64, 384), "G12": (1, 1024, 64, 64, 512),
}  # fmt: skip
#: Of the image, results of both convolutions, their strides and their windows.
_CONVOLUTION_SIZES = (
    "channels", "height", "width", "first", "second", "stride1", "stride2", "window1", "window2"
)  # fmt: skip
CONVOLUTION_CHAINS = {
    "C1": (64, 112, 112, 192, 128, 2, 1, 3, 1), "C2": (32, 147, 147, 64, 80, 2, 1, 3, 1),
    "C3": (64, 56, 56, 128, 64, 1, 1, 3, 1), "C4": (128, 28, 28, 256, 128, 1, 1, 3, 1),
    "C5": (16, 227, 227, 64, 16, 4, 1, 3, 1), "C6": (64, 56, 56, 64, 64, 1, 1, 1, 3),
    "C7": (64, 56, 56, 64, 64, 1, 1, 1, 1), "C8": (256, 56, 56, 256, 64, 1, 1, 1, 1),
}  # fmt: skip


def published_chain(name: str) -> Network:
    """A chain of `PRODUCT_CHAINS` or `CONVOLUTION_CHAINS` as a network of two operators."""
    if name in PRODUCT_CHAINS:
        batch, m, n, k, between = PRODUCT_CHAINS[name]
        b = GraphBuilder(name)
        left, right = b.input("a", (batch, m, k)), b.input("b", (batch, k, between))
        b.matmul(b.matmul(left, right, name="first"), b.input("d", (batch, between, n)), name="second")
        return b.build()
    sizes = zip(_CONVOLUTION_SIZES, CONVOLUTION_CHAINS[name], strict=True)
    return chain_network("convolutions:" + ",".join(f"{size}={value}" for size, value in sizes))


def run(
    chains: Sequence[str] = (*PRODUCT_CHAINS, *CONVOLUTION_CHAINS),
    *,
    accelerator: str = _MACHINE,
    seeds: Annotated[int, Interval(ge=1, le=100)] = 1,
    out: Path = FOLDER,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """Chains of two products or convolutions as one unit and one by one on the RTL: cycles and bytes, measured and predicted.

    Args:
        chains (--chain): repeatable: G1 to G12, C1 to C8; by default all.
        accelerator: what they run on.
        seeds: weights and inputs of each.
        out: folder for chains.md and chains.json.

    A chain that does not fit as one unit has `fused` None and the reason.

    Raises InputError for another name, BacoError for a result that is not what numpy's integers give, and what compiling and
    simulating raise.
    """
    check_names(chains, (*PRODUCT_CHAINS, *CONVOLUTION_CHAINS), "chain", "chain")
    files, machine = ResultFiles(out, "chains", page), load_accelerator(accelerator)
    rows = []
    for name in chains:
        say(name)
        rows.append(_row(name, machine, seeds))
        files.keep(rows)
    return rows


class _Always:
    """A `baco.compiler.network.groups.GroupScheduler` that takes whatever fits, and keeps what the compiler thinks of it."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator, self.choice = accelerator, GroupChoice(accelerator, scheduler(accelerator))

    def __call__(
        self, names: tuple[str, ...], group: Group, between: RowCode | None
    ) -> tuple[GroupSchedule, float] | None:
        self.choice(names, group, between)
        try:
            return group_schedule(group, self.accelerator), float(len(names))
        except InfeasibleError:
            return None


def _row(name: str, accelerator: Accelerator, seeds: int) -> dict[str, Any]:
    network = published_chain(name)
    alone: list[NetworkRun] = []
    fused: list[NetworkRun] = []
    always = _Always(accelerator)
    for seed in range(seeds):
        quantised = quantise(network, seed=seed)
        data = quantise_inputs(quantised, random_inputs(network, seed + 1))
        values = reference(quantised, data)
        for groups, runs in ((None, alone), (always, fused)):
            built = compile_network(quantised, accelerator, groups=groups, data=data, check=False)
            run = run_network(built, values, "rtl")
            if run.wrong:
                raise BacoError(f"{name}: {run.wrong[0]}")
            runs.append(run)
    both = [considered for considered in always.choice.considered if len(considered.names) == 2]
    found = max(both, key=lambda considered: considered.schedule is not None)
    return {
        "chain": name,
        "machine": accelerator.name,
        "alone": _measured(alone),
        "fused": _measured(fused) if found.schedule is not None else None,
        "schedule": None if found.schedule is None else str(found.schedule),
        "reason": found.reason,
        "predicted": {"cycles": found.cycles, "bytes": found.bytes} if found.schedule is not None else None,
    }


def _measured(runs: Sequence[NetworkRun]) -> dict[str, Any]:
    return {
        "cycles": [one.result.cycles for one in runs],
        "bytes": [
            one.result.activity["dram_read_bytes"] + one.result.activity["dram_write_bytes"] for one in runs
        ],
    }


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """What was measured, and geometric means."""
    seeds = " or ".join(map(str, sorted({len(row["alone"]["cycles"]) for row in rows})))

    def fused(text: Callable[[Mapping[str, Any]], str]) -> Callable[[Mapping[str, Any]], str]:
        return lambda row: "" if row["fused"] is None else text(row)

    def means(kind: str, names: Mapping[str, Any]) -> str:
        found = [_ratio(row) for row in rows if row["chain"] in names and row["fused"] is not None]
        mean = statistics.geometric_mean(found) if found else 0.0
        text = f"{len(found)} chains of {kind}: {mean:.3f} times the cycles (geometric mean), {max(found, default=0):.3f} at worst."
        return text if found else ""

    taken = [row for row in rows if row["fused"] is not None and not row["reason"]]
    slower = [f"{row['chain']} {_ratio(row):.4f}" for row in taken if _ratio(row) > 1]
    chosen = f"The compiler takes {len(taken)}, of which {', '.join(slower) or 'none'} {'is' if len(slower) < 2 else 'are'} slower."

    return page_of(
        "Two operators as one unit, and one by one",
        f"On {rows[0]['machine']}, measured on the RTL, every result equal to integers; seeds: {seeds}, of which the"
        " worst ratio of cycles is shown. Bytes are those of main memory.",
        table(
            rows,
            {
                "chain": lambda row: row["chain"],
                "cycles, one by one": lambda row: f"{statistics.median(row['alone']['cycles']):,.0f}",
                "as one unit": fused(lambda row: f"{statistics.median(row['fused']['cycles']):,.0f}"),
                "ratio": fused(lambda row: f"**{_ratio(row):.3f}**"),
                "predicted/measured": fused(
                    lambda row: (
                        f"{row['predicted']['cycles'] / statistics.median(row['fused']['cycles']):.3f}"
                    )
                ),
                "bytes, one by one": lambda row: f"{row['alone']['bytes'][0]:,}",
                "bytes, as one unit": fused(lambda row: f"{row['fused']['bytes'][0]:,}"),
                "fewer": fused(
                    lambda row: f"**{1 - row['fused']['bytes'][0] / row['alone']['bytes'][0]:.0%}**"
                ),
                "predicted/measured bytes": fused(
                    lambda row: f"{row['predicted']['bytes'] / row['fused']['bytes'][0]:.3f}"
                ),
                "the compiler": lambda row: row["reason"] or "takes it",
            },
        ),
        means("products", PRODUCT_CHAINS),
        means("convolutions", CONVOLUTION_CHAINS),
        chosen,
    )


def _ratio(row: Mapping[str, Any]) -> float:
    """Cycles as one unit over those one by one, of the worst seed."""
    pairs = zip(row["alone"]["cycles"], row["fused"]["cycles"], strict=True)
    return float(max(fused / alone for alone, fused in pairs))
