"""Design spaces: what is legal (against Gemmini's own rules), what binds, and that files round-trip."""

import itertools
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from baco.common.errors import BacoError, InfeasibleError, InputError
from baco.common.yaml import load_yaml, parse_yaml
from baco.exploration.space import SPACES_FOLDER, DesignSpace, load_space, read_space, space_names
from baco.exploration.space.schema import SCHEMA_PATH, space_json_schema
from baco.exploration.space.shortfall import check_feasible

SMALL = """\
dim: [4, 8]
scratchpad_kib: {min: 4, max: 64, powers_of: 2}
accumulator_kib: [1, 2]
"""


def space(text: str) -> DesignSpace:
    return read_space(parse_yaml(text, "s.yaml"))


def test_named_spaces() -> None:
    assert space_names() == ["gemmini", "gemmini-large", "reference"]
    gemmini = load_space("gemmini")
    assert (gemmini.rules, gemmini.double_buffer, gemmini.dataflows) == ("gemmini", True, ("WS",))
    assert gemmini.dim == (4, 8, 16, 32, 64, 128)
    assert gemmini.enumerable
    reference = load_space("reference")
    assert (reference.rules, reference.double_buffer, reference.dataflows) == ("reference", False, ("WS",))
    assert reference.dim == tuple(range(2, 129))
    assert reference.constraints.hardware_only == {}
    assert not reference.enumerable
    with pytest.raises(InputError, match="too many"):
        reference.hardware()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (False,)),
        ("units: [none]\n", (False,)),
        ("units: [row_functions]\n", (True,)),
        ("units: [row_functions, none]\n", (False, True)),
        ("fixed: {features: {row_functions: true}}\n", (True,)),
        ("base: gemmini-transformer\nunits: [none]\n", (False,)),
        ("base: gemmini-transformer\nunits: [none, row_functions]\n", (False, True)),
    ],
)
def test_units_are_those_that_the_file_says(text: str, expected: tuple[bool, ...]) -> None:
    """Every accelerator of sizes once for each, at its own area and at its own static energy."""
    found = space(SMALL + text)
    assert found.units == expected
    again = space(found.to_yaml())
    assert (again.units, again.space_hash) == (expected, found.space_hash)
    points = found.rule_points()
    rows = list(zip(points.dim, points.accumulator_kib, points.scratchpad_kib, points.units, strict=True))
    assert len(set(rows)) == len(rows) == len(expected) * len({row[:3] for row in rows})
    machines = [found.accelerator(d, a, s, units) for d, a, s, units in rows]
    assert [machine.features.row_functions for machine in machines] == points.units.tolist()
    assert [machine.area_mm2 for machine in machines] == pytest.approx(points.area_mm2.tolist(), rel=1e-12)
    limited = found.constrain(area_mm2=float(np.median(points.area_mm2)))
    allowed = limited.allowed(points.dim, points.accumulator_kib, points.scratchpad_kib, points.units)
    assert allowed.tolist() == [machine.area_mm2 <= limited.constraints.area_mm2 for machine in machines]
    plain = found.without_units()
    assert plain.units == expected[:1]
    assert (plain.space_hash == found.space_hash) == (len(expected) == 1)


def test_legal_is_what_the_configuration_says_gemmini_accepts() -> None:
    # an independent implementation of the rules: one point at a time, in the accelerator room
    s = load_space("gemmini")
    points = list(itertools.product(s.dim, s.accumulator_kib, s.scratchpad_kib))
    legal = s.legal(*np.array(points).T)
    expected = [not s.accelerator(d, a, p).gemmini_problems() for d, a, p in points]
    assert legal.tolist() == expected
    assert 0 < sum(expected) < len(expected)
    listed = s.rule_points()
    found = set(zip(listed.dim, listed.accumulator_kib, listed.scratchpad_kib, strict=True))
    assert found == {p for p, ok in zip(points, expected, strict=True) if ok}


def test_normaliser_commands_are_fixed_hardware() -> None:
    with_them, without = space(SMALL + "fixed: {features: {normalizations: true}}\n"), space(SMALL)
    assert with_them.base.features.normalizations
    areas = [one.base.area_of(8, 32, 64) for one in (with_them, without)]
    assert areas[0] > 1.01 * areas[1]


