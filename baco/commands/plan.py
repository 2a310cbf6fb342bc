"""`baco plan`: which unit of a system runs what when."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from baco.cli.checked import Count
from baco.cli.completions import accelerator_completions, network_completions

if TYPE_CHECKING:
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
        list[str],
        typer.Option(
            "--unit",
            "-u",
            metavar="ACCELERATOR|host",
            autocompletion=accelerator_completions,
            help="Again for each: one to four accelerators, each with a core of its own; host: a core without.",
        ),
    ],
    out: Path | None = None,
    objective: PlanObjective = PlanObjective.MAKESPAN,
    layers: Count | None = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600)] = 20.0,
    profile: ProfileEngine | None = None,
    replay: ReplayEngine | None = None,
    cloud: str | None = None,
    link: str | None = None,
    json: bool = False,
) -> None:
    """Plan networks on a system of several cores with accelerators: what runs where when, as predicted,
    and with --replay as measured.

    A network with a rate begins anew every period, and ends before that or by its deadline; others run once, or `runs` times.

    Example: baco plan -n resnet18@rate=30 -n bert_base -u gemmini-default -u gemmini-default,dim=8 --out plan

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
    from baco.api.systems import plan as plan_networks
    from baco.common.files import output_folder
    from baco.common.text import one_line
    from baco.display.console import print_json, stderr, stdout

    if out is not None:
        output_folder(out)

    def told(text: str) -> None:
        stderr().print(one_line(text), highlight=False)

    made = plan_networks(
        network,
        unit,
        objective=objective.value,
        layers=layers,
        seconds=seconds,
        profiled=None if profile is None else profile.value,
        report=told,
        cloud=cloud,
        link=link,
    )
    if replay is not None:
        made = made.replay(replay.value, report=told)
    paths = [] if out is None else made.write(out)
    if json:
        print_json(made.record())
        return
    _show(made)
    if made.measured is not None:
        _show_measured(made.measured)
    for path in paths:
        stdout().print(one_line(str(path)), highlight=False, soft_wrap=True)
    if made.measured is not None and made.measured.wrong:
        raise typer.Exit(1)


def _show(made: PlannedNetworks) -> None:
    from baco.common.text import one_line
    from baco.common.units import si
    from baco.display.console import amount, stdout, table
    from baco.exploration.systems.system_plan import unit_rows

    plan, out = made.plan, stdout()
    rows = ((name, count, amount(busy), f"{share:.0%}") for name, count, busy, share in unit_rows(plan))
    out.print(table(("unit", "groups", "busy, ms", "of the makespan"), rows, left=("unit",)))
    gap = plan.planned.gap
    proven = (
        f"no plan has more than {gap:.2%} less {plan.objective}"
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
