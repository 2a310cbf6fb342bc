"""Expressions of a kernel: from the Python syntax tree to values."""

from __future__ import annotations

import ast
import builtins
from abc import ABC, abstractmethod
from collections.abc import Mapping

from baco.common.errors import did_you_mean
from baco.compiler.language import arithmetic, primitives
from baco.compiler.language.builder import Builder
from baco.compiler.language.dtypes import Dtype, boolean
from baco.compiler.language.forms import Form
from baco.compiler.language.names import REQUIRED, KernelFunction, to_value
from baco.compiler.language.primitives import PRIMITIVES, Primitive
from baco.compiler.language.values import (
    BlockPointer,
    Data,
    Function,
    Integer,
    KernelConstant,
    Module,
    Offsets,
    Pointer,
    Tuple,
    Unavailable,
    Value,
    integer,
)

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
#: What people write that the language does not have, with what it has instead.
_FOREIGN = {
    "Lambda": ("a lambda", "write a second kernel function with @baco.jit and call it"),
    "ListComp": ("a list comprehension", "write a for loop"),
    "SetComp": ("a set comprehension", "write a for loop"),
    "DictComp": ("a dict comprehension", "write a for loop"),
    "GeneratorExp": ("a generator", "write a for loop"),
    "Dict": ("a dict", "use names"),
    "Set": ("a set", "use names"),
    "Await": ("await", None),
    "Yield": ("yield", None),
    "YieldFrom": ("yield", None),
    "JoinedStr": ("an f-string", None),
    "NamedExpr": ("`:=`", "assign on a line of its own"),
    "Starred": ("`*`", "write the values one by one"),
}
_METHODS = ("to",)
_ATTRIBUTES = ("T", "dtype", "shape", "to")


