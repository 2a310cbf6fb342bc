"""The baco dialect: its text is read back as it is written, and what is ill-formed is refused with the reason."""

import numpy as np
import pytest

import baco
from baco.common.errors import InputError
from baco.compiler.dialects.baco import Baco
from baco.compiler.dialects.context import all_dialects
from baco.compiler.ir.text import read_ir, write_ir
from tests.compiler import product_kernels as kernels

HEADER = """func.func @k(%p: !baco.ptr<i8>, %q: !baco.ptr<i32>, %n: index, %v: i32, %b: tensor<4x8xi8>, %w: tensor<8x4xi8>,
    %s: tensor<4x4xi32>, %o: tensor<4x8xindex>, %m: tensor<4x8xi1>, %u: tensor<4x8xui8>)
    attributes {baco.grid = array<i64: 3, 2>, baco.sizes = array<i64: 64, 64>} {
"""
FOOTER = "\n  func.return\n}\n"

#: (operation, the same with a mistake, what is said about it).
CASES = [
    ("%r = baco.program_id 1", "%r = baco.program_id 2", "axis 2 of a grid of 2 axes"),
    ("%r = baco.program_id 0", "%r = baco.program_id -1", "counts from 0"),
    ("%r = baco.arange 0 to 4 : tensor<4xindex>", "%r = baco.arange 0 to 4 : tensor<5xindex>", "gives tensor<4xindex>"),
    ("%r = baco.arange 2 to 4 : tensor<2xindex>", "%r = baco.arange 4 to 2 : tensor<2xindex>", "needs end > start"),
    ("%r = baco.arange 2 to 4 : tensor<2xindex>", "%r = baco.arange 2 to 4 : tensor<2xi32>", "gives tensor<2xindex>"),
    ("%r = baco.splat %v : i32 to tensor<4xi32>", "%r = baco.splat %v : i32 to tensor<4xi8>", "cannot give"),
    ("%r = baco.splat %v : i32 to tensor<4xi32>", "%r = baco.splat %v : i32 to tensor<?xi32>", "known and positive"),
    (
        "%r = baco.splat %p : !baco.ptr<i8> to tensor<2x!baco.ptr<i8>>",
        "%r = baco.splat %p : !baco.ptr<i8> to tensor<2x!baco.ptr<i32>>",
        "cannot give",
    ),
    (
        "%r = baco.expand_dims %b at 1 : tensor<4x8xi8> to tensor<4x1x8xi8>",
        "%r = baco.expand_dims %b at 1 : tensor<4x8xi8> to tensor<1x4x8xi8>",
        "cannot give",
    ),
    (
        "%r = baco.expand_dims %b at 2 : tensor<4x8xi8> to tensor<4x8x1xi8>",
        "%r = baco.expand_dims %b at 3 : tensor<4x8xi8> to tensor<4x8x1xi8>",
        "axis 3 does not exist",
    ),
    (
        "%r = baco.broadcast %b : tensor<4x8xi8> to tensor<4x8xi8>",
        "%r = baco.broadcast %b : tensor<4x8xi8> to tensor<8x8xi8>",
        "cannot be broadcast",
    ),
    (
        "%r = baco.broadcast %b : tensor<4x8xi8> to tensor<4x8xi8>",
        "%r = baco.broadcast %b : tensor<4x8xi8> to tensor<4x8xi32>",
        "cannot be broadcast",
    ),
    (
        "%r = baco.trans %b {permutation = array<i64: 1, 0>} : tensor<4x8xi8> to tensor<8x4xi8>",
        "%r = baco.trans %b {permutation = array<i64: 1, 0>} : tensor<4x8xi8> to tensor<4x8xi8>",
        "gives tensor<8x4xi8>",
    ),
    (
        "%r = baco.trans %b {permutation = array<i64: 0, 1>} : tensor<4x8xi8> to tensor<4x8xi8>",
        "%r = baco.trans %b {permutation = array<i64: 0, 0>} : tensor<4x8xi8> to tensor<4x8xi8>",
        "no permutation",
    ),
    ("%r = baco.addptr %p, %n : !baco.ptr<i8>, index", "%r = baco.addptr %p, %v : !baco.ptr<i8>, i32", "type index"),
    ("%r = baco.addptr %p, %n : !baco.ptr<i8>, index", "%r = baco.addptr %v, %n : i32, index", "expected a pointer"),
    (
        "%r = baco.load %p : !baco.ptr<i8> to i8",
        "%r = baco.load %p : !baco.ptr<i8> to i32",
        "a load from !baco.ptr<i8> cannot give i32",
    ),
    ("%r = baco.load %p : !baco.ptr<i8> to i8", "%r = baco.load %v : i32 to i8", "expected a pointer"),
    (
        "%r = baco.load %p other 5 : !baco.ptr<i8> to i8",
        "%r = baco.load %p other 500 : !baco.ptr<i8> to i8",
        "`other` = 500 does not fit i8",
    ),
    (
        "%r = baco.load %p : !baco.ptr<i8> to i8",
        "%r = baco.load %p high[%n] : !baco.ptr<i8> to i8",
        "each of the 0 dimensions, got 1",
    ),
    (
        "%r = baco.load %p : !baco.ptr<i8> to i8",
        "%r = baco.load %p mask %m : tensor<4x8xi1> : !baco.ptr<i8> to i8",
        "the mask of",
    ),
    (
        "baco.store %v to %q : i32 to !baco.ptr<i32>",
        "baco.store %v to %p : i32 to !baco.ptr<i8>",
        "i32 cannot be stored to !baco.ptr<i8>",
    ),
    (
        "baco.store %v to %q : i32 to !baco.ptr<i32>",
        "baco.store %v to %q low[%n] : i32 to !baco.ptr<i32>",
        "`low` needs a bound for each of the 0",
    ),
    (
        "%r = baco.dot %b, %w : tensor<4x8xi8>, tensor<8x4xi8> to tensor<4x4xi32>",
        "%r = baco.dot %b, %b : tensor<4x8xi8>, tensor<4x8xi8> to tensor<4x8xi32>",
        "do not agree for a matrix product",
    ),
    (
        "%r = baco.dot %b, %w acc %s : tensor<4x4xi32> : tensor<4x8xi8>, tensor<8x4xi8> to tensor<4x4xi32>",
        "%r = baco.dot %b, %w acc %b : tensor<4x8xi8> : tensor<4x8xi8>, tensor<8x4xi8> to tensor<4x4xi32>",
        "accumulator of this product must be",
    ),
    (
        "%r = baco.dot %u, %w : tensor<4x8xui8>, tensor<8x4xi8> to tensor<4x4xi32>",
        "%r = baco.dot %s, %s : tensor<4x4xi32>, tensor<4x4xi32> to tensor<4x4xi32>",
        "expected one of i8, ui8",
    ),
    (
        "%r = baco.dot %b, %w : tensor<4x8xi8>, tensor<8x4xi8> to tensor<4x4xi32>",
        "%r = baco.dot %b, %w : tensor<4x8xi8>, tensor<8x4xi8> to tensor<4x4xi8>",
        "gives tensor<4x4xi32>",
    ),
    ('%r = baco.cmp "lt" %o, %o : tensor<4x8xindex> to tensor<4x8xi1>', '%r = baco.cmp "less" %o, %o : tensor<4x8xindex> to tensor<4x8xi1>', "no comparison 'less'"),
    ('%r = baco.cmp "ge" %v, %v : i32 to i1', '%r = baco.cmp "ge" %v, %v : i32 to i32', "cannot give"),
    (
        "%r = baco.select %m, %b, %b : tensor<4x8xi1>, tensor<4x8xi8>",
        "%r = baco.select %b, %b, %b : tensor<4x8xi8>, tensor<4x8xi8>",
        "needs a condition",
    ),
    ("%r = baco.cast %b : tensor<4x8xi8> to tensor<4x8xi32>", "%r = baco.cast %b : tensor<4x8xi8> to tensor<8x4xi32>", "keeps the shape"),
    ("%r = baco.cast %v : i32 to ui8", "%r = baco.cast %v : i32 to f32", "elements of floating point are cast to f32, not i32 to f32"),
    (
        "%r = baco.requantize %s by 5.000000e-01 : tensor<4x4xi32> to tensor<4x4xi8>",
        "%r = baco.requantize %b by 5.000000e-01 : tensor<4x8xi8> to tensor<4x8xi8>",
        "expected one of i32",
    ),
    (
        "%r = baco.requantize %v by 5.000000e-01 : i32 to i8",
        "%r = baco.requantize %v by 5.000000e-01 : i32 to i32",
        "cannot give",
    ),
    (
        '%r = baco.reduce "sum" %b along 1 : tensor<4x8xi8> to tensor<4xi32>',
        '%r = baco.reduce "sum" %b along 1 : tensor<4x8xi8> to tensor<4xi8>',
        "this reduction gives tensor<4xi32>",
    ),
    (
        '%r = baco.reduce "sum" %b along 1 : tensor<4x8xi8> to tensor<4xi32>',
        '%r = baco.reduce "sum" %b along 2 : tensor<4x8xi8> to tensor<4xi32>',
        "axis 2 does not exist",
    ),
    (
        '%r = baco.reduce "max" %b along 1 : tensor<4x8xi8> to tensor<4xi8>',
        '%r = baco.reduce "mean" %b along 1 : tensor<4x8xi8> to tensor<4xi32>',
        "no reduction",
    ),
    (
        '%r = baco.softmax %b by 5.000000e-02 into 1.000000e-02 : tensor<4x8xi8> to tensor<4x8xi8>',
        '%r = baco.softmax %s by 5.000000e-02 into 1.000000e-02 : tensor<4x4xi32> to tensor<4x4xi32>',
        "expected one of i8",
    ),
    (
        '%r = baco.softmax %b by 5.000000e-02 into 1.000000e-02 : tensor<4x8xi8> to tensor<4x8xi8>',
        '%r = baco.softmax %b by -5.000000e-02 into 1.000000e-02 : tensor<4x8xi8> to tensor<4x8xi8>',
        "scales of a softmax are positive",
    ),
    (
        '%r = baco.softmax %b mask %m : tensor<4x8xi1> by 5.000000e-02 into 1.000000e-02 : tensor<4x8xi8> to tensor<4x8xi8>',
        '%r = baco.softmax %b mask %b : tensor<4x8xi8> by 5.000000e-02 into 1.000000e-02 : tensor<4x8xi8> to tensor<4x8xi8>',
        "must have its shape and type i1",
    ),
    *[
        (f"%r = baco.{name} %b, %b : tensor<4x8xi8>", f"%r = baco.{name} %p, %p : !baco.ptr<i8>", "elements of type !baco.ptr<i8>")
        for name in ("add", "sub", "mul", "floordiv", "mod", "maximum", "minimum", "and", "or", "xor", "shl", "shr")
    ],
    ("%r = baco.splat %p : !baco.ptr<i8> to tensor<1x!baco.ptr<i8>>", "%r = baco.splat %n : index to tensor<1x!baco.ptr<f64>>", "a pointer points to i8, ui8, i16, i32, f8E4M3FN, f8E5M2, bf16 or f32"),
]  # fmt: skip


