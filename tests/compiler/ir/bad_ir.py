"""Ill-formed modules: text, line of the mistake, and what the message must say."""

from __future__ import annotations

from typing import NamedTuple


class BadText(NamedTuple):
    """`what` names the mistake; `level` is what the text is read as, None for any."""

    what: str
    text: str
    line: int | None
    reason: str
    level: str | None = None


def _body(line: str, arguments: str = "%a: i64, %b: i64") -> str:
    """A function whose second line is the wrong one."""
    return f"func.func @f({arguments}) {{\n  {line}\n  func.return\n}}\n"


def _instgem(what: str, line: str, reason: str, level: str | None = "instgem") -> BadText:
    return BadText(what, _body(line), 2, reason, level)


SYNTAX = [
    BadText("empty", "", 1, "entire input"),
    BadText("only a comment", "// nothing\n", 2, "entire input"),
    BadText("words", "hello world\n", 1, "not registered|expected|entire input"),
    BadText("Python", "import baco\n", 1, "not registered|expected|entire input"),
    BadText("binary-like", "\x01\x02", 1, "."),
    BadText("unclosed module", "builtin.module {\n", 2, "block"),
    BadText("unclosed function", "func.func @f() {\n  func.return\n", 3, "block"),
    BadText("extra brace", "func.func @f() {\n  func.return\n}\n}\n", 4, "entire input"),
    BadText("no function name", "func.func () {\n  func.return\n}\n", 1, "symbol"),
    BadText("argument without type", "func.func @f(%a) {\n  func.return\n}\n", 1, "expected|Expected"),
    BadText("argument twice", "func.func @f(%a: i64, %a: i64) {\n  func.return\n}\n", 1, "already defined"),
    BadText("unknown type", "func.func @f(%a: i65x) {\n  func.return\n}\n", 1, "type"),
    BadText("unknown dialect", _body("nowhere.op"), 2, "nowhere.op|not registered"),
    BadText("unknown operation", _body("instgem.mvinn rows = 1"), 2, "instgem.mvinn"),
    BadText("unknown operation of arith", _body("%x = arith.plus %a, %b : i64"), 2, "arith.plus"),
    BadText("operation in quotes", _body('"instgem.nothing"() : () -> ()'), 2, "instgem.nothing"),
    BadText("undefined value", _body("%x = arith.addi %a, %nowhere : i64"), 2, "nowhere"),
    BadText("value twice", _body("%a = arith.constant 1 : i64"), 2, "already defined"),
    BadText("missing comma", _body("%x = arith.addi %a %b : i64"), 2, "expected|Expected"),
    BadText("missing type", _body("%x = arith.addi %a, %b"), 2, "expected|Expected"),
    BadText("missing operand", _body("%x = arith.addi %a, : i64"), 2, "expected|Expected"),
    BadText("types differ", _body("%x = arith.addi %a, %b : i32"), 2, "i64|i32"),
    BadText("result not bound right", _body("%x, %y = arith.addi %a, %b : i64"), 2, "results"),
    BadText("result of nothing", _body("%x = instgem.fence"), 2, "0 results"),
    BadText("string not closed", _body('%x = "arith.addi(%a, %b) : i64'), 2, "string|token"),
    BadText(
        "long string not closed",
        _body('llvm.inline_asm "nop nop nop nop nop nop nop nop nop, "r" : () -> ()'),
        2,
        "string",
    ),
    BadText(
        "unknown escape",
        _body('llvm.inline_asm "nop nop nop nop nop nop nop nop \\q nop", "r" : () -> ()'),
        2,
        "escape",
    ),
    BadText("two return values", _body("func.return %a, %b : i64"), 2, "expected|Expected|types"),
    BadText("nested far too deep", "builtin.module {\n" * 300 + "}\n" * 300, 101, "nested too deeply"),
    BadText(
        "block without label", "func.func @f() {\n^bb0(%a: i64:\n  func.return\n}\n", 2, "expected|Expected"
    ),
    BadText("branch to nowhere", "func.func @f() {\n  cf.br ^bb7\n}\n", None, "bb7"),
    BadText("attribute cut off", _body("%x = arith.constant"), 2, "expected|Expected"),
    BadText("constant of a wrong type", _body("%x = arith.constant 1.5 : i64"), 2, "."),
    BadText("integer too wide", _body("%x = arith.constant 300 : i8"), 2, "300"),
]