@pytest.mark.parametrize(
    "banks", ["{scratchpad_banks: 8, accumulator_banks: 1}", "{accumulator_bits: 16, partial_sum_bits: 16}"]
)
def test_legal_follows_the_banks_of_the_base(banks: str) -> None:
    s = space(
        "dim: {min: 2, max: 32}\nscratchpad_kib: {min: 1, max: 40}\naccumulator_kib: {min: 1, max: 40}\n"
        f"fixed: {banks}\n"
    )
    for d, a, p in itertools.product((2, 8, 32), (1, 3, 8, 32), (1, 2, 8, 24, 32)):
        expected = not s.accelerator(d, a, p).gemmini_problems() if d in s.dim else False
        assert bool(s.legal(d, a, p)) == (expected and a <= 40 and p <= 40), (d, a, p)


def test_legal_is_vectorised_and_refuses_what_is_not_a_choice() -> None:
    s = load_space("gemmini")
    legal = s.legal(np.array([[16], [12], [256]]), 64, np.array([256, 100, 8192]))
    assert legal.tolist() == [[True, False, False], [False] * 3, [False] * 3]
    r = load_space("reference")
    assert r.legal([2, 128, 77, 1, 129, 16], 1, 16384).tolist() == [True, True, True, False, False, True]
    assert r.legal(16, [0, 1, 16384, 16385], 3).tolist() == [False, True, True, False]
    assert r.legal(16.0, [1.5, 2.0], 3).tolist() == [False, True]


def test_hardware_satisfies_the_bounds_and_areas_are_those_of_the_accelerators() -> None:
    s = load_space("gemmini").constrain(sram_kib=300.0)
    points = s.hardware()
    assert len(points) > 50
    cap = s.constraints.area_mm2 or 0
    assert (points.area_mm2 <= cap).all()
    assert (points.sram_kib <= 300).all()
    for i in (0, len(points) // 2, len(points) - 1):
        a = s.accelerator(points.dim[i], points.accumulator_kib[i], points.scratchpad_kib[i], points.units[i])
        assert a.area_mm2 == pytest.approx(points.area_mm2[i], rel=1e-12)
        assert a.dataflow == "WS"
    everything = s.rule_points()
    kept = set(zip(points.dim, points.accumulator_kib, points.scratchpad_kib, points.units, strict=True))
    for i in range(len(everything)):
        inside = everything.area_mm2[i] <= cap and everything.sram_kib[i] <= 300
        sizes = (everything.dim[i], everything.accumulator_kib[i], everything.scratchpad_kib[i])
        key = (*sizes, everything.units[i])
        assert (key in kept) == inside
        assert bool(s.allowed(*key)) == inside


def test_the_default_cap_is_generous_but_excludes_the_largest_array() -> None:
    s = load_space("gemmini")
    default = s.accelerator(16, 64, 256)
    assert s.allowed(16, 64, 256)
    assert 3 < (s.constraints.area_mm2 or 0) / default.area_mm2 < 5
    assert s.hardware().dim.max() == 64


@pytest.mark.parametrize("name", ["gemmini", "reference", "small", "rich"])
def test_files_round_trip(name: str) -> None:
    texts = {
        "small": SMALL,
        "rich": "name: 'a: b # \"c\"'\nrules: reference\nfixed: {clock_mhz: 500.5, energy: {dram_pj: 80}}\n"
        "dim: [3, 5, 7, 9]\nscratchpad_kib: [1, 2, 4, 8, 9]\naccumulator_kib: {min: 3, max: 30, step: 9}\n"
        "dataflows: [OS, WS]\ndouble_buffer: false\n"
        "constraints: {power_mw: 1e3, networks: {resnet50: {energy_uj: 5}}}\n"
        "networks: [{network: resnet50, weight: 2}, {network: 'gpt2:seq=128'}]\n",
    }
    s = space(texts[name]) if name in texts else load_space(name)
    again = space(s.to_yaml())
    assert again == s
    assert again.space_hash == s.space_hash
    if name == "rich":
        assert s.name == 'a: b # "c"'
        assert s.base.energy.dram_pj == 80
        assert s.accumulator_kib == (3, 12, 21, 30)
        assert s.constraints.networks["resnet50"].energy_uj == 5
        assert [(n.network, n.weight) for n in s.networks] == [("resnet50", 2.0), ("gpt2:seq=128", 1.0)]


def test_hash_depends_on_what_matters_only() -> None:
    base = space(SMALL).space_hash
    assert space(SMALL + "name: other\n").space_hash == base
    assert space("networks: [{network: resnet18}]\n" + SMALL).space_hash == base
    assert space(SMALL.replace("[4, 8]", "[8, 4, 4]")).space_hash == base
    assert space(SMALL.replace("{min: 4, max: 64, powers_of: 2}", "[4, 8, 16, 32, 64]")).space_hash == base
    changes = [
        "rules: reference\n",
        "dataflows: [WS]\n",
        "double_buffer: false\n",
        "constraints: {area_mm2: 2}\n",
        "fixed: {clock_mhz: 999}\n",
        "fixed: {energy: {dram_pj: 99}}\n",
    ]
    hashes = {space(SMALL + change).space_hash for change in changes}
    assert len(hashes | {base}) == len(changes) + 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[64, 4, 16]", (4, 16, 64)),
        ("{min: 4, max: 64, powers_of: 2}", (4, 8, 16, 32, 64)),
        ("{min: 5, max: 70, powers_of: 2}", (8, 16, 32, 64)),
        ("{min: 4, max: 70, powers_of: 4}", (4, 16, 64)),
        ("{min: 8, max: 20, step: 4}", (8, 16)),
        ("{min: 4, max: 9}", (4, 8)),
    ],
)
def test_ranges_keep_what_is_legal(text: str, values: tuple[int, ...]) -> None:
    found = space(SMALL.replace("{min: 4, max: 64, powers_of: 2}", text))
    assert found.scratchpad_kib == values