def module_of(operation: str) -> str:
    return HEADER + "  " + operation + FOOTER


def read(text: str) -> str:
    return write_ir(read_ir(text, "test.mlir", all_dialects()))


@pytest.mark.parametrize("index", range(len(CASES)))
def test_text_is_read_back(index: int) -> None:
    written = read(module_of(CASES[index][0]))
    assert read(written) == written
    # names of values differ, nothing else
    name = CASES[index][0].split("baco.")[1].split(" ")[0]
    assert f"baco.{name} " in written


@pytest.mark.parametrize("index", range(len(CASES)))
def test_mistakes_are_refused(index: int) -> None:
    _, wrong, reason = CASES[index]
    with pytest.raises(InputError) as caught:
        read(module_of(wrong))
    assert reason in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line == HEADER.count("\n") + 1


def test_every_operation_is_here() -> None:
    texts = " ".join(case[0] + " " for case in CASES)
    for operation in Baco.operations:
        assert f"{operation.name} " in texts


def test_block_programs_of_kernels_are_read_back() -> None:
    a, b, c = np.zeros((20, 30), np.int8), np.zeros((30, 25), np.uint8), np.zeros((20, 25), np.int32)
    grid = (baco.cdiv(20, 16) * baco.cdiv(25, 16),)
    module = kernels.matmul_kernel[grid].module(a, b, c, 20, 25, 30, 30, 1, 25, 1, 25, 1, 16, 16, 16)
    text = write_ir(module)
    assert read(text) == text
    again = kernels.matmul_kernel[grid].module(a, b, c, 20, 25, 30, 30, 1, 25, 1, 25, 1, 16, 16, 16)
    assert write_ir(again) == text, "the same launch gives the same text"
