"""What calls of the host's functions do, counted by formula, against loops that really run."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

from baco.compiler.host_core import LINE_BYTES
from baco.compiler.ops.arithmetic import fixed_point
from baco.compiler.ops.elementwise import Map, copy_call
from baco.compiler.ops.host_model import host_cycles
from baco.compiler.ops.host_work import OperandWalk, line_misses
from baco.compiler.ops.operator import IntegerTensor
from baco.compiler.ops.rows import Normalisation, Reduction, Softmax
from baco.compiler.ops.views import View, dense


def simulated_misses(operands: list[OperandWalk]) -> int:
    """64 sets of 8 lines, least recently used goes first."""
    sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(64)]
    bases = {place: 64 * 100_003 * (n + 1) for n, place in enumerate({one.place: 0 for one in operands})}
    misses = 0
    for index in itertools.product(*(range(n) for n in operands[0].extents)):
        for one in operands:
            at = bases[one.place] + sum(i * s for i, s in zip(index, one.strides, strict=True))
            line = at // LINE_BYTES
            lines = sets[line % 64]
            if line in lines:
                lines.move_to_end(line)
                continue
            misses += 1
            lines[line] = None
            if len(lines) > 8:
                lines.popitem(last=False)
    return misses


@pytest.mark.parametrize(
    ("extents", "strides"),
    [
        ((4000,), ((1,), (1,))),
        ((100, 30), ((40, 1), (30, 1))),
        ((64, 300), ((300, 1), (0, 1))),  # a row that stays
        ((40, 2000), ((0, 4), (2000, 1))),  # rows of 8000 bytes that stay, beside others
        ((6, 9000), ((0, 4), (9000, 1))),  # 36,000 bytes do not
        ((300, 200), ((1, 300), (200, 1))),  # a transposition within the cache
        ((500, 40), ((1, 2048), (40, 1))),  # lines of one column that fall into two sets
        ((20, 49), ((64, 2048), (1, 0))),
    ],
)
def test_misses(extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> None:
    operands = [OperandWalk(n, extents, one) for n, one in enumerate(strides)]
    assert line_misses(operands) == pytest.approx(simulated_misses(operands), rel=0.2, abs=4)


def test_one_place_is_fetched_once() -> None:
    one = OperandWalk("here", (1000,), (1,))
    assert line_misses([one, one]) == line_misses([one])
    assert line_misses([one, OperandWalk("there", (1000,), (1,))]) == 2 * line_misses([one])


def test_amounts() -> None:
    x = View("x", (6, 5, 40), (400, 40, 1))
    y = dense("y", (6, 5, 40))
    table = dense("t", (256,))
    work = Map("m", (), y, x, table).host_call({}).work
    assert work.variant == "net_map dense"
    # rows of 200 elements in both, of which 8 are left when 16 go together
    assert work.amounts == {"calls": 1, "rows": 6, "elements": 1200, "rest": 48}
    work = Softmax("s", (), y, x, dense("e", (256,)), 2**24).host_call({}).work
    assert (work.variant, work.amounts["rows"], work.amounts["elements"]) == ("net_softmax dense", 30, 1200)
    gain, shift = dense("g", (40,)).expanded(x.shape), dense("h", (40,)).expanded(x.shape)
    work = Normalisation("n", (), y, x, gain, shift, 1, True, 1, 20).host_call({}).work
    assert (work.variant, work.amounts["rows"], work.amounts["elements"]) == ("net_normalise dense", 30, 1200)


def test_averages_of_images_go_by_lines() -> None:
    image = dense("x", (1, 7, 7, 512)).transposed((0, 3, 1, 2))
    op = Reduction("r", (), dense("y", (1, 512)), image, "sum", 2, fixed_point(0.02))
    work = op.host_call({}).work
    assert work.variant == "net_reduce together sum"
    whole = {"calls": 1, "results": 512, "visits": 8 * 49}
    assert work.amounts == whole | {"elements": 0, "quick_elements": 49 * 512}
    work = replace(op, input=replace(image, offset=4)).host_call({}).work  # not aligned
    assert work.amounts == whole | {"elements": 49 * 512, "quick_elements": 0}
    assert work.misses(["x", "y"]) == pytest.approx((49 + 1) * 512 / LINE_BYTES, rel=0.1)


def test_an_operand_in_place_is_fetched_once() -> None:
    call = Map("m", (), dense("y", (4096,)), dense("x", (4096,)), dense("t", (256,))).host_call({})
    apart, in_place = (call.work.misses(places) for places in (("x", "t", "y"), ("x", "t", "x")))
    assert apart - in_place == pytest.approx(4096 / LINE_BYTES, abs=1)


def test_variants_that_were_never_measured() -> None:
    values = {"y": IntegerTensor("y", (7, 9), "int64"), "x": IntegerTensor("x", (7, 9), "int64")}
    work = copy_call(dense("x", (7, 9)), dense("y", (7, 9)), values).work
    assert work.variant == "net_copy dense 8"  # as the slowest copy
    assert host_cycles(work, work.misses(["x", "y"])) > 0


def test_more_work_takes_longer() -> None:
    table = dense("t", (256,))
    cycles = []
    for n in np.geomspace(16, 2**16, 9).astype(int):
        work = Map("m", (), dense("y", (int(n),)), dense("x", (int(n),)), table).host_call({}).work
        cycles.append(host_cycles(work, work.misses(["x", "t", "y"])))
    assert cycles == sorted(cycles)
