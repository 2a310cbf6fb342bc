"""Lowering to LLVM IR: programs of the host core compute what the operations mean, on the simulated core."""

from __future__ import annotations

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import COMMANDS, decode, encode
from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.compiler.codegen.pipeline import run_passes
from baco.compiler.codegen.program import Buffer, build_program, lower_to_ir, program_assembly
from baco.compiler.ir.emit import Emitter
from baco.compiler.ir.text import check_level, read_ir, write_ir
from baco.sim.engines.program import run_program
from tests.compiler.ir.ir_helpers import function, parsed
from tests.compiler.ir.ir_machine import Machine

GEMMINI: Accelerator = load_accelerator("gemmini-default")


def run_host(text: str, values: list[int], results: int) -> list[int]:
    """Runs `f(in, out)` of a text with i64 numbers at `in`; gives those at `out`."""
    data = np.array(values, np.int64)
    buffers = [
        Buffer("in", data.shape, "int64", "input", data),
        Buffer("out", (results,), "int64", "output"),
    ]
    program = build_program(parsed(text, "instgem"), "f", buffers, GEMMINI)
    outputs, result = run_program(program)
    assert result.exit_code == 0, result.console
    return [int(one) for one in outputs["out"]]


def _load(index: int) -> str:
    return f"""
    %at{index} = arith.constant {8 * index} : i64
    %ad{index} = arith.addi %in, %at{index} : i64
    %p{index} = llvm.inttoptr %ad{index} : i64 to !llvm.ptr
    %x{index} = llvm.load %p{index} : !llvm.ptr -> i64
    """


def _store(value: str, index: int) -> str:
    return f"""
    %ot{index} = arith.constant {8 * index} : i64
    %od{index} = arith.addi %out, %ot{index} : i64
    %q{index} = llvm.inttoptr %od{index} : i64 to !llvm.ptr
    llvm.store {value}, %q{index} : i64, !llvm.ptr
    """


BINARY = [
    *("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori", "minsi", "maxsi"),
    *("ceildivsi", "floordivsi", "shli", "shrsi", "shrui"),
]


def test_integer_arithmetic() -> None:
    random = np.random.default_rng(0)
    body, values, results = [], [], 0
    for round_ in range(12):
        for name in BINARY:
            wide = round_ % 2 == 0
            a = int(random.integers(-(1 << 62) if wide else -50, 1 << 62 if wide else 50))
            b = int(random.integers(-40, 40)) or 7
            if name.startswith("sh"):
                b = int(random.integers(0, 63))
            body += [_load(len(values)), _load(len(values) + 1)]
            body.append(f"%r{results} = arith.{name} %x{len(values)}, %x{len(values) + 1} : i64")
            body.append(_store(f"%r{results}", results))
            values += [a, b]
            results += 1
    text = function("\n".join(body), "%in: i64, %out: i64")
    machine = Machine(parsed(text), {8 * i: value for i, value in enumerate(values)})
    machine.run("f", [0, 1 << 20])
    wanted = [machine.memory[(1 << 20) + 8 * i] for i in range(results)]
    assert run_host(text, values, results) == wanted


def test_comparisons_widths_and_selection() -> None:
    predicates = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
    pairs = [(0, 0), (-1, 1), (1, -1), (-(1 << 63), 5), (7, 7)]
    body, wanted = [], []
    for at, (a, b) in enumerate(pairs):
        body += [_load(2 * at), _load(2 * at + 1)]
        for name in predicates:
            index = len(wanted)
            body += [
                f"%c{index} = arith.cmpi {name}, %x{2 * at}, %x{2 * at + 1} : i64",
                f"%s{index} = arith.select %c{index}, %x{2 * at}, %x{2 * at + 1} : i64",
                f"%t{index} = arith.trunci %s{index} : i64 to i8",
                f"%e{index} = arith.{'extsi' if index % 2 else 'extui'} %t{index} : i8 to i64",
                _store(f"%e{index}", index),
            ]
            unsigned = name.startswith("u")
            left, right = (a & (1 << 64) - 1, b & (1 << 64) - 1) if unsigned else (a, b)
            holds = {
                "eq": left == right,
                "ne": left != right,
                "lt": left < right,
                "le": left <= right,
                "gt": left > right,
                "ge": left >= right,
            }[name[-2:]]
            low = (a if holds else b) & 0xFF
            wanted.append(low - 256 if index % 2 and low > 127 else low)
    text = function("\n".join(body), "%in: i64, %out: i64")
    assert run_host(text, [one for pair in pairs for one in pair], len(wanted)) == wanted


