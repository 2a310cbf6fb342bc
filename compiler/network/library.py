"""A network as a program of Gemmini's own C library would run it: what a compiled program is to be compared with.

Section 13 of the instruction set, in our words. Beside the tilings of layers (`baco.compiler.choice.gemmini`):

* **Additions** are LOOP_WS runs of the kind that adds: both operands move into the accumulator, the second on top of the first.
* **Windows of one pixel at stride 2** are a product for every row of the output, as in the ResNet-50 that comes with Gemmini, where that is
  predicted to take fewer cycles than a convolution.
* **Softmax, normalisation and functions of elements** are plain loops on the host core (`compiler/ops/host/library.c`). Functions are
  tables here, which the library's polynomials are not, and nothing is divided or rounded in float32 for an element: the library's
  arithmetic, written out and timed, takes about 100 cycles an element for each of the three, these loops 12 to 80.
* **Weights** lie densely, row behind row.

What the library has no code for is computed as in other programs, and fences stand only where data ask for them, though the library's
functions end with one: where the comparison cannot be exact, it is in the library's favour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.analysis.traffic import bytes_per_cycle
from baco.compiler.host_core import COMMAND_CYCLES
from baco.compiler.ir.emit import Emitter, Number
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.network.addition import plan_addition
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.lowered import LoweredNetwork, Scheduler
from baco.compiler.network.lowering import Lowering, lower_operators
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.steps import StepCost
from baco.compiler.ops.elementwise import Addition, Gate, Map, Multiplication
from baco.compiler.ops.operator import HostCall
from baco.compiler.ops.products import Convolution
from baco.compiler.ops.rows import Normalisation, Softmax
from baco.compiler.ops.views import View

#: Plain loops by the function that they stand for, and cycles of an element in them.
_PLAIN = {"net_map": 11.5, "net_softmax": 50.0, "net_normalise": 78.0}
#: Cycles of a row, and of a call.
_ROW, _CALL = 150.0, 200.0


def lower_as_library(
    network: QuantisedNetwork, accelerator: Accelerator, schedule: Scheduler
) -> LoweredNetwork:
    """The calls by which the library would compute a network; see the module. Raises as `lower_network`."""
    return lower_operators(_LibraryLowering(network, accelerator, schedule, None, None))


class _LibraryLowering(Lowering):
    def _find_gates(self) -> dict[str, tuple[Map, Gate]]:
        return {}

    def _host(self, call: HostCall) -> None:
        if call.function in _PLAIN:
            name = call.function.replace("net_", "library_", 1)
            per = {"elements": _PLAIN[call.function], "rows": _ROW, "calls": _CALL}
            cycles = {amount: per.get(amount, 0.0) for amount in call.work.amounts}
            work = replace(call.work, variant=name, cycles=cycles)
            call = replace(call, function=name, source="library.c", work=work)
        super()._host(call)

    def _rows(self, op: Map | Softmax | Normalisation | Multiplication) -> None:
        if isinstance(op, Normalisation):
            op = replace(op, offset=self._rounding(op.offset))
        self._on_host(op, "Gemmini's library computes it on the host core")

    def _with_aligned_rows(self, view: View) -> View:
        return view

    def _packed_weights(self, layer: Layer, weight: View) -> None:
        return None  # the library knows bytes only

    def _block_weights(self, layer: Layer, weight: View) -> None:
        return None

    def _convolution(self, op: Convolution) -> None:
        rows = self._rows_of(op)
        if rows and self._cycles_by_tiling(rows[0]) * len(rows) < self._cycles_by_tiling(op):
            for row in rows:
                super()._convolution(row)
        else:
            super()._convolution(op)

    @staticmethod
    def _rows_of(op: Convolution) -> list[Convolution]:
        """A window of one pixel at stride 2 as products, one for each row of the output; empty for any other."""
        if (
            op.weight.shape[:2] != (1, 1)
            or op.stride != (2, 2)
            or op.padding != (0, 0)
            or op.groups > 1
            or op.pool
        ):
            return []
        (height, width), (images, _, _, depth) = op.size, op.input.shape
        outs = op.output.shape[2:]
        return [
            replace(
                op,
                input=op.input.sliced((image, 2 * row, 0, 0), (1, 1, width, depth), (1, 1, 2, 1)),
                output=op.output.sliced((image, row, 0, 0), (1, 1, *outs), (1, 1, 1, 1)),
                stride=(1, 1),
                size=(1, width),
            )
            for image in range(images)
            for row in range(height)
        ]

    def _cycles_by_tiling(self, op: Convolution) -> float:
        """Cycles of the layer by the library's tiling; no end of them where there is none."""
        name, _ = self._layer_of(self._on_images(op))
        if name is None:
            return math.inf
        code = self.result.layers[name]
        return float(predict_layers([code.layer], [code.schedule], self.accelerator)[0].cycles.item())

    def _addition(self, op: Addition) -> None:
        code = plan_library_addition(op, self.accelerator)
        if code is None:
            super()._addition(op)
            return
        self._run(
            self._code("library_addition", code),
            (op.left, op.right, op.output),
            (float32_bits(one) for one in (op.left_scale, op.right_scale, op.scale)),
            (op.left, op.right),
            op.output,
        )


