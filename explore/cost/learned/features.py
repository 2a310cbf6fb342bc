"""Features of a layer on an accelerator in one schedule, known before anything runs.

After ATFormer (statements of a program with what they compute, move and keep), for programs of an accelerator: the
statements are the loads of weights, inputs and partial sums, the passes of the array, and the stores, and each level of
the mapping that has loops is one more. All of them are `STATEMENTS` at fixed places with `TOKEN` numbers each; those
that a program does not have are masked, and what stands there is never looked at. Next to them stands one flat row of
numbers for everything that belongs to the whole: problem, mapping, accelerator, counts of the commands, and how the
analytical model divides its prediction. Extents and counts are natural logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence

import numpy as np
import torch

from accel.config import Accelerator
from common import portable
from compiler.layers.layer import Layer
from compiler.mapping.batch import MappingBatch, ProblemBatch
from compiler.mapping.nest import RELEVANT, Mapping, requirement
from explore.cost.learned.protocol import Floats, ProgramFeatures
from explore.cost.reference import access_counts
from workloads.problem import DIMS, Problem

__all__ = ["FLAT", "STATEMENTS", "STYLES", "TOKEN", "program_features"]

#: What a token can be, by its place.
STATEMENTS = (
    *("load weights", "load inputs", "load sums", "pass", "store"),
    *("register loops", "accumulator loops", "scratchpad loops", "memory loops"),
)
_LOADS = {"load weights": "W", "load inputs": "I", "load sums": "O", "store": "O"}
_LEVELS = {"register loops": 0, "accumulator loops": 1, "scratchpad loops": 2, "memory loops": 3}
#: Code styles, as measurements name them.
STYLES = ("explicit", "packed", "loop_ws", "loop_conv")

_PROBLEM = (
    *(f"bound {name}" for name in DIMS),
    *("stride w", "stride h", "dilation w", "dilation h", "groups", "MACs", "MACs a weight", "MACs a result"),
    *("bias", "residual", "raw", "pooled", "padded", "product", "transposed"),
)
_ACCELERATOR = (
    *("dim", "scratchpad", "accumulator", "port bytes", "request bytes", "requests", "memory bytes"),
    *("load entries", "execute entries", "store entries", "load queue", "execute queue", "store queue"),
    *("pipeline groups", "port over memory", "scratchpad rows", "accumulator rows"),
)
_MAPPING = (
    *(f"factor {level} {name}" for level in range(4) for name in DIMS),
    *(f"place {name}" for name in DIMS),
    *("output-stationary", "rows", "columns", "rows of dim", "columns of dim"),
    *("copies W", "copies I", "copies O", "scratchpad use", "accumulator use", "padding"),
    *(f"style {style}" for style in STYLES),
)
_STREAM = (
    *("tiles", "passes", "rows a pass", "MACs a tile", "weight loads", "input loads", "sum loads", "stores"),
    *("bytes a weight load", "bytes an input load", "bytes a store", "commands a pass", "intensity"),
    *("a0", "a1", "a2", "a3", "array cycles", "memory cycles"),
)
#: Columns of the flat row that are always there; one for each term of the analytical model follows.
FLAT = (*_PROBLEM, *_ACCELERATOR, *_MAPPING, *_STREAM, "predicted")
#: Numbers of a token: what it is, then the same for all.
TOKEN = (
    *STATEMENTS,
    *(f"factor {name}" for name in DIMS),
    *(f"place {name}" for name in DIMS),
    *("times", "rows", "row bytes", "bytes", "bytes in all", "reuse", "copies", "share"),
)


def program_features(
    layers: Sequence[Layer],
    mappings: Sequence[Mapping],
    accelerators: Sequence[Accelerator],
    styles: Sequence[str],
    cycles: Floats,
    terms: Dictionary[str, Floats],
) -> ProgramFeatures:
    """Features of B programs.

    Args:
        layers, mappings, accelerators, styles: of each program; a macro's mapping is the one it stands for.
        cycles: (B,) what the analytical model predicts.
        terms: cycles (B,) of each of its resources, by name; the same names for all.
    """
    problems = [layer.problem for layer in layers]
    counts = access_counts(ProblemBatch.of(problems), MappingBatch.of(mappings))
    accesses = torch.stack([counts.a0, counts.a1, counts.a2, counts.a3]).T.numpy()
    names = tuple(sorted(terms))
    shares = portable.log(
        np.maximum(np.stack([terms[name] for name in names], axis=1), 1e-6 * cycles[:, None])
    )
    shares = (shares - portable.log(cycles)[:, None]).reshape(len(layers), len(names))
    flat, tokens, masks = [], [], []
    for i, (layer, mapping, accelerator, style) in enumerate(
        zip(layers, mappings, accelerators, styles, strict=True)
    ):
        stream = _Stream(layer, mapping, accelerator)
        flat.append(
            [
                *_problem_row(layer),
                *_accelerator_row(accelerator),
                *_mapping_row(layer.problem, mapping, accelerator, style),
                *stream.row(accesses[i]),
                portable.log(float(cycles[i])),
                *shares[i],
            ]
        )
        token, mask = stream.tokens()
        tokens.append(token)
        masks.append(mask)
    columns = (*FLAT, *(f"share {name}" for name in names))
    return ProgramFeatures(
        columns,
        np.array(flat, dtype=np.float64).reshape(len(layers), len(columns)),
        np.array(tokens, dtype=np.float64).reshape(len(layers), len(STATEMENTS), len(TOKEN)),
        np.array(masks, dtype=np.bool_).reshape(len(layers), len(STATEMENTS)),
    )


def _log(*values: float) -> list[float]:
    return [portable.log(max(float(value), 1e-9)) for value in values]


def _problem_row(layer: Layer) -> list[float]:
    p = layer.problem
    return [
        *_log(*p.bounds, p.stride_w, p.stride_h, p.dilation_w, p.dilation_h, p.groups, p.macs),
        *_log(p.macs / p.weight_words, p.macs / p.output_words),
        float(layer.bias),
        float(layer.residual_scale is not None),
        float(layer.scale is None),
        float(layer.pooling is not None),
        float(layer.padding != (0, 0)),
        float(layer.is_product),
        float(layer.weights_transposed),
    ]


def _accelerator_row(a: Accelerator) -> list[float]:
    return _log(
        a.dim,
        a.scratchpad_kib,
        a.accumulator_kib,
        a.dma_bits / 8,
        a.dma_max_bytes,
        a.dma_requests,
        a.dram_bytes_per_cycle,
        a.load_entries,
        a.execute_entries,
        a.store_entries,
        a.load_queue,
        a.execute_queue,
        a.store_queue,
        a.dim / a.tile_rows,
        a.dma_bits / 8 / a.dram_bytes_per_cycle,
        a.scratchpad_rows,
        a.accumulator_rows,
    )


def _places(mapping: Mapping, level: int) -> list[float]:
    """Place of each dimension among the loops of a level that run, innermost 1; 0 for those that do not."""
    loops = [name for name in mapping.order[level] if mapping.factor(name, level) > 1]
    return [float(loops.index(name) + 1) if name in loops else 0.0 for name in DIMS]


def _mapping_row(p: Problem, m: Mapping, a: Accelerator, style: str) -> list[float]:
    need = requirement(m, p)
    return [
        *_log(*(factor for level in m.temporal for factor in level)),
        *_places(m, 3),
        float(m.dataflow == "OS"),
        *_log(m.rows, m.columns, m.rows / a.dim, m.columns / a.dim),
        *map(float, m.buffering),
        *_log(need.scratchpad_rows / a.scratchpad_rows, need.accumulator_words / a.accumulator_rows),
        *_log(math.prod(m.padded_bounds) / math.prod(p.bounds)),
        *(float(style == name) for name in STYLES),
    ]


class _Stream:
    """Commands of a program, counted from its mapping."""

    def __init__(self, layer: Layer, mapping: Mapping, accelerator: Accelerator) -> None:
        self.layer, self.mapping, self.accelerator = layer, mapping, accelerator
        p, m, dim = layer.problem, mapping, accelerator.dim
        self.tile = m.tile(2)
        outer = {name: m.factor(name, 3) for name in DIMS}
        self.tiles = math.prod(outer.values()) * p.groups
        self.pass_rows = math.prod(m.temporal[0]) * (m.rows if m.dataflow == "OS" else 1)
        self.passes = self.tiles * math.prod(m.temporal[1]) * math.prod(m.temporal[2])
        self.passes *= -(-self.pass_rows // dim) if m.dataflow == "WS" else 1
        t = self.tile
        width = (t["P"] - 1) * p.stride_w + (t["R"] - 1) * p.dilation_w + 1
        height = (t["Q"] - 1) * p.stride_h + (t["S"] - 1) * p.dilation_h + 1
        bits = layer.output_bits
        #: rows and bytes of a row in main memory, of a tile of each tensor
        self.rows = {
            "W": t["R"] * t["S"] * t["C"],
            "I": t["N"] * height * width,
            "O": t["P"] * t["Q"] * t["N"],
        }
        self.row_bytes = {"W": t["K"], "I": t["C"], "O": t["K"] * bits // 8}
        self.reuse = {tensor: self._reuse(relevant) for tensor, relevant in RELEVANT.items()}
        self.rounds = {tensor: self.tiles / self.reuse[tensor] for tensor in RELEVANT}
        #: tiles of results, and times that partial sums of one come back
        self.results = math.prod(outer[name] for name in RELEVANT["O"]) * p.groups
        self.returns = self.rounds["O"] / self.results - 1

    def _reuse(self, relevant: str | Sequence[str]) -> int:
        rounds = 1
        for name in self.mapping.order[3]:
            if self.mapping.factor(name, 3) > 1:
                if name in relevant:
                    break
                rounds *= self.mapping.factor(name, 3)
        return rounds

    def _commands(self, tensor: str) -> float:
        """Moves of one tile: blocks of `dim` rows, up to a request's bytes wide."""
        dim = self.accelerator.dim
        widest = max(dim, self.accelerator.dma_max_bytes)
        return -(-self.rows[tensor] // dim) * -(-self.row_bytes[tensor] // widest)

    def row(self, accesses: Floats) -> list[float]:
        """The flat row's part."""
        a, macs = self.accelerator, math.prod(self.mapping.padded_bounds) * self.layer.problem.groups
        loads = {tensor: self._commands(tensor) * self.rounds[tensor] for tensor in "WIO"}
        array = macs / (self.mapping.rows * self.mapping.columns)
        moves = sum(loads.values())
        return _log(
            self.tiles,
            self.passes,
            self.pass_rows,
            macs / self.tiles,
            loads["W"],
            loads["I"],
            1 + self.returns,
            loads["O"],
            self.row_bytes["W"],
            self.row_bytes["I"],
            self.row_bytes["O"],
            (2 * self.passes + moves) / self.passes,
            macs / accesses[3],
            *accesses,
            array,
            accesses[3] / a.dram_bytes_per_cycle,
        )

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
        body = [*_log(*factors), *_places(self.mapping, level), *_log(total), *[0.0] * 7]
        return body, total > 1

    def _pass(self) -> list[float]:
        m, a = self.mapping, self.accelerator
        tile = [self.tile[name] for name in DIMS]
        return [
            *_log(*tile),
            *_places(m, 1),
            *_log(self.passes, self.pass_rows, m.rows * m.columns, self.passes * self.pass_rows),
            *_log(self.passes * self.pass_rows / a.dim, m.rows / a.dim),
            float(m.dataflow == "OS"),
            *_log(m.columns / a.dim),
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
            *_log(*tile),
            *_places(m, 3),
            *_log(rounds, self.rows[tensor], self.row_bytes[tensor], size, size * rounds),
            *_log(self.reuse[tensor]),
            float(copies),
            *_log(self.row_bytes[tensor] / a.dma_max_bytes),
        ]
        return body, True
