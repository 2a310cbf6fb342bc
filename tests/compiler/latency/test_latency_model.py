"""The instruction-aware latency model: gradients, what makes layers slower, mixed batches, fitting, accuracy tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.bench import latency as bench
from baco.bench.fit.explicit import fit, main, sample_of
from baco.bench.latency import accuracy
from baco.bench.sets.dataset import Dataset, read_dataset
from baco.compiler.analysis.arrays import NUMPY, InterpolatedTables
from baco.compiler.choice.choose import choose
from baco.compiler.latency import HardwareBatch, LayerBatch, latency, predict_layers
from baco.compiler.latency.arrays import TensorArrays, larger, smaller
from baco.compiler.latency.host import HOST_FEATURES, host_features
from baco.compiler.latency.model import Constants, constants, explicit_latency
from baco.compiler.latency.prediction import MOVED
from baco.compiler.layers.layer import Layer
from baco.compiler.layers.text import parse_layer
from baco.compiler.mapping.batch import MappingBatch
from baco.compiler.mapping.nest import Mapping
from baco.compiler.schedules.schedule import ExplicitSchedule
from baco.compiler.styles.registry import parse_schedule, realise
from baco.workloads.problem import DIMS, Problem

GEMMINI = load_accelerator("gemmini-default")
CONV = Layer(Problem(R=3, S=3, P=28, Q=28, C=64, K=96), image=(28, 28), padding=(1, 1), bias=True)


def _mapping(**factors: dict[str, int]) -> Mapping:
    """Factors by level: `l0={"P": 28}`."""
    temporal = tuple(tuple(factors.get(f"l{level}", {}).get(d, 1) for d in DIMS) for level in range(4))
    order = "RSCPQNK"
    return Mapping("WS", 16, 16, temporal, (order,) * 4, (2, 2, 2))


#: Not in macro form: a loop over tiles at level 2.
TILED = _mapping(l0={"P": 28, "Q": 7}, l1={"R": 3, "S": 3, "C": 4, "K": 2}, l2={"K": 3}, l3={"Q": 4})
#: In macro form.
MACRO = _mapping(l0={"P": 28, "Q": 7}, l1={"R": 3, "S": 3, "C": 4, "K": 2}, l3={"Q": 4, "K": 3})


def _cycles(layer: Layer, mapping: Mapping, accelerator: Accelerator = GEMMINI) -> float:
    return float(latency(*_batch([layer], [mapping], [accelerator])).cycles)


def _batch(
    layers: Sequence[Layer], mappings: Sequence[Mapping], accelerators: Sequence[Accelerator]
) -> tuple[LayerBatch, MappingBatch, HardwareBatch, Tensor]:
    """What `latency` takes; a macro carries out what the compiler says."""
    schedules = map(realise, layers, mappings, accelerators)
    macro = torch.tensor([not isinstance(schedule, ExplicitSchedule) for schedule in schedules])
    return LayerBatch.of(layers), MappingBatch.of(mappings), HardwareBatch.of(accelerators), macro


def _train(rows: int = 400) -> Dataset:
    data = read_dataset("train")
    return data.where([at < rows for at in range(len(data))])


def _log_cycles(data: Dataset, macro: bool) -> Callable[[Tensor], Tensor]:
    layers, hardware = LayerBatch.of(data.layers), HardwareBatch.of(data.accelerators)
    batch = MappingBatch.of(data.mappings)
    chosen = torch.full((len(data),), macro)

    def run(temporal: Tensor) -> Tensor:
        mappings = replace(batch, temporal=temporal)
        return latency(layers, mappings, hardware, chosen, relaxed=True).cycles.log()

    return run


def test_relaxed_gradients_are_those_of_finite_differences() -> None:
    data = _train(120)
    data = data.where([row.style == "explicit" for row in data.rows])
    run = _log_cycles(data, False)
    generator = torch.Generator().manual_seed(3)
    base = MappingBatch.of(data.mappings).temporal
    # away from whole numbers, where loops come and go
    temporal = base * (1.05 + 0.2 * torch.rand(base.shape, generator=generator, dtype=torch.float64))
    temporal.requires_grad_()
    (gradient,) = torch.autograd.grad(run(temporal).sum(), temporal)
    assert torch.isfinite(gradient).all()
    step = 1e-6 * torch.randn(base.shape, generator=generator, dtype=torch.float64) * temporal.detach()
    with torch.no_grad():
        difference = run(temporal + step) - run(temporal - step)
    expected = 2 * (gradient * step).sum((0, 1))
    scale = 2 * (gradient * step).abs().sum((0, 1)) + 1e-12
    wrong = ((difference - expected).abs() / scale) > 1e-3
    # a maximum or a loop may change sides within the step
    assert float(wrong.double().mean()) < 0.05


def test_gradients_of_whole_factors_are_finite_and_point_somewhere() -> None:
    data = _train(150)
    mappings = MappingBatch.of(data.mappings)
    temporal = mappings.temporal.clone().requires_grad_()
    found = latency(
        LayerBatch.of(data.layers),
        replace(mappings, temporal=temporal),
        HardwareBatch.of(data.accelerators),
        torch.from_numpy(data.macros),
    )
    (gradient,) = torch.autograd.grad(found.cycles.log().sum(), temporal)
    assert torch.isfinite(gradient).all()
    assert float((gradient.abs().amax((0, 1)) > 0).double().mean()) > 0.95


def test_float32_is_as_good() -> None:
    data = _train()
    wide, narrow = (
        latency(
            LayerBatch.of(data.layers, dtype),
            MappingBatch.of(data.mappings, dtype),
            HardwareBatch.of(data.accelerators, dtype),
            torch.from_numpy(data.macros),
        ).cycles
        for dtype in (torch.float64, torch.float32)
    )
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow.double(), wide, rtol=2e-3, atol=1.0)


def test_mixed_batches_are_the_sum_of_their_parts() -> None:
    data = _train(200)
    layers, mappings = LayerBatch.of(data.layers), MappingBatch.of(data.mappings)
    hardware = HardwareBatch.of(data.accelerators)
    macro = torch.from_numpy(data.macros)
    assert 0 < int(macro.sum()) < len(data)
    mixed = latency(layers, mappings, hardware, macro)
    by_moves = latency(layers, mappings, hardware, torch.zeros_like(macro))
    by_macro = latency(layers, mappings, hardware, torch.ones_like(macro))
    torch.testing.assert_close(mixed.cycles, torch.where(macro, by_macro.cycles, by_moves.cycles))
    torch.testing.assert_close(mixed.terms, torch.where(macro, by_macro.terms, by_moves.terms))


def test_one_layer_and_accelerator_serve_many_mappings() -> None:
    pair = MappingBatch.of([TILED, MACRO])
    macro = torch.tensor([False, True])
    found = latency(LayerBatch.of([CONV]), pair, HardwareBatch.of([GEMMINI]), macro)
    assert found.cycles.tolist() == pytest.approx([_cycles(CONV, TILED), _cycles(CONV, MACRO)])


@pytest.mark.parametrize("mapping", [TILED, MACRO], ids=["explicit", "macro"])
def test_what_makes_layers_slower(mapping: Mapping) -> None:
    base = _cycles(CONV, mapping)
    slow = GEMMINI.replace(dram_bytes_per_cycle=0.5)
    assert _cycles(CONV, mapping, slow) > 1.5 * base
    fast = GEMMINI.replace(dram_bytes_per_cycle=16.0)
    assert _cycles(CONV, mapping, fast) <= base
    wide = replace(CONV, problem=replace(CONV.problem, groups=2), input=CONV.input, weight=CONV.weight)
    both = Layer(wide.problem, image=(28, 28), padding=(1, 1), bias=True)
    assert _cycles(both, mapping) > 1.7 * base


def test_copies_hide_transfers_and_sums_through_memory_cost() -> None:
    slow = GEMMINI.replace(dram_bytes_per_cycle=2.0)
    single = replace(TILED, buffering=(1, 1, 1))
    assert _cycles(CONV, single, slow) > _cycles(CONV, TILED, slow)
    # the depth outside the pixels: partial sums leave and come back
    cut = _mapping(l0={"P": 28, "Q": 7}, l1={"R": 3, "S": 3, "K": 6}, l3={"C": 4, "Q": 4})
    spilling, holding = (
        latency(
            LayerBatch.of([CONV]),
            MappingBatch.of([replace(cut, order=(*cut.order[:3], order))]),
            HardwareBatch.of([slow]),
            torch.tensor([False]),
        )
        for order in ("QRSPCNK", "CRSPQNK")
    )
    assert float(spilling.cycles) > 1.2 * float(holding.cycles)
    assert float(spilling.terms[2]) > 3 * float(holding.terms[2])


def test_layers_are_predicted_as_they_are_realised() -> None:
    product = Layer(Problem(P=96, C=128, K=64), bias=True)
    depthwise = Layer(Problem(R=3, S=3, P=14, Q=14, C=1, K=1, groups=32), image=(14, 14), padding=(1, 1))
    layers = [CONV, CONV, CONV, product, depthwise]
    how = [TILED, MACRO, ExplicitSchedule(MACRO), choose(product, GEMMINI), choose(depthwise, GEMMINI)]
    found = [float(one.cycles) for one in predict_layers(layers, how, GEMMINI)]
    assert found[0] == pytest.approx(_cycles(CONV, TILED))
    assert found[1] == pytest.approx(_cycles(CONV, MACRO))
    assert not isinstance(realise(CONV, MACRO, GEMMINI), ExplicitSchedule)
    batch = LayerBatch.of([CONV]), MappingBatch.of([MACRO]), HardwareBatch.of([GEMMINI])
    assert found[2] == pytest.approx(float(latency(*batch, torch.tensor([False])).cycles))
    array = [one.problem.macs / 256 for one in layers]
    assert all(cycles > least for cycles, least in zip(found, array, strict=True))
    assert predict_layers([], [], GEMMINI) == []


def test_terms_have_names_and_none_is_longer_than_all() -> None:
    one = predict_layers([CONV], [TILED], GEMMINI)[0]
    assert one.names == ("compute", "load", "store", "issue", "start")
    assert one.terms.shape == (5, 1)
    # compute: every block of weights meets 28 x 7 pixels, and shifting the next one in hides behind them
    assert float(one.terms[0]) == pytest.approx(28 * 28 * 9 * 4 * 6, rel=0.05)
    assert float(one.terms.amax()) <= float(one.cycles) * 1.001


def test_power_of_two_that_divides() -> None:
    numbers = torch.tensor([0.0, 1.0, 6.0, 24.0, 64.0, 448.0, 7.9999, 640.0, 1024.0])
    assert TensorArrays().power(numbers).tolist() == [128, 1, 2, 8, 64, 64, 8, 128, 128]


def test_parts_of_a_whole() -> None:
    whole, part = torch.tensor([10.0, 12.0, 3.0]), torch.tensor([4.0, 4.0, 5.0])
    assert TensorArrays().parts(whole, part).total(lambda x: x * x).tolist() == [36.0, 48.0, 9.0]
    assert TensorArrays(relaxed=True).parts(whole, part).total(lambda x: x * x).tolist() == pytest.approx(
        [40.0, 48.0, 15.0]
    )


@pytest.mark.parametrize(
    "other", [torch.tensor([2.0, 1.0, 3.0, 2.0]), torch.tensor([2.0]), 2.0], ids=["same", "one", "number"]
)
@pytest.mark.parametrize(("mine", "reference"), [(larger, torch.maximum), (smaller, torch.minimum)])
def test_extremes_have_the_gradients_of_pytorch(mine: Any, reference: Any, other: Any) -> None:
    x = torch.tensor([1.0, 1.0, 5.0, 2.0], requires_grad=True)
    inputs = [x]
    if isinstance(other, torch.Tensor):
        other = other.clone().requires_grad_()
        inputs.append(other)
    weights = torch.tensor([3.0, 5.0, 7.0, 11.0])
    found, wanted = mine(x, other), reference(x, torch.as_tensor(other))
    assert torch.equal(found, wanted)
    assert torch.equal(mine(other, x), wanted)
    slopes = [torch.autograd.grad((one * weights).sum(), inputs) for one in (found, wanted)]
    assert all(map(torch.equal, *slopes))


@pytest.mark.parametrize(
    ("arrays", "of"), [(NUMPY, np.asarray), (TensorArrays(), torch.tensor)], ids=["numpy", "tensors"]
)
def test_tables_are_interpolated_along_their_last_axis(arrays: Any, of: Any) -> None:
    values = np.random.default_rng(0).integers(0, 100, (2, 3, 4, 6)).astype(float)
    tables = InterpolatedTables(values)
    i, j, last = [0.0, 2.0, 1.0, 1.0], [3.0, 0.0, 2.0, 2.0], [0.0, 5.0, 2.25, 4.5]
    found = arrays.between(tables, arrays.place(tables, of(i), of(j)), of(last))
    for table, row in zip(values, found, strict=True):
        wanted = [
            np.interp(x, np.arange(6), table[int(a), int(b)]) for a, b, x in zip(i, j, last, strict=True)
        ]
        assert np.asarray(row).tolist() == pytest.approx(wanted)


# -------------------------------------------------------------------- fitting


def test_fitting_finds_costs_that_made_the_cycles() -> None:
    """Host cycles made of known costs are predicted again."""
    sample = sample_of(read_dataset("train"))
    features = np.stack(host_features(sample.tiling, sample.commands))
    costs = np.array([1.7 * cost for cost in HOST_FEATURES.values()])
    made = replace(sample, host_cycles=costs @ features)
    found = fit([made], timing=False)
    predicted = np.array([found.host[name] for name in HOST_FEATURES]) @ features
    errors = np.abs(predicted / made.host_cycles - 1)
    # the pull to plausible costs keeps it from being exact
    assert errors.mean() < 0.02
    assert errors.max() < 0.2


def test_committed_constants_are_legal_and_name_their_sets() -> None:
    found = constants()
    assert min(found.host.values()) >= 0
    assert min(found.timing.values()) > 0
    text = resources.files("baco.compiler.latency").joinpath("constants.json").read_text("utf-8")
    assert "test" not in json.loads(text)["baco"]["sets"]


def test_the_model_predicts_micro_benchmarks() -> None:
    data = read_dataset("micro")
    found = latency(*_batch(data.layers, data.mappings, data.accelerators))
    one = accuracy(found.cycles.numpy(), data.cycles)
    assert one.spearman is not None
    assert one.spearman > 0.98
    assert one.mean_absolute_error < 0.13
    assert abs(one.bias) < 0.04


def test_sums_that_come_back_from_memory_are_waited_for_whatever_the_copies() -> None:
    """Of layers measured on the RTL that wait for memory: a second copy of the results hides no reading of sums."""
    errors = []
    for name in ("train", "test"):
        rows = read_dataset(name)
        data = rows.where([row.style == "explicit" and row.stratum in ("load", "store") for row in rows.rows])
        sample = sample_of(data)
        chosen = (sample.commands.sum_stores > 0) & (sample.tiling.copies[2] == 2)
        predicted = explicit_latency(sample.tiling, sample.commands, constants()).cycles
        errors.append((predicted.numpy() / sample.cycles - 1)[chosen.numpy()])
    found = np.concatenate(errors)
    assert len(found) > 80
    assert abs(found.mean()) < 0.03


@pytest.mark.parametrize("name", ["micro", "test"])
def test_bytes_of_main_memory_are_those_that_the_rtl_moved(name: str) -> None:
    """Nothing is fitted here: `test` is as good a set as any."""
    data = read_dataset(name)
    found = latency(*_batch(data.layers, data.mappings, data.accelerators))
    moved = data.numbers("dram_read_bytes") + data.numbers("dram_write_bytes")
    one = accuracy(found.bytes.numpy(), moved)
    assert one.spearman is not None
    assert one.spearman > 0.999
    assert one.mean_absolute_error < 0.02
    assert one.median_absolute_error < 0.001
    assert abs(one.bias) < 0.005


def test_other_constants_change_the_prediction() -> None:
    own = constants()
    slower = Constants({name: 2 * cost for name, cost in own.host.items()}, own.timing)
    batch = _batch([CONV], [TILED], [GEMMINI])
    assert float(latency(*batch, fitted=slower).cycles) > float(latency(*batch).cycles)


def test_the_command_writes_constants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "constants.json"
    main(["micro", "--out", str(out), "--rough"])
    written = json.loads(out.read_text())["baco"]
    assert written["sets"] == {"micro": 419}
    assert set(written["host"]) == set(HOST_FEATURES)
    assert "rows; host mean error" in capsys.readouterr().out


# -------------------------------------------------------------------- tables


def test_accuracy_by_hand() -> None:
    measured = np.array([100.0, 200.0, 400.0, 800.0])
    one = accuracy(np.array([110.0, 180.0, 400.0, 1200.0]), measured)
    assert one.spearman == pytest.approx(1.0)
    assert one.mean_absolute_error == pytest.approx((0.1 + 0.1 + 0.0 + 0.5) / 4)
    assert one.bias == pytest.approx((0.1 - 0.1 + 0.0 + 0.5) / 4)
    assert one.median_absolute_error == pytest.approx(0.1)
    swapped = accuracy(np.array([2.0, 1.0, 3.0, 3.0]), measured)
    # ranks 2 1 3.5 3.5 against 1 2 3 4
    assert swapped.spearman == pytest.approx(np.corrcoef([2, 1, 3.5, 3.5], [1, 2, 3, 4])[0, 1])
    assert accuracy(3 * measured, measured).calibrated_error == pytest.approx(0.0)


def test_tables_of_a_set(tmp_path: Path) -> None:
    result = bench.run("micro", seconds=0, out=tmp_path / "results")
    assert result["rows"] == len(read_dataset("micro"))
    assert sum(one["instruction"]["rows"] for one in result["by_stratum"].values()) == result["rows"]
    ours, trivial = result["models"]["instruction"], result["models"]["macs"]
    assert ours["mean_absolute_error"] < trivial["mean_absolute_error"]
    assert (tmp_path / "results" / "latency-model.md").read_text() == bench.page(result)
    data = json.loads((tmp_path / "results" / "latency-model.json").read_text())
    assert data["models"] == result["models"]


def test_sums_of_a_pooled_layer_are_as_many_as_without_pooling() -> None:
    """Partial sums in main memory are not pooled: they move as often, and as they are."""
    pooled = parse_layer("R3 S3 P34 Q34 C24 K24 image 34x34 padding 1x1 scale 0.001 pool 2,2,0,17,17")
    schedule = parse_schedule(
        "explicit L3[WIO] K2 C2 R2 Q2 P5 - L2[WI] S2 P2 K16X - L1[O] S2 Q3 R2 P2 C16X - L0[W] P2 Q6 buffers 2,1,1"
    )
    layers = [pooled, replace(pooled, pooling=None)]
    found = predict_layers(layers, [schedule] * 2, GEMMINI)
    addends = MOVED.index("addends")
    assert found[0].moved[addends].item() == found[1].moved[addends].item() > 0
