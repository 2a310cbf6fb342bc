"""The configuration object: defaults, refusals, legality for Gemmini, hash, YAML, presets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from baco.accel.config import Accelerator, Features
from baco.accel.energy import EnergyTable
from baco.accel.presets import load_accelerator, preset_names
from baco.accel.technology import Technology, keep_technology
from baco.common.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
LEAST: dict[str, Any] = {"dim": 16, "scratchpad_kib": 256, "accumulator_kib": 64}


def make(**changes: Any) -> Accelerator:
    return Accelerator.model_validate({**LEAST, **changes})


def test_geometry_of_the_default_machine() -> None:
    # ISA specification 3.1: 16384 rows of 16 bytes, 1024 rows of 64 bytes
    point = load_accelerator("gemmini-default")
    assert (point.dim, point.scratchpad_rows, point.accumulator_rows) == (16, 16384, 1024)
    assert (point.scratchpad_banks, point.accumulator_banks, point.dma_bits) == (4, 2, 128)
    assert (point.load_entries, point.execute_entries, point.store_entries) == (8, 16, 4)
    assert point.dataflows == ("WS", "OS")


def test_fixed_dataflow() -> None:
    assert make(dataflow="WS").dataflows == ("WS",)
    assert make(dataflow="OS").dataflows == ("OS",)


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": 1},
        {"dim": 129},
        {"dim": True},
        {"dim": 16.0},
        {"dim": "16"},
        {"scratchpad_kib": 0},
        {"accumulator_kib": 2.5},
        {"accumulator_kib": None},
        {"dataflow": "ws"},
        {"clock_mhz": 0},
        {"clock_mhz": float("nan")},
        {"dram_bytes_per_cycle": True},
        {"name": ""},
        {"name": "two words"},
        {"name": "x\n"},
        {"tile_rows": 3},
        {"input_bits": 12},
        {"input_bits": 16, "accumulator_bits": 8},
        {"partial_sum_bits": 33},
        {"partial_sum_bits": 20, "accumulator_bits": 16},
        {"dma_bits": 512, "dma_max_bytes": 32},
        {"features": {"loop_conv": 1}},
        {"features": {"loops": True}},
        {"energy": {"mac_pj": -1}},
        {"colour": "red"},
    ],
    ids=str,
)
def test_refused_values(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make(**changes)
    with pytest.raises(InputError):
        Accelerator(**{**LEAST, **changes})


def test_a_constructor_names_the_field() -> None:
    with pytest.raises(InputError, match=r"^dim: Input should be less than or equal to 128$"):
        Accelerator(**{**LEAST, "dim": 3000})
    with pytest.raises(InputError, match="did you mean 'dim'"):
        Accelerator(**LEAST, dimm=4)


def test_sizes_must_be_given() -> None:
    for name in LEAST:
        with pytest.raises(ValidationError, match=name):
            Accelerator.model_validate({k: v for k, v in LEAST.items() if k != name})


def test_frozen() -> None:
    point = make()
    with pytest.raises(ValidationError):
        point.dim = 8
    assert hash(point) == hash(make())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dim": 12, "scratchpad_kib": 192, "accumulator_kib": 48}, "dim must be a power of two"),
        ({"scratchpad_kib": 200}, "rows of each scratchpad bank must be a power of two, not 3200"),
        ({"accumulator_kib": 48}, "rows of each accumulator bank must be a power of two, not 384"),
        ({"accumulator_kib": 1}, "rows of each accumulator bank must be a multiple of dim (16), not 8"),
        ({"scratchpad_banks": 1}, "scratchpad_banks must be at least 2"),
        ({"scratchpad_kib": 16}, "at least 32 rows more than the accumulator's 1024, not 1024"),
        ({"scratchpad_kib": 1 << 20}, "holds at most 33554432 rows"),
        ({"load_entries": 6}, "load_entries must be a power of two"),
        ({"store_entries": 3}, "store_entries must be a power of two"),
        ({"execute_entries": 12}, "execute_entries must be a power of two"),
        ({"execute_queue": 2}, "execute_queue must be at least 3"),
    ],
)
def test_why_a_point_is_not_legal_for_gemmini(changes: dict[str, Any], words: str) -> None:
    problems = make(**changes).gemmini_problems()
    assert any(words in problem for problem in problems), problems


@given(st.integers(1, 7), st.integers(0, 13), st.integers(0, 13), st.integers(1, 5), st.integers(0, 2))
def test_legality_of_powers_of_two(dim: int, sp: int, acc: int, sp_banks: int, acc_banks: int) -> None:
    """With powers of two throughout, the rules reduce to comparisons of exponents."""
    point = make(
        dim=2**dim,
        scratchpad_kib=2**sp,
        accumulator_kib=2**acc,
        scratchpad_banks=2**sp_banks,
        accumulator_banks=2**acc_banks,
    )
    sp_rows, acc_rows = sp + 10 - dim, acc + 8 - dim  # exponents of the rows of 1- and 4-byte elements
    legal = (
        sp_rows - sp_banks >= dim
        and acc_rows - acc_banks >= dim
        and sp_rows <= 25
        and 2 ** (sp_rows - dim) - 2 >= 2 ** (acc_rows - dim)
    )
    assert (point.gemmini_problems() == []) == legal


@given(st.integers(2, 128), st.integers(1, 5000), st.integers(1, 5000))
def test_legal_points_have_legal_banks(dim: int, scratchpad: int, accumulator: int) -> None:
    point = make(dim=dim, scratchpad_kib=scratchpad, accumulator_kib=accumulator)
    problems = point.gemmini_problems()
    sp_bank, acc_bank = scratchpad * 1024 / dim / 4, accumulator * 1024 / 4 / dim / 2
    legal_sizes = {2**k for k in range(30)}
    assert ("dim must" in " ".join(problems)) == (dim not in legal_sizes)
    assert any("scratchpad bank" in p for p in problems) == (sp_bank not in legal_sizes or sp_bank % dim > 0)
    assert any("accumulator bank" in p for p in problems) == (
        acc_bank not in legal_sizes or acc_bank % dim > 0
    )


HASH = "1fb3a150d8a5d5ad"


def test_hash_is_a_known_value() -> None:
    # changes only when a field or a default changes: then every artefact made before is of another machine
    assert make().config_hash == HASH


def test_hash_ignores_name_and_field_order() -> None:
    assert make(name="other").config_hash == HASH
    backwards = dict(reversed(make().model_dump().items()))
    assert Accelerator.model_validate(backwards).config_hash == HASH
    assert make(clock_mhz=1000).config_hash == make(clock_mhz=1000.0).config_hash == HASH


def test_hash_is_equal_in_another_process() -> None:
    code = "from baco.accel.presets import load_accelerator; print(load_accelerator('gemmini-default').config_hash)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "99", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert found.stdout.strip() == HASH


def test_hash_depends_on_every_other_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACO_CACHE", str(tmp_path))
    (tmp_path / "technologies").mkdir()
    keep_technology(Technology(name="other"))
    other: dict[str, Any] = {
        "technology": "other",
        "dim": 8,
        "dataflow": "OS",
        "scratchpad_kib": 512,
        "accumulator_kib": 32,
        "scratchpad_banks": 2,
        "accumulator_banks": 4,
        "input_bits": 16,
        "accumulator_bits": 32,
        "partial_sum_bits": 20,
        "tile_rows": 2,
        "dma_bits": 64,
        "dma_max_bytes": 128,
        "scale_lanes": 8,
        "counters": 0,
        "clock_mhz": 500.5,
        "dram_bytes_per_cycle": 16.0,
        "features": Features(loop_ws=False),
        "energy": EnergyTable(dram_pj=99.0),
    }
    base = make(accumulator_bits=32)
    hashes = {base.config_hash}
    # a program runs under any timing
    assert base.replace(timing="gemmini").config_hash == base.config_hash
    for name in set(Accelerator.model_fields) - {"name", "timing"}:
        value = other.get(name, 5)  # queues, entries and requests: any other number
        if name == "accumulator_bits":
            base_16 = make(partial_sum_bits=16)
            hashes |= {base_16.config_hash}
            changed = base_16.replace(accumulator_bits=16)
        elif name == "input_format":
            off = {"max_pool": False, "mvin_scale": False, "accumulator_scale": False}
            integers = base.replace(dataflow="WS", features=off)
            changed = integers.replace(input_format="fp8-e4m3")
            hashes.add(integers.config_hash)
        else:
            changed = base.replace(**{name: value})
        assert changed.config_hash not in hashes, name
        hashes.add(changed.config_hash)


def test_replace() -> None:
    changed = make().replace(dim=32, energy=EnergyTable(mac_pj=1.0), features={"loop_conv": False})
    assert (changed.dim, changed.energy.mac_pj, changed.features.loop_conv) == (32, 1.0, False)
    assert changed.scratchpad_kib == 256
    assert make().replace() == make()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dims": 8}, "did you mean 'dim'"),
        ({"dim": 1}, "dim: Input should be greater than or equal to 2"),
        ({"dim": 12, "tile_rows": 5}, "tile_rows must divide dim"),
        ({"energy": {"mac_pj": "x"}}, "energy.mac_pj"),
        (
            {"features": {"normalizations": True, "activations": False, "read_small_width": False}},
            "features.normalizations needs activations and read_small_width as well",
        ),
    ],
)
def test_replace_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        make().replace(**changes)
    assert words in str(error.value)


def test_yaml_round_trip(tmp_path: Path) -> None:
    point = make(
        name="v1.0-x",
        dim=24,
        dataflow="WS",
        clock_mhz=1e-7,
        dram_bytes_per_cycle=0.1 + 0.2,
        partial_sum_bits=20,
        features={"loop_conv": False},
        energy={"dram_pj": 1e2 / 3},
    )
    path = tmp_path / "point.yaml"
    path.write_text(point.to_yaml())
    assert Accelerator.from_yaml(path) == point
    assert point.config_hash in point.to_yaml()


@pytest.mark.parametrize("name", ["1.5", "1e3", "true", "null", "0x10", "no"])
def test_names_that_look_like_something_else(name: str, tmp_path: Path) -> None:
    path = tmp_path / "point.yaml"
    path.write_text(make(name=name).to_yaml())
    assert Accelerator.from_yaml(path).name == name


def test_yaml_explains_every_line() -> None:
    for line in make().to_yaml().splitlines():
        assert not line or "#" in line


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("dim: 16\nscratchpad_kb: 4\naccumulator_kib: 4\n", ":2:1", "did you mean 'scratchpad_kib'"),
        ("dim: 16\nscratchpad_kib: 4\n", ":1:1", "missing key 'accumulator_kib'"),
        ("dim: true\nscratchpad_kib: 4\naccumulator_kib: 4\n", ":1:6", "whole number"),
        ("dim: 500\nscratchpad_kib: 4\naccumulator_kib: 4\n", ":1:6", "at most 128"),
        ("dim: 16\nscratchpad_kib: 4\naccumulator_kib: 4\ndataflow: RS\n", ":4:11", "OS, WS, both"),
        ("dim: 16\nscratchpad_kib: 4\naccumulator_kib: 4\nenergy:\n  dram: 3\n", ":5:3", "dram_pj"),
        (
            "dim: 16\nscratchpad_kib: 4\naccumulator_kib: 4\ntile_rows: 3\n",
            ":1:1",
            "tile_rows must divide dim",
        ),
        (
            "dim: 16\nscratchpad_kib: 4\naccumulator_kib: 4\nname: a b\n",
            ":4:7",
            "name must start with a letter",
        ),
        ("dim: [16\n", "", "not valid YAML"),
        ("", "", "empty"),
    ],
)
def test_wrong_files(text: str, place: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "point.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load_accelerator(path)
    assert str(error.value).startswith(f"{path}{place}")
    assert words in str(error.value)


def test_presets() -> None:
    assert preset_names() == ["gemmini-default", "gemmini-large", "gemmini-lean", "gemmini-transformer"]
    hashes = set()
    for name in preset_names():
        point = load_accelerator(name)
        assert point.name == name
        assert point.gemmini_problems() == []
        hashes.add(point.config_hash)
    assert len(hashes) == 4
    large, lean = load_accelerator("gemmini-large"), load_accelerator("gemmini-lean")
    assert (large.dim, large.scratchpad_kib, large.accumulator_kib) == (32, 512, 128)
    assert not large.features.training_convs
    assert (lean.dataflow, lean.dma_requests, lean.features.read_full_width) == ("WS", 64, False)


def test_default_preset_is_the_default_of_every_field() -> None:
    assert load_accelerator("gemmini-default") == make(name="gemmini-default")


@pytest.mark.parametrize("name", ["gemini-default", "", "x" * 5000, "a\0b"])
def test_unknown_preset(name: str) -> None:
    with pytest.raises(InputError, match="neither a preset nor a file") as error:
        load_accelerator(name)
    assert "gemmini-default" in str(error.value.hint)


def test_file_by_relative_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text(make(dim=8).to_yaml())
    assert load_accelerator("mine").dim == 8
    with pytest.raises(InputError, match="no such file"):
        load_accelerator("yours.yaml")


def test_json_schema_has_the_bounds() -> None:
    schema = json.loads(json.dumps(Accelerator.model_json_schema()))
    dim = schema["properties"]["dim"]
    assert (dim["minimum"], dim["maximum"]) == (2, 128)
    assert schema["additionalProperties"] is False
    assert set(LEAST) == set(schema["required"])
