"""Fits the constants of `baco.compiler.styles.fused.strip_cycles`: `python -m baco.bench.fit.strips [--runs RUNS.json] [--more N]`.

Random chains of convolutions as networks have them, in random strips, on arrays of side 8, 16 and 32 run on the RTL; every
result is compared with integers. The constants have the least squared relative error of cycles on three of every four runs; the
others say how good they are. Runs are kept in a file, so that a fit can go on with more of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from baco.accel.config import Accelerator
from baco.accel.isa import float32_bits
from baco.accel.presets import load_accelerator
from baco.bench.fit.fitting import percent_errors
from baco.common.errors import BacoError
from baco.common.files import atomic_write
from baco.compiler.codegen.buffer import Buffer
from baco.compiler.codegen.program import build_program
from baco.compiler.ir.emit import Emitter
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.reference import layer_result
from baco.compiler.styles.fused.convolutions import StripOperands, diagonal_weights, emit_strips
from baco.compiler.styles.fused.predict_strips import choose_strips, strip_schedules, strip_work
from baco.compiler.styles.fused.strip_cycles import COSTS_FILE, strip_costs, strip_cycles
from baco.compiler.styles.fused.strip_placement import is_depthwise
from baco.compiler.styles.fused.strips import ConvolutionChain, StripSchedule, strip_memories
from baco.compiler.styles.fused.text import parse_group_schedule
from baco.sim.engines.program import run_program
from baco.workloads.problem import Problem

#: Multiplications of a chain at most, in cycles of the array.
_MOST_CYCLES = 80_000
SIDES = (8, 16, 32)
#: One of so many runs is not fitted to; part of the runs in the strips that the compiler chooses.
_HELD_OUT, _BEST = 4, 0.4
#: What the array loses at a block of results at most, as seen in the command logs of long chains; short ones cannot tell it from what
#: the host core loses.
_MOST_RESULTS = 12.0


def machine(side: int) -> Accelerator:
    """The accelerator of a side that chains run on."""
    if side == 8:
        return Accelerator(name="side8", dim=8, scratchpad_kib=64, accumulator_kib=16)
    return load_accelerator("gemmini-default" if side == 16 else "gemmini-large")


def random_chain(random: np.random.Generator, side: int) -> ConvolutionChain:
    """One to four convolutions: 1x1, 3x3 or 5x5, of one group or one for each channel, with strides, on an image of a network."""
    while True:
        size = int(random.choice([7, 14, 14, 28, 28, 56, 112]))
        channels = side * int(random.choice([1, 1, 2, 3, 4, 6, 8, 12])) - int(random.choice([0, 0, 0, 3]))
        layers: list[Layer] = []
        height = width = size
        for _ in range(int(random.choice([1, 2, 2, 3, 3, 4]))):
            depthwise = random.random() < 0.3
            window = int(random.choice([3, 3, 5])) if depthwise else int(random.choice([1, 1, 3]))
            stride = int(random.choice([1, 1, 1, 2]))
            outputs = side * int(random.choice([1, 2, 3, 4, 6, 8, 16])) - int(random.choice([0, 0, 0, 5]))
            c, k, groups = (1, 1, channels) if depthwise else (channels, outputs, 1)
            padding = window // 2
            q, p = ((extent + 2 * padding - window) // stride + 1 for extent in (height, width))
            problem = Problem(
                R=window, S=window, P=p, Q=q, C=c, K=k, stride_w=stride, stride_h=stride, groups=groups
            )
            scale = float(np.float32(1 / (60 * (window * window * c) ** 0.5)))
            pads, bias = (padding, padding), bool(random.integers(2))
            layers.append(
                Layer(problem, image=(height, width), padding=pads, bias=bias, relu=True, scale=scale)
            )
            height, width, channels = q, p, k * groups
        chain = ConvolutionChain(tuple(layers))
        work = sum(one.problem.macs * (side if is_depthwise(one) else 1) for one in chain.layers) / (
            side * side
        )
        if _MOST_CYCLES / 16 <= work <= _MOST_CYCLES:
            return chain


def sample(seed: int) -> tuple[int, ConvolutionChain, list[StripSchedule]]:
    """A side, a chain, and strips of it that fit."""
    random = np.random.default_rng(seed)
    side = SIDES[seed % len(SIDES)]
    while True:
        chain = random_chain(random, side)
        asked = [
            StripSchedule(one.rows, int(random.integers(1, one.rows + 1)), one.streamed)
            for one in strip_schedules(chain)
        ]
        fitting = list(strip_memories(chain, asked, machine(side)).schedules)
        if fitting:
            return side, chain, fitting


def measure(chain: ConvolutionChain, schedule: StripSchedule, accelerator: Accelerator, seed: int) -> int:
    """Cycles on the RTL. Raises BacoError for a result that is not what integers give."""
    random = np.random.default_rng(seed)
    image = random.integers(-128, 128, chain.layers[0].input_extent, dtype=np.int8)
    buffers, result, constants = [Buffer("input", image.shape, "int8", "input", image)], image, []
    for number, layer in enumerate(chain.layers):
        p = layer.problem
        weights = random.integers(-128, 128, layer.weight_extent, dtype=np.int8)
        bias = random.integers(-4000, 4000, p.groups * p.K, dtype=np.int32)
        given = {"input": result, "weight": weights} | ({"bias": bias} if layer.bias else {})
        result = layer_result(layer, given, accelerator.dim)
        if is_depthwise(layer):
            weights = diagonal_weights(weights.reshape(p.S, p.R, p.groups), accelerator.dim).reshape(-1)
        constants.append(Buffer(f"weights{number}", weights.shape, "int8", "constant", weights))
        constants.append(Buffer(f"bias{number}", bias.shape, "int32", "constant", bias))
    buffers += [Buffer("output", result.shape, "int8", "output"), *constants]
    e = Emitter("chain", [buffer.name for buffer in buffers])
    source, target, *others = e.arguments
    scales = tuple(float32_bits(layer.scale or 0.0) for layer in chain.layers)
    emit_strips(
        e, chain, schedule, accelerator,
        StripOperands(source, target, tuple(others[::2]), tuple(others[1::2]), scales),
    )  # fmt: skip
    e.fence()
    outputs, simulation = run_program(build_program(e.finish(), "chain", buffers, accelerator), engine="rtl")
    if not np.array_equal(outputs["output"], result):
        raise BacoError(f"{chain} in {schedule} on {accelerator.name}: wrong result")
    return int(simulation.cycles or 0)


def fit(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The record of constants for runs of `seed`, `schedule` and `cycles`."""
    names = list(strip_costs())
    works, measured = [], np.array([float(run["cycles"]) for run in runs])
    for run in runs:
        side, chain, _ = sample(run["seed"])
        schedule = parse_group_schedule(run["schedule"])
        assert isinstance(schedule, StripSchedule)
        memories = strip_memories(chain, [schedule], machine(side))
        works.append(strip_work(chain, memories, machine(side)))
    seen = np.arange(len(runs)) % _HELD_OUT != 0

    def ratios(values: np.ndarray, which: np.ndarray) -> np.ndarray:
        costs = dict(zip(names, values, strict=True))
        return np.array([strip_cycles(works[n], costs)[0] / measured[n] - 1 for n in np.flatnonzero(which)])

    upper = np.array([_MOST_RESULTS if name == "results" else np.inf for name in names])
    start = np.minimum(np.array([strip_costs()[name] for name in names]) + 0.01, 0.9 * upper)
    found = least_squares(
        lambda values: ratios(values, seen), start, bounds=(0.0, upper), x_scale=np.maximum(start, 5.0), diff_step=0.02
    ).x  # fmt: skip
    values = np.array([float(f"{value:.4g}") for value in found])

    def errors(which: np.ndarray) -> dict[str, float]:
        return {"runs": int(which.sum())} | percent_errors(np.abs(ratios(values, which)))

    return {
        "command": "python -m baco.bench.fit.strips",
        "errors": {"fitted": errors(seen), "held out": errors(~seen)},
        "costs": dict(zip(names, (float(value) for value in values), strict=True)),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run chains, fit, print the errors and write `strip_costs.json` (or --out)."""
    parser = argparse.ArgumentParser(prog="python -m baco.bench.fit.strips", description=main.__doc__)
    default = resources.files("baco.compiler") / "styles" / "fused" / COSTS_FILE
    parser.add_argument("--out", type=Path, default=Path(str(default)))
    parser.add_argument("--runs", type=Path, help="a file of runs, which are kept and added to")
    parser.add_argument("--more", type=int, default=0, help="chains to run beside those of --runs")
    parser.add_argument("--first", type=int, default=0, help="number of the first chain")
    options = parser.parse_args(arguments)
    runs: list[dict[str, Any]] = []
    try:
        if options.runs is not None and options.runs.exists():
            runs = json.loads(options.runs.read_text("utf-8"))
        begin = max((one["seed"] for one in runs), default=options.first - 1) + 1
        for seed in range(begin, begin + options.more):
            side, chain, fitting = sample(seed)
            random = np.random.default_rng(seed)
            # the best strips as predicted, or any
            best = random.random() < _BEST
            schedule = choose_strips(chain, machine(side)) if best else fitting[random.integers(len(fitting))]
            cycles = measure(chain, schedule, machine(side), seed)
            runs.append({"seed": seed, "schedule": str(schedule), "cycles": cycles})
            print(f"{seed}: side {side}, {schedule}, {cycles} cycles", file=sys.stderr)
            if options.runs is not None:
                atomic_write(options.runs, json.dumps(runs, indent=0) + "\n")
        record = fit(runs)
        atomic_write(options.out, json.dumps(record, indent=1) + "\n")
    except BacoError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(record["errors"], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
