"""How often the nets of a design switched while a program ran, as its netlist counted (`baco.accel.synthesis.gates`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baco.accel.synthesis.gates import COUNTER_BITS, WORD


@dataclass(frozen=True)
class Switching:
    """What nets did.

    Attributes:
        cycles: of the clock in the run, those in which nothing moved included.
        toggles: changes of each net between settled values, shape (nets,); glitches within a cycle are not seen.
        high: share of the cycles in which each was 1, shape (nets,).
    """

    cycles: int
    toggles: NDArray[np.int64]
    high: NDArray[np.float64]


def read_switching(path: Path, nets: int, cycles: int) -> Switching:
    """What a netlist wrote.

    Args:
        path: as it was told.
        nets: of the flat design.
        cycles: that the run took: those that it skipped, since nothing moved, left every net as the mean found it.
    """
    words = -(-nets // WORD)
    edges = int(Path(f"{path}.edges").read_text(encoding="ascii").split()[-1], 16)
    switched, high = (_counts(Path(f"{path}.{name}"), words)[:nets] for name in ("switched", "high"))
    return Switching(cycles, switched, high / edges)


def _counts(path: Path, words: int) -> NDArray[np.int64]:
    """Counters, shape (words * WORD,): bit b of a word's counters is one line of hexadecimal digits."""
    lines = [line for line in path.read_text(encoding="ascii").splitlines() if line[:1] not in ("/", "@")]
    bits = np.array([int(line, 16) for line in lines], np.uint64).reshape(words, COUNTER_BITS, 1)
    places = np.arange(WORD, dtype=np.uint64)
    each = (bits >> places) & np.uint64(1)
    values: NDArray[np.int64] = (
        (each << np.arange(COUNTER_BITS, dtype=np.uint64)[:, None]).sum(1).astype(np.int64)
    )
    return values.reshape(-1)
