"""What cannot be traced or proven is refused in one message, at the user's line."""

import inspect

import numpy as np
import pytest

from baco.workloads.pipelines.functions import resize, stencil, top
from baco.workloads.pipelines.node import PipelineError
from baco.workloads.pipelines.pipeline import Numbers, TracedPipeline
from baco.workloads.pipelines.trace import traced

IMAGE = {"image": Numbers((8, 8))}


def _refused(function, inputs=IMAGE):
    """(line within the function, message) of the error."""
    with pytest.raises(PipelineError) as caught:
        TracedPipeline(function, inputs)
    where = caught.value.location
    assert where.file == __file__
    return where.line - inspect.getsourcelines(function)[1], str(caught.value)


def test_a_loop_without_end_is_stopped_at_its_line():
    def endless(image):
        while True:
            image = image + 1

    line, message = _refused(endless)
    assert line in (1, 2)
    assert "does not end when it is traced" in message


def test_a_loop_without_operations_is_stopped_too(monkeypatch):
    monkeypatch.setattr("baco.workloads.pipelines.trace.MOST_LINES", 10_000)

    def endless(image):
        count = 0
        while count >= 0:
            count += 1
        return image

    line, message = _refused(endless)
    assert line in (2, 3)
    assert "does not end" in message


def test_recursion_without_end_is_stopped():
    def endless(image):
        return endless(image)

    assert "calls itself without end" in _refused(endless)[1]


def test_a_decision_by_elements_is_refused_where_it_is_made():
    def decides(image):
        brighter = image + 1
        if brighter.max() > 100:
            return image
        return brighter

    line, message = _refused(decides)
    assert line == 2
    assert "np.where" in message


def test_a_stencil_larger_than_the_image_is_refused():
    def wide(image):
        return stencil(image, np.ones((9, 9)))

    line, message = _refused(wide)
    assert line == 1
    assert "a stencil of 9×9 is larger than the image, 8×8" in message


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda image: image / (image - 3), "may be 0"),
        (lambda image: np.sqrt(image - 3), "square root"),
        (lambda image: (2 * image).astype(np.uint8), "do not fit into uint8"),
        (lambda image: image + np.nan, "nan"),
        (lambda image: image[8], "index 8 of 8"),
        (lambda image: image.reshape(7, 9), "64 elements"),
        (lambda image: image + np.zeros((3, 3)), "do not fit"),
        (lambda image: image @ np.zeros((3, 3)), "do not fit"),
        (lambda image: np.linalg.inv(image), "cannot be traced"),
        (lambda image: np.array(image), "elements"),
        (lambda image: np.take(image, image, 0), "positions from 0 to 255 of 8"),
        (lambda image: stencil(image, np.ones((3, 3)), "mirror"), "no border 'mirror'"),
        (lambda image: image.undefined, "AttributeError"),
        (lambda image: np.ones(3), "depends on none of its inputs"),
        (lambda image: (), "gives nothing"),
        (lambda image: resize(image, (0, 4)), "no height and width"),
        (lambda image: top(image, 9), "9 of 8 elements"),
        (lambda image: image & 3, "truths alone"),
    ],
)
def test_what_is_not_defined_or_not_traced_is_refused_in_one_message(function, words):
    line, message = _refused(function)
    assert line in (0, 1)
    assert words in message
    assert len(message.splitlines()) <= 2


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"image": np.zeros((8, 9))}, "8×9, but the pipeline was compiled for 8×8"),
        ({"image": np.zeros((8, 8, 3))}, "8×8×3, but"),
        ({"image": np.full((8, 8), np.nan)}, "holds nan"),
        ({"image": np.full((8, 8), 256)}, "the proof is for 0 to 255"),
        ({"image": np.full((8, 8), 0.5)}, "other numbers than whole ones"),
        ({"picture": np.zeros((8, 8))}, "no input 'picture'"),
        ({}, "'image' is missing"),
    ],
)
def test_inputs_other_than_what_was_compiled_are_refused_at_the_function(arrays, words):
    def same(image):
        return image + 1

    pipeline = TracedPipeline(same, IMAGE)
    with pytest.raises(PipelineError) as caught:
        pipeline.checked(arrays)
    assert words in str(caught.value)
    assert caught.value.location.line == inspect.getsourcelines(same)[1]


def test_what_numpy_computes_with_arrays_has_the_traced_shape():
    functions = [
        lambda x: np.concatenate([x, x[::-1]], 1),
        lambda x: np.stack([x, x]),
        lambda x: np.stack([x, x], -1),
        lambda x: np.pad(x, ((1, 2), (0, 1)), mode="edge"),
        lambda x: np.pad(x, 2, mode="reflect"),
        lambda x: np.pad(x, 1, constant_values=3),
        lambda x: np.roll(x, 3, 1),
        lambda x: np.diff(x, axis=0),
        lambda x: x[1:-1, None, ::2],
        lambda x: x[..., 3],
        lambda x: x.mean(0, keepdims=True),
        lambda x: np.argsort(x, 1),
        lambda x: np.argmax(x),
        lambda x: np.swapaxes(x, 0, 1).reshape(-1, 4),
        lambda x: np.expand_dims(x, 1).squeeze(),
        lambda x: resize(x, (4, 5)),
        lambda x: top(x, 3),
        lambda x: x.T @ np.ones((8, 2)),
        lambda x: sum(row for row in x),
        lambda x: (x > 3) | ~(x < 2),
    ]
    x = np.random.default_rng(0).integers(0, 256, (8, 8))
    for function in functions:
        _, (node,) = traced(function, IMAGE)
        wanted = np.asarray(function(x))
        assert node.shape == wanted.shape, inspect.getsource(function)
        assert node.range.low <= wanted.min()
        assert wanted.max() <= node.range.high
