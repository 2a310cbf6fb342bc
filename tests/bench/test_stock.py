"""Whole networks on a stock Gemmini beside its library's path: what is run, kept, told and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baco.bench import stock
from baco.main import run
from tests.compiler.network.library_model import write_model


def test_a_network_is_run_once_and_both_paths_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stock, "PRODUCTS", ((64, 64, 64),))
    monkeypatch.setattr(stock, "DECODING", ((1, 128, 256),))
    model = write_model(tmp_path)
    arguments = ["bench", "stock", "-n", str(model), "--out", str(tmp_path)]
    assert run("baco", arguments) == 0
    result = json.loads((tmp_path / "stock-gemmini.json").read_text(encoding="utf-8"))
    (row,) = result["networks"]
    assert row["library"]["right"]
    assert row["ours"]["right"]
    assert 0 < row["library"]["host_cycles"] < row["library"]["cycles"]
    # the host's plain loops take longer than ours, and dominate this model
    assert row["ours"]["cycles"] < row["library"]["cycles"]
    (product,) = result["products"]
    assert product["ours"]["cycles"] > 64**3 / 256
    (streamed,) = result["decoding"]
    assert streamed["lines"] == 128 * 256 / 64
    assert streamed["ours"]["filled"] >= streamed["lines"]
    page = (tmp_path / "stock-gemmini.md").read_text(encoding="utf-8")
    assert f"{row['ours']['cycles'] / row['library']['cycles']:.3f} |" in page
    assert " right | " in page

    def again(*_: object, **__: object) -> None:
        raise AssertionError("a kept program ran again")

    monkeypatch.setattr(stock, "run_network", again)
    assert run("baco", [*arguments, "--no-products"]) == 0
    kept = json.loads((tmp_path / "stock-gemmini.json").read_text(encoding="utf-8"))
    assert kept == result


def _row(*, told: bool) -> dict[str, object]:
    def figures(cycles: int, *, right: bool = True) -> dict[str, object]:
        return {"cycles": cycles, "host_cycles": cycles // 4, "predicted": 1.1 * cycles, "right": right}

    return {
        "network": "small",
        "told": told,
        "blocks": 12,
        "only": 0,
        "published": {"others": 9e6},
        "library": figures(8_000_000),
        "ours": figures(2_000_000, right=not told),
    }


def test_the_page_says_what_is_told_and_what_is_wrong() -> None:
    networks = [_row(told=True), _row(told=False)]
    text = stock.page(
        {"accelerator": "gemmini-default", "networks": networks, "products": [], "decoding": []}
    )
    assert "| small * | 8.00 M | 25% | **2.00 M** | 25% | 0.250 | 1.100 | **wrong** | others 9.00 M |" in text
    assert "| small | 8.00 M | 25% | **2.00 M** | 25% | 0.250 | 1.100 | right | others 9.00 M |" in text
    assert "(small 12 blocks)" in text
