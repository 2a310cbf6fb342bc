"""The published mapping grammar: round trips and errors that point at the character."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco.common.errors import InputError, Location
from baco.compiler.mapping.nest import REGISTER_DIMS, Mapping
from baco.compiler.mapping.text import format_mapping, parse_mapping
from baco.workloads.problem import DIMS

SHARED_DATA = Path(__file__).parents[4] / "shared" / "data"
EXAMPLE = "L3[WIO] K48 - L2[WI] N1 K16X - L1[O] C48 P16 C16X - L0[W] P8"


def test_example_of_the_grammar() -> None:
    mapping = parse_mapping(EXAMPLE)
    assert mapping.dataflow == "WS"
    assert (mapping.rows, mapping.columns) == (16, 16)
    assert {(d, level): mapping.factor(d, level) for d in DIMS for level in range(4)} == {
        **{(d, level): 1 for d in DIMS for level in range(4)},
        ("K", 3): 48,
        ("C", 1): 48,
        ("P", 1): 16,
        ("P", 0): 8,
    }
    assert mapping.order[1].index("P") < mapping.order[1].index("C")  # orders run from the inside out
    assert mapping.padded_bounds == (1, 1, 128, 1, 768, 768, 1)


def test_output_stationary_is_told_by_level_0() -> None:
    text = "L3[WIO] N2 - L2[WI] K4 K8X - L1[O] Q7 P16X - L0[O] R3 S3 C64"
    mapping = parse_mapping(text)
    assert (mapping.dataflow, mapping.rows, mapping.columns) == ("OS", 16, 8)
    assert mapping.tile(1) == {"R": 3, "S": 3, "P": 16, "Q": 7, "C": 64, "K": 1, "N": 1}
    assert format_mapping(mapping) == text


def test_order_within_a_level_is_outermost_first() -> None:
    mapping = parse_mapping("L3[WIO] K2 C3 P5 - L2[WI] N1 - L1[O] N1 - L0[W] N1")
    assert mapping.order[3].startswith("PCK")
    assert format_mapping(mapping).startswith("L3[WIO] K2 C3 P5 - ")


def test_explicit_unit_loops_mean_nothing() -> None:
    short = parse_mapping("L3[WIO] N1 - L2[WI] N1 - L1[O] P4 - L0[W] N1")
    assert parse_mapping("L3[WIO] R1 C1 - L2[WI] N1 K1X - L1[O] P4 C1X - L0[W] C1") == short


@pytest.mark.parametrize(
    ("name", "rows"), [("timeloop-mappings.csv.gz", 43_845), ("gemmini-firesim.csv.gz", 1_567)]
)
def test_published_mappings_round_trip(name: str, rows: int) -> None:
    path = SHARED_DATA / name
    if not path.exists():
        pytest.skip(f"the published measurements ({name}) are not next to this checkout")
    with gzip.open(path, "rt", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == rows
    for row in table:
        mapping = parse_mapping(row["mapping.mapping"])
        assert format_mapping(mapping) == row["mapping.mapping"]
        assert mapping.padded_bounds == tuple(int(row[f"prob.{d}"]) for d in DIMS)


@st.composite
def mappings(draw: st.DrawFn) -> Mapping:
    dataflow = draw(st.sampled_from(["WS", "OS"]))
    factors = st.sampled_from([1, 1, 1, 2, 3, 7, 16, 1000])
    temporal = [[draw(factors) for _ in DIMS] for _ in range(4)]
    temporal[0] = [f if d in REGISTER_DIMS[dataflow] else 1 for d, f in zip(DIMS, temporal[0], strict=True)]
    order = tuple("".join(draw(st.permutations(DIMS))) for _ in range(4))
    rows, columns = draw(st.integers(1, 128)), draw(st.integers(1, 128))
    return Mapping(dataflow, rows, columns, tuple(map(tuple, temporal)), order)


@settings(max_examples=200, deadline=None)
@given(mappings())
def test_any_mapping_survives(mapping: Mapping) -> None:
    again = parse_mapping(format_mapping(mapping))
    assert (again.dataflow, again.rows, again.columns) == (mapping.dataflow, mapping.rows, mapping.columns)
    assert again.temporal == mapping.temporal
    for level in range(4):
        present = [d for d in mapping.order[level] if mapping.factor(d, level) > 1]
        assert [d for d in again.order[level] if again.factor(d, level) > 1] == present


@pytest.mark.parametrize(
    ("text", "character", "message"),
    [
        ("", 1, "ends before level 0"),
        ("L3[WIO] K4", 11, "ends before level 0"),
        ("L3[WIO] K4 - L2[WI] N1 - L1[O] C2 -", 36, "ends before level 0"),
        ("L3[WIO] - L2[WI] N1", 9, "level 3 has no loops"),
        ("L3[WIO] N1 - L2[WI] N1 - L1[O] N1 - L0[W]", 42, "level 0 has no loops"),
        ("L3[WIO] N1 - L2[WI] N1 - L1[O] N1 - L0[W] N1 - L0[W] N1", 46, "no level below 0"),
        ("L2[WI] N1", 1, "'L2[WI]' is not level 3"),
        ("L3[WI] N1", 1, "'L3[WI]' is not level 3"),
        ("L3[WIO] N1 - L1[O] N1", 14, "'L1[O]' is not level 2"),
        ("L3[WIO] N1 - K4", 14, "expected level 2, found 'K4'"),
        ("L3[WIO] N1 L2[WI] N1", 12, "'L2[WI]' is no loop"),
        ("L3[WIO] k4", 9, "'k4' is no loop"),
        ("L3[WIO] K", 9, "'K' is no loop"),
        ("L3[WIO] K-4", 9, "'K-4' is no loop"),
        ("L3[WIO] K4x", 9, "'K4x' is no loop"),
        ("L3[WIO] K4.5", 9, "'K4.5' is no loop"),
        ("L3[WIO] K²", 9, "is no loop"),
        ("L3[WIO] K" + "9" * 5000, 9, "is no loop"),
        ("L3[WIO] K0", 9, "at least 1"),
        ("L3[WIO] K2 C3 K2", 15, "loops over K twice"),
        ("L3[WIO] K2X", 9, "level 3 cannot spread K"),
        ("L3[WIO] N1 - L2[WI] C2X", 21, "level 2 cannot spread C"),
        ("L3[WIO] N1 - L2[WI] K2X K2", 25, "'K2' follows the spatial factor"),
        ("L3[WIO] N1 - L2[WI] K2X K2X", 25, "second spatial factor"),
        ("L3[WIO] N1 - L2[WI] N1 - L1[O] P2X - L0[W] N1", 38, "the array rows take P"),
        ("L3[WIO] N1 - L2[WI] N1 - L1[O] C2X - L0[O] N1", 38, "the array rows take C"),
        ("L3[WIO] C5 - L2[WI] N1 - L1[O] N1 - L0[W] P2 C2", 46, "level 0 cannot loop over C"),
        ("L3[WIO] P5 - L2[WI] N1 - L1[O] N1 - L0[O] P2", 43, "level 0 cannot loop over P"),
    ],
)
def test_malformed_text_is_located(text: str, character: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_mapping(text)
    assert message in caught.value.message
    assert f"(character {character})" in str(caught.value)
    assert len(str(caught.value)) < 400  # however long the input is


def test_errors_use_the_callers_place() -> None:
    text = "L3[WIO] q4"
    with pytest.raises(InputError) as caught:
        parse_mapping(text, Location("rows.csv", 17))
    assert caught.value.location == Location("rows.csv", 17, node="mapping, character 9")
    with pytest.raises(InputError) as caught:
        parse_mapping(text, Location("best.yaml", 3, 12))
    assert caught.value.location == Location("best.yaml", 3, 20)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="L3210[WIO] KCPN-X98\n", max_size=60), st.integers(0, len(EXAMPLE)))
def test_damaged_text_never_raises_anything_else(noise: str, cut: int) -> None:
    for text in (noise, EXAMPLE[:cut] + noise + EXAMPLE[cut:], EXAMPLE[:cut] + EXAMPLE[cut + 3 :]):
        try:
            mapping = parse_mapping(text)
        except InputError:
            continue
        assert parse_mapping(format_mapping(mapping)).temporal == mapping.temporal


def test_a_mapping_reads_its_own_text() -> None:
    plain = "L3[WIO] K48 - L2[WI] N1 K16X - L1[O] C48 P16 C16X - L0[W] P8"
    mapping = Mapping.parse(plain)
    assert mapping.text == str(mapping) == plain
    assert mapping.buffering == (1, 1, 1)
    twice = Mapping.parse(plain + " buffers 2,2,1")
    assert twice == replace(mapping, buffering=(2, 2, 1))
    assert Mapping.parse(twice.text) == twice
    with pytest.raises(InputError, match="a mapping is a text, not int"):
        Mapping.parse(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected level 3, found 'K48'"):
        Mapping.parse("K48")
