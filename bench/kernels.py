"""Products written in the block language against the layer path, on the RTL: cycles, and the share of the array's peak."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accel.config import Accelerator
from accel.presets import load_accelerator
from common.errors import BacoError
from common.files import atomic_write, output_folder
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

__all__ = ["PRODUCTS", "kernels", "kernels_page"]

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

arange, dot, load = (PRIMITIVES[name] for name in ("arange", "dot", "load"))
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


def kernels(
    shapes: Sequence[tuple[int, int, int]] = PRODUCTS,
    *,
    blocks: tuple[int, int, int] = _BLOCKS,
    machine: str = _MACHINE,
    out: Path,
    watch: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A row for each product: cycles of the kernel, of the same block by block, and of the layer path.

    Every result is compared with numpy's integers. Writes `kernels.json` and `kernels.md`. Raises BacoError for a wrong one.
    """
    folder, accelerator = output_folder(out), load_accelerator(machine)
    rows = []
    for shape in shapes:
        watch("x".join(map(str, shape)))
        rows.append(_row(shape, blocks, accelerator))
        atomic_write(folder / "kernels.json", json.dumps(rows, indent=1) + "\n")
        atomic_write(folder / "kernels.md", kernels_page(rows))
    return rows


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
