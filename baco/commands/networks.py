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
    rows = [describe(shown) for shown in loaded]
    if json:
        for shown, row in zip(loaded, rows, strict=True):
            if network:
                row["layers"] = [
                    {"name": task.name, "problem": str(task.problem), "kind": task.problem.kind}
                    | {"count": task.count, "macs": task.problem.macs}
                    for task in shown.tasks
                ]
        print_json(rows)
        return
    console = stdout()
    console.print(_overview(rows))
    if not network:
        console.print("\nOptions: NAME:batch=4; `baco networks NAME` shows the layers.")
        console.print(_options())
        return
    for shown, row in zip(loaded, rows, strict=True):
        console.print(f"\n{shown.name}")
        console.print(_layers(shown))
        if row["host_kinds"]:
            kinds = ", ".join(f"{kind} ({count})" for kind, count in row["host_kinds"].items())
            console.print(f"on the host: {kinds}")
        for item in row["unsupported"]:
            reason = f": {item['reason']}" if item["reason"] else ""
            console.print(f"not costed: {item['operator']} at {item['node']}{reason}")


def _overview(rows: list[dict[str, Any]]) -> Any:
    from baco.common.units import significant
    from baco.display.console import table

    titles = ("network", "GMACs", "weights (M)", "operators", "tensor", "fused", "host", "unique problems")
    counts = ("operators", "tensor_operators", "fused_operators", "host_operators", "problems")
    cells = (
        (
            row["name"],
            significant(row["macs"] / 1e9),
            significant(row["weights"] / 1e6),
            *(row[name] for name in counts),
        )
        for row in rows
    )
    return table(titles, cells, left=("network",))


def _layers(network: Any) -> Any:
    from baco.common.units import significant
    from baco.display.console import table

    words = ("kind", "problem", "operators")
    cells = (
        (f"{one.count:g}", significant(one.problem.macs / 1e6), one.problem.kind, one.problem, one.name)
        for one in network.tasks
    )
    return table(("count", "MMACs", *words), cells, left=words)


def _options() -> str:
    from baco.workloads.inputs.load import network_names, network_options

    lines = []
    for name in network_names():
        parts = []
        for option, (default, allowed) in network_options(name).items():
            parts.append(f"{option}={default}" + (f" ({'|'.join(map(str, allowed))})" if allowed else ""))
        lines.append(f"  {name}: {', '.join(parts)}")
    return "\n".join(lines)
