"""The six published pipelines: exact where they are said to be, beside numpy, brute force and C versions on the host core."""

import json

import numpy as np
import pytest

import baco
from baco.bench.pipelines import six
from baco.bench.pipelines.run import SIX, example, measured, page, plain_cycles, run


def _edges(image):
    """Edges by loops over pixels, as the text says it, in Python's integers."""
    height, width = image.shape[:2]
    gray = [[round((38 * int(r) + 76 * int(g) + 14 * int(b)) / 128) for r, g, b in row] for row in image]
    weights = [1, 4, 6, 4, 1]
    smooth = [
        [
            round(sum(weights[v] * weights[u] * gray[y + v][x + u] for v in range(5) for u in range(5)) / 256)
            for x in range(width - 4)
        ]
        for y in range(height - 4)
    ]

    def gradient(y, x):
        right = sum((1, 2, 1)[v] * (smooth[y + v][x + 2] - smooth[y + v][x]) for v in range(3))
        down = sum((1, 2, 1)[u] * (smooth[y + 2][x + u] - smooth[y][x + u]) for u in range(3))
        return right, down

    field = {(y, x): gradient(y, x) for y in range(height - 6) for x in range(width - 6)}
    strength = {at: abs(right) + abs(down) for at, (right, down) in field.items()}
    mark = {}
    for y in range(1, height - 7):
        for x in range(1, width - 7):
            right, down = field[y, x]
            if 8192 * abs(down) < 3393 * abs(right):
                step = (0, 1)
            elif 8192 * abs(right) < 3393 * abs(down):
                step = (1, 0)
            else:
                step = (1, 1) if right * down > 0 else (1, -1)
            here = strength[y, x]
            largest = here > strength[y - step[0], x - step[1]] and here >= strength[y + step[0], x + step[1]]
            mark[y - 1, x - 1] = (2 if here > six.STRONG else 1 if here > six.WEAK else 0) if largest else 0
    for _ in range(six.ROUNDS):
        near = {
            at: any(mark.get((at[0] + v, at[1] + u)) == 2 for v in (-1, 0, 1) for u in (-1, 0, 1))
            for at in mark
        }
        mark = {at: 2 if kind and near[at] else kind for at, kind in mark.items()}
    return np.array([[255 * (mark[y, x] == 2) for x in range(width - 8)] for y in range(height - 8)])


def _scene(height, width):
    """Blocks and noise, so that there are weak, strong and no edges."""
    random = np.random.default_rng(5)
    image = np.kron(random.integers(0, 256, (height // 8, width // 8, 3)), np.ones((8, 8, 1), int))
    return np.clip(image + random.integers(-20, 21, image.shape), 0, 255)


def test_canny_is_exact_and_so_is_the_c_version():
    image = _scene(24, 32)
    wanted = _edges(image)
    assert 0 < (wanted > 0).mean() < 0.5
    assert np.array_equal(six.canny(image), wanted)
    pipeline, machine = example("canny", 24, 32, 8, 8), baco.accelerator()
    _, error, (found,) = measured(pipeline, image, machine, "packed", "functional")
    assert error == 0
    assert np.array_equal(found, wanted)
    assert plain_cycles("canny", pipeline, image, machine, "functional") is None  # it compares


@pytest.mark.parametrize("name", ["gaussian", "tone", "sharpness", "mean_std", "knn"])
def test_the_other_pipelines_are_within_two_thousandths_of_float64(name):
    pipeline, machine = example(name, 16, 32, 60, 50), baco.accelerator()
    (given,) = pipeline.random(0).values()
    _, error, _ = measured(pipeline, given, machine, "packed", "functional")
    assert error <= 0.002
    assert all(pipeline.exact) or name in ("tone", "sharpness", "mean_std")
    assert plain_cycles(name, pipeline, given, machine, "functional") is None  # it compares


def test_the_bench_says_what_a_pipeline_gains_over_c(tmp_path):
    rows = run(["gaussian", "mean_std"], height=20, width=32, out=tmp_path)
    assert json.loads((tmp_path / "pipelines.json").read_text())
    gaussian, mean_std = rows
    assert gaussian["cycles"] < gaussian["plain"]
    assert gaussian["places"]["packed"] < gaussian["places"]["array"]
    text = page(rows)
    assert "accelerator" in text
    assert ("keep it in C on the host" in text) == (mean_std["cycles"] >= mean_std["plain"])


@pytest.mark.slow  # python -m pytest -m slow tests/bench/test_six_pipelines.py: minutes each
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SIX)
def test_all_six_are_right_at_their_published_sizes(name):
    pipeline = example(name, 1080, 1920, 5000, 1000)
    (given,) = pipeline.random(0).values()
    assert measured(pipeline, given, baco.accelerator(), "packed", "functional")[1] <= 0.002


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SIX)
def test_all_six_are_right_on_the_verilog(name):
    pipeline = example(name, 24, 32, 60, 50)
    (given,) = pipeline.random(0).values()
    assert measured(pipeline, given, baco.accelerator(), "packed", "rtl")[1] <= 0.002
