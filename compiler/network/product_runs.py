"""Some runs of LOOP_WS of a product that takes more of them than the accelerator takes at once: sums stay in the accumulator, and the
host does something else before the next ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.compiler.ir.emit import Emitter
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.operands import Operands
from baco.compiler.network.emission import scale_by
from baco.compiler.network.lowered import ANY_SCALE
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.steps import StepCost
from baco.compiler.schedules.schedule import LoopWsSchedule
from baco.compiler.styles.macros.loop_ws import LoopWs, check_loop_ws, product_rows


def run_count(layer: Layer, schedule: LoopWsSchedule, dim: int) -> int:
    """Runs of a product with one tile of results, on an array of a side."""
    return -(-layer.problem.C // (schedule.k * dim))


@dataclass(frozen=True)
class RunsCode(OperatorCode):
    """Runs `first` to `last` of a product of one group and one tile of results, which is stored by its last run.

    Attributes:
        layer, schedule: of the whole product.
        first, last: the first run, and the one behind the last.
    """

    kinds: ClassVar[str] = "runs of products"

    layer: Layer
    schedule: LoopWsSchedule
    first: int
    last: int

    @property
    def kind(self) -> str:
        """See `OperatorCode`."""
        return "runs of a product"

    def __str__(self) -> str:
        problem = self.layer.problem
        return f"runs {self.first} to {self.last - 1} of product {problem.P} x {problem.C} x {problem.K} by {self.schedule}"

    def cost(self, accelerator: Accelerator) -> StepCost:
        """Their share of the product."""
        (whole,) = predict_layers([self.layer], [self.schedule], accelerator)
        share = (self.last - self.first) / run_count(self.layer, self.schedule, accelerator.dim)
        return StepCost(whole.cycles.item() * share)

    def emit(self, name: str, accelerator: Accelerator) -> ModuleOp:
        """See `OperatorCode`."""
        bias = ["bias"] if self.layer.bias else []
        scale = ["scale"] if self.layer.scale == ANY_SCALE else []
        e = Emitter(name, ["input", "weight", "output", *bias, *scale])
        source, weight, target, *more = e.arguments
        operands = Operands(input=source, weight=weight, output=target, bias=more[0] if bias else 0)
        product = check_loop_ws(self.layer, self.schedule, accelerator)
        writer = LoopWs(e, self.layer, self.schedule, accelerator, operands, product)
        writer.configure()
        for run in range(self.first, self.last):
            writer.loops("", {"g": 0, "i": 0, "j": 0, "k": run})
        module = e.finish()
        if scale:
            scale_by(module, e.arguments[-1])
        return module

    def rows_used(self, accelerator: Accelerator) -> tuple[int, int]:
        """See `OperatorCode`."""
        product = check_loop_ws(self.layer, self.schedule, accelerator)
        weights, inputs, results = product_rows(product, self.schedule, accelerator.dim)
        return 2 * (weights + inputs), 2 * results
