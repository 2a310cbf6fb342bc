"""`baco fuse`: which operators of a network run as one unit, why, and what it saves; tile trees of chains, measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baco.cli.compile_options import DEFAULT_ACCELERATOR, Accelerator
from baco.cli.completions import network_completions
from baco.common.errors import InputError, Location, only_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from baco.accel.config import Accelerator as Hardware
    from baco.compiler.mapping.contraction import Contraction
    from baco.compiler.mapping.machine import Machine
    from baco.compiler.network.graph import QuantisedNetwork
    from baco.compiler.network.group_choice import Considered


@dataclass(frozen=True)
class GroupFlags:
    """Of a network, what is shown.

    Attributes:
        layers (N): Run repeated blocks only so many times.
        analysis: Of a network: what its operators depend on, what several of them read, and which could keep all between them
            on chip. --all lists every operator.
    """

    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            metavar="NAME|FILE",
            autocompletion=network_completions,
            help="As `baco compile --network` takes it.",
        ),
    ] = None
    accelerator: Accelerator = DEFAULT_ACCELERATOR
    layers: int | None = None
    every: Annotated[
        bool, typer.Option("--all", help="Show all that was looked at, with the reasons against it.")
    ] = False
    analysis: bool = False

    @property
    def given(self) -> dict[str, object]:
        """What says something of networks alone, by how it is written."""
        return {
            "--accelerator": self.accelerator != DEFAULT_ACCELERATOR,
            "--layers": self.layers,
            "--all": self.every,
            "--analysis": self.analysis,
        }


@dataclass(frozen=True)
class ChainFlags:
    """Of a chain, on what and how long it is searched.

    Attributes:
        chain (KIND:SIZES): Instead of a network: attention:heads=12,seq=512,dim=64, or
            convolutions:channels=64,height=56,width=56,first=64,second=64,window1=1,window2=3.
        machine (NAME|FILE.yaml): Of a chain: edge, cloud, or a file with levels of memories; or an accelerator, as --accelerator names
            one.
        rounds: Of a chain on a machine of levels: generations of the search.
        seed: Of a chain: of the search; of an accelerator's program, of weights and inputs.
        tree: Of a chain on an accelerator: a tile tree to look at instead of all, written as they are printed.
        measure: Of a chain on an accelerator: compile the best tree, run it on the RTL, compare every result with integers, and show
            cycles beside the predicted ones.
    """

    chain: str | None = None
    machine: str = "edge"
    rounds: Annotated[int, typer.Option(min=1, max=1000)] = 8
    seed: Annotated[int, typer.Option(min=0)] = 0
    tree: str | None = None
    measure: bool = False

    @property
    def given(self) -> dict[str, object]:
        """What says something of chains alone, by how it is written."""
        usual = ChainFlags()
        return {
            f"--{name}": getattr(self, name) != getattr(usual, name)
            for name in ("machine", "rounds", "seed", "tree", "measure")
        }


def fuse(asked: GroupFlags, chain: ChainFlags, json: bool = False) -> None:
    """Show what is fused in a network's program, why, and what it saves; or search the tile tree of a chain of operators.

    Operators whose results nobody else reads may run as one unit that keeps these results on chip: attention's scores,
    softmax and values, and convolutions one behind the other. Products of the same input (queries, keys and values) may run as
    one unit that loads it once. Cycles and bytes of main memory are predictions, as one unit and
    one by one; `baco run --network ... --engine rtl`, with and without --no-fusion, measures them.

    With --analysis, the limits of that: results that rely on one element of an operand or on many, operators that compute or move,
    tensors that are read again, and the partition into subprograms that the scratchpad and the accumulator allow, each tensor of
    main memory counted once. Analysis alone, too.

    With --chain, a chain of operators on any machine of levels: published dataflows, each with its best tile sizes, against a search
    over which operators meet where, in which relation, and in which tiles; analysis alone. On an accelerator
    (--machine gemmini-default), the trees that there is code for, against operators one by one; --measure compiles and runs the best.
    """
    if chain.chain is not None and asked.network is None:
        only_with("--network", asked.given)
        _chain(chain.chain, chain, json=json)
        return
    if asked.network is None or chain.chain is not None:
        raise InputError(
            "give a network or a chain", location=Location("--network"), hint="--help shows both"
        )
    only_with("--chain", chain.given)
    from baco.api.network_unit import prepare_network
    from baco.api.program_options import CompileOptions

    options = CompileOptions(asked.network, asked.accelerator, layers=asked.layers)
    unit = prepare_network(options.request(compare=False))
    target = unit.request.accelerator
    if asked.analysis:
        from baco.cli.network_analysis import show_analysis

        show_analysis(unit.network, target, every=asked.every, json=json)
        return
    _groups(unit.network, target, every=asked.every, json=json)


def _groups(network: QuantisedNetwork, target: Hardware, *, every: bool, json: bool) -> None:
    """Groups that are taken; with `every` all that were looked at."""
    from baco.compiler.network.group_choice import GroupChoice
    from baco.compiler.network.lowering import lower_network
    from baco.compiler.network.program import scheduler
    from baco.display.console import print_json, stdout

    schedule = scheduler(target)
    choice = GroupChoice(target, schedule)
    chosen = set(lower_network(network, target, schedule, choice).units)
    rows = [_row(one, one.names in chosen) for one in choice.considered if every or one.names in chosen]
    if json:
        print_json({"network": network.name, "accelerator": target.config_hash, "groups": rows})
        return
    stdout().print(_table(rows))
    fused = [one for one in rows if one["fused"]]
    stdout().print(_sum(network.name, fused, len(choice.considered)))


def _chain(text: str, asked: ChainFlags, *, json: bool) -> None:
    from baco.accel.presets import load_accelerator
    from baco.compiler.mapping.chains import parse_chain
    from baco.compiler.mapping.machines import is_machine, load_machine

    operators = parse_chain(text)
    if is_machine(asked.machine):
        only_with("an accelerator", {"--tree": asked.tree, "--measure": asked.measure})
        _trees(text, operators, load_machine(asked.machine), asked, json=json)
        return
    accelerator = load_accelerator(asked.machine)
    only_with("a machine of levels", {"--rounds": asked.rounds != ChainFlags().rounds})
    _programs(text, accelerator, asked, json=json)


def _trees(
    text: str, operators: Sequence[Contraction], machine: Machine, asked: ChainFlags, *, json: bool
) -> None:
    from baco.display.console import print_json, stderr, stdout
    from baco.exploration.samplers.tree_structures import compare_trees, trees_table

    console = stderr()
    rows = compare_trees(
        operators,
        machine,
        rounds=asked.rounds,
        seed=asked.seed,
        watch=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    if json:
        print_json({"chain": text, "machine": machine.name, "dataflows": rows})
        return
    stdout().print(trees_table(f"{text} on {machine.name}", rows), highlight=False, soft_wrap=True)


def _programs(text: str, accelerator: Hardware, asked: ChainFlags, *, json: bool) -> None:
    from baco.compiler.mapping.text import parse_tree
    from baco.display.console import print_json, stderr, stdout
    from baco.exploration.measure.chain_trees import ChainTrees, chain_rows

    tree = None if asked.tree is None else parse_tree(asked.tree, Location("--tree"))
    trees = ChainTrees(text, accelerator, asked.seed)
    console = stderr()
    rows = chain_rows(
        trees,
        tree,
        measure=asked.measure,
        watch=lambda line: console.print(line, highlight=False, soft_wrap=True),
    )
    if json:
        names = {"chain": text, "accelerator": accelerator.config_hash, "reason": trees.reason}
        print_json(names | {"programs": rows})
        return
    out = stdout()
    out.print(_programs_table(rows))
    best = next(row for row in rows if row["best"])
    lines = [f"best: {best['program']}", *([str(best["tree"])] if best["tree"] else []), *best["schedules"]]
    if trees.reason:
        lines.append(f"not as one unit: {trees.reason}")
    if best["measured_cycles"] is not None:
        lines.append(
            f"measured on the RTL: {best['measured_cycles']:,} cycles, of which {best['cycles']:,.0f} were predicted"
            f" ({best['error']:+.1%}), and {best['measured_dram_bytes']:,} bytes of main memory; every result is that of integers"
        )
    out.print("\n".join(lines), highlight=False, soft_wrap=True)


def _programs_table(rows: list[dict[str, Any]]) -> Any:
    from baco.display.console import table

    cells = (
        (row["program"], f"{row['cycles']:,.0f}", f"{row['dram_bytes'] / 1024:,.0f}", row["schedules"][-1])
        for row in rows
    )
    return table(("program", "cycles", "DRAM KiB", "how"), cells, left=("program", "how"))


def _row(one: Considered, fused: bool) -> dict[str, Any]:
    from baco.compiler.styles.fused.merged import MergedProducts

    reason = one.reason or ("" if fused else "other groups of the same operators save more")
    known = one.schedule is not None
    return {
        "operators": list(one.names),
        "fused": fused,
        "merged": isinstance(one.group, MergedProducts),
        "group": str(one.group),
        "schedule": str(one.schedule) if known else None,
        "reason": reason,
        "cycles": one.cycles if known else None,
        "cycles_alone": one.cycles_alone,
        "dram_bytes": one.bytes if known else None,
        "dram_bytes_alone": one.bytes_alone,
    }


def _table(rows: list[dict[str, Any]]) -> Any:
    from baco.display.console import table

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        known = row["cycles"] is not None
        return (
            (" + " if row["merged"] else " > ").join(row["operators"]),
            f"{row['cycles']:,.0f}" if known else "",
            f"{row['cycles_alone']:,.0f}",
            f"{row['dram_bytes'] / 1024:,.0f}" if known else "",
            f"{row['dram_bytes_alone'] / 1024:,.0f}",
            row["schedule"] if row["fused"] else row["reason"],
        )

    words = ("operators", "how, or why not")
    titles = (words[0], "cycles", "one by one", "DRAM KiB", "one by one", words[1])
    return table(titles, map(cells, rows), left=words)


def _sum(name: str, fused: list[dict[str, Any]], looked_at: int) -> str:
    if not fused:
        return f"{name}: nothing is fused; {looked_at} groups were looked at (--all shows why not)"
    cycles, alone = (sum(one[key] for one in fused) for key in ("cycles", "cycles_alone"))
    moved, moved_alone = (sum(one[key] for one in fused) for key in ("dram_bytes", "dram_bytes_alone"))
    return (
        f"{name}: {len(fused)} groups of {looked_at} looked at; {alone - cycles:,.0f} of their {alone:,.0f} cycles and"
        f" {(moved_alone - moved) / 1024:,.0f} of their {moved_alone / 1024:,.0f} KiB of main memory saved, as predicted"
    )
