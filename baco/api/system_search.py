"""Search over systems for networks: what `baco plan --search` does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.accel.system import HOST, MOST_ACCELERATORS, System
from baco.api.sources import network as load_network
from baco.api.systems import PlannedNetworks, named_demand, plan
from baco.common.errors import InputError, Location
from baco.common.files import atomic_write, output_folder
from baco.common.text import json_text
from baco.compiler.network.quantise import sketch
from baco.display.progress import shown
from baco.exploration.executors.executor_choice import ExecutorChoice
from baco.exploration.progress import Progress
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.studies.interruption import StopRequest
from baco.exploration.systems.front_page import FrontRow, front_section
from baco.exploration.systems.plan_page import plan_page
from baco.exploration.systems.system_plan import Objective
from baco.exploration.systems.system_search import SearchedSystems, SearchRecords, SystemSearch
from baco.exploration.systems.system_space import SystemPoint, SystemSpace

if TYPE_CHECKING:
    import pandas as pd

#: File of what a search has computed, in its folder.
RECORDS = "systems.db"
#: Where the best system is written.
BEST_SYSTEM = "best/system.yaml"


@dataclass(frozen=True, eq=False)
class FoundSystems:
    """What a search over systems found.

    Attributes:
        space: of systems.
        found: all of it.
        best: the plan of the best system.
    """

    space: SystemSpace
    found: SearchedSystems
    best: PlannedNetworks

    @property
    def system(self) -> System:
        """The best one."""
        return self.best.plan.system

    @property
    def area_mm2(self) -> float:
        """Of the best system, its cores included."""
        return self.space.area_mm2(self.found.best[0][0])

    def rows(self) -> list[FrontRow]:
        """Of the front; its best system as planned by all solvers, the others by rules."""
        planned = dict(self.found.best)
        rows = []
        for one in self.found.front:
            assert one.value is not None
            plan = planned.get(one.point)
            ns, pj = (one.value.makespan, one.value.energy)
            if plan is not None and not plan.late:
                ns, pj = plan.timetable.makespan, plan.energy_pj
            names = self._unit_names(one.point)
            rows.append(
                FrontRow(names, one.value.area, ns * 1e-6, pj * 1e-6, one.point == self.found.best[0][0])
            )
        return rows

    def _unit_names(self, point: SystemPoint) -> tuple[str, ...]:
        """Of its units."""
        return (
            *(self.space.machine(point.choice, one).name for one in point.accelerators),
            *[HOST] * point.hosts,
        )

    @property
    def front(self) -> pd.DataFrame:
        """A row for each system that no other beats in `area_mm2` (cores included), `makespan_ms` and `energy_uj` at once, as predicted, with
        its `units` and whether it is the `best`."""
        import pandas as pd

        return pd.DataFrame([row._asdict() for row in self.rows()])

    def replay(self, engine: str = "rtl", **options: Any) -> FoundSystems:
        """The same with the best system's plan as it runs, see `PlannedNetworks.replay`."""
        return replace(self, best=self.best.replay(engine, **options))

    def record(self) -> dict[str, Any]:
        """Plain values."""
        return self.best.record() | {
            "search": {
                "space": self.space.space.name,
                "area_limit_mm2": None if self.space.limit_mm2 == float("inf") else self.space.limit_mm2,
                "area_mm2": self.area_mm2,
                "systems": len(self.found.samples),
                "accelerators_priced": self.found.priced,
                "ended": self.found.ended,
                "front": [row._asdict() for row in self.rows()],
            }
        }

    def write(self, folder: str | Path) -> list[Path]:
        """`plan.html`, `plan.json`, and the best system as files that commands take. Raises StorageError where they cannot be written."""
        place = output_folder(folder)
        output_folder(place / "best")
        machines = {one.name: one for one in self.system.accelerators}
        units = [
            HOST if one.accelerator is None else f"{one.accelerator.name}.yaml" for one in self.system.units
        ]
        system = (
            f"# Found by baco plan --search; plan it: baco plan -n NETWORK -u {BEST_SYSTEM}\nunits: {units}\n"
        )
        texts = {
            "plan.html": plan_page(
                self.best.plan,
                None,
                self.best.measured,
                more=front_section(self.rows(), self.space.limit_mm2),
            ),
            "plan.json": json_text(self.record()),
            **{f"best/{name}.yaml": machine.to_yaml() for name, machine in machines.items()},
            BEST_SYSTEM: system,
        }
        for name, text in texts.items():
            atomic_write(place / name, text)
        return [place / name for name in ("plan.html", "plan.json", BEST_SYSTEM)]


def search_systems(
    networks: Sequence[str],
    space: str | DesignSpace = "gemmini",
    *,
    area_limit: float | None = None,
    objective: Objective = "makespan",
    samples: int = 200,
    seed: int = 0,
    most_units: int = MOST_ACCELERATORS,
    most_hosts: int = 1,
    layers: int | None = None,
    seconds: float = 20.0,
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | bool | None = None,
) -> FoundSystems:
    """Number and kind of units of a system, and what runs where on it, searched together.

    Args:
        networks: as `plan` takes them.
        space: what accelerators may be: a name, a file or a space.
        area_limit: mm² of the whole system, a core for each unit included (`System.cores_mm2`); with the space's own bound, the lower one.
        objective: what there is least of once deadlines are met: `makespan`, `energy` or `edp`, the product.
        samples: systems to look at.
        seed: of the search.
        most_units: accelerators at most.
        most_hosts: cores without one at most.
        layers: run repeated blocks only so many times.
        seconds: that solvers have for each of the best systems.
        out: a folder that keeps what is computed: the same call goes on where it was interrupted.
        workers: processes that price accelerators; by default one a processor.
        progress: True or False; None for a display where somebody is looking; or an object of the user's own.

    Raises InputError for what is malformed or does not go together, InfeasibleError where nothing fits.
    """
    asked = [named_demand(text) for text in networks]
    base = load_space(space) if isinstance(space, str) else space
    if area_limit is not None:
        base = base.constrain("--area-limit", area_mm2=area_limit)
    for name, bound in (("most_units", most_units), ("most_hosts", most_hosts)):
        if not 0 <= bound <= MOST_ACCELERATORS or (name == "most_units" and bound < 1):
            raise InputError(
                f"a system has no {bound} of these", location=Location(f"--{name.replace('_', '-')}")
            )
    systems = SystemSpace(base, most_units, most_hosts)
    known = {name: sketch(load_network(name), layers) for name, _ in asked}
    with ExitStack() as stack:
        records = None
        if out is not None:
            folder = output_folder(out)
            records = stack.enter_context(SearchRecords(folder / RECORDS))
        display = stack.enter_context(shown(progress, objective))
        stop = stack.enter_context(StopRequest(None if display is None else display.note))
        executor = stack.enter_context(ExecutorChoice(workers=workers).executor())
        search = SystemSearch(
            [known[name] for name, _ in asked],
            [demand for _, demand in asked],
            systems,
            objective=objective,
            seed=seed,
            executor=executor,
            records=records,
        )
        found = search.run(samples, seconds=seconds, progress=display, stopped=lambda: stop.requested)
    best = plan(
        networks, systems.system(found.best[0][0]), objective=objective, layers=layers, seconds=seconds
    )
    return FoundSystems(systems, found, best)
