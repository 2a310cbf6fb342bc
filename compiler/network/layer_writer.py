"""Writes the calls of layers: which function a layer is, what goes through which table or output stage, and their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.accel.number_formats import FORMATS, IntegerFormat
from baco.common.errors import InfeasibleError
from baco.compiler.analysis.arrays import INTEGERS
from baco.compiler.layers.layer import Layer, Layout, packed_nibbles
from baco.compiler.layers.weight_blocks import WeightBlocks, even_panel
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.group_writer import GroupWriter
from baco.compiler.network.groups import GroupScheduler
from baco.compiler.network.lowered import ANY_SCALE, LayerCode, Scheduler
from baco.compiler.network.output_stage import OutputStage, RequantisedPart, scale_words
from baco.compiler.network.step_writer import aligned_pitch, turned_rows
from baco.compiler.network.steps import Argument
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.views import View
from baco.compiler.styles.explicit.extents import load_blocks

#: A layer, whether its results go through a table, and how they are requantised beyond the layer's scale.
_Wanted = tuple[Layer, bool, OutputStage | None]


class LayerWriter(GroupWriter):
    """Layers of a network: a function for all that are alike, and their calls.

    Args:
        schedule: chooses how a layer is carried out.
    """

    def __init__(
        self,
        network: QuantisedNetwork,
        accelerator: Accelerator,
        schedule: Scheduler,
        groups: GroupScheduler | None,
    ) -> None:
        super().__init__(network, accelerator, groups)
        self._schedule = schedule
        self._layer_names: dict[_Wanted, str | None] = {}
        self._refusals: dict[_Wanted, str] = {}
        self._refused = ""  # why the layer that was asked for last is none
        #: What the results of the operator that is being written go through.
        self._table: Map | None = None
        self._output: OutputStage | None = None
        self._scales: View | None = None

    @contextmanager
    def _through(self, part: RequantisedPart, factors: str = "") -> Iterator[None]:
        """Layers that are asked for within requantise as a part of an operator does.

        Args:
            factors: value of all factors, by which scales of columns are called; empty: no code is written.
        """
        self._output = part.stage
        if part.stage.by_column and factors:
            self._scales = self._add_constant(f"{factors}.{part.start}", scale_words(part.factors))
        try:
            yield
        finally:
            self._output = self._scales = None

    def _packed_tables(self) -> tuple[View, ...]:
        """The table on the way out, if there is one."""
        return () if self._table is None else (self._packed(self._table),)

    def _run(
        self,
        function: str,
        pointers: Sequence[View],
        numbers: Iterable[int],
        reads: Sequence[View],
        target: View,
        *,
        host: bool = False,
    ) -> None:
        """A call of a function of the accelerator."""
        self._step(
            function,
            [*(self._pointer(view) for view in pointers), *numbers],
            [self._region(view) for view in reads],
            [self._region(target)],
            accelerator=True,
            host=host,
        )

    def _call_layer(
        self,
        name: str,
        source: View,
        weight: View,
        bias: View | None,
        target: View,
        scale: float | None,
        offsets: Sequence[tuple[int, int, int]] = ((0, 0, 0),),
    ) -> None:
        code = self.result.layers[name]
        spaces = [self._workspace(nbytes) for _, nbytes in code.workspaces]
        tables = self._packed_tables()
        tables += () if self._scales is None else (self._scales,)
        for at in offsets:
            arguments: list[Argument] = [
                self._pointer(view, offset) for view, offset in zip((source, weight, target), at, strict=True)
            ]
            if bias is not None:
                arguments.append(self._pointer(bias))
            arguments += [self._pointer(view) for view in (*spaces, *tables)]
            if code.layer.scale == ANY_SCALE:
                assert scale is not None
                arguments.append(float32_bits(scale))
            busy = [self._region(view) for view in spaces]
            read = [self._region(view) for view in (source, weight, bias, *tables) if view is not None]
            self._step(
                name,
                arguments,
                read + busy,
                [self._region(target), *busy],
                accelerator=True,
                host=bool(spaces),
            )

    def _with_weights(self, layer: Layer, weight: View) -> tuple[str | None, View]:
        """The function of a layer and the weights that it takes: two a byte or in blocks with shared powers, where they are such
        constants and a code style of the accelerator can load them so; else as they are."""
        blocked = self._block_weights(layer, weight)
        if blocked is not None:
            return blocked
        packed = self._packed_weights(layer, weight)
        name = None if packed is None else self._layer_name(packed[0], noted=False)
        if packed is None or name is None:
            return self._layer_name(layer), weight
        return name, packed[1]

    def _block_weights(self, layer: Layer, weight: View) -> tuple[str, View] | None:
        """The function of a layer whose weights lie in blocks with shared powers, and these; None where that cannot be, or takes no
        less memory.

        Panels have even parts of the columns, as many as a load brings or, where tiles of that many do not fit, as the array has.
        """
        constant, p = self.network.values.get(weight.value), layer.problem
        form = None if constant is None else constant.blocks
        if form is None or not self.accelerator.features.block_weights or p.groups > 1:
            return None
        elements = self._elements(weight).reshape(-1, *weight.shape[-2:])
        if weight.value not in self._data or elements.shape != (p.S * p.R, p.C, p.K):
            return None
        dim = self.accelerator.dim
        together = load_blocks(INTEGERS, dim, self.accelerator.dma_max_bytes, layer.element_bytes)
        for columns in dict.fromkeys(even_panel(p.K, most, dim) for most in (dim * together, dim)):
            blocks = WeightBlocks(form, columns)
            stored = blocks.stored(elements)
            if stored is None or stored.nbytes >= elements.nbytes:
                return None
            own = replace(layer, weights_transposed=False, weight=Layout(0), weight_blocks=blocks)
            name = self._layer_name(own, noted=False)
            if name is not None:
                place = f"{weight.value}.{weight.offset}.{'x'.join(map(str, weight.shape))}"
                return name, self._add_constant(f"{place}.{form}.{columns}", stored)
        return None

    def _packed_weights(self, layer: Layer, weight: View) -> tuple[Layer, View] | None:
        """A layer whose weights lie two a byte, and these, in rows that begin with a byte; None where that cannot be.

        Scales of columns (`OutputStage`) go with int8 weights.
        """
        product = len(weight.shape) == 2
        if not self.accelerator.features.packed_weights or self._output is not None:
            return None
        if weight.value not in self._data or (
            layer.problem.groups > 1 and (product or layer.weight.group % 2)
        ):
            return None
        stored = turned_rows(weight) if layer.weights_transposed else weight
        elements = self._elements(stored)
        form = FORMATS["int4"]
        assert isinstance(form, IntegerFormat)
        if elements.min(initial=0) < form.low or elements.max(initial=0) > form.high:
            return None
        rows = packed_nibbles(elements.reshape(-1, elements.shape[-1]))
        pitch = aligned_pitch(rows.shape[1]) if product else rows.shape[1]
        constant = np.zeros((rows.shape[0], pitch), np.int8)
        constant[:, : rows.shape[1]] = rows
        view = self._add_constant(
            f"{stored.value}.{stored.offset}.{'x'.join(map(str, stored.shape))}.packed", constant
        )
        return replace(layer, weight=Layout(2 * pitch, layer.weight.group), weight_bits=4), view

    def _layer_name(self, layer: Layer, *, noted: bool = True) -> str | None:
        """The function of a layer, None if the accelerator cannot compute it, which is `noted`."""
        if layer.scale not in (None, 1.0):
            layer = replace(layer, scale=ANY_SCALE)
        key = (layer, self._table is not None, self._output)
        if key not in self._layer_names:
            try:
                schedule, workspaces = self._schedule(layer)
            except InfeasibleError as error:
                self._layer_names[key] = None
                self._refusals[key] = str(error)
                if noted:
                    self._note(self._operator, str(error))
            else:
                name = f"layer_{len(self.result.layers)}"
                self._layer_names[key] = name
                self.result.layers[name] = LayerCode(layer, schedule, workspaces, *key[1:])
        self._refused = self._refusals.get(key, "")
        return self._layer_names[key]

    def _note(self, operator: str, reason: str) -> None:
        self.result.notes.append(f"{operator}: not on the accelerator as a whole: {reason}")
