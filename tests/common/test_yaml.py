"""Loading YAML: what is refused, where errors point, and that values are those of YAML 1.2."""

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from baco.common.document import MAX_DEPTH, MAX_NODES, path_text
from baco.common.errors import InputError
from baco.common.yaml import YamlDoc, load_yaml, parse_model, parse_yaml


def load(text: str) -> Any:
    return parse_yaml(text, "f.yaml").data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("0x1F", 31),
        ("0o17", 15),
        ("0", 0),
        ("-0", 0),
        ("0.5", 0.5),
        ("01.5", 1.5),
        ("1e6", 1e6),
        ("1.5", 1.5),
        (".5", 0.5),
        ("-1.5e-3", -1.5e-3),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("0x", "0x"),
        ("0o8", "0o8"),
        ("'010'", "010"),
        ("010a", "010a"),
        ("2026-01-02", "2026-01-02"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("|\n  12\n", "12\n"),
        ("é µ 漢", "é µ 漢"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: Any) -> None:
    found = load(f"key: {text}")["key"]
    assert found == value
    assert type(found) is type(value)


def test_nan() -> None:
    assert math.isnan(load("key: .nan")["key"])


_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Cn", "Zl", "Zp"]))
_keys = _text.filter(lambda key: key not in ("", "<<") and len(key) < 100)
_floats = st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | _floats | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(_json)
def test_json_reads_as_itself(value: Any) -> None:
    # JSON is YAML, and Python's json is an independent reader
    text = json.dumps({"value": value}, ensure_ascii=False)
    assert load(text) == json.loads(text)


def test_empty_documents() -> None:
    assert load("") is None
    assert load("# only a comment\n") is None
    assert load("a:\nb: 1") == {"a": None, "b": 1}


def test_aliases_are_expanded() -> None:
    doc = parse_yaml("a: &x {k: [1, 2]}\nb: *x\nc: &n 5\nd: *n\n", "f.yaml")
    assert doc.data == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}, "c": 5, "d": 5}
    place = doc.location(("b", "k", 1))
    assert (place.line, place.column) == (1, 15)


def bomb(levels: int) -> str:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    for i in range(1, levels):
        lines.append(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "words", "line", "column"),
    [
        (bomb(30), f"more than {MAX_NODES:,} values", 6, 15),
        ("[" * 100_000, f"more than {MAX_DEPTH} deep", 1, MAX_DEPTH + 1),
        ("a: " + "{b: " * 100, f"more than {MAX_DEPTH} deep", 1, 4 + 4 * (MAX_DEPTH - 1)),
        ("a: 1\nb: 2\na: 3", "the key 'a' is given twice (first in line 1)", 3, 1),
        ("x:\n  a: 1\n  a: 1", "the key 'a' is given twice (first in line 2)", 3, 3),
        ("a: &x [1, *x]", "refers to nothing before it", 1, 11),
        ("a: *x", "refers to nothing before it", 1, 4),
        ("a: !!python/object/apply:os.system [ls]", "the tag", 1, 4),
        ("!!str a: 1", "the tag", 1, 1),
        ("a: ! 1", "the tag ! is not allowed", 1, 4),
        ("a: !custom 1", "the tag !custom is not allowed", 1, 4),
        ("? [1, 2]\n: 3", "a key must be a word", 1, 3),
        ("<<: {a: 1}", "merge keys", 1, 1),
        ("'': 1", "a key is missing", 1, 1),
        ("a: 1\n---\nb: 2", "more than one document", 2, 1),
        ("a: [1, 2\n", "not valid YAML", 2, 1),
        ("a: 1\n\tb: 2", "not valid YAML", 2, 1),
        ("a: b: c", "not valid YAML", 1, 5),
        ("a: 'x", "not valid YAML", 1, 6),
        ("%YAML 9.9\n---\na: 1", "not valid YAML", 1, 1),
        ("a: " + "9" * 5000, "a number of 5000 digits is too long", 1, 4),
    ],
)
def test_what_is_refused_and_where(text: str, words: str, line: int, column: int) -> None:
    with pytest.raises(InputError) as caught:
        load(text)
    assert words in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.file == "f.yaml"
    assert caught.value.location.line == line
    assert abs((caught.value.location.column or 0) - column) <= 1


