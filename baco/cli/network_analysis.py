"""What `baco fuse --analysis` shows of a network: dependences, reuse, subprograms."""

from __future__ import annotations

from typing import Any

from baco.accel.config import Accelerator
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.subprograms import NetworkAnalysis

#: Tensors read again that are listed.
_MOST = 10


def show_analysis(network: QuantisedNetwork, accelerator: Accelerator, *, every: bool, json: bool) -> None:
    """Print it; `every` lists all operators, and all tensors that are read again."""
    from baco.display.console import print_json, stdout

    found = NetworkAnalysis(network)
    report = _report(found, accelerator)
    if json:
        print_json({"network": network.name, "accelerator": accelerator.config_hash, **report})
        return
    console = stdout()
    if every:
        console.print(
            _table(
                ("operator", "relies on", "operations", "elements moved", "", "subprogram"),
                [
                    (
                        one["name"],
                        one["relies_on"],
                        f"{one['operations']:,}",
                        f"{one['moved']:,}",
                        "computes" if one["computes"] else "moves",
                        str(one["subprogram"]),
                    )
                    for one in report["operators"]
                ],
            )
        )
        console.print()
    console.print(
        _table(
            ("subprogram", "operators", "scratchpad KiB", "accumulator KiB", "DRAM KiB", "one by one"),
            [
                (
                    _names(one["operators"]),
                    str(len(one["operators"])),
                    _kib(one["scratchpad_bytes"]),
                    _kib(one["accumulator_bytes"])
                    if one["fits"]
                    else f"{_kib(one['accumulator_bytes'])} (cut)",
                    _kib(one["dram_bytes"]),
                    _kib(one["dram_bytes_alone"]),
                )
                for one in report["subprograms"]
            ],
        )
    )
    console.print()
    shown = report["reuse"] if every else report["reuse"][:_MOST]
    console.print(
        _table(
            ("read again", "by", "in", "KiB to save"),
            [
                (one["value"], ", ".join(one["readers"]), _WHERE[one["kind"]], _kib(one["bytes"]))
                for one in shown
            ],
        )
    )
    console.print()
    console.print(_sum(network.name, report), highlight=False)


_WHERE = {"spatial": "space", "temporal": "time", "both": "space and time"}


def _report(found: NetworkAnalysis, accelerator: Accelerator) -> dict[str, Any]:
    parts = found.subprograms(accelerator)
    of = {number: at for at, part in enumerate(parts, 1) for number in part.operators}
    names = [one.operator.name for one in found.operators]
    alone = [found.subprogram([number], accelerator) for number in range(len(names))]
    return {
        "operators": [
            {
                "name": one.operator.name,
                "relies_on": "indirectly" if one.indirect else "many" if one.many else "one",
                "operations": one.operations,
                "moved": one.moved,
                "computes": one.computes,
                "subprogram": of[number],
            }
            for number, one in enumerate(found.operators)
        ],
        "subprograms": [
            {
                "operators": [names[number] for number in part.operators],
                "scratchpad_bytes": part.scratchpad_bytes,
                "accumulator_bytes": part.accumulator_bytes,
                "fits": part.fits,
                "dram_bytes": part.read_bytes + part.written_bytes,
                "dram_bytes_alone": sum(
                    alone[number].read_bytes + alone[number].written_bytes for number in part.operators
                ),
            }
            for part in parts
        ],
        "reuse": [
            {
                "value": one.value,
                "readers": [names[number] for number in one.readers],
                "kind": one.kind,
                "bytes": one.nbytes,
            }
            for one in found.reuse
        ],
    }


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"


def _kib(nbytes: int) -> str:
    return f"{nbytes / 1024:,.0f}"


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> Any:
    from baco.display.console import table

    words = [
        title
        for at, title in enumerate(titles)
        if not at or not all(row[at].replace(",", "").isdigit() for row in rows)
    ]
    return table(titles, rows, left=words)


def _sum(name: str, report: dict[str, Any]) -> str:
    operators, parts = report["operators"], report["subprograms"]
    relies = [one["relies_on"] for one in operators]
    together, alone = (sum(one[key] for one in parts) for key in ("dram_bytes", "dram_bytes_alone"))
    return (
        f"{name}: {len(operators)} operators, of whose results {relies.count('many')} rely on many elements of an operand and "
        f"{relies.count('one')} on one; {sum(one['computes'] for one in operators)} compute, the others move. "
        f"{len(parts)} subprograms: {together / 1024:,.0f} KiB of main memory, each tensor once, instead of {alone / 1024:,.0f}."
    )
