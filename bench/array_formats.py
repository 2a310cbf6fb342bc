"""Formats of arrays, as hardware and accuracy together: `python -m baco.bench.array_formats MODEL.onnx DATA.npz [--engine rtl]`.

The network runs as one program on arrays of integers and of floating point, side by side, on one sample; every element of its results is
compared. Accuracy is measured on the samples behind those that ranges are taken from, in the numbers that the program computes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from baco.accel.config import Accelerator, Features
from baco.accel.input_format import INPUT_FORMATS
from baco.common.errors import BacoError
from baco.compiler.network.accuracy import AccuracyJudge
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import names_outside, quantise, quantise_inputs
from baco.compiler.network.quantiser import DEFAULT
from baco.compiler.network.reference import reference
from baco.exploration.measure.attempt import check_exit
from baco.sim.energy import energy_uj
from baco.sim.engines.program import run_program
from baco.workloads.inputs.load import load_network
from baco.workloads.inputs.samples import read_samples

SIDES = (4, 8, 16)


@dataclass(frozen=True)
class FormatRow:
    """A network on an array.

    Attributes:
        cycles, energy_uj: of the whole program; of accelerator and main memory, a multiply-accumulate of floating point by an assumption
            (`EnergyTable.of_elements`).
        right: share of right answers.
        snr_db: against floating point.
    """

    machine: Accelerator
    cycles: int
    energy_uj: float
    right: float
    snr_db: float

    @property
    def edp(self) -> float:
        """Energy times delay, µJ·cycles."""
        return self.energy_uj * self.cycles

    def dominated_by(self, other: FormatRow) -> bool:
        """Whether another is as good in noise and EDP, and better in one."""
        own, theirs = ((one.edp, -one.snr_db) for one in (self, other))
        return theirs != own and all(x <= y for x, y in zip(theirs, own, strict=True))


def machines(sides: tuple[int, ...] = SIDES) -> Iterator[Accelerator]:
    """Weight-stationary arrays of every format, alike else."""
    for dim in sides:
        for form in INPUT_FORMATS:
            yield Accelerator(
                name=f"{form}-{dim}",
                dim=dim,
                dataflow="WS",
                scratchpad_kib=32,
                accumulator_kib=16,
                input_format=form,
                features=Features(mvin_scale=False),
            )


def measured(
    model: Path, data: Path, engine: Literal["timed", "rtl"], sides: tuple[int, ...]
) -> list[FormatRow]:
    """A row for each of `machines`. Raises BacoError for results that are not numpy's."""
    network = load_network(str(model))
    samples = read_samples(data, network, names_outside(network)[0])
    rows = []
    for machine in machines(sides):
        quantiser = DEFAULT.on(machine)
        quantised = quantise(network, samples.inputs, quantiser=quantiser)
        found = AccuracyJudge(network, samples, quantiser=quantiser).measure(quantised, operators=False)
        inputs = quantise_inputs(quantised, samples[0])
        wanted = reference(quantised, inputs)
        program = compile_network(quantised, machine, data=inputs, reference=wanted)
        _, result = run_program(program.program, engine=engine)
        check_exit(result)
        energy = energy_uj(result, machine)
        assert energy is not None
        assert result.cycles is not None
        right = found.agreeing if found.integers is None else found.integers
        rows.append(FormatRow(machine, result.cycles, energy, right, found.near.snr_db))
        print(f"{machine.name}: {result.cycles:,} cycles", file=sys.stderr)
    return rows


def table(rows: list[FormatRow]) -> str:
    """Markdown; front: of noise and EDP."""
    lines = [
        "| array | right, % | signal to noise, dB | cycles | energy, µJ | EDP, µJ·cycles | front |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        front = not any(row.dominated_by(other) for other in rows)
        lines.append(
            f"| {row.machine.dim} x {row.machine.dim} `{row.machine.input_format}` | {100 * row.right:.2f} | {row.snr_db:.1f} | {row.cycles:,} |"
            f" {row.energy_uj:.3g} | {row.edp:,.0f} | {'yes' if front else ''} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Measure and print; 2 and one message where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m baco.bench.array_formats", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--engine", choices=("timed", "rtl"), default="rtl")
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES)
    options = parser.parse_args(arguments)
    try:
        sys.stdout.write(table(measured(options.model, options.data, options.engine, tuple(options.sides))))
    except BacoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
