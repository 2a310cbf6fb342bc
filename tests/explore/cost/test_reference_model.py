"""The reference cost model against a walked loop nest, its own laws, and published Timeloop results."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from baco.accel.dataflows import Dataflow
from baco.accel.energy import EnergyTable
from baco.compiler.mapping.batch import AXES, MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import REGISTER_DIMS, ROW_DIM, Mapping, requirement
from baco.compiler.mapping.text import parse_mapping
from baco.exploration.cost.genome import ProblemSet, count, to_mapping
from baco.exploration.cost.reference import Counts, access_counts, energy_terms, latency_terms
from baco.workloads.problem import DIMS, Problem
from tests.explore.genome_helpers import random_rows
from tests.explore.nest_oracle import walk

TIMELOOP = Path(__file__).resolve().parents[4] / "shared" / "data" / "timeloop-mappings.csv.gz"


def random_case(seed: int, dataflow: Dataflow) -> tuple[Problem, Mapping]:
    """A mapping of at most some thousand steps with any loop order at any level, and the problem it covers."""
    rng = random.Random(seed)
    temporal = [[1] * 7 for _ in range(4)]
    budget = 4000.0
    for _ in range(9):
        level, d, factor = rng.randrange(4), rng.randrange(7), rng.choice((2, 2, 3))
        if (level == 0 and DIMS[d] not in REGISTER_DIMS[dataflow]) or budget < factor:
            continue
        temporal[level][d] *= factor
        budget /= factor
    orders = tuple("".join(rng.sample(DIMS, 7)) for _ in range(4))
    mapping = Mapping(
        dataflow,
        rows=rng.choice((1, 2, 3)),
        columns=rng.choice((1, 2, 4)),
        temporal=tuple(tuple(level) for level in temporal),
        order=orders,  # type: ignore[arg-type]
        buffering=(rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 2))),
    )
    sliding = {n: rng.choice((1, 1, 2, 3)) for n in ("stride_w", "stride_h", "dilation_w", "dilation_h")}
    bounds = dict(zip(DIMS, mapping.padded_bounds, strict=True))
    return Problem(**bounds, **sliding, groups=rng.choice((1, 1, 3))), mapping


def counts_of(cases: list[tuple[Problem, Mapping]]) -> Counts:
    problems, mappings = zip(*cases, strict=True)
    return access_counts(ProblemBatch.of(problems), MappingBatch.of(mappings))


@pytest.mark.parametrize("dataflow", ["WS", "OS"])
def test_counts_are_those_of_the_walked_nest(dataflow: Dataflow) -> None:
    cases = [random_case(seed, dataflow) for seed in range(400)]
    counts = counts_of(cases)
    for i, (problem, mapping) in enumerate(cases):
        walked = walk(problem, mapping)
        for name in ("macs", "a0", "a1", "a2", "a3"):
            assert getattr(counts, name)[i].item() == getattr(walked, name), (name, problem, mapping)


def test_counts_of_mixed_batches_are_those_of_single_ones() -> None:
    cases = [random_case(seed, "WS" if seed % 2 else "OS") for seed in range(40)]
    together = counts_of(cases).stacked()
    for i, case in enumerate(cases):
        assert torch.equal(together[:, i], counts_of([case]).stacked()[:, 0])


def test_needs_are_those_of_the_compiler() -> None:
    cases = [random_case(seed, "WS" if seed % 2 else "OS") for seed in range(300)]
    counts = counts_of(cases)
    for i, (problem, mapping) in enumerate(cases):
        need = requirement(mapping, problem)
        assert counts.rows[i].item() == need.rows
        assert counts.columns[i].item() == need.columns
        assert counts.accumulator_words[i].item() == need.accumulator_words
        assert counts.scratchpad_words[i].item() == need.scratchpad_words
        assert counts.scratchpad_rows[i].item() == need.scratchpad_rows


def test_whole_numbers_are_exact_up_to_2_to_the_53() -> None:
    # 2^52 + 2^51 MACs, one of each loop at DRAM: every count is an integer that float64 holds exactly
    sides = {"P": 3 * 2**17, "C": 2**16, "K": 2**18}
    mapping = parse_mapping("L3[WIO] P3 K2 C4 - L2[WI] K8192 K16X - L1[O] C1024 C16X - L0[W] P131072")
    counts = counts_of([(Problem(**sides), mapping)])
    macs = sides["P"] * sides["C"] * sides["K"]
    outputs = sides["P"] * sides["K"]
    # C is the innermost loop at DRAM: outputs stay neither in the accumulator (K runs inside) nor weights
    weights, inputs = sides["C"] * sides["K"] * 3, sides["C"] * sides["P"] * 2
    register = macs // 2**17
    moved = outputs * 4
    assert int(counts.macs) == macs == 2**52 + 2**51
    assert int(counts.a0) == macs + register
    assert int(counts.a1) == 2 * macs // 16 - outputs + moved
    assert int(counts.a2) == macs // 16 + register + inputs + weights
    assert int(counts.a3) == inputs + weights + 2 * moved - outputs


def test_gradients_are_those_of_finite_differences() -> None:
    rng = np.random.default_rng(5)
    size = 64
    # factors clearly above the threshold of a loop (1.5) or below, and none exactly 1, where a window just as
    # large as its step has a kink
    factors = np.where(
        rng.random((4, 7, size)) < 0.5,
        rng.uniform(1.6, 4.0, (4, 7, size)),
        rng.uniform(1.05, 1.4, (4, 7, size)),
    )
    rank = torch.from_numpy(np.argsort(rng.random((3, 7, size)), axis=1).astype(np.int8))
    stationary = torch.from_numpy(rng.random(size) < 0.5)
    inside = np.array([[a in REGISTER_DIMS[flow] for a in AXES] for flow in ("WS", "OS")])
    allowed = inside[stationary.numpy().astype(int)].T
    factors[0] = np.where(allowed, factors[0], 1.0)
    factors[1] = np.where(allowed, 1.0, factors[1])
    problem = ProblemBatch.of([Problem(stride_w=2, dilation_h=2, groups=2)] * size)
    spatial = torch.from_numpy(rng.uniform(2, 16, (2, size)))

    def total(temporal: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
        batch = MappingBatch(temporal, sides[0], sides[1], rank, stationary.long())
        counts = access_counts(problem, batch)
        return torch.stack([counts.a0, counts.a1, counts.a2, counts.a3]).log().sum(0)

    temporal = torch.from_numpy(factors).requires_grad_()
    sides = spatial.clone().requires_grad_()
    total(temporal, sides).sum().backward()
    step = 1e-6
    with torch.no_grad():
        for tensor, grad in ((temporal, temporal.grad), (sides, sides.grad)):
            assert grad is not None
            for place in np.ndindex(tensor.shape[:-1]):
                if tensor is temporal and place[0] < 2:
                    held = torch.from_numpy(allowed[place[1]] == (place[0] == 0))
                else:
                    held = torch.ones(size, dtype=torch.bool)
                original = tensor[place].clone()
                tensor[place] = original + step
                up = total(temporal, sides)
                tensor[place] = original - step
                down = total(temporal, sides)
                tensor[place] = original
                slope = (up - down) / (2 * step)
                assert torch.allclose(grad[place][held], slope[held], rtol=1e-5, atol=1e-6), place


def test_latency_and_energy_by_hand() -> None:
    counts = Counts(
        *(
            torch.tensor([float(v)], dtype=torch.float64)
            for v in (1000, 2000, 300, 400, 500, 0, 0, 4, 8, 16, 32, 8)
        )
    )
    dim, acc, sp = (torch.tensor([float(v)], dtype=torch.float64) for v in (16, 64, 256))
    assert latency_terms(counts, 16.0).flatten().tolist() == [1000 / 32, 300 / 16, 400 / 32, 500 / 8]
    assert latency_terms(counts, 16.0, 4.0)[3].item() == 500 / 4
    terms = energy_terms(counts, dim, acc, sp, EnergyTable()).flatten().tolist()
    expected = [560.8, 0.48746 * 2000, (1.94 + 0.1005 * 4) * 300, (0.49 + 0.02513 * 256) * 400, 50000]
    assert terms == pytest.approx(expected, rel=1e-12)


def test_a_genome_counts_as_its_mapping() -> None:
    problems = ProblemSet(
        [
            Problem(R=3, S=3, P=14, Q=14, C=24, K=40, stride_w=2),
            Problem(R=3, P=17, groups=5),
            Problem(P=50, C=30, K=70, N=2),
        ]
    )
    rng = np.random.default_rng(0)
    task = np.arange(150) % 3
    for double in (False, True):
        rows = random_rows(problems.bounds[task], 16, rng)
        mappings = [
            to_mapping(row, int(problems.groups[t]), double) for row, t in zip(rows, task, strict=True)
        ]
        from_mappings = counts_of([(problems.problems[t], m) for t, m in zip(task, mappings, strict=True)])
        assert torch.equal(count(problems, task, rows, double).stacked(), from_mappings.stacked())


def test_published_timeloop_results() -> None:
    if not TIMELOOP.is_file():
        pytest.skip("published Timeloop rows are not here (../shared/data)")
    with gzip.open(TIMELOOP, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 40_000
    shapes = {
        "stride_w": "Wstride",
        "stride_h": "Hstride",
        "dilation_w": "Wdilation",
        "dilation_h": "Hdilation",
    }
    problems = [
        Problem(
            **{d: int(row[f"prob.{d}"]) for d in DIMS},
            **{name: int(row[f"prob.{column}"]) for name, column in shapes.items()},
        )
        for row in rows
    ]
    counts = counts_of(
        [(p, parse_mapping(row["mapping.mapping"])) for p, row in zip(problems, rows, strict=True)]
    )

    def column(name: str) -> torch.Tensor:
        return torch.tensor([float(row[name]) for row in rows], dtype=torch.float64)

    dim = column("arch.meshX")
    acc_kib = column("arch.mem1_entries") * dim * 4 / 1024
    sp_kib = column("arch.mem2_entries") / 1024
    cycles = latency_terms(counts, dim).amax(0)
    energy = energy_terms(counts, dim, acc_kib, sp_kib, EnergyTable()).sum(0) * 1e-6
    cycle_error = (cycles / column("target.cycle") - 1).abs().mean().item()
    energy_error = (energy / column("target.energy") - 1).abs().mean().item()
    assert cycle_error <= 0.003e-2
    assert energy_error <= 0.075e-2


def test_rows_of_the_array_are_the_right_dimension() -> None:
    assert ROW_DIM == {"WS": "C", "OS": "P"}
    mapping = parse_mapping("L3[WIO] N1 - L2[WI] N1 K2X - L1[O] N1 C3X - L0[W] P4")
    counts = counts_of([(Problem(P=4, C=3, K=2), mapping)])
    assert (counts.rows.item(), counts.columns.item(), counts.macs.item()) == (3, 2, 24)
