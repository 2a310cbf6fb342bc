"""Reports to test with: small networks, random but valid designs, costs by the product's reference model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import torch

from baco.accel.config import Accelerator
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.batch import MappingBatch, ProblemBatch
from baco.compiler.mapping.nest import Mapping, requirement
from baco.exploration.breakdown import CostEntry, DesignCosts, layer_entries
from baco.exploration.candidate import BatchSummary, Candidate, Cost, LayerCost
from baco.exploration.cost.detail import layer_details
from baco.exploration.cost.reference import access_counts, energy_terms, latency_terms
from baco.exploration.objective import Objective
from baco.exploration.report import Baseline, CostBound, ReportData, SearchRecord
from baco.workloads.network import Network, Operator, Task, Tensor, Unsupported, Workload
from baco.workloads.problem import DIMS, Problem

PROBLEMS = (
    Problem(R=7, S=7, P=112, Q=112, C=3, K=64, stride_w=2, stride_h=2),
    Problem(P=56, Q=56, C=64, K=64),
    Problem(R=3, S=3, P=56, Q=56, C=64, K=64),
    Problem(R=3, S=3, P=14, Q=14, C=256, K=256),
    Problem(R=3, S=3, P=28, Q=28, groups=128),
    Problem(P=128, C=768, K=768),
    Problem(P=128, C=64, K=128, groups=12),
    Problem(C=2048, K=1000),
)


def network(name: str, layers: int, *, label: str = "layer") -> Network:
    """A chain of `layers` different tensor operators and a softmax."""
    operators = []
    for index in range(layers):
        base = PROBLEMS[index % len(PROBLEMS)]
        bounds = dict(zip(DIMS, base.bounds, strict=True))
        bounds["K"] += 8 * (index // len(PROBLEMS)) if base.groups == 1 else 0
        strides = {"stride_w": base.stride_w, "stride_h": base.stride_h, "groups": base.groups}
        problem = Problem(**bounds, **strides)
        operators.append(
            Operator(
                f"{label}{index}",
                "conv2d",
                (f"t{index}",),
                Tensor(f"t{index + 1}", (1, 8)),
                problem,
                problem.weight_words,
                repeat=1 + index % 3,
            )
        )
    last = Operator("softmax", "softmax", (f"t{layers}",), Tensor("out", (1, 8)))
    return Network(name, (Tensor("t0", (1, 3, 224, 224)),), (*operators, last))


def random_mapping(problem: Problem, dim: int, chance: random.Random) -> Mapping:
    """Some mapping that covers `problem`, weight-stationary, in random loop orders."""
    rows = min(dim, 1 << (problem.C.bit_length() - 1))
    columns = min(dim, 1 << (problem.K.bit_length() - 1))
    temporal = [[1] * 7 for _ in range(4)]
    for d, bound in enumerate(problem.bounds):
        left = bound
        if DIMS[d] == "C":
            left = -(-left // rows)
        if DIMS[d] == "K":
            left = -(-left // columns)
        levels = [1, 2, 3] + ([0] if DIMS[d] in "PQN" else [])
        for level in chance.sample(levels, 2):
            factor = chance.choice([1, 2, 4, 8])
            if factor <= left:
                temporal[level][d] *= factor
                left = -(-left // factor)
        temporal[3][d] *= left
    orders = tuple("".join(chance.sample(DIMS, 7)) for _ in range(4))
    return Mapping("WS", rows, columns, tuple(map(tuple, temporal)), orders, (2, 2, 1))


def layer_costs(
    tasks: Sequence[Task], mappings: Sequence[Mapping], accelerator: Accelerator
) -> list[LayerCost]:
    """Costs of the layers by the product's own reference model."""
    counts = access_counts(ProblemBatch.of([t.problem for t in tasks]), MappingBatch.of(mappings))
    dim = torch.full((len(tasks),), float(accelerator.dim), dtype=torch.float64)
    accumulator = torch.full_like(dim, accelerator.accumulator_kib)
    scratchpad = torch.full_like(dim, accelerator.scratchpad_kib)
    time = latency_terms(counts, dim, accelerator.dram_bytes_per_cycle)
    energy = energy_terms(counts, dim, accumulator, scratchpad, accelerator.energy)
    return [
        LayerCost(
            latency_cycles=float(time[:, i].max()),
            energy_pj=float(energy[:, i].sum()),
            macs=float(counts.macs[i]),
            accesses=tuple(float(getattr(counts, f"a{level}")[i]) for level in range(4)),
            latency_terms=tuple(time[:, i].tolist()),
            energy_terms_pj=tuple(energy[:, i].tolist()),
        )
        for i in range(len(tasks))
    ]


