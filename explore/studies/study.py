"""The study: the persistent, resumable record of one search, in one SQLite file.

Every batch is one transaction: its summary, the candidates worth keeping and the searcher's snapshot. When
`StudyRecord.record` has returned, the batch is on the disk; a process killed later loses none of it.

What is kept of the candidates: the best of a batch that improved the objective, and the members of the
Pareto front in `Objective.front_metrics`. A front member dominated later loses its flag, and goes unless it
was an improvement. A front of more than `baco.exploration.studies.kept.FRONT_LIMIT` members is thinned evenly (`baco.exploration.front.thin`), the
best in each metric and in the objective always staying. So a study stays small however long the search is.

Until there is a candidate, the designs nearest to feasible are kept instead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from baco.common.arrays import pack_arrays, unpack_arrays
from baco.common.errors import BacoError, StorageError
from baco.common.yaml import parse_yaml
from baco.exploration._database import Closing, insert, row_digest
from baco.exploration._json import Json, dump, load, to_json
from baco.exploration.candidate import BatchSummary, Candidate, CostModelName
from baco.exploration.front import nondominated
from baco.exploration.objective import Objective, metric
from baco.exploration.records import (
    DecidedPrograms,
    ProvenanceRecord,
    SessionRecord,
    SetupRecord,
    programs_from_json,
    provenance_from_json,
    session_from_json,
    setup_from_json,
)
from baco.exploration.rest import RestBySettings, RestOfPrograms
from baco.exploration.search.searcher import Searcher, State
from baco.exploration.serialize import (
    check_tasks,
    read_json,
    task_from_json,
    workload_from_json,
)
from baco.exploration.space import DesignSpace, read_space
from baco.exploration.studies._store import CHECKPOINT_BYTES, STUDY, StudyFile
from baco.exploration.studies.kept import (
    COLUMNS,
    NEAREST,
    KeptFront,
    candidate_of_row,
    candidate_row,
    front_points,
    thinned_front,
)
from baco.workloads.network import Task, Workload

_T = TypeVar("_T")

#: Name of the study's file in an output folder.
FILE_NAME = "study.sqlite"
#: Key in `meta` of what programs do beside the tasks, which is found before the first batch.
_PROGRAMS = "programs"
#: Keys in `meta` of rests of programs (`baco.exploration.rest.RestBySettings`), and the line of spaces that have them.
_REST, _SETTINGS = "rest ", "\nsettings: "


def _write_summary(connection: sqlite3.Connection, summary: BatchSummary, done: bool, state: bytes) -> None:
    """A batch, and the searcher's snapshot after it."""
    record = to_json(summary) | {"details": dump(to_json(summary)["details"])}
    insert(connection, "batches", *record.values(), int(done))
    digest = row_digest(summary.batch, state)  # without its key, which is always the same
    connection.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?)", (summary.batch, state, digest))


