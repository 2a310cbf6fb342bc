"""How a product and the addition to its results follow each other in pieces, and what that takes on the original."""

from __future__ import annotations

import math
from dataclasses import dataclass

from baco.accel.config import MOVE_BYTES, Accelerator

#: Of the original, in cycles: a row of what is added, which misses the L2 mostly, and one that is scaled, in elements a cycle; a
#: line of weights or rows, which misses it; a load of a block of biases, which is fetched once; a stored row of a block; what a
#: piece takes beyond its passes; and what waiting for a part costs.
_ADDED, _SCALED, _LINE, _BIAS, _STORED, _PIECE, _WAIT = 2, 4, 10, 40, 1.75, 70, 600


@dataclass(frozen=True)
class RiddenProduct:
    """A product of constants and the addition to its results.

    Attributes:
        rows, depth, columns: of the product.
        pitches: elements from row to row of input, weights, what is added, and sums.
        bias: whether the product has one.
        product_relu, relu: whether negative products, negative sums become 0.
        scaled: whether what is added is scaled by something else than 1.
    """

    rows: int
    depth: int
    columns: int
    pitches: tuple[int, int, int, int]
    bias: bool
    product_relu: bool
    relu: bool
    scaled: bool


@dataclass(frozen=True)
class RidingPlan:
    """How the pieces of a product, so many rows as the array's side by as many columns as a move has, follow each other.

    Attributes:
        ride: what is computed.
        dim: the array's side.
        weights_stay: all weights stay in the scratchpad while rows pass by; else all rows do, while columns of weights pass by.
        parts: between which the program waits, runs of as many iterations of the outer loop.
    """

    ride: RiddenProduct
    dim: int
    weights_stay: bool
    parts: int

    @classmethod
    def of(cls, ride: RiddenProduct, accelerator: Accelerator) -> RidingPlan:
        """The plan of the fewest cycles. Raises ValueError where the local memories have no room."""
        dim, quarter = accelerator.dim, accelerator.scratchpad_rows // 4
        wide = MOVE_BYTES // dim
        blocks = ride.depth // dim
        found = []
        for weights_stay in (True, False):
            chunks, groups = math.ceil(ride.rows / dim), ride.columns // MOVE_BYTES
            group, chunk = wide * ride.depth, blocks * dim
            stays, passes = (groups * group, chunk) if weights_stay else (chunks * chunk, group)
            room = stays <= quarter and passes <= quarter - 2 * wide * dim
            if not room or 4 * wide * dim > accelerator.accumulator_rows // 2:
                continue
            outer = chunks if weights_stay else groups
            found += [cls(ride, dim, weights_stay, n) for n in range(1, outer + 1) if outer % n == 0]
        return min(found, key=lambda one: one.cycles)

    @property
    def blocks(self) -> int:
        """Blocks of depth."""
        return self.ride.depth // self.dim

    @property
    def wide(self) -> int:
        """Blocks of columns of a piece."""
        return MOVE_BYTES // self.dim

    @property
    def chunks(self) -> int:
        """Pieces below each other."""
        return math.ceil(self.ride.rows / self.dim)

    @property
    def groups(self) -> int:
        """Pieces beside each other."""
        return self.ride.columns // MOVE_BYTES

    @property
    def outer(self) -> int:
        """Iterations of the outer loop."""
        return self.chunks if self.weights_stay else self.groups

    @property
    def inner(self) -> int:
        """Pieces of an iteration of the outer loop."""
        return self.groups if self.weights_stay else self.chunks

    @property
    def pieces(self) -> int:
        """All of them."""
        return self.chunks * self.groups

    @property
    def passes(self) -> int:
        """Of a piece and of an addition to one."""
        return self.wide * (self.blocks + 1)

    @property
    def length(self) -> int:
        """Iterations of the outer loop in a part."""
        return self.outer // self.parts

    @property
    def kept_pitch(self) -> int:
        """Elements from row to row of a part of the product in main memory."""
        return self.ride.columns if self.weights_stay else MOVE_BYTES

    @property
    def kept_unit(self) -> int:
        """Bytes of the product of an iteration of the outer loop."""
        return self.dim * self.ride.columns if self.weights_stay else self.chunks * self.dim * MOVE_BYTES

    @property
    def kept_bytes(self) -> int:
        """Of a workspace for two parts of the product, and for what is read behind them to no end."""
        return (2 * self.length + 1) * self.kept_unit

    @property
    def together(self) -> int:
        """Loads of the next columns of weights beside a piece."""
        return next(
            n for n in range(1, self.blocks + 1) if self.blocks % n == 0 and n * self.inner >= self.blocks
        )

    @property
    def cycles(self) -> float:
        """Of the whole on the original: pieces as long as what takes longest of them, waits, and the additions to the last part."""
        ride, rows = self.ride, self.wide * self.dim
        added = rows * (1 + (_SCALED if ride.scaled else _ADDED))
        # rows of 64 bytes, each of another line of the L2
        lines = ride.depth if not self.weights_stay else ride.depth * self.dim / MOVE_BYTES
        passing = _LINE * lines / self.inner
        piece = max(
            self.passes * self.dim + _PIECE,
            added + passing + self.wide * _BIAS * ride.bias,
            2 * rows * _STORED,
        )
        stays = ride.depth * (ride.columns if self.weights_stay else ride.rows) / self.dim
        alone = self.pieces / self.parts * max(added, rows * _STORED, 2 * rows)
        first = _LINE * lines + stays / self.inner
        return first + self.pieces * piece + self.parts * _WAIT + alone
