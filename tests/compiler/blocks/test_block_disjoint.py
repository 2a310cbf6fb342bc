"""Stores that write every element once, against going through all elements one by one."""

from __future__ import annotations

import itertools
import random

import pytest
from xdsl.dialects import memref, scf

from baco.compiler.blocks.disjoint import writes_once
from tests.compiler.ir.ir_helpers import parsed
from tests.seeds import seeds


def _random_store(seed: int) -> tuple[str, bool]:
    """Text of a store in two loops, and whether it writes every element once."""
    draw = random.Random(seed)
    ends, steps = [draw.randint(1, 5) for _ in range(2)], [draw.randint(1, 2) for _ in range(2)]
    factors = [draw.choice((0, 1, 2, 3, 4, 8, 12)) for _ in range(2)]
    divisor = draw.choice((1, 2, 3))
    pitch, rows, columns = draw.choice((1, 3, 4, 16)), draw.randint(1, 3), draw.randint(1, 4)
    limit = draw.randint(1, 4)
    text = f"""
func.func @f(%p: memref<4096xi8>, %v: memref<?x{columns}xi8>) {{
  %zero = arith.constant 0 : index
  %d = arith.constant {divisor} : index
  %rows = arith.constant {rows} : index
  %limit = arith.constant {limit} : index
  %e0 = arith.constant {ends[0]} : index
  %e1 = arith.constant {ends[1]} : index
  %s0 = arith.constant {steps[0]} : index
  %s1 = arith.constant {steps[1]} : index
  %f0 = arith.constant {factors[0]} : index
  %f1 = arith.constant {factors[1]} : index
  scf.for %i = %zero to %e0 step %s0 {{
    scf.for %j = %zero to %e1 step %s1 {{
      %q = arith.floordivsi %i, %d : index
      %r = arith.remsi %j, %d : index
      %a = arith.muli %q, %f0 : index
      %b = arith.muli %j, %f1 : index
      %ab = arith.addi %a, %b : index
      %o = arith.addi %ab, %r : index
      %left = arith.subi %limit, %r : index
      %m = arith.minsi %left, %rows : index
      %size = arith.maxsi %m, %zero : index
      %w = memref.reinterpret_cast %p to offset: [%o], sizes: [%size, {columns}], strides: [{pitch}, 1] : memref<4096xi8> to memref<?x{columns}xi8, strided<[{pitch}, 1], offset: ?>>
      "memref.copy"(%v, %w) : (memref<?x{columns}xi8>, memref<?x{columns}xi8, strided<[{pitch}, 1], offset: ?>>) -> ()
    }}
  }}
  func.return
}}"""
    seen: set[int] = set()
    once = True
    for i, j in itertools.product(range(0, ends[0], steps[0]), range(0, ends[1], steps[1])):
        offset = i // divisor * factors[0] + j * factors[1] + j % divisor
        for row, column in itertools.product(range(min(limit - j % divisor, rows)), range(columns)):
            element = offset + row * pitch + column
            once &= element not in seen
            seen.add(element)
    return text, once


@pytest.mark.parametrize("seed", seeds(8, of=60))
def test_random_stores(seed: int) -> None:
    text, once = _random_store(seed)
    module = parsed(text)
    (view,) = [op for op in module.walk() if isinstance(op, memref.ReinterpretCastOp)]
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert writes_once(view, loops[::-1]) == once


def test_both_answers_occur() -> None:
    assert {_random_store(seed)[1] for seed in range(60)} == {False, True}


def test_unknown_places_are_not_trusted() -> None:
    module = parsed("""
func.func @f(%p: memref<9xi8>, %n: index, %v: memref<2xi8>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  scf.for %i = %zero to %two step %one {
    %o = arith.muli %i, %n : index
    %w = memref.reinterpret_cast %p to offset: [%o], sizes: [2], strides: [1] : memref<9xi8> to memref<2xi8, strided<[1], offset: ?>>
    "memref.copy"(%v, %w) : (memref<2xi8>, memref<2xi8, strided<[1], offset: ?>>) -> ()
  }
  func.return
}""")
    (view,) = [op for op in module.walk() if isinstance(op, memref.ReinterpretCastOp)]
    assert not writes_once(view, [op for op in module.walk() if isinstance(op, scf.ForOp)])