@pytest.mark.parametrize(
    ("extra", "binding", "nearest"),
    [
        ("constraints: {area_mm2: 0.001}", ["area_mm2"], None),
        ("constraints: {sram_kib: 2}", ["sram_kib"], "sram_kib: 5"),
        ("constraints: {sram_kib: 4.99, area_mm2: 100}", ["sram_kib"], "sram_kib: 5"),
        ("constraints: {sram_kib: 100, area_mm2: 0.001}", ["area_mm2"], None),
        ("constraints: {sram_kib: 2, area_mm2: 0.001}", ["area_mm2", "sram_kib"], "sram_kib: 5"),
    ],
)
@pytest.mark.parametrize("rules", ["gemmini", "reference"])
def test_impossible_bounds_name_the_binding_one_and_a_value_that_works(
    rules: str, extra: str, binding: list[str], nearest: str | None
) -> None:
    text = f"rules: {rules}\n{SMALL}{extra}\n"
    with pytest.raises(InfeasibleError) as caught:
        check_feasible(space(text))
    message, hint = caught.value.message, caught.value.hint or ""
    assert [name for name in ("area_mm2", "sram_kib") if f"{name} may be" in message] == binding
    assert re.search(r"\d% too much|\d times the bound", message)
    if nearest is not None:
        assert nearest in hint
    assert str(caught.value.location).startswith("s.yaml:5:"), "the place of the bound in the file"
    # the nearest feasible value is feasible, and a little less is not
    found = {n: float(v) for n, v in re.findall(r"(area_mm2|sram_kib): ([0-9.]+)", hint)}
    assert set(found) == set(binding)
    bounds = dict(re.findall(r"(area_mm2|sram_kib): ([0-9.]+)", extra))
    wider = {**bounds, **{n: str(v) for n, v in found.items()}}
    check_feasible(
        space(text.replace(extra, f"constraints: {{{', '.join(f'{n}: {v}' for n, v in wider.items())}}}"))
    )
    for name, value in found.items():
        tight = {**wider, name: str(value * 0.995)}
        limited = space(
            text.replace(extra, f"constraints: {{{', '.join(f'{n}: {v}' for n, v in tight.items())}}}")
        )
        with pytest.raises(InfeasibleError):
            check_feasible(limited)


