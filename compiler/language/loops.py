"""`for` loops of a kernel: what a loop changes is found by translating its body for trial.

A pointer, offset or integer that moves by the same amount in every iteration is a function of the loop variable, so
nothing needs to be carried for it, and it is known how far it goes. What moves irregularly is carried as an
integer; blocks of data are carried as they are.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Block, SSAValue

from baco.compiler.language import layouts
from baco.compiler.language.dtypes import boolean, offset
from baco.compiler.language.expressions import Expressions
from baco.compiler.language.forms import UNBOUNDED, Atom, Form
from baco.compiler.language.values import (
    BlockPointer,
    Data,
    Integer,
    KernelRange,
    Offsets,
    Pointer,
    Tuple,
    Unavailable,
    Value,
    integer,
)

#: Iterations of a loop that is unrolled while compiling.
MAX_UNROLLED = 1024
#: Loops around a loop: each is translated several times, so that their number would grow with a power of it.
MAX_NESTED = 8


def moved(value: Value, distances: tuple[Form, ...]) -> Value:
    """An integer, block of offsets or pointer moved by the distances (one; of a block pointer one per dimension)."""
    if isinstance(value, Integer):
        return Integer(value.form + distances[0])
    if isinstance(value, Offsets):
        return Offsets(layouts.shift(value.layout, distances[0]))
    if isinstance(value, Pointer):
        offset_value = moved(value.offset, distances)
        assert isinstance(offset_value, Integer | Offsets)
        return Pointer(value.argument, offset_value)
    assert isinstance(value, BlockPointer)
    offsets = tuple(start + distance for start, distance in zip(value.offsets, distances, strict=True))
    return BlockPointer(value.base, value.shape, value.strides, offsets, value.block)


def origins(value: Value) -> tuple[Form, ...] | None:
    """Where the value stands, in the terms of `moved`; None if it cannot be moved."""
    if isinstance(value, Integer):
        return (value.form,)
    if isinstance(value, Offsets):
        return (value.layout.origin,)
    if isinstance(value, Pointer):
        return origins(value.offset)
    return value.offsets if isinstance(value, BlockPointer) else None


def _same_but_moved(left: Value, right: Value) -> bool:
    """Whether both differ by where they stand only."""
    if isinstance(left, Integer) and isinstance(right, Integer):
        return True
    if isinstance(left, Offsets) and isinstance(right, Offsets):
        a, b = left.layout, right.layout
        return (
            a.shape == b.shape
            and a.gathers == b.gathers
            and a.axes.keys() == b.axes.keys()
            and all(a.axes[d].coefficient.same(b.axes[d].coefficient) for d in a.axes)
        )
    if isinstance(left, Pointer) and isinstance(right, Pointer):
        return left.argument is right.argument and _same_but_moved(left.offset, right.offset)
    if isinstance(left, BlockPointer) and isinstance(right, BlockPointer):
        return (
            left.base == right.base
            and left.strides == right.strides
            and left.block_shape == right.block_shape
        )
    return False


@dataclass
class _Carried:
    """A variable that the body of a loop assigns and that has a value before.

    Attributes:
        name: of the variable.
        initial: its value before the loop.
        steps: distance per iteration, if it is always the same; else None.
        slots: positions among the values that the loop carries.
        probes: integers that stand for the distance moved so far, while it is carried.
    """

    name: str
    initial: Value
    steps: tuple[Form, ...] | None = None
    slots: tuple[int, ...] = ()
    probes: tuple[Atom, ...] = ()


class Loops(Expressions):
    """Translates loops."""

    @abstractmethod
    def run(self, body: list[ast.stmt]) -> None:
        """Translates statements."""

    def loop(self, node: ast.For) -> None:
        """Translates a `for` statement.

        Raises:
            KernelError: the loop is none over a range or tuple, or a variable changes its type in it.
        """
        b = self.builder
        if node.orelse:
            b.fail("`else` of a loop is not part of the block language", node=node.orelse[0])
        if not isinstance(node.target, ast.Name):
            b.fail("a loop has one variable", node=node.target)
        (iterated,) = self._operands(node.iter, node.iter)
        if isinstance(iterated, Tuple) or (isinstance(iterated, KernelRange) and iterated.unrolled):
            self._unroll(node, node.target.id, iterated)
            return
        if not isinstance(iterated, KernelRange):
            b.fail(
                f"a loop runs over a range, got {iterated.describe()}", "for i in range(start, end, step):"
            )
        if len(iterated.end.terms) == 1:
            ((end, _),) = iterated.end.terms.items()
            b.loop_ends.update(end)
        self._loop(node, node.target.id, iterated)

    def _unroll(self, node: ast.For, target: str, iterated: Tuple | KernelRange) -> None:
        if isinstance(iterated, KernelRange):
            values = range(iterated.start.value, iterated.end.value, iterated.step.value)
            if len(values) > MAX_UNROLLED:
                self.builder.fail(f"{len(values)} iterations are too many to unroll", "use range")
            items: tuple[Value, ...] = tuple(integer(value) for value in values)
        else:
            items = iterated.items
        for item in items:
            self.names[target] = item
            self.run(node.body)

    def _loop(self, node: ast.For, target: str, bounds: KernelRange) -> None:
        b = self.builder
        if b.loops >= MAX_NESTED:
            b.fail(
                f"loops are nested more than {MAX_NESTED} deep",
                "unite ranges: one loop over their product",
                node,
            )
        before = dict(self.names)
        assigned = [name for name in _assigned(node.body) if name != target]
        carried = [
            _Carried(name, before[name])
            for name in assigned
            if name in before and not isinstance(before[name], Unavailable)
        ]
        # A trial shows what moves and how. The trial that teaches nothing new is the loop.
        while True:
            serial = b.atom("", 0, 0, "mark").serial
            self.names = dict(before)
            block = Block(arg_types=[IndexType()])
            with b.deferring() as errors:
                finals = self._body(node, target, bounds, carried, block)
            if not self._classify(node, carried, finals, serial):
                break
        for error in errors:
            b.report(error)
        self.names = dict(before)
        self._emit(node, bounds, carried, block, finals)
        for name in (*assigned, target):
            if name not in before or name == target:
                self.names[name] = Unavailable(b.source.first_line + node.lineno - 1)

    def _body(
        self, node: ast.For, target: str, bounds: KernelRange, carried: list[_Carried], block: Block
    ) -> dict[str, Value]:
        """Translates the body into `block` and returns the values of the carried variables after it."""
        b = self.builder
        variable = self._variable(target, bounds, block.args[0])
        with b.inside(block):
            slots = 0
            for item in carried:
                if item.steps is not None:
                    done = self._iterations(Form.of(variable), bounds, item.steps)
                    self.names[item.name] = moved(item.initial, done) if done else item.initial
                    continue
                types = self._carried_types(item)
                arguments = [block.insert_arg(kind, len(block.args)) for kind in types]
                item.slots = tuple(range(slots, slots + len(types)))
                slots += len(types)
                self.names[item.name] = self._in_loop(item, arguments)
            self.names[target] = Integer(Form.of(variable))
            b.loops += 1
            self.run(node.body)
            b.loops -= 1
        return {item.name: self.names[item.name] for item in carried}

    def _variable(self, target: str, bounds: KernelRange, ssa: SSAValue) -> Atom:
        start, end, step = bounds.start, bounds.end, bounds.step
        high = end.high - 1
        if start.low == start.high and end.bounded:
            high = start.low + max(0, (high - start.low) // step.value) * step.value
        operands = (start, end, step)
        return self.builder.atom(target, start.low, max(high, start.low), "loop", operands, ssa=ssa)

    def _iterations(self, variable: Form, bounds: KernelRange, steps: tuple[Form, ...]) -> tuple[Form, ...]:
        """How far values with these steps have moved when the loop variable has its present value."""
        result = []
        for distance in steps:
            rate = distance.divided_by(bounds.step)
            if rate is None:
                rate = distance.numeric.divided_by(bounds.step.numeric)
            if rate is None:
                count = self.builder.quotient("floordiv", variable - bounds.start, bounds.step)
                result.append(distance * count)
            else:
                result.append(rate * (variable - bounds.start))
        return tuple(result)

    def _carried_types(self, item: _Carried) -> list[Attribute]:
        value = item.initial
        if isinstance(value, Data):
            return [value.ssa.type]
        if isinstance(value, Pointer) and isinstance(value.offset, Data):
            return [value.offset.ssa.type]
        places = origins(value)
        return [IndexType()] * len(places) if places is not None else []

    def _in_loop(self, item: _Carried, arguments: Sequence[SSAValue]) -> Value:
        value = item.initial
        if isinstance(value, Data):
            return Data(arguments[0])
        if isinstance(value, Pointer) and isinstance(value.offset, Data):
            return Pointer(value.argument, Data(arguments[0]))
        item.probes = self._probes(item.name, arguments)
        return moved(value, tuple(map(Form.of, item.probes))) if item.probes else value

    def _probes(self, name: str, values: Sequence[SSAValue]) -> tuple[Atom, ...]:
        return tuple(
            self.builder.atom(f"the change of {name}", -UNBOUNDED, UNBOUNDED, "carried", ssa=ssa)
            for ssa in values
        )

    def _classify(
        self, node: ast.For, carried: list[_Carried], finals: dict[str, Value], serial: int
    ) -> bool:
        """Learns from a trial; whether it taught anything new, so that another is needed.

        Each variable is settled once: it moves by fixed steps, or it is data from the beginning.
        """
        changed = False
        for item in carried:
            final = finals[item.name]
            if item.steps is not None:
                continue
            places = origins(item.initial)
            if places is None:
                continue
            ends = origins(final)
            if ends is None or not _same_but_moved(item.initial, final):
                self._retype(node, item, final)
                changed = True
                continue
            steps = tuple(
                end - start - Form.of(probe)
                for end, start, probe in zip(ends, places, item.probes, strict=True)
            )
            if all(_invariant(step, serial) for step in steps):
                item.steps = steps
                changed = True
        return changed

    def _retype(self, node: ast.For, item: _Carried, final: Value) -> None:
        """The variable becomes data in the loop, so it is data from the beginning."""
        b = self.builder
        initial = item.initial
        if isinstance(initial, Pointer) and isinstance(final, Pointer) and initial.argument is final.argument:
            if initial.shape == final.shape and initial.shape and not isinstance(initial.offset, Data):
                item.initial = Pointer(initial.argument, b.materialize(initial.offset, offset))
                return
        elif isinstance(initial, Integer | Offsets) and isinstance(final, Data | Integer | Offsets):
            data = final if isinstance(final, Data) else None
            dtype = data.dtype if data is not None else offset
            shape = initial.shape if isinstance(initial, Offsets) else ()
            final_shape = final.shape if isinstance(final, Data | Offsets) else ()
            if shape == final_shape and dtype != boolean:
                b.node = node
                item.initial = b.materialize(initial, dtype)
                return
        self._changes_type(node, item, final)

    def _changes_type(self, node: ast.For, item: _Carried, final: Value) -> NoReturn:
        b = self.builder
        place = next((n for n in ast.walk(node) if _assigns(n, item.name)), node)
        b.fail(
            f"`{item.name}` is {item.initial.describe()} before the loop and {final.describe()} after an iteration",
            "a variable keeps its type and shape in a loop; start with baco.zeros(...) or cast by .to(...)",
            place,
        )

    def _emit(
        self,
        node: ast.For,
        bounds: KernelRange,
        carried: list[_Carried],
        block: Block,
        finals: dict[str, Value],
    ) -> None:
        """Appends the loop and gives the variables their values after it."""
        b = self.builder
        initial: list[SSAValue] = []
        results: list[SSAValue] = []
        for item in carried:
            final = finals[item.name]
            if item.steps is not None:
                continue
            start = item.initial.offset if isinstance(item.initial, Pointer) else item.initial
            end = final.offset if isinstance(final, Pointer) else final
            if isinstance(start, Data):
                initial.append(start.ssa)
                with b.inside(block):
                    b.node = node
                    results.append(self._yielded(node, item, start, end, final))
            elif item.slots:
                places, ends = origins(item.initial), origins(final)
                if places is None or ends is None or not _same_but_moved(item.initial, final):
                    self._changes_type(node, item, final)
                initial.extend(b.emit_constant(0, IndexType()) for _ in item.slots)
                with b.inside(block):
                    results.extend(b.emit_index(e - p) for e, p in zip(ends, places, strict=True))
            elif final != item.initial:
                self._changes_type(node, item, final)
        limits = [b.emit_index(form) for form in (bounds.start, bounds.end, bounds.step)]
        with b.inside(block):
            b.append(scf.YieldOp(*results))
        loop = scf.ForOp(limits[0], limits[1], limits[2], initial, block)
        b.append(loop)
        for item in carried:
            self.names[item.name] = self._after(item, bounds, list(loop.results))

    def _yielded(self, node: ast.For, item: _Carried, start: Data, end: Value, final: Value) -> SSAValue:
        if isinstance(end, Integer | Offsets) and start.dtype == offset:
            end = self.builder.materialize(end, offset)
        if isinstance(end, Integer) and not start.shape:
            end = self.builder.materialize(end, start.dtype)
        if not isinstance(end, Data) or end.ssa.type != start.ssa.type:
            self._changes_type(node, item, final)
        if isinstance(item.initial, Pointer) != isinstance(final, Pointer):
            self._changes_type(node, item, final)
        return end.ssa

    def _after(self, item: _Carried, bounds: KernelRange, results: list[SSAValue]) -> Value:
        value = item.initial
        if item.steps is not None:
            if all(step.is_zero for step in item.steps):
                return value
            trips = self._trips(bounds)
            return moved(value, tuple(step * trips for step in item.steps))
        mine = [results[slot] for slot in item.slots]
        if isinstance(value, Data):
            return Data(mine[0])
        if isinstance(value, Pointer) and isinstance(value.offset, Data):
            return Pointer(value.argument, Data(mine[0]))
        return moved(value, tuple(map(Form.of, self._probes(item.name, mine)))) if mine else value

    def _trips(self, bounds: KernelRange) -> Form:
        """The number of iterations."""
        span = bounds.end - bounds.start
        if span.high <= 0:
            return Form()
        count = self.builder.quotient("cdiv", span, bounds.step)
        return count if span.low >= 0 else self.builder.quotient("max", count, Form())


def _invariant(form: Form, serial: int) -> bool:
    """Whether no atom of the form, or what it is computed from, came into being after `serial`."""
    return all(
        atom.fixed
        or atom.serial < serial
        or (bool(atom.operands) and atom.kind != "loop" and all(_invariant(f, serial) for f in atom.operands))
        for atom in form.atoms()
    )


def _assigned(body: list[ast.stmt]) -> list[str]:
    """Names that statements assign, in order."""
    names: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None
    return list(names)


def _assigns(node: ast.AST, name: str) -> bool:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    return any(isinstance(n, ast.Name) and n.id == name for target in targets for n in ast.walk(target))