def test_requantisation_in_float32() -> None:
    random = np.random.default_rng(1)
    numbers = [*random.integers(-(1 << 31), 1 << 31, 60), *range(-40, 40), (1 << 24) + 1, (1 << 25) + 2]
    scale = np.float32(0.0371)
    bits = int(scale.view(np.uint32))
    body = []
    for i in range(len(numbers)):
        body += [
            _load(i),
            f"""
            %i{i} = arith.trunci %x{i} : i64 to i32
            %f{i} = arith.sitofp %i{i} : i32 to f32
            %b{i} = arith.constant {bits} : i32
            %g{i} = arith.bitcast %b{i} : i32 to f32
            %m{i} = arith.mulf %f{i}, %g{i} : f32
            %r{i} = math.roundeven %m{i} : f32
            %n{i} = arith.fptosi %r{i} : f32 to i64
            """,
            _store(f"%n{i}", i),
        ]
    wanted = np.rint(np.array(numbers).astype(np.int32).astype(np.float32) * scale).astype(np.int64)
    text = function("\n".join(body), "%in: i64, %out: i64")
    assert run_host(text, [int(one) for one in numbers], len(numbers)) == wanted.tolist()


def test_floats_saturate_and_compare() -> None:
    body = """
    %big = arith.constant 1.0e30 : f32
    %nan0 = arith.constant 0.0 : f32
    %nan = arith.divf %nan0, %nan0 : f32
    %i = arith.fptosi %big : f32 to i8
    %a = arith.extsi %i : i8 to i64
    %m = arith.negf %big : f32
    %j = arith.fptosi %m : f32 to i8
    %b = arith.extsi %j : i8 to i64
    %c0 = arith.cmpf olt, %m, %big : f32
    %c = arith.extui %c0 : i1 to i64
    %d0 = arith.cmpf ueq, %nan, %big : f32
    %d = arith.extui %d0 : i1 to i64
    %n0 = arith.maxnumf %m, %nan0 : f32
    %n = arith.fptosi %n0 : f32 to i64
    """ + "".join(_store(value, i) for i, value in enumerate(("%a", "%b", "%c", "%d", "%n")))
    assert run_host(function(body, "%in: i64, %out: i64"), [0], 5) == [127, -128, 1, 1, 0]


def test_loops_that_carry_values() -> None:
    body = (
        _load(0)
        + """
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %sum, %last = scf.for %i = %zero to %x0 step %two iter_args(%s = %zero, %l = %one) -> (i64, i64) : i64 {
      %odd = arith.cmpi slt, %i, %two : i64
      %t = scf.if %odd -> (i64) {
        scf.yield %i : i64
      } else {
        %d = arith.muli %i, %l : i64
        scf.yield %d : i64
      }
      %n = arith.addi %s, %t : i64
      scf.yield %n, %i : i64, i64
    }
    %steps, %rest = scf.while (%k = %zero, %v = %x0) : (i64, i64) -> (i64, i64) {
      %more = arith.cmpi sgt, %v, %one : i64
      scf.condition(%more) %k, %v : i64, i64
    } do {
    ^bb0(%k2: i64, %v2: i64):
      %half = arith.divui %v2, %two : i64
      %next = arith.addi %k2, %one : i64
      scf.yield %next, %half : i64, i64
    }
    """
        + _store("%sum", 0)
        + _store("%last", 1)
        + _store("%steps", 2)
        + _store("%rest", 3)
    )
    text = function(body, "%in: i64, %out: i64")
    for n in (0, 1, 2, 9, 1000):
        total, last = 0, 1
        for i in range(0, n, 2):
            total, last = total + (i if i < 2 else i * last), i
        steps, rest = 0, n
        while rest > 1:
            steps, rest = steps + 1, rest // 2
        assert run_host(text, [n], 4) == [total, last, steps, rest]


