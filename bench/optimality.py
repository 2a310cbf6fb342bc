"""How near the optimum is what the main searcher finds? Proven bounds for networks, brute force for small layers."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval
from pydantic import PositiveInt

from baco.accel.presets import load_accelerator
from baco.bench.exhaustive import enumerate_all
from baco.bench.harness.experiment import Say, silent
from baco.bench.sets.spaces import published_space
from baco.common.errors import InfeasibleError
from baco.common.files import atomic_write, output_folder
from baco.common.table import csv_text
from baco.exploration.cost.bound import capacity_bound, compulsory_bound
from baco.exploration.cost.certificate import certify
from baco.exploration.cost.exact import LayerSolver
from baco.exploration.cost.tiles import Point
from baco.exploration.executors.executor_choice import HERE, ExecutorChoice
from baco.exploration.executors.tasks import Call, gather
from baco.exploration.objective import Objective
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Task
from baco.workloads.problem import Problem

#: Networks judged when none is named: built-in ones of different kinds.
DEFAULT_NETWORKS = ("resnet50", "bert_base", "unet", "retinanet", "deepbench_ocr")
#: Small layers of every kind, for which all mappings can be tried.
SMALL_PROBLEMS = (
    Problem(P=6, C=8, K=6),
    Problem(C=12, K=10),
    Problem(R=3, P=6, C=2, K=4),
    Problem(R=2, S=2, P=3, Q=3, C=2, K=2, stride_w=2, stride_h=2),
    Problem(R=3, P=4, Q=2, groups=6),
)
#: Capacities (in KiB) that the small layers do not fit as a whole; hardware has none so small.
TINY_POINTS = tuple(
    Point(dim, acc / 64, sp / 64) for dim in (2, 4) for acc in (1, 2, 4) for sp in (2, 4, 8) if acc <= sp
)
_WEIGHINGS = (0.0, 1e-3, 1e-2, 1e-1, float("inf"))
_SMALL_SAMPLES = 4000


def run(
    networks: Sequence[str] = DEFAULT_NETWORKS,
    space: str = "gemmini",
    samples: PositiveInt = 5000,
    seed: int = 0,
    tolerance: Annotated[float, Interval(ge=0.0, le=1.0)] = 0.005,
    small: bool = True,
    out: Path | None = None,
    engine: ExecutorChoice = HERE,
    say: Say = silent,
) -> dict[str, Any]:
    """Prove how near the optimum of the space the designs found by the main searcher are.

    Each network with each area limit, and each small layer, is a task; how far they are, they say on standard error.

    Args:
        networks (--network, -n): name or layer file (FILE.csv:NAME); repeatable; five by default.
        space: gemmini, reference or a file; also taken with area limited to that of gemmini-default.
        samples: budget of each search in design points.
        seed: of the searches.
        tolerance: how near to the optimum bounds are proven (ratio).
        small: also try all mappings of some small layers.
        out: folder for optimality.csv.

    Returns:
        `networks`: a row for each network and area limit (bounds and EDP in µJ·cycles; `gap`: how far the EDP
        found may be above the optimum at most); `small_layers`: a row each; `largest_gap`;
        `interrupted`: True when Ctrl-C ended it early (rows done until then are kept).

    Raises:
        InputError: unknown network or space.
        InfeasibleError: a search found nothing within its budget.
    """
    free = published_space(space).without_units()
    limited = free.constrain("area of gemmini-default", area_mm2=load_accelerator("gemmini-default").area_mm2)
    loaded = [load_network(name) for name in networks]
    judged = [
        (network.name, label, network.tasks, chosen, samples, seed, tolerance)
        for network in loaded
        for label, chosen in (("free", free), ("gemmini-default", limited))
    ]
    tasks = [Call(_title(*case[:2]), _judge, case) for case in judged]
    tasks += [Call(str(problem), _exhaust, (problem, seed)) for problem in SMALL_PROBLEMS if small]
    found: dict[int, dict[str, Any]] = {}

    def keep(_: int, __: int, done: Any) -> None:
        found[done.index] = done.value
        say(f"{done.task.name}: {_said(done.value)}")

    interrupted = False
    try:
        with engine.executor() as executor:
            gather(executor, tasks, None, keep)
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted: what is done so far follows")
    rows = [found[index] for index in sorted(found) if index < len(judged)]
    if out is not None and rows:
        text = csv_text([list(rows[0]), *(list(row.values()) for row in rows)])
        atomic_write(output_folder(out) / "optimality.csv", text)
    return {
        "space": free.name,
        "samples": samples,
        "seed": seed,
        "largest_gap": max((row["gap"] for row in rows), default=None),
        "interrupted": interrupted,
        "networks": rows,
        "small_layers": [found[index] for index in sorted(found) if index >= len(judged)],
    }


def page(result: dict[str, Any]) -> str:
    """Values by name, a line each."""
    values = {name: value for name, value in result.items() if name not in ("networks", "small_layers")}
    parts = [*result["networks"], *result["small_layers"], values]
    return "\n\n".join(
        "\n".join(f"{name}: {_value(value)}" for name, value in part.items()) for part in parts
    )


def _value(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def search_edp(tasks: Sequence[Task], space: DesignSpace, samples: int, seed: int) -> float:
    """EDP (µJ·cycles) that the main searcher reaches; infinite if it finds no feasible design."""
    setup = SearchSetup(tuple(tasks), space, Objective.parse("edp"), samples * len(tasks), seed)
    searcher = make_searcher("gradient", setup)
    best = float("inf")
    while True:
        result = searcher.step()
        for candidate in result.candidates:
            best = min(best, candidate.cost.edp)
        if result.done:
            return best


def _judge(
    name: str,
    label: str,
    tasks: Sequence[Task],
    space: DesignSpace,
    samples: int,
    seed: int,
    tolerance: float,
) -> dict[str, Any]:
    title = _title(name, label)
    _tell(f"{title}: searching")
    start = time.perf_counter()
    found = search_edp(tasks, space, samples, seed)
    searched = time.perf_counter()
    if not np.isfinite(found):
        raise InfeasibleError(
            f"{title}: the search found no feasible design with {samples} samples",
            hint="give it more with --samples",
        )
    _tell(f"{title}: found {found:.5g} µJ·cycles in {searched - start:.1f} s, proving")
    last = [time.monotonic()]

    def progress(bound: float, best: float) -> None:
        if time.monotonic() - last[0] > 5:
            last[0] = time.monotonic()
            _tell(f"{title}: at least {bound:.5g}, best known {best:.5g} µJ·cycles")

    # Ctrl-C during the proof ends the benchmark: a half-proven row would not be comparable.
    certificate = certify(tasks, space, found, tolerance, progress)
    proven = time.perf_counter()
    return {
        "network": name,
        "area": label,
        "area_limit_mm2": space.constraints.area_mm2,
        "found_edp": found,
        "compulsory_bound": compulsory_bound(
            tasks, space.base.energy, space.base.dram_bytes_per_cycle, space.dataflows
        ),
        "capacity_bound": capacity_bound(tasks, space).edp if space.enumerable else None,
        "certified_bound": certificate.bound,
        "gap": certificate.gap,
        "best_edp_known": certificate.best,
        "better_point": None if certificate.point is None else dataclasses.asdict(certificate.point),
        "search_seconds": searched - start,
        "proof_seconds": proven - searched,
    }


def _title(name: str, label: str) -> str:
    return f"{name}, area {'as in the space' if label == 'free' else 'of gemmini-default'}"


def _tell(text: str) -> None:
    """How far it is, from whatever process it runs in."""
    print(text, file=sys.stderr, flush=True)


def _said(row: dict[str, Any]) -> str:
    if "problem" not in row:
        return f"at most {row['gap']:.3%} above the optimum"
    return (
        f"{row['mappings']:,} mappings tried; the solver differs by {row['solver_difference']:.1e} at most,"
        f" the search by {row['gap']:.1e}"
    )


def _exhaust(problem: Problem, seed: int) -> dict[str, Any]:
    """Brute force against the exact solver on tiny points, and against the searcher on the least real ones."""
    space = small_space()
    legal = space.hardware()
    real = [
        Point(int(d), float(a), float(s))
        for d, a, s in zip(legal.dim, legal.accumulator_kib, legal.scratchpad_kib, strict=True)
    ]
    truth = enumerate_all(problem, [*TINY_POINTS, *real], space, _WEIGHINGS)
    solver = LayerSolver(problem, space)
    worst = 0.0
    for i, point in enumerate(TINY_POINTS):
        for g, weighing in enumerate(_WEIGHINGS):
            value, exact = solver.solve(point, weighing).value, float(truth.least[i, g])
            if value != exact:
                worst = max(worst, abs(value / exact - 1))
    best = float(truth.edp[len(TINY_POINTS) :].min())
    found = search_edp((Task("small", problem, 1.0),), space, _SMALL_SAMPLES, seed)
    return {
        "problem": str(problem),
        "mappings": truth.mappings,
        "solver_difference": worst,
        "least_edp": best,
        "found_edp": found,
        "gap": found / best - 1,
    }


def small_space() -> DesignSpace:
    """The smallest accelerators of the default space and below."""
    return dataclasses.replace(
        published_space().without_units(),
        name="small",
        dim=(2, 4),
        accumulator_kib=(1, 2),
        scratchpad_kib=(1, 2, 4),
    )
