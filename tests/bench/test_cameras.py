"""A camera's frame to classes and to boxes: one program each, beside brute force, and on the RTL."""

import numpy as np
import pytest

import baco
from baco.bench.pipelines import cameras
from baco.bench.pipelines.cameras import CAMERAS, camera_row
from baco.bench.pipelines.run import page, run
from tests.seeds import seeds


def _greedy(corners):
    """Non-maximum suppression as the text says it: the best box that is left stays, and those that it overlaps go."""
    left, stays = list(range(len(corners))), np.zeros(len(corners))
    while left:
        best, *left = left
        stays[best] = 1
        kept = []
        for other in left:
            wide = min(corners[best][2], corners[other][2]) - max(corners[best][0], corners[other][0])
            high = min(corners[best][3], corners[other][3]) - max(corners[best][1], corners[other][1])
            shared = max(wide, 0) * max(high, 0)
            areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (corners[best], corners[other])]
            if shared / (sum(areas) - shared) <= cameras.OVERLAP:
                kept.append(other)
        left = kept
    return stays


@pytest.mark.parametrize("seed", seeds(5, of=100))
def test_boxes_that_stay_are_those_of_the_greedy_rule(seed):
    random = np.random.default_rng(seed)
    first = random.uniform(0, 60, (24, 2))
    corners = np.concatenate([first, first + random.uniform(5, 50, (24, 2))], 1)
    stays = cameras.survivors(corners)
    assert 1 < stays.sum() < 24
    assert np.array_equal(stays, _greedy(corners))


def test_boxes_of_cells_are_where_the_text_says():
    random = np.random.default_rng(0)
    scores, moves = random.normal(size=(1, cameras.CLASSES, 5, 7)), random.normal(size=(1, 4, 5, 7))
    corners, classes, best, _ = cameras.decoded(scores, moves)
    assert list(best) == sorted(scores[0].max(0).reshape(-1), reverse=True)[: cameras.BOXES]
    for corner, kind, score in zip(corners, classes, best, strict=True):
        ((k, y, x),) = np.argwhere(scores[0] == score)
        right, down, wide, high = moves[0, :, y, x]
        middle = np.array([(x + 0.5 + right) * cameras.STRIDE, (y + 0.5 + down) * cameras.STRIDE])
        half = cameras.ANCHOR / 2 * np.exp([wide, high])
        assert kind == k
        np.testing.assert_allclose(corner, [*(middle - half), *(middle + half)])


def test_a_frame_to_boxes_is_one_right_program():
    row = camera_row("boxes", (40, 56), 32, baco.accelerator(), "functional", 0)
    assert row["cycles"] is None
    assert row["errors"]["pre"] < 0.002
    assert row["errors"]["post"] < 0.002
    assert "boxes" in page([row])


@pytest.mark.slow  # python -m pytest -m slow tests/bench/test_cameras.py
@pytest.mark.timeout(3600)
def test_frames_to_classes_and_to_boxes_are_right_on_the_rtl(tmp_path):
    rows = run(list(CAMERAS), height=72, width=128, image=64, engine="rtl", out=tmp_path)
    assert [row["pipeline"] for row in rows] == list(CAMERAS)
    for row in rows:
        assert 0 < row["host_share"] < 1
        assert 0 <= row["cycles"] - sum(row["parts"].values()) < 0.02 * row["cycles"]
