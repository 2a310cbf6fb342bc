"""Kernels with 1 to 5 places for blocks that are loaded ahead: cycles of the RTL beside what the model says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects import func

from baco.accel.config import Accelerator
from baco.bench.harness.experiment import FOLDER, ResultFiles, Say, check_names, each, page_of, silent, table
from baco.bench.launches import program_cycles
from baco.compiler.blocks.analysis import Analysis
from baco.compiler.blocks.pipelining import pipelined_loads
from baco.compiler.blocks.stages import loop_times
from baco.compiler.codegen.block_program import lower_block_program, with_workspace
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import build_program
from baco.compiler.dialects.context import all_dialects
from baco.compiler.language.forms import ceiling_quotient
from baco.compiler.language.jit import jit
from baco.compiler.language.names import const
from baco.compiler.language.primitives import PRIMITIVES
from baco.compiler.passes.baco_to_linalg import BacoToLinalg

STAGES = (1, 2, 3, 4, 5)
#: By how much cycles differ where an order is asked for.
_DIFFERENT = 0.03
Array = np.ndarray[Any, Any]
program_id, arange, zeros, load, dot, store = (
    PRIMITIVES[name] for name in ("program_id", "arange", "zeros", "load", "dot", "store")
)


@jit
def product(a, b, c, M, N, K, BM: const, BN: const, BK: const):  # type: ignore[no-untyped-def,valid-type]
    """c = a @ b."""
    i = program_id(0) * BM + arange(0, BM)
    j = program_id(1) * BN + arange(0, BN)
    total = zeros((BM, BN))
    for start in range(0, K, BK):
        k = start + arange(0, BK)
        x = load(a + i[:, None] * K + k[None, :])
        total += dot(x, load(b + k[:, None] * N + j[None, :]))
    store(c + i[:, None] * N + j[None, :], total)


@jit
def convolution(x, w, y, W, C, R, S, P, Q, K, BQ: const, BK: const, BC: const):  # type: ignore[no-untyped-def,valid-type]
    """y[p, q, k] = sum of x[p + r, q + s, c] * w[r, s, c, k]: three loops around the product."""
    p = program_id(0)
    q = program_id(1) * BQ + arange(0, BQ)
    k = program_id(2) * BK + arange(0, BK)
    total = zeros((BQ, BK))
    for r in range(R):
        for s in range(S):
            for first in range(0, C, BC):
                c = first + arange(0, BC)
                image = load(x + (p + r) * W * C + (q + s)[:, None] * C + c[None, :], mask=(q < Q)[:, None])
                total += dot(image, load(w + ((r * S + s) * C + c)[:, None] * K + k[None, :]))
    store(y + p * Q * K + q[:, None] * K + k[None, :], total)


@dataclass(frozen=True)
class Launch:
    """A kernel on data: what binds it, its buffers, and what the last one must hold."""

    launcher: Any
    arguments: tuple[Any, ...]
    expected: Array


def _product(m: int, n: int, k: int, blocks: tuple[int, int, int]) -> Launch:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    grid = (ceiling_quotient(m, blocks[0]), ceiling_quotient(n, blocks[1]))
    arguments = (a, b, np.zeros((m, n), np.int32), m, n, k, *blocks)
    return Launch(product[grid], arguments, a.astype(np.int32) @ b.astype(np.int32))


def _convolution(size: int, c: int, k: int, window: int, blocks: tuple[int, int, int]) -> Launch:
    rng, out = np.random.default_rng(0), size - window + 1
    x = rng.integers(-128, 128, (size, size, c)).astype(np.int8)
    w = rng.integers(-128, 128, (window, window, c, k)).astype(np.int8)
    total = np.zeros((out, out, k), np.int32)
    for r in range(window):
        for s in range(window):
            total += x[r : r + out, s : s + out].astype(np.int32) @ w[r, s].astype(np.int32)
    grid = (out, ceiling_quotient(out, blocks[0]), ceiling_quotient(k, blocks[1]))
    arguments = (x, w, np.zeros((out, out, k), np.int32), size, c, window, window, out, out, k, *blocks)
    return Launch(convolution[grid], arguments, total)


#: Kernels by what they compute and in which blocks.
KERNELS: dict[str, Callable[[], Launch]] = {
    "product 64x64x512 in 16x16x16": lambda: _product(64, 64, 512, (16, 16, 16)),
    "product 128x128x256 in 32x32x32": lambda: _product(128, 128, 256, (32, 32, 32)),
    "product 128x128x512 in 64x64x64": lambda: _product(128, 128, 512, (64, 64, 64)),
    "product 256x128x256 in 128x64x64": lambda: _product(256, 128, 256, (128, 64, 64)),
    "product 100x90x300 in 64x32x48": lambda: _product(100, 90, 300, (64, 32, 48)),
    "convolution 18x18x32 3x3 32 in 16x32x32": lambda: _convolution(18, 32, 32, 3, (16, 32, 32)),
    "convolution 16x16x64 3x3 64 in 14x64x64": lambda: _convolution(16, 64, 64, 3, (14, 64, 64)),
    "convolution 20x20x16 5x5 32 in 16x32x16": lambda: _convolution(20, 16, 32, 5, (16, 32, 16)),
}
ACCELERATOR = Accelerator(dim=16, scratchpad_kib=256, accumulator_kib=64)


def run(
    *, kernels: Sequence[str] = tuple(KERNELS), out: Path = FOLDER, say: Say = silent
) -> list[dict[str, Any]]:
    """Kernels with loads one to four rounds ahead of loops on the RTL: cycles, and those that the model of stages predicts.

    Args:
        kernels (--kernel, NAME): repeatable; by default all.
        out: folder for pipelining.md and pipelining.json.

    A row a kernel, with the stages that the model takes.

    Raises InputError for another name.
    """
    check_names(kernels, KERNELS, "kernel", "kernel")
    files, rows = ResultFiles(out, "pipelining", page), []
    for name in kernels:
        launch = KERNELS[name]()
        predicted, chosen = _predicted(launch)
        measured = []
        for stages in STAGES:
            measured.append(_measured(launch, stages))
            say(f"{name}, {stages} stages: {measured[-1]} cycles, predicted {predicted[stages - 1]}")
        rows.append({"kernel": name, "rtl": measured, "model": predicted, "chosen": chosen})
    files.keep(rows)
    return rows


def _predicted(launch: Launch) -> tuple[list[int], int]:
    module = launch.launcher.bind(*launch.arguments).module()
    BacoToLinalg().apply(all_dialects(), module)
    function = next(op for op in module.ops if isinstance(op, func.FuncOp))
    analysis = Analysis(function, ACCELERATOR)
    times = loop_times(pipelined_loads(function, analysis, ACCELERATOR.dim), analysis, ACCELERATOR)
    loop = max(times.values(), key=lambda one: one.rounds)
    return [round(loop.cycles(stages)) for stages in STAGES], loop.stages(STAGES[-1])


def _measured(launch: Launch, stages: int) -> int:
    bound = launch.launcher.bind(*launch.arguments)
    module = bound.module()
    entry = next(op.sym_name.data for op in module.ops if isinstance(op, func.FuncOp))
    buffers = [
        Buffer(one.names[0], (one.size,), str(one.memory.dtype), "inout", one.memory.copy())
        for one in bound.buffers
    ]
    lower_block_program(module, ACCELERATOR, stages=stages, blockwise=True)
    program = build_program(module, entry, with_workspace(module, entry, buffers), ACCELERATOR)
    return program_cycles(program, {}, bound.buffers[2].names[0], launch.expected)


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Cycles by stages, and how well the model ranks and predicts them."""
    errors, ordered, ties, pairs = [], 0, 0, 0
    for row in rows:
        rtl, model = np.array(row["rtl"], float), np.array(row["model"], float)
        errors += list(np.abs(model / rtl - 1))
        for j, i in itertools.combinations(range(len(STAGES)), 2):
            if abs(rtl[i] / rtl[j] - 1) > _DIFFERENT:
                pairs += 1
                ordered += bool(np.sign(rtl[i] - rtl[j]) == np.sign(model[i] - model[j]))
                ties += bool(model[i] == model[j])
    losses = {row["kernel"]: row["rtl"][row["chosen"] - 1] / min(row["rtl"]) - 1 for row in rows}
    single = float(np.mean([row["rtl"][0] / min(row["rtl"]) - 1 for row in rows]))
    return page_of(
        "Loads that run ahead: stages in RTL and in the model",
        "Cycles of the whole program in RTL with 1 to 5 places for every block, and, below, what the model of\n"
        "`baco.compiler.analysis.pipelined` says; in brackets the stages that it takes, and how far these are from the best ones in RTL.",
        table(
            rows,
            {
                "kernel": lambda row: row["kernel"],
                **each(
                    {str(one): n for n, one in enumerate(STAGES)},
                    lambda n, row: f"{row['rtl'][n]:,}<br>{row['model'][n]:,}",
                ),
                "taken": lambda row: f"{row['chosen']} (+{100 * losses[row['kernel']]:.1f}%)",
            },
        ),
        f"Mean absolute error {100 * float(np.mean(errors)):.1f}%. Of {pairs} pairs of stages of one kernel whose cycles differ by more"
        f" than {_DIFFERENT:.0%}, the model orders {ordered} rightly and finds {ties} equal. The stages it takes cost"
        f" {100 * float(np.mean(list(losses.values()))):.1f}% more than the best ones on average,"
        f" {100 * max(losses.values()):.1f}% at most; one place instead of the best number {100 * single:.0f}% on average.",
        "`baco bench pipelining --out results` makes this page.",
    )
