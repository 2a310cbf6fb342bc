"""The committed sets of measurements: apart from each other, complete, and what the commands give again."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from baco.bench.sets.accelerators import SETS, SetName, accelerators_of
from baco.bench.sets.dataset import Dataset, dataset_path, read_dataset
from baco.bench.sets.sets import RANKED, samples, set_of_shape
from baco.common.errors import InputError
from baco.compiler.layers.text import layer_text
from baco.compiler.mapping.text import mapping_text
from baco.exploration.measure.layer import measure_layer, schedule_for
from baco.sim.energy import counted_energy

_LEAST_ROWS: dict[SetName, int] = {
    "micro": 300, "train": 1000, "test": 1000, "packed": 300, "packed-test": 200,
    "ranking": 2000,
}  # fmt: skip
#: Whose shapes a set has.
_SHAPES: dict[SetName, SetName] = {"packed": "train", "packed-test": "test", "ranking": "train"}
_ACTIVITY = ("macs", "stationary_words", "accumulator_read_words", "accumulator_write_words", "scratchpad_read_bytes",
             "scratchpad_write_bytes", "dram_read_bytes", "dram_write_bytes")  # fmt: skip


@pytest.fixture(scope="module", params=SETS)
def measured(request: pytest.FixtureRequest) -> tuple[SetName, Dataset]:
    try:
        dataset_path(request.param)
    except InputError as error:
        pytest.skip(error.message)
    return request.param, read_dataset(request.param)


def test_all_rows_are_right(measured: tuple[SetName, Dataset]) -> None:
    name, data = measured
    assert len(data) >= _LEAST_ROWS[name]
    assert data.unmeasured == ()
    assert (data.cycles > 0).all()
    # no accelerator multiplies faster than its array, no memory moves more than it can, and clocked elements were asked
    dims = np.array([one.dim for one in data.accelerators])
    assert (data.numbers("macs") <= data.numbers("array_macs")).all()
    assert (data.numbers("array_macs") <= data.cycles * dims**2).all()
    assert (data.numbers("channel_busy_cycles") <= data.cycles).all()
    # every layer's multiplications were done, none twice but where tiles overlap or reach beyond the layer
    assert (data.numbers("macs") >= [problem.macs for problem in data.problems]).all()


def test_energy_is_what_the_counts_cost(measured: tuple[SetName, Dataset]) -> None:
    _, data = measured
    for row, accelerator in zip(data.rows, data.accelerators, strict=True):
        terms = counted_energy({name: int(row.numbers[name]) for name in _ACTIVITY}, accelerator)
        assert row.numbers["energy_pj"] == pytest.approx(sum(terms.values()))
        assert row.numbers["dram_pj"] == pytest.approx(terms["dram"])


def test_sets_are_apart(measured: tuple[SetName, Dataset]) -> None:
    name, data = measured
    assert {set_of_shape(problem) for problem in data.problems} == {_SHAPES.get(name, name)}
    own = accelerators_of(name)
    assert {row.accelerator for row in data.rows} <= set(own)
    assert all(data.configurations[label] == one for label, one in own.items())


def test_the_test_set_is_what_is_asked_for() -> None:
    """At most 8 accelerators, median of at most 2 million cycles, of every stratum enough."""
    try:
        data = read_dataset("test")
    except InputError as error:
        pytest.skip(error.message)
    assert len({row.accelerator for row in data.rows}) <= 8
    assert np.median(data.cycles) <= 2e6
    assert min(Counter(data.strata).values()) >= 80
    assert set(data.strata) == {"compute", "load", "store", "issue"}
    assert {mapping.dataflow for mapping in data.mappings} == {"WS", "OS"}
    assert {row.style for row in data.rows} == {"explicit", "loop_ws", "loop_conv"}


def test_the_ranking_set_has_twenty_schedules_of_each_layer_on_its_accelerator() -> None:
    try:
        data = read_dataset("ranking")
    except InputError as error:
        pytest.skip(error.message)
    groups: dict[tuple[str, str], set[str]] = {}
    for row in data.rows:
        groups.setdefault((row.layer, row.accelerator), set()).add(row.schedule)
    assert len(groups) >= 100
    assert {len(schedules) for schedules in groups.values()} == {RANKED}
    assert len({layer for layer, _ in groups}) >= 100, "hardly a layer is there twice"
    assert {row.what for row in data.rows} == {"any", "macro", "chosen"}


def test_rows_are_drawn_again(measured: tuple[SetName, Dataset]) -> None:
    """The first rows come from the set's name alone, and are realised as the file says."""
    name, data = measured
    for sample, row in zip(samples(name, 12), data.rows, strict=False):
        assert (sample.index, sample.accelerator.name) == (row.index, row.accelerator)
        assert (layer_text(sample.layer), mapping_text(sample.mapping)) == (row.layer, row.mapping)
        assert schedule_for(sample.layer, sample.mapping, sample.accelerator).text == row.schedule


@pytest.mark.slow
def test_rows_are_measured_again(measured: tuple[SetName, Dataset]) -> None:
    """A few rows of the small accelerators, compiled and simulated anew, take the same cycles and energy.

    Where this fails on purpose (another Verilog, compiler or host), the sets are to be collected again.
    """
    name, data = measured
    small = [
        n for n, (one, cycles) in enumerate(zip(data.accelerators, data.cycles, strict=True))
        if one.name in (f"{name}-dim-4", f"{name}-1") and cycles < 300_000
    ]  # fmt: skip
    for n in random.Random(0).sample(small, 8):
        found = measure_layer(data.layers[n], data.mappings[n], data.accelerators[n])
        row = data.rows[n]
        assert (found.status, found.cycles, found.schedule) == (
            "measured",
            row.numbers["cycles"],
            row.schedule,
        )
        assert found.energy_pj == pytest.approx(row.numbers["energy_pj"])
