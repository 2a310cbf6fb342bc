"""The `llvm` dialect as LLVM IR text, which Clang compiles.

Only what the lowering passes and hand-written modules of that level need; anything else is refused by name. The text
depends on the module alone: values are numbered in the order of the operations.

xDSL's own translation (`xdsl.backend.llvm`) does not serve here: it builds objects of llvmlite, which is no dependency of
ours, gives every function external linkage, leaves the alignment of globals out, joins two edges between the same blocks
in one wrong phi, and passes any inline assembly on.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count

from xdsl.dialects import builtin, llvm
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from baco.compiler.codegen.llvm_rules import WIDEST, alignment, assembly, intrinsic, linkage, refused, symbol
from baco.compiler.main_memory import MOST_BYTES

_BINARY: dict[type[Operation], str] = {
    llvm.AddOp: "add",
    llvm.SubOp: "sub",
    llvm.MulOp: "mul",
    llvm.UDivOp: "udiv",
    llvm.SDivOp: "sdiv",
    llvm.URemOp: "urem",
    llvm.SRemOp: "srem",
    llvm.ShlOp: "shl",
    llvm.LShrOp: "lshr",
    llvm.AShrOp: "ashr",
    llvm.AndOp: "and",
    llvm.OrOp: "or",
    llvm.XOrOp: "xor",
    llvm.FAddOp: "fadd",
    llvm.FSubOp: "fsub",
    llvm.FMulOp: "fmul",
    llvm.FDivOp: "fdiv",
    llvm.FRemOp: "frem",
}
#: Instruction, and the kinds of what it takes and gives: integers (i), floats (f), pointers (p).
_CASTS: dict[type[Operation], tuple[str, str]] = {
    llvm.TruncOp: ("trunc", "ii"),
    llvm.ZExtOp: ("zext", "ii"),
    llvm.SExtOp: ("sext", "ii"),
    llvm.PtrToIntOp: ("ptrtoint", "pi"),
    llvm.IntToPtrOp: ("inttoptr", "ip"),
    llvm.BitcastOp: ("bitcast", "if fi ii ff pp"),
    llvm.SIToFPOp: ("sitofp", "if"),
    llvm.FPExtOp: ("fpext", "ff"),
    llvm.FPTruncOp: ("fptrunc", "ff"),
}
_FLOATS: dict[type[Attribute], tuple[str, str]] = {
    # name in LLVM, and in the names of intrinsics
    builtin.Float32Type: ("float", "f32"),
    builtin.Float64Type: ("double", "f64"),
}
#: LLVM writes every floating-point constant as the bits of a double.
_DOUBLE = struct.Struct("<d")
#: Bytes of all globals that a module defines: tables and the like, while arrays are buffers of their own.
_MOST_GLOBALS = 1 << 24


def llvm_ir(module: builtin.ModuleOp) -> str:
    """The text of a module that holds `llvm.func` and `llvm.mlir.global` only.

    Raises InputError, naming the operation and where it is, for what has no translation or no place in a program
    (`baco.compiler.codegen.llvm_rules`).
    """
    intrinsics: dict[str, str] = {}
    parts: list[str] = []
    signatures: dict[str, Attribute | None] = {}
    for op in module.body.block.ops:
        if isinstance(op, (llvm.FuncOp, llvm.GlobalOp)):
            signatures[op.sym_name.data] = op.function_type if isinstance(op, llvm.FuncOp) else None
    defined = 0
    for op in module.body.block.ops:
        if isinstance(op, llvm.FuncOp):
            parts.append(_Function(op, intrinsics, signatures).text())
        elif isinstance(op, llvm.GlobalOp):
            defined += _bytes(op.global_type)
            if defined > _MOST_GLOBALS:
                raise refused(op, f"and those before it take more than {_MOST_GLOBALS:,} bytes")
            parts.append(_global(op))
        else:
            raise refused(op, "cannot stand in a module that becomes LLVM IR")
    parts += [intrinsics[name] for name in sorted(intrinsics)]
    return "\n".join(parts)


def _type(attribute: Attribute, op: Operation) -> str:
    """The type of a value, which is no array: LLVM would take it apart element by element."""
    if isinstance(attribute, builtin.IntegerType):
        if not 1 <= attribute.width.data <= WIDEST:
            raise refused(op, f"has an integer type that has not 1 to {WIDEST} bits")
        return f"i{attribute.width.data}"
    if type(attribute) in _FLOATS:
        return _FLOATS[type(attribute)][0]
    if isinstance(attribute, llvm.LLVMPointerType) and isinstance(attribute.addr_space, builtin.NoneAttr):
        return "ptr"
    raise refused(op, f"has the type {attribute}, which has no place in LLVM IR here")


def _kind(attribute: Attribute) -> tuple[str, int]:
    """The kind of a value's type, as `_CASTS` has it, and its bits."""
    if isinstance(attribute, builtin.IntegerType):
        return "i", attribute.width.data
    if type(attribute) in _FLOATS:
        return "f", 32 if isinstance(attribute, builtin.Float32Type) else 64
    return "p", 64


