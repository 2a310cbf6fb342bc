"""Numbers of tables and options: ASCII digits, bounded, finite."""

import pytest

from baco.common.errors import InputError, Location
from baco.common.numbers import EXACT, any_base_number, hexadecimal_number, real_number, whole_number

NONE = (
    "",
    " ",
    "-1",
    "+1",
    "1.0",
    "1e3",
    "1_000",
    "\u00b2",
    "\u0663",
    "\uff11",
    "nan",
    "inf",
    "0x10",
    "x",
    "1 ",
    "1\n",
)


@pytest.mark.parametrize("text", NONE)
def test_no_whole_numbers(text: str) -> None:
    with pytest.raises(InputError, match="rows must be a whole number of at least 2, not") as caught:
        whole_number("rows", text, least=2, location=Location("f", 3))
    assert caught.value.location == Location("f", 3)


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("007", 7), (str(EXACT), EXACT), ("0" * 5000 + "12", 12)]
)
def test_whole_numbers(text: str, value: int) -> None:
    assert whole_number("x", text) == value


@pytest.mark.parametrize("text", [str(EXACT + 1), "9" * 10_000, "1" + "0" * 30])
def test_too_large(text: str) -> None:
    with pytest.raises(InputError, match=f"x must be from 0 to {EXACT}, not"):
        whole_number("x", text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("0x1F", 31),
        ("0X0", 0),
        ("0", 0),
        (str(2**64 - 1), 2**64 - 1),
        ("0x" + "0" * 99 + "f", 15),
    ],
)
def test_any_base(text: str, value: int) -> None:
    assert any_base_number("x", text) == value


@pytest.mark.parametrize(
    "text",
    ["", "0x", "-1", "1f", "0o7", "0b1", "010", "1_0", "0x1_0", "\u00b2", "0x" + "f" * 17, str(2**64), "0xg"],
)
def test_no_number_of_any_base(text: str) -> None:
    with pytest.raises(InputError):
        any_base_number("x", text)


def test_hexadecimal() -> None:
    assert hexadecimal_number("x", "ff", most=255) == 255
    for text in ("100", "", "0x1", "g", "-1", "\u0663", "f" * 1000):
        with pytest.raises(InputError):
            hexadecimal_number("x", text, most=255)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1.0), (".5", 0.5), ("1.", 1.0), ("1e-3", 1e-3), ("+2E+2", 200.0)]
)
def test_real_numbers(text: str, value: float) -> None:
    assert real_number("x", text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "1e400",
        "1_0",
        "\u0661",
        "0x1p3",
        "1e",
        ".",
        "1" * 10_000,
        " 1",
        "1,5",
    ],
)
def test_no_real_numbers(text: str) -> None:
    for positive in (True, False):
        with pytest.raises(InputError):
            real_number("x", text, positive=positive)


def test_signs_of_real_numbers() -> None:
    assert real_number("x", "-1.5", positive=False) == -1.5
    assert real_number("x", "0", positive=False) == 0
    for text in ("0", "-1", "-0", "1e-400"):
        with pytest.raises(InputError, match="positive"):
            real_number("x", text)
