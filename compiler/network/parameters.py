"""Elements of a network's parameters: those of its source, or random ones."""

from __future__ import annotations

import numpy as np

from common.errors import InputError, Location
from workloads.semantics import Parameter

__all__ = ["Parameters"]


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

    @property
    def random(self) -> tuple[str, ...]:
        """Names of the parameters that were drawn so far."""
        return tuple(self._random)

    def __call__(self, parameter: Parameter) -> np.ndarray:
        """Elements of a parameter, of its shape. Raises InputError when stored ones do not have it."""
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