class Expressions(ABC):
    """Evaluates expressions in the scope of one kernel function.

    Attributes:
        builder: where operations go.
        function: the kernel function whose names are in force.
        names: local names and their values.
    """

    def __init__(self, builder: Builder, function: KernelFunction, names: dict[str, Value]) -> None:
        self.builder = builder
        self.function = function
        self.names = names

    @abstractmethod
    def inline(self, function: KernelFunction, arguments: Mapping[str, Value]) -> Value:
        """The value of a call of another kernel function."""

    def evaluate(self, node: ast.expr) -> Value:
        """The value of an expression.

        Raises:
            KernelError: it is none of the block language, or its operands do not fit.
        """
        handler = getattr(self, f"_{type(node).__name__}", None)
        b = self.builder
        b.spend(node)
        if handler is None:
            what, hint = _FOREIGN.get(type(node).__name__, (f"{type(node).__name__}", None))
            b.fail(f"{what} is not part of the block language", hint, node)
        value = handler(node)
        assert isinstance(value, Value)
        return value

    def _operands(self, node: ast.AST, *operands: ast.expr) -> list[Value]:
        """Evaluates operands; errors that follow are those of `node`."""
        values = [self.evaluate(operand) for operand in operands]
        self.builder.node = node
        return values

    def condition(self, node: ast.expr, what: str) -> bool:
        """The truth of a compile-time condition."""
        (value,) = self._operands(node, node)
        if isinstance(value, KernelConstant) and (value.value is None or isinstance(value.value, bool)):
            return bool(value.value)
        if isinstance(value, Integer) and value.fixed:
            return value.value != 0
        if isinstance(value, Data | Integer):
            self.builder.fail(
                f"the condition of {what} must be known when compiling, got {value.describe()}",
                "choose per element by baco.where(condition, x, y), or mask loads and stores",
            )
        raise self.builder.error(
            f"the condition of {what} must be a comparison of compile-time values, got {value.describe()}"
        )

    def _Constant(self, node: ast.Constant) -> Value:  # noqa: N802
        if isinstance(node.value, bool | float | str) or node.value is None:
            return KernelConstant(node.value)
        if isinstance(node.value, int):
            self.builder.node = node
            return Integer(self.builder.checked(Form.of(node.value)))
        raise self.builder.error(f"{node.value!r} is no value of a kernel", node=node)

    def _Name(self, node: ast.Name) -> Value:  # noqa: N802
        b = self.builder
        b.node = node
        if node.id in self.names:
            value = self.names[node.id]
            if isinstance(value, Unavailable):
                b.fail(
                    f"`{node.id}` has its value in the loop of line {value.line} only",
                    f"give `{node.id}` a value before the loop",
                )
            return value
        thing = self.function.lookup(node.id)
        if thing is REQUIRED:
            known = [*self.names, *self.function.function.__globals__]
            known = [name for name in known if not name.startswith("_")]
            b.fail(
                f"the name `{node.id}` is not defined",
                did_you_mean(node.id, known) if len(known) < 40 else None,
            )
        return self._known(node.id, thing)

    def _known(self, name: str, thing: object) -> Value:
        value = to_value(name, thing)
        if value is None:
            if callable(thing):
                python = thing is getattr(builtins, name, None)
                kind = "a Python function" if not python else "a built-in function of Python"
                self.builder.fail(
                    f"`{name}` is {kind}, and a kernel is not executed by Python",
                    "kernels call functions of baco, and functions marked by @baco.jit",
                )
            self.builder.fail(
                f"`{name}` is of the Python type {type(thing).__name__}, which kernels cannot use",
                "pass arrays and numbers as arguments",
            )
        return value

    def _Tuple(self, node: ast.Tuple) -> Value:  # noqa: N802
        return Tuple(tuple(self._operands(node, *node.elts)))

    def _List(self, node: ast.List) -> Value:  # noqa: N802
        return Tuple(tuple(self._operands(node, *node.elts)))

    def _BinOp(self, node: ast.BinOp) -> Value:  # noqa: N802
        left, right = self._operands(node, node.left, node.right)
        return self.binary(node, node.op, left, right)

    def binary(self, node: ast.AST, operation: ast.operator, left: Value, right: Value) -> Value:
        """The value of an operator between two values."""
        self.builder.node = node
        if isinstance(operation, ast.MatMult):
            return primitives.dot(self.builder, left, right)
        if isinstance(left, Tuple) and isinstance(right, Tuple) and isinstance(operation, ast.Add):
            return Tuple(left.items + right.items)
        for value in (left, right):
            if isinstance(value, Tuple | Module | Function) or (
                isinstance(value, KernelConstant) and not isinstance(value.value, float)
            ):
                self.builder.fail(f"`{_BINARY[type(operation)]}` does not apply to {value.describe()}")
        return arithmetic.binary(self.builder, _BINARY[type(operation)], left, right)

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:  # noqa: N802
        if isinstance(node.op, ast.Not):
            return KernelConstant(not self.condition(node.operand, "`not`"))
        (value,) = self._operands(node, node.operand)
        if isinstance(value, Tuple | Module | Function | Pointer | BlockPointer):
            self.builder.fail(f"{value.describe()} has no sign")
        if isinstance(value, KernelConstant) and not isinstance(value.value, float):
            self.builder.fail(f"{value.describe()} has no sign")
        if isinstance(node.op, ast.USub):
            return arithmetic.negate(self.builder, value)
        return arithmetic.invert(self.builder, value) if isinstance(node.op, ast.Invert) else value

    def _BoolOp(self, node: ast.BoolOp) -> Value:  # noqa: N802
        word = "and" if isinstance(node.op, ast.And) else "or"
        for operand in node.values:
            (value,) = self._operands(operand, operand)
            if isinstance(value, Data) and value.dtype == boolean:
                symbol = "&" if word == "and" else "|"
                self.builder.fail(
                    f"`{word}` combines compile-time conditions only",
                    f"write `(x < a) {symbol} (y < b)`, with the parentheses",
                )
            truth = self.condition(operand, f"`{word}`")
            if truth != (word == "and"):
                return KernelConstant(truth)
        return KernelConstant(word == "and")

    def _Compare(self, node: ast.Compare) -> Value:  # noqa: N802
        values = self._operands(node, node.left, *node.comparators)
        result: Value | None = None
        for operation, left, right in zip(node.ops, values, values[1:], strict=False):
            self.builder.node = node
            link = self._compare(operation, left, right)
            if result is None:
                result = link
            elif isinstance(result, KernelConstant) and isinstance(link, KernelConstant):
                result = KernelConstant(bool(result.value and link.value))
            elif isinstance(result, KernelConstant) or isinstance(link, KernelConstant):
                known, other = (result, link) if isinstance(result, KernelConstant) else (link, result)
                result = other if known == KernelConstant(True) else KernelConstant(False)
            else:
                result = arithmetic.elementwise(self.builder, "&", result, link)
        assert result is not None
        return result

    def _compare(self, operation: ast.cmpop, left: Value, right: Value) -> Value:
        if isinstance(operation, ast.Is | ast.IsNot):
            if KernelConstant(None) not in (left, right):
                self.builder.fail("`is` compares with None only", "write `==`")
            return KernelConstant((left == right) == isinstance(operation, ast.Is))
        if type(operation) not in _COMPARE:
            if isinstance(right, Tuple):
                found = any(
                    self._compare(ast.Eq(), left, item) == KernelConstant(True) for item in right.items
                )
                return KernelConstant(found == isinstance(operation, ast.In))
            self.builder.fail(f"`in` needs a tuple, got {right.describe()}")
        return arithmetic.compare(self.builder, _COMPARE[type(operation)], left, right)

    def _IfExp(self, node: ast.IfExp) -> Value:  # noqa: N802
        return self.evaluate(node.body if self.condition(node.test, "`if`") else node.orelse)

    def _Subscript(self, node: ast.Subscript) -> Value:  # noqa: N802
        (value,) = self._operands(node, node.value)
        if isinstance(value, Tuple):
            (position,) = self._operands(node, node.slice)
            at = self.builder.fixed_integer(position, "the position in a tuple")
            if not -len(value.items) <= at < len(value.items):
                self.builder.fail(f"position {at} of {value.describe()}")
            return value.items[at]
        entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        new = [isinstance(entry, ast.Constant) and entry.value is None for entry in entries]
        full = [isinstance(e, ast.Slice) and e.lower is e.upper is e.step is None for e in entries]
        if isinstance(value, Pointer) and not value.shape:
            self.builder.fail("a pointer has no elements to index", "write baco.load(pointer + offset)")
        if not isinstance(value, Offsets | Data | Pointer) or not all(
            a or b for a, b in zip(new, full, strict=True)
        ):
            self.builder.fail(
                f"{value.describe()} cannot be indexed like this",
                "a block takes [:, None] and [None, :], which insert dimensions",
            )
        rank = len(value.shape)
        if sum(full) > rank:
            self.builder.fail(f"{sum(full)} dimensions are indexed, {value.describe()} has {rank}")
        for axis, inserted in enumerate(new):
            if inserted:
                value = primitives.expand_dims(self.builder, value, axis)
        return value

    def _Attribute(self, node: ast.Attribute) -> Value:  # noqa: N802
        (value,) = self._operands(node, node.value)
        b = self.builder
        if isinstance(value, Module):
            return self._member(value, node.attr)
        if node.attr in _METHODS and isinstance(value, Data | Offsets | Integer):
            return Function(node.attr, node.attr, value)
        if node.attr == "T":
            return primitives.transpose(b, value)
        if node.attr == "shape" and isinstance(value, Data | Offsets | Pointer):
            return Tuple(tuple(integer(size) for size in value.shape))
        if node.attr == "dtype":
            if isinstance(value, Data):
                return KernelConstant(value.dtype)
            if isinstance(value, Pointer):
                return KernelConstant(value.argument.dtype)
            if isinstance(value, BlockPointer):
                return KernelConstant(value.base.argument.dtype)
        raise b.error(
            f"{value.describe()} has no `{node.attr}`",
            "blocks have " + ", ".join(f".{name}" for name in _ATTRIBUTES),
        )

    def _member(self, module: Module, name: str) -> Value:
        b = self.builder
        if name not in module.members:
            is_baco = any(thing is PRIMITIVES["load"] for thing in module.members.values())
            hint = did_you_mean(name, PRIMITIVES) if is_baco else None
            b.fail(f"`{module.name}.{name}` does not exist", hint)
        value = to_value(name, module.members[name])
        if value is None:
            b.fail(
                f"`{module.name}.{name}` means nothing in a kernel, which is not executed by Python",
                "kernels call functions of baco, and functions marked by @baco.jit",
            )
        return value

    def _Call(self, node: ast.Call) -> Value:  # noqa: N802
        (called,) = self._operands(node.func, node.func)
        b = self.builder
        if not isinstance(called, Function):
            hint = None
            if isinstance(called, KernelConstant) and isinstance(called.value, Dtype):
                hint = 'cast by `.to("int8")`'
            b.fail(f"{called.describe()} cannot be called", hint)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                b.fail("`*` is not part of the block language", "write the arguments one by one", argument)
        for keyword in node.keywords:
            if keyword.arg is None:
                b.fail(
                    "`**` is not part of the block language", "write the arguments one by one", keyword.value
                )
        values = self._operands(node, *node.args)
        named = {k.arg: self.evaluate(k.value) for k in node.keywords if k.arg is not None}
        b.node = node
        if called.receiver is not None:
            return self._method(called, values, named)
        if isinstance(called.target, Primitive):
            primitive = called.target
            if primitive.variadic:
                if named or len(values) < 2:
                    b.fail(f"`{primitive.name}` takes two integers or more")
                return primitive.translate(b, {str(i): value for i, value in enumerate(values)})
            arguments = self.bind(called.name, primitive.parameters, primitive.defaults, values, named)
            return primitive.translate(b, arguments)
        kernel = called.target
        assert isinstance(kernel, KernelFunction)
        defaults = {}
        for parameter in kernel.parameters:
            if parameter.default is not REQUIRED:
                defaults[parameter.name] = self._known(parameter.name, parameter.default)
        names = tuple(parameter.name for parameter in kernel.parameters)
        arguments = self.bind(called.name, names, defaults, values, named)
        for parameter in kernel.parameters:
            value = arguments[parameter.name]
            known = isinstance(value, KernelConstant | Tuple) or (isinstance(value, Integer) and value.fixed)
            if parameter.compile_time and not known:
                b.fail(
                    f"parameter `{parameter.name}` of `{called.name}` is a compile-time constant, got {value.describe()}"
                )
        return self.inline(kernel, arguments)

    def _method(self, called: Function, values: list[Value], named: dict[str, Value]) -> Value:
        assert called.receiver is not None
        arguments = self.bind(called.name, ("dtype",), {}, values, named)
        return primitives.cast(
            self.builder, called.receiver, primitives.to_dtype(self.builder, arguments["dtype"])
        )

    def bind(
        self,
        name: str,
        parameters: tuple[str, ...],
        defaults: Mapping[str, Value],
        values: list[Value],
        named: Mapping[str, Value],
    ) -> dict[str, Value]:
        """The arguments of a call by the names of the parameters."""
        b = self.builder
        signature = f"{name}({', '.join(parameters)})"
        if len(values) > len(parameters):
            b.fail(f"`{name}` takes {len(parameters)} arguments, got {len(values)}", signature)
        bound = dict(zip(parameters, values, strict=False))
        for key, value in named.items():
            if key not in parameters:
                b.fail(f"`{name}` has no parameter `{key}`", signature)
            if key in bound:
                b.fail(f"`{name}` got two values for `{key}`", signature)
            bound[key] = value
        missing = [
            parameter for parameter in parameters if parameter not in bound and parameter not in defaults
        ]
        if missing:
            b.fail(f"`{name}` lacks " + ", ".join(f"`{parameter}`" for parameter in missing), signature)
        return {
            parameter: bound.get(parameter, defaults.get(parameter, KernelConstant(None)))
            for parameter in parameters
        }