class StudyRecord(Closing):
    """The record of one search. Use `create` or `open`; a study is also a context manager.

    Attributes:
        path: the file.
        provenance: where the study comes from: versions, seed, hashes, command.
        setup: what determines the result (see `baco.exploration.studies.preparation.describe_setup`).
        tasks: the workload's unique problems, as searched.
        objective: what is minimised.
        batches: number of batches recorded.
        done: the searcher had nothing left to do after the last batch.
        best_objective: of the best candidate; None before the first.
    """

    def __init__(self, store: StudyFile) -> None:
        self._store = store
        self.path = store.path
        self.batches = 0
        self.done = False
        self.best_objective: float | None = None
        self._best_id: int | None = None
        self._kept: KeptFront
        self._rest: RestOfPrograms | None = None
        self._units, self._far, self._open = True, False, False
        try:
            with store.snapshot("opening it"), store.bounded_time():
                self.verify()
                self._trusted("its set-up", self._load_setup)
                self._trusted("its front", self._load_front)
        except BaseException:
            store.close()
            raise

    @classmethod
    def create(
        cls, path: Path, setup: SetupRecord, tasks: Sequence[Task], provenance: ProvenanceRecord
    ) -> StudyRecord:
        """A new, empty study in the (existing) folder of `path`; complete or not there at all.

        Args:
            tasks: of the networks in `setup`.

        Raises StorageError when a study is already there or the folder cannot be written.
        """
        rows: list[tuple[object, ...]] = [
            ("meta", "setup", dump(setup)),
            ("meta", "provenance", dump(provenance)),
            *(("tasks", position, dump(to_json(task))) for position, task in enumerate(tasks)),
        ]
        return cls(StudyFile.create(Path(path), rows))

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> StudyRecord:
        """The study at `path`, verified.

        With `read_only` nothing is written and another process may go on exploring. Raises StorageError when
        it is missing, damaged (naming what), of another format version, or already being written.
        """
        return cls(StudyFile(Path(path), read_only=read_only))

    # ------------------------------------------------------------------ writing

    def record(
        self,
        summary: BatchSummary,
        candidates: Sequence[Candidate],
        state: State,
        *,
        done: bool = False,
        nearest: Sequence[Candidate] = (),
        programs: DecidedPrograms | None = None,
    ) -> None:
        """Keep one batch. When this returns, the batch survives whatever happens to the process.

        Args:
            summary: its `batch` must be the next one.
            candidates: feasible design points; those not worth keeping are dropped (see the module).
            state: the searcher's snapshot after the batch.
            done: the searcher has nothing left to do within its budget.
            nearest: designs nearest to feasible, in place of those kept before; kept until there is a feasible one.
            programs: what the batch has decided of the programs beside the tasks: candidates from before, whose costs are of
                other programs, give way to those of this batch.

        Raises StorageError when the disk is full or fails; the study then is what it was before.
        """
        if summary.batch != self.batches:
            raise ValueError(f"batch {summary.batch} recorded where {self.batches} was expected")
        anew = programs is not None
        best = None if anew else self.best_objective
        improvement = self._improvement(candidates, best)
        old = KeptFront.none(self.objective) if anew else self._kept
        place = None if improvement is None else len(old.ids) + improvement
        everything = np.concatenate([old.points, front_points(candidates, self.objective, self.tasks)])
        front = thinned_front(everything, old.place_of(self._best_id) if place is None else place)
        on_front = np.isin(np.arange(len(everything)), front)
        rests = self._new_rests([*candidates, *nearest])
        with self._store.transaction("recording a batch") as connection:
            if programs is not None:
                text = programs.record(open=False)
                connection.execute("DELETE FROM candidates")
                insert(connection, "meta", _PROGRAMS, text, otherwise="REPLACE")
            for key, text in rests.items():
                insert(connection, "meta", key, text)
            old.leave(connection, on_front)
            if nearest or improvement is not None:
                connection.execute(f"DELETE FROM candidates {NEAREST}")
            wanted = on_front[len(old.ids) :].copy()
            if improvement is not None:
                wanted[improvement] = True
            designs = [
                (candidates[index], index == improvement, bool(on_front[len(old.ids) + index]))
                for index in map(int, np.flatnonzero(wanted))
            ]
            if best is None and not candidates:
                designs = [(one, False, False) for one in nearest]
            first = 1 + connection.execute("SELECT coalesce(max(id), 0) FROM candidates").fetchone()[0]
            for row_id, design in enumerate(designs, first):
                insert(connection, "candidates", *candidate_row(row_id, summary.batch, *design))
            _write_summary(connection, summary, done, pack_arrays(state))
        new_ids = np.where(wanted, first - 1 + np.cumsum(wanted), -1)
        ids = np.concatenate([old.ids, new_ids])
        improved = np.concatenate(
            [old.improved, np.arange(len(candidates)) == (-1 if improvement is None else improvement)]
        )
        self._kept = KeptFront(ids[front], improved[front], everything[front])
        if programs is not None:
            self._rest, self._far, self._open = programs.rest, programs.far, False
            self._best_id = self.best_objective = None
        if improvement is not None:
            self._best_id = int(new_ids[improvement])
            self.best_objective = self.objective.scalar(candidates[improvement].cost)
        self.batches, self.done = summary.batch + 1, done
        self._store.checkpoint(beyond_bytes=CHECKPOINT_BYTES)

    def _new_rests(self, designs: Sequence[Candidate]) -> dict[str, str]:
        """Rests of programs to keep for designs whose settings no design before had, by their key in `meta`."""
        found: dict[str, str] = {}
        if isinstance(self._rest, RestBySettings):
            for accelerator in {one.accelerator for one in designs}:
                key, record = self._rest.record(accelerator)
                if key not in self._kept_rests:
                    self._kept_rests.add(key)
                    found[_REST + key] = dump(record)
        return dict(sorted(found.items()))

    def begin_session(self, record: SessionRecord) -> None:
        """Note that a process starts to work on the study (command, budget, versions)."""
        text = dump(record)
        with self._store.transaction("starting a session") as connection:
            number = connection.execute("SELECT count(*) FROM sessions").fetchone()[0]
            insert(connection, "sessions", number, text)

    def keep_programs(self, programs: DecidedPrograms, *, open: bool = False) -> None:
        """Keep what the programs do beside the tasks, before the first batch: later costs have it in them.

        Args:
            open: whether a batch is to decide yet which operators run as one unit (`record`).
        """
        with self._store.transaction("recording the programs") as connection:
            insert(connection, "meta", _PROGRAMS, programs.record(open=open))
        self._rest, self._units, self._far = programs.rest, programs.units, programs.far
        self._open = open

    def discard(self) -> None:
        """Close the study and remove it."""
        self._store.discard()

    def keep_measurement(self, key: str, record: Json) -> None:
        """Keep what was measured of a layer (plain JSON). When this returns, it survives whatever happens.

        A second record of a key takes the place of the first. Raises StorageError when the disk is full or fails.
        """
        with self._store.transaction("recording a measurement") as connection:
            insert(connection, "measurements", key, dump(record), otherwise="REPLACE")
        self._store.checkpoint(beyond_bytes=CHECKPOINT_BYTES)

    def measurements(self) -> dict[str, Json]:
        """Everything measured, by key."""
        rows = self._rows("SELECT key, record FROM measurements")
        return {key: self._trusted(f"measurement {key!r}", partial(load, record)) for key, record in rows}

    def keep_validation(self, design: str, record: Json) -> None:
        """Keep which layers stand for a design (plain JSON), in place of what was kept of it before.

        Raises StorageError when the disk is full or fails.
        """
        with self._store.transaction("recording a validation") as connection:
            number = connection.execute("SELECT coalesce(max(number), -1) + 1 FROM validations").fetchone()[0]
            insert(connection, "validations", design, number, dump(record), otherwise="REPLACE")

    def validations(self) -> list[Json]:
        """The designs chosen to be measured, in the order they were kept."""
        rows = self._rows("SELECT record FROM validations ORDER BY number")
        return [self._trusted("a validated design", partial(load, record)) for (record,) in rows]

    def _improvement(self, candidates: Sequence[Candidate], best: float | None) -> int | None:
        """Index of the batch's best candidate if it beats the best so far."""
        scores = [self.objective.scalar(candidate.cost) for candidate in candidates]
        if not scores:
            return None
        index = int(np.argmin(scores))
        return index if best is None or scores[index] < best else None

    # ------------------------------------------------------------------ reading

    def best(self) -> Candidate | None:
        """The candidate with the least objective (its first metric), the earliest of equals; None before any."""
        found = self._select("WHERE improved = 1 ORDER BY id DESC LIMIT 1")
        return found[0] if found else None

    def front(self, metrics: Sequence[str] | None = None) -> list[Candidate]:
        """Candidates that no kept one dominates in `metrics`, ascending in the first of them.

        Without `metrics`, the front the study maintains, in `Objective.front_metrics`. In other metrics the
        front is that of the candidates kept, which may lack some that were dominated in the study's own.
        """
        if metrics is None:
            names = tuple(self.objective.front_metrics)
            members = self._select("WHERE front = 1 ORDER BY id")
        else:
            names = tuple(metrics)
            everyone = self.candidates()
            points = np.array([[metric(c.cost, name) for name in names] for c in everyone], dtype=np.float64)
            members = [everyone[i] for i in nondominated(points.reshape(len(everyone), len(names)))]
        return sorted(members, key=lambda c: tuple(metric(c.cost, name) for name in names))

    def candidates(self) -> list[Candidate]:
        """All candidates kept, in the order they were found."""
        return self._select("WHERE improved = 1 OR front = 1 ORDER BY id")

    def nearest(self) -> list[Candidate]:
        """The designs nearest to feasible, nearest first, of a study without candidates."""
        return self._select(f"{NEAREST} ORDER BY id")

    def summaries(self) -> list[BatchSummary]:
        """One summary a batch, in order."""
        names = ("batch", "evaluations", "seconds", "best_objective", "phase", "details")
        found = []
        for *values, details in self._rows(f"SELECT {', '.join(names)} FROM batches ORDER BY batch"):
            what = f"batch {values[0]!r}"
            data = dict(zip(names, [*values, self._trusted(what, partial(load, details))], strict=True))
            found.append(self._trusted(what, partial(read_json, "a batch", BatchSummary, data)))
        return found

    def state(self) -> State | None:
        """The searcher's snapshot after the last batch; None before the first."""
        rows = self._rows("SELECT arrays FROM snapshot")
        return self._trusted("the searcher's snapshot", lambda: unpack_arrays(rows[0][0])) if rows else None

    def restore(self, searcher: Searcher) -> None:
        """Put a searcher into the state after the last batch. Raises StorageError for a snapshot that is not its own."""
        state = self.state()
        assert state is not None
        try:
            searcher.restore(state)
            same = pack_arrays(searcher.state()) == pack_arrays(state)
        except Exception as error:  # whatever a searcher trips over in arrays that it did not write
            reason = f"{type(error).__name__} {error}"
            raise STUDY.damaged(self.path, f"the searcher's snapshot cannot be restored: {reason}") from error
        if not same:
            raise STUDY.damaged(self.path, "the searcher's snapshot is not of this search")

    def sessions(self) -> list[SessionRecord]:
        """The record of every process that worked on the study, in order."""
        rows = self._rows("SELECT record FROM sessions ORDER BY number")
        return [self._trusted("a session", partial(session_from_json, record)) for (record,) in rows]

    @property
    def cost_model(self) -> CostModelName:
        """The model whose costs the study holds."""
        return self.setup["cost_model"]

    @property
    def rest(self) -> RestOfPrograms | None:
        """What programs do beside the tasks; None where the study's costs are of the tasks alone, and where a search has not
        got as far as finding out."""
        return self._rest

    @rest.setter
    def rest(self, rest: RestOfPrograms) -> None:
        """One that says more of other settings than what the study has kept."""
        self._rest = rest

    @property
    def searches_units(self) -> bool:
        """Whether row functions are searched: not where it is proven that they cannot pay."""
        return self._units

    @property
    def undecided(self) -> bool:
        """Whether it is not known yet which operators of the programs run as one unit; `rest` is then of those without such."""
        return self._open

    @property
    def far_off(self) -> bool:
        """Whether it was known before the search that nothing is near the constraints; then `rest` has no groups in it, unless
        power is bounded."""
        return self._far

    @property
    def fusion(self) -> bool:
        """Whether operators of the programs may run as one unit."""
        return self.setup["fusion"]

    def workload(self) -> Workload:
        """The networks explored, as whole graphs."""
        return self._workload

    def space(self) -> DesignSpace:
        """What was searched. Raises InputError for one that this version does not read."""
        found = read_space(parse_yaml(self.setup["space"], f"{self.path} (its space)"))
        return found if self._units else found.without_units()

    def verify(self) -> None:
        """Check the whole file: pages, checksums of all rows, and that the parts fit together.

        Raises StorageError naming the damaged part.
        """
        # the quick check does not look whether keys in an index are those of the rows
        problem = self._rows("PRAGMA integrity_check(1)")[0][0]
        if problem != "ok":
            raise STUDY.damaged(self.path, str(problem))
        with self._store.snapshot("verifying it"):
            for (table,) in self._rows("SELECT name FROM sqlite_schema WHERE type = 'table'"):
                columns = (
                    "batch, arrays, digest" if table == "snapshot" else "*"
                )  # its key is always the same
                for *values, stored in self._rows(f"SELECT {columns} FROM {table} ORDER BY 1"):
                    if row_digest(*values) != stored:
                        raise STUDY.damaged(
                            self.path, f"the checksum of {table} row {values[0]!r} does not match"
                        )
            keys = {key for (key,) in self._rows("SELECT key FROM meta")}
            if {key for key in keys if not key.startswith(_REST)} - {_PROGRAMS} != {"setup", "provenance"}:
                raise STUDY.damaged(self.path, "its set-up or provenance is missing")
            numbers = [number for (number,) in self._rows("SELECT batch FROM batches ORDER BY batch")]
            if numbers != list(range(len(numbers))):
                raise STUDY.damaged(self.path, "batches are missing from its history")
            snapshots = [number for (number,) in self._rows("SELECT batch FROM snapshot")]
            if snapshots != numbers[-1:]:
                raise STUDY.damaged(self.path, "the searcher's snapshot is not that of the last batch")
            later = self._rows("SELECT id FROM candidates WHERE batch NOT IN (SELECT batch FROM batches)")
            if later:
                raise STUDY.damaged(self.path, f"candidate {later[0][0]} belongs to no recorded batch")

    def _load_setup(self) -> None:
        meta = dict(self._rows("SELECT key, value FROM meta"))
        self.provenance = provenance_from_json(meta["provenance"])
        self.setup = setup_from_json(meta["setup"])
        rows = self._rows("SELECT task FROM tasks ORDER BY position")
        self.tasks: tuple[Task, ...] = tuple(task_from_json(load(record)) for (record,) in rows)
        self.objective = Objective.parse(self.setup["objective"], self.path)
        self._workload = workload_from_json(self.setup["workload"])
        self._rest, self._units, self._far, self._open = None, True, False, False
        if _PROGRAMS in meta:
            programs = programs_from_json(meta[_PROGRAMS])
            self._rest, self._units = RestOfPrograms.from_json(programs["rest"]), programs["units"]
            self._far, self._open = programs["far"], programs.get("open", False)
        batches = bool(self._rows("SELECT count(*) FROM batches")[0][0])
        if (self._rest is not None) != self.setup["whole"] and (batches or self._rest is not None):
            raise ValueError("the rest of its programs is missing, or is there though only tasks count")
        self._kept_rests = {key.removeprefix(_REST) for key in meta if key.startswith(_REST)}
        space = self.space() if _SETTINGS in self.setup["space"] else None
        self._clocks = space is not None and space.clocks
        if self._rest is not None and space is not None:
            records = {key: load(meta[_REST + key]) for key in self._kept_rests}
            self._rest = RestBySettings.kept(self._rest, space, records)
        names = {one.name for one in self._workload.networks}
        known = self._rest
        if known is not None and {*known.weights, *known.operators, *(known.with_units or names)} != names:
            raise ValueError("the rest of its programs is not that of its networks")
        check_tasks(self.tasks, self._workload)

    def _load_front(self) -> None:
        """Read what `record` needs to know of the batches before."""
        rows = self._rows("SELECT id, improved FROM candidates WHERE front = 1 ORDER BY id")
        members = self._select("WHERE front = 1 ORDER BY id")
        self._kept = KeptFront(
            ids=np.array([row[0] for row in rows], dtype=np.int64),
            improved=np.array([row[1] for row in rows], dtype=bool),
            points=front_points(members, self.objective, self.tasks),
        )
        best = self.best()
        if best is not None:
            self.best_objective = best.objective
            self._best_id = self._rows("SELECT max(id) FROM candidates WHERE improved = 1")[0][0]
        last = self._rows("SELECT count(*), max(batch) FROM batches")[0]
        self.batches = last[0]
        self.done = bool(last[0]) and bool(
            self._rows("SELECT done FROM batches ORDER BY batch DESC LIMIT 1")[0][0]
        )

    def _select(self, clause: str) -> list[Candidate]:
        found = []
        for row in self._rows(f"SELECT {', '.join(COLUMNS)} FROM candidates {clause}"):
            read = partial(candidate_of_row, row, self.tasks, self._clocks)
            found.append(self._trusted(f"candidate {row[0]}", read))
        return found

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with STUDY.errors(self.path, "reading it"):
            return self._store.connection.execute(query).fetchall()

    def _trusted(self, what: str, read: Callable[[], _T]) -> _T:
        """The result of `read`, whose failure means that `what` is damaged."""
        try:
            return read()
        except StorageError:
            raise
        except BacoError as error:
            raise STUDY.damaged(self.path, f"{what}: {error.message}") from error
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise STUDY.damaged(self.path, f"{what}: {error}") from error

    def close(self) -> None:
        """Give the file back; harmless when repeated."""
        self._store.close()
