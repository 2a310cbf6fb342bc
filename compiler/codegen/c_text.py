"""A module at the `instgem` level as C: host loops, arithmetic, and commands by the names of Gemmini's header.

Integers are signed and of the width of their type (`index`: 64 bits), and wrap around: the text is to be compiled with `-fwrapv`.
Addresses are numbers of type int64_t. Values that are used once stand where they are used. Functions are static, and get a prefix
of the program's own, so that several programs can be linked together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, builtin, func, llvm, math, memref, scf
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from baco.common.errors import InputError
from baco.compiler.codegen.c_commands import command_statement
from baco.compiler.dialects.instgem import RARELY, CommandOp, FenceOp
from baco.compiler.ir.location import location_of

#: Words that no variable or member can be called.
C_WORDS = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "and_eq",
        "asm",
        "auto",
        "bitand",
        "bitor",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "compl",
        "const",
        "constexpr",
        "continue",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "not_eq",
        "nullptr",
        "operator",
        "or",
        "or_eq",
        "private",
        "protected",
        "public",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "typeof",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "xor",
        "xor_eq",
    ]
)
#: What expressions need beside C's operators: rounding to even and conversions that saturate, as the host core does them.
HELPERS = """\
// Compilers do not know which memory commands touch, nor that a fence waits for them.
#define barrier() __asm__ volatile("" : : : "memory")
#define wait_until_done() do { barrier(); gemmini_fence(); barrier(); } while (0)

