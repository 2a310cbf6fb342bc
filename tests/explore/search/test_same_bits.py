"""Costs of a mapping do not depend on what is evaluated beside it, and searches call nothing that differs by processor."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from baco.common import portable, tensors
from baco.exploration.cost.genome import Genomes
from baco.exploration.cost.model import CostModel, ReferenceModel
from baco.exploration.cost.predicted import InstructionModel
from baco.exploration.objective import Objective
from baco.exploration.samplers.searchers import SEARCHERS
from baco.exploration.search.archive import Archive
from baco.exploration.search.exact_factors import ExactMappings
from baco.exploration.search.tilings import in_macro_form
from baco.exploration.space import DesignSpace, load_space
from baco.exploration.studies.engine import run_exploration
from baco.exploration.task_layers import layers_of_tasks
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Workload
from tests.explore.study_helpers import content, early_phases, small_space, small_workload

SPACE = dataclasses.replace(small_space(), dataflows=("WS", "OS"), double_buffer=True)
NETWORKS = ("mobilenet_v2", "resnet18", "bert_base")


def archive_of(network: str, space: DesignSpace, model: str) -> Archive:
    workload = Workload.of([load_network(network)])
    made: CostModel = ReferenceModel([task.problem for task in workload.tasks], space)
    if model == "instruction":
        made = InstructionModel(layers_of_tasks(workload.tasks, workload), space)
    return Archive(workload.tasks, space, made)


def random_rows(archive: Archive, number: int) -> tuple[np.ndarray, Genomes]:  # type: ignore[type-arg]
    """Mappings of all tasks, of both dataflows and in macro form where there are macros."""
    rng = np.random.default_rng(0)
    task = rng.integers(0, len(archive.tasks), number)
    dim = rng.choice(np.array(archive.space.dim), number)
    rows = ExactMappings(archive.problems.bounds, [0, 1]).draw(task, dim, rng)
    shaped = np.flatnonzero(archive.model.can(task, dim) & (rng.random(number) < 0.5))
    rows[shaped] = in_macro_form(rows[shaped], archive.problems.bounds[task[shaped]], dim[shaped])
    return task, rows


def evaluated(archive: Archive, task: np.ndarray, rows: Genomes, order: np.ndarray, size: int) -> np.ndarray:  # type: ignore[type-arg]
    """What the archive keeps of rows evaluated in some order, so many at a time, with their costs on some hardware."""
    archive._clear()
    for start in range(0, len(order), size):
        part = order[start : start + size]
        archive.add(task[part], rows[part])
    hardware = archive.space.points([8.0, 16.0, 32.0], [32.0, 64.0, 64.0], [64.0, 256.0, 256.0])
    kept = np.empty((len(rows), len(archive.data[0]) + 2 * len(hardware)))
    for layer in range(len(archive.tasks)):
        mine = order[task[order] == layer]
        kept[mine] = np.concatenate([archive.data[layer], *archive.costs(layer, hardware)]).T
    return kept


@pytest.mark.parametrize(
    ("network", "model"),
    [
        *((network, "instruction") for network in NETWORKS),
        (NETWORKS[0], "reference"),
        *(pytest.param(network, "reference", marks=pytest.mark.slow) for network in NETWORKS[1:]),
    ],
)
def test_costs_do_not_depend_on_the_batch(network: str, model: str) -> None:
    archive = archive_of(network, SPACE, model)
    task, rows = random_rows(archive, 200)
    order = np.arange(len(rows))
    expected = evaluated(archive, task, rows, order, len(rows))
    assert np.isfinite(expected).any(0).all()
    for size in (1, 3, 64):
        shuffled = np.random.default_rng(size).permutation(len(rows))
        shuffled = shuffled if size > 3 else shuffled[: 20 * size]
        found = evaluated(archive, task, rows, shuffled, size)
        assert np.array_equal(found[shuffled].view(np.int64), expected[shuffled].view(np.int64)), size


def test_snapshots_restore_costs_to_the_bit() -> None:
    """Those that were evaluated over many batches, and are evaluated at once when a search goes on."""
    archive = archive_of("mobilenet_v2", load_space("gemmini"), "instruction")
    task, rows = random_rows(archive, 300)
    for start in range(0, len(rows), 7):
        archive.add(task[start : start + 7], rows[start : start + 7])
    other = archive_of("mobilenet_v2", load_space("gemmini"), "instruction")
    other.restore(archive.state())
    for one, restored in zip(archive.data, other.data, strict=True):
        assert np.array_equal(one.view(np.int64), restored.view(np.int64))


#: Operators of PyTorch whose results are exact, or sums of two numbers and the like: one operation an element, or none.
EXACT = frozenset(
    """
    abs add add_ amax amin any argmin all bitwise_and bitwise_and_ bitwise_not bitwise_or bitwise_or_ neg bitwise_neg
    cat ceil ceil_ clamp clamp_ clamp_max clamp_min clone copy_ detach div div_ eq expand fill_ flatten floor floor_ floor_divide frexp full full_like
    gather gcd ge gt index index_add index_put index_select item le lift_fresh logical_not lt masked_fill masked_fill_ maximum minimum mul
    mul_ ne new_zeros nonzero one_hot ones ones_like permute reciprocal remainder repeat reshape round rsub scatter scatter_
    select select_backward sgn sign sign_ slice slice_backward sort split sqrt squeeze stack sub t transpose trunc unbind
    unsqueeze view where zeros zeros_like _local_scalar_dense _to_copy _unsafe_view arange empty empty_like
    """.split()  # noqa: SIM905
)


class Watch(TorchDispatchMode):
    """Counts the operators on floating-point tensors, those of gradients too."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if any(x.is_floating_point() for x in found):
            scale = (kwargs or {}).get("alpha", 1)
            assert scale == 1, "a product and a sum at once"
            self.seen[str(function).split(".")[1]] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("searcher", "model"),
    [("gradient", "instruction"), ("gradient", "reference"), *(pytest.param(name, "instruction", marks=[pytest.mark.slow] * (name == "dosa-published")) for name in SEARCHERS if name not in ("gradient", "local"))],
)  # fmt: skip
def test_searches_call_exact_operators_only(searcher: str, model: str, tmp_path: Path) -> None:
    few = 15 if searcher == "dosa-published" else 60  # a descent through all layers for each
    samples = {"instruction": 200, "reference": 400}[model] if searcher == "gradient" else few
    with early_phases(), Watch() as watch:
        path = run_exploration(
            small_workload(), SPACE, Objective.parse("edp"), searcher, samples,
            seed=1, out=tmp_path, cost_model=model,
        ).path  # fmt: skip
    if searcher == "gradient":
        phases = {row[3] for row in content(path)["batches"]}
        own = {"tilings", "compiler's schedules"} if model == "instruction" else {"descent", "exact finish"}
        assert phases == {"seeding", "local search"} | own
    assert watch.seen["mul"] > 100
    assert not set(watch.seen) - EXACT, {name: watch.seen[name] for name in set(watch.seen) - EXACT}


