"""What must hold of dataflows that a copy of the product has besides its own: run there, as a script of its own process.

`WR` keeps weights as WS does, with columns of the window along the rows instead of channels, which shallow and depthwise
layers fill better; `OQ` keeps sums as OS does, with lines of pixels along the rows. `python -m tests.accel.more_dataflows`
prints, as JSON, what is wrong with each check of the file; empty texts where nothing is.
"""

from __future__ import annotations

import dataclasses
import json
import random
import traceback
from pathlib import Path
from typing import Any, get_args

import numpy as np

import baco.accel
from baco.accel.chipyard import scala_config
from baco.accel.config import Accelerator
from baco.accel.dataflows import DATAFLOWS, Dataflow
from baco.accel.verilog.generate import verilog
from baco.bench.exhaustive import enumerate_all
from baco.bench.optimality import small_space
from baco.bench.sets.spaces import published_space
from baco.common.errors import BacoError
from baco.compiler.choice.explicit import explicit_mappings
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.contraction import convolution
from baco.compiler.mapping.footprint import footprint
from baco.compiler.mapping.machine import machine_of
from baco.compiler.mapping.nest import requirement
from baco.compiler.mapping.text import (
    format_mapping,
    format_tree,
    mapping_text,
    parse_mapping_text,
    parse_tree,
)
from baco.compiler.mapping.tree import mapping_of, tree_of
from baco.compiler.styles.explicit.plan import make_plan
from baco.exploration.cost.bound import capacity_bound, compulsory_bound
from baco.exploration.cost.certificate import certify
from baco.exploration.cost.exact import LayerSolver
from baco.exploration.cost.genome import FLOW, FLOWS, ProblemSet, needs, tighten, to_mapping
from baco.exploration.cost.limits import limits_of
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.cost.reference import access_counts
from baco.exploration.cost.tiles import Region
from baco.exploration.objective import Objective
from baco.exploration.samplers import searchers
from baco.exploration.samplers.searchers import make_searcher
from baco.exploration.search.searcher import SearchSetup
from baco.exploration.space import DesignSpace, load_space
from baco.workloads.network import Task
from baco.workloads.problem import Problem
from tests.compiler.mapping.test_tree_movement import compare, draw_mapping
from tests.explore import searcher_conformance as conformance
from tests.explore.cost.test_exact import WEIGHINGS, brute_edp, random_problem, small_tasks, tiny_points
from tests.explore.genome_helpers import random_rows
from tests.explore.nest_oracle import walk
from tests.explore.study_helpers import small_workload

NEW: tuple[Any, ...] = ("WR", "OQ")
ALL: tuple[Dataflow, ...] = get_args(Dataflow)
LAYER = Problem(R=5, P=12, Q=12, C=3, K=24)


def array() -> Accelerator:
    return Accelerator(name="other", dim=16, scratchpad_kib=64, accumulator_kib=16, dataflow=NEW[0])


def in_space(name: str, flow: Any) -> DesignSpace:
    """A space of one dataflow, in the technology whose energies `searcher_conformance` recomputes."""
    return dataclasses.replace(published_space(name), dataflows=(flow,))


def refusal(call: Any, *arguments: Any) -> str:
    """The message with which a call is refused, hint and all."""
    try:
        call(*arguments)
    except BacoError as error:
        return str(error)
    raise AssertionError(f"{call.__name__} takes what it should refuse")


def check_text() -> None:
    r = random.Random(1)
    for _ in range(200):
        mapping, _problem = draw_mapping(r, 1 << 12, NEW)
        again = parse_mapping_text(mapping_text(mapping))
        assert (again.dataflow, again.rows, again.columns) == (
            mapping.dataflow,
            mapping.rows,
            mapping.columns,
        )
        assert (again.temporal, again.buffering) == (mapping.temporal, mapping.buffering)
        tree = tree_of(mapping)
        assert mapping_of(tree) == mapping
        assert mapping_of(parse_tree(format_tree(tree))).dataflow == mapping.dataflow
    assert "R3X - L0[W]" in format_mapping(parse_mapping_text(_text("R3X", "W P8")))
    assert parse_mapping_text(_text("R3X", "W P8")).dataflow == "WR"
    assert parse_mapping_text(_text("C3X", "W P8")).dataflow == "WS"
    assert parse_mapping_text(_text("Q3X", "O C8")).dataflow == "OQ"
    assert "L1[O] N1 R1X - L0[W]" in format_mapping(parse_mapping_text(_text("R1X", "W P8")))
    assert "the array rows take Q" in refusal(parse_mapping_text, _text("Q3X", "W P8"))


def _text(spatial: str, inner: str) -> str:
    kept, loops = inner.split()
    return f"L3[WIO] K2 - L2[WI] N1 K4X - L1[O] N1 {spatial} - L0[{kept}] {loops} buffers 1,1,1"


def check_movement() -> None:
    """Words moved are those of a walk with sets of elements."""
    r = random.Random(2)
    for _ in range(150):
        mapping, problem = draw_mapping(r, 64, NEW)
        compare(tree_of(mapping, problem.groups), [convolution(problem)])


def check_counts() -> None:
    """Counts of the reference model are those of a walked nest, in batches of all dataflows and of one."""
    r = random.Random(3)
    cases = [draw_mapping(r, 2000, ALL if n < 300 else NEW[n % 2 :][:1]) for n in range(400)]
    cases = [
        (m, dataclasses.replace(p, **dict(zip("RSPQCKN", m.padded_bounds, strict=True)))) for m, p in cases
    ]
    parts = [cases[:300], cases[300::2], cases[301::2]]
    for part in parts:
        batch = MappingBatch.of([m for m, _ in part])
        counts = access_counts(ProblemBatch.of([p for _, p in part]), batch)
        for i, (mapping, problem) in enumerate(part):
            walked = walk(problem, mapping)
            for name in ("macs", "a0", "a1", "a2", "a3"):
                assert getattr(counts, name)[i].item() == getattr(walked, name), (name, problem, mapping)


