"""Text made fit to show: what is escaped, what is left, and that every format gets its own back."""

import html.parser
import json
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco.common.errors import BacoError, InputError, Location, did_you_mean
from baco.common.provenance import command_line
from baco.common.text import (
    MAX_NAME,
    file_label,
    html_text,
    json_text,
    markdown_text,
    name_problem,
    one_line,
    script_json,
    several_lines,
    shell_word,
)

#: Of format characters those that are not invisible: joiners that some scripts need, and marks of numbers.
LEFT = {
    "\u200c",
    "\u200d",
    *map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)),
}
_any = st.text(
    st.characters() | st.sampled_from("\x1b\x9b\u202e\u2066\u2028\ud800\udcff\ufffe\n\t\r\0\u200b\U000e0041")
)


def unfit(character: str) -> bool:
    """By the categories of Unicode, but for what only formats numbers, music or hieroglyphs."""
    code, kind = ord(character), unicodedata.category(character)
    nothing = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    formats = (
        kind == "Cf"
        and character not in LEFT
        and not 0x13430 <= code <= 0x1345F
        and not 0x1BCA0 <= code <= 0x1D17A
    )
    return kind in ("Cc", "Cs", "Zl", "Zp") or formats or nothing


def test_every_character_of_unicode() -> None:
    wrong = []
    for code in range(0x110000):
        character = chr(code)
        shown = one_line(character)
        if unicodedata.category(character) == "Cn" and not unfit(character):
            continue  # may become anything
        if unfit(character) != (shown != character) or any(map(unfit, shown)):
            wrong.append(hex(code))
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [red] $x$ \u6f22 \U0001f600", "plain [red] $x$ \u6f22 \U0001f600"),
        ("a\nerror: b", "a\\nerror: b"),
        ("\x1b[31m\x07\x7f\x9b", "\\x1b[31m\\x07\\x7f\\x9b"),
        ("\u202eabc\u2028", "\\u202eabc\\u2028"),
        ("\udcff\ud800", "\\xff\\ud800"),
        ("\U000e0041\U0001ffff", "\\U000e0041\\U0001ffff"),
        ("\t\r", "\\t\\r"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    assert one_line(text) == shown
    assert several_lines(text).replace("\n", "\\n").replace("\t", "\\t") == shown


def test_what_is_cut_says_so() -> None:
    assert one_line("x" * 50, 10) == "x" * 10 + "... (50 characters)"
    assert one_line("x" * 10, 10) == "x" * 10


@settings(max_examples=200, deadline=None)
@given(_any)
def test_shown_text_is_fit_and_stays_as_it_is(text: str) -> None:
    for shown in (one_line(text), several_lines(text).replace("\n", "").replace("\t", "")):
        assert not any(map(unfit, shown))
        assert one_line(shown) == shown
        shown.encode("utf-8")


@settings(max_examples=50, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | _any,
        lambda inner: st.lists(inner) | st.dictionaries(_any, inner),
        max_leaves=8,
    )
)
def test_json_keeps_names_and_shows_none(value: object) -> None:
    text = json_text(value)
    assert not any(map(unfit, text.replace("\n", "")))
    assert json.loads(text) == json.loads(json.dumps(value))
    with pytest.raises(ValueError):
        json_text(float("nan"))


class Reader(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a&amp;b", "\"'><img src=x>", "-->", "]]>", "\x1b\u202e<b>"]
)
def test_html_and_scripts(text: str) -> None:
    page = Reader(f"<p>{html_text(text)}</p>")
    assert page.tags == ["p"]
    assert page.text == text.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    script = script_json({text: [text, 1]})
    assert not set("<>&") & set(script)
    assert json.loads(script) == {page.text: [page.text, 1]}


def test_markdown_is_one_line_of_plain_text() -> None:
    assert markdown_text("a|b\n[x](y) <b> `c` mobilenet_v2") == r"a\|b\\n\[x\](y) \<b\> \`c\` mobilenet_v2"


@pytest.mark.parametrize(
    "word",
    [
        "plain",
        "",
        "two words",
        "it's",
        "$HOME `id` \\",
        "a\nb",
        "\x1b[31m'\\",
        "\udcff\udc80",
        "\u202e",
        "\u6f22",
    ],
)
def test_shell_words_are_read_back(word: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    quoted = shell_word(word)
    assert not any(map(unfit, quoted))
    done = subprocess.run(
        [bash, "-c", f"printf %s {quoted}"], capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    assert done.stdout == word.encode("utf-8", "surrogateescape")
    assert command_line(["/x/baco", word]) == f"baco {quoted}"


def test_names() -> None:
    assert name_problem("conv1/[a] \u6f22.=1") is None
    assert name_problem("n" * MAX_NAME) is None
    assert name_problem("n" * (MAX_NAME + 1)) == "has 1,001 characters, more than the 1,000 allowed"
    assert name_problem(" ") == name_problem("") == "must not be empty"
    assert name_problem("a\nb") == "holds a character that cannot be shown: \\n"
    assert name_problem("a\u202eb") == "holds a character that cannot be shown: \\u202e"
    assert file_label(Path("folder/net.v2.onnx")) == "net.v2"
    assert file_label("\udcff\n.csv") == "\\xff\\n"
    assert name_problem(file_label("x" * 5000)) is None
    assert file_label("") == "unnamed"


def test_errors_are_one_message_of_fit_text() -> None:
    error = InputError(
        "bad\nerror: forged\x1b[0m", location=Location("f\n.yaml", 3, node="a\u202e"), hint="do\nthis"
    )
    assert str(error) == "f\\n.yaml:3 (a\\u202e): bad\\nerror: forged\\x1b[0m\n  hint: do\\nthis"
    error = BacoError("first", details=["second\nthird", "\tmark"])
    assert str(error) == "first\n  second\\nthird\n  \tmark"
    long = BacoError(
        "x" * 10**6, location=Location("y" * 10**6), hint="z" * 10**6, details=["w" * 10**6] * 1000
    )
    assert len(str(long)) < 100_000
    assert "and 940 more lines" in str(long)


def test_guesses_stay_short() -> None:
    assert did_you_mean("dmi", ["dim", "name"]).startswith("did you mean 'dim'? allowed: dim, name")
    many = did_you_mean("x", [f"n{i}" for i in range(1000)])
    assert many.endswith("and 940 more")
    assert len(did_you_mean("x" * 10**6, ["a" * 10**6, "b"])) > 0
