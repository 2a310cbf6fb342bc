"""Fit what switching costs in a technology: `python -m baco.bench.fit.switching NAME FILE.lib...`.

A small machine runs random products and moves twice: in RTL, which counts what switches, and as its netlist in the library's
cells, whose nets' switching gives the energy of each module. Figures of least squared relative error join the two, each part by
itself: clock, array, path of commands and data. Each run is then predicted by figures fitted to all others. Takes about five
minutes of one core, most of them for compiling the netlist. With `--floats` five netlists say how many times the energy of an int8
multiply-accumulate one of each format of floating point, and of int16, takes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from baco.accel.config import Accelerator, Features
from baco.accel.input_format import InputFormat
from baco.accel.isa import GARBAGE, IDENTITY_SCALE, encode
from baco.accel.number_formats import FLOATS, array_float
from baco.accel.structure_law import structure_law
from baco.accel.switching_figures import SwitchingFigures
from baco.accel.synthesis.liberty import Library, read_library
from baco.accel.synthesis.memories import nand2_charge_j
from baco.accel.synthesis.power import KINDS, Power
from baco.accel.synthesis.report import GOALS, CellDesign, in_cells
from baco.accel.technology import Technology, technology, technology_names
from baco.bench.fit.fitting import rounded
from baco.common.files import atomic_write
from baco.common.scratch import scratch_folder
from baco.sim.energy import switched_energy
from baco.sim.engines.rtl import RtlEngine, run_verilog
from baco.sim.job import Job, Simulation

#: The smallest machine with both dataflows: few of everything, since every gate is compiled.
MACHINE = Accelerator(
    name="gates", dim=2, scratchpad_kib=1, accumulator_kib=1, scratchpad_banks=1, accumulator_banks=1,
    dma_bits=32, dma_max_bytes=8, dma_requests=1, load_queue=1, execute_queue=1, store_queue=1, load_entries=1,
    execute_entries=2, store_entries=1, counters=0,
    features=Features(loop_ws=False, loop_conv=False, training_convs=False, first_layer=False, max_pool=False, mvin_scale=False),
)  # fmt: skip
BASE = 0x80000000
_ACCUMULATOR, _ACCUMULATE, _FULL = 1 << 31, 1 << 30, 1 << 29
#: Ranges of operands, shares of them that are not zero, rows, columns and inner lengths that products choose from.
_RANGES = ((-128, 128), (0, 128), (-16, 16), (-64, 64), (0, 32))
_SHARES, _SIDES, _DEPTHS = (1.0, 1.0, 0.7, 0.5, 0.3), (4, 8, 12, 16), (4, 8, 16, 24)


#: Modules of the array alone, and the adder that its elements of floating point share with the accumulator's lanes.
_OF_ARRAY, _ADDER = re.compile(r"baco_mesh|baco_fp8_mesh_row|baco_(fp8|bf16)_product"), "baco_float_add"


@dataclass(frozen=True)
class RandomStream:
    """A stream of commands and what it is."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class GateRun:
    """A run in RTL, and the power of the same in the netlist."""

    name: str
    rtl: Simulation
    power: Power

    def part_pj(self, kinds: Sequence[str], array: bool | None = None) -> float:
        """Energy of some `KINDS`, of the array's modules (or of all others)."""
        return self._pj(kinds, lambda name: array is None or bool(_OF_ARRAY.match(name)) == array)

    def module_pj(self, kinds: Sequence[str], name: str) -> float:
        """Energy of some `KINDS` of all instances of a module."""
        return self._pj(kinds, lambda own: own == name)

    def _pj(self, kinds: Sequence[str], wanted: Callable[[str], bool]) -> float:
        found = sum(module.mw[kind] for module in self.power.modules if wanted(module.name) for kind in kinds)
        return found * 1e-3 / (self.power.clock_mhz * 1e6) * self.power.cycles * 1e12


