// Ill-formed modules, one behind each empty line. The error must be at the line that says so, with this reason (a regular expression),
// where the text is read as any level, or as the one named; 'anywhere': at some line.

hello world  // error: not registered|expected|entire input

import baco  // error: not registered|expected|entire input

func.func @f() {
  func.return
}
}  // error: entire input

func.func () {  // error: symbol
  func.return
}

func.func @f(%a) {  // error: expected|Expected
  func.return
}

func.func @f(%a: i64, %a: i64) {  // error: already defined
  func.return
}

func.func @f(%a: i65x) {  // error: type
  func.return
}

func.func @f() {
^bb0(%a: i64:  // error: expected|Expected
  func.return
}

func.func @f() {  // error anywhere: bb7
  cf.br ^bb7
}

func.func @f(%a: i64) {
  instgem.fence  // error: terminat
}

func.func @f() {
  func.return  // error: last
  instgem.fence
  func.return
}

func.func @f(%a: i64) {  // error anywhere: a
  func.return
}
func.func @g() {
  instgem.mvin address = %a, rows = 1, cols = 1
  func.return
}

func.func @f() {
  func.return
}
func.func @f() {  // error: twice|f
  func.return
}

func.func private @g(i32) -> ()
func.func @f(%a: i64) {
  func.call @g(%a) : (i64) -> ()  // error: i32|type
  func.return
}

func.func @f(%a: i64) {
  func.return %a : i64  // error: return|type|match
}

func.func @f(%a: i64, %b: i32) {
  scf.for %i = %a to %b step %a : i64 {  // error: i32|type
  }
  func.return
}

func.func @f(%a: i64) {
  cf.br ^bb1  // error: passes nothing to a block that takes i64
^bb1(%x: i64):
  func.return
}

func.func @f(%c: i1, %a: i64) {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  %x = arith.addi %a, %a : i64
  cf.br ^bb2
^bb2:
  %y = arith.addi %x, %a : i64  // error: not defined there
  func.return
}

func.func @f() {
  cf.br ^bb1  // error: last|terminate
  instgem.fence
^bb1:
  func.return
}

llvm.func @f() {
  instgem.fence  // error in llvm: instgem.fence
  llvm.return
}

func.func @f() {  // error in llvm: func.func cannot occur
  func.return
}

llvm.func @f() {
  %t = tensor.empty() : tensor<4xi64>  // error in llvm: tensor.empty
  llvm.return
}

func.func @f(%p: !baco.ptr<i8>) {
  %x = baco.program_id 0  // error in linalg: baco.program_id cannot
  func.return
}

func.func @f() {
  %x = baco.program_id 0  // error in instgem: baco.program_id cannot
  func.return
}

llvm.func @f() {
  %x = llvm.mlir.constant(1) : i64  // error in llvm: terminat
}

llvm.func @f(%a: i64, %b: i32) {
  %x = llvm.add %a, %b : i64  // error in llvm: i32|type
  llvm.return
}

llvm.func @f(%a: i64) {
  %x = llvm.load %a : i64 -> i8  // error in llvm: ptr
  llvm.return
}

llvm.func @f(%a: i64) {
  llvm.store %a, %a : i64, i64  // error in llvm: ptr
  llvm.return
}

llvm.func @f(%a: i64) {
  %x = llvm.icmp "less" %a, %a : i64  // error in llvm: less
  llvm.return
}

llvm.func @f(%a: i64) {
  llvm.cond_br %a, ^bb1, ^bb1  // error in llvm: i1
^bb1:
  llvm.return
}

llvm.func @f(%a: i64) {
  %x = llvm.zext %a : i64 to i8  // error in llvm: .
  llvm.return
}

llvm.func @f(%a: i8) {
  %x = llvm.trunc %a : i8 to i64  // error in llvm: cast|trunc
  llvm.return
}

llvm.func @f(%a: i64) {
  llvm.call @g(%a) : (i64) -> ()  // error in llvm: g
  llvm.return
}

llvm.func @f() {
  llvm.inline_asm "nop" : () -> ()  // error in llvm: expected|Expected
  llvm.return
}

llvm.func @f() {
  llvm.return
}
llvm.func @f() {  // error in llvm: twice|f
  llvm.return
}

llvm.mlir.global somewhere @x(1 : i64) : i64  // error in llvm: .

llvm.func @f(%a: i64) {
  %x = llvm.add %a, %y : i64  // error in llvm: not defined there
  %y = llvm.add %a, %a : i64
  llvm.return
}
