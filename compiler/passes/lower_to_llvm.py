"""`lower-to-llvm`: functions, integer and float arithmetic, structured control flow and variables to the `llvm` dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, llvm, math, memref, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1, i64
from xdsl.ir import Attribute, Block, BlockOps, Operation, Region, SSAValue
from xdsl.ir.post_order import PostOrderIterator
from xdsl.passes import ModulePass

from baco.common.errors import InputError
from baco.compiler.dialects.instgem import RARELY
from baco.compiler.ir.known import integer
from baco.compiler.ir.location import location_of

_POINTER = llvm.LLVMPointerType()
#: Variables are few and small: this much of the stack is plenty, bytes.
_MOST_STACK = 1 << 15
_NO_WRAP = llvm.OverflowAttr((llvm.OverflowFlag.NO_SIGNED_WRAP,))


@dataclass(frozen=True)
class LowerToLlvm(ModulePass):
    """Replaces every `func.func` by an `llvm.func`.

    Handles func, arith and math (scalars), scf.for/if/while, cf, memref.alloca/load/store of scalars and small
    arrays of known shape; operations of the `llvm` dialect stay. `index` is i64. A function that is called but not
    declared becomes an external one: the runtime has it. Bounds of scf.for are signed; their step is positive.

    Raises InputError, naming the operation and its line, for anything else.
    """

    name: ClassVar[str] = "lower-to-llvm"

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        block = op.body.block
        for function in list(block.ops):
            if isinstance(function, func.FuncOp):
                lowered = _Function(function).lower()
                block.insert_op_before(lowered, function)
                block.erase_op(function)
            elif not isinstance(function, (llvm.FuncOp, llvm.GlobalOp)):
                raise InputError(f"{function.name} cannot be lowered to LLVM", location=location_of(function))
        _declare_callees(op)


def _declare_callees(module: builtin.ModuleOp) -> None:
    block = module.body.block
    known = {op.sym_name.data for op in block.ops if isinstance(op, (llvm.FuncOp, llvm.GlobalOp))}
    for op in list(module.walk()):
        if (
            isinstance(op, llvm.CallOp)
            and op.callee is not None
            and op.callee.root_reference.data not in known
        ):
            name = op.callee.root_reference.data
            known.add(name)
            result = op.returned.type if op.returned is not None else llvm.LLVMVoidType()
            kind = llvm.LLVMFunctionType([one.type for one in op.args], result)
            block.add_op(llvm.FuncOp(name, kind, llvm.LinkageAttr("external")))


def _convert(kind: Attribute, op: Operation) -> Attribute:
    """The LLVM type of a value's type."""
    if isinstance(kind, builtin.IndexType):
        return i64
    if isinstance(kind, (IntegerType, builtin.Float32Type, builtin.Float64Type, llvm.LLVMPointerType)):
        return kind
    if isinstance(kind, builtin.MemRefType):
        return _POINTER
    raise InputError(f"{op.name} has the type {kind}, which has no LLVM type here", location=location_of(op))