@pytest.mark.parametrize(
    ("data", "words", "line"),
    [
        (b"a: 1\nb: \xff\xfe", "is not UTF-8", 2),
        (b"\xff\xfea\x00:\x00", "binary", 1),
        (b"a: 1\n\n\x00", "binary", 3),
        (b"\x7fELF\x02\x01\x00", "binary", 1),
        (b"a: \x01", "control characters", 1),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, words: str, line: int) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(data)
    with pytest.raises(InputError, match=words) as caught:
        load_yaml(path)
    assert caught.value.location is not None
    assert caught.value.location.line == line
    assert caught.value.location.file == str(path)


def test_byte_order_mark_and_dos_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: [1,\r\n  2]\r\n")
    doc = load_yaml(path)
    assert doc.data == {"a": 1, "b": [1, 2]}
    assert doc.location(("b", 1)).line == 3


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=" \n\t:-[]{},&*!|>'\"%@`#?abc01.~<", max_size=60))
def test_any_text_loads_or_is_refused(text: str) -> None:
    try:
        doc = parse_yaml(text, "f.yaml")
    except InputError as error:
        place = error.location
    else:
        place = doc.location()
    assert place is not None
    assert place.file == "f.yaml"


def test_locations() -> None:
    doc = parse_yaml("a: 1\nb:\n  - x: 1\n    y: [10, 20]\n", "f.yaml")
    assert str(doc.location(("b", 0, "y", 1))) == "f.yaml:4:13 (b[0].y[1])"
    assert str(doc.location(("b", 0, "y"), key=True)) == "f.yaml:4:5 (b[0].y)"
    assert str(doc.location(("b", 0, "z"))) == "f.yaml:3:5 (b[0].z)", "a missing key: its parent"
    assert str(doc.location()) == "f.yaml:1:1"
    assert doc.get(("b", 0, "y", 1)) == 20
    with pytest.raises(KeyError):
        doc.get(("b", 7))
    assert path_text((0, "a", 1)) == "[0].a[1]"


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    low: int = Field(ge=1)
    high: int = Field(9, ge=1, le=9)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = "n"
    side: Annotated[int, Field(ge=2, le=128)] = 4
    flows: tuple[Literal["WS", "OS"], ...] = ("WS",)
    area: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    on: bool = True
    inner: Inner | None = None
    choice: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] | Inner | None = None
    table: dict[str, Inner] = Field(default_factory=dict)
    even: int = 2

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value


def parse(text: str) -> Model:
    return parse_model(Model, parse_yaml(text, "f.yaml"))


def test_parse_model() -> None:
    model = parse("side: 8\nflows: [OS, WS]\narea: 3\nchoice: [1, 2]\ntable: {a: {low: 3}}\n")
    assert (model.side, model.flows, model.area) == (8, ("OS", "WS"), 3.0)
    assert model.choice == [1, 2]
    assert model.table["a"].low == 3
    assert parse("choice: {low: 2}").choice == Inner(low=2)


@pytest.mark.parametrize(
    ("text", "place", "words", "hint"),
    [
        ("sied: 4", "1:1 (sied)", "unknown key 'sied'", "did you mean 'side'?"),
        ("inner: {low: 1, hihg: 2}", "1:17 (inner.hihg)", "unknown key 'hihg'", "did you mean 'high'?"),
        ("inner: {lwo: 1}", "1:9 (inner.lwo)", "unknown key 'lwo'", "did you mean 'low'? allowed: high, low"),
        ("name: x\ninner: {high: 2}", "2:8 (inner.low)", "missing key 'low'", "a whole number at least 1"),
        ("side: 1", "1:7 (side)", "'side' must be at least 2, not 1", "a whole number from 2 to 128"),
        ("side: 129", "1:7 (side)", "'side' must be at most 128, not 129", "from 2 to 128"),
        ("side: true", "1:7 (side)", "'side' must be a whole number, not true", "from 2 to 128"),
        ("side: '4'", "1:7 (side)", "must be a whole number, not '4'", "from 2 to 128"),
        ("side: 4.5", "1:7 (side)", "must be a whole number, not 4.5", "from 2 to 128"),
        ("side:", "1:6 (side)", "'side' must be a whole number, not empty", "from 2 to 128"),
        ("side: [4]", "1:7 (side)", "must be a whole number, not [4]", "from 2 to 128"),
        ("area: -1", "1:7 (area)", "'area' must be more than 0", "more than 0"),
        ("area: .nan", "1:7 (area)", "'area' must be", "more than 0"),
        ("area: .inf", "1:7 (area)", "must be a finite number", "more than 0"),
        ("area: big", "1:7 (area)", "must be a number, not 'big'", "more than 0"),
        ("on: 1", "1:5 (on)", "must be true or false, not 1", "true or false"),
        ("on: yes", "1:5 (on)", "must be true or false, not 'yes'", "true or false"),
        ("flows: [WS, Os]", "1:13 (flows[1])", "entry 2 of 'flows' cannot be 'Os'", "did you mean 'OS'?"),
        ("flows: WS", "1:8 (flows)", "must be a list, not 'WS'", "OS"),
        ("choice: []", "1:9 (choice)", "at least 1 entry", None),
        ("choice: [3, 0]", "1:13 (choice[1])", "at least 1, not 0", "at least 1"),
        ("choice: {low: 0}", "1:15 (choice.low)", "'low' must be at least 1, not 0", "at least 1"),
        ("choice: {log: 1}", "1:10 (choice.log)", "unknown key 'log'", "did you mean 'low'?"),
        ("choice: x", "1:9 (choice)", "must be a list, not 'x'", "a mapping of low, high"),
        ("table: {a: {low: 1}, b: {low: 0}}", "1:31 (table.b.low)", "at least 1, not 0", "at least 1"),
        ("table: [1]", "1:8 (table)", "must be a mapping", None),
        ("even: 3", "1:7 (even)", "3 is odd", None),
        ("- 1", "1:1", "must be a mapping", "name"),
        ("x", "1:1", "must be a mapping", "name"),
        ("", "1:1", "the file is empty", "allowed keys: name"),
    ],
)
def test_errors_of_models(text: str, place: str, words: str, hint: str | None) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert words in caught.value.message
    assert str(caught.value.location).removeprefix("f.yaml:") == place
    if hint is not None:
        assert hint in (caught.value.hint or "")


