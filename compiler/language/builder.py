"""Writes operations of the `baco` dialect while a kernel is translated, and knows what its integers are.

Integers and blocks of offsets stay symbolic (`forms`, `values`) until an operation needs them; then they are
emitted where they are needed. Common subexpressions are merged afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FileLineColLoc,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from baco.compiler.dialects.baco import (
    FLOAT_TYPES,
    AddOp,
    AddPtrOp,
    ArangeOp,
    BroadcastOp,
    CastOp,
    DotOp,
    ExpandDimsOp,
    LoadOp,
    MaximumOp,
    MulOp,
    ProgramIdOp,
    RequantizeOp,
    SplatOp,
    StoreOp,
    TransOp,
    element_type,
    index,
    shape_of,
    ui8,
)
from baco.compiler.language.dtypes import Dtype, boolean, float32, int32, offset
from baco.compiler.language.forms import UNBOUNDED, Atom, Form
from baco.compiler.language.source import KernelError, KernelSource
from baco.compiler.language.values import BlockLayout, Data, Gather, Integer, Offsets, Value, integer

#: Integers of a kernel beyond this are a mistake.
MAX_INTEGER = 2**39
#: Expressions that are translated and operations that this makes, those of unrolled iterations, of calls and of loops
#: that are tried out included.
MAX_EXPRESSIONS, MAX_OPERATIONS = 2**17, 2**15
#: Characters of the name of an integer that is computed from others.
_MAX_NAME = 500
#: Operations that there are of floating point, too.
_OF_FLOATS = (
    *(
        arith.ConstantOp,
        scf.ForOp,
        scf.YieldOp,
        SplatOp,
        BroadcastOp,
        ExpandDimsOp,
        TransOp,
        AddPtrOp,
        LoadOp,
        StoreOp,
    ),
    *(DotOp, AddOp, MaximumOp, RequantizeOp, CastOp),
)
#: What to do about a kernel that is too large.
SMALLER = "nest fewer loops, unroll fewer iterations, call fewer functions"


class Builder:
    """State of the translation of one kernel.

    Attributes:
        source: the function being translated (another one while a helper is inlined).
        node: what is being translated, for errors.
        block: where operations are appended.
        grid: numbers of programs per axis; `CeilingQuotient`s where the launch gave them.
        quotients: every `cdiv` of arguments seen so far.
        loop_ends: those of them that bound a loop: they say nothing about the grid.
        loops: how many loops of the program are around what is being translated.
    """

    def __init__(self, source: KernelSource, block: Block, grid: Sequence[int]) -> None:
        self.source = source
        self.node: ast.AST = source.function
        self.block = block
        self.grid = tuple(grid)
        self.quotients: list[Atom] = []
        self.loop_ends: set[Atom] = set()
        self.loops = 0
        self._deferred: list[list[KernelError]] = []
        self._ssa: dict[Atom, SSAValue] = {}
        self._interned: dict[object, Atom] = {}
        self._serial = 0
        self._expressions = self._operations = 0

    def spend(self, node: ast.AST) -> None:
        """Counts an expression or statement that is translated, which ends what would go on for ever."""
        self._expressions += 1
        if self._expressions > MAX_EXPRESSIONS:
            self.fail(f"this kernel has more than {MAX_EXPRESSIONS:,} expressions", SMALLER, node)

    def error(self, message: str, hint: str | None = None, node: ast.AST | None = None) -> KernelError:
        """An error at `node` (default: what is being translated), to be raised."""
        return self.source.error(node or self.node, message, hint)

    def fail(self, message: str, hint: str | None = None, node: ast.AST | None = None) -> NoReturn:
        """Raises that error."""
        raise self.error(message, hint, node)

    def report(self, error: KernelError) -> None:
        """Raises the error, or keeps it until it is clear that what is being translated is no trial."""
        if not self._deferred:
            raise error
        self._deferred[-1].append(error)

    @contextmanager
    def deferring(self) -> Iterator[list[KernelError]]:
        """Errors that are reported inside are kept, in the list given."""
        errors: list[KernelError] = []
        self._deferred.append(errors)
        try:
            yield errors
        finally:
            self._deferred.pop()

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Operations go to `block`."""
        outer, self.block = self.block, block
        try:
            yield
        finally:
            self.block = outer

    def emit(self, operation: Operation) -> SSAValue:
        """Appends an operation and returns its result."""
        self.append(operation)
        return operation.results[0]

    def append(self, operation: Operation) -> None:
        """Appends an operation, which remembers the line that is being translated."""
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            self.fail(f"this kernel makes more than {MAX_OPERATIONS:,} operations", SMALLER)
        if not isinstance(operation, _OF_FLOATS):
            for value in (*operation.operands, *operation.results):
                if element_type(value.type) in FLOAT_TYPES:
                    self.fail(
                        f"no {operation.name.removeprefix('baco.')} of floating point",
                        "arrays multiply, add sums of float32, cut off what is below 0 and round: baco.dot, +, baco.maximum(x, 0), "
                        "baco.requantize(x, scale, dtype), x.to(dtype)",
                    )
        place = self.source.location(self.node)
        operation.location = FileLineColLoc(
            StringAttr(place.file), IntAttr(place.line or 0), IntAttr(place.column or 0)
        )
        self.block.add_op(operation)

    # Integers

    def atom(
        self,
        name: str,
        low: int,
        high: int,
        kind: str,
        operands: tuple[Form, ...] = (),
        *,
        fixed: bool = False,
        ssa: SSAValue | None = None,
    ) -> Atom:
        """A new atom; `ssa` is its value unless it is computed from its operands."""
        self._serial += 1
        atom = Atom(name, low, high, fixed, kind, operands, self._serial)
        if ssa is not None:
            self._ssa[atom] = ssa
        return atom

    def bind(self, atom: Atom, ssa: SSAValue) -> None:
        """Gives the atom its value in the IR."""
        self._ssa[atom] = ssa

    def program_id(self, axis: int) -> Form:
        key = ("program", axis)
        if key not in self._interned:
            self._interned[key] = self.atom(
                f"program_id({axis})", 0, self.grid[axis] - 1, "program", (Form.of(axis),)
            )
        return Form.of(self._interned[key])

    def from_memory(self, data: Data) -> Form:
        """A number that was computed from data, as an integer."""
        ssa = data.ssa if data.dtype == offset else self.emit(CastOp(data.ssa, index))
        return Form.of(self.atom("a number from memory", -UNBOUNDED, UNBOUNDED, "memory", ssa=ssa))

    def quotient(self, kind: str, left: Form, right: Form) -> Form:
        """The form of `left` kind `right` for the kinds cdiv, floordiv, mod, min, max.

        Divisors must be positive.
        """
        if kind in ("cdiv", "floordiv", "mod") and right.low < 1:
            what = str(right.value) if right.low == right.high else "a number that may be 0 or negative"
            self.fail(f"division by {what}", "divisors must be positive")
        if kind == "floordiv" and (left - right + Form.of(1)).terms:
            # (X + B - 1) // B is a cdiv written out.
            dividend = left - right + Form.of(1)
            if len(dividend.terms) < len(left.terms) and left.fixed and right.fixed:
                return self.quotient("cdiv", dividend, right)
        key = (kind, left.key, right.key)
        if key not in self._interned:
            low, high = _quotient_range(kind, left, right)
            fixed = left.fixed and right.fixed
            symbol = {"cdiv": "cdiv({}, {})", "floordiv": "({} // {})", "mod": "({} % {})"}.get(
                kind, kind + "({}, {})"
            )
            name = symbol.format(left, right)
            if len(name) > _MAX_NAME:  # names of names would double with every step
                name = f"{name[:_MAX_NAME]}..."
            atom = self.atom(name, low, high, kind, (left, right), fixed=fixed)
            self._interned[key] = atom
            if kind == "cdiv" and fixed:
                self.quotients.append(atom)
        return Form.of(self._interned[key])

    def checked(self, form: Form) -> Form:
        """The form, if its value is of a sensible size."""
        if form.bounded and max(abs(form.low), abs(form.high)) > MAX_INTEGER:
            self.fail("this integer becomes too large", f"integers of a kernel stay below {MAX_INTEGER}")
        return form

    def emit_index(self, form: Form) -> SSAValue:
        """The value of a form, of type index."""
        terms = sorted(form.numeric.terms.items(), key=lambda term: [atom.sort_key for atom in term[0]])
        total: SSAValue | None = None
        constant = 0
        for product, coefficient in terms:
            if not product:
                constant = coefficient
                continue
            value = self._emit_atom(product[0])
            for atom in product[1:]:
                value = self.emit(arith.MuliOp(value, self._emit_atom(atom)))
            if coefficient != 1:
                value = self.emit(arith.MuliOp(value, self.emit_constant(coefficient, index)))
            total = value if total is None else self.emit(arith.AddiOp(total, value))
        if total is None:
            return self.emit_constant(constant, index)
        if constant:
            total = self.emit(arith.AddiOp(total, self.emit_constant(constant, index)))
        return total

    def _emit_atom(self, atom: Atom) -> SSAValue:
        if atom in self._ssa:
            return self._ssa[atom]
        if atom.kind == "program":
            return self.emit(ProgramIdOp(atom.operands[0].value))
        left, right = atom.operands
        a, b = self.emit_index(left), self.emit_index(right)
        if atom.kind == "min":
            return self.emit(arith.MinSIOp(a, b))
        if atom.kind == "max":
            return self.emit(arith.MaxSIOp(a, b))
        if atom.kind == "cdiv":
            a = self.emit_index(left + right - Form.of(1))
            left = left + right - Form.of(1)
        if atom.kind == "mod":
            if left.low >= 0:
                return self.emit(arith.RemSIOp(a, b))
            whole = self.emit(arith.MuliOp(self.emit(arith.FloorDivSIOp(a, b)), b))
            return self.emit(arith.SubiOp(a, whole))
        return self.emit(arith.DivSIOp(a, b) if left.low >= 0 else arith.FloorDivSIOp(a, b))

    # Blocks

    def emit_constant(self, value: int, element: Attribute) -> SSAValue:
        """A scalar constant of any element type."""
        if element == ui8:
            return self.emit(CastOp(self.emit_constant(value, int32.ir), ui8))
        if element in FLOAT_TYPES:
            assert value == 0, "the one constant of floating point"
            return self.emit(arith.ConstantOp(FloatAttr(0.0, cast(AnyFloat, element))))
        assert isinstance(element, IntegerType | IndexType)
        return self.emit(arith.ConstantOp(IntegerAttr(value, element)))

    def emit_broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The scalar or block repeated to `shape`; the shapes fit by numpy's rules."""
        if shape_of(value.type) == tuple(shape):
            return value
        if not shape_of(value.type):
            return self.emit(SplatOp(value, shape))
        while len(shape_of(value.type)) < len(shape):
            value = self.emit(ExpandDimsOp(value, 0))
        return value if shape_of(value.type) == tuple(shape) else self.emit(BroadcastOp(value, shape))

    def emit_offsets(self, layout: BlockLayout) -> SSAValue:
        """The block of offsets, of element type index."""
        total: SSAValue | None = None
        terms = [self._emit_axis(layout, dimension) for dimension in sorted(layout.axes)]
        for term in [*terms, *(self._emit_gather(layout, one) for one in layout.gathers)]:
            total = term if total is None else self.emit(AddOp(total, term))
        if total is None:
            return self.emit_broadcast(self.emit_index(layout.rest), layout.shape)
        if not (layout.rest.low == layout.rest.high == 0):
            total = self.emit(AddOp(total, self.emit_broadcast(self.emit_index(layout.rest), layout.shape)))
        return total

    def _emit_axis(self, layout: BlockLayout, dimension: int) -> SSAValue:
        axis = layout.axes[dimension]
        line = self.emit(ArangeOp(0, axis.size.value))
        if not (axis.start.low == axis.start.high == 0):
            line = self.emit(AddOp(line, self.emit_broadcast(self.emit_index(axis.start), [axis.size.value])))
        line = self._scaled(line, axis.coefficient)
        for other in range(len(layout.shape)):
            if other != dimension:
                line = self.emit(ExpandDimsOp(line, other))
        return self.emit_broadcast(line, layout.shape)

    def _emit_gather(self, layout: BlockLayout, term: Gather) -> SSAValue:
        value = term.ssa
        order = sorted(range(len(term.dimensions)), key=term.dimensions.__getitem__)
        if order != list(range(len(order))):
            value = self.emit(TransOp(value, order))
        value = self._scaled(value, term.coefficient)
        for other in range(len(layout.shape)):
            if other not in term.dimensions:
                value = self.emit(ExpandDimsOp(value, other))
        return self.emit_broadcast(value, layout.shape)

    def _scaled(self, block: SSAValue, factor: Form) -> SSAValue:
        if factor.low == factor.high == 1:
            return block
        return self.emit(MulOp(block, self.emit_broadcast(self.emit_index(factor), shape_of(block.type))))

    def materialize(self, value: Integer | Offsets | Data, dtype: Dtype | None = None) -> Data:
        """The value as data of element type `dtype` (default: its own)."""
        if isinstance(value, Integer):
            if value.fixed and dtype is not None and dtype != offset:
                low, high = dtype.range
                if not low <= value.value <= high:
                    if dtype.floating:
                        self.fail(
                            f"the constant {value.value} as {dtype}",
                            "numbers in floating point but 0 come from arrays",
                        )
                    self.fail(
                        f"{value.value} does not fit {dtype} ({low} ... {high})",
                        "cast the block to a wider type first",
                    )
                return Data(self.emit_constant(value.value, dtype.ir))
            ssa = self.emit_index(value.form)
        elif isinstance(value, Offsets):
            ssa = self.emit_offsets(value.layout)
        else:
            ssa = value.ssa
            if dtype is None or value.dtype == dtype:
                return value
            if dtype.floating or value.dtype.floating:
                return self._in_floats(value, dtype)
        if dtype is not None and element_type(ssa.type) != dtype.ir:
            ssa = self.emit(CastOp(ssa, dtype.ir))
        return Data(ssa)

    def _in_floats(self, value: Data, dtype: Dtype) -> Data:
        """Elements of floating point as float32, or those rounded."""
        if dtype == float32 and value.dtype.floating:
            return Data(self.emit(CastOp(value.ssa, dtype.ir)))
        if value.dtype == float32 and dtype.floating:
            return Data(self.emit(RequantizeOp(value.ssa, 1.0, dtype.ir)))
        raise self.error(
            f"a cast of {value.dtype} to {dtype}",
            "elements of floating point become float32, and float32 elements",
        )

    def as_integer(self, value: Value) -> Integer | None:
        """The value as an integer: an integer, or a number of data; else None."""
        if isinstance(value, Integer):
            return value
        if (
            isinstance(value, Data)
            and not value.shape
            and value.dtype != boolean
            and not value.dtype.floating
        ):
            return Integer(self.from_memory(value))
        return None

    def fixed_integer(self, value: Value, what: str, *, low: int | None = None) -> int:
        """A compile-time integer, at least `low`; `what` names it in errors."""
        return self.fixed_form(value, what, low=low).value

    def fixed_form(self, value: Value, what: str, *, low: int | None = None) -> Form:
        """A compile-time integer with its names."""
        if not isinstance(value, Integer) or not value.fixed:
            self.fail(f"{what} must be a compile-time integer, got {value.describe()}")
        if low is not None and value.value < low:
            self.fail(f"{what} must be at least {low}, got {value.value}")
        return value.form


def _quotient_range(kind: str, left: Form, right: Form) -> tuple[int, int]:
    (a, b), (c, d) = left.range, right.range
    if kind == "min":
        return min(a, c), min(b, d)
    if kind == "max":
        return max(a, c), max(b, d)
    if kind == "mod":
        if a == b and c == d:
            return a % c, a % c
        return (a, b) if a >= 0 and b < c else (0, min(b, d - 1) if a >= 0 else d - 1)
    corners = [-(-x // y) if kind == "cdiv" else x // y for x in (a, b) for y in (c, d)]
    return min(corners), max(corners)


__all__ = ["MAX_INTEGER", "SMALLER", "Builder", "integer"]
