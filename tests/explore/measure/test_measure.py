"""Measuring a layer: counts and energy by hand, wrong elements, what is infeasible, texts and the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baco.exploration.measure.layer as measuring
from baco.accel.config import Accelerator
from baco.accel.energy import NORMALISATIONS, EnergyTable
from baco.accel.isa import encode
from baco.bench.sets.dataset import NUMBERS
from baco.common.errors import InputError, StorageError
from baco.compiler.choice.choose import choices
from baco.compiler.layers.layer import Layer, Layout, Pooling
from baco.compiler.layers.reference import layer_result
from baco.compiler.layers.text import layer_text, parse_layer
from baco.compiler.mapping.text import parse_mapping_text
from baco.compiler.schedules.schedule import (
    DepthwiseSchedule,
    ExplicitSchedule,
    LoopConvSchedule,
    LoopWsSchedule,
    Schedule,
)
from baco.compiler.styles.registry import parse_schedule
from baco.exploration.measure.layer import first_difference, measure_layer
from baco.exploration.measure.measurement import Measurement
from baco.exploration.measure.store import MeasurementStore, measurement_key
from baco.sim.energy import counted_energy
from baco.sim.job import Limits, MainMemory
from baco.sim.trace import Log, LogEntry
from baco.sim.trace.writer import last_writer
from baco.workloads.problem import Problem

SMALL = Accelerator(name="small", dim=4, scratchpad_kib=16, accumulator_kib=8)
PRODUCT = Layer(Problem(P=9, C=7, K=6), bias=True, scale=0.01)
#: The whole product as one tile, single buffers: two blocks of depth and of columns, three of pixels.
WHOLE = parse_mapping_text("L3[WIO] N1 - L2[WI] N1 K4X - L1[O] K2 C2 C4X - L0[W] P9 buffers 1,1,1")


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return measure_layer(PRODUCT, WHOLE, SMALL)


def test_a_measured_layer(measured: Measurement) -> None:
    assert (measured.status, measured.reason, measured.style) == ("measured", "", "explicit")
    assert parse_schedule(measured.schedule) == ExplicitSchedule(WHOLE)
    assert measured.config_hash == SMALL.config_hash
    assert 0 < measured.cycles < measured.program_cycles
    assert measured.cycles >= measured.counters["accelerator_busy_cycles"]
    # every multiplication of the layer, and none of the padding
    assert measured.activity["macs"] == 9 * 7 * 6
    # two blocks of columns times seven rows of weights, each a row of four
    assert measured.activity["stationary_words"] == 2 * 7 * 4
    # rows of the sums: written by the bias and by both steps of the depth, in two blocks of columns
    assert measured.activity["accumulator_write_words"] == 3 * 9 * 2 * 4
    assert measured.activity["accumulator_read_words"] == (2 + 1) * 9 * 2 * 4  # to add twice, to store once


def test_energy_by_hand(measured: Measurement) -> None:
    """The constants of the table times counts: accumulator 8 KiB in 4 columns, scratchpad 16 KiB."""
    a = measured.activity
    wanted = {
        "mac": 0.5608 * 378,
        "registers": 0.48746 * (378 + 56),
        "accumulator": (1.94 + 0.1005 * 2) * (216 + 216),
        "scratchpad": (0.49 + 0.02513 * 16) * (a["scratchpad_read_bytes"] + a["scratchpad_write_bytes"]),
        "dram": 100.0 * (a["dram_read_bytes"] + a["dram_write_bytes"]),
    }
    assert measured.energy_terms_pj == pytest.approx(wanted)
    assert measured.energy_pj == pytest.approx(sum(wanted.values()))
    # main memory moves whole bursts of 8 bytes: at least what the tensors have
    assert a["dram_read_bytes"] >= 9 * 7 + 7 * 6 + 4 * 6
    assert a["dram_write_bytes"] >= 9 * 6
    dear = SMALL.replace(energy=EnergyTable(dram_pj=200.0).model_dump())
    assert counted_energy(a, dear)["dram"] == pytest.approx(2 * wanted["dram"])
    assert "functions" not in wanted.keys() | measured.energy_terms_pj.keys()
    built = SMALL.replace(features={"row_functions": True})
    elements = {
        "table_elements": 3,
        "softmax_elements": 5,
        "normalisation_elements": 7,
        "product_elements": 2,
    }
    look_up = 2 * (0.49 + 0.02513 / 2)  # of two bytes of half a KiB
    functions = 3 * look_up + 5 * (4 * 0.5608 + 2 * look_up) + (7 * 9.5 + 2 * 8.5) * 0.5608
    assert counted_energy(a | elements, built) == pytest.approx(wanted | {"functions": functions})
    elements = {f"{name}_elements": 10**n for n, name in enumerate(NORMALISATIONS)}
    normal = (16 + 10 * 3 * 16 + 1000 * 2 * 16 + 10_000 * (3 * 16 + 9)) * 0.5608
    built = SMALL.replace(features={"normalizations": True})
    assert counted_energy(a | elements, built) == pytest.approx(wanted | {"normalisations": normal})


def test_a_wrong_element_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One weight of the image differs from the one that the reference uses: every result of its column is wrong."""
    real = measuring.layer_program

    def changed(layer: Layer, schedule: Schedule, accelerator: Accelerator, tensors: Any) -> Any:
        weight = tensors["weight"].copy()
        weight[2] ^= 0x40  # channel 0, result channel 2
        return real(layer, schedule, accelerator, {**tensors, "weight": weight})

    monkeypatch.setattr(measuring, "layer_program", changed)
    layer = replace(PRODUCT, scale=None)
    found = measure_layer(layer, WHOLE, SMALL)
    assert found.status == "failed"
    assert found.reason.startswith("output[2] (group 0, n 0, q 0, p 0, k 2) is ")
    assert "of 54 elements are wrong; it was written by MVOUT address=0x" in found.reason
    assert (found.cycles, found.counters, found.energy_pj) == (0, {}, 0.0)


