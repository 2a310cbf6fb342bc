"""Products and attention in the block language on the RTL: against the layer path, the peak and the same block by block."""

from __future__ import annotations

import json
from pathlib import Path

from bench.kernels import kernels


def test_a_kernel_is_as_fast_as_the_layer_path(tmp_path: Path) -> None:
    (row,) = kernels([(160, 192, 128)], [], blocks=(32, 64, 64), out=tmp_path)
    assert row["kernel"] <= 1.03 * row["layer"]
    assert row["peak_cycles"] == 160 * 192 * 128 / 256
    assert row["peak_cycles"] < row["kernel"] < row["blockwise"]
    assert json.loads((tmp_path / "kernels.json").read_text()) == [row]
    assert "| 160x192x128 |" in (tmp_path / "kernels.md").read_text()


def test_attention_takes_little_longer_than_its_products(tmp_path: Path) -> None:
    (row,) = kernels([], [(2, 128, 64, 16)], out=tmp_path)
    assert row["peak_cycles"] == 2 * 2 * 128 * 128 * 64 / 256
    assert (
        row["peak_cycles"] < row["kernel"] <= 1.3 * row["peak_cycles"]
    )  # of such a short one; 1.02 of 512 tokens
    assert row["kernel"] < row["blockwise"]
    assert "| 2x128x64 |" in (tmp_path / "kernels.md").read_text()
