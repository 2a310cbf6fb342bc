"""Products with constants whose results something is added to: the additions of some results run while the array computes others.

On the original the sum cannot be formed where the product's sums lie: an int8 operand that is added there stays below 128 of the
product's units, and results reach the array again only through main memory. So a part of the results leaves as int8, and while the
next part is computed it comes back, together with what is added: the array adds one to the other times the identity matrix. Its
loads and stores lie beside passes that leave the memory port idle, a part later and what it brings lies in the L2 cache still, and
there is one wait a part. Integers are those of the two operators one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import MOVE_BYTES, Accelerator
from baco.accel.dataflows import MACRO_DATAFLOW
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.profile import PROFILES
from baco.compiler.ir.emit import Emitter
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.network.addition import AdditionCode
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.groups import added_to
from baco.compiler.network.layers import is_image, pixel_pitch
from baco.compiler.network.lowered import Scheduler
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.riding_plan import RiddenProduct, RidingPlan
from baco.compiler.network.riding_writer import RidingWriter
from baco.compiler.network.steps import StepCost
from baco.compiler.ops.elementwise import Addition
from baco.compiler.ops.products import Convolution
from baco.compiler.ops.views import View

#: What an addition by itself takes longer for a row of a block that is scaled.
_SCALED_ALONE = 3.1


@dataclass(frozen=True)
class RidingCode(OperatorCode):
    """All that the code of a product and of the addition to its results depends on but its addresses and scales."""

    kinds: ClassVar[str] = "products with additions"

    product: RiddenProduct

    @property
    def kind(self) -> str:
        """See `OperatorCode`."""
        return "product with addition"

    def __str__(self) -> str:
        ride = self.product
        return f"product {ride.rows} x {ride.depth} x {ride.columns}, to whose results something is added a part later"

    def cost(self, accelerator: Accelerator) -> StepCost:
        """Pieces as long as what takes longest of them; waits, and the additions to the last part by themselves."""
        ride, plan = self.product, RidingPlan.of(self.product, accelerator)
        macs = ride.rows * ride.columns * (ride.depth + accelerator.dim)
        table, results = accelerator.energy_law, float(ride.rows * ride.columns)
        moved = 4 * results + ride.depth * (ride.rows + ride.columns)
        words = float(plan.pieces * plan.passes * accelerator.dim)
        fixed = sum(table.array_terms(float(macs), words, float(accelerator.dim))) + moved * table.dram_pj
        cycles = plan.cycles + PROFILES[accelerator.timing].begin_and_end
        return StepCost(cycles, fixed, 2.0 * macs / accelerator.dim, 2 * moved, moved)

    def emit(self, name: str, accelerator: Accelerator) -> ModuleOp:
        """See `OperatorCode`."""
        tensors = ["input", "weight", "bias", "kept", "identity", "added", "sums"]
        e = Emitter(name, [*tensors, "product_scale", "added_scale", "scale"])
        RidingWriter(e, self.product, accelerator).write()
        return e.finish()

    def rows_used(self, accelerator: Accelerator) -> tuple[int, int]:
        """See `OperatorCode`."""
        return accelerator.scratchpad_rows, accelerator.accumulator_rows


#: Whether a product, a layer, runs with an addition rather than before it.
Rides: TypeAlias = Callable[[Layer, AdditionCode, RidingCode], bool]


class RideChoice:
    """Lets an addition ride where that is predicted to take fewer cycles than the product and the addition do.

    Args:
        schedule: chooses how the product is carried out by itself.
    """

    def __init__(self, accelerator: Accelerator, schedule: Scheduler) -> None:
        self._accelerator, self._schedule = accelerator, schedule

    def __call__(self, product: Layer, addition: AdditionCode, code: RidingCode) -> bool:
        """See `Rides`."""
        accelerator = self._accelerator
        if not can_ride(code, accelerator):
            return False
        try:
            schedule, _ = self._schedule(product)
        except InfeasibleError:
            return True
        apart = predict_layers([product], [schedule], accelerator)[0].cycles.item()
        apart += addition.cost(accelerator).cycles
        apart += (
            _SCALED_ALONE * code.product.scaled * code.product.rows * code.product.columns / accelerator.dim
        )
        return code.cost(accelerator).cycles < apart


def products_before(network: QuantisedNetwork) -> Iterator[tuple[Addition, list[Convolution]]]:
    """Additions with the convolutions whose results they alone read, all of them."""
    once = network.used_once()
    by_result = {op.output.value: op for op in network.operators if isinstance(op, Convolution)}
    for op in network.operators:
        if not isinstance(op, Addition):
            continue
        names = [view.value for view in op.inputs if view.value in once]
        yield op, [by_result[name] for name in names if name in by_result]


def riding_code(product: Convolution, addition: Addition) -> tuple[RidingCode, View, View] | None:
    """The code of a product with constants to whose results an addition adds something; what it adds, and where the sums go, as
    images. None where the convolution is no product, or something else is added."""
    found = added_to(product, addition)
    taps = product.weight.shape[:2]
    plain = taps == product.stride == (1, 1) and product.padding == (0, 0) and product.groups == 1
    if found is None or not plain or product.pool or product.scale is None or not is_image(product.input):
        return None
    added, sums, scale = found
    pitch, added_pitch, sums_pitch = (pixel_pitch(one) for one in (product.input, added, sums))
    if pitch is None or added_pitch is None or sums_pitch is None:
        return None
    *_, depth, columns = product.weight.shape
    ride = RiddenProduct(
        product.input.words // depth,
        depth,
        columns,
        (pitch, columns, added_pitch, sums_pitch),
        product.bias is not None,
        product.relu,
        addition.relu,
        scale != 1.0,
    )
    return RidingCode(ride), added, sums


def can_ride(code: RidingCode, accelerator: Accelerator) -> bool:
    """Whether an accelerator can carry the code out: tiles are whole, and what the original offers is there."""
    features, dim = accelerator.features, accelerator.dim
    able = (
        accelerator.timing == "gemmini"
        and MACRO_DATAFLOW in accelerator.dataflows
        and features.preload_d
        and features.read_small_width
        and features.accumulator_scale
        and features.mvin_scale
        and features.activations
        and MOVE_BYTES % dim == 0
        and code.product.depth % dim == 0
        and code.product.columns % MOVE_BYTES == 0
    )
    if not able:
        return False
    try:
        RidingPlan.of(code.product, accelerator)
    except ValueError:
        return False
    return True
