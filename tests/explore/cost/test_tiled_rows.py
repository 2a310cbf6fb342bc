"""Products and chains in tiles: published RTL measurements, and tables that are wrong."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from baco.api.simulation import evaluate_tiles
from baco.common.errors import InputError
from baco.compiler.mapping import machines
from baco.compiler.mapping.machines import load_machine, machine_names
from baco.exploration.cost.tiled_rows import evaluate_tiled_rows

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "tileflow"
needs_data = pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the published rows in ../shared/data")
MACHINE_FILE = Path(machines.__file__).parent / "tileflow-16.yaml"
PRODUCT = "M,N,K,tile_M,tile_N,tile_K\n"
CHAIN = "M,N1,K1,tile_M,tile_N1,tile_K1,N2,K2,tile_N2,tile_K2\n"


@needs_data
def test_published_products(tmp_path: Path) -> None:
    found = evaluate_tiles(PUBLISHED / "products.csv", tmp_path / "out.csv", "tileflow-16")
    error = found.errors["cycles"]
    assert error.rows > 600
    assert error.median_percent == 0  # most of them exactly
    assert error.mean_percent < 0.5
    assert error.spearman is not None
    assert error.spearman > 0.999


@needs_data
def test_published_chains(tmp_path: Path) -> None:
    found = evaluate_tiles(PUBLISHED / "fused.csv", tmp_path / "out.csv", "tileflow-16")
    assert found.errors["cycles"].mean_percent < 2.5
    for column in ("memory_to_buffer", "buffer_to_memory", "buffer_to_registers", "registers_to_buffer"):
        assert found.errors[f"words_{column}"].max_percent == 0


def test_rows_keep_their_columns_and_gain_predictions(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("note,K,M,N,tile_M,tile_N,tile_K\nfirst,32,16,48,16,16,16\n,5,3,7,2,7,5\n")
    out = tmp_path / "out.csv"
    found = evaluate_tiled_rows(table, out, load_machine("tileflow-16"))
    assert (found.rows, found.errors) == (2, {})
    rows = list(csv.DictReader(out.open()))
    assert [row["note"] for row in rows] == ["first", ""]
    # a pass of 16 x 16 x 16: 128 + 2 * 6 cycles of loads, 16 + 55 of the array, 64 + 6 of a store after the last
    assert float(rows[0]["predicted.cycle"]) == 6 * 140 + 71 + 70 + 1
    # tiles of 2 rows cover 3: two passes of (10 + 35) / 4 + 12 cycles of loads; the array takes 2 + 55
    load = 45 / 4 + 12
    assert float(rows[1]["predicted.cycle"]) == load + max(load, 57) + 57 + 14 / 4 + 6 + 1


def test_a_machine_of_ones_own(tmp_path: Path) -> None:
    text = MACHINE_FILE.read_text()
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace("reads_per_cycle: 4", "reads_per_cycle: 8").replace("tileflow-16", "mine"))
    table = tmp_path / "rows.csv"
    table.write_text(PRODUCT + "64,64,64,16,16,64\n")
    cycles = {}
    for name in ("tileflow-16", mine):
        evaluate_tiles(table, tmp_path / "out.csv", name)
        (row,) = csv.DictReader((tmp_path / "out.csv").open())
        cycles[name] = float(row["predicted.cycle"])
    # sixteen passes of 2048 words, the last followed by the array and a store
    assert cycles["tileflow-16"] - cycles[mine] == 16 * 2048 / 8
    assert "tileflow-16" in machine_names()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        (PRODUCT, "no rows"),
        ("M,N,tile_M,tile_N,tile_K\n1,1,1,1,1\n", "missing column K"),
        ("M,M,N,K,tile_M,tile_N,tile_K\n1,1,1,1,1,1,1\n", "given twice: M"),
        (PRODUCT + "16,16,16,16,16,0\n", "tile_K must be from 1"),
        (PRODUCT + "16,16,16,16,16,x\n", "tile_K must be a whole number"),
        (PRODUCT + "16,16,16,32,16,16\n", "tile_M is 32, more than the 16"),
        (PRODUCT + "16,16,16,16,16\n", "5 fields, the header 6"),
        (PRODUCT + f"{1 << 20},{1 << 20},1,1,1,1\n", "tiles are more than"),
        (PRODUCT.strip() + ",cycles\n16,16,16,16,16,16,-3\n", "cycles must be"),
        (CHAIN + "16,16,16,16,16,16,16,8,16,8\n", "K2 must be N1"),
    ],
)
def test_tables_that_are_wrong_are_named(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        evaluate_tiled_rows(table, tmp_path / "out.csv", load_machine("tileflow-16"))
    assert error.value.location is not None
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("copies: 4", "copies: 0", "needs arrays, copies"),
        ("copies: 4", "copies: many", "copies"),
        ("copies: 4", "copys: 4", "copys"),
        ("size: 16}", "size: 0}", "axis of 0 instances"),
        ("reads_per_cycle: 32", "reads_per_cycle: -1", "more than 0"),
        ("int16", "int17", "unknown data type"),
    ],
)
def test_machine_files_that_are_wrong_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = MACHINE_FILE.read_text()
    assert old in text
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as error:
        load_machine(mine)
    assert error.value.location is not None


def test_an_unknown_machine_has_a_hint() -> None:
    with pytest.raises(InputError, match="no machine 'tileflow-15'") as error:
        load_machine("tileflow-15")
    assert "tileflow-16" in str(error.value.hint)
