"""Chains of two products as one unit: results against numpy integers, bytes and accesses against counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.common.errors import InfeasibleError, InputError
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import Program, build_program
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import requantise
from baco.compiler.row_functions import exponentials, numerator_parts, softmax, softmax_numerator
from baco.compiler.styles.fused.chain import ChainSchedule, ProductChain, place_chain
from baco.compiler.styles.fused.chain_code import emit_chain
from baco.compiler.styles.fused.predict import choose_chain, predict_chain
from baco.compiler.styles.fused.products import ChainOperands
from baco.compiler.styles.fused.row_unit import load_table, packed_table
from baco.compiler.styles.fused.text import parse_group_schedule
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem
from tests.machines import WIDE
from tests.seeds import seeds

Array = np.ndarray[Any, Any]
UNITS = Accelerator(
    name="units", dim=4, scratchpad_kib=8, accumulator_kib=8, features={"row_functions": True}
)
UNITS16 = UNITS.replace(dim=16, scratchpad_kib=64, accumulator_kib=64)
TABLE, NUMERATOR = exponentials(0.05), softmax_numerator(1 / 127)


def product(rows: int, depth: int, columns: int, groups: int, **fields: Any) -> Layer:
    scale = float(np.float32(1 / (40 * depth**0.5)))
    return Layer(Problem(P=rows, C=depth, K=columns, groups=groups), scale=scale, **fields)


def chain_of(
    groups: int, rows: int, depth: int, between: int, columns: int, *,
    transposed: tuple[bool, bool] = (True, False), softmax: bool = False, causal: int | None = None, relu: bool = False,
) -> ProductChain:  # fmt: skip
    return ProductChain(
        product(rows, depth, between, groups, weights_transposed=transposed[0], relu=relu),
        product(rows, between, columns, groups, weights_transposed=transposed[1]),
        softmax,
        causal,
    )


def expected(chain: ProductChain, left: Array, first: Array, second: Array) -> Array:
    """The definition, in numpy."""
    sums = left.astype(np.int64) @ first.astype(np.int64)
    assert chain.first.scale is not None
    assert chain.second.scale is not None
    between = requantise(np.maximum(sums, 0) if chain.first.relu else sums, chain.first.scale)
    if chain.softmax:
        part = None
        if chain.causal is not None:
            part = np.broadcast_to(
                np.arange(chain.between) < chain.causal + np.arange(chain.rows)[:, None], between.shape
            )
        between = softmax(between, part, TABLE, NUMERATOR)
    return requantise(between.astype(np.int64) @ second.astype(np.int64), chain.second.scale)


def program(
    chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator, seed: int = 0
) -> tuple[Program, Array]:
    random = np.random.default_rng(seed)
    g, m, k, c, n = chain.groups, chain.rows, chain.depth, chain.between, chain.columns
    left, first, second = (
        random.integers(-128, 128, (g, *shape), dtype=np.int8) for shape in ((m, k), (k, c), (c, n))
    )
    stored = [
        np.ascontiguousarray(weights.transpose(0, 2, 1) if layer.weights_transposed else weights).reshape(-1)
        for weights, layer in ((first, chain.first), (second, chain.second))
    ]
    result = expected(chain, left, first, second)
    buffers = [
        Buffer(name, array.shape, "int8", "input", array)
        for name, array in zip(("left", "first", "second"), (left.reshape(-1), *stored), strict=True)
    ]
    buffers.append(Buffer("output", (result.size,), "int8", "output"))
    buffers.append(Buffer("table", (128,), "int32", "constant", packed_table(TABLE)))
    e = Emitter("chain", [buffer.name for buffer in buffers])
    parts = numerator_parts(NUMERATOR)
    assert parts is not None
    if chain.softmax:
        load_table(e, accelerator, e.arguments[4])
    assert chain.first.scale is not None
    assert chain.second.scale is not None
    scales = (float32_bits(chain.first.scale), float32_bits(chain.second.scale))
    emit_chain(e, chain, schedule, accelerator, ChainOperands(*e.arguments[:4], scales, parts))
    e.fence()
    return build_program(e.finish(), "chain", buffers, accelerator), result


def check(
    chain: ProductChain, schedule: ChainSchedule, accelerator: Accelerator, engine: str, seed: int = 0
) -> dict[str, int]:
    built, result = program(chain, schedule, accelerator, seed)
    outputs, run = run_program(built, engine=engine)
    np.testing.assert_array_equal(outputs["output"].reshape(result.shape), result)
    assert result.std() > 2  # not all saturated, or zero
    return dict(run.activity)


def random_case(random: np.random.Generator) -> tuple[ProductChain, ChainSchedule]:
    dim = UNITS.dim
    softmaxed = random.random() < 0.5
    sizes = [int(random.integers(1, 3)), *(int(random.integers(1, 30)) for _ in range(4))]
    tiles = int(random.integers(1, 4))
    if random.random() < 0.5:
        sizes[3] = dim * tiles * int(random.integers(1, 4))
    whole = sizes[3] % (dim * tiles) != 0
    turned = (bool(random.integers(2)), bool(random.integers(2)))
    causal = int(random.integers(1, 5)) if softmaxed and random.random() < 0.5 else None
    chain = chain_of(
        *sizes, transposed=turned, softmax=softmaxed, causal=causal, relu=bool(random.integers(2))
    )  # type: ignore[arg-type]
    weights = "group" if whole or random.random() < 0.5 else "tile"
    copies = tuple(int(one) for one in random.integers(1, 3, 3))
    rows = dim * int(random.integers(1, 5))
    if softmaxed and random.random() < 0.4:
        rows = int(random.integers(1, dim))
    columns = sizes[3] if whole else sizes[3] // tiles
    if softmaxed and columns < sizes[3]:  # scores in tiles
        return chain, ChainSchedule(-(-rows // dim) * dim, columns, "tile", (2, 2, copies[2]))
    return chain, ChainSchedule(rows, columns, weights, copies)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", seeds(2, of=60))
def test_random_chains_in_random_tiles(seed: int) -> None:
    chain, schedule = random_case(np.random.default_rng(seed))
    built, result = program(chain, schedule, UNITS, seed)
    outputs, _ = run_program(built)
    np.testing.assert_array_equal(outputs["output"].reshape(result.shape), result)


@pytest.mark.parametrize(
    ("chain", "schedule"),
    [
        (chain_of(2, 48, 32, 64, 32, softmax=True), ChainSchedule(16, 64, "group", (2, 1, 2))),
        (chain_of(3, 50, 40, 72, 24, softmax=True, causal=5), ChainSchedule(32, 72, "group", (1, 2, 1))),
        (chain_of(2, 50, 40, 72, 40, softmax=True, causal=5), ChainSchedule(14, 72, "group", (1, 1, 2))),
        (chain_of(1, 50, 40, 72, 24, transposed=(False, True)), ChainSchedule(32, 72, "group", (1, 1, 2))),
        (chain_of(2, 64, 40, 96, 33, transposed=(False, True)), ChainSchedule(32, 32, "tile", (2, 2, 1))),
        pytest.param(
            *(chain_of(2, 64, 40, 96, 33), ChainSchedule(32, 48, "tile", (1, 1, 1))), marks=pytest.mark.slow
        ),
        pytest.param(
            *(chain_of(2, 50, 40, 96, 40, softmax=True), ChainSchedule(32, 32, "tile", (2, 2, 1))),
            marks=pytest.mark.slow,
        ),
        (chain_of(2, 90, 40, 96, 24, softmax=True, causal=5), ChainSchedule(16, 16, "tile", (2, 2, 2))),
    ],
)
def test_chains_in_hardware(chain: ProductChain, schedule: ChainSchedule) -> None:
    check(chain, schedule, WIDE, "rtl")


@pytest.mark.parametrize(
    ("softmaxed", "weights", "causal"),
    [
        (False, "group", None),
        (False, "tile", None),
        (True, "group", None),
        (True, "group", 1),
        (True, "group", 50),
        (True, "tile", None),
        (True, "tile", 50),
    ],
)
def test_bytes_and_accesses_are_those_counted(softmaxed: bool, weights: str, causal: int | None) -> None:
    chain = chain_of(3, 64, 32, 128, 64, softmax=softmaxed, causal=causal)
    whole = softmaxed and weights == "group"
    schedule = ChainSchedule(32, 128 if whole else 32, weights, (2, 1 if whole else 2, 2))  # type: ignore[arg-type]
    counted = check(chain, schedule, WIDE, "rtl")
    cost = predict_chain(chain, schedule, WIDE)
    assert cost.read_bytes == counted["dram_read_bytes"]
    assert cost.written_bytes == counted["dram_write_bytes"]
    assert cost.macs == counted["macs"]
    assert cost.stationary_words == counted["stationary_words"]
    assert cost.softmax_elements == counted["softmax_elements"]
    assert cost.scratchpad_bytes == counted["scratchpad_read_bytes"] + counted["scratchpad_write_bytes"]
    accesses = counted["accumulator_read_words"] + counted["accumulator_write_words"]
    assert accesses - cost.accumulator_words == 2 * 128 * softmaxed  # a table passes through


@pytest.mark.parametrize(("causal", "height"), [(1, 16), (1, 32), (100, 16), (9, 6)])
def test_a_causal_chain_does_what_its_rows_see(causal: int, height: int) -> None:
    """Blocks of scores of which no row of a strip sees an element: counted one by one."""
    chain = chain_of(2, 120, 32, 136, 48, softmax=True, causal=causal)
    schedule = ChainSchedule(height, 136, "group", (2, 1, 1))
    macs = blocks = 0
    for first in range(0, 120, height):
        rows = min(height, 120 - first)
        for column in range(0, 136, 16):
            if column < causal + first + height - 1:
                macs += rows * min(16, 136 - column) * (32 + 48)
                blocks += 2 + 3
    counted = check(chain, schedule, UNITS16, "functional")
    cost = predict_chain(chain, schedule, UNITS16)
    assert cost.macs == 2 * macs == counted["macs"]
    assert cost.stationary_words == 2 * blocks * 256
    whole = predict_chain(replace(chain, causal=None), schedule, UNITS16)
    assert whole.macs == 2 * 120 * 136 * (32 + 48)
    assert cost.cycles < whole.cycles


def test_what_lies_between_stays_on_chip() -> None:
    chain = chain_of(4, 256, 64, 256, 64, softmax=True)
    cost = predict_chain(chain, choose_chain(chain, UNITS16), UNITS16)
    between = 4 * 256 * 256
    alone = 4 * (3 * 256 * 64) + 4 * 256 * 64 + 4 * between  # written, read, written softmaxed, read
    assert cost.read_bytes + cost.written_bytes < 0.25 * alone


def test_chosen_tiles_fit_and_a_chain_that_cannot_is_refused() -> None:
    for sizes in ((1, 197, 64, 197, 64), (2, 64, 16, 48, 16), (1, 512, 64, 256, 64)):
        chain = chain_of(*sizes, softmax=True)  # type: ignore[arg-type]
        schedule = choose_chain(chain, UNITS16)
        used = place_chain(chain, schedule, UNITS16)
        assert used.scratchpad_rows <= UNITS16.scratchpad_rows
        assert used.accumulator_rows <= UNITS16.accumulator_rows
    with pytest.raises(InfeasibleError, match="no tiles of the chain fit"):
        choose_chain(chain_of(1, 64, 16, 4096, 16, softmax=True), UNITS16)
    chain = chain_of(1, 64, 16, 64, 16, softmax=True)
    with pytest.raises(InfeasibleError, match="scores in tiles need whole strips"):
        place_chain(chain, ChainSchedule(16, 32, "group", (1, 1, 1)), UNITS16)
    with pytest.raises(InfeasibleError, match="no units for functions of rows"):
        place_chain(
            chain,
            ChainSchedule(16, 64, "group", (1, 1, 1)),
            UNITS16.replace(features={"row_functions": False}),
        )
    with pytest.raises(InfeasibleError, match=r"does not divide a chain of 64 rows and 64 columns"):
        place_chain(replace(chain, softmax=False), ChainSchedule(16, 24, "group", (1, 1, 1)), UNITS16)
    with pytest.raises(InfeasibleError, match="rows of the accumulator, 64 more than its 1024"):
        place_chain(
            chain_of(1, 64, 16, 512, 16, softmax=True), ChainSchedule(32, 512, "group", (1, 1, 2)), UNITS16
        )


def test_strips_of_few_rows_fit_where_whole_blocks_do_not() -> None:
    """Attention of 512 tokens on 32 x 32 with 32 KiB of sums: a strip of 32 rows would take 64 KiB."""
    small = UNITS.replace(dim=32, scratchpad_kib=128, accumulator_kib=32)
    chain = chain_of(12, 512, 64, 512, 64, softmax=True)
    schedule = choose_chain(chain, small)
    assert schedule.rows == 14  # 16 blocks of sums and 2 of results, in 256 rows
    assert place_chain(chain, schedule, small).accumulator_rows <= 256
    with pytest.raises(InfeasibleError, match="of the accumulator"):
        place_chain(chain, ChainSchedule(32, 512, "group", (1, 1, 1)), small)
    with pytest.raises(InfeasibleError, match="does not divide"):
        place_chain(replace(chain, softmax=False), ChainSchedule(14, 512, "group", (1, 1, 1)), small)


def test_scores_that_do_not_fit_the_accumulator_come_in_tiles() -> None:
    """Rows of 2048 elements: 64 KiB of sums hold 7 of them, with results, less than half an array's side."""
    machine = UNITS16.replace(scratchpad_kib=256)
    chain = chain_of(2, 2048, 64, 2048, 64, softmax=True)
    schedule = choose_chain(chain, machine)
    assert schedule.staged(chain)
    array = 2 * 2048 * 2048 * (64 + 64) / 256
    assert array < predict_chain(chain, schedule, machine).cycles < 1.2 * array
    few = chain_of(2, 256, 64, 256, 64, softmax=True)
    assert not choose_chain(few, machine).staged(few)


def test_chains_are_products_that_follow_each_other() -> None:
    one, two = product(8, 4, 12, 1), product(8, 12, 4, 1)
    with pytest.raises(InputError, match="the first one's K is the second one's C"):
        ProductChain(one, one)
    with pytest.raises(InputError, match="int8 results"):
        ProductChain(replace(one, scale=None), two)
    with pytest.raises(InputError, match="neither bias nor residual"):
        ProductChain(one, replace(two, bias=True))
    with pytest.raises(InputError, match="only a softmax is causal"):
        ProductChain(one, two, causal=1)


def test_texts_of_schedules_are_read_back() -> None:
    for schedule in (ChainSchedule(16, 64, "group", (2, 1, 2)), ChainSchedule(4, 8, "tile", (1, 2, 1))):
        assert parse_group_schedule(str(schedule)) == schedule
    for text in (
        "chain 0x4 weights of a group copies 1,1,1",
        "chain 4x4 weights of a group copies 1,1,3",
        "loop_ws 1,1,1",
    ):
        with pytest.raises(InputError, match="is no schedule of a group"):
            parse_group_schedule(text)