def test_impossible_bounds_of_the_command_line() -> None:
    for name in space_names():
        with pytest.raises(InfeasibleError, match=r"area_mm2 may be 0\.01") as caught:
            check_feasible(load_space(name).constrain(area_mm2=0.01))
        assert "nearest feasible value: area_mm2" in (caught.value.hint or "")
    own = load_space("gemmini")
    looser = own.constrain(area_mm2=500.0)
    assert looser.constraints.area_mm2 == own.constraints.area_mm2, (
        "a looser bound does not loosen the space's own"
    )


@pytest.mark.parametrize(
    ("text", "place", "words", "near"),
    [
        (SMALL.replace("[4, 8]", "[4, 12]"), "1:10", "'dim' cannot be 12", "8"),
        (SMALL.replace("[4, 8]", "{min: 5, max: 7}"), "1:6", "no value of 'dim' from 5 to 7", "4"),
        (SMALL.replace("[1, 2]", "[1, 3]"), "3:22", "'accumulator_kib' cannot be 3", "2"),
        (SMALL.replace("[4, 8]", "[128]"), "3:19", "'accumulator_kib' cannot be 1", "128"),
        (SMALL.replace("[4, 8]", "[64, 128]").replace("max: 64", "max: 8"), "2:17", "from 4 to 8", "16"),
        ("dim: [128]\nscratchpad_kib: [64]\naccumulator_kib: [256]\n", "2:17", "no combination", "128"),
        ("dim: [128]\nscratchpad_kib: [32]\naccumulator_kib: [256]\n", "2:18", "cannot be 32", "64"),
    ],
)
def test_illegal_choices_name_the_nearest_legal_one(text: str, place: str, words: str, near: str) -> None:
    with pytest.raises(InfeasibleError) as caught:
        space(text)
    assert words in caught.value.message
    assert str(caught.value.location).startswith(f"s.yaml:{place}")
    assert re.search(rf"nearest feasible value: (\w+: )?{near}$", caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "place", "words", "hint"),
    [
        ("dmi: [4]\n" + SMALL, "1:1", "unknown key 'dmi'", "did you mean 'dim'?"),
        (SMALL + "constraints: {area: 3}", "4:15", "unknown key 'area'", "did you mean 'area_mm2'?"),
        (
            SMALL + "constraints: {networks: {a: {latency: 3}}}",
            "4:30",
            "unknown key 'latency'",
            "latency_cycles",
        ),
        (SMALL + "constraints:", "4:13", "must be a mapping", "area_mm2"),
        (SMALL + "rules: gemini", "4:8", "'rules' cannot be 'gemini'", "did you mean 'gemmini'?"),
        (SMALL + "dataflows: [ws]", "4:13", "cannot be 'ws'", "did you mean 'WS'?"),
        (SMALL + "dataflows: []", "4:12", "at least 1 entry", None),
        (SMALL + "base: gemini-default", "4:7", "no accelerator 'gemini-default'", "gemmini-default"),
        (SMALL + "fixed: {clok_mhz: 3}", "4:9", "unknown key 'clok_mhz'", "did you mean 'clock_mhz'?"),
        (SMALL + "fixed: {clock_mhz: 0}", "4:20", "more than 0", "more than 0"),
        (SMALL + "fixed: {energy: {dram_pj: -1}}", "4:27", "at least 0", None),
        (SMALL + "fixed: {dim: 4}", "4:9", "'dim' is searched", "dim: [...]"),
        (SMALL + "fixed: {dataflow: WS}", "4:9", "'dataflow' is searched", "dataflows: [...]"),
        (
            SMALL + "units: [none]\nfixed: {features: {row_functions: true}}",
            "5:20",
            "row_functions cannot be fixed where 'units' says",
            "units: [row_functions]",
        ),
        (
            SMALL + "rules: reference\nfixed: {features: {normalizations: true}}",
            "5:20",
            "normaliser commands have no use here: under rules: reference",
            "leave features.normalizations off",
        ),
        (
            SMALL + "fixed: {timing: gemmini, features: {normalizations: true}}",
            "4:37",
            "normaliser commands have no use here: under timing: gemmini",
            "leave features.normalizations off",
        ),
        (
            SMALL + "fixed: {features: {normalizations: true, activations: false}}",
            "4:8",
            "features.normalizations needs activations as well",
            None,
        ),
        (SMALL + "units: [all]", "4:9", "'units' cannot be 'all'", None),
        (SMALL + "fixed: {execute_queue: 1}", "4:8", "execute_queue must be at least 3", "rules: reference"),
        (SMALL + "networks: [resnet50]", "4:12", "must be a mapping", "network"),
        (SMALL + "networks: [{network: a, weight: 0}]", "4:33", "more than 0", None),
        (SMALL.replace("[4, 8]", "[4, 300]"), "1:10", "at most 128, not 300", "from 2 to 128"),
        (SMALL.replace("[4, 8]", "{min: 8, max: 4}"), "1:6", "the range is empty", None),
        (SMALL.replace("[4, 8]", "{min: 4, max: 8, step: 2, powers_of: 2}"), "1:6", "not both", None),
        (SMALL.replace("[4, 8]", "{min: 5, max: 7, powers_of: 2}"), "1:6", "no power of 2 lies", None),
        (SMALL.replace("[4, 8]", "{min: 4}"), "1:6", "missing key 'max'", None),
        (SMALL.replace("dim: [4, 8]\n", ""), "1:1", "missing key 'dim'", None),
    ],
)
def test_errors_of_files(text: str, place: str, words: str, hint: str | None) -> None:
    with pytest.raises(InputError) as caught:
        space(text)
    assert words in caught.value.message
    assert str(caught.value.location).split(" ")[0] == f"s.yaml:{place}"
    if hint is not None:
        assert hint in (caught.value.hint or "")


