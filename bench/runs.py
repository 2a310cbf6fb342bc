"""Single runs of a searcher for the search benchmark: tasks, kept in a folder, and found there again."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from baco.bench.code_hash import code_hash
from baco.bench.sets.spaces import published_space
from baco.common.errors import InputError, Location
from baco.common.files import atomic_write, read_input_text
from baco.common.locks import Claims
from baco.common.provenance import stable_hash
from baco.exploration._json import to_json
from baco.exploration.candidate import CostModelName
from baco.exploration.cost.model import make_cost_model
from baco.exploration.executors.executor_choice import HERE
from baco.exploration.executors.tasks import Need, gather
from baco.exploration.objective import Objective
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import Searcher, SearchSetup
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload


@dataclass(frozen=True)
class RunKey:
    """What to run: names or files as on the command line, and the budget in samples (design points)."""

    network: str
    space: str
    searcher: str
    seed: int
    samples: int
    model: CostModelName = "reference"

    @property
    def label(self) -> str:
        """For progress."""
        return f"{self.network} in {self.space}: {self.searcher}, seed {self.seed}"


@dataclass(frozen=True)
class SearchRun:
    """What happened.

    Attributes:
        tasks: problem-mapping evaluations in one sample.
        evaluations, seconds: spent in all; seconds are processor time, which other programs do not lengthen.
        curve: (evaluations, seconds, EDP in µJ·cycles) of every improvement; seconds at the end of its batch.
    """

    key: RunKey
    tasks: int
    evaluations: int
    seconds: float
    curve: tuple[tuple[int, float, float], ...]

    @property
    def final(self) -> float | None:
        """Best EDP; None when no feasible design was found."""
        return self.curve[-1][2] if self.curve else None

    def best_at(self, evaluations: float) -> float | None:
        """Best EDP after so many evaluations; None before the first design."""
        found = [edp for spent, _, edp in self.curve if spent <= evaluations]
        return found[-1] if found else None

    def best_after(self, seconds: float) -> float | None:
        """Best EDP after so many seconds; None before the first design."""
        found = [edp for _, clock, edp in self.curve if clock <= seconds]
        return found[-1] if found else None

    def evaluations_to(self, edp: float) -> int | None:
        """Evaluations until the EDP was this or less; None if it never was."""
        return next((spent for spent, _, reached in self.curve if reached <= edp), None)


def setup_of(key: RunKey) -> SearchSetup:
    """The search that a key stands for. Raises InputError for unknown names or bad files."""
    tasks = load_network(key.network).tasks
    if not tasks:
        raise InputError(f"the network '{key.network}' has no operator that the accelerator could run")
    space = published_space(key.space).without_units()  # only programs have a use for them
    model = None
    if key.model != "reference":
        layers = layers_of_tasks(tasks, Workload.of([load_network(key.network)]))
        model = make_cost_model(key.model, layers, space)
    return SearchSetup(tasks, space, Objective(("edp",)), key.samples * len(tasks), key.seed, model)


#: Makes the searcher that a key names.
Make = Callable[[str, SearchSetup], Searcher]


@dataclass(frozen=True)
class RunTask:
    """A run as a task, on one thread (see `baco.exploration.executors.tasks.WorkItem`); `make` makes its searcher."""

    wanted: RunKey
    make: Make | None = None

    @property
    def name(self) -> str:
        """For progress."""
        return self.wanted.label

    @property
    def key(self) -> str:
        """The name of the file in which the run is kept: it tells what was run, its hash that layers, space, budget and code
        are the same. Raises as `setup_of`."""
        key, setup = self.wanted, setup_of(self.wanted)
        content = {
            "code": code_hash(__name__),
            "key": vars(key),
            "tasks": [to_json(task) for task in setup.tasks],
            "space": setup.space.space_hash,
        }
        names = [Path(key.network).name, Path(key.space).name, key.searcher, str(key.seed)]
        if key.model != "reference":
            names.insert(2, key.model)
        slug = "_".join(re.sub(r"[^A-Za-z0-9.-]+", "-", name)[-40:] for name in names)
        return f"{slug}_{stable_hash(content)}.json"

    @property
    def needs(self) -> tuple[Need, ...]:
        """Nothing special."""
        return ()

    def run(self) -> SearchRun:
        """Search. Raises as the searcher does."""
        setup = setup_of(self.wanted)
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            begin = time.process_time()
            searcher = (self.make or make_searcher)(self.wanted.searcher, setup)
            curve: list[tuple[int, float, float]] = []
            done, evaluations = False, 0
            while not done:
                result = searcher.step()
                clock = time.process_time() - begin
                done, evaluations = result.done, result.evaluations
                for candidate in sorted(result.candidates, key=lambda c: c.samples):
                    if not curve or candidate.objective < curve[-1][2]:
                        curve.append((candidate.samples, clock, candidate.objective))
            seconds = time.process_time() - begin
        finally:
            torch.set_num_threads(before)
        return SearchRun(self.wanted, len(setup.tasks), evaluations, seconds, tuple(curve))


def execute(key: RunKey, folder: Path, make: Make | None = None) -> SearchRun:
    """Run in this process and keep it in `folder`, unless it is there. Raises as `RunTask.run`."""
    with HERE.executor() as executor:
        (run,) = gather(executor, [RunTask(key, make)], RunShelf(folder))
    return run


class RunShelf:
    """Finished runs in a folder, a file each (see `baco.exploration.executors.tasks.Shelf`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._claims = Claims(self.folder / "claims")

    def __reduce__(self) -> tuple[type[RunShelf], tuple[Path]]:
        return RunShelf, (self.folder,)

    def get(self, key: str) -> SearchRun | None:
        """A finished run. Raises InputError when its file is damaged."""
        path = self.folder / key
        return load(path) if path.exists() else None

    def put(self, key: str, value: SearchRun) -> SearchRun:
        """Keep a run unless there is one, and return what is kept."""
        before = self.get(key)
        if before is None:
            atomic_write(self.folder / key, json.dumps({**vars(value), "key": vars(value.key)}))
        return before or value

    def claim(self, key: str) -> bool:
        """Whether nobody else is at that run."""
        return self._claims.claim(key)

    def release(self, key: str) -> None:
        """Give a claim back."""
        self._claims.release(key)


def load(path: Path) -> SearchRun:
    """A finished run. Raises InputError when the file is damaged."""
    try:
        record: dict[str, Any] = json.loads(read_input_text(path))
        curve = tuple((int(a), float(b), float(c)) for a, b, c in record["curve"])
        return SearchRun(
            RunKey(**record["key"]),
            int(record["tasks"]),
            int(record["evaluations"]),
            float(record["seconds"]),
            curve,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"this is not a finished run: {error}", location=Location(str(path)), hint="delete the file"
        ) from None
