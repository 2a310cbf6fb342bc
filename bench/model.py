"""Throughput of the reference cost model on this machine (`baco bench model`)."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval

from baco.accel.energy import EnergyTable
from baco.common.errors import InputError, did_you_mean
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.exploration.cost.genome import COLUMNS, ROWS, T1, T2, T3, ProblemSet
from baco.exploration.cost.reference import access_counts, latency_terms, total_energy
from baco.exploration.search.exact_factors import ExactMappings
from baco.workloads.inputs.load import load_network

#: Layers that the random mappings are of, and the machine whose array bounds their spatial factors.
NETWORKS = ("resnet50", "bert_base")
_DIM, _ACCUMULATOR_KIB, _SCRATCHPAD_KIB = 128.0, 128.0, 512.0
#: Mappings in one batch; the best of them counts.
_SIZES = {"cpu": (4096, 16384, 65536), "cuda": (65536, 262144, 1048576)}
#: Threads tried: where other programs keep a core busy, two threads that wait for each other are slower than one.
_THREADS = (1, 2)
#: Share of the time given that finds the best batch size and number of threads.
_TRYING = 0.4
DEVICES = ("auto", "cpu", "cuda")


def run(
    seconds: Annotated[float, Interval(ge=0.1, le=600.0)] = 3.0, device: str = "auto", seed: int = 0
) -> dict[str, Any]:
    """Evaluations per second of the cost model in float64, forward and with gradient, of random mappings of mixed loop orders.

    Args:
        seconds: time to spend on each of the two measurements, preparation excluded.
        device: `cpu` (at most 2 threads), `cuda`, or `auto`: the CPU, and a GPU where there is one.
        seed: of the mappings.

    Returns:
        "forward_per_s" and "gradient_per_s" (the best repetition, after a warm-up; of the CPU unless only the
        GPU is measured), the same with `cuda_` in front for a GPU, the median repetition, batch sizes, and
        what was measured on. Every evaluation yields latency and energy; a gradient is that of the sum of
        the logarithms of both in all factors.

    Raises InputError for an unknown device, or `cuda` without a GPU.
    """
    if device not in DEVICES:
        raise InputError(f"unknown device '{device}'", hint=did_you_mean(device, DEVICES))
    gpu = torch.cuda.is_available()
    if device == "cuda" and not gpu:
        raise InputError("no CUDA device was found", hint="use --device cpu")
    result: dict[str, Any] = {}
    if device != "cuda":
        before = torch.get_num_threads()
        try:
            result |= _measured("cpu", seconds, seed)
        finally:
            torch.set_num_threads(before)
        result |= {"cores": os.cpu_count(), "processor": platform.machine()}
    if gpu and device != "cpu":
        found = _measured("cuda", seconds, seed)
        result |= found if device == "cuda" else {}
        result |= {f"cuda_{name}": value for name, value in found.items()}
        result["cuda_device"] = torch.cuda.get_device_name()
    return result | {"dtype": "float64", "networks": list(NETWORKS), "seed": seed, "torch": torch.__version__}


def page(result: dict[str, Any]) -> str:
    """Values by name, a line each."""
    texts = {name: f"{one:,.6g}" if isinstance(one, float) else str(one) for name, one in result.items()}
    return "\n".join(f"{name}: {text}" for name, text in texts.items())


def _measured(device: str, seconds: float, seed: int) -> dict[str, Any]:
    sizes = _SIZES[device]
    largest = random_batch(sizes[-1], seed)
    batches = {size: tuple(_to(part, size, device) for part in largest) for size in sizes}
    result: dict[str, Any] = {}
    for name, run in (("forward", _forward), ("gradient", _gradient)):

        def rates(way: tuple[int, int], budget: float, run: Callable[..., None] = run) -> list[float]:
            size, threads = way
            if device == "cpu":
                torch.set_num_threads(threads)
            problem, mapping = batches[size]
            return _rates(lambda: run(problem, mapping), size, budget, device)

        ways = [(size, threads) for threads in (_THREADS if device == "cpu" else (1,)) for size in sizes]
        tried = {way: max(rates(way, seconds * _TRYING / len(ways))) for way in ways}
        best = max(tried, key=lambda way: tried[way])
        found = rates(best, seconds * (1 - _TRYING))
        result |= {
            f"{name}_per_s": max([*found, tried[best]]),
            f"{name}_median_per_s": statistics.median(found),
            f"{name}_batch": best[0],
        }
        if device == "cpu":
            result[f"{name}_threads"] = best[1]
    return result


def _rates(run: Callable[[], None], size: int, seconds: float, device: str) -> list[float]:
    """Evaluations per second of as many repetitions as fit, at least two, after a warm-up."""

    def timed() -> float:
        begin = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    timed()
    end = time.perf_counter() + seconds
    found = [size / timed(), size / timed()]
    while time.perf_counter() < end:
        found.append(size / timed())
    return found


def random_batch(size: int, seed: int) -> tuple[ProblemBatch, MappingBatch]:
    """Weight-stationary mappings with exact divisors of random layers, a random permutation of the loops at
    every level."""
    rng = np.random.default_rng(seed)
    tasks = [task.problem for name in NETWORKS for task in load_network(name).tasks]
    problems = ProblemSet(tasks)
    task = rng.integers(0, len(tasks), size)
    rows = ExactMappings(problems.bounds, [0]).draw(task, np.full(size, int(_DIM)), rng)
    factors = torch.from_numpy(rows.T.astype(np.float64))
    rank = torch.from_numpy(rng.random((3, 7, size)).argsort(1).astype(np.int8))
    # Pixel loops of level 1 run at level 0, as far as a coin says so.
    inside = torch.from_numpy(rng.random((3, size)) < 0.5)
    t0, t1 = torch.ones(7, size, dtype=torch.float64), factors[T1].clone()
    t0[4:] = torch.where(inside, t1[4:], 1.0)
    t1[4:] = torch.where(inside, 1.0, t1[4:])
    temporal = torch.stack([t0, t1, factors[T2], factors[T3]])
    mapping = MappingBatch(temporal, factors[ROWS].clone(), factors[COLUMNS].clone(), rank)
    return problems.batch.take(torch.from_numpy(task)), mapping


def _to(batch: ProblemBatch | MappingBatch, size: int, device: str) -> Any:
    """The first `size` entries, on the device."""
    values = {name: getattr(batch, name) for name in batch.__dataclass_fields__}
    moved = {k: v[..., :size].contiguous().to(device) for k, v in values.items() if v is not None}
    return replace(batch, **moved)


def _costs(problem: ProblemBatch, mapping: MappingBatch) -> tuple[torch.Tensor, torch.Tensor]:
    counts = access_counts(problem, mapping)
    dim, accumulator, scratchpad = (
        torch.tensor(v, dtype=torch.float64, device=mapping.rows.device)
        for v in (_DIM, _ACCUMULATOR_KIB, _SCRATCHPAD_KIB)
    )
    latency = latency_terms(counts, dim).amax(0)
    return latency, total_energy(counts, dim, accumulator, scratchpad, EnergyTable())


def _forward(problem: ProblemBatch, mapping: MappingBatch) -> None:
    with torch.no_grad():
        _costs(problem, mapping)


def _gradient(problem: ProblemBatch, mapping: MappingBatch) -> None:
    variables = [v.detach().requires_grad_() for v in (mapping.temporal, mapping.rows, mapping.columns)]
    latency, energy = _costs(
        problem, replace(mapping, temporal=variables[0], rows=variables[1], columns=variables[2])
    )
    torch.autograd.grad((latency.log() + energy.log()).sum(), variables)