def _stored_type(attribute: Attribute, op: Operation) -> str:
    """The type of something in memory, which may be an array."""
    if not isinstance(attribute, llvm.LLVMArrayType):
        return _type(attribute, op)
    if attribute.size.data < 0 or _bytes(attribute) > MOST_BYTES:
        raise refused(op, f"has an array type of more than the {MOST_BYTES:,} bytes that a program can reach")
    return f"[{attribute.size.data} x {_stored_type(attribute.type, op)}]"


def _bytes(attribute: Attribute) -> int:
    """Bytes of a type in memory; 8 for what is not known here."""
    if isinstance(attribute, llvm.LLVMArrayType):
        return int(attribute.size.data) * _bytes(attribute.type)
    width = attribute.width.data if isinstance(attribute, builtin.IntegerType) else 64
    return -(-int(width) // 8)


def _constant(value: Attribute, op: Operation) -> str:
    if isinstance(value, builtin.IntegerAttr):
        return str(value.value.data)
    if isinstance(value, builtin.FloatAttr):
        return "0x" + _DOUBLE.pack(value.value.data)[::-1].hex().upper()
    raise refused(op, f"has the value {value}; only numbers can be translated")


def _quoted(text: str) -> str:
    """A text between quotes, as LLVM escapes it."""
    plain = (
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode()
    )
    return '"' + "".join(plain) + '"'


def quoted_symbol(name: str) -> str:
    """`@` and a name, between quotes where it needs them."""
    return "@" + (
        name if name.replace("_", "a").replace(".", "a").isalnum() and name.isascii() else _quoted(name)
    )


def _symbol(name: str, op: Operation) -> str:
    return quoted_symbol(symbol(name, op))


def _aligned(attribute: Attribute | None, op: Operation) -> str:
    found = alignment(attribute, op)
    return "" if found is None else f", align {found}"


def _global(op: llvm.GlobalOp) -> str:
    kind = _stored_type(op.global_type, op)
    for what, given in (
        ("a section", op.section),
        ("a copy for each thread", op.thread_local_),
        ("an address space", op.addr_space.value.data),  # type: ignore[union-attr]
    ):
        if given:
            raise refused(op, f"with {what} cannot be translated")
    if op.body.blocks:
        raise refused(op, "with a region cannot be translated; give its value as an attribute")
    if op.value is None:
        value = "" if linkage(op.linkage, op) == "external" else "zeroinitializer"
    elif isinstance(op.value, builtin.StringAttr):
        value = "c" + _quoted(op.value.data)
    elif isinstance(op.value, builtin.DenseIntOrFPElementsAttr):
        if not isinstance(op.global_type, llvm.LLVMArrayType):
            raise refused(op, f"of type {op.global_type} cannot hold several elements")
        element = _type(op.global_type.type, op)
        values = [f"{element} {_constant(one, op)}" for one in op.value.iter_attrs()]
        if len(values) != op.global_type.size.data:
            raise refused(op, f"has {len(values)} values for {op.global_type.size.data} elements")
        value = f"[{', '.join(values)}]"
    else:
        value = _constant(op.value, op)
    link = linkage(op.linkage, op)
    head = f"{_symbol(op.sym_name.data, op)} = {link + ' ' if link != 'external' or not value else ''}"
    text = f"{head}{'constant' if op.constant is not None else 'global'} {kind} {value}".rstrip()
    return f"{text}{_aligned(op.alignment, op)}\n"


class _Function:
    """Writes one function."""

    def __init__(
        self, op: llvm.FuncOp, intrinsics: dict[str, str], signatures: Mapping[str, Attribute | None]
    ) -> None:
        self.op = op
        #: Types of the module's functions by name; None for globals.
        self.signatures = signatures
        self.intrinsics = intrinsics
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.labels: dict[Block, str] = {}
        self.number = count()
        #: Values that arguments of a block take, by the label they come from.
        self.incoming: dict[Block, list[tuple[str, Sequence[SSAValue]]]] = defaultdict(list)

    def text(self) -> str:
        kind = self.op.function_type
        if kind.is_variadic:
            raise refused(self.op, "with a variable number of arguments cannot be translated")
        returns = "void" if isinstance(kind.output, llvm.LLVMVoidType) else _type(kind.output, self.op)
        name = _symbol(self.op.sym_name.data, self.op)
        inputs = [_type(one, self.op) for one in kind.inputs]
        body: Region = self.op.body
        if not body.blocks:
            return f"declare {returns} {name}({', '.join(inputs)})\n"
        link = linkage(self.op.linkage, self.op)
        blocks = list(body.blocks)
        if [argument.type for argument in blocks[0].args] != list(kind.inputs):
            raise refused(self.op, f"takes other arguments than its type {kind} says")
        for index, block in enumerate(blocks):
            self.labels[block] = f"b{index}"
            for argument in block.args:
                self.name(argument)
        self.find_incoming(blocks)
        arguments = ", ".join(
            f"{_type(argument.type, self.op)} {self.names[argument]}" for argument in blocks[0].args
        )
        self.lines.append(
            f"define {'' if link == 'external' else link + ' '}{returns} {name}({arguments}) nounwind {{"
        )
        for index, block in enumerate(blocks):
            self.lines.append(f"{self.labels[block]}:")
            if index:
                self.phis(block)
            for op in block.ops:
                self.operation(op)
        return "\n".join([*self.lines, "}", ""])

    def find_incoming(self, blocks: Sequence[Block]) -> None:
        """Which values reach the arguments of every block, before any phi is written."""
        for block in blocks:
            last = block.last_op
            if isinstance(last, llvm.BrOp):
                self.incoming[last.successor].append((self.labels[block], last.arguments))
            elif isinstance(last, llvm.CondBrOp):
                self.incoming[last.then_block].append((self.labels[block], last.then_arguments))
                # two edges between the same blocks need labels of their own
                again = last.then_block is last.else_block
                label = f"{self.labels[block]}.else" if again else self.labels[block]
                self.incoming[last.else_block].append((label, last.else_arguments))

    def phis(self, block: Block) -> None:
        edges = self.incoming[block]
        for index, argument in enumerate(block.args):
            values = ", ".join(f"[ {self.use(passed[index])}, %{label} ]" for label, passed in edges)
            if not values:
                raise refused(self.op, "has a block with arguments that nothing branches to")
            self.line(argument, f"phi {_type(argument.type, self.op)} {values}")

    def name(self, value: SSAValue) -> str:
        if value not in self.names:
            self.names[value] = f"%v{next(self.number)}"
        return self.names[value]

    def use(self, value: SSAValue) -> str:
        """A value as an operand: constants stand for themselves."""
        owner = value.owner
        if isinstance(owner, llvm.ConstantOp):
            return _constant(owner.value, owner)
        if isinstance(owner, llvm.ZeroOp):
            return "null" if isinstance(value.type, llvm.LLVMPointerType) else "zeroinitializer"
        if isinstance(owner, llvm.UndefOp):
            return "undef"
        if isinstance(owner, llvm.AddressOfOp):
            name = owner.global_name.root_reference.data
            if name not in self.signatures:
                raise refused(owner, f"names '{name[:60]}', which the module does not have")
            return _symbol(name, owner)
        return self.name(value)

    def typed(self, value: SSAValue) -> str:
        op = value.owner if isinstance(value.owner, Operation) else self.op
        return f"{_type(value.type, op)} {self.use(value)}"

    def line(self, result: SSAValue | None, text: str) -> None:
        self.lines.append(f"  {self.name(result)} = {text}" if result is not None else f"  {text}")

    def operation(self, op: Operation) -> None:
        kind = type(op)
        if kind in (llvm.ConstantOp, llvm.ZeroOp, llvm.UndefOp, llvm.AddressOfOp):
            return  # written where they are used
        if kind in _BINARY:
            flags = _flags(op)
            self.line(
                op.results[0],
                f"{_BINARY[kind]} {flags}{self.typed(op.operands[0])}, {self.use(op.operands[1])}",
            )
        elif kind in _CASTS:
            self.line(op.results[0], self.cast(op, *_CASTS[kind]))
        else:
            for text, result in self.other(op):
                self.line(result, text)

    def cast(self, op: Operation, instruction: str, kinds: str) -> str:
        source, target = op.operands[0].type, op.results[0].type
        text = f"{instruction} {self.typed(op.operands[0])} to {_type(target, op)}"
        (before, wide), (after, narrow) = _kind(source), _kind(target)
        fits = before + after in kinds.split()
        if instruction in ("fpext", "fptrunc"):
            fits = fits and (wide < narrow if instruction == "fpext" else wide > narrow)
        elif instruction == "bitcast":
            fits = fits and wide == narrow
        if not fits:
            raise refused(op, f"cannot turn {source} into {target}")
        return text

    def other(self, op: Operation) -> Iterator[tuple[str, SSAValue | None]]:
        """Lines of operations that have a form of their own, and the result that each defines."""
        translate = _OTHERS.get(type(op))
        if translate is None:
            raise refused(op, "has no translation to LLVM IR")
        yield from translate(self, op)


_Lines = Iterator[tuple[str, SSAValue | None]]


def _flags(op: Operation) -> str:
    flags = ""
    if isinstance(op, llvm.ArithmeticBinOpOverflow) and op.overflowFlags is not None:
        found = llvm.OverflowAttr.from_int(op.overflowFlags.value.data)
        flags = "".join(f"{flag.value} " for flag in sorted(found.data))
    if isinstance(op, llvm.ArithmeticBinOpExact) and op.is_exact is not None:
        flags += "exact "
    if isinstance(op, llvm.ArithmeticBinOpDisjoint) and op.is_disjoint is not None:
        flags += "disjoint "
    return flags


def _compare(f: _Function, op: llvm.ICmpOp) -> _Lines:
    predicate = llvm.ICmpPredicateFlag.from_int(op.predicate.value.data)
    yield f"icmp {predicate.value} {f.typed(op.lhs)}, {f.use(op.rhs)}", op.res


def _compare_floats(f: _Function, op: llvm.FCmpOp) -> _Lines:
    predicate = llvm.FCmpPredicateFlag.from_int(op.predicate.value.data)
    yield f"fcmp {predicate.value.lstrip('_')} {f.typed(op.lhs)}, {f.use(op.rhs)}", op.res


def _negate(f: _Function, op: llvm.FNegOp) -> _Lines:
    yield f"fneg {f.typed(op.arg)}", op.res


def _select(f: _Function, op: llvm.SelectOp) -> _Lines:
    yield f"select {f.typed(op.cond)}, {f.typed(op.lhs)}, {f.typed(op.rhs)}", op.res


def _load(f: _Function, op: llvm.LoadOp) -> _Lines:
    if op.ordering.value.data:
        raise refused(op, "with an atomic ordering cannot be translated")
    result = op.dereferenced_value
    yield f"load {_type(result.type, op)}, {f.typed(op.ptr)}{_aligned(op.alignment, op)}", result


def _store(f: _Function, op: llvm.StoreOp) -> _Lines:
    if op.ordering is not None and op.ordering.value.data:
        raise refused(op, "with an atomic ordering cannot be translated")
    volatile = "volatile " if op.volatile_ is not None else ""
    yield f"store {volatile}{f.typed(op.value)}, {f.typed(op.ptr)}{_aligned(op.alignment, op)}", None


def _alloca(f: _Function, op: llvm.AllocaOp) -> _Lines:
    yield f"alloca {_stored_type(op.elem_type, op)}, {f.typed(op.size)}{_aligned(op.alignment, op)}", op.res


def _element_pointer(f: _Function, op: llvm.GEPOp) -> _Lines:
    rest = list(op.rawConstantIndices.iter_values())
    if rest.count(llvm.GEP_USE_SSA_VAL) != len(op.ssa_indices) or not rest:
        raise refused(op, "has other indices than its operands")
    if not isinstance(op.ptr.type, llvm.LLVMPointerType):
        raise refused(op, f"takes a pointer, not {op.ptr.type}")
    dynamic = iter(op.ssa_indices)
    indices = [f.typed(next(dynamic)) if index == llvm.GEP_USE_SSA_VAL else f"i32 {index}" for index in rest]
    inbounds = "inbounds " if op.inbounds is not None else ""
    parts = ", ".join([_stored_type(op.elem_type, op), f.typed(op.ptr), *indices])
    yield f"getelementptr {inbounds}{parts}", op.result


def _assembly(f: _Function, op: llvm.InlineAsmOp) -> _Lines:
    returns = "void" if op.res is None else _type(op.res.type, op)
    effects = "sideeffect " if op.has_side_effects is not None else ""
    arguments = ", ".join(f.typed(one) for one in op.operands_)
    text = ", ".join(map(_quoted, assembly(op)))
    once = " noduplicate" if "noduplicate" in op.attributes else ""  # it defines a symbol, say
    yield f"call {returns} asm {effects}{text}({arguments}){once}", op.res


def _call(f: _Function, op: llvm.CallOp) -> _Lines:
    if op.callee is None or op.var_callee_type is not None or op.op_bundle_operands:
        raise refused(op, "can only call a function by its name")
    name = op.callee.root_reference.data
    kind = llvm.LLVMFunctionType(
        [one.type for one in op.args], llvm.LLVMVoidType() if op.returned is None else op.returned.type
    )
    if f.signatures.get(name, kind) != kind:
        raise refused(op, f"calls '{name[:60]}' as {kind}, which it is not")
    returns = "void" if op.returned is None else _type(op.returned.type, op)
    arguments = ", ".join(f.typed(one) for one in op.args)
    yield f"call {returns} {_symbol(name, op)}({arguments})", op.returned


def _intrinsic(f: _Function, op: llvm.CallIntrinsicOp) -> _Lines:
    returns = "void" if op.ress is None else _type(op.ress.type, op)
    name = intrinsic(op)
    inputs = ", ".join(_type(one.type, op) for one in op.args)
    f.intrinsics[name] = f"declare {returns} @{name}({inputs})\n"
    yield f"call {returns} @{name}({', '.join(f.typed(one) for one in op.args)})", op.ress


def _unary_intrinsic(name: str) -> Callable[[_Function, Operation], _Lines]:
    def translate(f: _Function, op: Operation) -> _Lines:
        kind = type(op.operands[0].type)
        if kind not in _FLOATS:
            raise refused(op, f"of {op.operands[0].type} has no translation to LLVM IR")
        text, suffix = _FLOATS[kind]
        whole = f"llvm.{name}.{suffix}"
        inputs = ", ".join([text] * len(op.operands))
        f.intrinsics[whole] = f"declare {text} @{whole}({inputs})\n"
        yield f"call {text} @{whole}({', '.join(f.typed(one) for one in op.operands)})", op.results[0]

    return translate


def _branch(f: _Function, op: llvm.BrOp) -> _Lines:
    yield f"br label %{f.labels[op.successor]}", None


def _branch_if(f: _Function, op: llvm.CondBrOp) -> _Lines:
    then, otherwise = f.labels[op.then_block], f.labels[op.else_block]
    if op.then_block is not op.else_block:
        yield f"br {f.typed(op.cond)}, label %{then}, label %{otherwise}", None
        return
    assert op.parent is not None
    edge = f"{f.labels[op.parent]}.else"
    yield f"br {f.typed(op.cond)}, label %{then}, label %{edge}", None
    f.lines.append(f"{edge}:")
    yield f"br label %{then}", None


def _return(f: _Function, op: llvm.ReturnOp) -> _Lines:
    given = llvm.LLVMVoidType() if op.arg is None else op.arg.type
    if given != f.op.function_type.output:
        raise refused(op, f"gives {given} where the function gives {f.op.function_type.output}")
    yield "ret void" if op.arg is None else f"ret {f.typed(op.arg)}", None


def _unreachable(_: _Function, op: llvm.UnreachableOp) -> _Lines:
    yield "unreachable", None


_OTHERS: dict[type[Operation], Callable[..., _Lines]] = {
    llvm.ICmpOp: _compare,
    llvm.FCmpOp: _compare_floats,
    llvm.FNegOp: _negate,
    llvm.SelectOp: _select,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvm.AllocaOp: _alloca,
    llvm.GEPOp: _element_pointer,
    llvm.InlineAsmOp: _assembly,
    llvm.CallOp: _call,
    llvm.CallIntrinsicOp: _intrinsic,
    llvm.FAbsOp: _unary_intrinsic("fabs"),
    llvm.FSqrtOp: _unary_intrinsic("sqrt"),
    llvm.FFloorOp: _unary_intrinsic("floor"),
    llvm.FCeilOp: _unary_intrinsic("ceil"),
    llvm.VectorFMaxOp: _unary_intrinsic("maxnum"),
    llvm.VectorFMinOp: _unary_intrinsic("minnum"),
    llvm.BrOp: _branch,
    llvm.CondBrOp: _branch_if,
    llvm.ReturnOp: _return,
    llvm.UnreachableOp: _unreachable,
}
