"""Products on the RTL: in the block language, by the layer path, and as others have scheduled them; share of the array's peak."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco.accel.config import TIMINGS, Accelerator
from baco.accel.presets import load_accelerator
from baco.bench.hand_scheduled import HAND_SCHEDULED, hand_scheduled_program
from baco.common.errors import BacoError, InputError, Location, did_you_mean
from baco.common.files import atomic_write, output_folder, read_input_text
from baco.compiler.choice.choose import choose
from baco.compiler.choice.gemmini import gemmini_schedule
from baco.compiler.codegen.layer_program import layer_program
from baco.compiler.codegen.program import Program
from baco.compiler.language.compile import buffer_names, compile_launch
from baco.compiler.language.forms import ceiling_quotient
from baco.compiler.language.jit import BoundLaunch, Options, jit
from baco.compiler.language.names import const
from baco.compiler.language.primitives import PRIMITIVES
from baco.compiler.layers.layer import Layer
from baco.compiler.schedules.schedule import Schedule
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem

__all__ = ["PRODUCTS", "STAGES", "earlier_rows", "kernels", "kernels_page", "measured_cycles", "memories_of"]

#: What can be measured of a product.
STAGES = ("products", "published")

PRODUCTS_MACHINE = "gemmini-default"
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
    machine: str = PRODUCTS_MACHINE,
    stages: Sequence[str] = STAGES,
    out: Path,
    watch: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """A row for each product: cycles of the kernel, of the same block by block, and of the layer path (stage `products`); and,
    by timing, cycles of published schedules (stage `published`).

    Every result is compared with numpy's integers. Writes `kernels.json` and `kernels.md`, which keep what they have of other
    stages and products. Raises BacoError for a wrong result, InputError for other stages and a file that holds something else.
    """
    for stage in stages:
        if stage not in STAGES:
            raise InputError(f"there is no stage '{stage}'", hint=did_you_mean(stage, STAGES))
    folder, accelerator = output_folder(out), load_accelerator(machine)
    kept = earlier_rows(folder / "kernels.json", "product", accelerator.name)
    for shape in shapes:
        name = "x".join(map(str, shape))
        product_case = _Case(shape, accelerator)
        row = kept.setdefault(name, {"product": name, "machine": accelerator.name})
        row |= {"macs": product_case.layer.problem.macs, "peak_cycles": product_case.peak_cycles}
        for stage in stages:
            watch(f"{name}, {stage}")
            if stage == "products":
                row |= _products(product_case, blocks)
            else:
                row["published"] = {timing: _published(product_case, blocks, timing) for timing in TIMINGS}
            atomic_write(folder / "kernels.json", json.dumps(list(kept.values()), indent=1) + "\n")
            atomic_write(folder / "kernels.md", kernels_page(list(kept.values())))
    return list(kept.values())


def earlier_rows(path: Path, key: str, machine: str) -> dict[str, dict[str, Any]]:
    """Rows of runs before, by what they say for `key`. Raises InputError for a file of something else, or of another machine."""
    if not path.exists():
        return {}
    try:
        rows = json.loads(read_input_text(path))
        found = {row[key]: row for row in rows if row["machine"] == machine}
    except (ValueError, TypeError, KeyError):
        raise InputError(
            "these are no results of kernels", location=Location(str(path)), hint="name another --out"
        ) from None
    if len(found) < len(rows):
        raise InputError(
            "these are results of another machine", location=Location(str(path)), hint="name another --out"
        )
    return found


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

    @property
    def peak_cycles(self) -> float:
        return self.layer.problem.macs / self.accelerator.dim**2

    def by_kernel(
        self, blocks: tuple[int, int, int], timing: str = "baco", *, blockwise: bool = False
    ) -> int:
        m, n, k = self.shape
        machine = self.accelerator.replace(timing=timing)
        grid = (ceiling_quotient(m, blocks[0]), ceiling_quotient(n, blocks[1]))
        c = np.zeros((m, n), np.int8)
        launch = product.bind(grid, (self.a, self.b, c, m, n, k, _SCALE, *blocks), {}, Options(machine))
        program = compile_launch(launch, machine, blockwise=blockwise)
        return measured_cycles(program, memories_of(launch), "c", self.expected, timing)

    def by_schedule(self, schedule: Schedule, timing: str = "baco") -> int:
        inputs = self._inputs()
        program = layer_program(self.layer, schedule, self.accelerator, inputs)
        return measured_cycles(program, inputs, "output", self.expected, timing)

    def by_hand(self, timing: str, *, apart: bool = False) -> int | None:
        schedule = HAND_SCHEDULED.get(self.shape)
        if schedule is None:
            return None
        program = hand_scheduled_program(self.shape, schedule, self.accelerator, _SCALE, apart=apart)
        return measured_cycles(program, self._inputs(), "output", self.expected, timing)

    def _inputs(self) -> dict[str, Any]:
        return {"input": self.a.reshape(-1), "weight": self.b.reshape(-1)}


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


def memories_of(launch: BoundLaunch) -> dict[str, Any]:
    """A launch's arrays as the inputs of its program."""
    return {
        name: np.ascontiguousarray(buffer.memory)
        for name, buffer in zip(buffer_names(launch), launch.buffers, strict=True)
    }


