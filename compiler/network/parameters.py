"""Elements of a network's parameters: those of its source, or random ones."""

from __future__ import annotations

import math

import numpy as np

from baco.common.errors import InputError, Location
from baco.compiler.ops.arithmetic import distinct
from baco.workloads.semantics import Parameter

#: Elements of parameters that are kept in memory.
_KEPT_BYTES = 512 << 20
#: Elements of parameters whose values a sketch of a network takes as they are: masks, tables and factors matter, large
#: weights do not.
_FEW = 1 << 16


class Parameters:
    """Gives the elements of parameters, and remembers which had to be drawn.

    Args:
        source: of the network, for messages.
        seed: of what is drawn; the same seed gives the same elements.
    """

    def __init__(self, source: str, seed: int = 0) -> None:
        self.source = source
        self.seed = seed
        self._random: dict[str, None] = {}
        #: What was asked for, oldest first: a network is calibrated and quantised with the same elements.
        self._kept: dict[tuple[object, ...], tuple[Parameter, np.ndarray]] = {}

    @property
    def random(self) -> tuple[str, ...]:
        """Names of the parameters that were drawn so far."""
        return tuple(self._random)

    def __call__(self, p: Parameter) -> np.ndarray:
        """Elements of a parameter, of its shape, read-only. Raises InputError when stored ones do not have it."""
        key = (p.name, p.shape, p.stored_shape, p.steps, p.fill, p.fan_in, p.spread, id(p.load))
        if key not in self._kept:
            value = self._elements(p).view()
            value.setflags(write=False)
            self._kept[key] = p, value
            while sum(v.nbytes for _, v in self._kept.values()) > _KEPT_BYTES and len(self._kept) > 1:
                del self._kept[next(iter(self._kept))]
        return self._kept[key][1]

    def scaled(self, p: Parameter, factor: np.ndarray | float) -> np.ndarray:
        """Elements times a factor, float64."""
        return np.asarray(np.multiply(self(p), factor, dtype=np.float64))

    def whole(self, p: Parameter) -> np.ndarray:
        """Whole numbers that a quantised model stores for a parameter, of its shape."""
        assert p.whole is not None
        return p.whole_numbers(self(p.whole.elements))

    def _elements(self, parameter: Parameter) -> np.ndarray:
        try:
            value = parameter.value()
        except ValueError as error:
            raise InputError(
                f"the parameter does not have the shape {parameter.shape}: {error}",
                location=Location(self.source, node=parameter.name),
            ) from None
        if value is None:
            self._random[parameter.name] = None
            value = parameter.drawn(self.seed)
        if value.dtype.kind not in "fiub":
            value = value.astype(np.float32)  # bfloat16 and other types that numpy does not have itself
        return value


class ParameterShapes(Parameters):
    """Parameters of the right shapes; large ones hold one number everywhere, and take no memory."""

    def scaled(self, p: Parameter, factor: np.ndarray | float) -> np.ndarray:
        """As for `Parameters`; what holds one number everywhere is left as it is."""
        value = self(p)
        return value if value.size != distinct(value).size else super().scaled(p, factor)

    def _elements(self, parameter: Parameter) -> np.ndarray:
        if math.prod(parameter.shape) <= _FEW:
            return super()._elements(parameter)
        return np.broadcast_to(np.float32(0.01), parameter.shape)

    def whole(self, p: Parameter) -> np.ndarray:
        """As for `Parameters`; of large ones zero everywhere."""
        assert p.whole is not None
        if math.prod(p.shape) <= _FEW:
            return super().whole(p)
        return np.broadcast_to(np.int8(0), p.shape)
