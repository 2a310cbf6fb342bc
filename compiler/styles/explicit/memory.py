"""Where the tiles of a plan lie in the local memories."""

from __future__ import annotations

from dataclasses import dataclass

from baco.common.errors import InfeasibleError
from baco.compiler.styles.explicit.plan import ExplicitPlan


@dataclass(frozen=True)
class TileCopies:
    """Copies of one tile.

    Attributes:
        name: W, I or O.
        starts: first row of each copy.
        rows: of a copy.
    """

    name: str
    starts: tuple[int, ...]
    rows: int

    @property
    def distance(self) -> int:
        """Rows from the first copy to the second; 0 if there is one."""
        return self.starts[-1] - self.starts[0]

    @property
    def room(self) -> tuple[int, int]:
        """Rows of a copy, and copies."""
        return self.rows, len(self.starts)

    @property
    def end(self) -> int:
        """Row behind the last one."""
        return self.starts[-1] + self.rows

    def __str__(self) -> str:
        return f"{self.name} {', '.join(f'{start}..{start + self.rows - 1}' for start in self.starts)}"


@dataclass(frozen=True)
class LocalMemory:
    """Rows of both local memories as a plan uses them.

    Attributes:
        weights, inputs: in the scratchpad.
        results: in the accumulator.
        scratchpad_rows, accumulator_rows: capacities.
    """

    weights: TileCopies
    inputs: TileCopies
    results: TileCopies
    scratchpad_rows: int
    accumulator_rows: int

    @property
    def scratchpad_used(self) -> int:
        """Rows of the smallest scratchpad that has all these addresses."""
        return max(self.weights.end, self.inputs.end)

    @property
    def accumulator_used(self) -> int:
        """Rows of the smallest accumulator that has all these addresses."""
        return self.results.end

    def __str__(self) -> str:
        return (
            f"scratchpad of {self.scratchpad_rows} rows: {self.inputs}; {self.weights}\n"
            f"accumulator of {self.accumulator_rows} rows: {self.results}"
        )


def allocate(plan: ExplicitPlan) -> LocalMemory:
    """Rows for every tile. Raises InfeasibleError naming the memory and by how much it is too small.

    A pass reads A and B at once, and they may not meet in one bank: in Gemmini banks are quarters (or so) of the
    scratchpad, here the quarters alternate between two groups of banks. So copies of I start quarters 0 and 2 and copies
    of W quarters 1 and 3 if they fit; otherwise I grows from the bottom and W from the top. The two copies of O lie in
    different halves of the accumulator, which are different banks.
    """
    a = plan.accelerator
    copies_w, copies_i, copies_o = plan.copies
    w, i, o = plan.weight_rows, plan.input_rows, plan.result_rows
    _check("scratchpad", copies_w * w + copies_i * i, a.scratchpad_rows, f"{copies_w} of W, {copies_i} of I")
    _check("accumulator", copies_o * o, a.accumulator_rows, f"{copies_o} of O")
    quarter = a.scratchpad_rows // 4
    if max(w, i) <= quarter:
        inputs = [2 * quarter * copy for copy in range(copies_i)]
        weights = [quarter + 2 * quarter * copy for copy in range(copies_w)]
    else:
        inputs = [i * copy for copy in range(copies_i)]
        weights = [a.scratchpad_rows - w * (copies_w - copy) for copy in range(copies_w)]
    return LocalMemory(
        TileCopies("W", tuple(weights), w),
        TileCopies("I", tuple(inputs), i),
        TileCopies("O", tuple(a.accumulator_rows // 2 * copy for copy in range(copies_o)), o),
        a.scratchpad_rows,
        a.accumulator_rows,
    )


def _check(memory: str, rows: int, capacity: int, what: str) -> None:
    if rows > capacity:
        raise InfeasibleError(
            f"the mapping's tiles ({what}) take {rows} rows of the {memory}, {rows - capacity} more than its {capacity}",
            hint="take smaller tiles or fewer copies",
        )
