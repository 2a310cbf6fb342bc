"""Code of single operators that the accelerator computes by its moves: a function of the program, and what is asked of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from baco.accel.config import Accelerator
from baco.compiler.network.steps import StepCost

#: Kinds, in the order in which programs have their functions.
KINDS = (
    "additions",
    "products with additions",
    "runs of products",
    "poolings",
    "functions of rows",
    "embeddings",
)


class OperatorCode(ABC):
    """All that a function depends on but its addresses and numbers. Its text is what it computes.

    Attributes:
        kinds: one of `KINDS`.
    """

    kinds: ClassVar[str]

    @property
    @abstractmethod
    def kind(self) -> str:
        """What one step of it is called."""

    @abstractmethod
    def emit(self, name: str, accelerator: Accelerator) -> ModuleOp:
        """The function."""

    @abstractmethod
    def rows_used(self, accelerator: Accelerator) -> tuple[int, int]:
        """Rows of the scratchpad and of the accumulator that the code uses."""

    @abstractmethod
    def cost(self, accelerator: Accelerator) -> StepCost:
        """Predicted, of one call."""
