"""Schedules of chains as tile trees: what trees hold and move by their own analysis is what schedules say, and trees that there is
code for are schedules again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.footprint import footprint, shortfalls
from baco.compiler.mapping.machine import machine_of
from baco.compiler.mapping.movement import movement
from baco.compiler.mapping.text import format_tree, parse_tree
from baco.compiler.styles.fused.chain import ChainSchedule, ProductChain, chain_rows
from baco.compiler.styles.fused.predict import chain_schedules, predict_chain
from baco.compiler.styles.fused.predict_strips import predict_strips, strip_schedules
from baco.compiler.styles.fused.strips import ConvolutionChain, StripSchedule
from baco.compiler.styles.fused.trees import Chain, chain_operators, schedule_of_tree, tree_of_schedule
from baco.workloads.problem import Problem

MACHINE = load_accelerator("gemmini-default")
SMALL = Accelerator(name="eight", dim=8, scratchpad_kib=16, accumulator_kib=8)


def products(
    groups: int, rows: int, depth: int, between: int, columns: int, *, softmax: bool = False
) -> ProductChain:
    first, second = (
        Layer(Problem(P=rows, C=c, K=k, groups=groups), scale=0.01)
        for c, k in ((depth, between), (between, columns))
    )
    return ProductChain(first, second, softmax)


def convolutions(size: int, channels: tuple[int, ...], windows: tuple[int, ...]) -> ConvolutionChain:
    """Without padding."""
    layers = []
    for c, k, window in zip(channels, channels[1:], windows, strict=False):
        made = size - window + 1
        layers.append(
            Layer(Problem(R=window, S=window, P=made, Q=made, C=c, K=k), scale=0.01, image=(size, size))
        )
        size = made
    return ConvolutionChain(tuple(layers))


def dram_bytes(chain: Chain, schedule: ChainSchedule | StripSchedule, accelerator: Accelerator) -> float:
    tree = tree_of_schedule(chain, schedule, accelerator)
    return float(sum(one.bytes for one in movement(tree, chain_operators(chain)) if one.outer == 3))


@pytest.mark.parametrize("accelerator", [MACHINE, SMALL], ids=str)
@pytest.mark.parametrize("sizes", [(12, 128, 64, 128, 64), (1, 64, 32, 96, 16), (3, 32, 16, 48, 64)])
def test_trees_of_products_hold_and_move_what_schedules_say(
    sizes: tuple[int, int, int, int, int], accelerator: Accelerator
) -> None:
    chain, machine = products(*sizes), machine_of(accelerator)
    operators = chain_operators(chain)
    fitting = 0
    for schedule in list(chain_schedules(chain, accelerator))[::3]:
        tree = tree_of_schedule(chain, schedule, accelerator)
        held = footprint(tree, operators, machine)
        assert (held[2].rows, held[1].rows) == chain_rows(chain, schedule, accelerator)
        try:
            cost = predict_chain(chain, schedule, accelerator)
        except InfeasibleError:
            assert shortfalls(tree, operators, machine)
            with pytest.raises(InfeasibleError):
                schedule_of_tree(chain, tree, accelerator)
            continue
        fitting += 1
        assert shortfalls(tree, operators, machine) == []
        moved = dram_bytes(chain, schedule, accelerator)
        whole = chain.rows % schedule.rows == 0  # trees charge strips that are not full as if they were
        assert cost.read_bytes + cost.written_bytes == moved if whole else moved > cost.read_bytes
        assert schedule_of_tree(chain, parse_tree(format_tree(tree)), accelerator) == schedule
    assert fitting > 5


@pytest.mark.parametrize("rows", [64, 96])
def test_trees_of_scores_in_tiles_hold_what_schedules_say(rows: int) -> None:
    machine = load_accelerator("gemmini-transformer")
    chain = products(3, rows, 32, 512, 48, softmax=True)
    operators = chain_operators(chain)
    staged = [one for one in chain_schedules(chain, machine) if one.staged(chain)]
    assert {one.columns for one in staged} == {64, 128, 256}
    for schedule in staged:
        tree = tree_of_schedule(chain, schedule, machine)
        held = footprint(tree, operators, machine_of(machine))
        assert (held[2].rows, held[1].rows) == chain_rows(chain, schedule, machine)
        try:
            cost = predict_chain(chain, schedule, machine)
        except InfeasibleError:
            continue
        if rows % schedule.rows == 0:
            table = 512
            assert cost.read_bytes + cost.written_bytes - table == dram_bytes(chain, schedule, machine)
        assert schedule_of_tree(chain, parse_tree(format_tree(tree)), machine) == schedule


@pytest.mark.parametrize(
    "chain",
    [
        convolutions(16, (32, 64, 32), (1, 1)),
        convolutions(12, (48, 64, 96, 32), (1, 1, 1)),
        convolutions(18, (32, 64, 48), (3, 1)),
        convolutions(18, (32, 32, 64), (1, 3)),
    ],
    ids=str,
)
def test_trees_of_convolutions_move_what_strips_do(chain: ConvolutionChain) -> None:
    seen = set()
    for schedule in list(strip_schedules(chain))[::2]:
        tree = tree_of_schedule(chain, schedule, MACHINE)
        even = replace(schedule, begin=schedule.rows)  # strips of one height, as trees have them
        try:
            cost = predict_strips(chain, even, MACHINE)
        except InfeasibleError:
            continue
        assert parse_tree(format_tree(tree)) == tree
        found = schedule_of_tree(chain, tree, MACHINE)
        assert isinstance(found, StripSchedule)
        assert (found.rows, found.streamed) == (schedule.rows, schedule.streamed)
        best = predict_strips(chain, found, MACHINE).cycles
        assert best == min(predict_strips(chain, one, MACHINE).cycles for one in (even, schedule, found))
        if chain.layers[-1].problem.Q % schedule.rows == 0 and not schedule.streamed:
            assert dram_bytes(chain, schedule, MACHINE) == cost.read_bytes + cost.written_bytes
            seen.add(schedule.rows)
    assert len(seen) > 1


def test_weights_that_come_with_every_strip_move_so_often() -> None:
    chain = convolutions(16, (64, 128, 64), (1, 1))
    for streamed in ((0,), (1,), (0, 1)):
        held, again = (dram_bytes(chain, StripSchedule(4, 4, one), MACHINE) for one in ((), streamed))
        assert again - held == 3 * 64 * 128 * len(streamed)  # in three of four strips once more


def test_a_tree_without_code_is_refused_with_the_nearest_that_has_it() -> None:
    chain = products(2, 64, 32, 64, 32)
    tree = format_tree(tree_of_schedule(chain, ChainSchedule(16, 64, "group", (2, 2, 2)), MACHINE))
    for old, new in (
        ("P16 @first", "P8 @first"),
        ("P16 @second", "P32 @second"),
        ("K2 C4", "C4 K2"),
        ("W2:2", "W2:3"),
        ("Shar(", "Seq("),
    ):
        assert old in tree
        with pytest.raises(InputError, match="there is no code for this tree") as raised:
            schedule_of_tree(chain, parse_tree(tree.replace(old, new)), MACHINE)
        nearest = str(raised.value.hint).split(": ", 1)[1]
        assert isinstance(schedule_of_tree(chain, parse_tree(nearest), MACHINE), ChainSchedule)
    with pytest.raises(InputError, match="leaves of the tree are not the chain's operators: first, second"):
        schedule_of_tree(chain, parse_tree(tree.replace("@second", "@other")), MACHINE)
