"""The benchmark of fusion by the size of buffers."""

import json
from pathlib import Path

import pytest

from baco.bench.buffers import buffers


@pytest.mark.usefixtures("short_networks")
def test_larger_buffers_take_more_groups_and_every_other_one_has_a_reason(tmp_path: Path) -> None:
    buffers(["mobilenet_v2:image=32"], scratchpads_kib=(16, 128), out=tmp_path)
    rows = json.loads((tmp_path / "fusion-buffers.json").read_text(encoding="utf-8"))
    assert [row["scratchpad_kib"] for row in rows] == [16, 128]
    small, large = rows
    assert large["groups"] > small["groups"]
    assert small["reasons"]["scratchpad too small"] > large["reasons"].get("scratchpad too small", 0)
    for row in rows:
        (alone, fused), (before, after) = row["cycles"], row["energy_uj"]
        assert fused <= 1.01 * alone
        assert fused * after <= 1.001 * alone * before
        assert "no code" not in row["reasons"]
    page = (tmp_path / "fusion-buffers.md").read_text(encoding="utf-8")
    assert f"| mobilenet_v2:image=32 | 16 | {small['cycles'][0] / small['cycles'][1]:.2f} |" in page
