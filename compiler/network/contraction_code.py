"""A contraction matched to the array's instruction, as integer operators: copies into another layout, products, copies.

What is fused on an instruction iteration becomes one dimension of a matrix, in place where its elements lie evenly
apart, else in a copy (`Map`, which the accelerator's moves or the host carry out). Summed iterations that run outside
the instruction become the taps of a convolution, whose sums stay in the accumulator; other outer iterations become a
batch of products, groups of channels, or one convolution each. Schedules of these follow as for any network.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from baco.common.errors import InfeasibleError
from baco.compiler.abstraction.matching import Matching
from baco.compiler.mapping.contraction import Access
from baco.compiler.mapping.contraction_text import index_range
from baco.compiler.mapping.expression import as_sum
from baco.compiler.network.graph import QuantisedNetwork
from baco.compiler.network.layers import is_image, matrix_pitch
from baco.compiler.network.tensor_program import TensorProgram
from baco.compiler.ops.elementwise import Fill, Map
from baco.compiler.ops.operator import IntegerOperator, IntegerTensor
from baco.compiler.ops.products import Convolution, MatMul
from baco.compiler.ops.views import View, dense

#: Convolutions that outer iterations become, at most: each is code and commands of its own.
_MOST_CALLS = 1024


def contraction_network(program: TensorProgram, matching: Matching) -> QuantisedNetwork:
    """The operators of a matching of `program.products`: of the ways to read windows in place or copied, the one that
    copies least.

    Raises InfeasibleError where there is none.
    """
    found: list[tuple[int, int, QuantisedNetwork]] = []
    reason = ""
    for kept in _kept_windows(program, matching):
        try:
            network = _Writer(program, matching, kept).network()
        except InfeasibleError as error:
            reason = error.message
            continue
        copied = sum(op.output.words for op in network.operators if isinstance(op, Map | Fill))
        found.append((copied, len(network.operators), network))
    if not found:
        raise InfeasibleError(f"'{matching}' cannot be carried out: {reason}")
    return min(found, key=lambda one: one[:2])[2]


@dataclass(frozen=True)
class _Stored:
    """A tensor in memory, as iterations touch it."""

    access: Access
    value: str
    shape: tuple[int, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        return dense(self.value, self.shape).strides

    def step(self, name: str) -> int:
        """Elements from one number of an iteration to the next."""
        return sum(
            index.get(name, 0) * stride
            for index, stride in zip(self.access.coefficients, self.strides, strict=True)
        )

    def start(self, without: Sequence[int] = ()) -> int:
        """Where the first iteration is, but for some dimensions."""
        constants = [as_sum(index).constant for index in self.access.indices]
        return sum(
            c * s for at, (c, s) in enumerate(zip(constants, self.strides, strict=True)) if at not in without
        )


@dataclass(frozen=True)
class _Axis:
    """One axis of an image.

    Attributes:
        rows: iterations that the results have along it.
        taps: those of its window.
        place: dimension of the stored tensor that it is; None: it consists of the iterations themselves.
    """

    rows: tuple[str, ...] = ()
    taps: tuple[str, ...] = ()
    place: int | None = None


def _kept_windows(program: TensorProgram, matching: Matching) -> Iterator[tuple[int, ...]]:
    """Sets of dimensions of the streamed operand whose windows a convolution may slide over in place."""
    roles = _Roles.of(matching)
    if not roles.taps:
        yield ()
        return
    possible = []
    for place, index in enumerate(roles.left.coefficients):
        taps = [name for name in index if name in roles.taps]
        rows = [name for name in index if name in roles.rows]
        rest = set(index) - {*taps, *rows}
        if (
            len(taps) == 1
            and len(rows) <= 1
            and rest <= set(roles.calls)
            and all(index[n] > 0 for n in taps + rows)
        ):
            possible.append(place)
    for count in range(min(len(possible), 2), -1, -1):
        yield from itertools.combinations(possible, count)


@dataclass(frozen=True)
class _Roles:
    """What the iterations of a matching do.

    Attributes:
        left, right, output: the streamed operand, the stationary one, the result.
        rows, columns, depth: fused on the instruction's iterations.
        taps, calls: outer iterations that are summed up, and others.
    """

    left: Access
    right: Access
    output: Access
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    depth: tuple[str, ...]
    taps: tuple[str, ...]
    calls: tuple[str, ...]

    @classmethod
    def of(cls, matching: Matching) -> _Roles:
        inner = matching.intrinsic.compute
        by_name = {own.operand: access for access, own in matching.pairs}
        output, left, right = (by_name[access.operand] for access in inner.accesses)
        rows, columns = (str(index) for index in inner.output.indices)
        (depth,) = inner.reduction
        summed = set(matching.contraction.reduction)
        fused = matching.fused[depth]
        added = {name for index in left.coefficients if len(index) > 1 for name in index}
        # windows alone, of an image of one channel: neighbours are taps, of which several fit on the array's depth
        windows = fused if set(fused) <= added else ()
        return cls(
            left,
            right,
            output,
            matching.fused[rows],
            matching.fused[columns],
            () if windows else fused,
            (*(name for name in matching.outer if name in summed), *windows),
            tuple(name for name in matching.outer if name not in summed),
        )


class _Writer:
    """Writes the operators of one matching, with the windows of some dimensions of the streamed operand in place."""

    def __init__(self, program: TensorProgram, matching: Matching, kept: tuple[int, ...]) -> None:
        self._program = program
        self._extents = matching.contraction.extents
        roles = _Roles.of(matching)
        self._values = {
            name: IntegerTensor(name, tuple(shape), role=program.role(name))
            for name, shape in program.shapes.items()
        }
        self._data = dict(program.constants)
        self._operators: list[IntegerOperator] = []
        self._left, self._right = (
            _Stored(one, one.operand, tuple(program.shapes[one.operand])) for one in (roles.left, roles.right)
        )
        self._kept = kept
        self._roles = roles
        self._output = self._whole_output()
        # orders of fused iterations are free, as long as both sides have the same: as they lie in memory
        self._rows = self._sorted(roles.rows, self._output)
        self._columns = self._sorted(roles.columns, self._output)
        self._depth = self._sorted(roles.depth, self._left)

    def network(self) -> QuantisedNetwork:
        """All of it."""
        self._left = self._inside(self._left, self._kept)
        self._right = self._inside(self._right)
        if self._roles.taps:
            self._convolutions()
        else:
            self._products()
        self._crop_output()
        program = self._program
        output = program.contraction.output.operand
        return QuantisedNetwork(
            program.name,
            self._values,
            tuple(self._operators),
            self._data,
            {
                name: dense(name, shape)
                for name, shape in program.shapes.items()
                if program.role(name) == "input"
            },
            {output: dense(output, program.shapes[output])},
        )

    # ---------------------------------------------------------------- products

    def _products(self) -> None:
        """One batch of products: [outer iterations, rows, depth] times [outer iterations, depth, columns]."""
        calls = self._roles.calls

        def rows_fit(view: View) -> bool:
            return matrix_pitch(*view.shape[-2:], *view.strides[-2:]) is not None

        def either_fits(view: View) -> bool:
            return rows_fit(view) or rows_fit(view.transposed((*range(len(view.shape) - 2), -1, -2)))

        left = self._arranged(self._left, calls, (self._rows, self._depth), rows_fit)
        right = self._arranged(self._right, calls, (self._depth, self._columns), either_fits)
        output, behind = self._target(calls, (self._rows, self._columns), rows_fit)
        program = self._program
        self._emit(
            MatMul(program.name, (program.name,), output, left, right, None, program.relu, program.scale)
        )
        self._emit_all(behind)

    # ---------------------------------------------------------------- convolutions

    def _convolutions(self) -> None:
        """A convolution for each number of the outer iterations that are not summed up."""
        high, wide, images = self._axes()
        group = self._group()
        calls = tuple(name for name in self._roles.calls if name not in group)
        if math.prod(self._extents[name] for name in calls) > _MOST_CALLS:
            raise InfeasibleError(f"it takes more than {_MOST_CALLS} convolutions")
        image = self._image(calls, images, high, wide, (*group, *self._depth))
        taps = (high.taps, wide.taps)
        weight = self._arranged(self._right, calls, (*taps, self._depth, (*group, *self._columns)), _is_block)
        output, behind = self._target(
            calls,
            (images, high.rows, wide.rows, (*group, *self._columns)),
            lambda view: is_image(_last(view, 4)),
        )
        program = self._program
        for number, numbers in enumerate(itertools.product(*(range(self._extents[name]) for name in calls))):
            at = dict(zip(calls, numbers, strict=True))
            source, padding = self._window(image, at)
            self._emit(
                Convolution(
                    f"{program.name}.{number}" if calls else program.name,
                    (program.name,),
                    _at(output, numbers),
                    source,
                    _at(weight, numbers),
                    None,
                    stride=(self._factor(high, high.rows), self._factor(wide, wide.rows)),
                    padding=padding,
                    dilation=(self._factor(high, high.taps), self._factor(wide, wide.taps)),
                    size=(self._size(high.rows), self._size(wide.rows)),
                    groups=self._size(group),
                    relu=program.relu,
                    scale=program.scale,
                )
            )
        self._emit_all(behind)

    def _axes(self) -> tuple[_Axis, _Axis, tuple[str, ...]]:
        """Height and width of the images, and the iterations that number them."""
        index = self._left.access.coefficients
        windows = []
        for place in self._kept:
            rows = tuple(name for name in self._rows if name in index[place])
            taps = tuple(name for name in self._roles.taps if name in index[place])
            windows.append(_Axis(rows, taps, place))
        others = tuple(name for name in self._rows if not any(name in window.rows for window in windows))
        loose = tuple(name for name in self._roles.taps if not any(name in window.taps for window in windows))
        for axis in windows:
            for name in (*axis.rows, *axis.taps, *self._roles.calls):
                if name in index[axis.place or 0] and sum(name in entry for entry in index) > 1:
                    raise InfeasibleError(f"'{name}' is in several indices of {self._left.access}")
        if len(windows) + bool(loose) > 2:
            raise InfeasibleError("it slides windows in more than two dimensions")
        if len(windows) == 2:
            return windows[0], windows[1], others
        if not windows:
            return _Axis(taps=loose), _Axis(rows=others), ()
        (window,) = windows
        if loose:
            return _Axis(taps=loose), window, others
        if others and all(
            abs(self._left.step(name)) < self._left.strides[window.place or 0] for name in others
        ):
            return window, _Axis(rows=others), ()
        return _Axis(), window, others

    def _group(self) -> tuple[str, ...]:
        """An outer iteration over neighbouring parts of the channels of both images, if there is one."""
        depth, columns = self._size(self._depth), self._size(self._columns)
        for name in self._roles.calls:
            in_all = all(name in one.access.variables for one in (self._left, self._right, self._output))
            alone = all(set(index) == {name} for index in self._left.access.coefficients if name in index)
            if (
                in_all
                and alone
                and self._left.step(name) == depth
                and self._output.step(name) == columns
                and self._right.value in self._data
            ):
                return (name,)
        return ()

    def _image(
        self,
        calls: tuple[str, ...],
        images: tuple[str, ...],
        high: _Axis,
        wide: _Axis,
        depth: tuple[str, ...],
    ) -> View:
        """[outer iterations, images, height, width, depth] of the streamed operand, windows as they are stored."""
        left = self._left
        places = [axis.place for axis in (high, wide) if axis.place is not None]
        inside = [set(index) for place, index in enumerate(left.access.coefficients) if place not in places]
        own = {name for name in calls if any(name in index for index in inside)}
        parts: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for part in (images, high, wide, depth):
            if isinstance(part, _Axis) and part.place is not None:
                parts.append(((left.shape[part.place],), (left.strides[part.place],)))
            else:
                names = (*part.rows, *part.taps) if isinstance(part, _Axis) else part
                parts.append((self._shape(names), tuple(left.step(name) for name in names)))
        lead = ([self._extents[n] if n in own else 1 for n in calls], [left.step(n) for n in calls])
        return self._in_parts(
            left.value, left.start(places), lead, parts, lambda view: is_image(_last(view, 4))
        )

    def _window(self, image: View, at: Mapping[str, int]) -> tuple[View, tuple[int, int]]:
        """The image of one call, [N, H, W, C] from the first element on that it reads, and zeros in front of it."""
        lead = len(image.shape) - 4
        # what has a number of its own in the copy is chosen by it, the rest by where windows begin
        view = _at(
            image,
            [number if size > 1 else 0 for number, size in zip(at.values(), image.shape[:lead], strict=True)],
        )
        starts, padding = [0, 0, 0, 0], [0, 0]
        high, wide, _ = self._axes()
        for side, axis in enumerate((high, wide)):
            if axis.place is None:
                continue
            index = self._left.access.coefficients[axis.place]
            begin = as_sum(self._left.access.indices[axis.place]).constant
            begin += sum(factor * at[name] for name, factor in index.items() if name in at)
            starts[1 + side], padding[side] = max(begin, 0), max(-begin, 0)
        shape = [size - start for size, start in zip(view.shape, starts, strict=True)]
        if shape[0] == 1:  # no more than it reads, so that calls are alike
            shape[1] = min(shape[1], self._reach(high) - padding[0])
            if shape[1] == 1:
                shape[2] = min(shape[2], self._reach(wide) - padding[1])
        if min(shape) < 1:
            raise InfeasibleError("a window lies outside its image")
        return view.sliced(starts, shape, (1, 1, 1, 1)), (padding[0], padding[1])

    def _reach(self, axis: _Axis) -> int:
        """From the first element of the first window to the last one of the last."""
        rows, taps = self._size(axis.rows), self._size(axis.taps)
        return (rows - 1) * self._factor(axis, axis.rows) + (taps - 1) * self._factor(axis, axis.taps) + 1

    def _factor(self, axis: _Axis, names: tuple[str, ...]) -> int:
        if axis.place is None or not names:
            return 1
        return self._left.access.coefficients[axis.place][names[0]]

    # ---------------------------------------------------------------- operands

    def _arranged(
        self,
        tensor: _Stored,
        calls: tuple[str, ...],
        groups: Sequence[tuple[str, ...]],
        fits: Callable[[View], bool],
    ) -> View:
        """A tensor as [outer iterations, one dimension for each group of iterations]."""
        own = tensor.access.variables
        lead = ([self._extents[n] if n in own else 1 for n in calls], [tensor.step(n) for n in calls])
        parts = [(self._shape(names), tuple(tensor.step(n) for n in names)) for names in groups]
        view = self._in_parts(tensor.value, tensor.start(), lead, parts, fits)
        shape = (*self._shape(calls), *view.shape[len(calls) :])
        return view.expanded(shape)

    def _in_parts(
        self,
        value: str,
        offset: int,
        lead: tuple[Sequence[int], Sequence[int]],
        parts: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        fits: Callable[[View], bool],
    ) -> View:
        """A view whose parts are one dimension each: in place if they can be and it fits, else of a copy."""
        view = _joined(value, offset, lead, parts)
        if view is not None and fits(view):
            return view
        shape, strides = (
            tuple(itertools.chain(one, *(part[at] for part in parts))) for at, one in enumerate(lead)
        )
        copy = self._copied(View(value, shape, strides, offset))
        found = copy.reshaped((*lead[0], *(math.prod(part[0]) for part in parts)))
        assert found is not None, "a dense block takes any shape"
        return found

    def _copied(self, view: View) -> View:
        """A dense copy: of constants now, of everything else by the program."""
        name = f"{view.value}.packed{len(self._values)}"
        if view.value in self._data:
            self._add_constant(name, np.ascontiguousarray(view.read(self._data[view.value])))
            return dense(name, view.shape)
        self._values[name] = IntegerTensor(name, view.shape)
        self._emit(
            Map(f"{self._program.name}.{name}", (self._program.name,), dense(name, view.shape), view, None)
        )
        return dense(name, view.shape)

    def _inside(self, tensor: _Stored, kept: Sequence[int] = ()) -> _Stored:
        """The tensor with zeros around it wherever iterations leave it, but for dimensions that are padded as they are read."""
        before, after = [], []
        for place, extent in enumerate(tensor.shape):
            low, high = index_range(tensor.access, place, self._extents)
            before.append(max(0, -low) if place not in kept else 0)
            after.append(max(0, high + 1 - extent) if place not in kept else 0)
        if not any(before) and not any(after):
            return tensor
        shape = tuple(a + size + b for a, size, b in zip(before, tensor.shape, after, strict=True))
        name = f"{tensor.value}.padded"
        if tensor.value in self._data:
            self._add_constant(name, np.pad(self._data[tensor.value], list(zip(before, after, strict=True))))
        else:
            self._values[name] = IntegerTensor(name, shape)
            self._surround(name, before, tensor.shape, after)
            whole, ones = dense(name, shape), (1,) * len(shape)
            self._emit(
                Map(
                    f"{self._program.name}.{name}",
                    (self._program.name,),
                    whole.sliced(before, tensor.shape, ones),
                    dense(tensor.value, tensor.shape),
                    None,
                )
            )
        moved = tuple(index + shift for index, shift in zip(tensor.access.indices, before, strict=True))
        return _Stored(replace(tensor.access, indices=moved), name, shape)

    def _surround(self, name: str, before: Sequence[int], size: Sequence[int], after: Sequence[int]) -> None:
        """Zeros around a block, each once."""
        starts, extents = [0] * len(size), [a + s + b for a, s, b in zip(before, size, after, strict=True)]
        whole = dense(name, extents)
        for place in range(len(size)):
            for start, extent in ((0, before[place]), (before[place] + size[place], after[place])):
                if extent:
                    at = [*starts[:place], start, *starts[place + 1 :]]
                    shape = [*extents[:place], extent, *extents[place + 1 :]]
                    part = whole.sliced(at, shape, (1,) * len(size))
                    operator = f"{self._program.name}.zeros{len(self._operators)}"
                    self._emit(Fill(operator, (self._program.name,), part, 0))
            starts[place], extents[place] = before[place], size[place]

    # ---------------------------------------------------------------- results

    def _whole_output(self) -> _Stored:
        """The output; where iterations reach beyond it, a larger one, of which it is cut."""
        access = self._roles.output
        shape = tuple(self._program.shapes[access.operand])
        reach = tuple(index_range(access, place, self._extents)[1] + 1 for place in range(len(shape)))
        if all(one <= extent for one, extent in zip(reach, shape, strict=True)):
            return _Stored(access, access.operand, shape)
        name = f"{access.operand}.whole"
        shape = tuple(map(max, reach, shape))
        self._values[name] = IntegerTensor(name, shape)
        return _Stored(access, name, shape)

    def _crop_output(self) -> None:
        output = self._roles.output.operand
        if self._output.value == output:
            return
        target = dense(output, self._program.shapes[output])
        source = dense(self._output.value, self._output.shape)
        source = source.sliced((0,) * len(target.shape), target.shape, (1,) * len(target.shape))
        self._emit(Map(f"{self._program.name}.cut", (self._program.name,), target, source, None))

    def _target(
        self, calls: tuple[str, ...], groups: Sequence[tuple[str, ...]], fits: Callable[[View], bool]
    ) -> tuple[View, list[IntegerOperator]]:
        """Where results go, [outer iterations, one dimension for each group], and what brings them from there to the output."""
        output = self._output
        lead = (self._shape(calls), [output.step(name) for name in calls])
        parts = [(self._shape(names), tuple(output.step(name) for name in names)) for names in groups]
        view = _joined(output.value, output.start(), lead, parts)
        if view is not None and fits(view):
            return view, []
        shape, strides = (
            tuple(itertools.chain(one, *(part[at] for part in parts))) for at, one in enumerate(lead)
        )
        name = f"{output.value}.products"
        self._values[name] = IntegerTensor(name, shape)
        copy = Map(
            f"{self._program.name}.{name}",
            (self._program.name,),
            View(output.value, shape, strides, output.start()),
            dense(name, shape),
            None,
        )
        products = dense(name, shape).reshaped((*lead[0], *(math.prod(part[0]) for part in parts)))
        assert products is not None, "a dense block takes any shape"
        return products, [copy]

    # ---------------------------------------------------------------- small things

    def _emit(self, op: IntegerOperator) -> None:
        self._operators.append(op)

    def _emit_all(self, operators: Sequence[IntegerOperator]) -> None:
        self._operators.extend(operators)

    def _add_constant(self, name: str, data: np.ndarray) -> None:
        self._values[name] = IntegerTensor(name, data.shape, role="constant")
        self._data[name] = data

    def _shape(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._extents[name] for name in names)

    def _size(self, names: Sequence[str]) -> int:
        return math.prod(self._shape(names))

    def _sorted(self, names: tuple[str, ...], tensor: _Stored) -> tuple[str, ...]:
        return tuple(sorted(names, key=lambda name: -abs(tensor.step(name))))


def _joined(
    value: str,
    offset: int,
    lead: tuple[Sequence[int], Sequence[int]],
    parts: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> View | None:
    """A view with one dimension for each part; None if the elements of a part do not lie evenly apart."""
    shape, strides = list(lead[0]), list(lead[1])
    for sizes, steps in parts:
        one = View(value, sizes, steps).collapsed()
        if len(one.shape) > 1 or any(step < 0 for step in one.strides):
            return None
        shape.append(math.prod(sizes))
        strides.append(one.strides[0] if one.shape else 0)
    return View(value, tuple(shape), tuple(strides), offset)


def _at(view: View, numbers: Sequence[int]) -> View:
    """The part of a view with these leading numbers."""
    offset = view.offset + sum(n * s for n, s in zip(numbers, view.strides, strict=False))
    return View(view.value, view.shape[len(numbers) :], view.strides[len(numbers) :], offset)


def _last(view: View, count: int) -> View:
    return _at(view, (0,) * (len(view.shape) - count))


def _is_block(view: View) -> bool:
    """Whether the last four dimensions are dense."""
    return _last(view, 4).is_dense
