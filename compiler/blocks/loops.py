"""Loops of block programs: how what they carry changes from round to round."""

from __future__ import annotations

from typing import Protocol

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, TensorType, i1
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from baco.common.errors import InputError
from baco.compiler.blocks.accesses import materialise
from baco.compiler.blocks.indexing import IndexBuilder, Number
from baco.compiler.blocks.pointers import BlockWindow, Meaning, Pointers, StridedOffsets
from baco.compiler.ir.known import known
from baco.compiler.ir.location import location_of

_index = IndexType()


class Converter(Protocol):
    """What converts the body of a loop; see `baco.compiler.blocks.to_linalg`."""

    meanings: dict[SSAValue, Meaning]

    def value(self, old: SSAValue, build: IndexBuilder) -> SSAValue:
        """The value of an old one."""

    def number(self, old: SSAValue, build: IndexBuilder) -> Number:
        """An old index scalar as a number."""

    def block(self, old: Block, build: IndexBuilder) -> Operation | None:
        """Convert every operation but the terminator, which is returned."""


class LoopConversion:
    """Converts one loop. What it carries is an offset (a number, or a block of them by its base) or data."""

    def __init__(self, converter: Converter, loop: scf.ForOp) -> None:
        self.converter, self.loop = converter, loop
        self.initial = [converter.meanings[operand] for operand in loop.iter_args]
        if any(isinstance(meaning, Pointers) for meaning in self.initial):
            raise InputError(
                "a loop carries a pointer", location=location_of(loop), hint="carry its offset instead"
            )
        #: how each carried value is carried: "data", "base" (of offsets) or the constant step of its base
        self.kinds: list[str | int] = [
            "base" if isinstance(meaning, StridedOffsets) else "data" for meaning in self.initial
        ]

    def convert(self, build: IndexBuilder) -> None:
        """Append the loop. Trial conversions into thin air find out how offsets change from one round to the next."""
        before = dict(self.converter.meanings)
        while True:
            self.converter.meanings = dict(before)
            trial = Block()
            stable = self._learn(build.at(trial))
            trial.drop_all_references()  # else values of the program would seem to be used once more
            if stable:
                break
        self.converter.meanings = dict(before)
        self._emit(build)

    def _learn(self, scratch: IndexBuilder) -> bool:
        """Try the present kinds; True if they hold, else they are corrected."""
        block, inside = self._body(scratch)
        yields = self.converter.block(self.loop.body.block, inside)
        assert yields is not None
        stable = True
        for position, operand in enumerate(yields.operands):
            kind, after = self.kinds[position], self.converter.meanings[operand]
            if kind == "data":
                continue
            start = self.initial[position]
            assert isinstance(start, StridedOffsets)
            if not isinstance(after, StridedOffsets) or after.strides != start.strides:
                self.kinds[position] = "data"
                stable = False
            elif kind == "base":
                argument = block.args[1 + sum(not isinstance(k, int) for k in self.kinds[:position])]
                step = _step_from(argument, after.base)
                if step is not None:
                    self.kinds[position] = step
                    stable = False
        return stable

    def _body(self, build: IndexBuilder) -> tuple[Block, IndexBuilder]:
        """A new body whose arguments have their meanings; operations before the loop go to `build`."""
        arguments: list[Attribute] = [_index]
        for meaning, kind in zip(self.initial, self.kinds, strict=True):
            if kind == "base":
                arguments.append(_index)
            elif kind == "data":
                arguments.append(_value_type(meaning))
        block = Block(arg_types=arguments)
        bounds = [
            self.converter.number(bound, build) for bound in (self.loop.lb, self.loop.ub, self.loop.step)
        ]
        lower, upper, step = (build.value(bound) for bound in bounds)
        placeholders = [
            self._initial_value(position, build)
            for position, kind in enumerate(self.kinds)
            if not isinstance(kind, int)
        ]
        self._for = scf.ForOp(lower, upper, step, placeholders, Region(block))
        build.insert(self._for)
        old = self.loop.body.block.args
        block.args[0].name_hint = old[0].name_hint
        inside = build.at(block)
        self.converter.meanings[old[0]] = StridedOffsets(block.args[0])
        following = iter(block.args[1:])
        for position, kind in enumerate(self.kinds):
            meaning = self.initial[position]
            if kind == "data":
                self.converter.meanings[old[1 + position]] = next(following)
                continue
            assert isinstance(meaning, StridedOffsets)
            if kind == "base":
                base: Number = next(following)
            else:
                base = inside.add(meaning.base, self._travelled(block.args[0], bounds, int(kind), inside))
            self.converter.meanings[old[1 + position]] = StridedOffsets(base, meaning.strides, meaning.shape)
        return block, inside

    @staticmethod
    def _travelled(iteration: BlockArgument, bounds: list[Number], by: int, build: IndexBuilder) -> Number:
        """How far a base that moves `by` every round has come at this round."""
        lower, _, step = bounds
        distance = build.sub(iteration, lower)
        if isinstance(step, int):
            if by % step == 0:
                return build.mul(distance, by // step)
            return build.mul(build.floor_div(distance, step), by)
        rounds = build.insert(arith.FloorDivSIOp(build.value(distance), step))
        return build.mul(rounds, by)

    def _initial_value(self, position: int, build: IndexBuilder) -> SSAValue:
        meaning = self.initial[position]
        if isinstance(meaning, StridedOffsets):
            if self.kinds[position] == "base":
                return build.value(meaning.base)
            return materialise(meaning, build)
        return self.converter.value(self.loop.iter_args[position], build)

    def _emit(self, build: IndexBuilder) -> None:
        before = dict(self.converter.meanings)
        _, inside = self._body(build)
        made = self._for
        yields = self.converter.block(self.loop.body.block, inside)
        assert yields is not None
        results: list[SSAValue] = []
        for operand, kind in zip(yields.operands, self.kinds, strict=True):
            meaning = self.converter.meanings[operand]
            if kind == "base":
                assert isinstance(meaning, StridedOffsets)
                results.append(inside.value(meaning.base))
            elif kind == "data":
                results.append(self.converter.value(operand, inside))
        inside.insert(scf.YieldOp(*results))
        self.converter.meanings = before
        build.location = self.loop.location
        following = iter(made.results)
        for position, (result, kind) in enumerate(zip(self.loop.results, self.kinds, strict=True)):
            meaning = self.initial[position]
            if kind == "data":
                self.converter.meanings[result] = next(following)
                continue
            assert isinstance(meaning, StridedOffsets)
            if kind == "base":
                base: Number = next(following)
            else:
                base = build.add(meaning.base, build.mul(self._rounds(build), int(kind)))
            self.converter.meanings[result] = StridedOffsets(base, meaning.strides, meaning.shape)

    def _rounds(self, build: IndexBuilder) -> Number:
        """How often the loop runs."""
        lower, upper, step = (
            self.converter.number(one, build) for one in (self.loop.lb, self.loop.ub, self.loop.step)
        )
        distance = build.max(build.sub(upper, lower), 0)
        if isinstance(step, int):
            return build.floor_div(build.add(distance, step - 1), step)
        return build.insert(arith.CeilDivSIOp(build.value(distance), step))


def _value_type(meaning: Meaning) -> Attribute:
    if isinstance(meaning, StridedOffsets):
        return TensorType(_index, meaning.shape) if meaning.shape else _index
    if isinstance(meaning, BlockWindow):
        return TensorType(i1, meaning.shape)
    assert isinstance(meaning, SSAValue)
    return meaning.type


def _step_from(argument: SSAValue, after: Number) -> int | None:
    """The constant by which a carried number grows in one round."""
    if after is argument:
        return 0
    if isinstance(after, SSAValue) and isinstance(after.owner, arith.AddiOp) and after.owner.lhs is argument:
        return known(after.owner.rhs)
    return None
