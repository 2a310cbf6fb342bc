"""Products on the RTL: in the block language, by the layer path, and as others have scheduled them; share of the array's peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco.accel.config import TIMINGS, Accelerator
from baco.accel.presets import load_accelerator
from baco.bench import attention
from baco.bench.hand_scheduled import HAND_SCHEDULED, hand_scheduled_program
from baco.bench.harness.experiment import (
    FOLDER,
    ResultFiles,
    Say,
    check_names,
    each,
    kept_rows,
    page_of,
    silent,
    table,
)
from baco.bench.launches import launch_cycles, program_cycles
from baco.compiler.choice.choose import choose
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.language.forms import ceiling_quotient
from baco.compiler.language.jit import Options, jit
from baco.compiler.language.names import const
from baco.compiler.language.primitives import PRIMITIVES
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.workloads.problem import Problem

#: What can be measured: of a product, and attention (`baco.bench.attention`).
STAGES, _ATTENTION = ("products", "published"), ("attention", "causal")
_MACHINE = "gemmini-default"
#: Rows, columns, depth: a square product, and pointwise convolutions of ResNet-50.
PRODUCTS = (
    *((512, 512, 512), (12544, 256, 64), (12544, 64, 256)),
    *((3136, 512, 128), (3136, 128, 512), (784, 1024, 256)),
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


def run(
    *, accelerator: str = _MACHINE, only: Sequence[str] = (), out: Path = FOLDER, say: Say = silent
) -> dict[str, list[dict[str, Any]]]:
    """Products in the block language on the RTL: against the layer path, the same block by block, and published schedules; and
    attention, causal too, on a machine with units for functions of rows, against the time of its products alone.

    Finished stages are kept in the output folder's files: those that run replace their own figures only.

    Args:
        accelerator: what products run on.
        only: products, published, attention, causal; repeatable; by default all stages.
        out: folder for kernels.* and attention.* (md, json).

    Raises as `kernels` and `attention`.
    """
    check_names(only, (*STAGES, *_ATTENTION), "stage")
    stages = [one for one in STAGES if not only or one in only]
    found: dict[str, list[dict[str, Any]]] = {}
    if stages:
        found["products"] = kernels(machine=accelerator, stages=stages, out=out, say=say)
    shapes = attention.ATTENTION if not only or "attention" in only else ()
    causal = attention.CAUSAL if not only or "causal" in only else ()
    if shapes or causal:
        found["attention"] = attention.attention(shapes, causal, out=out, say=say)
    return found


def page(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Of all that was measured."""
    parts = [products_page(found["products"])] if "products" in found else []
    return "\n".join(
        [*parts, *([attention.attention_page(found["attention"])] if "attention" in found else [])]
    )


def kernels(
    shapes: Sequence[tuple[int, int, int]] = PRODUCTS,
    *,
    blocks: tuple[int, int, int] = _BLOCKS,
    machine: str = _MACHINE,
    stages: Sequence[str] = STAGES,
    out: Path,
    say: Say = silent,
) -> list[dict[str, Any]]:
    """A row for each product: cycles of the kernel, of the same block by block, and of the layer path (stage `products`); and,
    by timing, cycles of published schedules (stage `published`).

    Every result is compared with numpy's integers. What the files have of other stages and products is kept. Raises BacoError for a
    wrong result, InputError for a file that holds something else.
    """
    accelerator = load_accelerator(machine)
    files = ResultFiles(out, "kernels", products_page)
    kept = kept_rows(files, "product", accelerator.name)
    for shape in shapes:
        name = "x".join(map(str, shape))
        case = _Case(shape, accelerator)
        row = kept.setdefault(name, {"product": name, "machine": accelerator.name})
        row |= {"macs": case.layer.problem.macs, "peak_cycles": case.layer.problem.macs / accelerator.dim**2}
        for stage in stages:
            say(f"{name}, {stage}")
            if stage == "products":
                row |= _products(case, blocks)
            else:
                row["published"] = {timing: _published(case, blocks, timing) for timing in TIMINGS}
            files.keep(list(kept.values()))
    return list(kept.values())