static inline __attribute__((unused)) float round_even_float(float x) {
  int64_t n;
  if (!(x > -8388608.0f && x < 8388608.0f)) return x;
  __asm__("fcvt.l.s %0, %1, rne" : "=r"(n) : "f"(x));
  return __builtin_copysignf((float)n, x);
}
static inline __attribute__((unused)) double round_even_double(double x) {
  int64_t n;
  if (!(x > -4503599627370496.0 && x < 4503599627370496.0)) return x;
  __asm__("fcvt.l.d %0, %1, rne" : "=r"(n) : "f"(x));
  return __builtin_copysign((double)n, x);
}
// Towards zero, limited to what the integer can be; 0 of what is no number.
static inline __attribute__((unused)) int64_t saturated_integer(double x, double low, double high, int64_t least, int64_t most) {
  if (x != x) return 0;
  return x <= low ? least : x >= high ? most : (int64_t)x;
}
"""

_TYPES = {1: "int", 8: "int8_t", 16: "int16_t", 32: "int32_t", 64: "int64_t"}
_INFIX: Mapping[type[Operation], str] = {
    arith.AddiOp: "+",
    arith.SubiOp: "-",
    arith.MuliOp: "*",
    arith.DivSIOp: "/",
    arith.RemSIOp: "%",
    arith.AndIOp: "&",
    arith.OrIOp: "|",
    arith.XOrIOp: "^",
    arith.ShRSIOp: ">>",
    arith.AddfOp: "+",
    arith.SubfOp: "-",
    arith.MulfOp: "*",
    arith.DivfOp: "/",
}
_UNSIGNED: Mapping[type[Operation], str] = {
    arith.DivUIOp: "/",
    arith.RemUIOp: "%",
    arith.ShRUIOp: ">>",
    arith.ShLIOp: "<<",
}
#: Operations whose operands stand in more than one place.
_TWICE = (
    *(arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp, arith.FloorDivSIOp, arith.CeilDivSIOp),
    arith.CmpfOp,
)
#: Comparison that chooses the first operand, and whether it is one of unsigned numbers.
_CHOICES: Mapping[type[Operation], tuple[str, bool]] = {
    arith.MinSIOp: ("<", False),
    arith.MaxSIOp: (">", False),
    arith.MinUIOp: ("<", True),
    arith.MaxUIOp: (">", True),
}
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
#: Of floats, by predicate: ordered ones are false, unordered ones true where an operand is no number.
_FLOAT_COMPARISONS = {
    1: "{a} == {b}",
    2: "{a} > {b}",
    3: "{a} >= {b}",
    4: "{a} < {b}",
    5: "{a} <= {b}",
    8: "!({a} < {b} || {a} > {b})",
    9: "!({a} <= {b})",
    10: "!({a} < {b})",
    11: "!({a} >= {b})",
    12: "!({a} > {b})",
    13: "{a} != {b}",
}
_CALLS: Mapping[type[Operation], tuple[str, str]] = {
    # of float32 and of float64
    math.RoundEvenOp: ("round_even_float", "round_even_double"),
    math.AbsFOp: ("__builtin_fabsf", "__builtin_fabs"),
    math.SqrtOp: ("__builtin_sqrtf", "__builtin_sqrt"),
    arith.MaxnumfOp: ("__builtin_fmaxf", "__builtin_fmax"),
    arith.MinnumfOp: ("__builtin_fminf", "__builtin_fmin"),
}
_CASTS = (
    *(arith.IndexCastOp, arith.ExtSIOp, arith.TruncIOp, arith.SIToFPOp, arith.ExtFOp, arith.TruncFOp),
    *(llvm.IntToPtrOp, llvm.PtrToIntOp),
)


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


def _refused(op: Operation) -> InputError:
    return InputError(f"{op.name} has no form in C", location=location_of(op))


def _type(kind: Attribute, op: Operation) -> str:
    if isinstance(kind, builtin.IndexType | llvm.LLVMPointerType):
        return "int64_t"
    if isinstance(kind, builtin.IntegerType) and kind.width.data in _TYPES:
        return _TYPES[kind.width.data]
    if isinstance(kind, builtin.Float32Type):
        return "float"
    if isinstance(kind, builtin.Float64Type):
        return "double"
    raise InputError(f"{op.name} has the type {kind}, which has no form in C", location=location_of(op))


def _table(op: llvm.GlobalOp, prefix: str) -> str:
    """A constant array. Raises InputError for what a second call might find changed."""
    kind = op.global_type
    if op.constant is None or not isinstance(op.value, builtin.DenseIntOrFPElementsAttr):
        raise _refused(op)
    assert isinstance(kind, llvm.LLVMArrayType)
    element = _type(kind.type, op)
    numbers = ", ".join(_literal(one, element) for one in op.value.iter_attrs())
    name = f"{prefix}{op.sym_name.data}"
    return f"static const {element} {name}[] __attribute__((aligned(64))) = {{{numbers}}};"


def _literal(attribute: Attribute, kind: str) -> str:
    if isinstance(attribute, builtin.FloatAttr):
        value = attribute.value.data
        if value != value or value in (float("inf"), float("-inf")):
            name = "nan" if value != value else "inf"
            return f"{'-' if value < 0 else ''}__builtin_{name}{'f' if kind == 'float' else ''}" + (
                '("")' if name == "nan" else "()"
            )
        return (
            f"({value.hex()}{'f' if kind == 'float' else ''})"
            if value < 0
            else value.hex() + ("f" if kind == "float" else "")
        )
    assert isinstance(attribute, builtin.IntegerAttr)
    number = attribute.value.data
    if kind == "int":
        return str(number & 1)
    if number == -(1 << 63):
        return "INT64_MIN"
    return f"({number})" if number < 0 else str(number)


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
            return _literal(owner.value, _type(value.type, owner))
        return self.values[value]

    def all(self, values: Sequence[SSAValue]) -> list[str]:
        return [self.get(value) for value in values]

    def define(self, op: Operation, expression: str, *, anywhere: bool = True) -> None:
        """Give the result a value; `anywhere`: the expression may as well stand where it is used."""
        (result,) = op.results
        users = [use.operation for use in result.uses]
        once = len(users) == 1 and users[0].parent is op.parent and type(users[0]) not in _TWICE
        if anywhere and (once or not users):
            self.values[result] = f"({expression})"
            return
        kind = _type(result.type, op)
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
                name: value if isinstance(value, int) else _bare(self.get(value))
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
            self.define(op, self.expression(op))

    def expression(self, op: Operation) -> str:
        """A pure operation. Raises InputError for one that has no form in C."""
        kind, given = type(op), self.all(op.operands)
        result = _type(op.results[0].type, op) if len(op.results) == 1 else ""
        if kind in _INFIX:
            text = f"{given[0]} {_INFIX[kind]} {given[1]}"
            return text if result in ("int64_t", "float", "double", "int") else f"({result})({text})"
        if kind in _UNSIGNED:
            first = f"(u{result}){given[0]}"
            second = given[1] if kind in (arith.ShRUIOp, arith.ShLIOp) else f"(u{result}){given[1]}"
            return f"({result})({first} {_UNSIGNED[kind]} {second})"
        if kind in _CHOICES:
            how, unsigned = _CHOICES[kind]
            cast = f"(u{result})" if unsigned else ""
            return f"{cast}{given[0]} {how} {cast}{given[1]} ? {given[0]} : {given[1]}"
        if kind in _CALLS:
            return f"{_CALLS[kind][result == 'double']}({', '.join(map(_bare, given))})"
        if isinstance(op, _CASTS):
            source = _type(op.operands[0].type, op)
            if source == "int" and isinstance(op, arith.ExtSIOp):
                return f"-({result}){given[0]}"
            if result == "int" and isinstance(op, arith.TruncIOp):
                return f"(int)({given[0]} & 1)"
            return f"({result}){given[0]}"
        write = _EXPRESSIONS.get(kind)
        if write is None:
            raise _refused(op)
        return write(self, op, given, result)

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
        self.line(f"{name}({', '.join(map(_bare, given))});")

    # ---------------------------------------------------------------- control

    def loop(self, op: scf.ForOp) -> None:
        lower, upper, step, *initial = self.all(op.operands)
        counter, *carried = op.body.block.args
        names = [self.variable(value, op, text) for value, text in zip(carried, initial, strict=True)]
        i, kind = self.name(counter), _type(counter.type, op)
        self.line(f"for ({kind} {i} = {_bare(lower)}; {i} < {upper}; {i} += {_bare(step)}) {{")
        self.inside(op.body)
        self.hand_over(op.body.block, names)
        self.line("}")
        self.values |= dict(zip(op.res, names, strict=True))

    def branch(self, op: scf.IfOp) -> None:
        names = [self.variable(value, op) for value in op.output]
        condition = self.get(op.cond)
        if RARELY in op.attributes:
            condition = f"(__builtin_expect({_bare(condition)}, 0))"
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
            self.line(f"{name} = {_bare(text)};")
        self.line(f"if (!{self.get(condition.condition)}) break;")
        self.depth -= 1
        self.values |= dict(zip(after.args, results, strict=True))
        self.inside(op.after_region)
        self.hand_over(after, names)
        self.line("}")

    def variable(self, value: SSAValue, op: Operation, text: str | None = None) -> str:
        name = self.name(value)
        self.line(f"{_type(value.type, op)} {name}{'' if text is None else f' = {_bare(text)}'};")
        return name

    def hand_over(self, block: Block, names: Sequence[str]) -> None:
        """What a block yields becomes the variables' values, all at once."""
        last = block.last_op
        given = self.all(last.operands) if isinstance(last, scf.YieldOp) else []
        self.depth += 1
        if len(names) == 1:
            self.line(f"{names[0]} = {_bare(given[0])};")
        elif names:
            assert last is not None
            next_names = []
            for number, (value, text) in enumerate(zip(last.operands, given, strict=True)):
                next_names.append(f"next{number}")
                self.line(f"const {_type(value.type, last)} next{number} = {_bare(text)};")
            for name, following in zip(names, next_names, strict=True):
                self.line(f"{name} = {following};")
        self.depth -= 1

    # ---------------------------------------------------------------- memory

    def allocate(self, op: memref.AllocaOp) -> None:
        kind = op.memref.type
        assert isinstance(kind, builtin.MemRefType)
        if not kind.has_static_shape():
            raise _refused(op)
        count = kind.element_count()
        name = self.name(op.memref)
        self.line(f"{_type(kind.element_type, op)} {name}{'' if count == 1 else f'[{count}]'};")

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
        self.line(f"{self.cell(op)} = {_bare(self.get(op.value))};")

    def read(self, op: llvm.LoadOp) -> None:
        kind = _type(op.dereferenced_value.type, op)
        self.define(op, f"*(const {self.volatile}{kind}*){self.get(op.ptr)}", anywhere=False)

    def write(self, op: llvm.StoreOp) -> None:
        kind = _type(op.value.type, op)
        self.line(f"*({self.volatile}{kind}*){self.get(op.ptr)} = {_bare(self.get(op.value))};")

    def assembly(self, op: llvm.InlineAsmOp) -> None:
        """Symbols of places, which measurements look at, are left out."""
        if not op.asm_string.data.startswith(".globl ") or op.operands_ or op.res:
            raise _refused(op)


