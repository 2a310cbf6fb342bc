"""Pipelines of passes: a timeline by hand, words of the movement analysis, what must be refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from baco.common.errors import InputError
from baco.compiler.mapping.contraction import matmul
from baco.compiler.mapping.machine import ArrayAxis, Level, Machine
from baco.compiler.mapping.movement import movement
from baco.compiler.mapping.pipeline import run_pipeline
from baco.compiler.mapping.templates import chained_products, tiled_product
from baco.compiler.mapping.text import parse_tree
from baco.compiler.mapping.tree import Loop, Residency, Tile
from tests.seeds import seeds

MACHINE = Machine(
    "small",
    (Level("registers"), Level("buffer"), Level("memory", reads_per_cycle=2.0, writes_per_cycle=1.0)),
    (ArrayAxis(0, 4), ArrayAxis(0, 4)),
    {},
    transfer_cycles=3,
    pass_cycles=10,
)


def test_a_timeline_by_hand() -> None:
    """Two tiles of n: loads of 32 words take 16 + 3 cycles each, passes 8 + 10, stores 32 + 3.

    Without reuse A comes twice: loads end at 38 and 76, passes at 56 and 94; stores at 91 and 129.
    """
    tree, operators = tiled_product((8, 8, 4), (8, 4, 4), dataclasses.replace(MACHINE, reuses_blocks=False))
    # A: 8 x 4 = 32 words, B: 4 x 4 = 16 words: 16 + 3 + 8 + 3 = 30 cycles of loads a pass
    run = run_pipeline(tree, operators, dataclasses.replace(MACHINE, reuses_blocks=False))
    first = 30 + (8 + 10)
    second = max(60, first) + (8 + 10)
    stored = max(first + 35, second) + 35
    assert run.cycles == stored + 1
    assert (run.read_words, run.written_words, run.array_cycles, run.passes) == (96, 64, 36, {"": 2})
    # with reuse A comes once, and the second pass waits for its 8 + 3 cycles of B alone
    run = run_pipeline(tree, operators, MACHINE)
    second = max(41, first) + 18
    assert run.cycles == max(first + 35, second) + 35 + 1
    assert run.read_words == 64


def test_few_copies_hold_loads_back() -> None:
    """With one copy a load waits for the pass before: loads and passes alternate."""
    tree, operators = tiled_product((4, 12, 64), (4, 4, 64), dataclasses.replace(MACHINE, copies=1))
    run = run_pipeline(tree, operators, MACHINE)
    passed, at = 64 / 4 * 4 + 10, 0.0
    for number in range(3):
        load = (4 * 64 / 2 + 3) * (number == 0) + 4 * 64 / 2 + 3
        at += load + passed
    assert run.cycles == at + 4 * 4 + 3 + 1
    tree, operators = tiled_product((4, 12, 64), (4, 4, 64), dataclasses.replace(MACHINE, copies=3))
    assert run_pipeline(tree, operators, MACHINE).cycles == 4 * (4 * 64 / 2 + 3) + passed + 4 * 4 + 3 + 1


@pytest.mark.parametrize("seed", seeds(8, of=60))
def test_words_are_those_of_the_movement_analysis(seed: int) -> None:
    """Blocks followed one by one against the closed form, loops in any order, sums through main memory included."""
    rng = np.random.default_rng(seed)
    loops = [Loop(str(dim), int(rng.integers(1, 4))) for dim in rng.permutation(list("mnk"))]
    tile = {dim: int(rng.integers(1, 5)) for dim in "mnk"}
    leaf = Tile(0, (), tuple(Loop(dim, size) for dim, size in tile.items()))
    inner = Tile(1, tuple(map(Residency, "ABD")), (), (leaf,))
    cut = int(rng.integers(0, 4))
    middle = Tile(
        1,
        tuple(map(Residency, "".join(t for t in "ABD" if rng.random() < 0.4))),
        tuple(loops[cut:]),
        (inner,),
    )
    if any(residency.tensor == "D" for residency in middle.keeps):
        inner = dataclasses.replace(inner, keeps=tuple(map(Residency, "AB")))
        middle = dataclasses.replace(middle, children=(inner,))
    tree = Tile(2, tuple(map(Residency, "ABD")), tuple(loops[:cut]), (middle,))
    total = {dim: tile[dim] * next(loop.factor for loop in loops if loop.dim == dim) for dim in "mnk"}
    operators = [matmul(total["m"], total["n"], total["k"])]
    run = run_pipeline(tree, operators, MACHINE)
    moved = [transfer for transfer in movement(tree, operators) if transfer.outer == 2]
    assert run.read_words == sum(transfer.down for transfer in moved)
    assert run.written_words == sum(transfer.up for transfer in moved)


def test_a_chain_keeps_what_lies_between_on_chip() -> None:
    sizes = {"m": 32, "k": 16, "l": 24, "n": 8}
    tree, operators = chained_products(sizes, {"m": 8, "k": 8, "l": 24, "l2": 12, "n": 8}, MACHINE)
    run = run_pipeline(tree, operators, MACHINE)
    assert run.read_words == 32 * 16 + 4 * (16 * 24 + 24 * 8)
    assert run.written_words == 32 * 8
    assert run.passes == {"first": 4 * 2, "second": 4 * 2}
    moved = [one for one in movement(tree, operators) if one.outer == 2]
    assert (run.read_words, run.written_words) == (sum(m.down for m in moved), sum(m.up for m in moved))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("L2[A,B,D,E] m=4 - L1[C] Pipe( L1[A,B] l=4 k=4 @first | L1[D,E] l=4 n=4 @second )", "has one array"),
        (
            "L2[A,B,D,E] m=4X - L1[C] Shar( L1[A,B] l=4 k=4 @first | L1[D,E] l=4 n=4 @second )",
            "has one array",
        ),
        ("L2[A,B,C,D,E] m=4 Shar( L1[C] l=4 k=4 @first | L1[C,D,E] l=4 n=4 @second )", "keeps A"),
    ],
)
def test_what_one_array_cannot_run_is_refused(text: str, message: str) -> None:
    sizes = {"m": 4, "k": 4, "l": 4, "n": 4}
    _, operators = chained_products(sizes, {"m": 4, "k": 4, "l": 4, "l2": 4, "n": 4}, MACHINE)
    with pytest.raises(InputError, match=message):
        run_pipeline(parse_tree(text), operators, MACHINE)


def test_rates_of_main_memory_are_needed() -> None:
    levels = (*MACHINE.levels[:-1], Level("memory"))
    with pytest.raises(InputError, match="how fast memory is read"):
        run_pipeline(
            *tiled_product((4, 4, 4), (4, 4, 4), MACHINE), dataclasses.replace(MACHINE, levels=levels)
        )
