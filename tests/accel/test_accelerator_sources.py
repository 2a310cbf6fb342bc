"""Accelerators in one line and on a base: what they are, what they are called, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import baco
from baco.accel.config import Accelerator
from baco.accel.presets import load_accelerator
from baco.common.errors import InputError

DEFAULT = load_accelerator("gemmini-default")


def test_a_line_is_the_preset_with_other_values() -> None:
    found = load_accelerator("gemmini-default,dataflow=OS,dim=8,features.max_pool=false,energy.dram_pj=5")
    features = DEFAULT.features.model_copy(update={"max_pool": False})
    energy = DEFAULT.energy.model_copy(update={"dram_pj": 5.0})
    wanted = {"dataflow": "OS", "dim": 8, "features": features, "energy": energy}
    assert found == DEFAULT.model_copy(update={**wanted, "name": found.name})
    assert found.name == "gemmini-default+dim-8+dataflow-OS+max_pool-false+dram_pj-5"


def test_parts_keep_what_is_not_said_of_them() -> None:
    lean = load_accelerator("gemmini-lean,features.max_pool=false")
    assert not lean.features.max_pool
    assert not lean.features.read_full_width  # as the preset has it
    units = load_accelerator("gemmini-transformer,dim=8")
    assert units.features.row_functions


def test_python_and_the_line_mean_the_same() -> None:
    line = baco.accelerator("gemmini-default,dim=8,features.max_pool=false,clock_mhz=500")
    assert line == baco.accelerator("gemmini-default", dim=8, features={"max_pool": False}, clock_mhz=500)
    assert line == baco.accelerator(DEFAULT, dim=8, features={"max_pool": False}, clock_mhz=500.0)
    # a whole part replaces, whatever the accelerator had there
    units = baco.accelerator("gemmini-transformer", features=DEFAULT.features)
    assert units.features == DEFAULT.features


def test_names_say_what_differs_unless_one_is_given() -> None:
    assert baco.accelerator("gemmini-default,dim=16").name == "gemmini-default"
    assert baco.accelerator("gemmini-default,dim=8,name=small").name == "small"
    assert baco.accelerator(baco.accelerator("gemmini-default,dim=8"), dma_bits=64).name == (
        "gemmini-default+dim-8+dma_bits-64"
    )
    many = "gemmini-default,dim=8,dma_bits=64,load_queue=4,store_queue=8,counters=2,dma_requests=8"
    name = baco.accelerator(many).name
    assert len(name) <= 64
    assert name.startswith("gemmini-default+dim-8+")
    assert name.endswith("-more")


def test_a_file_stands_on_its_base(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: gemmini-lean\ndim: 8\nfeatures: {max_pool: false}\n")
    lean, found = load_accelerator("gemmini-lean"), load_accelerator(tmp_path / "mine.yaml")
    features = lean.features.model_copy(update={"max_pool": False})
    assert found == lean.model_copy(update={"dim": 8, "features": features, "name": found.name})
    assert found.name == "gemmini-lean+dim-8+max_pool-false"
    assert Accelerator.from_yaml(tmp_path / "mine.yaml") == found
    # bases are looked for beside the file, may be lines themselves, and a name is kept
    (tmp_path / "next.yaml").write_text("base: mine.yaml,dim=4\nname: next\nclock_mhz: 250\n")
    second = load_accelerator(f"{tmp_path}/next.yaml,clock_mhz=125")
    assert (second.dim, second.clock_mhz, second.features) == (4, 125.0, features)
    assert second.name == "next+clock_mhz-125"
    assert load_accelerator(tmp_path / "next.yaml").name == "next"


def test_commas_in_names_of_files_are_theirs(tmp_path: Path) -> None:
    path = tmp_path / "a,dim=4.yaml"
    path.write_text("base: gemmini-default\n")
    assert load_accelerator(str(path)).dim == 16
    assert load_accelerator(f"{path},dim=8").dim == 8


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gemmini-default,dim=999", "(dim): 'dim' must be at most 128, not 999"),
        ("gemmini-default,dim=big", "'dim' must be a whole number, not 'big'"),
        ("gemmini-default,datafow=OS", "did you mean 'dataflow'?"),
        ("gemmini-default,dataflow=RS", "allowed: OS, WS, both"),
        ("gemmini-default,features.maxpool=false", "did you mean 'max_pool'?"),
        ("gemmini-default,features.max_pool=no", "write true or false"),
        ("gemmini-default,tile_rows=3", "tile_rows must divide dim"),
        ("gemmini-default,dim", "write KEY=VALUE behind commas"),
        ("gemmini-default,", "write KEY=VALUE behind commas"),
        ("gemmini-default,dim=8,dim=4", "'dim' is given twice"),
        ("gemmini-default,features=1,features.max_pool=false", "'features.max_pool' is given twice"),
        ("gemmini-default,base=gemmini-lean", "unknown key 'base'"),
        ("dim=8", "begin with what it differs from: gemmini-default,dim=8"),
        ("gemini-default,dim=8", "did you mean 'gemmini-default'?"),
    ],
)
def test_wrong_lines_say_what_is_right(line: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        load_accelerator(line)
    assert words in str(error.value)


def test_wrong_bases_are_errors_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    for text, words in (
        ("dim: 8\nbase: gemini-default\n", f"{path}:2:7 (base): no accelerator 'gemini-default'"),
        ("base: mine.yaml\n", f"{path}:1:7 (base): more than"),  # its own base
        ("base: 3\n", f"{path}:1:7 (base): 'base' must be text, not 3"),
        ("base: gemmini-default\ndim: 500\n", f"{path}:2:6 (dim): 'dim' must be at most 128"),
        ("bse: gemmini-default\n", "did you mean 'base'?"),
    ):
        path.write_text(text)
        with pytest.raises(InputError) as error:
            load_accelerator(path)
        assert words in str(error.value)


def test_python_callers_get_the_field_that_is_wrong() -> None:
    with pytest.raises(InputError, match=r"baco.accelerator \(dim\): 'dim' must be at most 128, not 999"):
        baco.accelerator("gemmini-default", dim=999)
    with pytest.raises(InputError, match="did you mean 'dim'"):
        baco.accelerator("gemmini-default", dimm=8)
