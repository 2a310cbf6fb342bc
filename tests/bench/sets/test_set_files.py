"""Random and systematic sets, and their files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from baco.bench.sets.accelerators import SETS, accelerators_of
from baco.bench.sets.dataset import MeasuredRow, measured_stratum, read_dataset, write_dataset
from baco.bench.sets.micro import probes
from baco.bench.sets.sample import draw_mapping, guess
from baco.bench.sets.sets import samples, set_of_shape
from baco.common.errors import InputError
from baco.compiler.layers.layer import Layer
from baco.compiler.mapping.text import parse_mapping_text
from baco.compiler.schedules.schedule import (
    ExplicitSchedule,
)
from baco.exploration.measure.layer import measure_layer
from baco.exploration.measure.measurement import Measurement
from baco.workloads.problem import Problem
from tests.machines import SMALL

PRODUCT = Layer(Problem(P=9, C=7, K=6), bias=True, scale=0.01)
#: The whole product as one tile, single buffers: two blocks of depth and of columns, three of pixels.
WHOLE = parse_mapping_text("L3[WIO] N1 - L2[WI] N1 K4X - L1[O] K2 C2 C4X - L0[W] P9 buffers 1,1,1")


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return measure_layer(PRODUCT, WHOLE, SMALL)


def test_sets_share_no_accelerator_and_no_shape() -> None:
    hashes = [accelerator.config_hash for name in SETS for accelerator in accelerators_of(name).values()]
    assert len(set(hashes)) == len(hashes)
    shapes = {name: {sample.layer.problem for sample in samples(name, 22)} for name in ("train", "test")}
    shapes["micro"] = {
        p.layer.problem for accelerator in accelerators_of("micro").values() for p in probes(accelerator)
    }
    assert not shapes["train"] & shapes["test"]
    assert not (shapes["train"] | shapes["test"]) & shapes["micro"]
    assert {set_of_shape(problem) for problem in shapes["micro"]} == {"micro"}
    assert len(accelerators_of("test")) == 8


def test_rows_depend_on_their_number_only() -> None:
    first = list(samples("test", 3))
    assert list(samples("test", 3)) == first
    assert [one.index for one in first] == [0, 1, 2]
    assert len({one.accelerator.name for one in first}) == 3


@pytest.mark.parametrize("macro", [False, True])
def test_random_mappings_are_legal(macro: bool) -> None:
    """They cover the layer and fit; those of the macro form become macros; the guess counts the array's work."""
    layer = Layer(Problem(R=3, S=3, P=10, Q=10, C=9, K=12), padding=(1, 1), image=(10, 10), scale=0.01)
    seen = set()
    for seed in range(20):
        drawn = draw_mapping(random.Random(seed), layer, SMALL, macro=macro)
        assert drawn is not None
        mapping, schedule = drawn
        mapping.check(layer.problem)
        assert isinstance(schedule, ExplicitSchedule) != macro
        seen.add(schedule)
        rough = guess(layer, mapping, SMALL, macro=macro)
        assert rough.compute >= layer.problem.macs / SMALL.dim**2
        assert rough.cycles == getattr(rough, rough.stratum)
    assert len(seen) > 10


def test_a_set_as_a_file(tmp_path: Path, measured: Measurement) -> None:
    failed = Measurement("failed", "output[3] is 1, should be 2", schedule=measured.schedule)
    rows = [
        MeasuredRow.of(1, "bias", SMALL, PRODUCT, WHOLE, measured),
        MeasuredRow.of(0, "first, of all", SMALL, PRODUCT, WHOLE, failed),
    ]
    path = tmp_path / "micro.csv.gz"
    other = SMALL.replace(name="other", dim=8, dram_bytes_per_cycle=4.5, features={"max_pool": False})
    write_dataset(path, rows, [SMALL, other])
    first = path.read_bytes()
    found = read_dataset(path)
    assert found.rows == (rows[0],)
    assert found.unmeasured == (rows[1],)
    assert found.configurations == {"small": SMALL, "other": other}
    assert (found.layers, found.mappings, found.problems) == ((PRODUCT,), (WHOLE,), (PRODUCT.problem,))
    assert found.accelerators == (SMALL,)
    assert found.schedules == (ExplicitSchedule(WHOLE),)
    assert found.cycles.tolist() == [measured.cycles]
    assert found.numbers("macs").tolist() == [378]
    assert found.numbers("loads").sum() > 0
    assert found.strata == (measured_stratum(measured),)
    assert len(found.where([False])) == 0
    write_dataset(path, reversed(rows), [])
    assert path.read_bytes() == first


def test_malformed_sets(tmp_path: Path, measured: Measurement) -> None:
    import gzip

    path = tmp_path / "x.csv.gz"
    path.write_text("hello")
    with pytest.raises(InputError, match="not a whole gzip file"):
        read_dataset(path)
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(InputError, match="columns"):
        read_dataset(path)
    write_dataset(path, [MeasuredRow.of(0, "", SMALL, PRODUCT, WHOLE, measured)], [SMALL])
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(text.replace(f",{measured.cycles},", ",many,", 1).encode()))
    with pytest.raises(InputError, match="cycles must be a finite number, not 'many'") as caught:
        read_dataset(path)
    assert caught.value.location is not None
    assert caught.value.location.line == 2
    with pytest.raises(InputError, match="no such file"):
        read_dataset(tmp_path / "nothing.csv.gz")


@pytest.mark.parametrize(
    ("mesh", "load", "store", "stalls", "wanted"),
    [
        (90, 50, 50, 80, "compute"),
        (50, 90, 50, 80, "load"),
        (50, 50, 90, 80, "store"),
        (50, 50, 50, 20, "issue"),
    ],
)
def test_strata(mesh: int, load: int, store: int, stalls: int, wanted: str) -> None:
    counters = {
        "accelerator_mesh_cycles": mesh,
        "accelerator_load_busy_cycles": load,
        "accelerator_store_busy_cycles": store,
        "host_stall_command": stalls // 2,
        "host_stall_fence": stalls - stalls // 2,
    }
    assert measured_stratum(Measurement("measured", cycles=100, counters=counters)) == wanted