def test_branches_between_blocks() -> None:
    text = (
        "func.func @f(%in: i64, %out: i64) {"
        + _load(0)
        + """
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      cf.br ^loop(%zero, %one : i64, i64)
    ^done(%r: i64):
    """
        + _store("%r", 0)
        + """
      func.return
    ^loop(%i: i64, %f: i64):
      %more = arith.cmpi slt, %i, %x0 : i64
      cf.cond_br %more, ^next, ^same(%f, %f : i64, i64)
    ^same(%u: i64, %w: i64):
      %c = arith.cmpi slt, %u, %zero : i64
      cf.cond_br %c, ^done(%w : i64), ^done(%u : i64)
    ^next:
      %j = arith.addi %i, %one : i64
      %g = arith.muli %f, %j : i64
      cf.br ^loop(%j, %g : i64, i64)
    }
    """
    )
    assert run_host(text, [10], 1) == [3628800]


def test_arrays_and_calls() -> None:
    text = """
    func.func private @square(%x: i64) -> i64 {
      %y = arith.muli %x, %x : i64
      func.return %y : i64
    }
    func.func @f(%in: i64, %out: i64) {
      %m = memref.alloca() : memref<3x4xi32>
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %three = arith.constant 3 : index
      %four = arith.constant 4 : index
      scf.for %i = %zero to %three step %one {
        scf.for %j = %zero to %four step %one {
          %i10 = arith.muli %i, %four : index
          %s = arith.addi %i10, %j : index
          %k = arith.index_cast %s : index to i64
          %q = func.call @square(%k) : (i64) -> i64
          %t = arith.trunci %q : i64 to i32
          memref.store %t, %m[%i, %j] : memref<3x4xi32>
        }
      }
      %v = memref.load %m[%one, %three] : memref<3x4xi32>
      %r = arith.extsi %v : i32 to i64
      %p = llvm.inttoptr %out : i64 to !llvm.ptr
      llvm.store %r, %p : i64, !llvm.ptr
      func.return
    }
    """
    assert run_host(text, [0], 1) == [49]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_packed_as_the_instruction_set_says(name: str) -> None:
    """Of the assembly: function code and constants; computed fields are added at their places."""
    kind = COMMANDS[name]
    random = np.random.default_rng(sum(name.encode()))
    fields = {field.name: int.from_bytes(random.bytes(8), "little") & field.mask for field in kind.fields}
    if name == "CONFIG_LD":
        fields["state"] = 1
    if name == "CONFIG_EX":
        fields["b_transpose"] = 0
    command = encode(name, **fields)
    assert decode(*command) == fields
    for computed in (set(), set(fields), set(list(fields)[::2])):
        e = Emitter("f", ["a"])
        zero = e.mul(e.arguments[0], e.arguments[0])
        values = {
            key: e.add(zero, value - (1 << 64) if value >> 63 else value) if key in computed else value
            for key, value in fields.items()
        }
        e.command(name.lower(), **values)
        module = e.finish()
        run_passes(module, ["instgem-to-llvm", "lower-to-llvm"])
        check_level(module, "llvm")
        text = write_ir(module)
        assert f", {kind.funct}, " in text
        registers = _evaluate(module)
        assert registers == (command.rs1, command.rs2)


