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
                        operator["name"],
                        operator["relies_on"],
                        f"{operator['operations']:,}",
                        f"{operator['moved']:,}",
                        "computes" if operator["computes"] else "moves",
                        str(operator["subprogram"]),
                    )
                    for operator in report["operators"]
                ],
            )
        )
        console.print()
    console.print(
        _table(
            ("subprogram", "operators", "scratchpad KiB", "accumulator KiB", "DRAM KiB", "one by one"),
            [
                (
                    _names(subprogram["operators"]),
                    str(len(subprogram["operators"])),
                    _kib(subprogram["scratchpad_bytes"]),
                    _kib(subprogram["accumulator_bytes"])
                    if subprogram["fits"]
                    else f"{_kib(subprogram['accumulator_bytes'])} (cut)",
                    _kib(subprogram["dram_bytes"]),
                    _kib(subprogram["dram_bytes_alone"]),
                )
                for subprogram in report["subprograms"]
            ],
        )
    )
    console.print()
    shown = report["reuse"] if every else report["reuse"][:_MOST]
    console.print(
        _table(
            ("read again", "by", "in", "KiB to save"),
            [
                (reuse["value"], ", ".join(reuse["readers"]), _WHERE[reuse["kind"]], _kib(reuse["bytes"]))
                for reuse in shown
            ],
        )
    )
    console.print()
    console.print(_sum(network.name, report), highlight=False)


_WHERE = {"spatial": "space", "temporal": "time", "both": "space and time"}


def _report(found: NetworkAnalysis, accelerator: Accelerator) -> dict[str, Any]:
    parts = found.subprograms(accelerator)
    of = {number: at for at, part in enumerate(parts, 1) for number in part.operators}
    names = [operator.operator.name for operator in found.operators]
    alone = [found.subprogram([number], accelerator) for number in range(len(names))]
    return {
        "operators": [
            {
                "name": operator.operator.name,
                "relies_on": "indirectly" if operator.indirect else "many" if operator.many else "one",
                "operations": operator.operations,
                "moved": operator.moved,
                "computes": operator.computes,
                "subprogram": of[number],
            }
            for number, operator in enumerate(found.operators)
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
                "value": reuse.value,
                "readers": [names[number] for number in reuse.readers],
                "kind": reuse.kind,
                "bytes": reuse.nbytes,
            }
            for reuse in found.reuse
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
    relies = [operator["relies_on"] for operator in operators]
    together, alone = (sum(part[key] for part in parts) for key in ("dram_bytes", "dram_bytes_alone"))
    return (
        f"{name}: {len(operators)} operators, of whose results {relies.count('many')} rely on many elements of an operand and "
        f"{relies.count('one')} on one; {sum(operator['computes'] for operator in operators)} compute, the others move. "
        f"{len(parts)} subprograms: {together / 1024:,.0f} KiB of main memory, each tensor once, instead of {alone / 1024:,.0f}."
    )
