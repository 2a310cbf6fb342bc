"""What calls of the host's functions do, counted by formula, against loops that really run."""

from __future__ import annotations

import itertools
from collections import OrderedDict

import numpy as np
import pytest

from baco.compiler.host_core import LINE_BYTES
from baco.compiler.network.arithmetic import fixed_point
from baco.compiler.network.graph import IntegerTensor, Map, Normalisation, Reduction, Softmax
from baco.compiler.network.host_calls import copy_call, host_call
from baco.compiler.network.host_model import host_cycles
from baco.compiler.network.host_walks import OperandWalk, line_misses
from baco.compiler.network.host_work import host_work
from baco.compiler.network.steps import HostCall
from baco.compiler.network.views import View, dense


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


def words(call: HostCall) -> tuple[str, tuple[int, ...]]:
    return call.function, call.parameters


def test_amounts() -> None:
    x = View("x", (6, 5, 40), (400, 40, 1))
    y = dense("y", (6, 5, 40))
    table = dense("t", (256,))
    function, parameters = words(host_call(Map("m", (), y, x, table), {}))
    work = host_work(function, parameters, ["x", "t", "y"])
    assert work is not None
    assert work.variant == "net_map dense"
    assert work.amounts == {"calls": 1, "rows": 6, "elements": 1200}  # rows of 200 elements in both
    call = host_call(Softmax("s", (), y, x, dense("e", (256,)), 2**24), {})
    work = host_work(*words(call), ["x", "e", None, "y"])
    assert work is not None
    assert (work.variant, work.amounts["rows"], work.amounts["elements"]) == ("net_softmax dense", 30, 1200)
    gain, shift = dense("g", (40,)).expanded(x.shape), dense("h", (40,)).expanded(x.shape)
    call = host_call(Normalisation("n", (), y, x, gain, shift, 1, True, 1, 20), {})
    work = host_work(*words(call), ["x", "g", "h", "y"])
    assert work is not None
    assert (work.variant, work.amounts["rows"], work.amounts["elements"]) == ("net_normalise dense", 30, 1200)


def test_averages_of_images_go_by_lines() -> None:
    image = dense("x", (1, 7, 7, 512)).transposed((0, 3, 1, 2))
    op = Reduction("r", (), dense("y", (1, 512)), image, "sum", 2, fixed_point(0.02))
    work = host_work(*words(host_call(op, {})), ["x", "y"])
    assert work is not None
    assert work.variant == "net_reduce together sum"
    whole = {"calls": 1, "results": 512, "visits": 8 * 49}
    assert work.amounts == whole | {"elements": 0, "quick_elements": 49 * 512}
    work = host_work(*words(host_call(op, {})), [(0, 4), "y"])  # not aligned
    assert work is not None
    assert work.amounts == whole | {"elements": 49 * 512, "quick_elements": 0}
    assert work.misses == pytest.approx((49 + 1) * 512 / LINE_BYTES, rel=0.1)


def test_unknown_functions_and_variants() -> None:
    assert host_work("net_nothing", (), []) is None
    values = {"y": IntegerTensor("y", (7, 9), "int64"), "x": IntegerTensor("x", (7, 9), "int64")}
    call = copy_call(dense("x", (7, 9)), dense("y", (7, 9)), values)
    work = host_work(*words(call), ["x", "y"])
    assert work is not None
    assert work.variant == "net_copy dense 8"  # never measured: as the slowest copy
    assert host_cycles(work) > 0


def test_more_work_takes_longer() -> None:
    table = dense("t", (256,))
    cycles = []
    for n in np.geomspace(16, 2**16, 9).astype(int):
        call = host_call(Map("m", (), dense("y", (int(n),)), dense("x", (int(n),)), table), {})
        work = host_work(*words(call), ["x", "t", "y"])
        assert work is not None
        cycles.append(host_cycles(work))
    assert cycles == sorted(cycles)
