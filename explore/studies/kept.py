"""The candidates that a study keeps: their rows in its file, and the front among them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.common.portable import Floats
from baco.exploration._database import row_digest
from baco.exploration._json import dump, load, to_json
from baco.exploration.candidate import Candidate
from baco.exploration.front import nondominated, thin
from baco.exploration.objective import Objective, metric
from baco.exploration.serialize import candidate_from_json, candidate_to_json
from baco.workloads.network import Task

#: Most members a study keeps of its Pareto front.
FRONT_LIMIT = 512
#: Of the table of candidates, but for the checksum.
COLUMNS = (
    *("id", "batch", "config_hash", "accelerator", "mappings", "latency_cycles", "energy_pj", "area_mm2"),
    *("source", "samples", "objective", "improved", "front"),
)
#: Rows that are no candidates, but the designs nearest to feasible.
NEAREST = "WHERE improved = 0 AND front = 0"


@lru_cache(maxsize=256)
def _accelerator_columns(accelerator: Accelerator) -> tuple[str, str]:
    """Its hash and its JSON: many candidates share one."""
    return accelerator.config_hash, dump(to_json(accelerator))


def candidate_row(
    row_id: int, batch: int, candidate: Candidate, improved: bool, front: bool
) -> tuple[object, ...]:
    """Values of `COLUMNS`."""
    record = candidate_to_json(candidate)
    cost = record["cost"]
    return (
        row_id,
        batch,
        *_accelerator_columns(candidate.accelerator),
        dump({"mappings": record["mappings"]}),
        *(cost[name] for name in ("latency_cycles", "energy_pj", "area_mm2", "source")),
        record["samples"],
        record["objective"] + 0.0,  # SQLite keeps no sign of zero
        int(improved),
        int(front),
    )


def candidate_of_row(row: Sequence[Any], tasks: Sequence[Task], clocks: bool) -> Candidate:
    """Inverse of `candidate_row`; `clocks` says whether accelerators have several. Raises as `candidate_from_json`, and
    ValueError for a hash that is not the accelerator's."""
    named = dict(zip(COLUMNS, row, strict=True))
    accelerator = load(named["accelerator"])
    data = {
        "accelerator": accelerator,
        "mappings": load(named["mappings"])["mappings"],
        "cost": {key: named[key] for key in ("latency_cycles", "energy_pj", "area_mm2", "source")}
        | {"clock_mhz": accelerator.get("clock_mhz") if clocks else None},
        "samples": named["samples"],
        "objective": named["objective"],
        "front": bool(named["front"]),
    }
    candidate = candidate_from_json(data, tuple(tasks))
    found, expected = candidate.accelerator.config_hash, named["config_hash"]
    if found != expected:
        raise ValueError(f"its accelerator has hash {found}, not {expected}")
    return candidate


@dataclass(frozen=True)
class KeptFront:
    """Front members as the next batch needs them: row ids, whether they were improvements, their metrics."""

    ids: NDArray[np.int64]
    improved: NDArray[np.bool_]
    points: Floats

    @classmethod
    def none(cls, objective: Objective) -> KeptFront:
        """Before the first."""
        points = np.empty((0, len(objective.front_metrics)))
        return cls(np.empty(0, np.int64), np.empty(0, np.bool_), points)

    def place_of(self, row_id: int | None) -> int | None:
        """Of a member; None of what is none."""
        found = np.flatnonzero(self.ids == row_id)
        return int(found[0]) if len(found) else None

    def leave(self, connection: sqlite3.Connection, on_front: NDArray[np.bool_]) -> None:
        """Members that are dominated now lose their flag, and go unless they were improvements.

        Args:
            on_front: of each member, and of whatever comes behind.
        """
        columns = ", ".join(COLUMNS)
        for place in np.flatnonzero(~on_front[: len(self.ids)]):
            row_id = (int(self.ids[place]),)
            if not self.improved[place]:
                connection.execute("DELETE FROM candidates WHERE id = ?", row_id)
                continue
            row = connection.execute(f"SELECT {columns} FROM candidates WHERE id = ?", row_id).fetchone()
            digest = row_digest(*row[:-1], 0)
            connection.execute("UPDATE candidates SET front = 0, digest = ? WHERE id = ?", (digest, *row_id))


def front_points(candidates: Sequence[Candidate], objective: Objective, tasks: Sequence[Task]) -> Floats:
    """Metrics of the front, (n, metrics). Raises ValueError for costs that are not finite, and for candidates of other tasks."""
    names = objective.front_metrics
    rows = [[metric(candidate.cost, name) for name in names] for candidate in candidates]
    points = np.array(rows, dtype=np.float64).reshape(len(candidates), len(names))
    for candidate, point in zip(candidates, points, strict=True):
        if not np.isfinite(point).all() or not np.isfinite(candidate.objective):
            raise ValueError(f"a candidate's cost is not finite: {candidate.cost}")
        if candidate.tasks != tuple(tasks) or len(candidate.mappings) != len(tasks):
            raise ValueError("a candidate's tasks are not those of the study")
    return points


def thinned_front(points: Floats, best: int | None) -> NDArray[np.int64]:
    """Rows of `points` that no other dominates, at most about `FRONT_LIMIT` (`baco.exploration.front.thin`); the row `best`, if it
    is one of them, stays in any case."""
    front = nondominated(points)
    if len(front) > FRONT_LIMIT:
        always = np.flatnonzero(front == best) if best is not None else ()
        front = front[thin(points[front], FRONT_LIMIT, always=always)]
    return front
