"""Export to Chipyard: parameters against the configuration, and what is told."""

import re

import pytest

from baco.accel.chipyard import chipyard_notes, scala_config, scala_name
from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator, preset_names
from baco.common.errors import InfeasibleError


def _values(accelerator: Accelerator) -> dict[str, str]:
    return dict(re.findall(r"^    (\w+) = (.*),$", scala_config(accelerator), re.MULTILINE))


def test_gemmini_default_with_its_partial_sums_is_gemmini_default() -> None:
    # the published parameters of the default configuration
    values = _values(load_accelerator("gemmini-default").replace(partial_sum_bits=20))
    expected = {
        "inputType": "SInt(8.W)",
        "accType": "SInt(32.W)",
        "spatialArrayOutputType": "SInt(20.W)",
        "dataflow": "Dataflow.BOTH",
        "tileRows": "1",
        "meshRows": "16",
        "ld_queue_length": "8",
        "st_queue_length": "2",
        "ex_queue_length": "8",
        "reservation_station_entries_ld": "8",
        "reservation_station_entries_st": "4",
        "reservation_station_entries_ex": "16",
        "sp_banks": "4",
        "sp_capacity": "CapacityInKilobytes(256)",
        "acc_banks": "2",
        "acc_capacity": "CapacityInKilobytes(64)",
        "dma_maxbytes": "64",
        "dma_buswidth": "128",
        "max_in_flight_mem_reqs": "16",
        "mvin_scale_args": "GemminiConfigs.defaultConfig.mvin_scale_args",
        "mvin_scale_acc_args": "None",
        "hardcode_d_to_garbage_addr": "false",
        "has_loop_conv": "true",
        "has_normalizations": "false",
        "num_counter": "8",
    }
    assert expected.items() <= values.items()


def test_every_field_shows() -> None:
    accelerator = load_accelerator("gemmini-default")
    other = {
        "dim": 32,
        "dataflow": "WS",
        "scratchpad_kib": 512,
        "scratchpad_banks": 2,
        "accumulator_kib": 128,
        "accumulator_banks": 1,
        "input_bits": 16,
        "partial_sum_bits": 24,
        "tile_rows": 2,
        "dma_bits": 256,
        "dma_max_bytes": 128,
        "dma_requests": 32,
        "load_queue": 4,
        "execute_queue": 4,
        "store_queue": 4,
        "load_entries": 4,
        "execute_entries": 8,
        "store_entries": 8,
        "counters": 4,
    }
    before = _values(accelerator)
    for name, value in other.items():
        assert _values(accelerator.replace(**{name: value})) != before, name
    for name, value in accelerator.features.model_dump().items():
        changed = accelerator.replace(features={name: not value})
        told = set(chipyard_notes(changed)) - set(chipyard_notes(accelerator))
        assert _values(changed) != before or told, name


def test_tiles() -> None:
    values = _values(load_accelerator("gemmini-default").replace(tile_rows=4))
    assert [values[name] for name in ("tileRows", "tileColumns", "meshRows", "meshColumns")] == [
        "4",
        "4",
        "4",
        "4",
    ]


def test_narrow_bus() -> None:
    accelerator = load_accelerator("gemmini-default").replace(dma_bits=32, dma_max_bytes=8)
    assert _values(accelerator)["dma_buswidth"] == "64"
    assert "beatBytes = 8" in scala_config(accelerator)
    assert any("dma_bits is 32" in note for note in chipyard_notes(accelerator))


def test_normaliser_commands_give_other_results_there() -> None:
    accelerator = load_accelerator("gemmini-default").replace(features={"normalizations": True})
    assert _values(accelerator)["has_normalizations"] == "true"
    assert any("another polynomial" in note for note in chipyard_notes(accelerator))


def test_what_gemmini_refuses() -> None:
    with pytest.raises(InfeasibleError, match="Gemmini cannot build") as error:
        scala_config(load_accelerator("gemmini-default").replace(execute_queue=2, load_entries=3))
    assert "execute_queue must be at least 3" in str(error.value)
    assert "load_entries must be a power of two" in str(error.value)


@pytest.mark.parametrize("name", preset_names())
def test_names_and_brackets(name: str) -> None:
    text = scala_config(load_accelerator(name))
    assert f"class {scala_name(load_accelerator(name))}Config extends Config(" in text
    code = re.sub(r"//.*|\"[^\"]*\"", "", text)
    for pair in ("()", "{}"):
        assert code.count(pair[0]) == code.count(pair[1])


def test_scala_names() -> None:
    default = load_accelerator("gemmini-default")
    assert scala_name(default) == "BacoGemminiDefault"
    assert scala_name(default.replace(name="2x.big_one+a")) == "Baco2xBigOneA"
