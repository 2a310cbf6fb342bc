"""Illegal commands end a run on both engines with the same error, which names the same command."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from baco.accel.config import Accelerator
from baco.accel.isa import COMMANDS, IDENTITY_SCALE, Command, encode, find_command_type
from baco.accel.legality.errors import ERRORS, MAIN_MEMORY
from baco.exploration.cosim import run_campaign
from baco.exploration.executors.executor_choice import LOCAL
from baco.main import run as baco
from baco.sim.cosim.accelerators import random_accelerator
from baco.sim.cosim.illegal import illegal_stream
from baco.sim.cosim.minimise import minimise
from baco.sim.cosim.run import Simulator
from baco.sim.cosim.stream import BASE, MEMORY_BYTES, FlippedResult, Item, Stream, describe, parse_stream
from baco.sim.engines.base import run_job
from baco.sim.job import Job, MainMemory, SimulationError
from tests.accel.legality.rule_interpreter import Legality, error_named, parameters
from tests.machines import BLOCKS, NORMAL, SCARCE, WHOLE
from tests.sim.cosim_streams import (
    ACC,
    CONFIG_EX,
    CONFIG_LD,
    CONFIG_OS,
    CONFIG_ST,
    NOWHERE,
    broken_sources,
    compute,
    load,
    preload,
    stream_of,
)

ENGINES = ("functional", "rtl")
ONES = 2**64 - 1
END = BASE + MEMORY_BYTES
RAW = ACC | 1 << 29

LOADS = [encode("CONFIG_LD", block_stride=4, pixel_repeats=1, scale=0x3F800000, stride=4, state=state) for state in range(3)]  # fmt: skip
CONFIGURED = [CONFIG_EX, *LOADS, CONFIG_ST]


def loop_ws(
    *,
    a: int = BASE,
    b: int = BASE,
    d: int = 0,
    c: int = BASE + 4096,
    without: str = "",
    i: int = 1,
    j: int = 1,
    k: int = 1,
    **fields: int,
) -> list[Command]:
    """A product of a block; `without`: the configuration command that is missing."""  # fmt: skip
    commands = {
        "BOUNDS": encode("LOOP_WS_CONFIG_BOUNDS", i=i, j=j, k=k),
        "ADDRS_AB": encode("LOOP_WS_CONFIG_ADDRS_AB", a=a, b=b),
        "ADDRS_DC": encode("LOOP_WS_CONFIG_ADDRS_DC", d=d, c=c),
        "STRIDES_AB": encode("LOOP_WS_CONFIG_STRIDES_AB", a_stride=4, b_stride=4),
        "STRIDES_DC": encode("LOOP_WS_CONFIG_STRIDES_DC", d_stride=4, c_stride=4),
    }
    commands.pop(without, None)
    return [*commands.values(), encode("LOOP_WS", **fields)]


def loop_conv(*, input: int = BASE, without: int = 0, krows: int = 1, **fields: int) -> list[Command]:
    """A convolution of a pixel; `without`: the number of the configuration command that is missing."""
    sizes = {
        "batch_size": 1,
        "in_row_dim": 1,
        "in_channels": 4,
        "out_channels": 4,
        "out_row_dim": 1,
        "out_col_dim": 1,
    }
    commands = [
        encode("LOOP_CONV_WS_CONFIG_1", **sizes, stride=1),
        encode("LOOP_CONV_WS_CONFIG_2", kernel_dim=1, pochs=4, batches=1),
        encode("LOOP_CONV_WS_CONFIG_3", kchs=4, krows=krows, kcols=1, in_col_dim=1),
        encode("LOOP_CONV_WS_CONFIG_4", kernel_dilation=1, orows=1, ocols=1, out_stride=4, weight_stride=4, in_stride=4),
        encode("LOOP_CONV_WS_CONFIG_5", weights=BASE, output=BASE + 4096),
        encode("LOOP_CONV_WS_CONFIG_6", input=input),
    ]  # fmt: skip
    if without:
        del commands[without - 1]
    return [*commands, encode("LOOP_CONV_WS", **{"no_pool": 1, **fields})]


def pooled_conv(**fields: int) -> list[Command]:
    """The same with a pooling window of one pixel."""
    commands = loop_conv(no_pool=0, **fields)
    commands[1] = encode("LOOP_CONV_WS_CONFIG_2", kernel_dim=1, pochs=4, batches=1, pool_size=1, pool_stride=1,
                         pool_out_col_dim=1, porows=1, pocols=1)  # fmt: skip
    return commands


def store(local: int, address: int = BASE, cols: int = 4, rows: int = 4) -> Command:
    return encode("MVOUT", address=address, local=local, cols=cols, rows=rows)


def copy(source: int, target: int, stride: int = 1, cols: int = 4, rows: int = 4) -> Command:
    return encode(
        "MVOUT_SPAD", destination=target, destination_stride=stride, local=source, cols=cols, rows=rows
    )


def move(name: str = "MVIN", **fields: int) -> Command:
    return encode(name, **{"address": BASE, "local": 0, "cols": 4, "rows": 4, **fields})


def rows_apart(a: int, c: int, **fields: int) -> Command:
    """CONFIG_EX, weight-stationary, with strides of A and C."""
    return encode("CONFIG_EX", dataflow=1, a_stride=a, c_stride=c, **fields)


def single_row(c: int) -> Command:
    """A PRELOAD whose result has one row."""
    return encode("PRELOAD", bd=0, bd_cols=4, bd_rows=4, c=c, c_cols=4, c_rows=1)


WS, CONV = range(9, 14), range(16, 22)
SOFTMAX = encode("CONFIG_FUNCTION", function=2)
MULTIPLY = encode("CONFIG_FUNCTION", function=3, product=1, parameter=ACC | 8)
NORMALISE = encode("CONFIG_FUNCTION", function=3, parameter=ACC | 8)

#: By what is wrong: the error, and commands of which the last one is the first that is illegal.
ILLEGAL: dict[str, tuple[str, list[Item]]] = {
    # macros
    "LOOP_WS of zeros": ("BAD_SIZE", [*CONFIGURED, *(Command(n, 0, 0) for n in WS), Command(8, 0, 0)]),
    "LOOP_WS of ones": ("BAD_FLAGS", [*CONFIGURED, *loop_ws()[:-1], Command(8, ONES, ONES)]),
    "LOOP_WS without a block of I": ("BAD_SIZE", [*CONFIGURED, *loop_ws(i=0)]),
    "LOOP_WS without a block of J": ("BAD_SIZE", [*CONFIGURED, *loop_ws(j=0)]),
    "LOOP_WS without a block of K": ("BAD_SIZE", [*CONFIGURED, *loop_ws(k=0)]),
    "LOOP_WS of the largest bounds": ("BAD_SIZE", [*CONFIGURED, *loop_ws(i=65535, j=65535, k=65535)]),
    "bounds of ones": ("BAD_SIZE", [Command(9, ONES, ONES)]),
    "places of ones": ("LOCAL_ADDRESS", [Command(24, ONES, ONES)]),
    "LOOP_WS alone": ("INCOMPLETE", [*CONFIGURED, encode("LOOP_WS")]),
    "LOOP_WS without its strides": ("INCOMPLETE", [*CONFIGURED, *loop_ws(), *loop_ws(without="STRIDES_DC")]),
    "LOOP_WS without CONFIG_EX": ("NOT_CONFIGURED", [*LOADS, CONFIG_ST, *loop_ws()]),
    "LOOP_WS without CONFIG_LD": ("NOT_CONFIGURED", [CONFIG_EX, LOADS[0], CONFIG_ST, *loop_ws()]),
    "LOOP_WS without CONFIG_ST": ("NOT_CONFIGURED", [CONFIG_EX, *LOADS, *loop_ws()]),
    "LOOP_WS output-stationary": ("UNSUITABLE", [*CONFIGURED, CONFIG_OS, *loop_ws()]),
    "LOOP_WS with pooling": (
        "UNSUITABLE",
        [*CONFIGURED, encode("CONFIG_ST", pool_size=1, orows=1, ocols=1), *loop_ws()],
    ),
    "LOOP_WS with blocks apart": (
        "UNSUITABLE",
        [*CONFIGURED, encode("CONFIG_LD", block_stride=8, pixel_repeats=1), *loop_ws()],
    ),
    "LOOP_WS with layer norm": ("NOT_BUILT", [*CONFIGURED, *loop_ws(act=2)]),
    "LOOP_WS between PRELOAD and COMPUTE": ("OUT_OF_TURN", [*CONFIGURED, preload(0, ACC), *loop_ws()]),
    "LOOP_WS beyond memory": ("MAIN_MEMORY", [*CONFIGURED, *loop_ws(), *loop_ws(a=END - 15, ex_accumulate=1)]),
    "LOOP_WS storing beyond memory": ("MAIN_MEMORY", [*CONFIGURED, *loop_ws(c=END - 12)]),
    "LOOP_CONV_WS of zeros": ("BAD_SIZE", [*CONFIGURED, *(Command(n, 0, 0) for n in CONV), Command(15, 0, 0)]),
    "LOOP_CONV_WS of ones": ("BAD_FLAGS", [*CONFIGURED, *loop_conv()[:-1], Command(15, ONES, ONES)]),
    "LOOP_CONV_WS of the largest sizes": (
        "BAD_SIZE",
        [*CONFIGURED, *(Command(n, ONES, ONES) for n in CONV), encode("LOOP_CONV_WS", no_pool=1)],
    ),
    "LOOP_CONV_WS without kernel rows": ("BAD_SIZE", [*CONFIGURED, *loop_conv(krows=0)]),
    "LOOP_CONV_WS alone": ("INCOMPLETE", [*CONFIGURED, encode("LOOP_CONV_WS", no_pool=1)]),
    "LOOP_CONV_WS without its pads": ("INCOMPLETE", [*CONFIGURED, *loop_conv(), *loop_conv(without=3)]),
    "LOOP_CONV_WS without CONFIG_EX": ("NOT_CONFIGURED", [CONFIG_ST, *loop_conv()]),
    "LOOP_CONV_WS without CONFIG_ST": ("NOT_CONFIGURED", [CONFIG_EX, *loop_conv()]),
    "LOOP_CONV_WS output-stationary": ("UNSUITABLE", [CONFIG_OS, CONFIG_ST, *loop_conv()]),
    "LOOP_CONV_WS with two layouts of weights": (
        "BAD_FLAGS",
        [*CONFIGURED, *loop_conv(trans_weight_1203=1, trans_weight_0132=1)],
    ),
    "LOOP_CONV_WS beyond memory": ("MAIN_MEMORY", [*CONFIGURED, *loop_conv(), *loop_conv(input=END - 2, no_bias=1)]),
    # commands
    "a function code that is none": ("UNKNOWN_COMMAND", [Command(99, 5, 6)]),
    "the first code behind the last": ("UNKNOWN_COMMAND", [Command(30, 0, 0)]),
    "the fence of another simulator": ("UNKNOWN_COMMAND", [Command(127, 0, 0)]),
    "an unknown command asked for a result": ("UNKNOWN_COMMAND", [FlippedResult(99, 0, 0)]),
    "CONFIG_NORM": ("NOT_BUILT", [encode("CONFIG_NORM")]),
    "a reserved activation": ("NOT_BUILT", [encode("CONFIG_EX", activation=2)]),
    "an activation of stores that is not built": ("NOT_BUILT", [encode("CONFIG_ST", activation=3)]),
    "both operands transposed": ("TRANSPOSES", [encode("CONFIG_EX", dataflow=1, a_transpose=1, b_transpose=1)]),
    "B transposed, output-stationary": ("TRANSPOSES", [encode("CONFIG_EX", b_transpose=1)]),
    "CONFIG_EX of ones": ("NOT_BUILT", [Command(0, ONES & ~0x83, ONES)]),
    "CONFIG_EX between PRELOAD and COMPUTE": ("OUT_OF_TURN", [CONFIG_EX, preload(0, ACC), CONFIG_EX]),
    "strides between PRELOAD and COMPUTE": (
        "OUT_OF_TURN",
        [CONFIG_EX, preload(0, ACC), encode("CONFIG_EX", set_only_strides=1)],
    ),
    "a load state that is none": ("BAD_FLAGS", [encode("CONFIG_LD", state=3)]),
    "pooling without a window": ("BAD_FLAGS", [encode("CONFIG_ST", pool_stride=1)]),
    "pooling of nothing": ("BAD_SIZE", [encode("CONFIG_ST", pool_stride=1, pool_size=1)]),
    # loads and stores
    "a load before its CONFIG": ("NOT_CONFIGURED", [CONFIG_LD, move("MVIN2")]),
    "a store before its CONFIG": ("NOT_CONFIGURED", [store(0)]),
    "a load without rows": ("BAD_SIZE", [CONFIG_LD, move(rows=0)]),
    "a load without columns": ("BAD_SIZE", [CONFIG_LD, move(cols=0)]),
    "a load of too many rows": ("BAD_SIZE", [CONFIG_LD, move(rows=256)]),
    "a load of blocks that lie in each other": ("BAD_SIZE", [CONFIG_LD, move(rows=5, cols=8)]),
    "a store of too many rows": ("BAD_SIZE", [CONFIG_ST, move("MVOUT", rows=256)]),
    "a store of several blocks of many rows": ("BAD_SIZE", [CONFIG_ST, move("MVOUT", rows=5, cols=8)]),
    "a softmax of many rows": ("BAD_SIZE", [CONFIG_ST, SOFTMAX, move("MVOUT", rows=5)]),
    "a load of too many columns": ("BAD_SIZE", [CONFIG_LD, move(cols=65)]),
    "a load of too many wide columns": ("BAD_SIZE", [CONFIG_LD, move(cols=17, local=ACC)]),
    "a load of ones": ("BAD_SIZE", [CONFIG_LD, Command(2, ONES, ONES)]),
    "blocks that overlap": ("BAD_SIZE", [encode("CONFIG_LD", block_stride=3), move(cols=5)]),
    "repeated pixels in the accumulator": (
        "BAD_FLAGS",
        [encode("CONFIG_LD", pixel_repeats=2, block_stride=4), move(local=ACC, cols=1)],
    ),
    "a load beyond the scratchpad": ("LOCAL_ADDRESS", [CONFIG_LD, load(BASE, 253)]),
    "a load beyond the accumulator": ("LOCAL_ADDRESS", [CONFIG_LD, load(BASE, ACC | 61)]),
    "a load with the bit above the row": ("LOCAL_ADDRESS", [CONFIG_LD, load(BASE, 256)]),
    "a store from beyond the scratchpad": ("LOCAL_ADDRESS", [CONFIG_ST, store(253)]),
    "a raw store of two blocks": ("BAD_SIZE", [CONFIG_ST, store(RAW, cols=5)]),
    "a copy into the accumulator": ("BAD_FLAGS", [CONFIG_ST, copy(0, ACC)]),
    "a copy beyond the scratchpad": ("LOCAL_ADDRESS", [CONFIG_ST, copy(ACC, 0, stride=2**31)]),
    "a copy that overlaps its source": ("ROWS_IN_USE", [CONFIG_ST, copy(0, 2)]),
    "a copy of blocks onto its second one": ("ROWS_IN_USE", [CONFIG_ST, copy(0, 6, cols=8)]),
    "a copy of blocks with rows apart": ("BAD_SIZE", [CONFIG_ST, copy(ACC, 0, stride=2, cols=8)]),
    "a copy of 256 rows": ("BAD_SIZE", [CONFIG_ST, copy(0, 0, rows=256)]),
    "a copy of several blocks of many rows": ("BAD_SIZE", [CONFIG_ST, copy(ACC, 0, cols=8, rows=5)]),
    "a copy of many softmaxed rows": ("BAD_SIZE", [CONFIG_ST, SOFTMAX, copy(ACC, 0, rows=5)]),
    "a copy of too many rows": ("LOCAL_ADDRESS", [CONFIG_ST, copy(ACC, 0, rows=65)]),
    "a copy of too many columns": ("LOCAL_ADDRESS", [CONFIG_ST, copy(ACC, 0, cols=68)]),
    "a copy of blocks beyond the accumulator": ("LOCAL_ADDRESS", [CONFIG_ST, SOFTMAX, copy(ACC, 0, cols=4 * 512)]),
    "a copy of normalised rows": ("BAD_FLAGS", [CONFIG_ST, NORMALISE, copy(ACC, 0)]),
    "a copy of products": ("BAD_FLAGS", [CONFIG_ST, MULTIPLY, copy(ACC, 0)]),
    "a load from below memory": ("MAIN_MEMORY", [CONFIG_LD, load(BASE - 1, 0)]),
    "a load from beyond memory": ("MAIN_MEMORY", [CONFIG_LD, load(END - 16, 0), load(END - 15, 0)]),
    "a load of the highest address": ("MAIN_MEMORY", [CONFIG_LD, load(ONES, 0)]),
    "a store beyond memory": ("MAIN_MEMORY", [CONFIG_ST, store(0, END - 16), store(0, END - 15)]),
    # products
    "PRELOAD before CONFIG_EX": ("NOT_CONFIGURED", [preload(0, ACC)]),
    "PRELOAD after strides only": ("NOT_CONFIGURED", [encode("CONFIG_EX", set_only_strides=1), preload(0, ACC)]),
    "PRELOAD twice": ("OUT_OF_TURN", [CONFIG_EX, preload(0, ACC), preload(4, ACC)]),
    "COMPUTE without PRELOAD": ("OUT_OF_TURN", [CONFIG_EX, compute(0, 4)]),
    "weights in the accumulator": ("BAD_FLAGS", [CONFIG_EX, preload(ACC, ACC)]),
    "operands in the accumulator": ("BAD_FLAGS", [CONFIG_EX, preload(0, ACC), compute(ACC | 8, NOWHERE)]),
    "weights of too many rows": ("BAD_SIZE", [CONFIG_EX, encode("PRELOAD", bd=0, bd_rows=5, bd_cols=4, c=NOWHERE)]),
    "weights beyond the scratchpad": ("LOCAL_ADDRESS", [CONFIG_EX, preload(253, ACC)]),
    "a result beyond the accumulator": ("LOCAL_ADDRESS", [CONFIG_EX, preload(0, ACC | 61)]),
    "A beyond the scratchpad": ("LOCAL_ADDRESS", [CONFIG_EX, preload(0, ACC), compute(253, NOWHERE)]),
    "a load over the weights of a PRELOAD": (
        "ROWS_IN_USE",
        [CONFIG_EX, CONFIG_LD, preload(0, ACC), load(BASE, 2)],
    ),
    "a store of the result to come": ("ROWS_IN_USE", [CONFIG_EX, CONFIG_ST, preload(0, ACC), store(ACC | 3)]),
    "a result over later rows of A": ("ROWS_IN_USE", [CONFIG_EX, preload(0, 10), compute(8, 16)]),
    "a result over later rows of the bias": ("ROWS_IN_USE", [CONFIG_EX, preload(0, 19), compute(8, 16)]),
    "a result that runs ahead of A": ("ROWS_IN_USE", [rows_apart(1, 2), preload(0, 8), compute(8, 16)]),
    "a result over a row that A is made of": ("ROWS_IN_USE", [rows_apart(0, 1), preload(0, 8), compute(8, 16)]),
    "sums of an empty array": ("NOTHING_TO_ADD_TO", [CONFIG_EX, preload(0, ACC), compute(8, 12, "ACCUMULATED")]),
    "sums that have left the array": (
        "NOTHING_TO_ADD_TO",
        [CONFIG_OS, preload(0, ACC), compute(8, 12), preload(0, ACC), compute(8, 12, "ACCUMULATED")],
    ),
    "sums of the other dataflow": (
        "NOTHING_TO_ADD_TO",
        [CONFIG_OS, preload(0, NOWHERE), compute(8, 12), CONFIG_EX, preload(0, ACC), compute(8, 12, "ACCUMULATED")],
    ),
    # only COUNTER_OP gives a result
    **{
        f"{name} asked for a result": ("NO_RESULT", [FlippedResult(*encode(name))])
        for name, kind in COMMANDS.items()
        if not kind.response and kind.feature != "normalizations"
    },
    # functions of rows
    "a function that is none of the accumulator's": (
        "BAD_FLAGS",
        [encode("CONFIG_FUNCTION", function=3, parameter=1)],
    ),
    "a shift that leaves no room for the offset": (
        "BAD_SIZE",
        [encode("CONFIG_FUNCTION", function=3, parameter=ACC, shift=6)],
    ),
    "a numerator shifted too far": ("BAD_SIZE", [encode("CONFIG_FUNCTION", function=2, shift=16)]),
    "a table of the scratchpad": ("BAD_FLAGS", [encode("LOAD_TABLE", table=0)]),
    "a table beyond the accumulator": ("LOCAL_ADDRESS", [encode("LOAD_TABLE", table=ACC | 33)]),
    "a table of the result to come": ("ROWS_IN_USE", [CONFIG_EX, preload(0, ACC | 20), encode("LOAD_TABLE", table=ACC)]),
    "a softmax in the 1-D mode": (
        "BAD_FLAGS",
        [encode("CONFIG_ST", pool_size=1, orows=2, ocols=2), SOFTMAX, store(0)],
    ),
    "a pooled normalisation": (
        "BAD_FLAGS",
        [encode("CONFIG_ST", pool_size=1, pool_stride=1, orows=2, ocols=2, porows=1, pocols=1), NORMALISE, store(0)],
    ),
    "a row beyond the scratchpad": ("LOCAL_ADDRESS", [CONFIG_ST, SOFTMAX, store(0, cols=65 * 4)]),
    "gains beyond the accumulator": (
        "LOCAL_ADDRESS",
        [CONFIG_ST, encode("CONFIG_FUNCTION", function=3, parameter=ACC | 60), store(0, cols=17)],
    ),
    "gains of the result to come": (
        "ROWS_IN_USE",
        [CONFIG_EX, CONFIG_ST, NORMALISE, preload(0, ACC | 8), store(0, cols=9)],
    ),
    "a right operand beyond the accumulator": (
        "LOCAL_ADDRESS",
        [CONFIG_ST, encode("CONFIG_FUNCTION", function=3, product=1, parameter=ACC | 40), store(21, cols=4)],
    ),
    "a right operand in the result to come": (
        "ROWS_IN_USE",
        [CONFIG_EX, CONFIG_ST, MULTIPLY, preload(0, ACC | 28), store(20, cols=4)],
    ),
    "LOOP_WS that stores products": ("UNSUITABLE", [*CONFIGURED, MULTIPLY, *loop_ws()]),
    "LOOP_WS that stores softmaxes": ("UNSUITABLE", [*CONFIGURED, SOFTMAX, *loop_ws()]),
    "LOOP_CONV_WS that stores normalised rows": ("UNSUITABLE", [*CONFIGURED, NORMALISE, *loop_conv()]),
}  # fmt: skip
GELU = encode("CONFIG_ST", stride=4, acc_scale=IDENTITY_SCALE, activation=3)
CONFIG_SOFTMAX = encode("CONFIG_NORM", activation_msb=1)
POOLED = {"pool_size": 1, "pool_stride": 1, "orows": 2, "ocols": 2, "porows": 1, "pocols": 1}
MEAN = ACC | 2 << 26
#: The same on an accelerator with normaliser commands.
ILLEGAL_NORMAL: dict[str, tuple[str, list[Item]]] = {
    "a third slot": ("BAD_FLAGS", [encode("CONFIG_NORM", stats_id=2)]),
    "a slot beyond all, by itself": ("BAD_FLAGS", [encode("CONFIG_NORM", stats_id=255, set_stats_id_only=1)]),
    "a softmax of I-GELUs": ("BAD_FLAGS", [GELU, CONFIG_SOFTMAX]),
    "CONFIG_NORM asked for a result": ("NO_RESULT", [FlippedResult(*encode("CONFIG_NORM"))]),
    "statistics before CONFIG_ST": ("NOT_CONFIGURED", [store(MEAN)]),
    "statistics of the scratchpad": ("BAD_FLAGS", [CONFIG_ST, store(1 << 26)]),
    "statistics in the 1-D mode": ("BAD_FLAGS", [encode("CONFIG_ST", pool_size=1, orows=2, ocols=2), store(MEAN)]),
    "pooled statistics": ("BAD_FLAGS", [encode("CONFIG_ST", **POOLED), store(MEAN)]),
    "statistics of softmaxed rows": ("BAD_FLAGS", [CONFIG_ST, SOFTMAX, store(MEAN)]),
    "normalised rows of I-GELUs": ("BAD_FLAGS", [GELU, NORMALISE, store(ACC)]),
    "statistics beyond the accumulator": ("LOCAL_ADDRESS", [CONFIG_ST, store(MEAN | 61)]),
    "statistics of the result to come": ("ROWS_IN_USE", [CONFIG_EX, CONFIG_ST, preload(0, ACC), store(MEAN | 3)]),
    "a copy of softmaxed rows of I-GELUs": ("BAD_FLAGS", [GELU, SOFTMAX, copy(ACC, 0)]),
    "a copy with statistics": ("BAD_FLAGS", [CONFIG_ST, copy(MEAN, 0)]),
    "LOOP_WS: raw layer norms": ("BAD_FLAGS", [*CONFIGURED, *loop_ws(act=2, full_c=1)]),
    "LOOP_WS: softmaxes in the scratchpad": ("BAD_FLAGS", [*CONFIGURED, *loop_ws(act=4, spad_only=1)]),
    "LOOP_WS of normalised rows of layer norms": ("UNSUITABLE", [*CONFIGURED, NORMALISE, *loop_ws(act=2)]),
}  # fmt: skip
LEGAL_NORMAL: dict[str, list[Item]] = {
    "softmax, until CONFIG_ST": [CONFIG_ST, CONFIG_SOFTMAX, store(ACC), CONFIG_ST, store(RAW), copy(ACC, 0)],
    "statistics, raw or not": [CONFIG_ST, store(MEAN), store(MEAN | 1 << 29)],
    "scratchpad rows whatever the activation": [GELU, store(0), copy(0, 8)],
    "other bits beside the slot's own": [GELU, encode("CONFIG_NORM", stats_id=1, set_stats_id_only=1, activation_msb=1)],
    "CONFIG_EX of every activation": [
        encode("CONFIG_EX", dataflow=1, a_stride=1, c_stride=1, activation=n) for n in range(4)
    ],
    "pooled layer norms": [encode("CONFIG_ST", activation=2, **POOLED), store(ACC)],
    "I-GELUs in the 1-D mode": [encode("CONFIG_ST", activation=3, pool_size=1, orows=2, ocols=2), store(ACC)],
    "raw stores whatever the activation": [GELU, store(RAW), CONFIG_ST, CONFIG_SOFTMAX, store(RAW)],
    "a copy of I-GELUs": [GELU, copy(ACC, 0)],
    "LOOP_WS: raw results, and results in the scratchpad, whatever the activation": [
        *(*CONFIGURED, GELU, *loop_ws(full_c=1), *loop_ws(spad_only=1)),
    ],
    "LOOP_CONV_WS of pooled I-GELUs": [*CONFIGURED, *pooled_conv(activation=3)],
    "LOOP_WS of softmaxes": [*CONFIGURED, CONFIG_SOFTMAX, *loop_ws(act=4)],
    "LOOP_WS of statistics and other results": [*CONFIGURED, *loop_ws(act=2)],
    "LOOP_CONV_WS of I-GELUs": [*CONFIGURED, GELU, *loop_conv()],
    "a table of softmaxes": [CONFIG_ST, CONFIG_SOFTMAX, encode("CONFIG_FUNCTION", function=1), store(MEAN), store(ACC)],
}  # fmt: skip
#: What comes close to one of these.
LEGAL: dict[str, list[Item]] = {
    "a load and a store of many rows": [CONFIG_LD, CONFIG_ST, move(rows=9), None, move("MVOUT", rows=9)],
    "a copy of the whole accumulator": [CONFIG_ST, copy(ACC, 0, rows=64)],
    "a copy of two blocks to the last rows": [CONFIG_ST, copy(ACC | 56, 248, cols=8)],
    "a fence between reading and writing": [CONFIG_LD, CONFIG_ST, load(BASE, 0), None, store(0)],
    "a load of other rows than the PRELOAD's": [CONFIG_EX, CONFIG_LD, preload(0, ACC), load(BASE, 4), compute(8, 12)],
    "a result over its own A": [CONFIG_EX, preload(0, 8), compute(8, NOWHERE)],
    "a result over its own bias": [CONFIG_EX, preload(0, 8), compute(12, 8)],
    "a result over its own weights, and rows before those of A": [CONFIG_EX, preload(0, 3), compute(5, 3)],
    "a result over A behind the transposer": [rows_apart(1, 1, a_transpose=1), preload(0, 10), compute(8, NOWHERE)],
    "a result in the last row of A": [CONFIG_EX, single_row(11), compute(8, NOWHERE)],
    "a result between rows of A": [rows_apart(2, 2), preload(0, 9), compute(8, NOWHERE)],
    "a result over all operands of sums": [CONFIG_OS, preload(0, 2), compute(1, 3), preload(2, 2), compute(2, 2)],
    "a result over itself, ten times": [CONFIG_OS, *(preload(4, 8), compute(8, 0)) * 10],
    "new sums": [CONFIG_OS, preload(0, ACC), compute(8, 12), preload(0, ACC), compute(8, 12)],
    "sums that no result was taken from": [
        *(CONFIG_OS, preload(0, NOWHERE), compute(8, 12), preload(0, ACC), compute(8, 12, "ACCUMULATED")),
    ],
    "... since C has no columns": [
        *(CONFIG_OS, preload(0, ACC, 0), compute(8, 12), CONFIG_OS),
        *(preload(0, ACC), compute(8, 12, "ACCUMULATED")),
    ],
    "strides only, with all else that there is": [CONFIG_EX, Command(0, ONES & ~3, ONES), preload(0, NOWHERE)],
    "the last rows": [CONFIG_LD, load(BASE, 252), load(BASE, ACC | 60)],
    "the first and the last bytes": [CONFIG_LD, load(BASE, 0), load(END - 16, 4)],
    "bits that nothing lists": [CONFIG_LD, Command(22, ONES, ONES), Command(7, ONES, ONES), load(BASE, 7 << 26)],
    "a counter that nobody asks for": [FlippedResult(*encode("COUNTER_OP", index=1))],
    "a product and a convolution": [*CONFIGURED, *loop_ws(), None, *loop_conv()],
    "a PRELOAD at the end": [CONFIG_EX, preload(0, ACC)],
    "a softmax of a whole scratchpad": [CONFIG_ST, SOFTMAX, store(0, cols=63 * 4)],
    "a raw store while rows are softmaxed": [CONFIG_ST, SOFTMAX, store(RAW)],
    "LOOP_WS with a table": [*CONFIGURED, encode("CONFIG_FUNCTION", function=1), *loop_ws()],
    "a right operand in the last rows": [
        CONFIG_ST,
        encode("CONFIG_FUNCTION", function=3, product=1, parameter=ACC | 40),
        store(20, cols=4),
    ],
    "a right operand behind the result to come": [CONFIG_EX, CONFIG_ST, MULTIPLY, preload(0, ACC | 8), store(20, cols=4)],
    "gains up to the last row": [
        CONFIG_ST,
        encode("CONFIG_FUNCTION", function=3, parameter=ACC | 60),
        store(0, cols=16),
    ],
}  # fmt: skip

#: Loads of elements of blocks, and of powers of 4 columns.
IN_BLOCKS = encode("CONFIG_LD", block_stride=4, pixel_repeats=1, stride=4, block_format=2)
FOUR_POWERS = encode("MVIN", address=BASE, local=1 << 30, cols=4, rows=1)
#: Of a machine whose loads make bfloat16 of elements of blocks.
ILLEGAL_BLOCKS: dict[str, tuple[str, list[Item]]] = {
    "elements before their powers": ("NOT_CONFIGURED", [IN_BLOCKS, load(BASE, 0)]),
    "more elements than powers": (
        "NOT_CONFIGURED",
        [IN_BLOCKS, FOUR_POWERS, encode("MVIN", address=BASE, local=0, cols=5, rows=4)],
    ),
    "powers of two rows": ("BAD_SIZE", [IN_BLOCKS, encode("MVIN", address=BASE, local=1 << 30, cols=4, rows=2)]),
    "elements of blocks to the accumulator": ("BAD_FLAGS", [IN_BLOCKS, FOUR_POWERS, load(BASE, ACC)]),
    "powers to the accumulator": (
        "BAD_FLAGS",
        [IN_BLOCKS, encode("MVIN", address=BASE, local=ACC | 1 << 30, cols=4, rows=1)],
    ),
    "copies of elements of blocks": (
        "BAD_FLAGS",
        [encode("CONFIG_LD", block_stride=4, pixel_repeats=2, stride=4, block_format=1), encode("MVIN", address=BASE, local=4, cols=2, rows=1)],
    ),
    "LOOP_WS of weights in blocks": (
        "UNSUITABLE",
        [*CONFIGURED, encode("CONFIG_LD", state=1, block_stride=4, pixel_repeats=1, block_format=3), *loop_ws()],
    ),
}  # fmt: skip
LEGAL_BLOCKS: dict[str, list[Item]] = {
    "elements behind their powers": [IN_BLOCKS, FOUR_POWERS, load(BASE, 0), load(BASE + 16, 4)],
    "powers of several blocks of columns": [
        IN_BLOCKS,
        encode("MVIN", address=BASE, local=1 << 30, cols=32, rows=1),
        encode("MVIN", address=BASE, local=0, cols=29, rows=4),
    ],
    "a bit that accumulates, without blocks": [*CONFIGURED, load(BASE, 1 << 30)],
    "LOOP_WS behind a state of blocks": [IN_BLOCKS, *CONFIGURED, *loop_ws()],
}

#: Accelerator, illegal and legal cases.
CASES = {
    "whole": (WHOLE, ILLEGAL, LEGAL),
    "normal": (NORMAL, ILLEGAL_NORMAL, LEGAL_NORMAL),
    "blocks": (BLOCKS, ILLEGAL_BLOCKS, LEGAL_BLOCKS),
}


def defined_bits(command: Command) -> Command:
    """What a command says, without the bits that no field lists, and those that only machines with additions have."""
    kind = find_command_type(command.funct, command.rs1)
    if kind is None:
        return Command(*command)
    masks = {"rs1": 3 if kind.subtype is not None else 0, "rs2": 0}
    for field in kind.fields:
        if field.name not in ("packed", "b_packed", "weights_packed", "block_format"):
            masks[field.register] |= field.mask << field.low
    return Command(command.funct, command.rs1 & masks["rs1"], command.rs2 & masks["rs2"])


def play(engine: str, items: list[Item], folder: Path, accelerator: Accelerator) -> None:
    path = folder / "stream"
    path.write_text(stream_of(items).text().split("\n", 1)[1] + "fence\n")
    run_job(Job(accelerator, stream=path, memory=MainMemory(size_bytes=MEMORY_BYTES)), engine=engine)


#: Neither hides what is wrong before it nor counts.
MORE = [*LOADS, load(BASE, 0), Command(99, 0, 0)]


@pytest.mark.parametrize("name", CASES)
def test_error_and_command(name: str) -> None:
    """Verilog and functional model say the same of each; where co-simulation keeps local memories behind the main one,
    commands beyond that may be legal."""
    accelerator, illegal, legal = CASES[name]
    simulator = Simulator(accelerator)
    streams = [stream_of([*items, *MORE]) for _, items in illegal.values()]
    for (case, (error, items)), outcome in zip(illegal.items(), simulator.play(streams), strict=True):
        if error == "MAIN_MEMORY":
            continue
        assert (outcome.kind, outcome.error) == ("refused", error_named(error).code), case
        wrong = items[-1]
        assert wrong is not None
        assert Command(*(int(word, 16) for word in outcome.text.split()[1:])) == defined_bits(wrong), case
    assert {one.kind for one in simulator.play([stream_of(items) for items in legal.values()])} == {"same"}


#: The first of each error, and all of main memory.
ALONE = {error: case for case, (error, _) in reversed(ILLEGAL.items())}
BEYOND = [case for case, (error, _) in ILLEGAL.items() if error == "MAIN_MEMORY"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", sorted({*ALONE.values(), *BEYOND}))
def test_an_engine_ends_with_error_and_command(case: str, engine: str, tmp_path: Path) -> None:
    error, items = ILLEGAL[case]
    wrong = items[-1]
    assert wrong is not None
    with pytest.raises(SimulationError) as caught:
        play(engine, [*items, *MORE], tmp_path, WHOLE)
    assert caught.value.kind == "refused"
    refused = caught.value.record["failure"]["refused"]
    assert refused["code"] == error_named(error).code
    assert Command(refused["funct"], refused["rs1"], refused["rs2"]) == defined_bits(wrong)


def test_every_error_has_a_case() -> None:
    assert {error for error, _ in ILLEGAL.values()} == {one.name for one in ERRORS}


def refusal(stream: Stream, legality: Legality) -> int:
    """Code of the first error by the rules themselves, 0 for none; they do not know main memory."""
    for item in stream.items:
        if item is None:
            continue
        kind = find_command_type(item.funct)
        asks = isinstance(item, FlippedResult) != (kind is not None and kind.response)
        if found := legality.check(item, result=asks):
            return found.error.code
    return 0


@pytest.mark.parametrize("name", CASES)
def test_the_rules_themselves_say_so(name: str) -> None:
    accelerator, illegal, _ = CASES[name]
    for case, (error, items) in illegal.items():
        legality = Legality(parameters(accelerator))
        expected = 0 if error == "MAIN_MEMORY" else error_named(error).code
        assert refusal(stream_of(items[:-1]), legality) == 0, case
        assert refusal(stream_of(items[-1:]), legality) == expected, case


@pytest.fixture(scope="module")
def whole() -> Simulator:
    return Simulator(WHOLE)


def test_cosimulation_tells_races_apart(whole: Simulator) -> None:
    """In memory without a fence, nothing says what comes first."""
    behind = [CONFIG_LD, CONFIG_ST, store(0), load(BASE, 0)]
    before = [CONFIG_LD, CONFIG_ST, load(BASE, 0), store(0)]
    twice = [CONFIG_ST, store(0), store(4)]
    overlapping = [*loop_conv(krows=1)]
    overlapping[3] = encode("LOOP_CONV_WS_CONFIG_4", kernel_dilation=1, orows=1, ocols=2, out_stride=2, weight_stride=4, in_stride=4)  # fmt: skip
    itself = [encode("CONFIG_ST", stride=2), CONFIG_EX, *overlapping]
    outcomes = whole.play([stream_of(items) for items in (behind, before, twice, itself)])
    assert [outcome.kind for outcome in outcomes] == ["raced", "raced", "same", "raced"]


def in_place(operand: str, c: int, strides: tuple[int, int], sizes: tuple[int, int]) -> Stream:
    """A weight-stationary product with an operand of some rows from row 40 on and a result of some rows from row c on."""
    rows, results = sizes
    a, d = (40, NOWHERE) if operand == "a" else (200, 40)
    m, n = (rows, 1) if operand == "a" else (1, rows)
    first = encode("PRELOAD", bd=0, bd_cols=4, bd_rows=4, c=c, c_cols=4, c_rows=results)
    second = encode("COMPUTE_PRELOADED", a=a, a_cols=4, a_rows=m, bd=d, bd_cols=4, bd_rows=n)
    load_all = [load(BASE + 16 * n, 4 * n) for n in range(16)]
    return stream_of([CONFIG_LD, *load_all, rows_apart(*strides), first, second])


@pytest.mark.parametrize("operand", ["a", "bias"])
def test_a_result_is_refused_just_where_it_overtakes_its_operand(whole: Simulator, operand: str) -> None:
    """All strides, sizes and distances near each other, by brute force; what is allowed has the same result in both."""
    cases = [
        (c, (stride, apart), (rows, results))
        for c in range(30, 54)
        for stride in (0, 1, 2, 3)
        for apart in (0, 1, 2, 3)
        for rows, results in ((4, 4), (3, 4), (4, 2), (1, 4), (2, 1))
        if operand == "a" or stride == 1
    ]
    streams = [in_place(operand, *case) for case in cases]
    refused = 0
    for (c, (stride, apart), (rows, results)), outcome in zip(cases, whole.play(streams), strict=True):
        later = [(i, j) for j in range(min(rows, results)) for i in range(j)]
        overtaken = any(c + i * apart == 40 + j * stride for i, j in later)
        refused += overtaken
        assert outcome.kind == ("refused" if overtaken else "same"), (c, stride, apart, rows, results)
    assert len(cases) / 30 < refused < len(cases) / 2


@pytest.mark.parametrize("accelerator", [WHOLE, NORMAL, SCARCE], ids=lambda one: one.name)
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_random_illegal_streams(accelerator: Accelerator, count: int) -> None:
    (result,) = run_campaign([accelerator], count, seed=0, kind="illegal", shorten=False)
    assert [(one.stream.name, one.outcome.describe()) for one in result.failures] == []
    assert result.streams == count
    assert result.refused.total() > 0.55 * count, "most blows should tell"
    assert len(result.refused) >= 9, result.refused


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_thousand_illegal_streams_on_ten_machines() -> None:
    accelerators = [random_accelerator(3, number) for number in range(10)]
    results = list(run_campaign(accelerators, 200, seed=3, kind="illegal", engine=LOCAL, shorten=False))
    failures = [(one.stream.name, one.outcome.describe()) for result in results for one in result.failures]
    assert failures == []
    assert sum(result.streams for result in results) == 2_000
    refused = sum((result.refused for result in results), Counter[str]())
    assert set(refused) == {one.name for one in ERRORS}


def test_verdicts_are_those_of_the_rules(whole: Simulator) -> None:
    """The rules evaluated in Python, beside those that were written as C++ and those that were built as hardware."""
    streams = [illegal_stream(WHOLE, 7, index) for index in range(60)]
    for stream, outcome in zip(streams, whole.play(streams), strict=True):
        if outcome.error != MAIN_MEMORY:
            assert outcome.error == refusal(stream, Legality(parameters(WHOLE))), outcome.describe()


def test_planted_disagreement_is_found_and_shortened(tmp_path: Path, whole: Simulator) -> None:
    broken = Simulator(WHOLE, sources=broken_sources(tmp_path), brief=True)
    wrong = encode("CONFIG_EX", dataflow=1, activation=2, a_stride=1, c_stride=1)
    stream = stream_of([*CONFIGURED, load(BASE, 0), wrong, preload(0, ACC), compute(8, 12), None])
    small = minimise(stream, broken)
    assert small.outcome.kind == "verdict"
    (item,) = small.stream.items
    assert item is not None
    assert describe(item).startswith("CONFIG_EX activation=2 ")
    assert small.outcome.describe() == f"RTL: legal; functional model: feature not built: {describe(item)}"
    assert [outcome.kind for outcome in whole.play([small.stream])] == ["refused"]


def test_streams_come_from_their_seed_alone() -> None:
    one = illegal_stream(WHOLE, 3, 5)
    assert illegal_stream(WHOLE.replace(name="other"), 3, 5).text() == one.text()
    assert illegal_stream(WHOLE, 3, 6).text() != one.text() != illegal_stream(WHOLE, 4, 5).text()
    assert parse_stream(one.text(comments=True), "a file").text() == one.text()


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration = tmp_path / "whole.yaml"
    configuration.write_text(WHOLE.to_yaml())
    words = ["cosim", "-a", str(configuration), "--illegal", "--streams", "9", "-o", str(tmp_path / "out")]
    assert baco("baco", words) == 0
    first = capsys.readouterr().out
    assert "9 streams on 1 configurations: 0 mismatches (" in first
    assert " illegal: " in first
    assert baco("baco", [*words, "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["configurations"]
    assert (record["streams"], record["mismatches"]) == (9, [])
    assert sum(record["illegal"].values()) >= 2
    assert not (tmp_path / "out").exists()
