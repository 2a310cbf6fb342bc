"""What a network's run measured, as a table for people and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baco.compiler.network.lowered import step_kind
from baco.compiler.network.program import NetworkProgram
from baco.sim.network.profile import Measured, OperatorProfile
from baco.sim.network.run import NetworkRun

#: Heads of the columns of `table_rows`; the busy ones and stalls are shares of the operator's cycles.
COLUMNS = (
    *("operator", "cycles", "predicted", "error", "load", "execute", "store", "mesh"),
    *("host waits: command", "fence", "other", "DRAM KiB", "what"),
)


def table_rows(run: NetworkRun) -> list[tuple[str, ...]]:
    """A row for every operator and one for all of them, as texts under `COLUMNS`. Nothing without timing."""
    whole = _whole(run.operators)
    if whole is None:
        return []
    rows = [_row(one.operator, one, one.predicted, one.what) for one in run.operators]
    predicted = _total([one.predicted for one in run.operators])
    rows.append(_row("all operators", whole, predicted, f"{len(run.steps)} steps"))
    return rows


def kind_errors(built: NetworkProgram, run: NetworkRun) -> list[tuple[str, int, int, float]]:
    """For each kind of step: name, how many, cycles measured, cycles predicted; kinds are functions of the host, and
    layers, additions and poolings of the accelerator. Nothing without predictions."""
    found: dict[str, tuple[int, int, float]] = {}
    for one in run.steps:
        if one.predicted is None:
            continue
        name = kind_of(built, one.function)
        count, cycles, predicted = found.get(name, (0, 0, 0.0))
        found[name] = (count + 1, cycles + one.cycles, predicted + one.predicted)
    return [(name, *values) for name, values in found.items()]


def kind_of(built: NetworkProgram, function: str) -> str:
    """What kind of step calls a function of the program."""
    return step_kind(built.lowered, function).removeprefix("net_")


def run_to_dict(built: NetworkProgram, run: NetworkRun) -> dict[str, Any]:
    """Plain values of a run, for JSON: boundaries, operators, steps, errors by kind."""
    return {
        "prologue_cycles": run.prologue,
        "epilogue_cycles": run.epilogue,
        "predicted_cycles": _total([operator.predicted for operator in run.operators]),
        "boundaries": len(run.checked),
        "wrong_boundaries": [str(boundary) for boundary in run.wrong],
        "kinds": [
            {"kind": kind, "steps": count, "cycles": cycles, "predicted": predicted}
            for kind, count, cycles, predicted in kind_errors(built, run)
        ],
        "operators": [operator.to_dict() for operator in run.operators],
        "steps": [step.to_dict() for step in run.steps],
    }


def _total(numbers: Sequence[float | None]) -> float | None:
    known = [one for one in numbers if one is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _whole(operators: Sequence[OperatorProfile]) -> Measured | None:
    if not operators or not operators[0].busy:
        return None
    names = operators[0].counters
    return Measured(
        operators[0].start,
        sum(one.cycles for one in operators),
        {name: sum(one.counters[name] for one in operators) for name in names},
        {},
    )


def _row(name: str, one: Measured, predicted: float | None, what: str) -> tuple[str, ...]:
    def share(cycles: int) -> str:
        return f"{100 * cycles / one.cycles:.0f} %" if one.cycles else ""

    busy, stalls = one.busy, one.stalls
    # a core in Verilog tells fences only
    told = "command" in stalls
    others = sum(n for reason, n in stalls.items() if reason not in ("command", "fence"))
    return (
        name,
        f"{one.cycles:,}",
        "" if predicted is None else f"{predicted:,.0f}",
        "" if predicted is None or not one.cycles else f"{100 * (predicted / one.cycles - 1):+.1f} %",
        *(share(busy[unit]) for unit in ("load", "execute", "store", "mesh")),
        share(stalls["command"]) if told else "",
        share(stalls["fence"]),
        share(others) if told else "",
        f"{one.dram_bytes / 1024:,.0f}",
        what,
    )