class _Function:
    """Lowers one function, writing its blocks in the order of the text."""

    def __init__(self, function: func.FuncOp) -> None:
        self.function = function
        self.values: dict[SSAValue, SSAValue] = {}
        self.blocks: dict[Block, Block] = {}
        self.region = Region()
        self.entry = Block()
        self.block = self.entry
        self.allocas: list[Operation] = []

    def lower(self) -> llvm.FuncOp:
        function = self.function
        inputs = [_convert(input_type, function) for input_type in function.function_type.inputs]
        outputs = [_convert(output_type, function) for output_type in function.function_type.outputs]
        if len(outputs) > 1:
            raise InputError(
                "a function that becomes LLVM IR returns at most one value", location=location_of(function)
            )
        kind = llvm.LLVMFunctionType(inputs, outputs[0] if outputs else None)
        if function.body.blocks:
            self.body()
        internal = function.sym_visibility is not None and function.sym_visibility.data == "private"
        linkage = llvm.LinkageAttr("internal" if internal and function.body.blocks else "external")
        return llvm.FuncOp(function.sym_name, kind, linkage, body=self.region)

    def body(self) -> None:
        first = self.function.body.blocks[0]
        # definitions before their uses; a block that is branched to twice may come twice
        originals = list(reversed(list(dict.fromkeys(PostOrderIterator(first)))))
        for original in originals:
            block = self.entry if original is first else Block()
            self.blocks[original] = block
            self.arguments(original.args, block)
        for original in originals:
            self.open(self.blocks[original])
            self.operations(original.ops)
        start = self.entry.first_op
        assert start is not None
        self.entry.insert_ops_before(self.allocas, start)

    def arguments(self, originals: Sequence[SSAValue], block: Block) -> None:
        for argument in originals:
            new = block.insert_arg(_convert(argument.type, self.function), len(block.args))
            new.name_hint = argument.name_hint
            self.values[argument] = new

    def open(self, block: Block) -> None:
        """Go on in a block, which becomes the last one so far."""
        self.region.add_block(block)
        self.block = block

    def operations(self, ops: BlockOps) -> None:
        for op in ops:
            lower = _LOWERINGS.get(type(op))
            if lower is not None:
                lower(self, op)
            elif op.dialect_name() == "llvm" and not op.regions:
                self.keep(op)
            else:
                raise InputError(f"{op.name} cannot be lowered to LLVM", location=location_of(op))

    def keep(self, op: Operation) -> None:
        """An operation that is of the `llvm` dialect already."""
        copy = op.clone_without_regions(self.values, self.blocks)
        self.block.add_op(copy)

    # ------------------------------------------------------------ writing

    def add(self, op: Operation) -> SSAValue:
        """Append an operation; its result."""
        self.block.add_op(op)
        return op.results[0]

    def run(self, op: Operation) -> None:
        self.block.add_op(op)

    def constant(self, value: int, kind: Attribute) -> SSAValue:
        assert isinstance(kind, IntegerType)
        return self.add(llvm.ConstantOp(integer(value, kind), kind))

    def get(self, value: SSAValue) -> SSAValue:
        return self.values[value]

    def all(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        return [self.values[one] for one in values]

    def set(self, old: SSAValue, new: SSAValue) -> None:
        if new.name_hint is None:
            new.name_hint = old.name_hint
        self.values[old] = new


# -------------------------------------------------------------------- functions and calls


def _return(f: _Function, op: func.ReturnOp) -> None:
    values = f.all(op.arguments)
    f.run(llvm.ReturnOp(values[0] if values else None))


def _call(f: _Function, op: func.CallOp) -> None:
    if len(op.res) > 1:
        raise InputError("a call gives at most one value here", location=location_of(op))
    kind = _convert(op.res[0].type, op) if op.res else None
    call = llvm.CallOp(op.callee.root_reference.data, *f.all(op.arguments), return_type=kind)
    f.run(call)
    if op.res:
        f.set(op.res[0], call.results[0])


# -------------------------------------------------------------------- arithmetic


def _constant(f: _Function, op: arith.ConstantOp) -> None:
    kind = _convert(op.result.type, op)
    value = op.value
    if isinstance(value, IntegerAttr):
        f.set(op.result, f.constant(value.value.data, kind))
    elif isinstance(value, builtin.FloatAttr):
        f.set(op.result, f.add(llvm.ConstantOp(value, kind)))
    else:
        raise InputError(f"{op.name} of {op.result.type} cannot be lowered to LLVM", location=location_of(op))


_Lowering: TypeAlias = "Callable[[_Function, Operation], None]"


def _binary(kind: Callable[[SSAValue, SSAValue], Operation]) -> _Lowering:
    def lower(f: _Function, op: Operation) -> None:
        _convert(op.results[0].type, op)
        f.set(op.results[0], f.add(kind(*f.all(op.operands))))

    return lower


def _min_max(predicate: str) -> _Lowering:
    """The operand for which the comparison of the first with the second decides."""

    def lower(f: _Function, op: Operation) -> None:
        a, b = f.all(op.operands)
        f.set(op.results[0], f.add(llvm.SelectOp(f.add(_icmp(a, b, predicate)), a, b)))

    return lower


def _icmp(a: SSAValue, b: SSAValue, predicate: str) -> llvm.ICmpOp:
    return llvm.ICmpOp(a, b, IntegerAttr(llvm.ICmpPredicateFlag(predicate).to_int(), i64))


def _rounded_division(*, up: bool, signed: bool) -> _Lowering:
    """Quotient towards zero, corrected by one where the remainder asks for it."""

    def lower(f: _Function, op: Operation) -> None:
        a, b = f.all(op.operands)
        zero, one = f.constant(0, a.type), f.constant(1, a.type)
        quotient = f.add((llvm.SDivOp if signed else llvm.UDivOp)(a, b))
        rest = f.add((llvm.SRemOp if signed else llvm.URemOp)(a, b))
        inexact = f.add(_icmp(rest, zero, "ne"))
        if signed:  # the quotient's sign is negative where the operands' signs differ
            negative = f.add(_icmp(f.add(llvm.XOrOp(rest, b)), zero, "sge" if up else "slt"))
            inexact = f.add(llvm.AndOp(inexact, negative))
        corrected = f.add((llvm.AddOp if up else llvm.SubOp)(quotient, one))
        f.set(op.results[0], f.add(llvm.SelectOp(inexact, corrected, quotient)))

    return lower


def _compare(f: _Function, op: arith.CmpiOp) -> None:
    a, b = f.all(op.operands)
    f.set(op.result, f.add(llvm.ICmpOp(a, b, IntegerAttr(op.predicate.value.data, i64))))


def _compare_floats(f: _Function, op: arith.CmpfOp) -> None:
    a, b = f.all(op.operands)
    f.set(op.result, f.add(llvm.FCmpOp(a, b, IntegerAttr(op.predicate.value.data, i64))))


def _select(f: _Function, op: arith.SelectOp) -> None:
    f.set(op.result, f.add(llvm.SelectOp(*f.all(op.operands))))


def _resize(f: _Function, op: Operation) -> None:
    """Between widths of integers; `index` has 64 bits."""
    value, kind = f.get(op.operands[0]), _convert(op.results[0].type, op)
    if not isinstance(value.type, IntegerType) or not isinstance(kind, IntegerType):
        raise InputError(f"{op.name} needs integers", location=location_of(op))
    have, want = value.type.width.data, kind.width.data
    if have > want:
        value = f.add(llvm.TruncOp(value, kind))
    elif have < want:
        unsigned = isinstance(op, arith.ExtUIOp)
        value = f.add((llvm.ZExtOp if unsigned else llvm.SExtOp)(value, kind))
    f.set(op.results[0], value)


def _cast(kind: Callable[[SSAValue, Attribute], Operation]) -> _Lowering:
    def lower(f: _Function, op: Operation) -> None:
        f.set(op.results[0], f.add(kind(f.get(op.operands[0]), _convert(op.results[0].type, op))))

    return lower


def _intrinsic(name: str) -> _Lowering:
    """The LLVM intrinsic of that name for the result's type; floats saturate as the hardware does."""

    def lower(f: _Function, op: Operation) -> None:
        kinds = [_convert(value.type, op) for value in (*op.results, *op.operands)]
        converts = len({str(kind) for kind in kinds}) > 1
        suffix = ".".join(str(kind) for kind in (kinds[:2] if converts else kinds[:1]))
        call = llvm.CallIntrinsicOp(f"llvm.{name}.{suffix}", f.all(op.operands), [kinds[0]])
        f.set(op.results[0], f.add(call))

    return lower


def _negate(f: _Function, op: arith.NegfOp) -> None:
    f.set(op.result, f.add(llvm.FNegOp(f.get(op.operand))))


# -------------------------------------------------------------------- variables


def _element_pointer(f: _Function, op: memref.LoadOp | memref.StoreOp) -> SSAValue:
    kind = op.memref.type
    assert isinstance(kind, builtin.MemRefType)
    if not kind.has_static_shape() or not isinstance(kind.layout, builtin.NoneAttr):
        raise InputError(
            f"{op.name} of {kind}: only arrays of known shape are lowered", location=location_of(op)
        )
    element = _convert(kind.element_type, op)
    pointer = f.get(op.memref)
    offset: SSAValue | None = None
    for index, size in zip(f.all(op.indices), kind.get_shape(), strict=True):
        if offset is not None:
            offset = f.add(llvm.MulOp(offset, f.constant(size, i64)))
        offset = index if offset is None else f.add(llvm.AddOp(offset, index))
    if offset is None or kind.element_count() == 1:
        return pointer
    return f.add(llvm.GEPOp.from_mixed_indices(pointer, [offset], element))


def _allocate(f: _Function, op: memref.AllocaOp) -> None:
    kind = op.memref.type
    element = _convert(kind.element_type, op)
    if not kind.has_static_shape() or not isinstance(element, (IntegerType, builtin.Float32Type)):
        raise InputError(f"a variable cannot be {kind}", location=location_of(op))
    if kind.element_count() * 8 > _MOST_STACK:
        raise InputError(f"{kind} is too large for the stack", location=location_of(op))
    count = llvm.ConstantOp(IntegerAttr(kind.element_count(), i64), i64)
    cell = llvm.AllocaOp(count.result, element, alignment=8)
    f.allocas += [count, cell]  # at the start of the function, where they become registers
    f.set(op.memref, cell.res)


def _load(f: _Function, op: memref.LoadOp) -> None:
    f.set(op.res, f.add(llvm.LoadOp(_element_pointer(f, op), _convert(op.res.type, op))))


def _store(f: _Function, op: memref.StoreOp) -> None:
    f.run(llvm.StoreOp(f.get(op.value), _element_pointer(f, op)))


# -------------------------------------------------------------------- control flow


def _for(f: _Function, op: scf.ForOp) -> None:
    """Tested at the top; LLVM turns it into the form it likes."""
    lower, upper, step, *initial = f.all(op.operands)
    header, body, end = Block(), Block(), Block()
    f.arguments(op.body.block.args, header)
    f.run(llvm.BrOp(header, lower, *initial))
    f.open(header)
    counter = header.args[0]
    f.run(llvm.CondBrOp(f.add(_icmp(counter, upper, "slt")), body, [], end, []))
    f.open(body)
    f.operations(op.body.block.ops)
    yielded = _yielded(f, op.body.block)
    stepped = f.add(llvm.AddOp(counter, step, overflow=_NO_WRAP))
    f.run(llvm.BrOp(header, stepped, *yielded))
    f.open(end)
    for result, argument in zip(op.res, header.args[1:], strict=True):
        f.set(result, argument)


def _if(f: _Function, op: scf.IfOp) -> None:
    then, end = Block(), Block()
    otherwise = Block() if op.false_region.blocks else end
    condition = f.get(op.cond)
    if RARELY in op.attributes:
        # LLVM moves a block that it expects not to run out of the way: branches to it are not taken
        condition = f.add(llvm.CallIntrinsicOp("llvm.expect.i1", [condition, f.constant(0, i1)], [i1]))
    f.run(llvm.CondBrOp(condition, then, [], otherwise, []))
    for result in op.output:
        f.set(result, end.insert_arg(_convert(result.type, op), len(end.args)))
    for block, region in ((then, op.true_region), (otherwise, op.false_region)):
        if region.blocks:
            f.open(block)
            f.operations(region.block.ops)
            f.run(llvm.BrOp(end, *_yielded(f, region.block)))
    f.open(end)


def _while(f: _Function, op: scf.WhileOp) -> None:
    before, after, end = Block(), Block(), Block()
    f.arguments(op.before_region.block.args, before)
    f.arguments(op.after_region.block.args, after)
    for result in op.res:
        f.set(result, end.insert_arg(_convert(result.type, op), len(end.args)))
    f.run(llvm.BrOp(before, *f.all(op.arguments)))
    f.open(before)
    f.operations(op.before_region.block.ops)
    condition = op.before_region.block.last_op
    assert isinstance(condition, scf.ConditionOp)
    passed = f.all(condition.args)
    f.run(llvm.CondBrOp(f.get(condition.condition), after, passed, end, passed))
    f.open(after)
    f.operations(op.after_region.block.ops)
    f.run(llvm.BrOp(before, *_yielded(f, op.after_region.block)))
    f.open(end)


def _yielded(f: _Function, block: Block) -> list[SSAValue]:
    last = block.last_op
    assert isinstance(last, scf.YieldOp)
    return f.all(last.arguments)


def _nothing(f: _Function, op: Operation) -> None:
    """Terminators of regions, which the operation around them reads."""


def _branch(f: _Function, op: cf.BranchOp) -> None:
    f.run(llvm.BrOp(f.blocks[op.successor], *f.all(op.arguments)))


def _branch_if(f: _Function, op: cf.ConditionalBranchOp) -> None:
    f.run(
        llvm.CondBrOp(
            f.get(op.cond),
            f.blocks[op.then_block],
            f.all(op.then_arguments),
            f.blocks[op.else_block],
            f.all(op.else_arguments),
        )
    )


_LOWERINGS: dict[type[Operation], Callable[..., None]] = {
    func.ReturnOp: _return,
    func.CallOp: _call,
    arith.ConstantOp: _constant,
    arith.AddiOp: _binary(llvm.AddOp),
    arith.SubiOp: _binary(llvm.SubOp),
    arith.MuliOp: _binary(llvm.MulOp),
    arith.DivSIOp: _binary(llvm.SDivOp),
    arith.DivUIOp: _binary(llvm.UDivOp),
    arith.RemSIOp: _binary(llvm.SRemOp),
    arith.RemUIOp: _binary(llvm.URemOp),
    arith.AndIOp: _binary(llvm.AndOp),
    arith.OrIOp: _binary(llvm.OrOp),
    arith.XOrIOp: _binary(llvm.XOrOp),
    arith.ShLIOp: _binary(llvm.ShlOp),
    arith.ShRSIOp: _binary(llvm.AShrOp),
    arith.ShRUIOp: _binary(llvm.LShrOp),
    arith.FloorDivSIOp: _rounded_division(up=False, signed=True),
    arith.CeilDivSIOp: _rounded_division(up=True, signed=True),
    arith.CeilDivUIOp: _rounded_division(up=True, signed=False),
    arith.MinSIOp: _min_max("slt"),
    arith.MaxSIOp: _min_max("sgt"),
    arith.MinUIOp: _min_max("ult"),
    arith.MaxUIOp: _min_max("ugt"),
    arith.CmpiOp: _compare,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: _select,
    arith.IndexCastOp: _resize,
    arith.ExtSIOp: _resize,
    arith.ExtUIOp: _resize,
    arith.TruncIOp: _resize,
    arith.AddfOp: _binary(llvm.FAddOp),
    arith.SubfOp: _binary(llvm.FSubOp),
    arith.MulfOp: _binary(llvm.FMulOp),
    arith.DivfOp: _binary(llvm.FDivOp),
    arith.NegfOp: _negate,
    arith.SIToFPOp: _cast(llvm.SIToFPOp),
    arith.ExtFOp: _cast(llvm.FPExtOp),
    arith.TruncFOp: _cast(llvm.FPTruncOp),
    arith.BitcastOp: _cast(llvm.BitcastOp),
    arith.FPToSIOp: _intrinsic("fptosi.sat"),
    arith.FPToUIOp: _intrinsic("fptoui.sat"),
    arith.MaxnumfOp: _intrinsic("maxnum"),
    arith.MinnumfOp: _intrinsic("minnum"),
    math.RoundEvenOp: _intrinsic("roundeven"),
    math.AbsFOp: _intrinsic("fabs"),
    math.SqrtOp: _intrinsic("sqrt"),
    math.FloorOp: _intrinsic("floor"),
    math.CeilOp: _intrinsic("ceil"),
    memref.AllocaOp: _allocate,
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.YieldOp: _nothing,
    scf.ConditionOp: _nothing,
    cf.BranchOp: _branch,
    cf.ConditionalBranchOp: _branch_if,
}
