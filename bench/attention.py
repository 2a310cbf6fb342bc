"""Attention written in the block language on the RTL: cycles against the time of its two products, and block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.harness.experiment import ResultFiles, Say, kept_rows, page_of, silent, table
from baco.bench.launches import launch_cycles
from baco.common.errors import InfeasibleError
from baco.compiler import row_functions
from baco.compiler.language.cost import predicted_cycles
from baco.compiler.language.forms import ceiling_quotient
from baco.compiler.language.jit import BoundLaunch, Options, jit
from baco.compiler.language.names import const
from baco.compiler.language.primitives import PRIMITIVES

#: Has units for functions of rows.
_MACHINE = "gemmini-transformer"
#: Heads, tokens, elements of a head, and rows of a block: as asked for, BERT-base, ViT-B/16, and rows of scores that are too long for
#: blocks as high as the array.
ATTENTION = ((8, 512, 64, 16), (12, 512, 64, 16), (12, 197, 64, 16), (8, 1024, 64, 8))
#: The same where tokens see those before them and themselves.
CAUSAL = ((8, 512, 64, 16),)
#: Of scores, of a step of a score in the softmax, of results.
_SCALES = (0.002, 0.05, 0.02)

arange, dot, load, program_id = (PRIMITIVES[name] for name in ("arange", "dot", "load", "program_id"))
requantise, softmax, store = (PRIMITIVES[name] for name in ("requantise", "softmax", "store"))


@jit
def flash(q, k, v, out, S, D, scores_scale, step, out_scale, BM: const, masked: const):  # type: ignore[no-untyped-def,valid-type]
    """softmax(q k^T) v of every head."""
    head = program_id(1) * S * D
    rows = program_id(0) * BM + arange(0, BM)
    keys, depth = arange(0, S), arange(0, D)
    queries = load(q + head + rows[:, None] * D + depth[None, :])
    right = load(k + head + keys[:, None] * D + depth[None, :])
    scores = requantise(dot(queries, right.T), scores_scale)
    mask = keys[None, :] <= rows[:, None] if masked else None
    weights = softmax(scores, step, mask=mask)
    values = load(v + head + keys[:, None] * D + depth[None, :])
    result = requantise(dot(weights, values), out_scale)
    store(out + head + rows[:, None] * D + depth[None, :], result)


def attention(
    shapes: Sequence[tuple[int, int, int, int]] = ATTENTION,
    causal: Sequence[tuple[int, int, int, int]] = CAUSAL,
    *,
    machine: str = _MACHINE,
    out: Path,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """A row for each of `shapes`: cycles of the kernel, and of the same block by block; and for each of `causal`, of the kernel whose
    tokens see those before them.

    Every result is compared with numpy's integers. What the files have of others is kept. Raises BacoError for a wrong result,
    InputError for a file that holds something else.
    """
    accelerator = load_accelerator(machine)
    files = ResultFiles(out, "attention", attention_page)
    rows = kept_rows(files, "attention", accelerator.name)
    for shape, masked in [*((one, False) for one in shapes), *((one, True) for one in causal)]:
        name = "x".join(map(str, shape[:3])) + (" causal" if masked else "")
        say(f"attention {name}")
        rows[name] = {"attention": name, **_row(shape, accelerator, masked)}
        files.keep(list(rows.values()))
    return list(rows.values())


def _row(sizes: tuple[int, int, int, int], accelerator: Accelerator, masked: bool) -> dict[str, Any]:
    heads, tokens, size, rows = sizes
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(-128, 128, (heads, tokens, size), np.int8) for _ in range(3))
    out = np.zeros_like(q)

    def small(sums: Any, scale: float) -> Any:
        scaled = sums.astype(np.float32) * np.float32(scale)
        return np.clip(np.rint(scaled), -128, 127).astype(np.int8)

    scores = small(q.astype(np.int32) @ k.transpose(0, 2, 1).astype(np.int32), _SCALES[0])
    part = np.broadcast_to(np.tri(tokens, dtype=bool), scores.shape) if masked else None
    weights = row_functions.softmax(
        scores, part, row_functions.exponentials(_SCALES[1]), row_functions.softmax_numerator(1 / 127)
    )
    expected = small(weights.astype(np.int32) @ v.astype(np.int32), _SCALES[2])
    grid = (ceiling_quotient(tokens, rows), heads)
    launch = flash.bind(grid, (q, k, v, out, tokens, size, *_SCALES, rows, masked), {}, Options(accelerator))
    macs = 2 * heads * size * (tokens * (tokens + 1) // 2 if masked else tokens * tokens)
    return {
        "rows": rows,
        "machine": accelerator.name,
        "macs": macs,
        "peak_cycles": macs / accelerator.dim**2,
        "predicted": predicted_cycles(launch, accelerator),
        "kernel": launch_cycles(launch, accelerator, "out", expected),
        # a block with a mask is softmaxed by the host core, whose cycles say nothing of the accelerator
        "blockwise": None if masked else _blockwise(launch, accelerator, expected),
    }


def _blockwise(launch: BoundLaunch, accelerator: Accelerator, expected: Any) -> int | None:
    """Cycles of attention block by block; None where a block of scores does not fit."""
    try:
        return launch_cycles(launch, accelerator, "out", expected, blockwise=True)
    except InfeasibleError:
        return None


def attention_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """What was measured."""

    def alone(row: Mapping[str, Any], form: str, value: float) -> str:
        return "-" if row["blockwise"] is None else format(row["blockwise"] / value, form)

    return page_of(
        "Attention in the block language",
        f"On {rows[0]['machine']}, measured on the RTL, every result equal to numpy's integers: softmax(q k^T) v of every head, int8,"
        " scores requantised, softmaxed by the unit for functions of rows. Product time: both products in every element of the array in"
        " every cycle; causal, of the elements that tokens see. `Block by block` is the same kernel with every block loaded,"
        " multiplied, softmaxed on its way to main memory and stored as its text says (-: a block of scores does not fit, or has a"
        " mask, which is no work for the unit there).",
        table(
            rows,
            {
                "heads x tokens x elements": lambda row: row["attention"],
                "rows of a block": lambda row: row["rows"],
                "kernel, cycles": lambda row: f"{row['kernel']:,}",
                "product time": lambda row: f"{row['peak_cycles']:,.0f}",
                "kernel/product time": lambda row: f"**{row['kernel'] / row['peak_cycles']:.3f}**",
                "block by block": lambda row: alone(row, ",.0f", 1),
                "its ratio": lambda row: alone(row, ".2f", row["peak_cycles"]),
            },
        ),
    )
