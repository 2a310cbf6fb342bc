"""Problems and mappings in batches, as tensors: what the analyses of nests work on.

Arrays have the batch last, so that each operation runs over contiguous memory. Loop dimensions are ordered as in `AXES`,
which makes the dimensions of W and of O contiguous slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import torch
from torch import Tensor

from baco.accel.dataflows import DATAFLOWS
from baco.compiler.mapping.nest import Mapping
from baco.workloads.problem import DIMS, Problem

#: Order of loop dimensions inside batches: W is indexed by the first four, O by the last four.
AXES = ("R", "S", "C", "K", "P", "Q", "N")

#: By the number of a dataflow, its place in `baco.accel.dataflows.DATAFLOWS`: whether sums stay in the registers, and for each
#: dimension that may run along the rows whether it does.
_NUMBER = {name: n for n, name in enumerate(DATAFLOWS)}
_SUMS_STAY = torch.tensor([rule.sums_stay for rule in DATAFLOWS.values()])
_ROW = [AXES.index(rule.row) for rule in DATAFLOWS.values()]
_ALONG_ROWS = {axis: torch.tensor([row == axis for row in _ROW]) for axis in sorted(set(_ROW))}


@dataclass(frozen=True)
class ProblemBatch:
    """Shapes of a batch of problems; every field has the batch's shape (B,) or broadcasts with it."""

    stride_w: Tensor
    stride_h: Tensor
    dilation_w: Tensor
    dilation_h: Tensor
    groups: Tensor

    @classmethod
    def of(cls, problems: Sequence[Problem], dtype: torch.dtype = torch.float64) -> ProblemBatch:
        """One entry a problem."""
        names = ("stride_w", "stride_h", "dilation_w", "dilation_h", "groups")
        return cls(*(torch.tensor([getattr(p, n) for p in problems], dtype=dtype) for n in names))

    def take(self, index: Tensor) -> ProblemBatch:
        """The problems at `index`."""
        return ProblemBatch(*(getattr(self, f.name).index_select(-1, index) for f in fields(self)))

    def to(self, device: torch.device | str) -> ProblemBatch:
        """A copy on `device`."""
        return ProblemBatch(*(getattr(self, n).to(device) for n in self.__dataclass_fields__))


@dataclass(frozen=True)
class MappingBatch:
    """A batch of mappings of shape (B,).

    Attributes:
        temporal: (4, 7, B) factors by level and dimension (`AXES` order), real and positive.
        rows, columns: (B,) spatial factors: of the dimension that the dataflow has along the rows, and of K.
        rank: (3, 7, B) small integers: place of each loop in the order of levels 1, 2, 3, 0 innermost.
        flow: (B,) places of the dataflows in `DATAFLOWS`, or None where all are the first.
        copies: (3, B) buffer copies of W, I, O; None for single buffers.
    """

    temporal: Tensor
    rows: Tensor
    columns: Tensor
    rank: Tensor
    flow: Tensor | None = None
    copies: Tensor | None = None

    @classmethod
    def of(cls, mappings: Sequence[Mapping], dtype: torch.dtype = torch.float64) -> MappingBatch:
        """From mapping objects."""
        permutation = [DIMS.index(axis) for axis in AXES]
        temporal = torch.tensor([m.temporal for m in mappings], dtype=dtype).reshape(-1, 4, 7)
        rank = torch.tensor(
            [[[order.index(axis) for axis in AXES] for order in m.order[1:]] for m in mappings],
            dtype=torch.int8,
        ).reshape(-1, 3, 7)
        flow = torch.tensor([_NUMBER[m.dataflow] for m in mappings])
        return cls(
            temporal=temporal[:, :, permutation].permute(1, 2, 0).contiguous(),
            rows=torch.tensor([m.rows for m in mappings], dtype=dtype),
            columns=torch.tensor([m.columns for m in mappings], dtype=dtype),
            rank=rank.permute(1, 2, 0).contiguous(),
            flow=flow if bool(flow.any()) else None,
            copies=torch.tensor([m.buffering for m in mappings], dtype=dtype).reshape(-1, 3).T.contiguous(),
        )

    @cached_property
    def sums_stay(self) -> Tensor | None:
        """(B,) booleans: partial sums stay in the registers; None where weights stay in all."""
        return None if self.flow is None else _SUMS_STAY.to(self.flow.device)[self.flow]

    @cached_property
    def _along_rows(self) -> dict[int, Tensor]:
        assert self.flow is not None
        return {axis: where.to(self.flow.device)[self.flow] for axis, where in _ALONG_ROWS.items()}

    def on_row(self, axis: int, value: Tensor, other: Tensor) -> Tensor:
        """`value` where a dimension (its place in `AXES`) runs along the rows, else `other`."""
        if self.flow is None:
            return value if axis == _ROW[0] else other
        return torch.where(self._along_rows[axis], value, other) if axis in _ALONG_ROWS else other

    @cached_property
    def row_factors(self) -> dict[int, Tensor]:
        """Spatial factor of each dimension that runs along the rows somewhere, (B,), by its place in `AXES`."""
        if self.flow is None:
            return {_ROW[0]: self.rows}
        return {axis: torch.where(where, self.rows, 1.0) for axis, where in self._along_rows.items()}

    def take(self, index: Tensor) -> MappingBatch:
        """The mappings at `index`."""
        flow, copies = self.flow, self.copies
        # one index before the batch is much faster to pick from than two
        temporal, rank = (
            table.flatten(0, 1).index_select(-1, index).view(*table.shape[:2], len(index))
            for table in (self.temporal, self.rank)
        )
        return MappingBatch(
            temporal,
            self.rows.index_select(-1, index),
            self.columns.index_select(-1, index),
            rank,
            None if flow is None else flow.index_select(-1, index),
            None if copies is None else copies.index_select(-1, index),
        )
