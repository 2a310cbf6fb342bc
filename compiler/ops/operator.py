"""What every integer operator of a quantised network has: its result, the elements that it touches, its call on the host core.

A kind of operators is one class, `IntegerOperator`. Its docstring states its result as integer arithmetic on the elements of its
views, exact to the bit; `compute` is that in numpy and independent of emitted code, and the accelerator and the host's C code
compute the same. Notation:

* `sat8(x)`: x limited to -128...127.
* `scaled(x, s)`: sat8(round(float32(x) * s)) with float32 s; conversion, product and rounding to nearest, ties to
  even (section 10 of the instruction set).
* `x * F` for a `FixedPoint` F: (x * F.multiplier + 2**(F.shift - 1)) >> F.shift in int64, >> arithmetic.

Images are stored with channels last. All operands are views (`baco.compiler.ops.views.View`) of values; weights, biases and
tables are values too, of the role `constant`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from baco.compiler.layers.weight_blocks import BlockWeights
from baco.compiler.mapping.contraction import Access
from baco.compiler.ops.host_work import HostWork
from baco.compiler.ops.views import View
from baco.workloads.encoding import Encoding

Array: TypeAlias = np.ndarray
#: Elements of a view.
Read: TypeAlias = Callable[[View], Array]
Dtype = Literal["int8", "int16", "int32", "int64", "float32"]
Role = Literal["input", "constant", "intermediate", "output"]

#: Operations for an element moved from which on an operator that reduces computes.
THRESHOLD = 2.0


@dataclass(frozen=True)
class IntegerTensor:
    """A tensor in memory: a row-major block. Real numbers are `scale * (integer - zero)`.

    Attributes:
        name: unique in the network.
        shape: as stored (images N, H, W, C).
        dtype: of the elements; indices (tokens, positions of maxima) are int32, real numbers that a quantised model leaves float32.
        scale: a real number is scale * (element - zero); 1.0 for indices.
        role: `input`: written by the user; `output`: read by the user; `constant`: elements in the network.
        zero: the element that stands for 0; 0 but where a model that is quantised already says else.
        encoding: of the int8 elements as the model gives it; None where baco chose the scale.
        blocks: of constants [..., C, K] of bfloat16: format of blocks along C whose numbers they are; None for others.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Dtype = "int8"
    scale: float = 1.0
    role: Role = "intermediate"
    zero: int = 0
    encoding: Encoding | None = None
    blocks: BlockWeights | None = None

    @property
    def coded(self) -> bool:
        """Whether elements are those of the array, quantised or codes, rather than sums, indices or real numbers."""
        return self.dtype in ("int8", "int16")


Values: TypeAlias = Mapping[str, IntegerTensor]


def itemsize(value: IntegerTensor) -> int:
    """Bytes of an element."""
    return int(np.dtype(value.dtype).itemsize)


@dataclass(frozen=True)
class HostCall:
    """A call of one of the C functions in `host/`.

    Attributes:
        function, source: name of the function, and of the file it is in.
        parameters: 64-bit words whose address is the first argument, in the order of the function's comment.
        operands: views in the order of the other arguments, the result last; None passes a null pointer.
        work: what the call has to do.
        extra: constants made for this call, by the names that `operands` use.
        code: what the file holds, where it is none of `host/`.
    """

    function: str
    source: str
    parameters: tuple[int, ...]
    operands: tuple[View | None, ...]
    work: HostWork
    extra: Mapping[str, Array] = field(default_factory=dict)
    code: str = ""


@dataclass(frozen=True)
class IntegerOperator:
    """An operator.

    Attributes:
        name: unique in the network; of the first operator of the original network that it computes.
        sources: names of all operators of the original network that it computes (fused ones included).
        output: where the result goes; other elements of that value stay as they are.
        takes_runs: whether `compute` takes operands with a dimension more in front, of runs side by side.
    """

    takes_runs: ClassVar[bool] = True

    name: str
    sources: tuple[str, ...]
    output: View

    @property
    def inputs(self) -> tuple[View, ...]:
        """All views read, constants included, in the order of the fields."""
        values = (getattr(self, f.name) for f in fields(self) if f.name != "output")
        return tuple(v for v in values if isinstance(v, View))

    @abstractmethod
    def compute(self, read: Read) -> Array:
        """The result, of the shape of `output`; `read` gives the elements of views."""

    @abstractmethod
    def accesses(self) -> Dependences:
        """Its iterations and the elements that they touch (`baco.compiler.ops.accesses`)."""

    @abstractmethod
    def host_call(self, values: Values) -> HostCall:
        """The call of its C function, and the work of that. `values`: those that its views are of.

        Raises InfeasibleError where the host has no code for it.
        """


# ---------------------------------------------------------------- what an operator touches


@dataclass(frozen=True)
class Operand:
    """What an operator's results need of one operand.

    Attributes:
        name: field of the operator.
        view: what is read.
        access: indices in the view, by iterations; None where they are not affine.
        indirect: they are elements of another operand.
    """

    name: str
    view: View
    access: Access | None
    indirect: bool = False


@dataclass(frozen=True)
class Dependences:
    """Iterations of an operator, and the elements that they touch (Souffle's analysis of tensor expressions).

    * A result *relies on one* element of an operand where no iteration adds to it: its index there is an affine map M v + c of
      the result's index v. Else it *relies on many*: all that the reduced iterations meet.
    * An operator is *compute-intensive* if it reduces and does two operations and more for an element that it moves. (The published
      rule asks for no reduction, by which an elementwise sine would compute.)

    Attributes:
        operator: whose.
        extents: of all iterations.
        output: index of the result in the operator's output view.
        operands: those that are no tables of functions.
        operations: of all iterations; of a function of rows, of its sums.
    """

    operator: IntegerOperator
    extents: Mapping[str, int]
    output: Access
    operands: tuple[Operand, ...]
    operations: int

    @cached_property
    def reduced(self) -> frozenset[str]:
        """Iterations that run more than once for one result."""
        chosen = self.output.variables
        return frozenset(name for name, extent in self.extents.items() if extent > 1 and name not in chosen)

    def relies_on_many(self, operand: Operand) -> bool:
        """Whether a result needs several elements of an operand."""
        if operand.access is None:
            return not operand.indirect
        return any(name in self.reduced for name in operand.access.variables)

    @property
    def many(self) -> bool:
        """Whether a result relies on many elements of some operand."""
        return any(self.relies_on_many(one) for one in self.operands)

    @property
    def indirect(self) -> bool:
        """Whether which elements it needs is not known before it runs."""
        return any(one.indirect for one in self.operands)

    @property
    def moved(self) -> int:
        """Elements read, each once, and written; indirectly, one for each result."""
        words = self.operator.output.words
        return words + sum(words if one.indirect else _distinct(one.view) for one in self.operands)

    @property
    def computes(self) -> bool:
        """Compute-intensive, else memory-intensive."""
        return bool(self.reduced) and self.operations >= THRESHOLD * self.moved


def _distinct(view: View) -> int:
    """Elements, repeated ones counted once."""
    return math.prod(size for size, stride in zip(view.shape, view.strides, strict=True) if stride)
