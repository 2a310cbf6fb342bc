"""Statements of a kernel, and the whole: from a launch's arguments to a module of the `baco` dialect."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import Builtin, DenseArrayBase, FunctionType, ModuleOp, i64
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import dce

from baco.compiler.dialects.baco import (
    GRID,
    SIZES,
    AddOp,
    Baco,
    DotOp,
    PointerType,
    SplatOp,
    accumulating_product,
    element_type,
    f32,
)
from baco.compiler.dialects.baco_types import MOST_KERNEL_OPERATIONS
from baco.compiler.language.builder import SMALLER, Builder
from baco.compiler.language.dtypes import Dtype
from baco.compiler.language.forms import Form, TooLargeError
from baco.compiler.language.loops import Loops
from baco.compiler.language.names import KernelFunction, to_value
from baco.compiler.language.values import Argument, Integer, KernelConstant, Pointer, Tuple, Value, integer

#: Kernel functions that call each other deeper than this are recursive.
MAX_DEPTH = 32
_FOREIGN = {
    "While": ("a `while` loop", "write `for i in range(...)`"),
    "Try": ("`try`", None),
    "With": ("`with`", None),
    "FunctionDef": ("a function inside of a kernel", "define it outside, marked by @baco.jit"),
    "ClassDef": ("a class", None),
    "Import": ("an import", "import at the top of the file"),
    "ImportFrom": ("an import", "import at the top of the file"),
    "Global": ("`global`", None),
    "Nonlocal": ("`nonlocal`", None),
    "Delete": ("`del`", None),
    "Raise": ("`raise`", "compile-time checks are written `assert condition`"),
    "Break": ("`break`", "mask what is not wanted, or compute the end of the range"),
    "Continue": ("`continue`", "mask what is not wanted"),
    "Match": ("`match`", "write `if` on compile-time values"),
    "AsyncFor": ("`async`", None),
    "AsyncWith": ("`async`", None),
    "AsyncFunctionDef": ("`async`", None),
}


class Translator(Loops):
    """Translates the statements of one function; helpers that it calls get a translator of their own."""

    depth = 0

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Translates statements one after the other."""
        for statement in body:
            self.builder.node = statement
            self.builder.spend(statement)
            handler = getattr(self, f"_do_{type(statement).__name__}", None)
            if handler is None:
                what, hint = _FOREIGN.get(type(statement).__name__, (type(statement).__name__, None))
                self.builder.fail(f"{what} is not part of the block language", hint)
            handler(statement)

    def call(self) -> Value:
        """Translates the whole body and returns what it returns."""
        body = list(self.function.source.function.body)
        last = body.pop() if body and isinstance(body[-1], ast.Return) else None
        self.run(body)
        if isinstance(last, ast.Return) and last.value is not None:
            (value,) = self._operands(last, last.value)
            return value
        return KernelConstant(None)

    def inline(self, function: KernelFunction, arguments: Mapping[str, Value]) -> Value:
        """Translates a call of another kernel function in place of the call."""
        b = self.builder
        if self.depth >= MAX_DEPTH:
            b.fail(f"`{function.name}` calls itself", "kernels have no recursion")
        source, node = b.source, b.node
        inner = Translator(b, function, dict(arguments))
        inner.depth = self.depth + 1
        b.source, b.node = function.source, function.source.function
        value = inner.call()
        b.source, b.node = source, node
        return value

    def _do_Expr(self, statement: ast.Expr) -> None:  # noqa: N802
        if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
            return  # a docstring
        if not isinstance(statement.value, ast.Call):
            self.evaluate(statement.value)
            self.builder.fail(
                "this line computes a value and drops it", "assign it, or remove the line", statement
            )
        self.evaluate(statement.value)

    def _do_Pass(self, statement: ast.Pass) -> None:  # noqa: N802
        pass

    def _do_Assign(self, statement: ast.Assign) -> None:  # noqa: N802
        (value,) = self._operands(statement, statement.value)
        for target in statement.targets:
            self._assign(target, value)

    def _do_AnnAssign(self, statement: ast.AnnAssign) -> None:  # noqa: N802
        if statement.value is None:
            self.builder.fail("a declaration without a value", "give the name a value")
        (value,) = self._operands(statement, statement.value)
        self._assign(statement.target, value)

    def _do_AugAssign(self, statement: ast.AugAssign) -> None:  # noqa: N802
        if not isinstance(statement.target, ast.Name):
            self._assign(statement.target, KernelConstant(None))
            return
        name = ast.copy_location(ast.Name(statement.target.id, ast.Load()), statement.target)
        left, right = self._operands(statement, name, statement.value)
        self._assign(statement.target, self.binary(statement, statement.op, left, right))

    def _assign(self, target: ast.expr, value: Value) -> None:
        b = self.builder
        if isinstance(target, ast.Name):
            if (
                value == KernelConstant(None)
                and isinstance(b.node, ast.Assign)
                and isinstance(b.node.value, ast.Call)
            ):
                b.fail("this call gives no value", "remove the assignment")
            self.names[target.id] = value
            return
        if isinstance(target, ast.Tuple | ast.List) and not any(
            isinstance(e, ast.Starred) for e in target.elts
        ):
            if not isinstance(value, Tuple):
                b.fail(f"{value.describe()} cannot be unpacked", node=target)
            if len(value.items) != len(target.elts):
                b.fail(f"{len(value.items)} values for {len(target.elts)} names", node=target)
            for element, item in zip(target.elts, value.items, strict=True):
                self._assign(element, item)
            return
        what = "an element of a block" if isinstance(target, ast.Subscript) else "this"
        b.fail(f"{what} cannot be assigned", "blocks are values: memory is written by baco.store", target)

    def _do_If(self, statement: ast.If) -> None:  # noqa: N802
        chosen = statement.body if self.condition(statement.test, "`if`") else statement.orelse
        self.run(chosen)

    def _do_For(self, statement: ast.For) -> None:  # noqa: N802
        self.loop(statement)

    def _do_Assert(self, statement: ast.Assert) -> None:  # noqa: N802
        if not self.condition(statement.test, "`assert`"):
            text = ""
            if isinstance(statement.msg, ast.Constant) and isinstance(statement.msg.value, str):
                text = f": {statement.msg.value}"
            self.builder.fail(f"the assertion does not hold{text}", None, statement)

    def _do_Return(self, statement: ast.Return) -> None:  # noqa: N802
        self.builder.fail("`return` stands at the end of a kernel only")


