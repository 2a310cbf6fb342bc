"""Cycles of a chain of convolutions strip by strip, by constants of our RTL and of the code.

A *turn* is what one convolution does in one round. The array takes a block of weights in `a` cycles: as long as its rows take, at
least as many as the array has rows, and half of these more where pixels a stride apart meet the weights in one bank. The host core
takes `h` for it: for the block, for each row of results, for each of the row's passes, for the choice of zeros above and below the
image. It runs a few passes ahead of the array, so over a block of results the slower one counts:

    blocks * max(deep * a + results, deep * h + block + moves * move) + begin

cycles, or as long as weights take that come again. A round takes as long as its turns, or as what main memory moves in it, or as the moves between accumulator and scratchpad.
Before the first round come the loads that it needs, and code that runs for the first time waits for main memory.

The constants are in `strip_costs.json`, fitted by `python -m baco.bench.fit.strips`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

__all__ = ["COSTS_FILE", "StripRound", "StripWork", "Turn", "strip_costs", "strip_cycles"]

COSTS_FILE = "strip_costs.json"


@dataclass(frozen=True)
class Turn:
    """One convolution in one round.

    Attributes:
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

    blocks: int
    deep: int
    array: float
    rows: int
    passes: int
    unrolled: bool
    padded: bool
    moves: int
    kept: int
    pixels: int
    streamed: float
    lead: float


@dataclass(frozen=True)
class StripRound:
    """What happens in a round: turns, and cycles of main memory."""

    turns: tuple[Turn, ...]
    memory: float


@dataclass(frozen=True)
class StripWork:
    """All of an image.

    Attributes:
        rounds: in order.
        convolutions: how many there are.
        copies: how often the code of passes through a block of weights is there: for every place of a window, and for blocks of
            fewer channels.
        before: cycles of loads before the first pass.
        behind: cycles of main memory behind the last pass.
    """

    rounds: tuple[StripRound, ...]
    convolutions: int
    copies: int
    before: float
    behind: float


@functools.cache
def strip_costs() -> Mapping[str, float]:
    """The constants by name, in cycles."""
    text = (resources.files("baco.compiler") / "styles" / "fused" / COSTS_FILE).read_text(encoding="utf-8")
    return {name: float(value) for name, value in json.loads(text)["costs"].items()}


def strip_cycles(work: StripWork, costs: Mapping[str, float]) -> float:
    """From the first command to the last result."""
    total = costs["start"] + costs["first"] * work.convolutions + costs["copy"] * work.copies
    total += work.before + work.behind
    return total + sum(_round_cycles(one, costs) for one in work.rounds)


def _round_cycles(one: StripRound, costs: Mapping[str, float]) -> float:
    store = sum(turn.pixels + costs["keep"] * turn.kept for turn in one.turns)
    return max(_turns_cycles(one.turns, costs), one.memory, store)


def _turns_cycles(turns: Sequence[Turn], costs: Mapping[str, float]) -> float:
    total = 0.0
    for turn in turns:
        row = costs["row"] + costs["padded"] * turn.padded
        each = costs["weights"] + costs["unrolled"] * turn.unrolled
        host = each + turn.rows * row + turn.passes * costs["pass"]
        beside = costs["block"] + turn.moves * costs["move"]
        block = max(turn.deep * turn.array + costs["results"], turn.deep * host + beside)
        total = max(total, turn.lead)
        total += max(turn.blocks * block, turn.streamed) + costs["begin"]
    return total
