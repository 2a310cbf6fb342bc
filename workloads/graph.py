"""The bookkeeping below `baco.workloads.builder`: names, scopes, repetition, views, checks, and what gets fused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from baco.common.errors import InputError, Location
from baco.common.text import name_problem, one_line
from baco.workloads.kinds import ADDRESSING_KINDS, FUSIBLE, Ride
from baco.workloads.network import Block, Network, Operator, Tensor, Unsupported
from baco.workloads.options import LARGEST
from baco.workloads.problem import EXACT, Problem
from baco.workloads.semantics import Semantics
from baco.workloads.shapes import Pair, paddings, pair
from baco.workloads.tensor import MOST_RANK
from baco.workloads.views import Expand, Reshape, Step, Transpose, Unknown, slice_of


class Graph:
    """A network under construction. Use `baco.workloads.builder.GraphBuilder`, which adds the operators.

    Raises InputError for names that cannot be shown (`baco.common.text`).
    """

    def __init__(
        self, name: str, source: str = "built-in", options: Mapping[str, int | str] | None = None
    ) -> None:
        self.name = name
        self.source = one_line(source)
        self._check_name("the network's name", name)
        self.options = dict(options or {})
        self._inputs: list[Tensor] = []
        self._operators: list[Operator] = []
        self._tensors: set[str] = set()
        self._counters: dict[str, int] = {}
        self._repeats: dict[str, int] = {}  # by name, the first number of `unique` that may be free
        self._scope: list[str] = []
        self._repeat = 1
        self._rides: dict[str, tuple[Ride, bool]] = {}
        self._blocks: list[Block] = []

    # Structure

    def input(self, name: str, shape: Sequence[int]) -> Tensor:
        """A tensor fed from outside."""
        self._check_name("an input's name", name)
        if name in self._tensors:
            raise self.error("two inputs of this name", name)
        tensor = Tensor(name, self._shape(shape, name))
        self._inputs.append(tensor)
        self._tensors.add(name)
        return tensor

    @contextmanager
    def scope(self, prefix: str) -> Iterator[None]:
        """Prefix the names of the operators added inside."""
        self._scope.append(prefix)
        try:
            yield
        finally:
            self._scope.pop()

    def repeat(self, count: int, block: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """`count` executions of the same block, each feeding the next; kept as one block repeated.

        The block's output must have the shape of its input, or it could not feed the next. Of an input that the block
        makes, every execution has its own.
        """
        if count < 1:
            raise self.error(f"a block must run at least once, not {count} times")
        outer, self._repeat = self._repeat, self._repeat * count
        start, inputs = len(self._operators), len(self._inputs)
        try:
            y = block(x)
        finally:
            self._repeat = outer
        if y.shape != x.shape and count > 1:
            raise self.error(f"a repeated block turns {x.shape} into {y.shape}, so it cannot feed itself")
        inner = {name for block in self._blocks for name in block.inputs}
        own = tuple(tensor.name for tensor in self._inputs[inputs:] if tensor.name not in inner)
        self._blocks.append(Block(start, len(self._operators), count, x, y, own))
        return y

    def build(
        self,
        unsupported: Sequence[Unsupported] = (),
        outputs: Sequence[Tensor] = (),
        output_names: Sequence[str] = (),
    ) -> Network:
        """The finished network; `output_names`: what the user calls the outputs, if not by their tensors."""
        return Network(
            self.name,
            tuple(self._inputs),
            tuple(self._operators),
            tuple(unsupported),
            self.source,
            self.options,
            tuple(self._blocks),
            tuple(outputs),
            output_names=tuple(output_names),
        )

    def error(self, message: str, node: str | None = None, hint: str | None = None) -> InputError:
        """An error located at an operator of this network."""
        where = self.name if self.source == "built-in" else self.source
        return InputError(message, location=Location(where, node=node), hint=hint)

    # Views: same tensor, another shape

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements in another shape; one extent may be -1."""
        known = math.prod(n for n in shape if n != -1)
        full = tuple(x.words // known if n == -1 and known else n for n in shape)
        if math.prod(full) != x.words:
            raise self.error(f"{x.shape} cannot be reshaped to {tuple(shape)}", x.name)
        return x.viewed(full, Reshape(full))

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Dimensions in another order."""
        if sorted(axes) != list(range(len(x.shape))):
            raise self.error(f"{tuple(axes)} does not reorder the dimensions of {x.shape}", x.name)
        return x.viewed(tuple(x.shape[a] for a in axes), Transpose(tuple(axes)))

    def slice(
        self, x: Tensor, axis: int, start: int | None, stop: int | None = None, step: int = 1
    ) -> Tensor:
        """`start:stop:step` along one dimension, as in Python."""
        part = slice_of(x.shape, axis, start, stop, step)
        return x.viewed(self._shape(part.shape, x.name), part)

    def expand(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Broadcast to a shape."""
        full = self._shape(shape, x.name)
        return x.viewed(full, Expand(full))

    def view(self, x: Tensor, shape: Sequence[int], *steps: Step) -> Tensor:
        """A part or another order of a tensor under a shape of its own, as the steps say; without any, it is
        recorded only that it is a view of x."""
        return x.viewed(self._shape(shape, x.name), *(steps or (Unknown("a view that is not recorded"),)))

    # Questions

    def unique(self, name: str) -> str:
        """`name`, or the first of `name~2`, `name~3`... that no operator or input has."""
        number = self._repeats.get(name, 1)
        while (candidate := name if number == 1 else f"{name}~{number}") in self._tensors:
            number += 1
        self._repeats[name] = number
        return candidate

    def rides(self, x: Tensor) -> bool:
        """True while x can still be worked on in the accumulator, so that a following operator may be fused."""
        return x.name in self._rides

    # Inner workings

    def _name(self, kind: str, name: str | None) -> str:
        if name is None:
            base = ".".join([*self._scope, kind])
            number = self._counters.get(base, 0)
            while (candidate := f"{base}{number}") in self._tensors:
                number += 1
            self._counters[base] = number + 1
            return candidate
        full = ".".join([*self._scope, name])
        self._check_name("an operator's name", full)
        if full in self._tensors:
            raise self.error("two operators of this name", full)
        return full

    def _check_name(self, what: str, name: str) -> None:
        problem = name_problem(name)
        if problem:
            raise self.error(f"{what} {problem}", None if name == self.name else name)

    def _shape(self, shape: Sequence[int], node: str) -> tuple[int, ...]:
        result = tuple(int(size) for size in shape)
        if len(result) > MOST_RANK:
            raise self.error(
                f"{len(result)} dimensions are more than the {MOST_RANK} that a tensor can have", node
            )
        if any(size < 1 for size in result):
            raise self.error(f"shape {result} has an extent below 1", node)
        if math.prod(result) > EXACT:
            raise self.error(f"shape {result} is beyond the exact range (2^53 elements)", node)
        return result

    def _numbers(self, node: str, what: str, value: Pair, count: int, least: int) -> tuple[int, ...]:
        try:
            numbers = pair(value, count)
        except ValueError as error:
            raise self.error(f"{what}: {error}", node) from None
        if min(numbers) < least:
            raise self.error(f"{what} {numbers} must be at least {least}", node)
        if max(numbers) > LARGEST:
            raise self.error(f"{what} {numbers} must be at most {LARGEST}", node)
        return numbers

    def _window(
        self, node: str, rank: int, x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]:
        if rank < 1 or len(x.shape) != rank + 2:
            raise self.error(
                f"needs {max(rank, 1) + 2} dimensions (batch, channels, space), not {x.shape}", node
            )
        try:
            pads = paddings(padding, rank)
        except ValueError as error:
            raise self.error(f"padding: {error}", node) from None
        if min(min(p) for p in pads) < 0:
            raise self.error(f"padding {padding} is negative", node)
        if max(max(p) for p in pads) > LARGEST:
            raise self.error(f"padding {padding} must be at most {LARGEST}", node)
        return (
            self._numbers(node, "kernel", kernel, rank, 1),
            self._numbers(node, "stride", stride, rank, 1),
            pads,
            self._numbers(node, "dilation", dilation, rank, 1),
        )

    def _problem(self, node: str, **bounds: int) -> Problem:
        try:
            problem = Problem(**bounds)
        except InputError as error:
            raise self.error(error.message, node, error.hint) from None
        return self._exact(node, problem)

    def _exact(self, node: str, problem: Problem) -> Problem:
        words = max(problem.weight_words, problem.input_words, problem.output_words)
        if words > EXACT:
            raise self.error(f"a tensor of {words:.3g} elements is beyond the exact range (2^53)", node)
        return problem

    def _add(
        self,
        name: str,
        kind: str,
        inputs: tuple[Tensor, ...],
        shape: Sequence[int],
        problem: Problem | None = None,
        weights: int = 0,
        semantics: Semantics | None = None,
    ) -> Tensor:
        output = Tensor(name, self._shape(shape, name))
        for x in inputs:
            if x.name not in self._tensors:
                raise self.error(f"reads '{x.name}', which nothing produces", name)
        fused = problem is None and self._fuse(kind, inputs, output)
        if problem is not None:
            self._rides[name] = (Ride.LINEAR, kind.startswith("conv"))
        self._tensors.add(name)
        self._operators.append(
            Operator(
                name,
                kind,
                tuple(x.name for x in inputs),
                output,
                problem,
                weights,
                fused,
                self._repeat,
                semantics,
            )
        )
        return output

    def _fuse(self, kind: str, inputs: tuple[Tensor, ...], output: Tensor) -> bool:
        if kind in ADDRESSING_KINDS:
            return True
        if kind not in FUSIBLE:
            return False
        allowed, leaves = FUSIBLE[kind]
        for x in inputs:
            ride, of_conv = self._rides.get(x.name, (None, False))
            if (
                ride not in allowed
                or ride is None
                or (kind == "maxpool" and not (of_conv and len(x.shape) == 4))
            ):
                continue
            # A residual must have the shape of the result it is added to.
            if kind == "add" and x.shape != output.shape:
                continue
            state = ride if leaves is None or (ride is Ride.POOLED) else leaves
            self._rides[output.name] = (state, of_conv)
            return True
        return False
