"""Single operators (Tables 6.4 to 6.6): EDP of every system on every shape, geometric means of ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baco.bench.harness.experiment import Say, geometric_mean, silent
from baco.bench.paper import systems
from baco.bench.paper.cache import RecordCache
from baco.bench.paper.published import OPERATOR_RATIOS
from baco.bench.paper.shapes import KINDS, Shape, read_shapes
from baco.bench.paper.systems import EQUAL_AREA, FREE, SAMPLES, SYSTEMS, SystemCost, evaluate_system
from baco.common.table import csv_text
from baco.workloads.network import Task

#: Cases of each kind that are also searched in the free space, where searches take long.
FREE_CASES = 6
#: The published comparison calls the systems so; the free space is that of its searches.
_PUBLISHED = {"dosa-free": "dosa"}


@dataclass(frozen=True)
class Case:
    """One shape and what every system reached on it; `found` lacks systems that were not run."""

    shape: Shape
    found: dict[str, SystemCost]


@dataclass(frozen=True)
class OperatorRow:
    """One system on one kind of operator, geometric means over cases.

    Attributes:
        cycles, energy_uj: means.
        ratio: EDP over that of `baco`, our search, which has at most gemmini-default's area.
        free_ratio: EDP over that of `baco-free`, on the cases that were searched there.
        published: EDP over that of BACO in the publication; None where it has no such system.
        cases, free_cases: how many.
    """

    kind: str
    system: str
    cases: int
    free_cases: int
    cycles: float
    energy_uj: float
    ratio: float | None
    free_ratio: float | None
    published: float | None


def run_operators(
    cache: RecordCache,
    *,
    quick: bool = False,
    per_kind: int | None = None,
    free_cases: int = FREE_CASES,
    samples: int = SAMPLES,
    say: Say = silent,
) -> list[Case]:
    """Every system on the shapes that the published table counts.

    Args:
        quick: a sixteenth of the shapes.
        per_kind: so many shapes of each kind at most, spread evenly over the list.
        free_cases: shapes of each kind searched in the free space, spread evenly over the list.
        samples: budget of searches.
    """
    shapes = [shape for shape in read_shapes() if shape.table]
    if per_kind is not None:
        shapes = [
            shape for kind in KINDS for shape in _spread([s for s in shapes if s.kind == kind], per_kind)
        ]
    if quick:
        shapes, free_cases = shapes[::16], min(free_cases, 2)
    freed = {
        id(shape) for kind in KINDS for shape in _spread([s for s in shapes if s.kind == kind], free_cases)
    }
    found: list[dict[str, SystemCost]] = [{} for _ in shapes]
    # The free space last: it takes longest.
    for title, these, chosen in (
        ("equal area", EQUAL_AREA, list(range(len(shapes)))),
        ("free", FREE, [i for i, shape in enumerate(shapes) if id(shape) in freed]),
    ):
        for done, i in enumerate(chosen, 1):
            for system in these:
                found[i][system] = _found(cache, system, shapes[i], samples)
            if done % 20 == 0 or done == len(chosen):
                say(f"operators, {title}: {done} of {len(chosen)} shapes")
    return [Case(shape, costs) for shape, costs in zip(shapes, found, strict=True)]


def _found(cache: RecordCache, system: str, shape: Shape, samples: int) -> SystemCost:
    """A system on a shape, from the cache if it is there."""
    subject = {"system": system, "problem": str(shape.problem), "samples": samples}
    task = Task(shape.kind, shape.problem, 1.0)
    record = cache.get(
        subject, systems.__name__, lambda: evaluate_system(system, [task], samples=samples).to_dict()
    )
    return SystemCost(**record)


def _spread(shapes: Sequence[Shape], number: int) -> list[Shape]:
    """So many of them, evenly over the list."""
    if number >= len(shapes):
        return list(shapes)
    return [shapes[i * len(shapes) // number] for i in range(number)]


def summarise(cases: Sequence[Case]) -> list[OperatorRow]:
    """The table: a row for every kind and system that was run on it."""
    rows = []
    for kind in KINDS:
        own = [case for case in cases if case.shape.kind == kind]
        for system in SYSTEMS:
            run = [case for case in own if system in case.found]
            if not run:
                continue
            rows.append(
                OperatorRow(
                    kind,
                    system,
                    len(run),
                    sum("baco-free" in case.found for case in run),
                    geometric_mean(case.found[system].latency_cycles for case in run) or 0.0,
                    geometric_mean(case.found[system].energy_pj * 1e-6 for case in run) or 0.0,
                    _ratio(run, system, "baco"),
                    _ratio(run, system, "baco-free"),
                    OPERATOR_RATIOS[kind].get(_PUBLISHED.get(system, system.removesuffix("-random"))),
                )
            )
    return rows


def _ratio(cases: Sequence[Case], system: str, base: str) -> float | None:
    """Geometric mean of EDP ratios over the cases that both were run on."""
    return geometric_mean(
        case.found[system].edp / case.found[base].edp for case in cases if {system, base} <= case.found.keys()
    )


def cases_csv(cases: Sequence[Case]) -> str:
    """A row a shape and system: bounds, energy, cycles, EDP, all predicted."""
    names = ("R", "S", "P", "Q", "C", "K", "N")
    rows: list[Sequence[object]] = [
        ["kind", *names, "system", "accelerator", "energy_uj", "cycles", "edp_uj_cycles", "source"]
    ]
    for case in cases:
        bounds = [getattr(case.shape.problem, name) for name in names]
        for system, cost in case.found.items():
            numbers = (f"{v:.6g}" for v in (cost.energy_pj * 1e-6, cost.latency_cycles, cost.edp))
            rows.append([case.shape.kind, *bounds, system, cost.accelerator, *numbers, "predicted"])
    return csv_text(rows)
