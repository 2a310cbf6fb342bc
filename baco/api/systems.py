"""Plans of networks on systems of several units: what `baco plan` does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco.accel.presets import is_system, load_system
from baco.accel.system import HOST, System
from baco.api.network_unit import NetworkRequest, NetworkUnit, prepare_network
from baco.api.sources import accelerator as load_accelerator
from baco.api.sources import network as load_network
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import atomic_write, output_folder
from baco.common.numbers import real_number, whole_number
from baco.common.text import json_text
from baco.compiler.network.quantise import sketch
from baco.exploration.systems.layer_profile import (
    LayerOnUnit,
    NetworkOnUnit,
    layer_profile,
    network_totals,
)
from baco.exploration.systems.layer_profile_page import layer_profile_page
from baco.exploration.systems.link import LinkModel, LinkSplit, splits
from baco.exploration.systems.measured import MeasuredPlan, measured_profile, replay_plan
from baco.exploration.systems.mix import Demand
from baco.exploration.systems.plan_page import plan_page
from baco.exploration.systems.system_plan import Objective, SystemPlan, plan_system
from baco.exploration.systems.unit_profile import profile, static_pj_per_ns

if TYPE_CHECKING:
    import pandas as pd

_MOST_RUNS = 1000
#: Of random weights and inputs, unless another one is asked for.
_SEED = 0
#: Units whose own programs are predicted to take so many times the best one's at most are run beside a plan.
_NEAR = 1.1


@dataclass(frozen=True, eq=False)
class PlannedNetworks:
    """A plan, and where it was asked for the cuts between a device and a machine behind a link, the best first of equals.

    Attributes:
        plan: of all networks on the system.
        networks: names or files of them.
        layers: how often repeated blocks run at most.
        seconds: that solvers had.
        profiled: the engine that measured groups; None where they are predicted.
        cuts: every cut of the one network; None without a link.
        measured: the plan as it ran; None before.
        integers: networks with the numbers that groups were measured with; None where they were predicted.
    """

    plan: SystemPlan
    networks: tuple[str, ...]
    layers: int | None = None
    seconds: float = 20.0
    profiled: str | None = None
    cuts: list[LinkSplit] | None = None
    measured: MeasuredPlan | None = None
    integers: Mapping[str, NetworkUnit] | None = None

    @property
    def makespan_ms(self) -> float:
        """Predicted."""
        return self.plan.timetable.makespan * 1e-6

    @property
    def groups(self) -> pd.DataFrame:
        """A row for each group of each run: `network`, `run`, `group`, `unit`, `start_ms`, `end_ms`, and where the plan ran
        `measured_start_ms`, `measured_end_ms`."""
        import pandas as pd

        table = pd.DataFrame(self.plan.record()["tasks"])
        if self.measured is not None:
            table["measured_start_ms"] = [ns * 1e-6 for ns in self.measured.starts_ns]
            table["measured_end_ms"] = [ns * 1e-6 for ns in self.measured.finishes_ns]
        return table

    def replay(
        self,
        engine: str = "rtl",
        *,
        alone: bool = True,
        seed: int = _SEED,
        report: Callable[[str], None] | None = None,
    ) -> PlannedNetworks:
        """The same with the plan as it runs: one program for all units, on random numbers that every operator's results are compared for.

        Args:
            engine: `functional` (results), `rtl` (the system's Verilog) or `timed` (a model of its units in time).
            alone: run the programs of the best single accelerators, too, where the engine counts cycles and rates do not decide when runs
                begin; what was `profiled` is not run again.
            seed: of random weights and inputs.
            report: told how building a simulator goes on.

        Raises InputError for units with clocks of their own, SimulationError for a program that had to be stopped.
        """
        from baco.compiler.network.quantise import quantise_inputs
        from baco.compiler.network.reference import reference
        from baco.exploration.measure.program_job import other_inputs

        plan = self.plan
        plan.system.clock_mhz  # noqa: B018  raises where they differ
        known = self.integers if seed == _SEED else None
        if known is None:
            known = _prepared(self.networks, plan.system, self.layers, seed=seed)
            plan = self._with_numbers(known)
        data = []
        for number, run in enumerate(plan.mix.runs):
            unit = known[self.networks[run.network]]
            assert unit.source is not None
            inputs = quantise_inputs(unit.network, other_inputs(unit.source, unit.network, seed + number))
            data.append((inputs, reference(unit.network, inputs)))
        alone_ns: dict[str, float] = {}
        if alone and engine != "functional" and plan.mix.hyperperiod_ns is None:
            if self.profiled is not None:
                alone_ns = {name: ns for name, (ns, _) in plan.alone().items()}
            else:
                alone_ns = self._alone(plan, [known[name] for name in self.networks], engine, report)
        measured = replay_plan(plan, data, engine, alone_ns=alone_ns, report=report)
        return replace(self, plan=plan, measured=measured)

    def _with_numbers(self, known: Mapping[str, NetworkUnit]) -> SystemPlan:
        """The plan for networks with these weights; another one where they decide what is done how."""
        plan = self.plan
        own = {name: profile(unit.network, plan.system) for name, unit in known.items()}
        profiles = tuple(own[name] for name in self.networks)
        if all(new.steps == old.steps for new, old in zip(profiles, plan.profiles, strict=True)):
            same = zip(plan.profiles, profiles, strict=True)
            profiles = tuple(replace(old, fused=new.fused, lowered=new.lowered) for old, new in same)
            return replace(plan, profiles=profiles)
        return plan_system(
            profiles, plan.demands, plan.system, objective=plan.objective, seconds=self.seconds
        )

    @staticmethod
    def _alone(
        plan: SystemPlan,
        units: Sequence[NetworkUnit],
        engine: str,
        report: Callable[[str], None] | None,
    ) -> dict[str, float]:
        """Of single accelerators that could be the best by the predictions: all runs by its own programs, one behind the other."""
        from baco.compiler.network.program import compile_network
        from baco.sim.network.run import run_network

        predicted = {name: ns for name, (ns, _) in plan.alone().items()}
        runs = [sum(run.network == number for run in plan.mix.runs) for number in range(len(units))]
        found: dict[str, float] = {}
        for one in plan.system.units:
            if one.accelerator is None or predicted[one.name] > _NEAR * min(predicted.values()):
                continue
            found[one.name] = 0.0
            for unit, count in zip(units, runs, strict=True):
                built = compile_network(unit.network, one.accelerator, data=unit.data)
                ran = run_network(built, engine=engine, report=report)
                cycles = ran.result.marks[-1].cycle - ran.result.marks[0].cycle
                found[one.name] += count * cycles * 1e3 / one.accelerator.clock_mhz
        return found

    @property
    def cut(self) -> LinkSplit | None:
        """The best cut by the plan's objective."""
        if self.cuts is None:
            return None
        energy = self.plan.objective == "energy"
        return min(
            self.cuts, key=lambda one: (one.joule, one.seconds) if energy else (one.seconds, one.joule)
        )

    def record(self) -> dict[str, Any]:
        """Plain values."""
        rows = None if self.cuts is None else [{**one._asdict(), "seconds": one.seconds} for one in self.cuts]
        ran = None if self.measured is None else self.measured.record()
        cut = None if self.cut is None else self.cut.groups
        how = (
            {}
            if self.profiled is None
            else {"evidence": f"predicted from groups measured alone ({self.profiled})"}
        )
        return (
            self.plan.record() | how | {"profiled": self.profiled, "measured": ran, "cuts": rows, "cut": cut}
        )

    def write(self, folder: str | Path) -> list[Path]:
        """`plan.json` and `plan.html`. Raises StorageError where they cannot be written."""
        place = output_folder(folder)
        texts = {
            "plan.html": plan_page(self.plan, self.cuts, self.measured),
            "plan.json": json_text(self.record()),
        }
        for name, text in texts.items():
            atomic_write(place / name, text)
        return [place / name for name in texts]


def plan(
    networks: Sequence[str],
    units: Sequence[str] | System,
    *,
    objective: Objective = "makespan",
    layers: int | None = None,
    seconds: float = 20.0,
    profiled: str | None = None,
    cloud: str | None = None,
    link: str | None = None,
    report: Callable[[str], None] | None = None,
) -> PlannedNetworks:
    """Which unit of a system runs which operators of some networks when, as predicted.

    Args:
        networks: names or files, each with how often it runs behind an @: `resnet18@rate=30,deadline=20` (Hz, ms), `resnet18@runs=4`.
        units: accelerators, one to four, each on a core of its own, and `host` for a core without one; or the file of a system; or a system.
        objective: what there is least of once deadlines are met: `makespan`, `energy` or `edp`, the product of both.
        layers: run repeated blocks only so many times.
        seconds: that solvers of integer programs have.
        profiled: the engine, `timed` or `rtl`, that measures every group in each accelerator's own program first; by default all is predicted.
        cloud, link: an accelerator behind a link, and the link as `MB/s,ms,W`: the one network is cut between the system and it, too.
        report: told how building a simulator goes on.

    Raises InputError for what is malformed or does not go together, InfeasibleError for what no unit can compute.
    """
    if (cloud is None) != (link is None):
        raise InputError("--cloud and --link go together: a machine, and what lies before it")
    if cloud is not None and len(networks) != 1:
        raise InputError("one network is cut between a device and a machine behind a link, not several")
    asked = [named_demand(text) for text in networks]
    system = units if isinstance(units, System) else _system(units)
    sent = None if link is None else LinkModel.parse(link)
    behind = None if cloud is None else _system([cloud])
    names = tuple(name for name, _ in asked)
    integers: dict[str, NetworkUnit] | None = None
    if profiled is None:
        sketches = {name: sketch(load_network(name), layers) for name in names}
        known = {name: profile(own, system) for name, own in sketches.items()}
    else:
        integers = _prepared(names, system, layers, seed=_SEED)
        known = {
            name: measured_profile(own.network, own.data, system, profiled, report)
            for name, own in integers.items()
        }
        sketches = {name: own.network for name, own in integers.items()}
    made = plan_system(
        [known[name] for name, _ in asked],
        [one for _, one in asked],
        system,
        objective=objective,
        seconds=seconds,
    )
    cuts = None
    if behind is not None and sent is not None:
        cuts = _cuts(sketches[names[0]], system, behind, sent)
    return PlannedNetworks(made, names, layers, seconds, profiled, cuts, integers=integers)


@dataclass(frozen=True, eq=False)
class ProfiledLayers:
    """What the layers of a network take on units, over batch sizes and clocks, as predicted.

    Attributes:
        network: its name.
        rows: of every layer.
        totals: of the whole network.
    """

    network: str
    rows: tuple[LayerOnUnit, ...]
    totals: tuple[NetworkOnUnit, ...]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each layer on each unit: `batch`, `clock_mhz`, `unit`, `elements`, `number`, `layer`, `operators`, `us` and `energy_uj`
        of the whole batch, `memory_us`."""
        import pandas as pd

        return pd.DataFrame([row._asdict() for row in self.rows])

    def record(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "evidence": "predicted",
            "network": self.network,
            "totals": [one._asdict() for one in self.totals],
            "layers": [row._asdict() for row in self.rows],
        }

    def write(self, folder: str | Path) -> list[Path]:
        """`profile.html`, `profile.json` and `profile.csv`. Raises StorageError where they cannot be written."""
        place = output_folder(folder)
        texts = {
            "profile.html": layer_profile_page(self.network, self.rows, self.totals),
            "profile.json": json_text(self.record()),
            "profile.csv": self.table.to_csv(index=False),
        }
        for name, text in texts.items():
            atomic_write(place / name, text)
        return [place / name for name in texts]


def profile_layers(
    network: str,
    units: Sequence[str],
    *,
    batches: Sequence[int] = (),
    clocks: Sequence[float] = (),
    layers: int | None = None,
) -> ProfiledLayers:
    """What every layer of a network takes on units of several kinds, over batch sizes and clocks, as predicted.

    Args:
        network: name or file.
        units: accelerators, at most four with the same elements, and `host` for a core without one.
        batches: images at a time; by default as the network is.
        clocks: MHz that all units have, with the energy that comes with them and main memory's GB/s as they are; by default each
            accelerator's own, and a core alone the first one's.
        layers: run repeated blocks only so many times.

    Raises InputError for what is not known, InfeasibleError for what an accelerator's programs cannot compute.
    """
    for batch in batches:
        if batch < 1:
            raise InputError(
                f"at least one image is computed at a time, not {batch}", location=Location("--batch")
            )
    for clock in clocks:
        if not 0 < clock < math.inf:
            raise InputError(f"a clock has MHz above 0, not {clock:g}", location=Location("--clock"))
    machines = [(name, None if name == HOST else load_accelerator(name)) for name in units]
    rows = tuple(layer_profile(network, machines, list(batches) or [None], clocks, layers))
    return ProfiledLayers(network, rows, tuple(network_totals(rows)))


def _prepared(
    names: Sequence[str], system: System, layers: int | None, *, seed: int
) -> dict[str, NetworkUnit]:
    """Networks in integers, with data."""
    first = system.accelerators[0]
    return {
        name: prepare_network(NetworkRequest(name, first, layers=layers, seed=seed, compare=False))
        for name in dict.fromkeys(names)
    }


def _cuts(network: Any, system: System, behind: System, link: LinkModel) -> list[LinkSplit]:
    """Of the groups that neither side takes apart, one after the other; on the device each where it takes least."""
    units = [(unit.name, unit.accelerator) for unit in system.units]
    own = profile(
        network, System.of([*units, *((f"{one.name} behind", one.accelerator) for one in behind.units)])
    )
    count = len(units)
    times, energies = own.graph.times, own.graph.energies
    on_device = times[:, :count].argmin(1)
    static = static_pj_per_ns(system)
    edge = [float(times[at, unit]) for at, unit in enumerate(on_device)]
    edge_pj = [float(energies[at, unit]) + static * edge[at] for at, unit in enumerate(on_device)]
    cloud = times[:, count:].min(1).tolist()
    return splits(own.graph, edge, cloud, edge_pj, own.inputs, link)


def _system(units: Sequence[str]) -> System:
    """Units by name, or those of a file."""
    if len(units) == 1 and is_system(units[0]):
        return load_system(units[0])
    try:
        return System.of((name, None if name == HOST else load_accelerator(name)) for name in units)
    except InputError as error:
        raise InputError(
            error.message, location=error.location or Location("--unit"), hint=error.hint
        ) from None


def named_demand(text: str) -> tuple[str, Demand]:
    """A network's name, and how often it runs. Raises InputError."""
    name, _, how = text.rpartition("@")
    if not name or "=" not in how:  # a file's name may have an @
        name, how = text, ""
    place = Location("--network")
    values: dict[str, Any] = {}
    for part in how.split(",") if how else ():
        key, _, value = part.partition("=")
        if key == "rate":
            real_number("the rate of a network", value, location=place)
            values["rate_hz"] = Fraction(value)
        elif key == "deadline":
            values["deadline_ms"] = real_number("the deadline of a network", value, location=place)
        elif key == "runs":
            values["runs"] = whole_number(
                "the runs of a network", value, least=1, most=_MOST_RUNS, location=place
            )
        else:
            raise InputError(
                f"a network has no '{key}'",
                location=place,
                hint=did_you_mean(key, ("rate", "deadline", "runs")),
            )
    return name, Demand(**values)
