"""Q-learning against all directions (FlexTensor, figure 4.9): evaluator calls to the same quality on the layers of YOLO v1.

As published, the quality is what another search converges to: here the best of 300 random points of the same space; and, beyond,
a tenth fewer cycles than that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from baco.accel.config import Accelerator
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, each, page_of, silent, table
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.exploration.samplers.q_learning import METHODS, DirectionSpace, analytical_cycles, search_directions
from baco.workloads.problem import Problem

#: Channels in and out, pixels of a side, side of the window, stride (table 4.3).
YOLO = (
    (3, 64, 448, 7, 2), (64, 192, 112, 3, 1), (192, 128, 56, 1, 1), (128, 256, 56, 3, 1), (256, 256, 56, 1, 1),
    (256, 512, 56, 3, 1), (512, 256, 28, 1, 1), (256, 512, 28, 3, 1), (512, 512, 28, 1, 1), (512, 1024, 28, 3, 1),
    (1024, 512, 14, 1, 1), (512, 1024, 14, 3, 1), (1024, 1024, 14, 3, 1), (1024, 1024, 14, 3, 2), (1024, 1024, 7, 3, 1),
)  # fmt: skip
#: Random points that the quality comes from, part of their cycles that is asked for beyond, and calls at most.
_DRAWS, _BEYOND, _CALLS = 300, 0.9, 2000
#: Points that are asked for with others.
_FEW = 2
Cycles = Callable[[Sequence[Mapping]], list[float]]


def yolo_layer(number: int) -> Layer:
    """Layer C1 (number 0) to C15."""
    c, k, side, window, stride = YOLO[number]
    pixels = side // stride
    return Layer(
        Problem(R=window, S=window, P=pixels, Q=pixels, C=c, K=k, N=1, stride_w=stride, stride_h=stride),
        scale=1 / 512,
    )


def run(
    *,
    seeds: Annotated[int, Interval(ge=1, le=1000)] = 10,
    layers: Sequence[int] = range(len(YOLO)),
    accelerator: Accelerator | None = None,
    out: Path | None = FOLDER,
    say: Say = silent,
) -> dict[str, Any]:
    """Schedules by directions: evaluations that Q-learning needs, against all directions and random ones.

    Args:
        seeds: searches of each, with seeds 0, 1, ...
        out: folder for directions.md and directions.json, written after every seed.

    Returns calls of each method until either quality, by layer and seed (None: not within 2,000).
    """
    files = ResultFiles(out, "directions", page)
    machine = accelerator or Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64)
    spaces = {number: DirectionSpace(yolo_layer(number), machine) for number in layers}
    cycles = {
        number: _ahead(space, analytical_cycles(space.layer, machine)) for number, space in spaces.items()
    }
    goals = {number: converged(space, cycles[number]) for number, space in spaces.items()}
    rows: list[dict[str, Any]] = []
    result = {"goals": {f"C{number + 1}": goal for number, goal in goals.items()}, "runs": rows}
    for seed in range(seeds):
        for number, space in spaces.items():
            enough = _BEYOND * goals[number]
            for method in METHODS:
                found = search_directions(
                    space, cycles[number], method=method, calls=_CALLS, seed=seed, enough=enough
                )
                calls = {"same": found.calls_to(goals[number]), "beyond": found.calls_to(enough)}
                about = {"layer": f"C{number + 1}", "method": method, "seed": seed}
                rows.append({**about, **calls, "cycles": found.cycles})
            last = ", ".join(f"{r['method']} {r['same']}, {r['beyond']}" for r in rows[-len(METHODS) :])
            say(f"seed {seed}, C{number + 1}: {last}")
        files.keep(result)
    return result


def _ahead(space: DirectionSpace, cycles: Cycles) -> Cycles:
    """The same, asked for many at once: with few of them come those that a search may go to next. Searches count their own."""
    known: dict[Mapping, float] = {}

    def found(mappings: Sequence[Mapping]) -> list[float]:
        new = [mapping for mapping in mappings if mapping not in known]
        if 0 < len(new) <= _FEW:
            near = [space.neighbour(mapping, way) for mapping in new for way in space.directions]
            new += [
                mapping
                for mapping in near
                if mapping is not None and mapping not in known and space.feasible(mapping)
            ]
        if new:
            new = list(dict.fromkeys(new))
            known.update(zip(new, cycles(new), strict=True))
        return [known[mapping] for mapping in mappings]

    return found


def converged(space: DirectionSpace, cycles: Cycles) -> float:
    """Cycles of the best of some random mappings."""
    drawn, mappings = random.Random(0), set()
    for _ in range(100 * _DRAWS):
        one = space.draw(drawn)
        if space.feasible(one):
            mappings.add(one)
        if len(mappings) == _DRAWS:
            break
    return min(cycles(sorted(mappings, key=str)))


def page(result: dict[str, Any]) -> str:
    """Mean calls of each method, and what they are of the P-method's."""
    runs, kinds = result["runs"], ("same", "beyond")
    layers = list(dict.fromkeys(row["layer"] for row in runs))
    ways: list[tuple[str, str]] = [(kind, method) for kind in kinds for method in METHODS]

    def calls(way: tuple[str, str], layer: str) -> list[int | None]:
        return [row[way[0]] for row in runs if (row["layer"], row["method"]) == (layer, way[1])]

    means = {
        way: np.array(
            [np.mean([_CALLS if one is None else one for one in calls(way, layer)]) for layer in layers]
        )
        for way in ways
    }

    def cell(way: tuple[str, str], layer: str) -> str:
        missed = sum(one is None for one in calls(way, layer))
        return f"{means[way][layers.index(layer)]:,.0f}" + (f" ({missed})" if missed else "")

    def against(kind: str) -> str:
        p, q, anyhow = (means[kind, method] for method in ("p", "q", "random"))
        return (
            f"*{kind.capitalize()}*: Q-learning needs {100 * q.mean() / p.mean():.1f}% of the P-method's calls (a layer"
            f" {100 * min(q / p):.0f} to {100 * max(q / p):.0f}%), random directions from the same starts"
            f" {100 * anyhow.mean() / p.mean():.1f}%."
        )

    return page_of(
        "Directions: Q-learning against all of them",
        f"Evaluator calls until a schedule is as good as the best of {_DRAWS:,} random ones (*same*), and until it takes a tenth fewer"
        f" cycles\n(*beyond*); means over {1 + max(row['seed'] for row in runs)} seeds, runs that did not get there counted as"
        f" {_CALLS:,} (in brackets how many).",
        table(
            layers,
            {"layer": str, **each({", ".join(way): way for way in ways}, cell)},
            ["mean", *(f"{values.mean():,.0f}" for values in means.values())],
        ),
        "\n".join(map(against, kinds)),
        "Published: 27.6% of the P-method's time. `baco bench directions --out results` makes this page.",
    )