def test_misspelt_key_comes_before_what_it_breaks() -> None:
    with pytest.raises(InputError, match="unknown key 'hgih'"):
        parse("side: 1\ninner: {hgih: 3}\n")


def test_part_of_a_document_and_defaults() -> None:
    doc = parse_yaml("a: {inner: {high: 3}}\n", "f.yaml")
    model = parse_model(Model, doc, ("a",), defaults={"side": 16, "inner": {"low": 7, "high": 8}})
    assert model.side == 16
    assert model.inner == Inner(low=7, high=3)
    with pytest.raises(InputError, match="missing key 'b'"):
        parse_model(Model, doc, ("b",))
    with pytest.raises(InputError, match="'side' must be at most 128, not 500"):
        parse_model(Model, doc, ("a",), defaults={"side": 500, "inner": {"low": 7}})


class Raising(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def _no(cls, value: int) -> int:
        raise InputError("never")


def test_an_input_error_of_a_validator_gets_a_place() -> None:
    doc: YamlDoc = parse_yaml("x: {a: 1}", "f.yaml")
    with pytest.raises(InputError, match="never") as caught:
        parse_model(Raising, doc, ("x",))
    assert str(caught.value.location) == "f.yaml:1:4 (x)"


class _Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = Field(ge=1, le=9)
    width: int = 1


class _Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    inner: _Inner
    sizes: list[int] = []


def test_all_that_is_wrong_in_a_file_is_said_at_once() -> None:
    text = "nmae: x\ninner:\n  size: 12\n  colour: red\nsizes: [1, two, 3.5]\n"
    with pytest.raises(InputError) as caught:
        parse_model(_Outer, parse_yaml(text, "f.yaml"))
    lines = str(caught.value).splitlines()
    said = [line for line in lines if "f.yaml" in line]
    assert said == [
        "f.yaml:1:1 (nmae): unknown key 'nmae'",
        "  and f.yaml:4:3 (inner.colour): unknown key 'colour'",
        "  and f.yaml:3:9 (inner.size): 'size' must be at most 9, not 12",
        "  and f.yaml:5:12 (sizes[1]): entry 2 of 'sizes' must be a whole number, not 'two'",
        "  and f.yaml:5:17 (sizes[2]): entry 3 of 'sizes' must be a whole number, not 3.5",
    ]  # the missing 'name' is what 'nmae' was meant for
    assert "did you mean 'name'?" in lines[1]


def test_of_very_many_errors_the_first_are_shown() -> None:
    text = "name: x\ninner: {size: 1}\nsizes: [" + ", ".join(["a"] * 5000) + "]\n"
    with pytest.raises(InputError) as caught:
        parse_model(_Outer, parse_yaml(text, "f.yaml"))
    lines = str(caught.value).splitlines()
    assert len(lines) < 50
    assert lines[-1] == "  and further errors"
