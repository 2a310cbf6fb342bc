"""Writes operators that accelerator and host share: normalisations, and products with what the host does with their results.

Of these, the host works on a part while the array makes the next (`baco.compiler.network.rounds`). The host core stands still when
the accelerator takes no more commands, and a fence waits for all that was given it. So a part is what the accelerator takes at
once, two runs of LOOP_WS at most: the fence before a round waits for the one before, the part goes to the accelerator, and the
host's own part runs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError
from baco.compiler.latency import predict_layers
from baco.compiler.layers.layer import Layer
from baco.compiler.network.layers import matmul_layer
from baco.compiler.network.lowered import ANY_SCALE
from baco.compiler.network.product_runs import RunsCode, run_count
from baco.compiler.network.ride_caller import RideCaller
from baco.compiler.network.rounds import ArrayPart, Part, Shared
from baco.compiler.network.row_sums import SummedRows, sums_of_rows
from baco.compiler.network.shared_work import TAKEN, SharedWork
from baco.compiler.network.steps import pointer, regions
from baco.compiler.ops.elementwise import Addition, Gate, Map
from baco.compiler.ops.host_model import host_cycles
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor
from baco.compiler.ops.products import MatMul
from baco.compiler.ops.rows import Normalisation, NormalisationBySums
from baco.compiler.ops.views import View
from baco.compiler.schedules.schedule import LoopWsSchedule
from baco.compiler.styles.macros.loop_ws import check_loop_ws


class PartCaller(RideCaller):
    """Operators that accelerator and host share."""

    #: Whether the array adds up rows that the host normalises.
    _sums = False
    #: Operators that accelerator and host compute in turns, by the last one of them; they are computed at its turn.
    _shared: Mapping[str, Shared] = {}
    #: Predicted cycles of products in parts.
    _predicted: dict[tuple[Layer, LoopWsSchedule], float]

    def _plan_parts(self, others: Collection[str], gates: Mapping[str, tuple[Map, Gate]]) -> None:
        """Look for operators that go in parts, but for those of these names, which are computed elsewhere.

        Args:
            gates: see `SharedWork`.
        """
        if self.accelerator.features.row_functions:
            return
        self._predicted = {}
        work = SharedWork(
            self.network, others, self.accelerator.dim, gates, self._runs_of, self._cycles_of, self._sums_of
        )
        self._shared = {shared.operators[-1].name: shared for shared in work.find()}

    def _summed(
        self, op: Normalisation, multiply: Callable[[MatMul], None]
    ) -> Normalisation | NormalisationBySums:
        """What remains of a normalisation for the host where the accelerator adds up its rows, whose calls are then written; all of
        it elsewhere. Offsets get the half that rounds.

        Args:
            multiply: writes the call of a product.
        """
        parts = self._sums_of(op, op.name)
        if parts is None:
            return self._as_stored(op)
        for product in parts.products:
            multiply(product)
        return parts.rest

    def _as_stored(self, op: Normalisation) -> Normalisation:
        """A normalisation with gains and offsets as the host's code reads them."""
        offset = self._by_element(self._rounding(op.offset))
        return replace(op, gain=self._by_element(op.gain), offset=offset)

    def _sums_of(self, op: Normalisation, name: str) -> SummedRows | None:
        """A normalisation whose rows the accelerator adds up, in parts; None where it does not.

        Args:
            name: that the sums are called by.
        """
        self._operator = op.name
        op = self._as_stored(op)
        names = (f"ones{op.input.shape[-1]}", f"{name}.sums", f"{name}.squares")
        parts = sums_of_rows(op, self.accelerator.dim, names) if self._sums else None
        if parts is None:
            return None
        calls = [matmul_layer(product) for product in parts.products]
        if any(call is None or self._layer_name(call.layer) is None for call in calls):
            return None
        self._add_constant(parts.ones.value, np.ones(parts.ones.shape, np.int8))
        for value, words in zip(names[1:], (parts.sums, parts.squares), strict=True):
            self.values[value] = IntegerTensor(value, (words,), "int32")
        return parts

    def _in_rounds(
        self, work: Shared, multiply: Callable[[MatMul], None], add: Callable[[Addition], None]
    ) -> None:
        """Write the calls of operators that accelerator and host compute in turns.

        Args:
            multiply, add: write the call of a product, of an addition.
        """
        words = {name: math.prod(value.shape) for name, value in self.values.items()}
        replaced = {
            op.name: name for op in work.operators if (name := self._replaced_in_parts(op)) is not None
        }
        for ours, theirs in work.rounds(words, self._cycles_of):
            if ours is not None:
                self._operator = ours.op.name
                if isinstance(ours.op, Addition):
                    add(ours.op)
                elif ours.runs is not None:
                    self._call_runs(ours.op, *ours.runs)
                else:
                    self._schedule_at_once(ours.op)
                    multiply(ours.op)
                self._exactly(ours.op, waits=bool(theirs))
            for part in theirs:
                self._operator = part.name
                self._host(part.host_call(self.values))
                operand = next((view for view in part.inputs if view.value == replaced.get(part.name)), None)
                self._exactly(part, replaces=operand)
                self.result.reasons[part.name] = "while the accelerator goes on with products"

    def _replaced_in_parts(self, op: IntegerOperator) -> str | None:
        """The operand whose memory the result may take over part by part: what nothing else reads."""
        name = self.result.in_place.get(op.output.value)
        others = (other for other in self.network.operators if other.name != op.name)
        return None if any(view.value == name for other in others for view in other.inputs) else name

    def _cycles_of(self, part: Part) -> float:
        """What a part takes, about."""
        if not isinstance(part, ArrayPart):
            call = part.host_call(self.values)
            places = [
                None if view is None else (view.value, pointer(view, self.values).offset)
                for view in call.operands
            ]
            return host_cycles(call.work, call.work.misses(places), self.accelerator.timing)
        if isinstance(part.op, Addition):
            return 0.0  # the host gives all of its commands
        found = self._in_runs(part.op)
        if found is None:
            return 0.0
        if found not in self._predicted:
            (whole,) = predict_layers([found[0]], [found[1]], self.accelerator)
            self._predicted[found] = float(whole.cycles.item())
        return self._predicted[found] / (1 if part.runs is None else run_count(*found, self.accelerator.dim))

    def _runs_of(self, product: MatMul) -> int | None:
        """Runs of LOOP_WS of a product with one tile of results; None of another one."""
        found = self._in_runs(product)
        return None if found is None else run_count(*found, self.accelerator.dim)

    def _in_runs(self, product: MatMul) -> tuple[Layer, LoopWsSchedule] | None:
        """The layer of a product of one matrix and its schedule as one tile of results."""
        calls = matmul_layer(product)
        if calls is None or len(calls.offsets) > 1 or product.scale is None or calls.layer.problem.groups > 1:
            return None
        dim, problem = self.accelerator.dim, calls.layer.problem
        i, j, depth = (-(-extent // dim) for extent in (problem.P, problem.K, problem.C))
        # each of the runs that are taken has its share of the scratchpad
        most = self.accelerator.scratchpad_rows // TAKEN // ((i + j) * dim)
        if most == 0:
            return None
        count = -(-depth // most)
        schedule = LoopWsSchedule(i, j, -(-depth // count))
        layer = calls.layer if calls.layer.scale == 1.0 else replace(calls.layer, scale=ANY_SCALE)
        try:
            check_loop_ws(layer, schedule, self.accelerator)
        except InfeasibleError:
            return None
        return layer, schedule

    def _schedule_at_once(self, product: MatMul) -> None:
        """The layer of a part of a product is carried out by runs that the accelerator takes at once."""
        found = self._in_runs(product)
        if found is None:
            return
        layer, schedule = found
        name = self._layer_name(layer)
        assert name is not None
        self.result.layers[name] = replace(self.result.layers[name], schedule=schedule, workspaces=())

    def _call_runs(self, op: MatMul, first: int, last: int) -> None:
        """Append the call of some runs of a product."""
        found = self._in_runs(op)
        assert found is not None
        layer, schedule = found
        bias = None if op.bias is None else self._constant(op.bias)
        views = [view for view in (op.left, op.right, op.output, bias) if view is not None]
        numbers = [float32_bits(op.scale)] if layer.scale == ANY_SCALE and op.scale is not None else []
        name = self._code("runs", RunsCode(layer, schedule, first, last))
        self._run(name, views, numbers, [view for view in views if view is not op.output], op.output)

    def _exactly(self, part: IntegerOperator, *, waits: bool = False, replaces: View | None = None) -> None:
        """The last call touches of values what a part of an operator does, and not what is in the gaps between."""
        step = self.result.steps[-1]
        touched = {view.value for view in part.inputs if view.value not in self._data}
        reads = [one for one in step.reads if one.value not in touched]
        reads += [one for view in part.inputs if view.value in touched for one in regions(view, self.values)]
        writes = tuple(regions(part.output, self.values))
        self.result.steps[-1] = replace(
            step, reads=tuple(reads), writes=writes, waits=waits, replaces=replaces
        )