STRUCTURE = [
    BadText("no terminator", "func.func @f(%a: i64) {\n  instgem.fence\n}\n", 2, "terminat"),
    BadText(
        "code behind the return",
        "func.func @f() {\n  func.return\n  instgem.fence\n  func.return\n}\n",
        2,
        "last",
    ),
    BadText(
        "use before definition",
        _body("%x = arith.addi %a, %y : i64\n  %y = arith.addi %a, %b : i64"),
        2,
        "not defined there",
    ),
    BadText(
        "value out of a loop's body",
        _body(
            "%z = arith.constant 0 : i64\n  scf.for %i = %z to %a step %b : i64 {\n"
            "    %x = arith.addi %i, %a : i64\n  }\n  %y = arith.addi %x, %a : i64"
        ),
        6,
        "not defined|x",
    ),
    BadText(
        "value of another function",
        "func.func @f(%a: i64) {\n  func.return\n}\nfunc.func @g() {\n  instgem.mvin address = %a, rows = 1, cols = 1\n"
        "  func.return\n}\n",
        None,
        "a",
    ),
    BadText(
        "function twice",
        "func.func @f() {\n  func.return\n}\nfunc.func @f() {\n  func.return\n}\n",
        4,
        "twice|f",
    ),
    BadText("call of nothing", _body("func.call @g(%a) : (i64) -> ()"), 2, "g"),
    BadText(
        "call with a wrong type",
        "func.func private @g(i32) -> ()\nfunc.func @f(%a: i64) {\n  func.call @g(%a) : (i64) -> ()\n  func.return\n}\n",
        3,
        "i32|type",
    ),
    BadText(
        "return of a value", "func.func @f(%a: i64) {\n  func.return %a : i64\n}\n", 2, "return|type|match"
    ),
    BadText("yield outside of a loop", _body("scf.yield"), 2, "scf.yield|parent|last"),
    BadText(
        "loop with a wrong bound",
        "func.func @f(%a: i64, %b: i32) {\n  scf.for %i = %a to %b step %a : i64 {\n  }\n  func.return\n}\n",
        2,
        "i32|type",
    ),
    BadText("if on a number", _body("scf.if %a {\n  }"), 2, "i1"),
    BadText("compare unknown", _body("%x = arith.cmpi smaller, %a, %b : i64"), 2, "smaller|mnemonic"),
    BadText(
        "block argument missing",
        "func.func @f(%a: i64) {\n  cf.br ^bb1\n^bb1(%x: i64):\n  func.return\n}\n",
        2,
        "passes nothing to a block that takes i64",
    ),
    BadText(
        "definition that does not dominate",
        "func.func @f(%c: i1, %a: i64) {\n  cf.cond_br %c, ^bb1, ^bb2\n^bb1:\n  %x = arith.addi %a, %a : i64\n"
        "  cf.br ^bb2\n^bb2:\n  %y = arith.addi %x, %a : i64\n  func.return\n}\n",
        7,
        "not defined there",
    ),
    BadText(
        "branch in the middle",
        "func.func @f() {\n  cf.br ^bb1\n  instgem.fence\n^bb1:\n  func.return\n}\n",
        2,
        "last|terminate",
    ),
    BadText(
        "load with two indices",
        _body(
            "%m = memref.alloca() : memref<1xi64>\n  %z = arith.constant 0 : index\n"
            "  %x = memref.load %m[%z, %z] : memref<1xi64>"
        ),
        4,
        "index",
    ),
    BadText("load of a number", _body("%x = memref.load %a[%b] : memref<1xi64>"), 2, "memref|i64"),
    BadText(
        "store of a wrong type",
        _body(
            "%m = memref.alloca() : memref<1xi32>\n  %z = arith.constant 0 : index\n"
            "  memref.store %a, %m[%z] : memref<1xi32>"
        ),
        4,
        "i32|i64",
    ),
]

