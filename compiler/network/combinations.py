"""What operators of a network do together beside groups that run as one unit, where the compiler chooses.

Searches and their plans do not know of it: their layers are those of operators one by one, or of groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from baco.accel.config import Accelerator
from baco.compiler.network.diagonal import DiagonalChoice, Diagonals
from baco.compiler.network.lowered import Scheduler
from baco.compiler.network.riding import RideChoice, Rides


@dataclass(frozen=True)
class Combinations:
    """By default nothing.

    Attributes:
        diagonals: how many groups of a convolution with constant weights run as one, on a diagonal; None: each by itself.
        rides: whether a product and an addition to its results run as one; None: one after the other.
        beside: whether the host works on parts of results while the array makes others (`baco.compiler.network.shared_work`).
        sums: whether the array adds up rows that the host normalises, as layers of their own.
    """

    diagonals: Diagonals | None = None
    rides: Rides | None = None
    beside: bool = False
    sums: bool = False


def chosen_combinations(accelerator: Accelerator, schedule: Scheduler, *, fused: bool) -> Combinations:
    """What programs for an accelerator have without being told to.

    Args:
        schedule: chooses how a layer is carried out.
        fused: whether operators run in groups.

    The host works beside the array for the original only: searches of other accelerators look at whole products.
    """
    if fused:
        return Combinations(sums=True)
    beside = accelerator.timing == "gemmini" and not accelerator.features.row_functions
    return Combinations(
        DiagonalChoice(accelerator, schedule), RideChoice(accelerator, schedule), beside, sums=True
    )