def test_unknown_spaces_and_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown space 'gemini'") as caught:
        load_space("gemini")
    assert "did you mean 'gemmini'?" in (caught.value.hint or "")
    for missing in ("no.yaml", str(tmp_path), str(tmp_path / "no")):
        with pytest.raises(InputError):
            load_space(missing)


def test_files_named_in_a_space_are_looked_for_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(load_space("gemmini").accelerator(8, 8, 32).to_yaml())
    (tmp_path / "net.onnx").write_bytes(b"")
    path = tmp_path / "space.yaml"
    path.write_text(
        SMALL + "base: mine.yaml\nnetworks: [{network: 'net.onnx:batch=2'}, {network: resnet50}]\n"
    )
    s = load_space(path)
    assert s.base.name == "8x8-32-8"
    assert [n.network for n in s.networks] == [str(tmp_path / "net.onnx:batch=2"), "resnet50"]
    (tmp_path / "mine.yaml").write_text("dim: 1\n")
    with pytest.raises(InputError, match="at least 2") as caught:
        load_space(path)
    assert "mine.yaml:1" in str(caught.value.location)


def test_tile_rows_limit_the_sides() -> None:
    text = "rules: reference\ndim: {min: 4, max: 20}\nscratchpad_kib: [8]\naccumulator_kib: [1]\nfixed: {tile_rows: 4}\n"
    assert space(text).dim == (4, 8, 12, 16, 20)
    with pytest.raises(InfeasibleError, match="a multiple of tile_rows"):
        space(text.replace("{min: 4, max: 20}", "[4, 6]"))


def test_schema_is_the_committed_one_and_accepts_the_named_spaces() -> None:
    schema = space_json_schema()
    assert json.loads(SCHEMA_PATH.read_text()) == schema, "run `python -m baco.exploration.space.schema`"
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name in space_names():
        validator.validate(load_yaml(SPACES_FOLDER / f"{name}.yaml").data)
        validator.validate(parse_yaml(load_space(name).to_yaml(), name).data)


@pytest.mark.parametrize(
    "text",
    [
        SMALL + "dataflows: [XS]",
        SMALL + "fixed: {clok_mhz: 3}",
        SMALL + "constraints: {area_mm2: 0}",
        SMALL.replace("[4, 8]", "[4, 300]"),
        SMALL + "unknown: 1",
        SMALL.replace("dim: [4, 8]\n", ""),
    ],
)
def test_schema_refuses_what_the_loader_refuses(text: str) -> None:
    doc = parse_yaml(text, "s.yaml")
    with pytest.raises(BacoError):
        read_space(doc)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(doc.data, space_json_schema())