def measured_cycles(
    program: Program, inputs: Mapping[str, Any], name: str, expected: Any, timing: str
) -> int:
    """Of a program on the RTL. Raises BacoError where its output `name` is not what is expected."""
    outputs, result = run_program(program, dict(inputs), "rtl", timing=timing)
    if result.exit_code or not np.array_equal(outputs[name].reshape(-1), expected.reshape(-1)):
        raise BacoError(f"{program.name}: the result is not what numpy's integers give")
    assert result.cycles is not None
    return result.cycles


def kernels_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """What was measured."""
    lines = ["# Products in the block language, by the layer path, and as published", ""]
    lines += _products_lines([row for row in rows if "kernel" in row])
    lines += _published_lines([row for row in rows if "published" in row])
    return "\n".join(lines)


def _products_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    blocks = " x ".join(map(str, rows[0]["blocks"]))
    lines = [
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
    return [*lines, ""]


#: Columns of the comparison with published schedules.
_PEERS = {
    "library": "vendor's library",
    "hand": "by hand",
    "hand, B apart": "by hand, B apart",
    "kernel": "kernel",
    "layer": "layer path",
}


def _published_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    if rows:
        lines += [
            "## Published schedules",
            "",
            f"The same products on {rows[0]['machine']}, cycles from reset to the end, every result equal to numpy's integers, by the"
            " timing of this project's RTL (`baco`) and of the original's (`gemmini`). *Vendor's library*: the tiling of Gemmini's C"
            " library by loop macros (`compiler/choice/gemmini.py`). *By hand*: the Exo project's schedules, written anew from what"
            " they say (`bench/hand_scheduled.py`), single commands; *B apart*: the same with B at the end of the scratchpad, where it"
            " shares no bank with A. *Kernel* and *layer path* are ours, chosen for the timing. Shares are of the array's peak.",
            "",
        ]
    for timing in TIMINGS:
        if rows:
            lines += [
                f"| {timing}: rows x columns x depth | {' | '.join(_PEERS.values())} | library/ours | by hand/ours |",
                "|" + "---|" * (len(_PEERS) + 3),
            ]
        for row in rows:
            said = row["published"][timing]
            cells = [_share(said[name], row["peak_cycles"]) for name in _PEERS]
            by_hand = [one for one in (said["hand"], said["hand, B apart"]) if one is not None]
            ratio = f"{min(by_hand) / said['layer']:.3f}" if by_hand else ""
            lines.append(
                f"| {row['product']} | {' | '.join(cells)} | **{said['library'] / said['layer']:.3f}** | **{ratio}** |"
            )
        lines.append("")
    return lines


def _share(cycles: int | None, peak: float) -> str:
    return "" if cycles is None else f"{cycles:,} ({peak / cycles:.0%})"
