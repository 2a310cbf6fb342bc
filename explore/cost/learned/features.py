"""Features of a layer on an accelerator in one schedule, known before anything runs.

One flat row of numbers for a program: problem, mapping, accelerator, counts of the commands, and how the analytical
model divides its prediction. Extents and counts are natural logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence

import numpy as np
import torch

from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, RELEVANT
from baco.common import portable
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import Mapping, packed_groups, requirement
from baco.compiler.styles.packed import packed_layer
from baco.exploration.cost.learned.analytical import Base, instruction_base
from baco.exploration.cost.learned.protocol import Floats, ProgramFeatures
from baco.exploration.cost.reference import access_counts
from baco.workloads.problem import DIMS, Problem

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


def described(
    layers: Sequence[Layer],
    mappings: Sequence[Mapping],
    accelerators: Sequence[Accelerator],
    styles: Sequence[str],
    base: Base = instruction_base,
    counts: Dictionary[str, Floats] | None = None,
) -> tuple[ProgramFeatures, Floats]:
    """Features of B programs, and cycles (B,) of the analytical model.

    Args:
        layers: of which several groups run at once where the style is packed.
        counts: of the compiled programs, by name; without them features follow from the mappings alone.
    """
    layers = as_run(layers, mappings, styles)
    found = base(layers, mappings, accelerators, styles)
    terms = {**found.terms, **(counts or {})}
    features = program_features(layers, mappings, accelerators, styles, found.cycles, terms)
    return features, found.cycles


def as_run(layers: Sequence[Layer], mappings: Sequence[Mapping], styles: Sequence[str]) -> list[Layer]:
    """Layers as their code sees them: several groups as one where the style is packed."""
    return [
        packed_layer(layer, packed_groups(mapping, layer.problem)) if style == "packed" else layer
        for layer, mapping, style in zip(layers, mappings, styles, strict=True)
    ]


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
    flat = [
        [
            *_problem_row(layer),
            *_accelerator_row(accelerator),
            *_mapping_row(layer.problem, mapping, accelerator, style),
            *CommandStream(layer, mapping, accelerator).row(accesses[i]),
            portable.log(float(cycles[i])),
            *shares[i],
        ]
        for i, (layer, mapping, accelerator, style) in enumerate(
            zip(layers, mappings, accelerators, styles, strict=True)
        )
    ]
    columns = (*FLAT, *(f"share {name}" for name in names))
    return ProgramFeatures(columns, np.array(flat, dtype=np.float64).reshape(len(layers), len(columns)))


def logarithms(*values: float) -> list[float]:
    """Natural logarithms; of none, that of very little."""
    return [portable.log(max(float(value), 1e-9)) for value in values]


def _problem_row(layer: Layer) -> list[float]:
    p = layer.problem
    return [
        *logarithms(*p.bounds, p.stride_w, p.stride_h, p.dilation_w, p.dilation_h, p.groups, p.macs),
        *logarithms(p.macs / p.weight_words, p.macs / p.output_words),
        float(layer.bias),
        float(layer.residual_scale is not None),
        float(layer.scale is None),
        float(layer.pooling is not None),
        float(layer.padding != (0, 0)),
        float(layer.is_product),
        float(layer.weights_transposed),
    ]


def _accelerator_row(a: Accelerator) -> list[float]:
    return logarithms(
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


def places(mapping: Mapping, level: int) -> list[float]:
    """Place of each dimension among the loops of a level that run, innermost 1; 0 for those that do not."""
    loops = [name for name in mapping.order[level] if mapping.factor(name, level) > 1]
    return [float(loops.index(name) + 1) if name in loops else 0.0 for name in DIMS]


def _mapping_row(p: Problem, m: Mapping, a: Accelerator, style: str) -> list[float]:
    need = requirement(m, p)
    return [
        *logarithms(*(factor for level in m.temporal for factor in level)),
        *places(m, 3),
        float(DATAFLOWS[m.dataflow].sums_stay),
        *logarithms(m.rows, m.columns, m.rows / a.dim, m.columns / a.dim),
        *map(float, m.buffering),
        *logarithms(need.scratchpad_rows / a.scratchpad_rows, need.accumulator_words / a.accumulator_rows),
        *logarithms(math.prod(m.padded_bounds) / math.prod(p.bounds)),
        *(float(style == name) for name in STYLES),
    ]


class CommandStream:
    """Commands of a program, counted from its mapping."""

    def __init__(self, layer: Layer, mapping: Mapping, accelerator: Accelerator) -> None:
        self.layer, self.mapping, self.accelerator = layer, mapping, accelerator
        p, m, dim = layer.problem, mapping, accelerator.dim
        self.tile = m.tile(2)
        outer = {name: m.factor(name, 3) for name in DIMS}
        self.tiles = math.prod(outer.values()) * p.groups
        sums_stay = DATAFLOWS[m.dataflow].sums_stay
        self.pass_rows = math.prod(m.temporal[0]) * (m.rows if sums_stay else 1)
        self.passes = self.tiles * math.prod(m.temporal[1]) * math.prod(m.temporal[2])
        self.passes *= 1 if sums_stay else -(-self.pass_rows // dim)
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
        #: tiles of results: partial sums of each come and go once a round
        self.results = math.prod(outer[name] for name in RELEVANT["O"]) * p.groups

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
        return logarithms(
            self.tiles,
            self.passes,
            self.pass_rows,
            macs / self.tiles,
            loads["W"],
            loads["I"],
            self.rounds["O"] / self.results,
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