INSTGEM = [
    _instgem("unknown field", "instgem.mvin colour = 3, rows = 1", "no field 'colour'"),
    _instgem("unknown field later", "instgem.mvin rows = 1, colour = 3", "no field 'colour'"),
    _instgem("near miss", "instgem.mvin row = 3", "did you mean 'rows'"),
    _instgem("field of another command", "instgem.mvin bd = 3", "no field 'bd'"),
    _instgem("field without fields", "instgem.loop_ws_config_spad_c a = 3", "it has none"),
    _instgem("field twice", "instgem.mvin rows = 1, rows = 2, cols = 1", "twice"),
    _instgem("field without value", "instgem.mvin rows = , cols = 1", "integer or a value|operand"),
    _instgem("field with a word", "instgem.mvin rows = many", "integer or a value|operand"),
    _instgem("field with a fraction", "instgem.config_ld scale = 1.5", "."),
    _instgem("no equals sign", "instgem.mvin rows 4", ".", None),
    _instgem("comma at the end", "instgem.mvin rows = 1, cols = 1,", "name of a field|no field"),
    _instgem(
        "too wide: rows", "instgem.mvin rows = 65536, cols = 1", "'rows' has 16 bits, 65536 does not fit"
    ),
    _instgem("too wide: local", "instgem.mvin rows = 1, cols = 1, local = 4294967296", "'local' has 32 bits"),
    _instgem("too wide: state", "instgem.config_ld state = 4", "'state' has 2 bits, 4 does not fit"),
    _instgem("too wide: dataflow", "instgem.config_ex dataflow = 2", "'dataflow' has 1 bits"),
    _instgem("too wide: shift", "instgem.config_ex in_shift = 32", "'in_shift' has 5 bits"),
    _instgem("too wide: pool", "instgem.config_st pool_size = 4", "'pool_size' has 2 bits"),
    _instgem(
        "too wide: address", "instgem.mvin address = 18446744073709551616, rows = 1, cols = 1", "64 bits"
    ),
    _instgem("too wide: channels", "instgem.loop_conv_ws_config_1 in_channels = 65536", "16 bits"),
    _instgem("too wide: dilation", "instgem.loop_conv_ws_config_4 kernel_dilation = 1024", "10 bits"),
    _instgem("negative", "instgem.mvin rows = -1, cols = 1", "-1 does not fit"),
    _instgem("negative address", "instgem.mvin address = -8, rows = 1, cols = 1", "-8 does not fit"),
    _instgem("no rows", "instgem.mvin cols = 16", "at least one of its rows"),
    _instgem("no columns", "instgem.mvout rows = 16", "at least one of its cols"),
    _instgem("no columns, told so", "instgem.mvin2 rows = 16, cols = 0", "at least one of its cols"),
    _instgem("no rows of a copy", "instgem.mvout_spad cols = 16", "at least one of its rows"),
    _instgem("load state 3", "instgem.config_ld state = 3", "no load state 3"),
    _instgem(
        "WS with two transposes",
        "instgem.config_ex dataflow = 1, a_transpose = 1, b_transpose = 1",
        "cannot transpose both",
    ),
    _instgem("OS with B transposed", "instgem.config_ex b_transpose = 1", "only together with A"),
    _instgem(
        "value of a wrong type",
        "%i = arith.constant 3 : index\n  instgem.mvin rows = %i, cols = 1",
        "i64|index",
    )._replace(line=3),
    _instgem(
        "narrow value", "%i = arith.constant 3 : i32\n  instgem.mvin rows = %i, cols = 1", "i64|i32"
    )._replace(line=3),
    _instgem("undefined value in a field", "instgem.mvin rows = %rows, cols = 1", "rows")._replace(line=None),
    _instgem("answer not asked for", "instgem.mvin rows = 1, cols = 1 -> i64", "."),
    _instgem("answer missing", "%x = instgem.counter_op index = 1", "->|expected|Expected")._replace(
        line=None
    ),
    _instgem("fence with an argument", "instgem.fence %a", "."),
    _instgem(
        "generic form, wrong count",
        '"instgem.mvin"() <{known = array<i64: 1, 2>}> : () -> ()',
        "4 fields, `known` lists 2",
    ),
    _instgem(
        "generic form, operand too many",
        '"instgem.mvin"(%a) <{known = array<i64: 1, 2, 3, 4>}> : (i64) -> ()',
        "0 computed fields of MVIN, but 1 values",
    ),
    _instgem(
        "generic form, operand missing",
        '"instgem.mvin"() <{known = array<i64: -9223372036854775808, 2, 3, 4>}> : () -> ()',
        "1 computed fields of MVIN, but 0 values",
    ),
    _instgem(
        "generic form, too wide",
        '"instgem.mvin"() <{known = array<i64: 0, 0, 1, 65536>}> : () -> ()',
        "'rows' of MVIN has 16 bits",
    ),
    _instgem("generic form, nothing known", '"instgem.mvin"() : () -> ()', "known"),
    _instgem(
        "generic form, wrong element type",
        '"instgem.mvin"() <{known = array<i32: 1, 2, 3, 4>}> : () -> ()',
        ".",
    ),
]