def check_needs() -> None:
    """Genomes, mappings and trees need the same of the memories."""
    rng = np.random.default_rng(4)
    problems = ProblemSet([LAYER, Problem(R=3, S=3, P=7, Q=9, stride_w=2, groups=6)])
    task = rng.integers(0, 2, 200)
    rows = random_rows(problems.bounds[task], 16, rng)
    rows[:, FLOW] = [FLOWS.index(NEW[n % 2]) for n in range(200)]
    tighten(rows, problems.bounds[task])
    words, _, lines = needs(problems, task, rows, True)
    machine = machine_of(array())
    for n, row in enumerate(rows):
        problem = problems.problems[task[n]]
        mapping = to_mapping(row, problem.groups, True)
        assert mapping.dataflow == NEW[n % 2]
        mapping.check(problem)
        need = requirement(mapping, problem)
        assert (need.accumulator_words, need.scratchpad_rows) == (words[n], lines[n])
        held = footprint(tree_of(mapping, problem.groups), [convolution(problem)], machine)
        assert held[1].words == need.accumulator_words


def check_proofs() -> None:
    """The exact solver finds what brute force over all mappings finds, and no bound lies above it."""
    for seed in range(4):
        flow = NEW[seed % 2]
        for name in ("gemmini", "reference"):
            space, rng = in_space(name, flow), np.random.default_rng(seed)
            problem, points = random_problem(rng), tiny_points(rng)
            truth = enumerate_all(problem, points, space, WEIGHINGS)
            solver = LayerSolver(problem, space)
            for i, point in enumerate(points):
                cheap = solver.bounds(Region.of(point), np.array(WEIGHINGS))
                for g, weighing in enumerate(WEIGHINGS):
                    least, found = truth.least[i, g], solver.solve(point, weighing)
                    if np.isinf(least):
                        assert np.isinf(found.value)
                        continue
                    assert abs(found.value - least) <= 1e-12 * least, (problem, point, weighing)
                    assert found.bound <= found.value * (1 + 1e-12)
                    assert cheap[g] <= least * (1 + 1e-12)


def check_bounds() -> None:
    """All bounds on a network lie below the best of all mappings on all accelerators, the certificate on it."""
    for flow in NEW:
        space = dataclasses.replace(small_space(), dim=(4,), accumulator_kib=(1,), dataflows=(flow,))
        tasks = (small_tasks()[0], Task("net", Problem(R=3, P=4, Q=3, K=4), 2.0))
        truth = brute_edp(tasks, space)
        energy, bandwidth = space.base.energy, space.base.dram_bytes_per_cycle
        assert compulsory_bound(tasks, energy, bandwidth, space.dataflows) <= truth
        assert capacity_bound(tasks, space).edp <= truth
        assert limits_of(tasks, space, None).edp <= truth
        found = certify(tasks, space, tolerance=0.0)
        assert found.complete
        assert abs(found.best - truth) <= 1e-9 * truth
        assert found.bound <= truth * (1 + 1e-12)


def check_searched() -> None:
    """Every searcher finds designs of each, which cost what a mapping by itself costs."""
    tasks = (*small_workload(8).tasks, Task("conv", LAYER, 1.0))
    for turn, name in enumerate(searchers.SEARCHERS):
        space = in_space(("gemmini", "reference")[turn // 2 % 2], NEW[turn % 2])
        setup = SearchSetup(tasks, space, Objective.parse("edp"), 120 * len(tasks), 5)
        conformance.check_candidates(
            lambda one, chosen=name: make_searcher(chosen, one), setup, conformance.model_cost
        )


def check_refused() -> None:
    """What needs hardware or commands says that there are none."""
    layer, space = Layer(LAYER), in_space("gemmini", NEW[0])
    mapping = parse_mapping_text(_text("R3X", "W P8"))
    mapping = dataclasses.replace(mapping, temporal=((1, 1, 12, 12, 1, 1, 1), *mapping.temporal[1:]))
    assert (
        "no RTL can be built for accelerator 'other': dataflow must not be WR: the array has no hardware for it"
        in refusal(verilog, array())
    )
    assert "dataflow must not be WR: the instruction set has no such" in refusal(scala_config, array())
    for call, arguments in (
        (InstructionModel, ([layer], space)),
        (limits_of, ((Task("conv", LAYER, 1.0),), space, [layer])),
        (explicit_mappings, (layer, array())),
        (make_plan, (Layer(Problem(P=8)), parse_mapping_text(_text("R1X", "W P8")), array())),
    ):
        assert "there are no commands for the dataflow WR" in refusal(call, *arguments), call
    both = dataclasses.replace(load_space("gemmini"), dataflows=("WS", NEW[0]))
    assert "no array offers the dataflows WR, WS together" in refusal(both.accelerator, 16, 64, 256)


def check_numbers() -> None:
    """What stored searches call flows stays."""
    assert ("WS", "OS", *("WS",) * 7, *NEW) == FLOWS
    assert tuple(DATAFLOWS) == ALL == ("WS", "OS", *NEW)


def main() -> None:
    """Print what is wrong with each check."""
    found = {"where": str(Path(baco.accel.__file__).parent)}
    for name, check in sorted(globals().items()):
        if name.startswith("check_"):
            try:
                check()
                found[name] = ""
            except Exception:
                found[name] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
