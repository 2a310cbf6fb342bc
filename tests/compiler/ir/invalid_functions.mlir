// Ill-formed bodies of a function @f(%a: i64, %b: i64) that returns nothing; see invalid_modules.mlir.

nowhere.op  // error: nowhere.op|not registered

instgem.mvinn rows = 1  // error: instgem.mvinn

%x = arith.plus %a, %b : i64  // error: arith.plus

"instgem.nothing"() : () -> ()  // error: instgem.nothing

%x = arith.addi %a, %nowhere : i64  // error: nowhere

%a = arith.constant 1 : i64  // error: already defined

%x = arith.addi %a %b : i64  // error: expected|Expected

%x = arith.addi %a, %b  // error: expected|Expected

%x = arith.addi %a, : i64  // error: expected|Expected

%x = arith.addi %a, %b : i32  // error: i64|i32

%x, %y = arith.addi %a, %b : i64  // error: results

%x = instgem.fence  // error: 0 results

%x = "arith.addi(%a, %b) : i64  // error: string|token

llvm.inline_asm "nop nop nop nop nop nop nop nop nop, "r" : () -> ()  // error: string

llvm.inline_asm "nop nop nop nop nop nop nop nop \q nop", "r" : () -> ()  // error: escape

func.return %a, %b : i64  // error: expected|Expected|types

%x = arith.constant  // error: expected|Expected

%x = arith.constant 1.5 : i64  // error: .

%x = arith.constant 300 : i8  // error: 300

%x = arith.addi %a, %y : i64  // error: not defined there
%y = arith.addi %a, %b : i64

%z = arith.constant 0 : i64
scf.for %i = %z to %a step %b : i64 {
  %x = arith.addi %i, %a : i64
}
%y = arith.addi %x, %a : i64  // error: not defined|x

func.call @g(%a) : (i64) -> ()  // error: g

scf.yield  // error: scf.yield|parent|last

scf.if %a {  // error: i1
}

%x = arith.cmpi smaller, %a, %b : i64  // error: smaller|mnemonic

%m = memref.alloca() : memref<1xi64>
%z = arith.constant 0 : index
%x = memref.load %m[%z, %z] : memref<1xi64>  // error: index

%x = memref.load %a[%b] : memref<1xi64>  // error: memref|i64

%m = memref.alloca() : memref<1xi32>
%z = arith.constant 0 : index
memref.store %a, %m[%z] : memref<1xi32>  // error: i32|i64

instgem.mvin colour = 3, rows = 1  // error in instgem: no field 'colour'

instgem.mvin rows = 1, colour = 3  // error in instgem: no field 'colour'

instgem.mvin row = 3  // error in instgem: did you mean 'rows'

instgem.mvin bd = 3  // error in instgem: no field 'bd'

instgem.loop_ws_config_spad_c a = 3  // error in instgem: it has none

instgem.mvin rows = 1, rows = 2, cols = 1  // error in instgem: twice

instgem.mvin rows = , cols = 1  // error in instgem: integer or a value|operand

instgem.mvin rows = many  // error in instgem: integer or a value|operand

instgem.config_ld scale = 1.5  // error in instgem: .

instgem.mvin rows 4  // error: .

instgem.mvin rows = 1, cols = 1,  // error in instgem: name of a field|no field

instgem.mvin rows = 65536, cols = 1  // error in instgem: 'rows' has 16 bits, 65536 does not fit

instgem.mvin rows = 1, cols = 1, local = 4294967296  // error in instgem: 'local' has 32 bits

instgem.config_ld state = 4  // error in instgem: 'state' has 2 bits, 4 does not fit

instgem.config_ex dataflow = 2  // error in instgem: 'dataflow' has 1 bits

instgem.config_ex in_shift = 32  // error in instgem: 'in_shift' has 5 bits

instgem.config_st pool_size = 4  // error in instgem: 'pool_size' has 2 bits

instgem.mvin address = 18446744073709551616, rows = 1, cols = 1  // error in instgem: 64 bits

instgem.loop_conv_ws_config_1 in_channels = 65536  // error in instgem: 16 bits

instgem.loop_conv_ws_config_4 kernel_dilation = 1024  // error in instgem: 10 bits

instgem.mvin rows = -1, cols = 1  // error in instgem: -1 does not fit

instgem.mvin address = -8, rows = 1, cols = 1  // error in instgem: -8 does not fit

instgem.mvin cols = 16  // error in instgem: at least one of its rows

instgem.mvout rows = 16  // error in instgem: at least one of its cols

instgem.mvin2 rows = 16, cols = 0  // error in instgem: at least one of its cols

instgem.mvout_spad cols = 16  // error in instgem: at least one of its rows

instgem.config_ld state = 3  // error in instgem: no load state 3

instgem.config_ex dataflow = 1, a_transpose = 1, b_transpose = 1  // error in instgem: cannot transpose both

instgem.config_ex b_transpose = 1  // error in instgem: only together with A

%i = arith.constant 3 : index
instgem.mvin rows = %i, cols = 1  // error in instgem: i64|index

%i = arith.constant 3 : i32
instgem.mvin rows = %i, cols = 1  // error in instgem: i64|i32

instgem.mvin rows = %rows, cols = 1  // error in instgem anywhere: rows

instgem.mvin rows = 1, cols = 1 -> i64  // error in instgem: .

%x = instgem.counter_op index = 1  // error in instgem anywhere: ->|expected|Expected

instgem.fence %a  // error in instgem: .

"instgem.mvin"() <{known = array<i64: 1, 2>}> : () -> ()  // error in instgem: 4 fields, `known` lists 2

"instgem.mvin"(%a) <{known = array<i64: 1, 2, 3, 4>}> : (i64) -> ()  // error in instgem: 0 computed fields of MVIN, but 1 values

"instgem.mvin"() <{known = array<i64: -9223372036854775808, 2, 3, 4>}> : () -> ()  // error in instgem: 1 computed fields of MVIN, but 0 values

"instgem.mvin"() <{known = array<i64: 0, 0, 1, 65536>}> : () -> ()  // error in instgem: 'rows' of MVIN has 16 bits

"instgem.mvin"() : () -> ()  // error in instgem: known

"instgem.mvin"() <{known = array<i32: 1, 2, 3, 4>}> : () -> ()  // error in instgem: .

llvm.inline_asm has_side_effects "nop", "" : () -> ()  // error in instgem: llvm.inline_asm

instgem.fence  // error in baco: instgem.fence cannot occur

instgem.fence  // error in linalg: instgem.fence cannot occur

%m = memref.alloc() : memref<4xi64>  // error in instgem: memref.alloc cannot

%t = tensor.empty() : tensor<4xi64>  // error in instgem: tensor.empty cannot

%t = tensor.empty() : tensor<4xi64>  // error in baco: tensor.empty cannot
