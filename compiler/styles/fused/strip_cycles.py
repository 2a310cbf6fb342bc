"""Cycles of a chain of convolutions strip by strip, by constants of our RTL and of the code.

A *turn* is what one convolution does in one round. The array takes a block of weights in `a` cycles: as long as its rows take, at
least as many as the array has rows, and half of these more where pixels a stride apart meet the weights in one bank. The host core
takes `h` for it: for the block, for each row of results, for each of the row's passes, for the choice of zeros above and below the
image. It runs a few passes ahead of the array, so over a block of results the slower one counts:

    blocks * max(deep * a + results, deep * h + block + moves * move) + begin

cycles, or as long as weights take that come again. What the host core does between two turns, `begin`, counts in so far as the array
waits for it: where the array is the slower one, the reservation station and the queues before it are full when the host core is done
with a turn, and their passes go on. A round takes as long as its turns, or as what main memory moves in it, or as the moves between
accumulator and scratchpad.
Before the first round come the loads that it needs, and code that runs for the first time waits for main memory.

The constants are in `strip_costs.json`, fitted by `python -m baco.bench.fit.strips`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
COSTS_FILE = "strip_costs.json"


@dataclass(frozen=True)
class Turn:
    """One convolution in every round, by many schedules: arrays (S, rounds), or numbers that are the same for all.

    Attributes:
        busy: whether it computes rows in the round.
        blocks, deep: blocks of results, and blocks of weights of each.
        array: cycles of the array for a block of weights.
        rows, passes: of a block of weights.
        unrolled: whether places of the window are written one by one.
        padded: whether rows above or below the image are read.
        moves: commands that bring biases and move results away, for each block of results.
        kept: rows of results that go to the scratchpad, of all blocks.
        pixels: of these.
        streamed: cycles of main memory for weights that come again.
        lead: likewise for the first weights, while only the turns before this one of the round go on.
    """

    busy: Bools
    blocks: int
    deep: int
    array: Floats
    rows: Integers
    passes: Integers
    unrolled: bool
    padded: bool
    moves: Integers
    kept: Integers
    pixels: Integers
    streamed: Floats
    lead: Floats


@dataclass(frozen=True)
class StripWork:
    """All of an image, by many schedules.

    Attributes:
        turns: of every round, in order.
        memory: cycles of main memory in every round, (S, rounds).
        convolutions: how many there are.
        copies: how often the code of passes through a block of weights is there: for every place of a window, and for blocks of
            fewer channels.
        before: cycles of loads before the first pass, (S,).
        behind: cycles of main memory behind the last pass, (S,).
        waiting: passes that the reservation station and the queues before it hold.
    """

    turns: tuple[Turn, ...]
    memory: Floats
    convolutions: int
    copies: int
    before: Floats
    behind: Floats
    waiting: int


@functools.cache
def strip_costs() -> Mapping[str, float]:
    """The constants by name, in cycles."""
    text = (resources.files("baco.compiler") / "styles" / "fused" / COSTS_FILE).read_text(encoding="utf-8")
    return {name: float(value) for name, value in json.loads(text)["costs"].items()}


def strip_cycles(work: StripWork, costs: Mapping[str, float]) -> Floats:
    """From the first command to the last result, (S,)."""
    total = costs["start"] + costs["first"] * work.convolutions + costs["copy"] * work.copies
    store = np.zeros(work.memory.shape)
    for turn in work.turns:
        store = store + (turn.pixels + costs["keep"] * turn.kept)
    rounds = np.maximum(np.maximum(_turns_cycles(work, costs), work.memory), store)
    # one by one, so that the sum does not depend on how many schedules there are
    return np.asarray(
        total + (work.before + work.behind) + np.add.accumulate(rounds, axis=1)[:, -1], dtype=np.float64
    )


def _turns_cycles(work: StripWork, costs: Mapping[str, float]) -> Floats:
    """Of all turns of every round, (S, rounds)."""
    total = np.zeros(work.memory.shape)
    for turn in work.turns:
        row = costs["row"] + costs["padded"] * turn.padded
        each = costs["weights"] + costs["unrolled"] * turn.unrolled
        host = each + turn.rows * row + turn.passes * costs["pass"]
        beside = costs["block"] + turn.moves * costs["move"]
        array, issued = turn.deep * turn.array + costs["results"], turn.deep * host + beside
        ahead = np.maximum(turn.blocks * (array - issued), 0.0)
        held = work.waiting * turn.array / np.maximum(turn.passes, 1)
        begin = np.maximum(costs["begin"] - np.minimum(ahead, held), 0.0)
        later = np.maximum(total, turn.lead) + np.maximum(
            turn.blocks * np.maximum(array, issued) + begin, turn.streamed + costs["begin"]
        )
        total = np.where(turn.busy, later, total)
    return total
