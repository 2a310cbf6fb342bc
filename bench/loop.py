"""`baco bench loop`: what measurements are worth to a search, at equal budgets of simulated cycles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from baco.bench.harness.experiment import ResultFiles, Say, page_of, silent, table
from baco.bench.studies import searched, within
from baco.common.errors import InfeasibleError
from baco.common.numbers import cycles_number
from baco.common.provenance import versions
from baco.common.text import markdown_text
from baco.exploration.executors.executor_choice import LOCAL, ExecutorChoice
from baco.exploration.measure.measured_design import Design
from baco.exploration.measure.measured_study import Watch, measure_study

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


def run(
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
    say: Say = silent,
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

    `watch` makes what shows a network's measured search, of its budget.

    Raises InfeasibleError where a network has no design that can be measured.
    """
    budget, files, rows = cycles_number(cycles, "--cycles"), ResultFiles(out, "measured-loop", page), []
    result: dict[str, Any] = {
        "budget_cycles": budget,
        "samples": samples,
        "area_limit_mm2": area_limit,
        "seed": seed,
        "versions": versions(),
    }
    for name in networks:
        # what measuring layers is worth shows on layers
        study, _ = searched(
            name,
            within(area_limit, "--area-limit"),
            work / name.replace(":", "_").replace("/", "_"),
            samples=samples,
            seed=seed,
            whole=False,
        )
        row = _row(name, study, budget, engine, watch)
        rows.append(row)
        say(
            f"{name}: {row.plain:.4g} without measurements, {row.measured:.4g} with: {row.gain:.3f} times less;"
            f" {row.learned:.4g} with the learned residual"
        )
        result["rows"] = [asdict(one) | {"gain": one.gain} for one in rows]
        files.keep(result)
    return result


def _row(
    name: str, study: Path, budget: float, engine: ExecutorChoice, watch: Callable[[float], Watch] | None
) -> LoopRow:
    found, other = (
        measure_study(study, budget, engine=engine, learned=learned, watch=watch(budget) if watch else None)
        for learned in (False, True)
    )
    first, best, last = found.first, found.best, other.best
    if not (
        first and best and last and first.predicted and first.measured and best.measured and last.measured
    ):
        reason = "; ".join(found.failures[:3]) or found.ended
        raise InfeasibleError(f"{name}: no design could be measured whole: {reason}")
    return LoopRow(
        name,
        first.predicted.edp,
        first.measured.edp,
        best.measured.edp,
        last.measured.edp,
        _machine(first),
        _machine(best),
        found.spent,
        found.verified,
        sum(one.measured for one in found.rounds),
        found.failures,
    )


def _machine(found: Design) -> tuple[int, int, int]:
    one = found.accelerator
    return one.dim, one.scratchpad_kib, one.accumulator_kib


def page(result: dict[str, Any]) -> str:
    """A row a network, and measurements that went wrong."""
    rows = result["rows"]
    # as the table shows it: what three decimals do not tell apart is no gain
    better = sum(round(row["plain"] / row["measured"], 3) > 1 for row in rows)
    area = "" if result["area_limit_mm2"] is None else f", area at most {result['area_limit_mm2']} mm²"
    failures = [(row["network"], text) for row in rows for text in row["failures"]]

    def machine(one: Sequence[int]) -> str:
        return "{}, {}+{}".format(*one)

    return page_of(
        "What measurements are worth to a search",
        f"{result['budget_cycles']:,.0f} simulated cycles a network, searches of {result['samples']:,} samples, seed"
        f" {result['seed']}{area}. EDP in µJ·cycles, measured on the RTL (layers one by one, energy by counted"
        f" activity). The measured search ends lower on {better} of {len(rows)} networks.",
        table(
            rows,
            {
                "network": lambda row: markdown_text(row["network"]),
                "predicted best": lambda row: f"{row['predicted']:.4g}",
                "the same measured": lambda row: f"{row['plain']:.4g}",
                "its array, KiB": lambda row: machine(row["plain_machine"]),
                "with measurements": lambda row: f"{row['measured']:.4g}",
                "array, KiB": lambda row: machine(row["machine"]),
                "times less": lambda row: f"{row['gain']:.3f}",
                "with the learned residual, too": lambda row: f"{row['learned']:.4g}",
                "cycles of the budget": lambda row: f"{row['spent']:,}",
                "beyond it": lambda row: f"{row['verified']:,}",
                "programs": lambda row: row["programs"],
            },
        ),
        "Measurements that went wrong:" if failures else "",
        "\n".join(f"* {markdown_text(name)}: {markdown_text(text)}" for name, text in failures),
    )
