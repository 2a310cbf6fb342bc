"""Statements of a program on an accelerator, known before it runs, beside its flat row.

After ATFormer (statements of a program with what they compute, move and keep): the loads of weights, inputs and partial
sums, the passes of the array, and the stores, and each level of the mapping that has loops is one more. All of them are
`STATEMENTS` at fixed places with `TOKEN` numbers each; those that a program does not have are masked, and what stands
there is never looked at. Extents and counts are natural logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, RELEVANT
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.nest import Mapping
from baco.exploration.cost.learned.analytical import Base, instruction_base
from baco.exploration.cost.learned.features import CommandStream, as_run, described, logarithms, places
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.workloads.problem import DIMS

#: What a token can be, by its place.
STATEMENTS = (
    *("load weights", "load inputs", "load sums", "pass", "store"),
    *("register loops", "accumulator loops", "scratchpad loops", "memory loops"),
)
_LOADS = {"load weights": "W", "load inputs": "I", "load sums": "O", "store": "O"}
_LEVELS = {"register loops": 0, "accumulator loops": 1, "scratchpad loops": 2, "memory loops": 3}
#: Numbers of a token: what it is, then the same for all.
TOKEN = (
    *STATEMENTS,
    *(f"factor {name}" for name in DIMS),
    *(f"place {name}" for name in DIMS),
    *("times", "rows", "row bytes", "bytes", "bytes in all", "reuse", "copies", "share"),
)


@dataclass(frozen=True)
class StatementFeatures(ProgramFeatures):
    """Flat rows and statements of B programs.

    Attributes:
        tokens: (B, S, D) numbers of each statement of the program; what stands in masked ones is not looked at.
        mask: (B, S) whether the statement exists.
    """

    tokens: Floats
    mask: NDArray[np.bool_]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens.shape[:2] != self.mask.shape:
            raise ValueError("features do not fit together")
        if len(self.tokens) != len(self):
            raise ValueError(f"{len(self)} rows have {len(self.tokens)} rows of statements")

    def take(self, rows: NDArray[Any]) -> StatementFeatures:
        """The rows at indices, or where a boolean array holds."""
        return StatementFeatures(self.names, self.flat[rows], self.tokens[rows], self.mask[rows])

    @classmethod
    def join(cls, parts: Sequence[StatementFeatures]) -> StatementFeatures:
        """One batch after another; all have the same columns."""
        return cls(
            parts[0].names,
            np.concatenate([part.flat for part in parts]),
            np.concatenate([part.tokens for part in parts]),
            np.concatenate([part.mask for part in parts]),
        )


def described_statements(
    layers: Sequence[Layer],
    mappings: Sequence[Mapping],
    accelerators: Sequence[Accelerator],
    styles: Sequence[str],
    base: Base = instruction_base,
    counts: Dictionary[str, Floats] | None = None,
) -> tuple[StatementFeatures, Floats]:
    """As `baco.exploration.cost.learned.features.described`, with the statements."""
    flat, cycles = described(layers, mappings, accelerators, styles, base, counts)
    found = [
        _Tokens(layer, mapping, accelerator).tokens()
        for layer, mapping, accelerator in zip(
            as_run(layers, mappings, styles), mappings, accelerators, strict=True
        )
    ]
    tokens = np.array([token for token, _ in found], dtype=np.float64)
    masks = np.array([mask for _, mask in found], dtype=np.bool_)
    count = len(found)
    return (
        StatementFeatures(
            flat.names,
            flat.flat,
            tokens.reshape(count, len(STATEMENTS), len(TOKEN)),
            masks.reshape(count, len(STATEMENTS)),
        ),
        cycles,
    )


class _Tokens(CommandStream):
    """Commands of a program as statements."""

    def tokens(self) -> tuple[list[list[float]], list[bool]]:
        """(statements, `TOKEN`) numbers, and whether each statement exists."""
        rows, mask = [], []
        for place, name in enumerate(STATEMENTS):
            kind = [float(place == other) for other in range(len(STATEMENTS))]
            if name in _LEVELS:
                body, exists = self._level(_LEVELS[name])
            elif name == "pass":
                body, exists = self._pass(), True
            else:
                body, exists = self._move(_LOADS[name], name == "load sums")
            rows.append(kind + body if exists else [0.0] * len(TOKEN))
            mask.append(exists)
        return rows, mask

    def _level(self, level: int) -> tuple[list[float], bool]:
        factors = self.mapping.temporal[level]
        total = math.prod(factors)
        body = [*logarithms(*factors), *places(self.mapping, level), *logarithms(total), *[0.0] * 7]
        return body, total > 1

    def _pass(self) -> list[float]:
        m, a = self.mapping, self.accelerator
        tile = [self.tile[name] for name in DIMS]
        return [
            *logarithms(*tile),
            *places(m, 1),
            *logarithms(self.passes, self.pass_rows, m.rows * m.columns, self.passes * self.pass_rows),
            *logarithms(self.passes * self.pass_rows / a.dim, m.rows / a.dim),
            float(DATAFLOWS[m.dataflow].sums_stay),
            *logarithms(m.columns / a.dim),
        ]

    def _move(self, tensor: str, returning: bool) -> tuple[list[float], bool]:
        m, a = self.mapping, self.accelerator
        relevant = RELEVANT[tensor]
        tile = [self.tile[name] if name in relevant else 1 for name in DIMS]
        rounds = self.rounds[tensor] - self.results if returning else self.rounds[tensor]
        biased = returning and self.layer.bias
        if biased:
            rounds += self.results
        if rounds < 1:
            return [], False
        size = self.rows[tensor] * self.row_bytes[tensor]
        copies = m.buffering["WIO".index(tensor)]
        body = [
            *logarithms(*tile),
            *places(m, 3),
            *logarithms(rounds, self.rows[tensor], self.row_bytes[tensor], size, size * rounds),
            *logarithms(self.reuse[tensor]),
            float(copies),
            *logarithms(self.row_bytes[tensor] / a.dma_max_bytes),
        ]
        return body, True
