"""`baco bench loop`: what measurements are worth to a search, at equal budgets of simulated cycles."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from baco.common.errors import InfeasibleError
from baco.common.files import atomic_write, output_folder
from baco.common.numbers import cycles_number
from baco.common.provenance import versions
from baco.common.text import markdown_text
from baco.exploration.executors.executor_choice import LOCAL, ExecutorChoice
from baco.exploration.measure.design import Design
from baco.exploration.measure.measured_study import Watch, measure_study
from baco.exploration.objective import Objective
from baco.exploration.space import load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.studies.study import FILE_NAME
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload

__all__ = ["NETWORKS", "LoopRow", "bench_loop", "report_text"]

#: The networks of the comparison.
NETWORKS = ("resnet50", "bert_base", "mobilenet_v2", "deepbench_face")


@dataclass(frozen=True)
class LoopRow:
    """One network.

    Attributes:
        predicted: EDP that the search without measurements predicts for its best design; plain: the same measured.
        measured: EDP that the measured search ends at; learned: the same with what the learned residual expects; all in
            µJ·cycles.
        plain_machine, machine: array side, scratchpad and accumulator KiB.
        spent, verified: simulated cycles of the budget, and beyond it.
        programs: measured.
        failures: measurements that went wrong.
    """

    network: str
    predicted: float
    plain: float
    measured: float
    learned: float
    plain_machine: tuple[int, int, int]
    machine: tuple[int, int, int]
    spent: int
    verified: int
    programs: int
    failures: tuple[str, ...]

    @property
    def gain(self) -> float:
        """How many times less the EDP is with measurements."""
        return self.plain / self.measured


def bench_loop(
    networks: Sequence[str] = NETWORKS,
    cycles: str | float = "100M",
    *,
    samples: PositiveInt = 5000,
    area_limit: float | None = 1.3197,
    seed: int = 0,
    out: Path = Path("results"),
    work: Path = Path("baco-out/loop"),
    engine: ExecutorChoice = LOCAL,
    watch: Callable[[float], Watch] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measured searches against searches without measurements, at equal budgets of simulated cycles.

    Both searches begin with the same study. Without measurements its predicted best design counts, measured at the end;
    with them, what the budget leads to. Measuring the final designs whole is outside the budget for both.

    Args:
        networks (--network, -n): repeatable; by default the four networks of the comparison.
        cycles (CYCLES): budget of simulated cycles a network.
        samples: budget of each search.
        area_limit (MM2): largest area in mm².
        seed: of the searches.
        out: folder for measured-loop.md and measured-loop.json.
        work: folder of the studies and their measurements; resumed when there.

    `watch` makes what shows a network's measured search, of its budget. Raises InfeasibleError where a network has no design that can
    be measured.
    """
    budget = cycles_number(cycles, "--cycles")
    rows = []
    for name in networks:
        space = load_space("gemmini")
        if area_limit is not None:
            space = space.constrain("--area-limit", area_mm2=area_limit)
        study = work / name.replace(":", "_").replace("/", "_")
        run_exploration(
            Workload.of([load_network(name)], [1.0]),
            space,
            Objective.parse("edp"),
            samples=samples,
            seed=seed,
            out=study,
            resume=True,
            whole=False,  # what measuring layers is worth shows on layers
        )
        found, other = (
            measure_study(
                study / FILE_NAME,
                budget,
                engine=engine,
                learned=learned,
                watch=watch(budget) if watch else None,
            )
            for learned in (False, True)
        )
        first, best, learned_best = found.first, found.best, other.best
        if not (
            first
            and best
            and learned_best
            and first.predicted
            and first.measured
            and best.measured
            and learned_best.measured
        ):
            raise InfeasibleError(
                f"{name}: no design could be measured whole: {'; '.join(found.failures[:3]) or found.ended}"
            )
        row = LoopRow(
            name,
            first.predicted.edp,
            first.measured.edp,
            best.measured.edp,
            learned_best.measured.edp,
            _machine(first),
            _machine(best),
            found.spent,
            found.verified,
            sum(one.measured for one in found.rounds),
            found.failures,
        )
        rows.append(row)
        say(
            f"{name}: {row.plain:.4g} without measurements, {row.measured:.4g} with: {row.gain:.3f} times less;"
            f" {row.learned:.4g} with the learned residual"
        )
        result = {
            "budget_cycles": budget,
            "samples": samples,
            "area_limit_mm2": area_limit,
            "seed": seed,
            "versions": versions(),
            "rows": [asdict(one) | {"gain": one.gain} for one in rows],
        }
        folder = output_folder(out)
        atomic_write(folder / "measured-loop.json", json.dumps(result, indent=2, allow_nan=False) + "\n")
        atomic_write(folder / "measured-loop.md", report_text(result))
    return result


def _machine(found: Design) -> tuple[int, int, int]:
    one = found.accelerator
    return one.dim, one.scratchpad_kib, one.accumulator_kib


def report_text(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    rows = result["rows"]
    # as the table shows it: what three decimals do not tell apart is no gain
    better = sum(round(row["plain"] / row["measured"], 3) > 1 for row in rows)
    area = "" if result["area_limit_mm2"] is None else f", area at most {result['area_limit_mm2']} mm²"
    lines = [
        "# What measurements are worth to a search",
        "",
        f"{result['budget_cycles']:,.0f} simulated cycles a network, searches of {result['samples']:,} samples, seed"
        f" {result['seed']}{area}. EDP in µJ·cycles, measured on the RTL (layers one by one, energy by counted"
        f" activity). The measured search ends lower on {better} of {len(rows)} networks.",
        "",
        "| network | predicted best | the same measured | array, KiB | with measurements | array, KiB | times less"
        " | with the learned residual, too"
        " | cycles of the budget | beyond it | programs |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        first, best = (f"{side}, {sp}+{acc}" for side, sp, acc in (row["plain_machine"], row["machine"]))
        lines.append(
            f"| {markdown_text(row['network'])} | {row['predicted']:.4g} | {row['plain']:.4g} | {first} | {row['measured']:.4g}"
            f" | {best} | {row['gain']:.3f} | {row['learned']:.4g} | {row['spent']:,} | {row['verified']:,} | {row['programs']} |"
        )
    failures = [
        f"* {markdown_text(row['network'])}: {markdown_text(text)}"
        for row in rows
        for text in row["failures"]
    ]
    if failures:
        lines += ["", "Measurements that went wrong:", "", *failures]
    return "\n".join(lines) + "\n"