def test_places_of_differences() -> None:
    layer = Layer(
        Problem(P=3, Q=2, C=2, K=2, N=2, groups=2), scale=None, output=Layout(5, 2)
    )  # pixels of 5 elements, the last of them nobody's
    expected = np.arange(layer.output_extent, dtype=np.int32)
    assert first_difference(layer, expected, expected) == ""
    got = expected.copy()
    got[[5 * 7 + 3, 5 * 8]] += 1  # image 1, row 0, column 1, second group, second channel
    assert first_difference(layer, got, expected) == (
        f"output[38] (group 1, n 1, q 0, p 1, k 1) is 39, should be 38; 2 of {expected.size} elements are wrong"
    )


def test_infeasible_has_its_reason() -> None:
    large = Layer(Problem(P=4000, C=8, K=8))
    whole = replace(WHOLE, temporal=((1, 1, 4000, 1, 1, 1, 1), (1, 1, 1, 1, 2, 2, 1), (1,) * 7, (1,) * 7))
    found = measure_layer(large, whole, SMALL)
    assert found.status == "infeasible"
    assert "rows of the scratchpad" in found.reason
    assert found.schedule == ExplicitSchedule(whole).text
    only_os = measure_layer(PRODUCT, WHOLE, SMALL.replace(dataflow="OS"))
    assert (only_os.status, only_os.cycles) == ("infeasible", 0)
    assert "OS" in only_os.reason
    odd = measure_layer(PRODUCT, WHOLE, SMALL.replace(scratchpad_banks=3))
    assert odd.status == "infeasible"
    assert "banks" in odd.reason
    with pytest.raises(InputError, match="less than its bound"):
        measure_layer(replace(PRODUCT, problem=Problem(P=10, C=7, K=6), image=None), WHOLE, SMALL)


def test_a_limit_is_a_failure() -> None:
    found = measure_layer(PRODUCT, WHOLE, SMALL, limits=Limits(max_cycles=400))
    assert found.status == "failed"
    assert found.reason.startswith("max_cycles: ")


def test_memory_and_seed_matter_as_they_should(measured: Measurement) -> None:
    """Values of tensors change no cycle; a slower memory does."""
    assert measure_layer(PRODUCT, WHOLE, SMALL, seed=7).cycles == measured.cycles
    slow = measure_layer(PRODUCT, WHOLE, SMALL, memory=MainMemory(latency_cycles=200))
    assert slow.cycles > measured.cycles
    assert slow.activity == measured.activity


# ------------------------------------------------------------------------ texts


LAYERS = (
    PRODUCT,
    Layer(Problem(P=1), scale=None),
    Layer(Problem(R=3, S=2, P=5, Q=4, C=3, K=2, N=2, stride_w=2, dilation_h=3), padding=(1, 2), image=(9, 8), relu=True),
    Layer(Problem(R=3, S=3, P=8, Q=8, groups=4), residual_scale=0.5, scale=2.0**-9),
    Layer(Problem(P=8, Q=8, C=4, K=4), pooling=Pooling(2, 2, 0, 4, 4), bias=True),
    Layer(Problem(P=4, C=4, K=4), input=Layout(8)),
    Layer(Problem(P=4, C=4, K=6, groups=3), weight=Layout(4, 96), output=Layout(18, 6), weights_transposed=True),
)  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS, ids=layer_text)
def test_layers_as_text(layer: Layer) -> None:
    assert parse_layer(layer_text(layer)) == layer


def test_layers_that_are_no_text() -> None:
    for text in ("", "P4 P4 scale 1", "P4", "P4 scale", "P4 stride 2 scale 1", "P4 colour 3", "P0 scale 1"):
        with pytest.raises(InputError):
            parse_layer(text)