def candidate(
    tasks: tuple[Task, ...], mappings: tuple[Mapping, ...], dim: int, samples: int, slack: int = 1
) -> tuple[Candidate, list[LayerCost]]:
    """A candidate on the least hardware (whole KiB, `slack` times as much) that holds its mappings."""
    needs = [requirement(mapping, task.problem) for mapping, task in zip(mappings, tasks, strict=True)]
    accelerator = Accelerator(
        name="found",
        dim=dim,
        dataflow="WS",
        scratchpad_kib=slack * -(-max(need.scratchpad_words for need in needs) // 1024),
        accumulator_kib=slack * int(-(-max(need.accumulator_kib(dim) for need in needs) // 1)),
    )
    layers = layer_costs(tasks, mappings, accelerator)
    cost = Cost(
        sum(task.count * layer.latency_cycles for task, layer in zip(tasks, layers, strict=True)),
        sum(task.count * layer.energy_pj for task, layer in zip(tasks, layers, strict=True)),
        accelerator.area_mm2,
    )
    return Candidate(accelerator, tasks, mappings, cost, samples, cost.edp, front=True), layers


def design_costs(
    tasks: Sequence[Task], layers: Sequence[LayerCost], beside: Sequence[CostEntry] = ()
) -> DesignCosts:
    """Costs of layers that all run by themselves; what is `beside` is apart."""
    return DesignCosts(
        layer_entries(tasks, layers, [task.count for task in tasks], beside), tuple(beside), whole=False
    )


def report_data(
    *,
    candidates: int = 6,
    layers: int = 5,
    networks: Sequence[str] = ("tiny",),
    label: str = "layer",
    objective: str = "edp",
    seed: int = 1,
) -> ReportData:
    """A complete report of random designs."""
    chance = random.Random(seed)
    graphs = [network(name, layers, label=label) for name in networks]
    workload = Workload.of(graphs, [1.0 + 0.5 * i for i in range(len(graphs))])
    aim = Objective.parse(objective)
    found, costs = [], []
    for index in range(candidates):
        dim = (8, 16, 32, 64)[index % 4]
        mappings = tuple(random_mapping(task.problem, dim, chance) for task in workload.tasks)
        made, made_layers = candidate(workload.tasks, mappings, dim, 100 * (index + 1))
        found.append(made)
        costs.append(made_layers)
    beside = [
        CostEntry(
            g.name, "softmax", "operator", "softmax", "host", 1.0, 4096.0, {"host": 8192.0}, ("softmax",)
        )
        for g in graphs
    ]
    points = [(c.cost.latency_cycles, c.cost.energy_pj, c.cost.area_mm2) for c in found]
    flags = [
        not any(all(a <= b for a, b in zip(q, p, strict=True)) and q != p for q in points) for p in points
    ]
    found = [
        Candidate(c.accelerator, c.tasks, c.mappings, c.cost, c.samples, aim.scalar(c.cost), flag)
        for c, flag in zip(found, flags, strict=True)
    ]
    best = min(found, key=lambda c: c.objective)
    layers_of = [Layer(task.problem) for task in workload.tasks]
    designs = [(c.mappings, c.accelerator) for c in found]
    details = layer_details("reference", layers_of, designs, costs)
    dim = 16
    mappings = tuple(random_mapping(task.problem, dim, chance) for task in workload.tasks)
    own, own_costs = candidate(workload.tasks, mappings, dim, 0, slack=2)
    machine = own.accelerator.replace(name="gemmini-default")
    (own_details,) = layer_details("reference", layers_of, [(mappings, machine)], [own_costs])
    baseline = Baseline(
        "gemmini-default, its own tiling",
        machine,
        mappings,
        design_costs(workload.tasks, own_costs, beside),
        own_details,
        own.cost,
    )
    history, least = [], None
    for index, item in enumerate(found):
        least = item.objective if least is None else min(least, item.objective)
        history.append(BatchSummary(index, item.samples, 0.5 * index, least, "descent"))
    return ReportData(
        workload=workload,
        objective=aim,
        candidates=found,
        best=best,
        costs=[design_costs(workload.tasks, one, beside) for one in costs],
        summaries=history,
        search=SearchRecord("random", seed, "reference", "dim: [8, 16, 32, 64]\n", notes=("random designs",)),
        provenance={"versions": {"python": "3.11"}, "seed": seed, "platform": {"processors": 2}},
        command="baco explore --network tiny --objective edp --seed 1",
        bounds=(
            CostBound("compulsory traffic", best.cost.edp / 8, "Every word crosses the memory port once."),
            CostBound("SRAM-aware", best.cost.edp / 4, "Knows what the memories cost and hold."),
        ),
        baseline=baseline,
        details=dict(enumerate(details)),
    )


def hostile(data: ReportData, text: str) -> ReportData:
    """The same report with `text` in every place where a user's words appear."""
    graphs = tuple(
        Network(text, n.inputs, n.operators, (Unsupported(text, text, text),), text)
        for n in data.workload.networks
    )
    workload = Workload(graphs, data.workload.weights)
    tasks = tuple(Task(text, t.problem, t.count, (text, text + "2")) for t in data.tasks)
    beside = (CostEntry(text, text, "operator", text, "host", 2.0, 10.0, {"host": 5.0}, (text,)),)

    def layers(costs: DesignCosts) -> tuple[CostEntry, ...]:
        runs = [one.runs for one in costs.layers]
        return layer_entries(tasks, costs.layer_costs, runs, beside)

    renamed = [
        Candidate(c.accelerator, tasks, c.mappings, c.cost, c.samples, c.objective, c.front)
        for c in data.candidates
    ]
    return ReportData(
        workload=workload,
        objective=data.objective,
        candidates=renamed,
        best=renamed[data.best_index],
        costs=[one and replace(one, layers=layers(one), beside=beside) for one in data.costs],
        summaries=[
            BatchSummary(s.batch, s.evaluations, s.seconds, s.best_objective, text) for s in data.summaries
        ],
        search=SearchRecord(text, 0, text, text, text, (text,)),
        provenance={text: text, "command": text},
        command=text,
        bounds=[CostBound(text, b.edp, text) for b in data.bounds],
        baseline=data.baseline
        and replace(
            data.baseline,
            name=text,
            costs=replace(data.baseline.costs, layers=layers(data.baseline.costs), beside=beside),
        ),
        details=data.details,
    )
