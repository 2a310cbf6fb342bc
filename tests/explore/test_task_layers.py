"""From tasks to layers: what the network says beyond its problems, kept with a study."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from baco.common.errors import InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.network.lowering import lower_network
from baco.compiler.network.quantise import sketch
from baco.exploration._json import to_json
from baco.exploration.cost.program_rest import no_schedule, searched_tasks
from baco.exploration.serialize import check_tasks, task_from_json, workload_from_json, workload_to_json
from baco.exploration.space import load_space
from baco.exploration.task_layers import (
    LoweredTask,
    alike,
    layer_of_task,
    layers_of_tasks,
    result_scale,
)
from baco.workloads.builder import GraphBuilder
from baco.workloads.inputs.load import load_network
from baco.workloads.network import Network, Operator, Task, Tensor, Workload
from baco.workloads.problem import Problem


def _workload() -> Workload:
    b = GraphBuilder("mixed")
    x = b.input("image", (1, 3, 17, 15))
    x = b.relu(b.batchnorm(b.conv2d(x, 8, 3, 2, (2, 1, 0, 1), name="folded")))
    x = b.conv2d(x, 12, 1, name="bare")
    x = b.add(b.conv2d(x, 12, 3, 1, 1, bias=True, name="summed"), x)
    b.linear(b.reshape(b.relu(x), (1, -1)), 10, name="classes")
    return Workload.of([b.build()])


def test_facts_of_the_network_are_those_of_the_layer() -> None:
    workload = _workload()
    folded, bare, summed, classes = layers_of_tasks(workload.tasks, workload)
    assert (folded.size, folded.padding, folded.bias, folded.relu) == ((17, 15), (2, 1), True, True)
    assert (bare.size, bare.padding, bare.bias, bare.relu) == ((9, 8), (0, 0), False, False)
    # the residual comes between the convolution and its ReLU
    assert (summed.size, summed.padding, summed.bias, summed.relu) == ((9, 8), (1, 1), True, False)
    assert classes.is_product
    assert not classes.bias


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "bert_base", "unet"])
def test_a_study_keeps_what_layers_need(name: str) -> None:
    workload = Workload.of([load_network(name)])
    stored = workload_from_json(json.loads(json.dumps(workload_to_json(workload))))
    assert all(op.semantics is None for op in stored.networks[0].operators)
    assert layers_of_tasks(stored.tasks, stored) == layers_of_tasks(workload.tasks, workload)


def test_layers_of_resnet50_are_those_of_the_network() -> None:
    workload = Workload.of([load_network("resnet50")])
    first = layer_of_task(workload.tasks[0], workload)
    assert (first.size, first.padding, first.bias, first.relu) == ((224, 224), (3, 3), True, True)
    layers = layers_of_tasks(workload.tasks, workload)
    assert all(layer.bias for layer in layers)  # a folded batch normalisation, or the classifier's own
    assert sum(layer.padding == (1, 1) for layer in layers) == 7


def test_studies_of_earlier_versions_fall_back_to_the_bare_problem() -> None:
    record = workload_to_json(_workload())
    for operator in record["networks"][0]["operators"]:
        operator.pop("facts", None)
    workload = workload_from_json(record)
    folded = layer_of_task(workload.tasks[0], workload)
    # the image is what the windows cover; the folded normalisation is an operator of the graph, hence still known
    assert (folded.size, folded.padding, folded.bias, folded.relu) == ((19, 17), (0, 0), True, True)


def test_a_row_of_a_table_is_a_layer_too() -> None:
    problem = Problem(R=3, S=3, P=4, Q=4, C=8, K=8)
    tensor = Tensor("x", (800,))
    network = Network("rows", (tensor,), (Operator("row", "layer", ("x",), tensor, problem),))
    layer = layer_of_task(network.tasks[0], Workload.of([network]))
    assert (layer.size, layer.padding, layer.bias) == ((6, 6), (0, 0), False)
    assert layer_of_task(Task("elsewhere", problem, 1.0), Workload.of([network])) == layer


@pytest.mark.parametrize(
    "name",
    [
        "resnet18:image=64",
        "mobilenet_v2:image=64",
        "gpt2:seq=16",
        pytest.param("tinyllama_1b:seq=16", marks=pytest.mark.slow),
        "retinanet:image=128",
    ],
)
def test_what_a_search_tiles_are_the_layers_of_the_program(name: str) -> None:
    """Of every call of the unrolled network, on accelerators of other sides and with other units than that of the tasks."""
    network, space = load_network(name), load_space("gemmini")
    workload = Workload.of([network], [3.0])
    tasks = searched_tasks(workload, space)
    expected: Counter[Layer] = Counter()
    for one in tasks:
        assert isinstance(one, LoweredTask)
        assert (one.problem, one.weight) == (one.layer.problem, 3.0)
        expected[alike(one.layer)] = one.count
    assert len(expected) == len(tasks), "each once"
    for machine in (space.accelerator(8, 64, 128), space.accelerator(32, 64, 256, units=True)):
        lowered = lower_network(sketch(network), machine, no_schedule)
        called = Counter(
            alike(lowered.layers[step.function].layer)
            for step in lowered.steps
            if step.function in lowered.layers
        )
        assert {layer: 3 * count for layer, count in called.items()} == dict(expected)


def test_a_study_keeps_lowered_layers() -> None:
    workload = Workload.of([load_network("resnet18:image=64")])
    tasks = searched_tasks(workload, load_space("gemmini"))
    stored = tuple(task_from_json(json.loads(json.dumps(to_json(one)))) for one in tasks)
    assert stored == tasks
    check_tasks(stored, workload)
    assert layers_of_tasks(stored, workload)[0].pooling is not None
    for damaged in (tasks[:-1] + workload.tasks[-1:], ()):
        with pytest.raises(ValueError, match="not those of its networks"):
            check_tasks(damaged, workload)
    record = to_json(tasks[0])
    record["layer"]["problem"]["K"] -= 1
    with pytest.raises(InputError, match="another problem"):
        task_from_json(record)


def test_networks_without_a_program_are_searched_as_their_graphs_say() -> None:
    problem = Problem(R=3, S=3, P=4, Q=4, C=8, K=8)
    tensor = Tensor("x", (800,))
    rows = Network("rows", (tensor,), (Operator("row", "layer", ("x",), tensor, problem),))
    workload = Workload.of([rows, load_network("resnet18:image=64")], [2.0, 1.0])
    tasks = searched_tasks(workload, load_space("gemmini"))
    assert tasks[0] == workload.tasks[0]
    assert {type(one) for one in tasks[1:]} == {LoweredTask}
    check_tasks(tasks, workload)


@pytest.mark.parametrize("depth", [1, 64, 4096])
def test_scales_keep_results_of_random_data_in_range(depth: int) -> None:
    import numpy as np

    random = np.random.default_rng(1)
    a, b = (random.integers(-128, 128, (2000, depth)).astype(np.int64) for _ in range(2))
    results = np.rint((a * b).sum(axis=1) * result_scale(Problem(C=depth)))
    assert (np.abs(results) <= 127).mean() > 0.9
    assert np.abs(results).mean() > 10