SCHEDULES = (
    ExplicitSchedule(replace(WHOLE, buffering=(2, 1, 2))),
    DepthwiseSchedule(WHOLE, 4),
    LoopWsSchedule(2, 3, 4),
    LoopWsSchedule(2, 3, 4, "kij", keep_a=True),
    LoopWsSchedule(2, 3, 4, "kij", keep_a=True, keep_b=True),
    LoopConvSchedule(1, 2, 3, 4, 5, 6, 7),
    LoopConvSchedule(1, 2, 3, 4, 5, 6, 7, "qnpksrc", 3, keep_weights=True),
    LoopConvSchedule(1, 2, 3, 4, 5, 6, 7, "qnpksrc", 1, downsample=True, keep_input=True, keep_weights=True),
)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_schedules_as_text(schedule: Schedule) -> None:
    assert parse_schedule(schedule.text) == schedule


def test_schedules_that_are_no_text() -> None:
    for text in ("", "explicit", "loop_ws 1,2", "packed L0[W] N1", "loop_ws 0,1,1 order ijk"):
        with pytest.raises(InputError):
            parse_schedule(text)


def test_chosen_schedules_have_texts() -> None:
    layer = Layer(Problem(R=3, S=3, P=8, Q=8, C=4, K=4), padding=(1, 1), image=(8, 8))
    for one in choices(layer, SMALL, best=3):
        assert parse_schedule(one.schedule.text).text == one.schedule.text


# ------------------------------------------------------------------------ store


def test_keys() -> None:
    schedule = ExplicitSchedule(WHOLE)
    base = measurement_key(PRODUCT, schedule, SMALL)
    assert measurement_key(PRODUCT, schedule, SMALL.replace(name="renamed")) == base
    others = {
        measurement_key(replace(PRODUCT, relu=True), schedule, SMALL),
        measurement_key(PRODUCT, ExplicitSchedule(replace(WHOLE, buffering=(2, 1, 1))), SMALL),
        measurement_key(PRODUCT, schedule, SMALL.replace(load_entries=4)),
    }
    assert len(others | {base}) == 4


def test_a_store(tmp_path: Path, measured: Measurement) -> None:
    path = tmp_path / "folder" / "store.sqlite"
    with MeasurementStore(path) as store:
        assert store.get("a") is None
        store.put("a", measured)
        with MeasurementStore(path) as other:
            assert other.get("a") == measured
        failed = Measurement("failed", "because")
        assert store.put("b", failed) == failed
        assert store.put("a", failed) == measured, "the first counts"
        assert store.all() == {"a": measured, "b": failed}
    with MeasurementStore(path) as store:
        assert store.get("b") == failed
    path.write_bytes(b"this is no database at all, and long enough to be one" * 100)
    with pytest.raises(StorageError, match="store of measurements"):
        MeasurementStore(path)


def test_reference_and_rtl_agree_on_what_is_compared(measured: Measurement) -> None:
    """The reference that measurements rest on, against plain loops."""
    rng = np.random.default_rng(0)
    tensors = {
        "input": rng.integers(-128, 128, 9 * 7, dtype=np.int8),
        "weight": rng.integers(-128, 128, 7 * 6, dtype=np.int8),
        "bias": rng.integers(-100, 100, 6, dtype=np.int32),
    }
    got = layer_result(replace(PRODUCT, scale=None), tensors).reshape(9, 6)
    for p in range(9):
        for k in range(6):
            terms = (int(tensors["input"][p * 7 + c]) * int(tensors["weight"][c * 6 + k]) for c in range(7))
            assert int(got[p, k]) == int(tensors["bias"][k]) + sum(terms)
    assert set(measured.energy_terms_pj) <= {name.removesuffix("_pj") for name in NUMBERS}


def test_who_wrote_an_address() -> None:
    """Rows with gaps, raw results, windows; a later store of the same place; nobody."""

    def entry(name: str, at: int, **fields: int) -> LogEntry:
        made = encode(name, **fields)
        return LogEntry("store", 0, made.funct, made.rs1, made.rs2, at, at, at)

    full = 1 << 31 | 1 << 29
    entries = (
        entry("CONFIG_ST", 1, stride=10),
        entry("MVOUT", 2, address=1000, local=0, cols=4, rows=3),  # 1000..1003, 1010..1013, 1020..1023
        entry("MVOUT", 3, address=1020, local=full, cols=2, rows=1),  # 1020..1027
        entry("CONFIG_ST", 5, stride=10, pool_stride=1, pool_size=2, pool_out_dim=10, porows=2, pocols=2),
        entry(
            "MVOUT", 4, address=3000, local=0, cols=1, rows=9
        ),  # before that setting, by the program's order
        entry("MVOUT", 6, address=2000, local=0, cols=4, rows=4),  # rows of 2 pixels, 100 bytes apart
    )
    log = Log(4, entries)
    wanted = {1000: 2, 1004: None, 1013: 2, 1019: None, 1020: 3, 1027: 3, 1028: None, 1030: None, 999: None}
    wanted |= {2003: 6, 2013: 6, 2014: None, 2020: None, 2100: 6, 2113: 6, 2200: None, 3080: 4, 3090: None}
    for address, cycle in wanted.items():
        found = last_writer(log, address)
        assert (None if found is None else found.issued) == cycle, address
