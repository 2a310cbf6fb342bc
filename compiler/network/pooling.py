"""Maximum pooling on its own, on the accelerator: images pass through the accumulator and are pooled on the way out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle, read_cycles
from baco.compiler.host_core import COMMAND_CYCLES
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.layers.operands import Operands
from baco.compiler.network.layers import pixel_pitch
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.steps import StepCost
from baco.compiler.ops.images import MaxPool
from baco.compiler.styles.explicit.pool import check_pool, emit_pool
from baco.workloads.problem import Problem


@dataclass(frozen=True)
class PoolCode(OperatorCode):
    """Code of a pooling: a `layer` that computes nothing before it."""

    kinds: ClassVar[str] = "poolings"

    layer: Layer

    @property
    def kind(self) -> str:
        """See `OperatorCode`."""
        return "pooling"

    def __str__(self) -> str:
        return f"maximum pooling {self.layer.pooling}"

    def cost(self, accelerator: Accelerator) -> StepCost:
        """Every pixel passes through the accumulator, once for each tile whose windows meet it (`emit_pool`).

        Loads of one block of channels are short, so that the number in flight limits them and leaves room for stores.
        """
        p, pool, dim = self.layer.problem, self.layer.pooling, accelerator.dim
        assert pool is not None
        tile_rows, tile_columns, alone = check_pool(self.layer, accelerator)

        def met(windows: int, together: int, extent: int) -> tuple[int, int]:
            """Tiles along one direction, and the pixels that they read."""
            tiles = math.ceil(windows / together)
            sizes = [min(together, windows - n * together) for n in range(tiles)]
            return tiles, sum(min(extent, (size - 1) * pool.stride + pool.size) for size in sizes)

        (down, rows), (across, columns) = met(pool.rows, tile_rows, p.Q), met(pool.columns, tile_columns, p.P)
        blocks, pixels = math.ceil(p.K / dim) * p.N, float(rows * columns)
        loads = blocks * read_cycles(accelerator, pixels, min(p.K, dim), p.K)
        moved = p.N * p.K * (pixels + pool.rows * pool.columns) / bytes_per_cycle(accelerator)
        commands = blocks * (across * rows * math.ceil(columns / across / dim) + 2 * down * across)
        profile = PROFILES[accelerator.timing]
        waits = blocks * down * across * 2 * profile.latency if alone else 0.0
        read, written = p.N * p.K * pixels, float(p.N * p.K * pool.rows * pool.columns)
        accesses = (
            read + written * pool.size**2
        )  # every pixel is written once, and read for each window that it is in
        cycles = max(loads, moved, commands * COMMAND_CYCLES) + waits + profile.begin_and_end
        moved = read + written
        return StepCost(cycles, moved * accelerator.energy_law.dram_pj, accesses, dram_bytes=moved)

    def emit(self, name: str, accelerator: Accelerator) -> ModuleOp:
        """See `OperatorCode`."""
        e = Emitter(name, ["input", "output"])
        source, target = e.arguments
        emit_max_pool(e, self.layer, accelerator, source, target)
        return e.finish()

    def rows_used(self, accelerator: Accelerator) -> tuple[int, int]:
        """None are counted: its tiles are as large as the memories let them be."""
        return 0, 0


def plan_max_pool(op: MaxPool, accelerator: Accelerator, *, non_negative: bool) -> PoolCode | None:
    """The code of a pooling; None if the accelerator cannot do it exactly.

    The accelerator takes positions outside the image as zeros: they must not occur, or do no harm.

    Args:
        non_negative: whether no element of the input is negative.
    """
    images, height, width, channels = op.input.shape
    _, rows, columns, _ = op.output.shape
    kernel, stride, padding = op.kernel, op.stride, op.padding
    inside = padding == (0, 0) and all(
        (count - 1) * stride[i] + kernel[i] <= size
        for i, (count, size) in enumerate(((rows, height), (columns, width)))
    )
    output_pitch = pixel_pitch(op.output)
    if (
        not (inside or non_negative)
        or len({*kernel}) + len({*stride}) + len({*padding}) > 3
        or op.dilation != (1, 1)
        or pixel_pitch(op.input) != channels
        or output_pitch is None
        or not (accelerator.features.max_pool and accelerator.features.read_small_width)
    ):
        return None
    try:
        layer = Layer(
            Problem(N=images, Q=height, P=width, K=channels),
            pooling=Pooling(kernel[0], stride[0], padding[0], rows, columns),
            output=Layout(output_pitch, channels),
        )
        emit_max_pool(Emitter("trial", ["input", "output"]), layer, accelerator, 0, 0)
    except (InputError, InfeasibleError):
        return None
    return PoolCode(layer)


def emit_max_pool(e: Emitter, layer: Layer, accelerator: Accelerator, source: Number, target: Number) -> None:
    """Write the code of a pooling that `plan_max_pool` found; `source` and `target` are addresses."""
    operands = Operands(input=source, weight=0, output=target)
    emit_pool(e, layer, accelerator, operands, source, layer.problem.K)