class _Stream:
    """Lines of a stream under construction."""

    def __init__(self, machine: Accelerator, seed: int) -> None:
        self.dim, self.random = machine.dim, np.random.default_rng(seed)
        self.form, self.size = machine.input_format, machine.element_bytes
        self.lines: list[str] = []
        self.free = BASE

    def command(self, name: str, **fields: int) -> None:
        made = encode(name, **fields)
        self.lines.append(f"cmd {made.funct:x} {made.rs1:x} {made.rs2:x}")

    def matrix(self, rows: int, columns: int, low: int, high: int, share: float) -> int:
        """Address of a random matrix of which a share is not zero; limits are those of int8, others use as much of their range."""
        wide = 1 << 8 if self.form == "int16" else 1
        values = self.random.integers(wide * low, wide * high, (rows, columns))
        values = values.astype(np.int8 if wide == 1 else np.int16)
        values[self.random.random(values.shape) >= share] = 0
        form = array_float(self.form)
        content = values if form is None else form.codes(values.astype(np.float64))
        self.free, address = self.free + rows * columns * self.size, self.free
        self.lines.append(f"write {address:x} {content.tobytes().hex()}")
        return address

    def settings(self, weight_stationary: bool, strides: tuple[int, int, int]) -> None:
        self.command(
            "CONFIG_EX", dataflow=int(weight_stationary), a_stride=1, c_stride=1, acc_scale=IDENTITY_SCALE
        )
        for state, stride in enumerate(strides[:2]):
            self.command(
                "CONFIG_LD", state=state, pixel_repeats=1, block_stride=self.dim, scale=IDENTITY_SCALE, stride=stride
            )  # fmt: skip
        self.command("CONFIG_ST", stride=strides[2], acc_scale=IDENTITY_SCALE)

    def block(self, name: str, address: int, local: int) -> None:
        self.command(name, address=address, local=local, cols=self.dim, rows=self.dim)


def _product(stream: _Stream, m: int, n: int, k: int, weight_stationary: bool, a: int, b: int) -> None:
    """All blocks in, one product each, raw sums out."""
    dim, size = stream.dim, stream.size
    blocks_m, blocks_n, blocks_k = m // dim, n // dim, k // dim
    stream.settings(weight_stationary, (k * size, n * size, 4 * n))
    for i in range(blocks_m):
        for x in range(blocks_k):
            stream.block("MVIN", a + (i * dim * k + x * dim) * size, (i * blocks_k + x) * dim)
    weights = blocks_m * blocks_k * dim
    for x in range(blocks_k):
        for j in range(blocks_n):
            stream.block("MVIN2", b + (x * dim * n + j * dim) * size, weights + (x * blocks_n + j) * dim)
    square = {"bd_cols": dim, "bd_rows": dim, "c_cols": dim, "c_rows": dim}
    operand = {"a_cols": dim, "a_rows": dim, "bd_cols": dim, "bd_rows": dim}
    for i in range(blocks_m):
        for j in range(blocks_n):
            result = _ACCUMULATOR | (i * blocks_n + j) * dim
            for x in range(blocks_k):
                inner, weight = (i * blocks_k + x) * dim, weights + (x * blocks_n + j) * dim
                if weight_stationary:
                    to = result | (_ACCUMULATE if x else 0)
                    stream.command("PRELOAD", bd=weight, c=to, **square)
                    stream.command("COMPUTE_PRELOADED", a=inner, bd=GARBAGE, **operand)
                else:
                    to = result if x == blocks_k - 1 else GARBAGE
                    stream.command("PRELOAD", bd=GARBAGE, c=to, **square)
                    name = "COMPUTE_ACCUMULATED" if x else "COMPUTE_PRELOADED"
                    stream.command(name, a=inner, bd=weight, **operand)
    stream.free += 4 * m * n
    for i in range(blocks_m):
        for j in range(blocks_n):
            local = _ACCUMULATOR | _FULL | (i * blocks_n + j) * dim
            stream.block("MVOUT", stream.free - 4 * m * n + 4 * (i * dim * n + j * dim), local)