def _evaluate(module) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    """Values of the two registers of the only command, for an argument of 0."""
    from xdsl.dialects import llvm

    values, mask = {}, (1 << 64) - 1
    for op in module.walk():
        if isinstance(op, llvm.FuncOp):
            values[op.body.block.args[0]] = 0
        elif isinstance(op, llvm.ConstantOp):
            values[op.result] = op.value.value.data & mask
        elif isinstance(op, llvm.AddOp):
            values[op.res] = values[op.lhs] + values[op.rhs] & mask
        elif isinstance(op, llvm.MulOp):
            values[op.res] = values[op.lhs] * values[op.rhs] & mask
        elif isinstance(op, llvm.ShlOp):
            values[op.res] = values[op.lhs] << values[op.rhs] & mask
        elif isinstance(op, llvm.InlineAsmOp):
            operands = [values[one] for one in op.operands_]
            names = op.asm_string.data.split(", ")[-2:]
            return tuple(0 if one == "x0" else operands.pop(0) for one in names)  # type: ignore[return-value]
    raise AssertionError("no command")


def test_counters_answer() -> None:
    text = function(
        """
    %r = instgem.counter_op index = 1 -> i64
    %p = llvm.inttoptr %out : i64 to !llvm.ptr
    llvm.store %r, %p : i64, !llvm.ptr
    """,
        "%in: i64, %out: i64",
    )
    assembly = program_assembly(lower_to_ir(parsed(text)))
    assert ".insn r 123, 7, 126, " in assembly
    assert run_host(text, [0], 1) == [0]


def test_golden_text() -> None:
    e = Emitter("tile", ["a"])
    with e.loop(2) as i:
        e.command("mvin", address=e.add(e.arguments[0], e.mul(i, 64)), local=3, cols=16, rows=16)
    e.fence()
    assert (
        lower_to_ir(e.finish())
        == """\
define void @tile(i64 %v0) nounwind {
b0:
  br label %b1
b1:
  %v1 = phi i64 [ 0, %b0 ], [ %v2, %b2 ]
  %v3 = icmp slt i64 %v1, 2
  br i1 %v3, label %b2, label %b3
b2:
  %v4 = mul i64 %v1, 64
  %v5 = add i64 %v0, %v4
  call void asm sideeffect ".insn r CUSTOM_3, 0x3, 2, x0, $0, $1", "r,r,~{memory}"(i64 %v5, i64 4503668346847235)
  %v2 = add nsw i64 %v1, 1
  br label %b1
b3:
  call void asm sideeffect "fence", "~{memory}"()
  ret void
}
"""
    )


def test_the_llvm_level_goes_through_text() -> None:
    from baco.compiler.dialects.context import all_dialects

    e = Emitter("f", ["a", "b"])
    with e.loop(e.arguments[1]) as i, e.when(e.compare("slt", i, 3)):
        e.command("mvin", address=e.add(e.arguments[0], i), rows=1, cols=1)
        e.store(e.arguments[0], e.load(e.arguments[1], 8, signed=False), 16)
    module = e.finish()
    run_passes(module, ["instgem-to-llvm", "lower-to-llvm"])
    text = write_ir(module)
    again = read_ir(text, "f.mlir", all_dialects(), "llvm")
    assert write_ir(again) == text
    assert lower_to_ir(again) == lower_to_ir(module)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("%t = tensor.empty() : tensor<4xi64>", "tensor.empty cannot be lowered to LLVM"),
        ("%m = memref.alloca() : memref<100000xi64>", "too large for the stack"),
        ("%m = memref.alloca(%n) : memref<?xi64>", "a variable cannot be"),
        ("%x = arith.constant dense<1> : tensor<2xi64>", "has the type|cannot be lowered"),
    ],
)
def test_what_cannot_be_lowered(line: str, reason: str) -> None:
    module = parsed(function("%n = arith.constant 3 : index\n" + line))
    with pytest.raises(InputError, match=reason) as caught:
        run_passes(module, ["lower-to-llvm"])
    assert caught.value.location is not None
    assert caught.value.location.line == 3


def test_what_has_no_llvm_ir() -> None:
    text = "llvm.func @f(%p: !llvm.ptr) {\n  %x = llvm.load %p atomic acquire {alignment = 8} : !llvm.ptr -> i64\n  llvm.return\n}\n"
    with pytest.raises(InputError, match="atomic") as caught:
        lower_to_ir(parsed(text))
    assert caught.value.location is not None
    assert caught.value.location.line == 2
