"""`baco bench`: measurements of the cost model, the searchers, the compiler, and the RTL with its simulation."""

from __future__ import annotations

import typer

from baco.cli.checked import CommandGroup
from baco.commands.bench.models import latency, measurements, model, timing
from baco.commands.bench.paper import paper
from baco.commands.bench.programs import (
    chains,
    compiler,
    fusion,
    intrinsics,
    kernels,
    pipelining,
    programs,
    rtl,
    trees,
)
from baco.commands.bench.searches import executors, importance, loop, optimality, search
from baco.commands.bench.tuning import defaults, directions, guided, sketches
from baco.commands.root import show_help_if_alone

bench = CommandGroup()


@bench.callback(invoke_without_command=True)
def group(context: typer.Context) -> None:
    """Measure the cost model, the searchers and the simulation on this machine."""
    show_help_if_alone(context)


for command in (
    model, paper, search, executors, importance, optimality, rtl, compiler, programs, fusion, chains, kernels, pipelining,
    intrinsics, trees, sketches, defaults, directions, guided, measurements, timing, latency, loop,
):  # fmt: skip
    bench.command()(command)