def _bare(text: str) -> str:
    """An expression that stands alone: without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


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


def _compare(f: _Function, op: arith.CmpiOp, given: Sequence[str], _: str) -> str:
    number = op.predicate.value.data
    cast = f"(u{_type(op.lhs.type, op)})" if number >= 6 else ""
    return f"{cast}{given[0]} {_COMPARISONS[number]} {cast}{given[1]}"


def _compare_floats(f: _Function, op: arith.CmpfOp, given: Sequence[str], _: str) -> str:
    form = _FLOAT_COMPARISONS.get(op.predicate.value.data)
    if form is None:
        raise _refused(op)
    return form.format(a=given[0], b=given[1])


def _select(f: _Function, op: arith.SelectOp, given: Sequence[str], _: str) -> str:
    return f"{given[0]} ? {given[1]} : {given[2]}"


def _widen(f: _Function, op: arith.ExtUIOp, given: Sequence[str], result: str) -> str:
    source = _type(op.input.type, op)
    return f"({result})" + (given[0] if source == "int" else f"(u{source}){given[0]}")


def _negate(f: _Function, op: arith.NegfOp, given: Sequence[str], _: str) -> str:
    return f"-{given[0]}"


def _to_integer(f: _Function, op: arith.FPToSIOp, given: Sequence[str], result: str) -> str:
    bits = int(re.sub(r"\D", "", result))
    high = float(1 << (bits - 1))
    least, most = f"INT{bits}_MIN", f"INT{bits}_MAX"
    return f"({result})saturated_integer({_bare(given[0])}, {-high!r}, {high!r}, {least}, {most})"


def _round_division(up: bool) -> Callable[[_Function, Operation, Sequence[str], str], str]:
    def write(f: _Function, op: Operation, given: Sequence[str], result: str) -> str:
        a, b = given
        sign = "==" if up else "!="
        exact = f"{a} / {b} {'+' if up else '-'} ({a} % {b} != 0 && (({a} < 0) {sign} ({b} < 0)))"
        return exact if result == "int64_t" else f"({result})({exact})"

    return write


def _address(f: _Function, op: llvm.AddressOfOp, given: Sequence[str], _: str) -> str:
    return f"(int64_t){f.prefix}{op.global_name.root_reference.data}"


_EXPRESSIONS: Mapping[type[Operation], Callable[..., str]] = {
    arith.CmpiOp: _compare,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: _select,
    arith.ExtUIOp: _widen,
    arith.NegfOp: _negate,
    arith.FPToSIOp: _to_integer,
    arith.FloorDivSIOp: _round_division(up=False),
    arith.CeilDivSIOp: _round_division(up=True),
    llvm.AddressOfOp: _address,
}
