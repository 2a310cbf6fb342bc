"""Writes the calls of a network's program, and keeps the values that they touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from baco.accel.config import Accelerator
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.lowered import LoweredNetwork
from baco.compiler.network.operator_code import OperatorCode
from baco.compiler.network.row_code import packed_parameters
from baco.compiler.network.steps import Argument, ByteRange, Step, ValueAddress, pointer, region
from baco.compiler.ops.elementwise import Map
from baco.compiler.ops.host_work import HostWork
from baco.compiler.ops.operator import HostCall, IntegerTensor, itemsize
from baco.compiler.ops.rows import Normalisation, Softmax
from baco.compiler.ops.views import View, dense
from baco.compiler.row_functions import OFFSET_FRACTION
from baco.compiler.styles.fused.row_unit import packed_table

_Code = TypeVar("_Code")

#: Bytes of the largest memory request; weights may grow by one part in so many to begin there.
_REQUEST, _MOST_PADDING = 64, 8


class StepWriter:
    """Calls of a program, one after the other, and the values that they touch.

    Attributes:
        result: all that was written.
        values: of the network, and those that the lowering added.
    """

    def __init__(self, network: QuantisedNetwork, accelerator: Accelerator) -> None:
        self.network, self.accelerator = network, accelerator
        self.result = LoweredNetwork(network)
        self.values: dict[str, IntegerTensor] = dict(network.values)
        self._data: dict[str, np.ndarray] = dict(network.constants)
        self._parameter_names: dict[tuple[int, ...], str] = {}
        self._operator = ""

    def _host(self, call: HostCall) -> None:
        for name, data in call.extra.items():
            self._add_constant(name, data)
        self.result.sources[call.source] = call.code
        if call.parameters not in self._parameter_names:
            name = f"parameters.{len(self._parameter_names)}"
            self._parameter_names[call.parameters] = name
            self._add_constant(name, np.array(call.parameters, dtype=np.int64))
        parameters = dense(self._parameter_names[call.parameters], (len(call.parameters),))
        *read, target = (
            self._constant(view) if view is not None and self._is_tabular(view) else view
            for view in call.operands
        )
        assert target is not None
        given = [parameters, *read]
        self._step(
            call.function,
            [0 if one is None else self._pointer(one) for one in (*given, target)],
            [self._region(one) for one in given if one is not None],
            [self._region(target)],
            work=call.work,
        )

    @staticmethod
    def _is_tabular(view: View) -> bool:
        """Whether the host's code takes the operand as a dense table."""
        return view.shape in ((256,), (256, 256)) and not view.is_dense

    def _step(
        self,
        function: str,
        arguments: Sequence[Argument],
        reads: Sequence[ByteRange],
        writes: Sequence[ByteRange],
        accelerator: bool = False,
        host: bool = True,
        also: Sequence[str] = (),
        work: HostWork | None = None,
    ) -> None:
        touched = tuple(reads), tuple(writes)
        self.result.steps.append(
            Step(self._operator, function, tuple(arguments), *touched, accelerator, host, tuple(also), work)
        )

    def _pointer(self, view: View, offset: int = 0) -> ValueAddress:
        self._use(view.value)
        at = pointer(view, self.values)
        return ValueAddress(at.value, at.offset + offset * itemsize(self.values[view.value]))

    def _region(self, view: View) -> ByteRange:
        return region(view, self.values)

    def _use(self, name: str) -> None:
        """Values that steps touch are in the result, with their data if they are constants."""
        if name not in self.result.values:
            self.result.values[name] = self.values[name]
            if name in self._data:
                self.result.constants[name] = self._data[name]

    # ---------------------------------------------------------------- values

    def _add_constant(self, name: str, data: np.ndarray) -> View:
        if name not in self.values:
            dtype = data.dtype.name
            self.values[name] = IntegerTensor(name, data.shape, dtype, role="constant")  # type: ignore[arg-type]
            self._data[name] = data
        return dense(name, data.shape)

    def _constant(self, view: View) -> View:
        """A constant's view as a dense constant."""
        if view.is_dense or view.value not in self._data:
            return view
        elements = np.ascontiguousarray(view.read(self._data[view.value]))
        return self._add_constant(
            f"{view.value}.{view.offset}.{'x'.join(map(str, view.shape))}.{'x'.join(map(str, view.strides))}",
            elements,
        )

    def _temporary(self, shape: Sequence[int], like: View) -> View:
        name = f"{self._operator}.temporary{len(self.values)}"
        self.values[name] = IntegerTensor(name, tuple(shape), self.values[like.value].dtype)
        return dense(name, shape)

    def _workspace(self, nbytes: int) -> View:
        name = f"{self._operator}.workspace{len(self.values)}"
        self.values[name] = IntegerTensor(name, (nbytes,))
        return dense(name, (nbytes,))

    def _elements(self, view: View) -> np.ndarray:
        """Of a constant."""
        return view.read(self._data[view.value])

    def _rounding(self, offset: View) -> View:
        """Offsets of a normalisation with the half that rounds its result, which saves the host an addition an element."""
        half = np.int32(1 << (OFFSET_FRACTION - 1))
        name = f"{offset.value}.rounding"
        self._add_constant(name, self._data[offset.value] + half)
        return replace(offset, value=name)

    def _by_element(self, parameter: View) -> View:
        """A parameter that is the same for all elements of a row, as RMS norm's offset is, one for each of them: the host then takes
        rows of neighbours side by side."""
        *lead, step = parameter.strides
        count = parameter.shape[-1]
        if step or any(lead) or count == 1:
            return parameter
        element = self._data[parameter.value].reshape(-1)[parameter.offset]
        row = self._add_constant(f"{count}x{element}", np.full(count, element, np.int32))
        return row.expanded(parameter.shape)

    def _with_aligned_rows(self, view: View) -> View:
        """Weights whose rows begin at multiples of a memory request, if that makes them little larger.

        A load fetches naturally aligned requests, so rows that begin anywhere take more of them.
        """
        if view.value not in self._data or len(view.shape) != 2:
            return view
        turned = view.strides[1] != 1
        rows = turned_rows(view) if turned else view
        count, extent = rows.shape
        pitch = aligned_pitch(extent)
        if rows.strides != (extent, 1) or count == 1 or pitch == extent:
            return view
        elements = np.zeros((count, pitch), dtype=self._data[view.value].dtype)
        elements[:, :extent] = rows.read(self._data[view.value])
        name = f"{view.value}.{rows.offset}.{count}x{extent}.pitch{pitch}"
        self._add_constant(name, elements)
        aligned = View(name, rows.shape, (pitch, 1))
        return turned_rows(aligned) if turned else aligned

    # ---------------------------------------------------------------- functions

    def _named(self, kind: str, code: _Code, codes: dict[str, _Code]) -> str:
        """The function of a code, one for all that are alike."""
        known = next((name for name, one in codes.items() if one == code), None)
        name = known or f"{kind}_{len(codes)}"
        codes[name] = code
        return name

    def _code(self, prefix: str, code: OperatorCode) -> str:
        """The function of the code of a single operator; those of a kind are numbered."""
        alike = {name: known for name, known in self.result.codes.items() if type(known) is type(code)}
        name = self._named(prefix, code, alike)
        self.result.codes[name] = code
        return name

    def _mask(self, op: Softmax) -> np.ndarray | None:
        """Elements of a softmax's mask."""
        if op.mask is None:
            return None
        # nothing is known of a mask that the program computes: no causal one has less than two dimensions
        return self._elements(op.mask) if op.mask.value in self._data else np.empty(0)

    def _packed(self, op: Map | Softmax | Normalisation) -> View:
        """The table of an operator, or its gains and offsets, as commands take them."""
        if isinstance(op, Normalisation):
            lead = len(op.input.shape) - op.axes
            gain, offset = (
                self._elements(replace(one, shape=one.shape[lead:], strides=one.strides[lead:])).reshape(-1)
                for one in (op.gain, op.offset)
            )
            name = f"{op.gain.value}.{op.offset.value}.packed{self.accelerator.dim}"
            return self._add_constant(name, packed_parameters(gain, offset, self.accelerator.dim))
        assert op.table is not None
        entries = self._elements(op.table)
        if isinstance(op, Map):  # from the element 0 on, those with their sign bit behind the others
            entries = np.roll(entries, -128)
        return self._add_constant(f"{op.table.value}.packed", packed_table(entries))


def aligned_pitch(extent: int) -> int:
    """Bytes from row to row of weights with rows of `extent` bytes, so that they begin at requests if that makes them little
    larger."""
    pitch = -(-extent // _REQUEST) * _REQUEST
    return extent if (pitch - extent) * _MOST_PADDING > extent else pitch


def turned_rows(view: View) -> View:
    """The matrices of a batch transposed."""
    axes = [*range(len(view.shape) - 2), len(view.shape) - 1, len(view.shape) - 2]
    return view.transposed(axes)
