"""Whether a store in a nest of loops writes every element once: found out by going through all rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import memref, scf

from baco.compiler.blocks.reading import mixed
from baco.compiler.blocks.rounds import MOST_ROUNDS, Rounds


def writes_once(view: memref.ReinterpretCastOp, loops: Sequence[scf.ForOp]) -> bool:
    """No two rounds of the loops around a store to the view, nor two of its rows, share an element.

    False also where that cannot be seen: bounds or places that depend on anything but the loops' numbers, more than
    4 million rows, blocks of more than two dimensions or of rows that are not dense.
    """
    rounds = Rounds.of(loops)
    if rounds is None:
        return False
    strides = mixed(view.static_strides.get_values(), view.strides)
    sizes = mixed(view.static_sizes.get_values(), view.sizes)
    offset = rounds.evaluate(mixed(view.static_offsets.get_values(), view.offsets)[0])
    extents = [rounds.evaluate(size) for size in sizes]
    if offset is None or any(one is None for one in extents) or not 1 <= len(sizes) <= 2:
        return False
    rows, columns = (extents[0] if len(sizes) == 2 else np.ones(rounds.count, np.int64)), extents[-1]
    pitch = strides[0] if len(sizes) == 2 else 1
    assert rows is not None
    assert columns is not None
    if strides[-1] != 1 and columns.max(initial=0) > 1:
        return False
    if not isinstance(pitch, int) and rows.max(initial=0) > 1:
        return False
    most = int(rows.max(initial=0))
    if rounds.count * most > MOST_ROUNDS:
        return False
    at = np.arange(most)
    starts = offset[:, None] + at[None, :] * (pitch if isinstance(pitch, int) else 0)
    there = (at[None, :] < rows[:, None]) & (columns[:, None] > 0)
    first = starts[there]
    last = first + np.broadcast_to(columns[:, None], there.shape)[there]
    order = np.argsort(first, kind="stable")
    return bool(np.all(first[order][1:] >= last[order][:-1]))