class _Case:
    """A product with random operands, and what it must give."""

    def __init__(self, shape: tuple[int, int, int], accelerator: Accelerator) -> None:
        m, n, k = self.shape = shape
        self.accelerator = accelerator
        self.layer = Layer(Problem(P=m, K=n, C=k), scale=_SCALE)
        rng = np.random.default_rng(0)
        self.a = rng.integers(-128, 128, (m, k), np.int8)
        self.b = rng.integers(-128, 128, (k, n), np.int8)
        # exact: below 2^53
        total = (self.a.astype(np.float64) @ self.b.astype(np.float64)).astype(np.float32)
        self.expected = np.clip(np.rint(total * np.float32(_SCALE)), -128, 127).astype(np.int8)
        self.inputs = {"input": self.a.reshape(-1), "weight": self.b.reshape(-1)}

    def by_kernel(
        self, blocks: tuple[int, int, int], timing: str = "baco", *, blockwise: bool = False
    ) -> int:
        m, n, k = self.shape
        machine = self.accelerator.replace(timing=timing)
        grid = (ceiling_quotient(m, blocks[0]), ceiling_quotient(n, blocks[1]))
        arguments = (self.a, self.b, np.zeros((m, n), np.int8), m, n, k, _SCALE, *blocks)
        launch = product.bind(grid, arguments, {}, Options(machine))
        return launch_cycles(launch, machine, "c", self.expected, blockwise=blockwise)

    def by_schedule(self, schedule: Schedule, timing: str = "baco") -> int:
        program = layer_program(self.layer, schedule, self.accelerator, self.inputs)
        return program_cycles(program, self.inputs, "output", self.expected, timing)

    def by_hand(self, timing: str, *, apart: bool = False) -> int | None:
        schedule = HAND_SCHEDULED.get(self.shape)
        if schedule is None:
            return None
        program = hand_scheduled_program(self.shape, schedule, self.accelerator, _SCALE, apart=apart)
        return program_cycles(program, self.inputs, "output", self.expected, timing)


def _products(case: _Case, blocks: tuple[int, int, int]) -> dict[str, Any]:
    schedule = choose(case.layer, case.accelerator)
    return {
        "blocks": list(blocks),
        "kernel": case.by_kernel(blocks),
        "blockwise": case.by_kernel(blocks, blockwise=True),
        "layer": case.by_schedule(schedule),
        "schedule": str(schedule),
    }


def _published(case: _Case, blocks: tuple[int, int, int], timing: str) -> dict[str, Any]:
    """Cycles, from reset to the end, by who scheduled the product; ours for the timing, the others' as they are."""
    return {
        "library": case.by_schedule(gemmini_schedule(case.layer, case.accelerator), timing),
        "hand": case.by_hand(timing),
        "hand, B apart": case.by_hand(timing, apart=True),
        "kernel": case.by_kernel(blocks, timing),
        "layer": case.by_schedule(choose(case.layer, case.accelerator.replace(timing=timing)), timing),
    }


def products_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """What was measured of products."""
    return page_of(
        "Products in the block language, by the layer path, and as published",
        *_products_parts([row for row in rows if "kernel" in row]),
        *_published_parts([row for row in rows if "published" in row]),
    )


def _products_parts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    blocks = " x ".join(map(str, rows[0]["blocks"]))
    return [
        f"On {rows[0]['machine']}, measured on the RTL, every result equal to numpy's integers; blocks of {blocks} (rows,"
        " columns, depth), int8 results requantised from int32 sums. `block by block` is the same kernel with every block"
        " loaded, multiplied and stored as its text says. Peak: a product in every element of the array in every cycle.",
        table(
            rows,
            {
                "rows x columns x depth": lambda row: row["product"],
                "kernel, cycles": lambda row: f"{row['kernel']:,}",
                "share of the peak": lambda row: f"**{row['peak_cycles'] / row['kernel']:.1%}**",
                "layer path": lambda row: f"{row['layer']:,}",
                "kernel/layer path": lambda row: f"**{row['kernel'] / row['layer']:.3f}**",
                "block by block": lambda row: f"{row['blockwise']:,}",
                "its share": lambda row: f"{row['peak_cycles'] / row['blockwise']:.1%}",
            },
        ),
    ]


#: Columns of the comparison with published schedules.
_PEERS = {
    "vendor's library": "library",
    "by hand": "hand",
    "by hand, B apart": "hand, B apart",
    "kernel": "kernel",
    "layer path": "layer",
}


def _published_parts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    return [
        "## Published schedules",
        f"The same products on {rows[0]['machine']}, cycles from reset to the end, every result equal to numpy's integers, by the"
        " timing of this project's RTL (`baco`) and of the original's (`gemmini`). *Vendor's library*: the tiling of Gemmini's C"
        " library by loop macros (`compiler/choice/gemmini.py`). *By hand*: the Exo project's schedules, written anew from what"
        " they say (`bench/hand_scheduled.py`), single commands; *B apart*: the same with B at the end of the scratchpad, where it"
        " shares no bank with A. *Kernel* and *layer path* are ours, chosen for the timing. Shares are of the array's peak.",
        *(_published_table(rows, timing) for timing in TIMINGS),
    ]


def _published_table(rows: Sequence[Mapping[str, Any]], timing: str) -> str:
    def share(name: str, row: Mapping[str, Any]) -> str:
        cycles = row["published"][timing][name]
        return "" if cycles is None else f"{cycles:,} ({row['peak_cycles'] / cycles:.0%})"

    def over(row: Mapping[str, Any], *names: str) -> str:
        said = row["published"][timing]
        cycles = [said[name] for name in names if said[name] is not None]
        return f"**{min(cycles) / said['layer']:.3f}**" if cycles else ""

    return table(
        rows,
        {
            f"{timing}: rows x columns x depth": lambda row: row["product"],
            **each(_PEERS, share),
            "library/ours": lambda row: over(row, "library"),
            "by hand/ours": lambda row: over(row, "hand", "hand, B apart"),
        },
    )
