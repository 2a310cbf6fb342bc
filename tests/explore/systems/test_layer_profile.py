"""The table of layers by unit: against the programs themselves, over batch sizes, clocks and elements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import baco
from baco.accel.presets import load_accelerator
from baco.common.errors import InputError
from baco.compiler.network.prediction import predict_steps
from baco.compiler.network.program import compile_network
from baco.compiler.network.quantise import sketch
from baco.compiler.network.quantiser import DEFAULT
from baco.workloads.inputs.load import load_network
from tests.seeds import some

NETWORK = "deepbench_ocr:width=48"
SMALL, OS = "gemmini-default,dim=8", "gemmini-default,dataflow=OS"
FP8 = "gemmini-default,dataflow=WS,input_format=fp8-e4m3,features.mvin_scale=false"


@pytest.fixture(scope="module")
def profiled() -> baco.ProfiledLayers:
    return baco.profile_layers(NETWORK, [SMALL, OS, "host", FP8], batches=[1, 3], clocks=[500.0, 1000.0])


@pytest.mark.parametrize(
    ("unit", "batch"), some(3, [(SMALL, 3), (OS, 1), (FP8, 3), (SMALL, 1), (OS, 3), (FP8, 1)])
)
def test_layers_are_all_that_a_units_program_takes(
    profiled: baco.ProfiledLayers, unit: str, batch: int
) -> None:
    machine = load_accelerator(unit).with_setting("clock_mhz", 500.0)
    built = compile_network(
        sketch(load_network(f"{NETWORK},batch={batch}"), None, DEFAULT.on(machine)), machine
    )
    steps = predict_steps(built.lowered, machine)
    own = next(one for one in profiled.totals if (one.unit, one.batch, one.clock_mhz) == (unit, batch, 500.0))
    assert own.ms == pytest.approx(sum(step.cycles for step in steps) / 500.0 * 1e-3)
    assert own.elements == ("fp8-e4m3" if unit == FP8 else "int8")


def test_every_layer_is_there_for_every_unit_batch_and_clock(profiled: baco.ProfiledLayers) -> None:
    table = profiled.table
    assert len(profiled.totals) == 2 * 2 * 4
    for _, own in table.groupby(["batch", "clock_mhz", "unit"]):
        assert own["number"].tolist() == list(range(len(own)))
        assert own["layer"].is_unique
        assert (own["us"] > 0).all()
        assert (own["memory_us"] <= own["us"]).all()
        assert (own["energy_uj"] > 0).all()


def test_a_core_takes_as_many_cycles_at_any_clock(profiled: baco.ProfiledLayers) -> None:
    host = profiled.table.query("unit == 'host' and batch == 3").pivot_table(
        index="layer", columns="clock_mhz", values="us"
    )
    assert host[500.0].to_numpy() == pytest.approx(2 * host[1000.0].to_numpy())


def test_pages_and_tables(profiled: baco.ProfiledLayers, tmp_path: Path) -> None:
    page, record, table = (path.read_text(encoding="utf-8") for path in profiled.write(tmp_path))
    assert page.count("<section>") == 1 + 2 * 2 * 2  # the whole; by batch size, clock and elements
    assert len(json.loads(record)["layers"]) == len(profiled.rows) == len(table.splitlines()) - 1


@pytest.mark.parametrize(
    ("units", "options", "message"),
    [
        (["host"], {}, "a core alone has the clock of an accelerator"),
        ([SMALL], {"batches": [0]}, "at least one image"),
        ([SMALL], {"clocks": [float("nan")]}, "a clock has MHz above 0"),
        ([SMALL] * 5, {}, "at most 4 units with the same elements"),
    ],
)
def test_what_does_not_go_together(units: list[str], options: dict[str, list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        baco.profile_layers(NETWORK, units, **options)  # type: ignore[arg-type]