LEVELS = [
    BadText(
        "llvm in instgem",
        _body('llvm.inline_asm has_side_effects "nop", "" : () -> ()'),
        2,
        "llvm.inline_asm",
        "instgem",
    ),
    BadText(
        "instgem in llvm", "llvm.func @f() {\n  instgem.fence\n  llvm.return\n}\n", 2, "instgem.fence", "llvm"
    ),
    BadText("func in llvm", "func.func @f() {\n  func.return\n}\n", 1, "func.func cannot occur", "llvm"),
    BadText("instgem in baco", _body("instgem.fence"), 2, "instgem.fence cannot occur", "baco"),
    BadText("instgem in linalg", _body("instgem.fence"), 2, "instgem.fence cannot occur", "linalg"),
    BadText(
        "allocation in instgem",
        _body("%m = memref.alloc() : memref<4xi64>"),
        2,
        "memref.alloc cannot",
        "instgem",
    ),
    BadText(
        "tensor in instgem", _body("%t = tensor.empty() : tensor<4xi64>"), 2, "tensor.empty cannot", "instgem"
    ),
    BadText(
        "tensor in llvm",
        "llvm.func @f() {\n  %t = tensor.empty() : tensor<4xi64>\n  llvm.return\n}\n",
        2,
        "tensor.empty",
        "llvm",
    ),
    BadText("linalg in baco", _body("%t = tensor.empty() : tensor<4xi64>"), 2, "tensor.empty cannot", "baco"),
    BadText(
        "baco in linalg",
        "func.func @f(%p: !baco.ptr<i8>) {\n  %x = baco.program_id 0\n  func.return\n}\n",
        2,
        "baco.program_id cannot",
        "linalg",
    ),
    BadText(
        "baco in instgem",
        "func.func @f() {\n  %x = baco.program_id 0\n  func.return\n}\n",
        2,
        "baco.program_id cannot",
        "instgem",
    ),
]

LLVM = [
    BadText(
        "no llvm terminator",
        "llvm.func @f() {\n  %x = llvm.mlir.constant(1) : i64\n}\n",
        2,
        "terminat",
        "llvm",
    ),
    BadText(
        "add of two types",
        "llvm.func @f(%a: i64, %b: i32) {\n  %x = llvm.add %a, %b : i64\n  llvm.return\n}\n",
        2,
        "i32|type",
        "llvm",
    ),
    BadText(
        "load of a number (llvm)",
        "llvm.func @f(%a: i64) {\n  %x = llvm.load %a : i64 -> i8\n  llvm.return\n}\n",
        2,
        "ptr",
        "llvm",
    ),
    BadText(
        "store to a number",
        "llvm.func @f(%a: i64) {\n  llvm.store %a, %a : i64, i64\n  llvm.return\n}\n",
        2,
        "ptr",
        "llvm",
    ),
    BadText(
        "wrong predicate",
        'llvm.func @f(%a: i64) {\n  %x = llvm.icmp "less" %a, %a : i64\n  llvm.return\n}\n',
        2,
        "less",
        "llvm",
    ),
    BadText(
        "branch on a number",
        "llvm.func @f(%a: i64) {\n  llvm.cond_br %a, ^bb1, ^bb1\n^bb1:\n  llvm.return\n}\n",
        2,
        "i1",
        "llvm",
    ),
    BadText(
        "extend to less",
        "llvm.func @f(%a: i64) {\n  %x = llvm.zext %a : i64 to i8\n  llvm.return\n}\n",
        2,
        ".",
        "llvm",
    ),
    BadText(
        "truncate to more",
        "llvm.func @f(%a: i8) {\n  %x = llvm.trunc %a : i8 to i64\n  llvm.return\n}\n",
        2,
        "cast|trunc",
        "llvm",
    ),
    BadText(
        "call of an unknown function",
        "llvm.func @f(%a: i64) {\n  llvm.call @g(%a) : (i64) -> ()\n  llvm.return\n}\n",
        2,
        "g",
        "llvm",
    ),
    BadText(
        "assembly without constraints",
        'llvm.func @f() {\n  llvm.inline_asm "nop" : () -> ()\n  llvm.return\n}\n',
        2,
        "expected|Expected",
        "llvm",
    ),
    BadText(
        "llvm function twice",
        "llvm.func @f() {\n  llvm.return\n}\nllvm.func @f() {\n  llvm.return\n}\n",
        4,
        "twice|f",
        "llvm",
    ),
    BadText("unknown linkage", "llvm.mlir.global somewhere @x(1 : i64) : i64\n", 1, ".", "llvm"),
    BadText(
        "use before definition (llvm)",
        "llvm.func @f(%a: i64) {\n  %x = llvm.add %a, %y : i64\n  %y = llvm.add %a, %a : i64\n  llvm.return\n}\n",
        2,
        "not defined there",
        "llvm",
    ),
]

BAD_TEXTS = [*SYNTAX, *STRUCTURE, *INSTGEM, *LEVELS, *LLVM]
