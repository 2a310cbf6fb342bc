"""Plans of networks on systems of several units: what `baco plan` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from baco.api.sources import accelerator as load_accelerator
from baco.api.sources import network as load_network
from baco.common.errors import InputError, Location, did_you_mean
from baco.common.files import atomic_write, output_folder
from baco.common.numbers import real_number, whole_number
from baco.common.text import json_text
from baco.compiler.network.quantise import sketch
from baco.exploration.systems.link import LinkModel, LinkSplit, splits
from baco.exploration.systems.mix import Demand
from baco.exploration.systems.plan_page import plan_page
from baco.exploration.systems.system_plan import Objective, SystemPlan, plan_system
from baco.exploration.systems.unit_profile import HOST, Issue, SystemUnits, profile

_MOST_UNITS, _MOST_RUNS = 4, 1000


@dataclass(frozen=True)
class PlannedNetworks:
    """A plan, and where it was asked for the cuts between a device and a machine behind a link, the best first of equals.

    Attributes:
        plan: of all networks on the system.
        cuts: every cut of the one network; None without a link.
    """

    plan: SystemPlan
    cuts: list[LinkSplit] | None = None

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
        return self.plan.record() | {"cuts": rows, "cut": None if self.cut is None else self.cut.groups}

    def write(self, folder: str | Path) -> list[Path]:
        """`plan.json` and `plan.html`. Raises StorageError where they cannot be written."""
        place = output_folder(folder)
        texts = {"plan.html": plan_page(self.plan, self.cuts), "plan.json": json_text(self.record())}
        for name, text in texts.items():
            atomic_write(place / name, text)
        return [place / name for name in texts]


def plan(
    networks: Sequence[str],
    units: Sequence[str],
    *,
    objective: Objective = "makespan",
    issue: Issue = "host",
    layers: int | None = None,
    seconds: float = 20.0,
    cloud: str | None = None,
    link: str | None = None,
) -> PlannedNetworks:
    """Which unit of a system runs which operators of some networks when, as predicted.

    Args:
        networks: names or files, each with how often it runs behind an @: `resnet18@rate=30,deadline=20` (Hz, ms), `resnet18@runs=4`.
        units: accelerators, one to four, and `host` where the host core computes what accelerators can, too.
        objective: what there is least of once deadlines are met: `makespan` or `energy`.
        issue: who writes the commands of accelerators: the `host` core, or every `unit` for itself.
        layers: run repeated blocks only so many times.
        seconds: that solvers of integer programs have.
        cloud, link: an accelerator behind a link, and the link as `MB/s,ms,W`: the one network is cut between the system and it, too.

    Raises InputError for what is malformed or does not go together, InfeasibleError for what no unit can compute.
    """
    if (cloud is None) != (link is None):
        raise InputError("--cloud and --link go together: a machine, and what lies before it")
    if cloud is not None and len(networks) != 1:
        raise InputError("one network is cut between a device and a machine behind a link, not several")
    asked = [_demand(text) for text in networks]
    system = _system(units, issue)
    sent = None if link is None else LinkModel.parse(link)
    behind = None if cloud is None else _system([cloud], issue)
    sketches = {name: sketch(load_network(name), layers) for name, _ in asked}
    known = {name: profile(one, system) for name, one in sketches.items()}
    made = plan_system(
        [known[name] for name, _ in asked],
        [one for _, one in asked],
        system,
        objective=objective,
        seconds=seconds,
    )
    if behind is None or sent is None:
        return PlannedNetworks(made)
    (name, _), *_ = asked
    return PlannedNetworks(made, _cuts(sketches[name], system, behind, sent))


def _cuts(network: Any, system: SystemUnits, behind: SystemUnits, link: LinkModel) -> list[LinkSplit]:
    """Of the groups that neither side takes apart, one after the other; on the device each where it takes least."""
    both = SystemUnits(
        (*system.names, *behind.names), (*system.accelerators, *behind.accelerators), True, system.issue
    )
    own = profile(network, both)
    count = len(system.names)
    times, energies = own.graph.times.copy(), own.graph.energies
    device, machine = [*range(count), count + 1], [count, count + 1]
    on_device = times[:, device].argmin(1)
    static = system.static_pj_per_ns
    edge = [float(times[at, device[unit]]) for at, unit in enumerate(on_device)]
    edge_pj = [float(energies[at, device[unit]]) + static * edge[at] for at, unit in enumerate(on_device)]
    cloud = times[:, machine].min(1).tolist()
    return splits(own.graph, edge, cloud, edge_pj, own.inputs, link)


def _system(units: Sequence[str], issue: Issue) -> SystemUnits:
    """The units by name; one that is there twice is numbered."""
    names = [one for one in units if one != HOST]
    if not names:
        raise InputError(
            "a system has an accelerator", location=Location("--unit"), hint="--unit gemmini-default"
        )
    if len(names) > _MOST_UNITS:
        raise InputError(f"a system has at most {_MOST_UNITS} accelerators", location=Location("--unit"))
    shown = [
        name if names.count(name) == 1 else f"{name} ({names[: at + 1].count(name)})"
        for at, name in enumerate(names)
    ]
    return SystemUnits(tuple(shown), tuple(load_accelerator(name) for name in names), HOST in units, issue)


def _demand(text: str) -> tuple[str, Demand]:
    """A network's name, and how often it runs."""
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
