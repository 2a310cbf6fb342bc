"""Attention in the block language on the RTL: against the time of its products and the same block by block."""

from __future__ import annotations

from pathlib import Path

import pytest

from baco.bench.attention import attention


@pytest.mark.slow
def test_attention_takes_little_longer_than_its_products(tmp_path: Path) -> None:
    (row,) = attention([(2, 128, 64, 16)], (), out=tmp_path)
    assert row["peak_cycles"] == 2 * 2 * 128 * 128 * 64 / 256
    assert (
        row["peak_cycles"] < row["kernel"] <= 1.3 * row["peak_cycles"]
    )  # of such a short one; 1.02 of 512 tokens
    assert row["kernel"] < row["blockwise"]
    assert "| 2x128x64 |" in (tmp_path / "attention.md").read_text()


def test_causal_attention_takes_little_longer_than_what_its_tokens_see(tmp_path: Path) -> None:
    (tmp_path / "attention.json").write_text('[{"attention": "1x1x1", "rows": 1, "machine": "gemmini-transformer", '
        '"macs": 2, "peak_cycles": 1.0, "kernel": 9, "blockwise": null}]')  # fmt: skip
    earlier, row = attention((), [(2, 128, 64, 16)], out=tmp_path)
    assert earlier["kernel"] == 9, "figures of other runs are kept"
    seen = sum(token + 1 for token in range(128))
    assert row["peak_cycles"] == 2 * 2 * seen * 64 / 256
    # blocks of 16 x 16 that hold some element that is seen: more than those elements, less than all
    blocks = sum(range(1, 9)) * 16 * 16
    assert seen < blocks < row["kernel"] / row["peak_cycles"] * seen < 128 * 128
    assert row["predicted"] < 1.3 * row["kernel"] < 1.7 * row["predicted"]
    assert "| 2x128x64 causal |" in (tmp_path / "attention.md").read_text()
