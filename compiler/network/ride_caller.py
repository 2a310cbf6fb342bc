"""Writes the calls of products with the additions to their results (`baco.compiler.network.riding`)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from baco.accel.isa import float32_bits
from baco.compiler.network.addition import identity, plan_addition
from baco.compiler.network.layer_writer import LayerWriter
from baco.compiler.network.layers import convolution_layer
from baco.compiler.network.lowered import ANY_SCALE
from baco.compiler.network.riding import Rides, products_before, riding_code
from baco.compiler.network.riding_plan import RidingPlan
from baco.compiler.ops.elementwise import Addition
from baco.compiler.ops.products import Convolution


class RideCaller(LayerWriter):
    """Which additions take a product along, and their calls; arguments as those of `LayerWriter`."""

    #: Products whose results an addition takes along, by its name; they are computed at its turn.
    _riding: Mapping[str, Convolution] = {}

    def _plan_rides(self, rides: Rides, tables: Container[str]) -> set[str]:
        """Decide which additions take a product along; the names of these products.

        Args:
            tables: names of the operators whose results go through tables.
        """
        riding: dict[str, Convolution] = {}
        for addition, products in products_before(self.network):
            code = plan_addition(addition, self.accelerator)
            if code is None or addition.name in tables:
                continue
            for product in products:
                made = riding_code(product, addition)
                if made is None or product.weight.value not in self._data:
                    continue
                layer = convolution_layer(product)
                if rides(replace(layer, scale=ANY_SCALE), code, made[0]):
                    riding[addition.name] = product
                    self.result.reasons[product.name] = f"in one unit with {addition.name}"
                    break
        self._riding = riding
        return {product.name for product in riding.values()}

    def _ride(self, product: Convolution, op: Addition) -> None:
        """Append the call of an addition and of the product that it takes along."""
        found = riding_code(product, op)
        assert found is not None
        assert product.scale is not None
        code, added, sums = found
        ones = self._add_constant(f"identity{self.accelerator.dim}", identity(self.accelerator.dim))
        weight = self._constant(product.weight)
        bias = None if product.bias is None else self._constant(product.bias)
        kept = self._workspace(RidingPlan.of(code.product, self.accelerator).kept_bytes)
        read = [view for view in (product.input, weight, bias, kept, ones, added) if view is not None]
        operands = (product.input, weight, bias, kept, ones, added, sums)
        arguments = [0 if view is None else self._pointer(view) for view in operands]
        added_scale = op.right_scale if op.left.value == product.output.value else op.left_scale
        self._step(
            self._code("ride", code),
            [*arguments, *(float32_bits(one) for one in (product.scale, added_scale, op.scale))],
            [self._region(view) for view in read],
            [self._region(view) for view in (kept, sums)],
            accelerator=True,
            host=False,
        )