def test_tensors_have_the_bits_and_gradients_of_the_functions() -> None:
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.uniform(0.2, 5.0, (4, 6))).requires_grad_()
    cases = {
        "exp": (tensors.exp(values), torch.exp(values), portable.exp(values.detach().numpy())),
        "log": (tensors.log(values), torch.log(values), portable.log(values.detach().numpy())),
        "power": (tensors.power(values, 3.1), values**3.1, portable.power(values.detach().numpy(), 3.1)),
        "total": (tensors.total(values, 1), values.sum(1), portable.total(values.detach().numpy(), 1)),
        "spread": (
            tensors.spread(values, 3, 1) * torch.arange(1, 4).view(1, 3, 1),
            values.unsqueeze(1).expand(4, 3, 6) * torch.arange(1, 4).view(1, 3, 1),
            values.detach().numpy()[:, None] * np.arange(1, 4)[None, :, None],
        ),
    }
    for name, (found, wanted, bits) in cases.items():
        assert np.array_equal(found.detach().numpy(), bits), name
        weights = torch.from_numpy(rng.normal(size=tuple(found.shape)))
        slopes = [torch.autograd.grad((one * weights).sum(), values)[0] for one in (found, wanted)]
        assert torch.allclose(slopes[0], slopes[1], rtol=1e-12), name
    zero = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(tensors.power(zero, 3.1).sum(), zero)[0].tolist() == [0.0, 0.0]