def translate(
    function: KernelFunction,
    arguments: Mapping[str, object],
    buffers: Sequence[tuple[Dtype, int]],
    grid: Sequence[int],
) -> ModuleOp:
    """The block program of a kernel for one launch.

    Args:
        function: the kernel.
        arguments: parameter -> number, bool, string or None; or `ArrayAt`, for an array.
        buffers: element type and number of elements of each pointer argument of the result.
        grid: number of programs along each axis.

    Raises:
        KernelError: the kernel is ill-formed, with the user's line.
    """
    types = [PointerType(dtype.ir) for dtype, _ in buffers]
    entry = Block(arg_types=types)
    b = Builder(function.source, entry, grid)
    names: dict[str, Value] = {}
    for name, thing in arguments.items():
        if isinstance(thing, ArrayAt):
            dtype, size = buffers[thing.buffer]
            argument = Argument(name, entry.args[thing.buffer], dtype, size)
            names[name] = Pointer(argument, integer(thing.start))
            continue
        value = to_value(name, thing)
        assert value is not None
        if isinstance(value, Integer):
            number = value.value
            value = Integer(Form.of(b.atom(name, number, number, "argument", fixed=True)))
        names[name] = value
    try:
        result = Translator(b, function, names).call()
    except RecursionError:
        raise b.error("this expression is nested too deeply", "give parts of it names") from None
    except TooLargeError as error:
        raise b.error(str(error)) from None
    if result != KernelConstant(None):
        b.fail(
            "a kernel that is launched returns nothing",
            "write results by baco.store",
            function.source.function.body[-1],
        )
    entry.add_op(func.ReturnOp())
    operation = func.FuncOp(function.name, FunctionType.from_lists(types, []), Region(entry))
    operation.attributes[GRID] = DenseArrayBase.from_list(i64, [int(count) for count in grid])
    operation.attributes[SIZES] = DenseArrayBase.from_list(i64, [size for _, size in buffers])
    module = ModuleOp([operation])
    _tidy(module)
    if sum(1 for _ in operation.walk()) > MOST_KERNEL_OPERATIONS + 1:
        raise b.error(
            f"this kernel becomes more than {MOST_KERNEL_OPERATIONS:,} operations",
            SMALLER,
            function.source.function,
        )
    module.verify()
    return module


class ArrayAt:
    """An array argument: the buffer that it lies in, and the position of its first element there.

    Attributes:
        buffer: index of the pointer argument.
        start: elements between the beginning of the buffer and the array's first element.
    """

    def __init__(self, buffer: int, start: int) -> None:
        self.buffer = buffer
        self.start = start


def _tidy(module: ModuleOp) -> None:
    """Merges equal computations, drops unused ones, and gives products in floating point the sums that they are added to."""
    context = Context()
    for dialect in (Builtin, func.Func, scf.Scf, arith.Arith, Baco):
        context.load_dialect(dialect)
    cse(module)
    dce(module)
    for op in list(module.walk()):
        if isinstance(op, AddOp) and element_type(op.result.type) == f32:
            _tidy_sum(op)


def _tidy_sum(op: AddOp) -> None:
    """A sum in floating point, whose order is that of the text: products are added, block by block, to what there is; to zeros whatever
    comes is itself."""
    for zeros, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        owner = zeros.owner
        if isinstance(owner, SplatOp) and isinstance(owner.scalar.owner, arith.ConstantOp):
            op.result.replace_all_uses_with(other)
            Rewriter.erase_op(op)
            return
    if (product := accumulating_product(op)) is not None:
        total = op.lhs if product.result is op.rhs else op.rhs
        Rewriter.replace_op(op, sums := DotOp(product.a, product.b, total))
        sums.location = op.location
        Rewriter.erase_op(product)
