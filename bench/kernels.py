"""Products and attention written in the block language, on the RTL: cycles, against the layer path and the array's peak."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accel.config import Accelerator
from accel.presets import load_accelerator
from common.errors import BacoError, InfeasibleError
from common.files import atomic_write, output_folder
from compiler import row_functions
from compiler.choice.choose import choose
from compiler.codegen.layer_program import layer_program
from compiler.codegen.program import Program
from compiler.language.compile import buffer_names, compile_launch
from compiler.language.forms import ceiling_quotient
from compiler.language.jit import BoundLaunch, Options, jit
from compiler.language.names import const
from compiler.language.primitives import PRIMITIVES
from compiler.layers.layer import Layer
from sim.engines.program import run_program
from workloads.problem import Problem

__all__ = ["ATTENTION", "PRODUCTS", "kernels", "kernels_page"]

_MACHINE = "gemmini-default"
#: Rows, columns, depth: a square product, and pointwise convolutions of ResNet-50.
PRODUCTS = (
    (512, 512, 512),
    (12544, 256, 64),
    (12544, 64, 256),
    (3136, 512, 128),
    (3136, 128, 512),
    (784, 1024, 256),
)
_BLOCKS = (64, 64, 64)
_SCALE = 2.0**-9
#: Has units for functions of rows, which attention runs on.
_ROWS_MACHINE = "gemmini-transformer"
#: Heads, tokens, elements of a head, and rows of a block: as asked for, BERT-base, ViT-B/16, and rows of scores that are too long for
#: blocks as high as the array.
ATTENTION = ((8, 512, 64, 16), (12, 512, 64, 16), (12, 197, 64, 16), (8, 1024, 64, 8))
#: Of scores, of a step of a score in the softmax, of results.
_SCALES = (0.002, 0.05, 0.02)

arange, dot, load, softmax = (PRIMITIVES[name] for name in ("arange", "dot", "load", "softmax"))
program_id, requantise, store, zeros = (
    PRIMITIVES[name] for name in ("program_id", "requantise", "store", "zeros")
)


@jit
def product(a, b, c, M, N, K, scale, BM: const, BN: const, BK: const):  # type: ignore[no-untyped-def,valid-type]
    """C = A B, requantised."""
    rows = program_id(0) * BM + arange(0, BM)
    columns = program_id(1) * BN + arange(0, BN)
    inner = arange(0, BK)
    total = zeros((BM, BN), dtype="int32")
    for start in range(0, K, BK):
        left = load(a + rows[:, None] * K + (start + inner)[None, :])
        right = load(b + (start + inner)[:, None] * N + columns[None, :])
        total = dot(left, right, total)
    store(c + rows[:, None] * N + columns[None, :], requantise(total, scale))


@jit
def flash(q, k, v, out, S, D, scores_scale, step, out_scale, BM: const):  # type: ignore[no-untyped-def,valid-type]
    """softmax(q k^T) v of every head."""
    head = program_id(1) * S * D
    rows = program_id(0) * BM + arange(0, BM)
    keys, depth = arange(0, S), arange(0, D)
    queries = load(q + head + rows[:, None] * D + depth[None, :])
    right = load(k + head + keys[:, None] * D + depth[None, :])
    weights = softmax(requantise(dot(queries, right.T), scores_scale), step)
    values = load(v + head + keys[:, None] * D + depth[None, :])
    result = requantise(dot(weights, values), out_scale)
    store(out + head + rows[:, None] * D + depth[None, :], result)


def kernels(
    shapes: Sequence[tuple[int, int, int]] = PRODUCTS,
    attention: Sequence[tuple[int, int, int, int]] = ATTENTION,
    *,
    blocks: tuple[int, int, int] = _BLOCKS,
    machine: str = _MACHINE,
    out: Path,
    watch: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A row for each product: cycles of the kernel, of the same block by block, and of the layer path; and for each attention.

    Every result is compared with numpy's integers. Writes `kernels.json` and `kernels.md`. Raises BacoError for a wrong one.
    """
    folder, accelerator = output_folder(out), load_accelerator(machine)
    rows = []
    for shape in shapes:
        watch("x".join(map(str, shape)))
        rows.append(_row(shape, blocks, accelerator))
        _write(folder, rows)
    units = accelerator if accelerator.features.row_functions else load_accelerator(_ROWS_MACHINE)
    for heads in attention:
        watch("attention " + "x".join(map(str, heads[:3])))
        rows.append(_attention_row(heads, units))
        _write(folder, rows)
    return rows


def _write(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    atomic_write(folder / "kernels.json", json.dumps(rows, indent=1) + "\n")
    atomic_write(folder / "kernels.md", kernels_page(rows))


def _row(
    shape: tuple[int, int, int], blocks: tuple[int, int, int], accelerator: Accelerator
) -> dict[str, Any]:
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
    c = np.zeros((m, n), np.int8)
    # exact: below 2^53
    total = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32) * np.float32(_SCALE)
    expected = np.clip(np.rint(total), -128, 127).astype(np.int8)
    grid = (ceiling_quotient(m, blocks[0]), ceiling_quotient(n, blocks[1]))
    launch = product.bind(grid, (a, b, c, m, n, k, _SCALE, *blocks), {}, Options(accelerator))
    layer = Layer(Problem(P=m, K=n, C=k), scale=_SCALE)
    schedule = choose(layer, accelerator)
    inputs = {"input": a.reshape(-1), "weight": b.reshape(-1)}
    return {
        "product": "x".join(map(str, shape)),
        "blocks": list(blocks),
        "machine": accelerator.name,
        "macs": layer.problem.macs,
        "peak_cycles": layer.problem.macs / accelerator.dim**2,
        "kernel": _cycles(compile_launch(launch, accelerator), _memories(launch), "c", expected),
        "blockwise": _cycles(
            compile_launch(launch, accelerator, blockwise=True), _memories(launch), "c", expected
        ),
        "layer": _cycles(layer_program(layer, schedule, accelerator, inputs), inputs, "output", expected),
        "schedule": str(schedule),
    }


