"""Attention in the block language on the RTL: against the time of its products and the same block by block."""

from __future__ import annotations

from pathlib import Path

from bench.attention import attention


def test_attention_takes_little_longer_than_its_products(tmp_path: Path) -> None:
    (row,) = attention([(2, 128, 64, 16)], out=tmp_path)
    assert row["peak_cycles"] == 2 * 2 * 128 * 128 * 64 / 256
    assert (
        row["peak_cycles"] < row["kernel"] <= 1.3 * row["peak_cycles"]
    )  # of such a short one; 1.02 of 512 tokens
    assert row["kernel"] < row["blockwise"]
    assert "| 2x128x64 |" in (tmp_path / "attention.md").read_text()
