"""`baco plan`: which unit of a system runs what when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baco.cli.checked import Count, Seed
from baco.cli.completions import accelerator_completions, network_completions

if TYPE_CHECKING:
    from baco.api.system_search import FoundSystems
    from baco.api.systems import PlannedNetworks
    from baco.exploration.systems.measured import MeasuredPlan


class ProfileEngine(StrEnum):
    """What measures groups."""

    RTL = "rtl"
    TIMED = "timed"


class ReplayEngine(StrEnum):
    """What runs plans."""

    FUNCTIONAL = "functional"
    RTL = "rtl"
    TIMED = "timed"


class PlanObjective(StrEnum):
    """What there is to be least of."""

    MAKESPAN = "makespan"
    ENERGY = "energy"
    EDP = "edp"


@dataclass(frozen=True)
class SystemSearchFlags:
    """The search over systems.

    Attributes:
        search (SPACE): Instead of --unit: search over systems of accelerators of this space, a name or a file.
        area_limit (MM2): Of --search: area of the system at most, a core for each unit included.
        samples (N): Of --search: systems to look at.
        seed (N): Of --search.
        most_units (N): Of --search: accelerators at most.
        most_hosts (N): Of --search: cores without an accelerator at most.
        workers (N): Of --search: processes that price accelerators; by default one a processor.
    """

    search: str | None = None
    area_limit: float | None = None
    samples: Count = 200
    seed: Seed = 0
    most_units: Annotated[int, typer.Option(min=1, max=4)] = 4
    most_hosts: Annotated[int, typer.Option(min=0, max=4)] = 1
    workers: Count | None = None

    def check(self, *, units: bool, one_system: bool) -> None:
        """Raises InputError where units are given, too, or neither are, or what is asked for of one system."""
        from baco.common.errors import InputError

        if (self.search is None) != units:
            raise InputError("units are given, or searched", hint="give --unit for each, or --search SPACE")
        if self.search is not None and one_system:
            raise InputError(
                "--search goes with predictions of one system", hint="plan its best/system.yaml with these"
            )


def plan(
    network: Annotated[
        list[str],
        typer.Option(
            "--network",
            "-n",
            metavar="NAME|FILE[@KEY=VALUE]",
            autocompletion=network_completions,
            help="Again for each: as `baco compile` takes it, with rate=HZ, deadline=MS or runs=N behind an @.",
        ),
    ],
    unit: Annotated[
        list[str] | None,
        typer.Option(
            "--unit",
            "-u",
            metavar="ACCELERATOR|host",
            autocompletion=accelerator_completions,
            help="Again for each: one to four accelerators, each with a core of its own; host: a core without. Or a system's file.",
        ),
    ] = None,
    out: Path | None = None,
    objective: PlanObjective = PlanObjective.MAKESPAN,
    layers: Count | None = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600)] = 20.0,
    profile: ProfileEngine | None = None,
    replay: ReplayEngine | None = None,
    cloud: str | None = None,
    link: str | None = None,
    *,
    searched: SystemSearchFlags,
    json: bool = False,
) -> None:
    """Plan networks on a system of several cores with accelerators: what runs where when, as predicted,
    and with --replay as measured.

    A network with a rate begins anew every period, and ends before that or by its deadline; others run once, or `runs` times.

    With --search the units are searched, too: number and kind of them, and what runs where, together, within an area. A search that
    is interrupted goes on with the same command, if it has a folder.

    Example: baco plan -n resnet18@rate=30 -n bert_base -u gemmini-default -u gemmini-default,dim=8 --out plan
    Example: baco plan -n resnet18 -n bert_base --search gemmini --area-limit 60 --out systems

    Args:
        out (-o, FOLDER): Write plan.html, with a chart and the times and energies of operators by unit, and plan.json.
        objective: What there is least of, once all deadlines are met.
        layers (N): Run repeated blocks only so many times.
        seconds: That the solvers have.
        profile (ENGINE): Measure every group in each accelerator's own program on this engine (rtl, timed), where it is predicted without.
        replay (ENGINE): Run the plan, one program for all units, compare every operator's results, and with an engine that counts cycles
            (rtl, timed) show predicted and measured times side by side; without rates, the best single accelerators' own programs, too.
        cloud (ACCELERATOR): With --link: cut the one network between the system and this machine, too.
        link (MB/s,ms,W): Rate, round trip and power of the link before it.
    """
    from baco.api.system_search import search_systems
    from baco.api.systems import plan as plan_networks
    from baco.common.files import output_folder
    from baco.common.text import one_line
    from baco.display.console import stderr

    if out is not None:
        output_folder(out)

    def told(text: str) -> None:
        stderr().print(one_line(text), highlight=False)

    searched.check(units=bool(unit), one_system=profile is not None or cloud is not None or link is not None)
    both: dict[str, Any] = {"objective": objective.value, "layers": layers, "seconds": seconds}
    if searched.search is not None:
        options = dict(vars(searched))
        made: PlannedNetworks | FoundSystems = search_systems(
            network, options.pop("search"), **options, **both, out=out
        )
    else:
        both |= {"profiled": None if profile is None else profile.value, "cloud": cloud, "link": link}
        made = plan_networks(network, unit or [], **both, report=told)
    if replay is not None:
        made = made.replay(replay.value, report=told)
    _end(made, [] if out is None else made.write(out), json)


def _end(planned: PlannedNetworks | FoundSystems, paths: list[Path], json: bool) -> None:
    """Say what was planned, of systems that were found the best, and end with 1 where a result is wrong."""
    from baco.api.systems import PlannedNetworks
    from baco.common.text import one_line
    from baco.display.console import print_json, stdout

    if json:
        print_json(planned.record())
        return
    if isinstance(planned, PlannedNetworks):
        made = planned
    else:
        made = planned.best
        _show_front(planned)
    _show(made)
    if made.measured is not None:
        _show_measured(made.measured)
    for path in paths:
        stdout().print(one_line(str(path)), highlight=False, soft_wrap=True)
    if made.measured is not None and made.measured.wrong:
        raise typer.Exit(1)


def _show_front(found: FoundSystems) -> None:
    from baco.display.console import amount, stdout, table
    from baco.exploration.systems.front_page import units_text

    out = stdout()
    rows = [
        (("best: " if row.best else "") + units_text(row.units), *map(amount, row[1:4]))
        for row in found.rows()
    ]
    out.print(table(("units", "area, mm²", "makespan, ms", "energy, µJ"), rows, left=("units",)))
    told = f"{len(found.found.samples)} systems of {found.found.priced} accelerators looked at"
    out.print(told + ("; interrupted" if found.found.ended == "interrupted" else ""), highlight=False)


def _show(made: PlannedNetworks) -> None:
    from baco.common.text import one_line
    from baco.common.units import si
    from baco.display.console import amount, stdout, table
    from baco.exploration.systems.system_plan import unit_rows

    plan, out = made.plan, stdout()
    rows = ((name, count, amount(busy), f"{share:.0%}") for name, count, busy, share in unit_rows(plan))
    out.print(table(("unit", "groups", "busy, ms", "of the makespan"), rows, left=("unit",)))
    gap = plan.gap
    proven = (
        "nothing is proven of products"
        if gap is None
        else f"no plan has more than {gap:.2%} less {plan.objective}"
        if gap
        else "no plan has less " + plan.objective
    )
    lines = [
        f"predicted: {plan.timetable.makespan * 1e-6:.5g} ms, {si(plan.energy_pj * 1e-12, 'J', 4)};"
        f" {proven}, by these predictions ({plan.planned.solver})"
    ]
    if (saving := plan.saving()) is not None:
        over, share = saving
        lines.append(
            f"{share:.1%} less {plan.objective} than {over} alone"
            if share >= 5e-4
            else f"no less {plan.objective} than {over} alone"
        )
    handed = plan.handover()
    if handed.nbytes:
        lines.append(" go ".join(handed.words()))
    if words := plan.deadline_words():
        lines.append(words)
    if (cut := made.cut) is not None:
        names = plan.profiles[0].graph.names
        where = (
            "nothing"
            if not cut.groups
            else "all"
            if cut.groups == len(names)
            else f"up to {names[cut.groups - 1]}"
        )
        lines.append(
            f"best cut: {where} on the device, {cut.edge_s * 1e3:.4g} + {cut.link_s * 1e3:.4g} + {cut.cloud_s * 1e3:.4g} ms"
            f" (device, link, behind), {cut.joule * 1e3:.4g} mJ of the device"
        )
    out.print("\n".join(map(one_line, lines)), highlight=False, soft_wrap=True)


def _show_measured(measured: MeasuredPlan) -> None:
    from baco.common.text import one_line
    from baco.display.console import stdout

    lines = [
        f"{measured.checked} operators compared: "
        + (f"{len(measured.wrong)} wrong" if measured.wrong else "all are right"),
        *measured.wrong[:5],
    ]
    if measured.engine != "functional":
        lines.append(
            f"measured ({measured.engine}): {measured.makespan_ns * 1e-6:.5g} ms; predicted {measured.error:+.1%}"
        )
        alone = ", ".join(f"{name} {ns * 1e-6:.5g} ms" for name, ns in measured.alone_ns.items())
        if (speedup := measured.speedup) is not None:
            lines.append(f"{speedup[1]:.3g} times as fast as {speedup[0]} alone, measured ({alone})")
        lines += [f"run {number} missed its deadline by {by * 1e-6:.4g} ms" for number, by in measured.late]
    stdout().print("\n".join(map(one_line, lines)), highlight=False, soft_wrap=True)
