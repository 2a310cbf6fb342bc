"""`baco fuse` of a network: what is fused, and the analysis of its limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baco.main import run

NETWORK = ("--network", "bert_base:seq=8", "--layers", "1", "-a", "gemmini-transformer")


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status and both outputs."""
    code = run("baco", list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_what_is_fused(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "fuse", *NETWORK, "--all", "--json")
    assert code == 0
    groups = {tuple(one["operators"]): one for one in json.loads(out)["groups"]}
    merged = groups["encoder.query[0]", "encoder.key[0]", "encoder.value[0]"]
    assert merged["merged"]
    assert merged["schedule"].startswith("merged ")
    assert merged["dram_bytes"] == merged["dram_bytes_alone"] - 2 * 8 * 768
    assert not groups["encoder.scores[0]", "encoder.softmax[0]", "encoder.context[0]"]["merged"]
    code, out, _ = call(capsys, "fuse", *NETWORK, "--all")
    assert code == 0
    assert "encoder.query[0] + encoder.key[0] + encoder.value[0]" in " ".join(out.split())


def test_analysis(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "fuse", *NETWORK, "--analysis", "--json")
    assert code == 0
    report = json.loads(out)
    operators = {one["name"]: one for one in report["operators"]}
    assert operators["encoder.query[0]"] == {
        "name": "encoder.query[0]",
        "relies_on": "many",
        "operations": 8 * 768 * 768,
        "moved": 2 * 8 * 768 + 768 * 768 + 768,
        "computes": True,
        "subprogram": operators["encoder.key[0]"]["subprogram"],
    }
    assert [operators[name]["relies_on"] for name in ("embeddings.words", "encoder.gelu[0]")] == [
        "indirectly",
        "one",
    ]
    names = [name for part in report["subprograms"] for name in part["operators"]]
    assert sorted(names) == sorted(operators)
    assert report["reuse"][0]["readers"][:3] == ["encoder.query[0]", "encoder.key[0]", "encoder.value[0]"]
    assert report["reuse"][0]["bytes"] == 3 * 8 * 768
    code, out, _ = call(capsys, "fuse", *NETWORK, "--analysis", "--all")
    assert code == 0
    assert "relies on" in out
    assert "rely on many elements" in " ".join(out.split())


def test_a_chain_on_an_accelerator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = tmp_path / "small.yaml"
    machine.write_text("name: small\ndim: 4\nscratchpad_kib: 16\naccumulator_kib: 8\n")
    chain = "convolutions:channels=8,height=8,width=8,first=8,second=8,window2=1"
    asked = ("fuse", "--chain", chain, "--machine", str(machine))
    code, out, _ = call(capsys, *asked, "--json")
    assert code == 0
    rows = json.loads(out)["programs"]
    assert rows[0]["program"] == "one by one"
    tree = rows[1]["tree"]
    code, out, err = call(capsys, *asked, "--tree", tree, "--measure")
    assert code == 0
    assert tree in out
    assert "measured on the RTL" in out
    assert "every result is that of integers" in out
    assert "runs on the RTL of small" in err
    code, _, err = call(capsys, *asked, "--tree", tree.replace("Shar(", "Seq("))
    assert code == 2
    assert "there is no code for this tree" in err
    assert tree in " ".join(err.split())
    code, _, err = call(capsys, *asked, "--tree", "L3[")
    assert code == 2
    assert "expected a tile" in err