def _attention_row(sizes: tuple[int, int, int, int], accelerator: Accelerator) -> dict[str, Any]:
    heads, tokens, size, rows = sizes
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(-128, 128, (heads, tokens, size), np.int8) for _ in range(3))
    out = np.zeros_like(q)

    def small(sums: Any, scale: float) -> Any:
        scaled = sums.astype(np.float32) * np.float32(scale)
        return np.clip(np.rint(scaled), -128, 127).astype(np.int8)

    scores = small(q.astype(np.int32) @ k.transpose(0, 2, 1).astype(np.int32), _SCALES[0])
    weights = row_functions.softmax(
        scores, None, row_functions.exponentials(_SCALES[1]), row_functions.softmax_numerator(1 / 127)
    )
    expected = small(weights.astype(np.int32) @ v.astype(np.int32), _SCALES[2])
    grid = (ceiling_quotient(tokens, rows), heads)
    launch = flash.bind(grid, (q, k, v, out, tokens, size, *_SCALES, rows), {}, Options(accelerator))
    macs = 2 * heads * tokens * tokens * size
    return {
        "attention": "x".join(map(str, sizes[:3])),
        "rows": rows,
        "machine": accelerator.name,
        "macs": macs,
        "peak_cycles": macs / accelerator.dim**2,
        "kernel": _cycles(compile_launch(launch, accelerator), _memories(launch), "out", expected),
        "blockwise": _blockwise(launch, accelerator, expected),
    }


def _blockwise(launch: BoundLaunch, accelerator: Accelerator, expected: Any) -> int | None:
    """Cycles of attention block by block; None where a block of scores does not fit."""
    try:
        program = compile_launch(launch, accelerator, blockwise=True)
    except InfeasibleError:
        return None
    return _cycles(program, _memories(launch), "out", expected)


def _memories(launch: BoundLaunch) -> dict[str, Any]:
    return {
        name: np.ascontiguousarray(buffer.memory)
        for name, buffer in zip(buffer_names(launch), launch.buffers, strict=True)
    }


def _cycles(program: Program, inputs: Mapping[str, Any], name: str, expected: Any) -> int:
    outputs, result = run_program(program, dict(inputs), "rtl")
    if result.exit_code or not np.array_equal(outputs[name].reshape(-1), expected.reshape(-1)):
        raise BacoError(f"{program.name}: the result is not what numpy's integers give")
    assert result.cycles is not None
    return result.cycles


def kernels_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """What was measured."""
    products = [one for one in rows if "product" in one]
    attention = [one for one in rows if "attention" in one]
    parts = [part(of) for part, of in ((_products_page, products), (_attention_page, attention)) if of]
    return "\n".join(parts)


def _attention_page(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "# Attention in the block language",
        "",
        f"On {rows[0]['machine']}, measured on the RTL, every result equal to numpy's integers: softmax(q k^T) v of every head, int8,"
        " scores requantised, softmaxed by the unit for functions of rows. Product time: both products in every element of the array in"
        " every cycle. `Block by block` is the same kernel with every block loaded, multiplied, softmaxed on its way to main memory"
        " and stored as its text says (-: a block of scores does not fit).",
        "",
        "| heads x tokens x elements | rows of a block | kernel, cycles | product time | kernel/product time | block by block | its ratio |",
        "|" + "---|" * 7,
    ]
    for row in rows:
        peak, alone = row["peak_cycles"], row["blockwise"]
        other = "- | -" if alone is None else f"{alone:,} | {alone / peak:.2f}"
        lines.append(
            f"| {row['attention']} | {row['rows']} | {row['kernel']:,} | {peak:,.0f} |"
            f" **{row['kernel'] / peak:.3f}** | {other} |"
        )
    return "\n".join([*lines, ""])


def _products_page(rows: Sequence[Mapping[str, Any]]) -> str:
    blocks = " x ".join(map(str, rows[0]["blocks"]))
    lines = [
        "# Products in the block language, and by the layer path",
        "",
        f"On {rows[0]['machine']}, measured on the RTL, every result equal to numpy's integers; blocks of {blocks} (rows,"
        " columns, depth), int8 results requantised from int32 sums. `block by block` is the same kernel with every block"
        " loaded, multiplied and stored as its text says. Peak: a product in every element of the array in every cycle.",
        "",
        "| rows x columns x depth | kernel, cycles | share of the peak | layer path | kernel/layer path | block by block | its share |",
        "|" + "---|" * 7,
    ]
    for row in rows:
        peak = row["peak_cycles"]
        lines.append(
            f"| {row['product']} | {row['kernel']:,} | **{peak / row['kernel']:.1%}** | {row['layer']:,} |"
            f" **{row['kernel'] / row['layer']:.3f}** | {row['blockwise']:,} | {peak / row['blockwise']:.1%} |"
        )
    return "\n".join([*lines, ""])
