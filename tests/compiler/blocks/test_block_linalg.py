"""Pointer analysis: what blocks of pointers become at the structured level, and what is refused on the way down."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import memref, scf, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import GenericOp, MatmulOp

from baco.common.errors import BacoError, InfeasibleError, InputError
from baco.compiler.blocks.indexing import bounds_of
from baco.compiler.codegen.block_program import lower_block_program
from baco.compiler.dialects.context import all_dialects
from baco.compiler.ir.text import check_level, read_ir, write_ir
from baco.compiler.passes.baco_to_linalg import BacoToLinalg
from baco.compiler.passes.linalg_to_instgem import LinalgToInstGem
from tests.compiler.blocks.block_run import machine
from tests.compiler.ir.ir_helpers import parsed
from tests.compiler.kernels import CASES, kinds
from tests.compiler.product_kernels import gemm


def _structured(name: str) -> ModuleOp:
    case = CASES[name](np.random.default_rng(0))
    module = case.launcher.bind(*case.arguments).module()
    BacoToLinalg().apply(all_dialects(), module)
    return module


@pytest.mark.parametrize("name", kinds())
def test_text_of_the_structured_level_reads_back(name: str) -> None:
    module = _structured(name)
    check_level(module, "linalg")
    text = write_ir(module)
    assert write_ir(read_ir(text, "again", all_dialects(), "linalg")) == text


def test_same_input_same_text() -> None:
    assert write_ir(_structured("fused")) == write_ir(_structured("fused"))


def test_strided_views_replace_blocks_of_pointers() -> None:
    module = _structured("A by columns")
    views = [op for op in module.walk() if isinstance(op, memref.ReinterpretCastOp)]
    assert sorted(tuple(one.static_strides.get_values()) for one in views) == [(1, 13), (10, 1), (10, 1)]
    assert not [op for op in module.walk() if op.dialect_name() == "baco"]
    generics = [op for op in module.walk() if isinstance(op, GenericOp)]
    assert len(generics) == 2, "only the widening of the factors is left of the elementwise operations"
    (product,) = [op for op in module.walk() if isinstance(op, MatmulOp)]
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp) and op.iter_args]
    assert product.outputs[0] is loop.body.block.args[1], "the sum is the product's own accumulator"
    assert len(loop.iter_args) == 1, "offsets follow from the loop's number and are not carried"


def test_whole_blocks_are_static() -> None:
    case = gemm(np.random.default_rng(0), (32, 48, 64), (16, 16, 32))
    module = case.launcher.bind(*case.arguments).module()
    BacoToLinalg().apply(all_dialects(), module)
    assert not [op for op in module.walk() if isinstance(op, tensor.PadOp)]
    for op in module.walk():
        if isinstance(op, memref.ReinterpretCastOp):
            assert not op.sizes, "sizes are known, since the blocks divide the matrix"


def test_grid_becomes_loops_with_axis_0_innermost() -> None:
    module = _structured("batched")
    outer = next(op for op in module.walk() if isinstance(op, scf.ForOp))
    assert outer.body.block.args[0].name_hint == "pid2"
    assert bounds_of(outer.body.block.args[0]) == (0, 2)


def test_gathers_stay_element_by_element() -> None:
    module = _structured("gather")
    loads = [op for op in module.walk() if isinstance(op, memref.LoadOp)]
    assert len(loads) == 1
    assert isinstance(loads[0].parent_op(), scf.IfOp), "masked elements are not touched"


STRIDED = """
func.func @k(%p: !baco.ptr<i8>, %q: !baco.ptr<i8>) attributes {baco.grid = array<i64: 3>, baco.sizes = array<i64: 99, 99>} {
  %pid = baco.program_id 0
  %r = baco.arange 2 to 6 : tensor<4xindex>
  %c5 = arith.constant 5 : index
  %s = baco.splat %c5 : index to tensor<4xindex>
  %five = baco.mul %s, %r : tensor<4xindex>
  %b = baco.splat %pid : index to tensor<4xindex>
  %o = baco.sub %five, %b : tensor<4xindex>
  %ps = baco.splat %p : !baco.ptr<i8> to tensor<4x!baco.ptr<i8>>
  %pp = baco.addptr %ps, %o : tensor<4x!baco.ptr<i8>>, tensor<4xindex>
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %v = baco.load %pp low [%c1] high [%c3] other 7 : tensor<4x!baco.ptr<i8>> to tensor<4xi8>
  %qs = baco.splat %q : !baco.ptr<i8> to tensor<4x!baco.ptr<i8>>
  %qq = baco.addptr %qs, %r : tensor<4x!baco.ptr<i8>>, tensor<4xindex>
  baco.store %v to %qq : tensor<4xi8> to tensor<4x!baco.ptr<i8>>
  func.return
}
"""


def test_strides_offsets_and_windows_of_a_plain_access() -> None:
    module = parsed(STRIDED)
    BacoToLinalg().apply(all_dialects(), module)
    first, second = [op for op in module.walk() if isinstance(op, memref.ReinterpretCastOp)]
    assert list(first.static_strides.get_values()) == [5]
    assert list(first.static_sizes.get_values()) == [2]
    # base 10 - pid, and one element of five further because the first element is outside
    assert bounds_of(first.offsets[0]) == (13, 15)
    assert (list(second.static_offsets.get_values()), list(second.static_sizes.get_values())) == ([2], [4])
    (pad,) = [op for op in module.walk() if isinstance(op, tensor.PadOp)]
    assert (list(pad.static_low.get_values()), list(pad.static_high.get_values())) == ([1], [1])


BAD_BACO = {
    "sizes": (
        "func.func @k(%p: !baco.ptr<i8>) attributes {baco.grid = array<i64: 1>, baco.sizes = array<i64: 1, 2>} { func.return }",
        "kernel 'k' has 1 arguments, but baco.sizes lists 2",
    ),
    "carried pointer": (
        """func.func @k(%p: !baco.ptr<i8>) attributes {baco.grid = array<i64: 1>, baco.sizes = array<i64: 9>} {
  %a = arith.constant 0 : index
  %b = arith.constant 2 : index
  %c = arith.constant 1 : index
  %r = scf.for %i = %a to %b step %c iter_args(%q = %p) -> (!baco.ptr<i8>) {
    %n = baco.addptr %q, %c : !baco.ptr<i8>, index
    scf.yield %n : !baco.ptr<i8>
  }
  func.return
}""",
        "a loop carries a pointer",
    ),
    "branch": (
        """func.func @k(%p: !baco.ptr<i8>) attributes {baco.grid = array<i64: 1>, baco.sizes = array<i64: 9>} {
  %t = arith.constant true
  scf.if %t {
    scf.yield
  }
  func.return
}""",
        "block programs have no operation 'scf.if'",
    ),
    "no grid": (
        "func.func @k(%p: !baco.ptr<i8>) attributes {baco.grid = array<i64: 1>} { func.return }",
        "is no kernel: it lacks",
    ),
    "argument": (
        "func.func @k(%p: i64) attributes {baco.grid = array<i64: 1>, baco.sizes = array<i64: 1>} { func.return }",
        "argument 0 of kernel 'k' is a i64, not a pointer",
    ),
    "operation": (
        """func.func @k(%p: !baco.ptr<i8>) attributes {baco.grid = array<i64: 1>, baco.sizes = array<i64: 1>} {
  %x = "arith.constant"() <{value = 0 : i32}> : () -> i32
  %y = "math.absi"(%x) : (i32) -> i32
  func.return
}""",
        "block programs have no operation 'math.absi'",
    ),
}


@pytest.mark.parametrize("name", BAD_BACO)
def test_what_is_no_block_program(name: str) -> None:
    text, message = BAD_BACO[name]
    module = parsed(text)
    with pytest.raises(InputError, match=message) as caught:
        BacoToLinalg().apply(all_dialects(), module)
    assert caught.value.location is not None
    assert caught.value.location.line


BAD_LINALG = {
    "memory": (
        """func.func @k(%p: memref<4xi32>) {
  %c = arith.constant 0 : i32
  linalg.fill ins(%c : i32) outs(%p : memref<4xi32>)
  func.return
}""",
        "'linalg.fill' must work on tensors here",
    ),
    "dynamic": (
        """func.func @k(%p: memref<4xi32>, %n: index) {
  %c = arith.constant 0 : i32
  %e = tensor.empty(%n) : tensor<?xi32>
  %f = linalg.fill ins(%c : i32) outs(%e : tensor<?xi32>) -> tensor<?xi32>
  func.return
}""",
        "needs blocks of known shape",
    ),
    "two dimensions": (
        """func.func @k(%p: memref<4x4xi32>) {
  %c = arith.constant 0 : index
  %x = memref.load %p[%c, %c] : memref<4x4xi32>
  func.return
}""",
        "elements are accessed in arguments of one dimension only",
    ),
    "index": (
        """func.func @k(%p: memref<4xi32>) {
  %e = tensor.empty() : tensor<4xi32>
  %c = arith.constant 0 : i32
  %f = linalg.fill ins(%c : i32) outs(%e : tensor<4xi32>) -> tensor<4xi32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0 floordiv 2)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%f : tensor<4xi32>) outs(%e : tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    linalg.yield %a : i32
  } -> tensor<4xi32>
  %v = memref.reinterpret_cast %p to offset: [0], sizes: [4], strides: [1] : memref<4xi32> to memref<4xi32, strided<[1]>>
  %t = bufferization.to_buffer %s : tensor<4xi32> to memref<4xi32>
  "memref.copy"(%t, %v) : (memref<4xi32>, memref<4xi32, strided<[1]>>) -> ()
  func.return
}""",
        "is no sum of multiples of iterations",
    ),
    "operation": (
        """func.func @k(%p: memref<4xi32>) {
  %e = tensor.empty() : tensor<4xi32>
  %x = "tensor.insert_slice"(%e, %e) <{static_offsets = array<i64: 0>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  func.return
}""",
        "'tensor.insert_slice' cannot be compiled to commands",
    ),
    "tensor of an argument": (
        """func.func @k(%p: memref<4xi32>) {
  %t = bufferization.to_tensor %p restrict : memref<4xi32> to tensor<4xi32>
  func.return
}""",
        "this is no load of a block from a view of an argument",
    ),
}


@pytest.mark.parametrize("name", BAD_LINALG)
def test_what_cannot_become_commands(name: str) -> None:
    text, message = BAD_LINALG[name]
    module = parsed(text)
    with pytest.raises(InputError, match=message) as caught:
        LinalgToInstGem(machine(4)).apply(all_dialects(), module)
    assert caught.value.location is not None
    assert caught.value.location.line


def test_blocks_beyond_the_local_memories_are_refused() -> None:
    case = gemm(np.random.default_rng(0), (64, 64, 64), (64, 64, 64))
    module = case.launcher.bind(*case.arguments).module()
    small = machine(4, scratchpad_kib=64, accumulator_kib=4)
    with pytest.raises(InfeasibleError) as caught:
        lower_block_program(module, small)
    assert (
        "a block of 64 x 64 int32 needs 1024 rows of the accumulator, which has 256 rows, 0 of them in use"
        in str(caught.value)
    )
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("product_kernels.py")


def test_pass_reads_a_configuration_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "machine.yaml"
    file.write_text(machine(8).to_yaml(), encoding="utf-8")
    texts = []
    for option in (str(file), machine(8)):
        module = _structured("fused")
        LinalgToInstGem(option).apply(all_dialects(), module)
        texts.append(write_ir(module))
    assert texts[0] == texts[1]
    check_level(module, "instgem")
    with pytest.raises(BacoError):
        LinalgToInstGem(str(tmp_path / "none.yaml")).apply(all_dialects(), _structured("add int8"))