def cases(machine: Accelerator, count: int, seed: int = 7) -> Iterator[RandomStream]:
    """Random products, every second one output-stationary where the machine can, and two that only move."""
    random = np.random.default_rng(seed)
    for number, rows in enumerate((24, 40)):
        stream = _Stream(machine, number)
        source = stream.matrix(rows * machine.dim, machine.dim, -128, 128, 1.0 - 0.5 * number)
        stream.settings(True, (machine.dim * stream.size,) * 3)
        for name, start in (("MVIN", source), ("MVOUT", stream.free)):
            for block in range(rows):
                stream.block(name, start + block * machine.dim**2 * stream.size, block * machine.dim)
        yield RandomStream(f"moves of {rows} blocks", (*stream.lines, "fence"))
    for number in range(count):
        weight_stationary = number % 2 == 0 or machine.dataflow == "WS"
        m, n = (int(side) * machine.dim // 2 for side in random.choice(_SIDES, 2))
        k = int(random.choice(_DEPTHS)) * machine.dim // 2
        low, high = _RANGES[int(random.integers(len(_RANGES)))]
        shares = [float(one) for one in random.choice(_SHARES, 2)]
        stream = _Stream(machine, 100 + number)
        a = stream.matrix(m, k, low, high, shares[0])
        b = stream.matrix(k, n, low, high, shares[1])
        _product(stream, m, n, k, weight_stationary, a, b)
        flow = "weight" if weight_stationary else "output"
        name = f"{m} x {n} x {k}, {flow}-stationary, {low} to {high - 1}, {shares} not zero"
        yield RandomStream(name, (*stream.lines, "fence"))


def measured(machine: Accelerator, design: CellDesign, streams: Iterable[RandomStream]) -> list[GateRun]:
    """Each stream in RTL and in the machine's netlist."""
    found = []
    for case in streams:
        with scratch_folder() as folder:
            path = folder / "stream"
            path.write_text("\n".join(case.lines) + "\n", encoding="ascii")
            job = Job(machine=machine, stream=path)
            rtl = RtlEngine().run(job)

            def run(netlist: str, counts: Path, job: Job = job) -> int:
                return run_verilog(job, netlist, counts=counts).cycles or 0

            power = design.power(run)
        if power.cycles != rtl.cycles:
            raise AssertionError(f"{case.name}: {power.cycles} cycles as netlist, {rtl.cycles} in RTL")
        found.append(GateRun(case.name, rtl, power))
    return found


#: All kinds but the clock's tree.
_DATA = ("registers", "logic")
#: What each figure is multiplied with, by part.
_ARRAY = ("a", "weight", "multiplier", "product", "total", "element")
_CONTROL = ("command", "moved_byte", "accumulated_word")


def _counts(run: GateRun, machine: Accelerator) -> dict[str, float]:
    """What figures multiply in a run: energy of a figure of 1 pJ each, by `switched_energy` itself."""
    nothing = dict.fromkeys((*_ARRAY, *_CONTROL, "clock", "charge", "error"), 0.0)
    found = {}
    for name in (*_ARRAY, *_CONTROL, "clock"):
        figures = SwitchingFigures(**(nothing | {name: 1.0}))
        found[name] = sum(switched_energy(run.rtl, machine, figures).values())
    return found


def _least(
    runs: Sequence[GateRun], machine: Accelerator, names: Sequence[str], wanted: Any
) -> dict[str, float]:
    """Figures of least squared relative error, none negative."""
    taken = np.array([wanted(run) for run in runs])
    there = taken > 1e-3 * taken.max()
    counts = np.array([[_counts(run, machine)[name] for name in names] for run in runs])[there]
    scale = np.maximum(np.abs(counts).max(0), 1e-30)
    found, _ = nnls(counts / scale / taken[there, None], np.ones(int(there.sum())))
    return dict(zip(names, (found / scale).tolist(), strict=True))


def fit(runs: Sequence[GateRun], machine: Accelerator, charge_pj: float) -> SwitchingFigures:
    """Figures of a technology; their `error` is that of runs which figures of all others predict."""

    def alone(some: Sequence[GateRun]) -> dict[str, float]:
        figures = _least(some, machine, ("clock",), lambda run: run.part_pj(("clock",)))
        figures |= _least(some, machine, _ARRAY, lambda run: run.part_pj(_DATA, array=True))
        figures |= _least(
            some, machine, _CONTROL, lambda run: run.part_pj(("registers", "logic"), array=False)
        )
        return figures | {"charge": charge_pj, "error": 0.0}

    errors = []
    for number, run in enumerate(runs):
        others = SwitchingFigures(**alone([*runs[:number], *runs[number + 1 :]]))
        guess, true = predicted(run, machine, others)
        errors.append(guess / true - 1)
    found = {name: rounded(value) for name, value in alone(runs).items()}
    return SwitchingFigures(**(found | {"error": rounded(float(np.abs(errors).mean()))}))


def predicted(
    run: GateRun, machine: Accelerator, figures: SwitchingFigures, *, clock: bool = False
) -> tuple[float, float]:
    """Energy of a run by figures, and at gate level, pJ; with the clock's, or of all else."""
    terms = switched_energy(run.rtl, machine, figures)
    kinds = KINDS if clock else tuple(kind for kind in KINDS if kind != "clock")
    return sum(pj for name, pj in terms.items() if clock or name != "clock"), run.part_pj(kinds)


def float_macs(library: Library, goal: str, count: int) -> dict[str, list[float]]:
    """Energy of a multiply-accumulate in an array of each format of floating point, and of int16, the clock apart, next to one of int8 in
    an array of the same side and dataflow: of `count` random products of the same numbers, rounded to the format (of int16 256 times
    as large ones)."""
    own = MACHINE.replace(dataflow="WS")
    found: dict[str, list[float]] = {}
    kinds: tuple[InputFormat, ...] = ("integer", *FLOATS, "int16")
    for form in kinds:
        machine = own.in_format(form)
        # two streams that only move come first
        runs = measured(machine, in_cells(machine, library, optimise=goal), [*cases(machine, count)][2:])
        # of the adders' energy, the array has the part that it has of additions: `dim` for each of the accumulator
        share = machine.dim / (machine.dim + 1)
        found[form] = [
            (run.part_pj(_DATA, array=True) + share * run.module_pj(_DATA, _ADDER)) / run.rtl.activity["macs"]
            for run in runs
        ]
        print(f"{form}: {', '.join(f'{pj:.3g}' for pj in found[form])} pJ", flush=True)
    one = found.pop("integer")
    return {form: [a / b for a, b in zip(row, one, strict=True)] for form, row in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, say how well it does, and write the entry of the technology."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of the technology")
    parser.add_argument("liberty", type=Path, nargs="+", help="files of its cells")
    parser.add_argument("--runs", type=int, default=26, help="products that are run")
    parser.add_argument("--optimise", choices=GOALS, default=GOALS[0], help="what the netlist is made for")
    parser.add_argument(
        "--floats",
        action="store_true",
        help="how many times as much products in floating point take; figures stay",
    )
    given = parser.parse_args(arguments)
    if given.floats:
        return _measure_floats(given.name, read_library(given.liberty), given.optimise, given.runs)
    design = in_cells(MACHINE, given.liberty, optimise=given.optimise)
    runs = measured(MACHINE, design, cases(MACHINE, given.runs))
    figures = fit(runs, MACHINE, nand2_charge_j(design.library) * 1e12)
    for run in runs:
        (guess, true), (all_guess, all_true) = (
            predicted(run, MACHINE, figures, clock=one) for one in (False, True)
        )
        print(
            f"{true:10.0f} pJ without clock {guess / true - 1:+7.1%}, {all_true:10.0f} with {all_guess / all_true - 1:+7.1%}: {run.name}"
        )
    print(figures)
    registers = structure_law().counts(MACHINE, MACHINE.dim)["register_bits"]
    print(f"registers by the law of structure: {registers:.0f} bits")
    folder = Path(str(resources.files("baco.accel").joinpath("technologies")))
    known = technology(given.name) if given.name in technology_names() else Technology(name=given.name)
    made = known.model_copy(update={"switching": figures})
    atomic_write(folder / f"{given.name}.json", made.to_json())
    return 0


def _measure_floats(name: str, library: Library, goal: str, count: int) -> int:
    """Write the entry of the technology, and say how much runs differ."""
    ratios = float_macs(library, goal, count)
    for form, row in ratios.items():
        print(f"{form}: {np.mean(row):.3g} times int8, runs {min(row):.3g} to {max(row):.3g}")
    made = technology(name).model_copy(
        update={"float_macs": {form: rounded(float(np.mean(row))) for form, row in ratios.items()}}
    )
    folder = Path(str(resources.files("baco.accel").joinpath("technologies")))
    atomic_write(folder / f"{name}.json", made.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