@dataclass(frozen=True)
class LibraryAddition(OperatorCode):
    """An addition of dense matrices by runs of LOOP_WS that add.

    Attributes:
        rows, columns: of the matrices.
        pitches: elements from row to row of left, right and output.
        relu: whether negative sums become 0.
    """

    kinds: ClassVar[str] = "additions"

    rows: int
    columns: int
    pitches: tuple[int, ...]
    relu: bool

    @property
    def kind(self) -> str:
        """See `OperatorCode`."""
        return "addition"

    def __str__(self) -> str:
        return "addition in the accumulator"

    def tile(self, accelerator: Accelerator) -> tuple[int, int]:
        """Rows and columns of a run: halved or cut by blocks, the larger first, until half the accumulator holds it."""
        dim, rows, columns = accelerator.dim, self.rows, self.columns
        while -(-rows // dim) * dim * -(-columns // dim) > accelerator.accumulator_rows // 2:
            if rows >= columns or columns <= dim:
                rows = max(1, rows // 2)
            else:
                columns -= dim
        return rows, columns

    def cost(self, accelerator: Accelerator) -> StepCost:
        """The bytes, or the commands of the unrolled moves; energies as those of `AdditionCode` without the array."""
        dim, (rows, columns) = accelerator.dim, self.tile(accelerator)
        runs = math.ceil(self.rows / rows) * math.ceil(self.columns / columns)
        moves = 3 * runs * math.ceil(rows / dim) * math.ceil(columns / 64)
        sums, table = float(self.rows * self.columns), accelerator.energy_law
        cycles = max(3 * sums / bytes_per_cycle(accelerator), moves * float(dim), 6 * runs * COMMAND_CYCLES)
        return StepCost(
            cycles + PROFILES[accelerator.timing].begin_and_end,
            sums * 3 * table.dram_pj,
            3 * sums,
            0.0,
            3 * sums,
        )

    def emit(self, name: str, accelerator: Accelerator) -> ModuleOp:
        """See `OperatorCode`."""
        e, dim = (
            Emitter(name, ["left", "right", "output", "left_scale", "right_scale", "scale"]),
            accelerator.dim,
        )
        left, right, target, left_scale, right_scale, scale = e.arguments
        tile, sizes = self.tile(accelerator), (self.rows, self.columns)
        trips = [-(-size // part) for size, part in zip(sizes, tile, strict=True)]
        e.fence()  # runs that add and runs that multiply do not mix
        for state, factor in ((0, left_scale), (1, right_scale)):
            pitch = self.pitches[state]
            e.command("config_ld", state=state, block_stride=dim, shrink=1, stride=pitch, scale=factor)
        e.command("config_st", stride=self.pitches[2], acc_scale=scale, activation=int(self.relu))

        def extent(axis: int, number: Number) -> tuple[Number, Number]:
            """Blocks of a tile, and what the last of them lacks."""
            whole, rest = tile[axis], sizes[axis] - (trips[axis] - 1) * tile[axis]
            last = e.compare("eq", number, trips[axis] - 1)
            blocks = e.select(last, -(-rest // dim), -(-whole // dim))
            return blocks, e.select(last, -rest % dim, -whole % dim)

        with e.loop(trips[0]) as row, e.loop(trips[1]) as column:
            a, b, c = (
                e.add(one, e.mul(row, tile[0] * pitch), e.mul(column, tile[1]))
                for one, pitch in zip((left, right, target), self.pitches, strict=True)
            )
            (i, pad_i), (j, pad_j) = extent(0, row), extent(1, column)
            e.command("loop_ws_config_bounds", pad_i=pad_i, pad_j=pad_j, i=i, j=j)
            e.command("loop_ws_config_addrs_ab", a=a, b=b)
            e.command("loop_ws_config_addrs_dc", d=0, c=c)
            e.command("loop_ws_config_strides_ab", a_stride=self.pitches[0], b_stride=self.pitches[1])
            e.command("loop_ws_config_strides_dc", d_stride=0, c_stride=self.pitches[2])
            e.command("loop_ws", is_resadd=1)
        e.fence()
        return e.finish()

    def rows_used(self, accelerator: Accelerator) -> tuple[int, int]:
        """See `OperatorCode`."""
        return 0, accelerator.accumulator_rows


def plan_library_addition(op: Addition, accelerator: Accelerator) -> LibraryAddition | None:
    """The library's code of an addition; None if it has none: operands that are no matrices, or a machine without the moves."""
    able = plan_addition(op, accelerator)
    if able is None or not accelerator.features.loop_ws or len(able.nest.shape) > 2:
        return None
    if len(able.nest.shape) == 2:
        (rows, columns), pitches = able.nest.shape, tuple(steps[0] for steps in able.nest.strides)
    else:
        axes = zip(op.output.shape, op.output.strides, strict=True)
        columns = max((size for size, step in axes if step == 1), default=1)
        rows, pitches = op.output.words // columns, (columns,) * 3
    return LibraryAddition(rows, columns, pitches, op.relu)
