"""A module at the `instgem` level as C: host loops, arithmetic, and commands by the names of Gemmini's header.

Integers are signed and of the width of their type (`index`: 64 bits), and wrap around: the text is to be compiled with `-fwrapv`.
Addresses are numbers of type int64_t. Values that are used once stand where they are used. Functions are static, and get a prefix
of the program's own, so that several programs can be linked together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, builtin, func, llvm, memref, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from baco.common.errors import InputError
from baco.compiler.codegen.c_commands import command_statement
from baco.compiler.codegen.c_expressions import C_WORDS, TWICE, bare, c_type, expression, literal, no_form
from baco.compiler.dialects.instgem import RARELY, CommandOp, FenceOp
from baco.compiler.ir.location import location_of


def c_functions(module: builtin.ModuleOp, prefix: str, types: Mapping[str, Sequence[str]]) -> str:
    """The module's constants and functions, each declared before all are defined.

    Args:
        prefix: of the names of the module's own functions and constants.
        types: of the parameters of functions that the module calls and does not have, by name.

    Raises InputError, naming the operation and its line, for what has no form in C.
    """
    own = {op.sym_name.data for op in module.body.block.ops if isinstance(op, func.FuncOp) and op.body.blocks}
    declared, written = [], []
    for op in module.body.block.ops:
        if isinstance(op, llvm.GlobalOp):
            declared.append(_table(op, prefix))
        elif not isinstance(op, func.FuncOp):
            raise InputError(
                f"{op.name} has no form in C",
                location=location_of(op),
                hint="text of the level llvm has none; that of the levels above has",
            )
        elif op.body.blocks:
            function = _Function(op, prefix, own, types)
            declared.append(f"{function.head};")
            written.append(function.text())
    return "\n".join([*declared, "", *written])


def _table(op: llvm.GlobalOp, prefix: str) -> str:
    """A constant array. Raises InputError for what a second call might find changed."""
    kind = op.global_type
    if op.constant is None or not isinstance(op.value, builtin.DenseIntOrFPElementsAttr):
        raise no_form(op)
    assert isinstance(kind, llvm.LLVMArrayType)
    element = c_type(kind.type, op)
    numbers = ", ".join(literal(one, element) for one in op.value.iter_attrs())
    name = f"{prefix}{op.sym_name.data}"
    return f"static const {element} {name}[] __attribute__((aligned(64))) = {{{numbers}}};"


class _Function:
    """Writes one function."""

    def __init__(
        self, op: func.FuncOp, prefix: str, own: set[str], types: Mapping[str, Sequence[str]]
    ) -> None:
        if len(op.body.blocks) != 1:
            raise InputError(
                "branches between blocks have no form in C",
                location=location_of(op),
                hint="use scf.for and scf.if",
            )
        self.op, self.prefix, self.own, self.types = op, prefix, own, types
        self.lines: list[str] = []
        self.depth = 1
        self.taken = set(C_WORDS)
        self.values: dict[SSAValue, str] = {}
        #: The host's accesses keep their place among commands, which compilers do not know to touch memory.
        self.volatile = "volatile " if any(isinstance(one, CommandOp) for one in op.walk()) else ""
        parameters = [f"int64_t {self.name(argument)}" for argument in op.body.block.args]
        if op.function_type.outputs.data or any(one.type != builtin.i64 for one in op.body.block.args):
            raise InputError(
                "a function in C takes i64 numbers and returns nothing", location=location_of(op)
            )
        name = f"{prefix}{op.sym_name.data}"
        self.head = f"static __attribute__((noinline)) void {name}({', '.join(parameters) or 'void'})"

    def text(self) -> str:
        self.block(self.op.body.block)
        return "\n".join([f"{self.head} {{", *self.lines, "}", ""])

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def name(self, value: SSAValue) -> str:
        """A variable for the value, called as its author does."""
        hint = re.sub(r"\W", "_", value.name_hint or "v", flags=re.ASCII)
        hint = hint.lower() if hint.isupper() else hint
        base = hint if hint[:1].isalpha() else f"v{hint}"
        name, number = base, 1
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        self.values[value] = name
        return name

    def get(self, value: SSAValue) -> str:
        owner = value.owner
        if isinstance(owner, arith.ConstantOp):
            return literal(owner.value, c_type(value.type, owner))
        return self.values[value]

    def all(self, values: Sequence[SSAValue]) -> list[str]:
        return [self.get(value) for value in values]

    def define(self, op: Operation, expression: str, *, anywhere: bool = True) -> None:
        """Give the result a value; `anywhere`: the expression may as well stand where it is used."""
        (result,) = op.results
        users = [use.operation for use in result.uses]
        once = len(users) == 1 and users[0].parent is op.parent and type(users[0]) not in TWICE
        if anywhere and (once or not users):
            self.values[result] = f"({expression})"
            return
        kind = c_type(result.type, op)
        self.line(f"const {kind} {self.name(result)} = {expression};")

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.operation(op)

    def inside(self, region: Region) -> None:
        self.depth += 1
        self.block(region.block)
        self.depth -= 1

    def operation(self, op: Operation) -> None:
        if isinstance(op, CommandOp):
            fields = {
                name: value if isinstance(value, int) else bare(self.get(value))
                for name, value in op.fields.items()
            }
            self.line(command_statement(op.KIND, fields))
        elif isinstance(op, FenceOp):
            self.line("wait_until_done();")
        elif isinstance(op, (arith.ConstantOp, scf.YieldOp, scf.ConditionOp, func.ReturnOp)):
            return
        elif type(op) in _STATEMENTS:
            _STATEMENTS[type(op)](self, op)
        else:
            self.define(op, expression(op, self.all(op.operands), self.prefix))

    def call(self, op: func.CallOp) -> None:
        name = op.callee.root_reference.data
        given = self.all(op.operands)
        if name in self.own:
            name = f"{self.prefix}{name}"
        elif name in self.types:
            kinds = self.types[name]
            given = [
                one if kind == "int64_t" else f"({kind}){one}" for kind, one in zip(kinds, given, strict=True)
            ]
        else:
            raise InputError(f"@{name} is called, but nobody defines it", location=location_of(op))
        self.line("barrier();")
        self.line(f"{name}({', '.join(map(bare, given))});")

    # ---------------------------------------------------------------- control

    def loop(self, op: scf.ForOp) -> None:
        lower, upper, step, *initial = self.all(op.operands)
        counter, *carried = op.body.block.args
        names = [self.variable(value, op, text) for value, text in zip(carried, initial, strict=True)]
        i, kind = self.name(counter), c_type(counter.type, op)
        self.line(f"for ({kind} {i} = {bare(lower)}; {i} < {upper}; {i} += {bare(step)}) {{")
        self.inside(op.body)
        self.hand_over(op.body.block, names)
        self.line("}")
        self.values |= dict(zip(op.res, names, strict=True))

    def branch(self, op: scf.IfOp) -> None:
        names = [self.variable(value, op) for value in op.output]
        condition = self.get(op.cond)
        if RARELY in op.attributes:
            condition = f"(__builtin_expect({bare(condition)}, 0))"
        self.line(f"if {condition if condition.startswith('(') else f'({condition})'} {{")
        self.inside(op.true_region)
        self.hand_over(op.true_region.block, names)
        if op.false_region.blocks and (names or len(list(op.false_region.block.ops)) > 1):
            self.line("} else {")
            self.inside(op.false_region)
            self.hand_over(op.false_region.block, names)
        self.line("}")

    def repeat(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        initial = self.all(op.arguments)
        names = [self.variable(value, op, text) for value, text in zip(before.args, initial, strict=True)]
        results = [self.variable(value, op) for value in op.res]
        self.line("for (;;) {")
        self.inside(op.before_region)
        condition = before.last_op
        assert isinstance(condition, scf.ConditionOp)
        self.depth += 1
        for name, text in zip(results, self.all(condition.args), strict=True):
            self.line(f"{name} = {bare(text)};")
        self.line(f"if (!{self.get(condition.condition)}) break;")
        self.depth -= 1
        self.values |= dict(zip(after.args, results, strict=True))
        self.inside(op.after_region)
        self.hand_over(after, names)
        self.line("}")

    def variable(self, value: SSAValue, op: Operation, text: str | None = None) -> str:
        name = self.name(value)
        self.line(f"{c_type(value.type, op)} {name}{'' if text is None else f' = {bare(text)}'};")
        return name

    def hand_over(self, block: Block, names: Sequence[str]) -> None:
        """What a block yields becomes the variables' values, all at once."""
        last = block.last_op
        given = self.all(last.operands) if isinstance(last, scf.YieldOp) else []
        self.depth += 1
        if len(names) == 1:
            self.line(f"{names[0]} = {bare(given[0])};")
        elif names:
            assert last is not None
            next_names = []
            for number, (value, text) in enumerate(zip(last.operands, given, strict=True)):
                next_names.append(f"next{number}")
                self.line(f"const {c_type(value.type, last)} next{number} = {bare(text)};")
            for name, following in zip(names, next_names, strict=True):
                self.line(f"{name} = {following};")
        self.depth -= 1

    # ---------------------------------------------------------------- memory

    def allocate(self, op: memref.AllocaOp) -> None:
        kind = op.memref.type
        assert isinstance(kind, builtin.MemRefType)
        if not kind.has_static_shape():
            raise no_form(op)
        count = kind.element_count()
        name = self.name(op.memref)
        self.line(f"{c_type(kind.element_type, op)} {name}{'' if count == 1 else f'[{count}]'};")

    def cell(self, op: memref.LoadOp | memref.StoreOp) -> str:
        kind = op.memref.type
        assert isinstance(kind, builtin.MemRefType)
        name = self.get(op.memref)
        if kind.element_count() == 1:
            return name
        offset = ""
        for index, size in zip(self.all(op.indices), kind.get_shape(), strict=True):
            offset = f"({offset}) * {size} + {index}" if offset else index
        return f"{name}[{offset}]"

    def read_cell(self, op: memref.LoadOp) -> None:
        if list(op.res.uses):
            self.define(op, self.cell(op), anywhere=False)

    def write_cell(self, op: memref.StoreOp) -> None:
        self.line(f"{self.cell(op)} = {bare(self.get(op.value))};")

    def read(self, op: llvm.LoadOp) -> None:
        kind = c_type(op.dereferenced_value.type, op)
        self.define(op, f"*(const {self.volatile}{kind}*){self.get(op.ptr)}", anywhere=False)

    def write(self, op: llvm.StoreOp) -> None:
        kind = c_type(op.value.type, op)
        self.line(f"*({self.volatile}{kind}*){self.get(op.ptr)} = {bare(self.get(op.value))};")

    def assembly(self, op: llvm.InlineAsmOp) -> None:
        """Symbols of places, which measurements look at, are left out."""
        if not op.asm_string.data.startswith(".globl ") or op.operands_ or op.res:
            raise no_form(op)


_STATEMENTS: Mapping[type[Operation], Callable[..., None]] = {
    func.CallOp: _Function.call,
    scf.ForOp: _Function.loop,
    scf.IfOp: _Function.branch,
    scf.WhileOp: _Function.repeat,
    memref.AllocaOp: _Function.allocate,
    memref.LoadOp: _Function.read_cell,
    memref.StoreOp: _Function.write_cell,
    llvm.LoadOp: _Function.read,
    llvm.StoreOp: _Function.write,
    llvm.InlineAsmOp: _Function.assembly,
}
