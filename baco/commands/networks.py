"""`baco networks`: what can be explored, and what a network consists of."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def networks(
    network: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|FILE]...", help="Networks to show layer by layer; all built-in ones if none."
        ),
    ] = None,
    json: bool = False,
) -> None:
    """List networks with their MACs, weights and operators."""
    from baco.display.console import print_json, stdout
    from baco.workloads.inputs.load import describe, load_network, network_names

    loaded = [load_network(spec) for spec in network or network_names()]
    rows = [describe(one) for one in loaded]
    if json:
        for one, row in zip(loaded, rows, strict=True):
            if network:
                row["layers"] = [
                    {"name": task.name, "problem": str(task.problem), "kind": task.problem.kind}
                    | {"count": task.count, "macs": task.problem.macs}
                    for task in one.tasks
                ]
        print_json(rows)
        return
    console = stdout()
    console.print(_overview(rows))
    if not network:
        console.print("\nOptions: NAME:batch=4; `baco networks NAME` shows the layers.")
        console.print(_options())
        return
    for one, row in zip(loaded, rows, strict=True):
        console.print(f"\n{one.name}")
        console.print(_layers(one))
        if row["host_kinds"]:
            kinds = ", ".join(f"{kind} ({count})" for kind, count in row["host_kinds"].items())
            console.print(f"on the host: {kinds}")
        for item in row["unsupported"]:
            reason = f": {item['reason']}" if item["reason"] else ""
            console.print(f"not costed: {item['operator']} at {item['node']}{reason}")


def _overview(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    from baco.common.units import significant

    table = Table(box=None, pad_edge=False)
    table.add_column("network")
    for title in ("GMACs", "weights (M)", "operators", "tensor", "fused", "host", "unique problems"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            Text(row["name"]),
            significant(row["macs"] / 1e9),
            significant(row["weights"] / 1e6),
            str(row["operators"]),
            str(row["tensor_operators"]),
            str(row["fused_operators"]),
            str(row["host_operators"]),
            str(row["problems"]),
        )
    return table


def _layers(network: Any) -> Any:
    from rich.table import Table
    from rich.text import Text

    from baco.common.units import significant

    table = Table(box=None, pad_edge=False)
    table.add_column("count", justify="right")
    table.add_column("MMACs", justify="right")
    for title in ("kind", "problem", "operators"):
        table.add_column(title)
    for task in network.tasks:
        table.add_row(
            f"{task.count:g}",
            significant(task.problem.macs / 1e6),
            task.problem.kind,
            str(task.problem),
            Text(task.name),
        )
    return table


def _options() -> str:
    from baco.workloads.inputs.load import network_names, network_options

    lines = []
    for name in network_names():
        parts = []
        for option, (default, allowed) in network_options(name).items():
            parts.append(f"{option}={default}" + (f" ({'|'.join(map(str, allowed))})" if allowed else ""))
        lines.append(f"  {name}: {', '.join(parts)}")
    return "\n".join(lines)
