"""Pipelines of images and numbers as programs: every result beside numpy, on the functional model and on the accelerator's Verilog."""

import numpy as np
import pytest

import baco
from baco.api.pipelines import TensorPipeline
from baco.pipelines import Numbers, resize, stencil, top

BINOMIAL = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1])


def gaussian(image):
    return np.rint(stencil(image, BINOMIAL) / 256)


def floored(image):
    return (stencil(image, BINOMIAL, "edge") + 128) >> 8


def sharpened(image):
    inner = image[1:-1, 1:-1]
    return np.clip(
        5 * inner - image[:-2, 1:-1] - image[2:, 1:-1] - image[1:-1, :-2] - image[1:-1, 2:], 0, 255
    )


def toned(image):
    x = image / 255
    return np.rint(255 * np.clip(x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14), 0, 1))


def gray(image):
    return np.rint(0.25 * image[..., 0] + 0.625 * image[..., 1] + 0.125 * image[..., 2])


def halved(image):
    return np.rint(resize(image, (7, 9)))


def edges(image):
    right = stencil(image, np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]))
    down = stencil(image, np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]]))
    return np.where(np.abs(right) + np.abs(down) > 200, 255, 0)


def statistics(image):
    return image.mean(), image.std(), image.min(), image.max()


@pytest.mark.parametrize(
    ("function", "shape", "placing"),
    [
        (gaussian, (14, 32), "packed"),
        (gaussian, (14, 32), "array"),
        (floored, (12, 20, 3), "packed"),
        (floored, (12, 20, 3), "host"),
        (sharpened, (12, 32, 3), "packed"),
        (gray, (9, 16, 3), "array"),
        (edges, (12, 16), "packed"),
        (edges, (12, 16), "host"),
        (halved, (15, 18, 3), "packed"),
    ],
)
def test_whole_numbers_are_those_of_numpy_wherever_they_are_computed(function, shape, placing):
    run = baco.pipeline(function, inputs=shape, placing=placing).run()
    assert run.right, run.wrong
    (comparison,) = run.comparisons
    assert comparison.exact
    (found,) = run.outputs.values()
    image = np.random.default_rng(0).integers(0, 255, shape, endpoint=True)
    assert np.array_equal(found, function(image))


@pytest.mark.parametrize("placing", ["packed", "host"])
@pytest.mark.parametrize(("function", "shape"), [(toned, (8, 16, 3)), (statistics, (24, 32, 3))])
def test_real_numbers_are_near_those_of_numpy(function, shape, placing):
    run = baco.pipeline(function, inputs=shape, placing=placing).run()
    assert run.right, run.wrong
    assert max(one.error for one in run.comparisons) <= 0.002
    image = np.random.default_rng(0).integers(0, 255, shape, endpoint=True)
    results = function(image)
    results = results if isinstance(results, tuple) else (results,)
    for found, wanted in zip(run.outputs.values(), results, strict=True):
        assert np.allclose(found, wanted, rtol=0.002)


def test_nearest_neighbours_are_those_of_brute_force():
    data = np.random.default_rng(1).integers(-64, 64, (50, 40))

    def nearest(query):
        return top(((data - query) ** 2).sum(-1), 5, smallest=True)

    query = np.random.default_rng(2).integers(-64, 64, 40)
    run = baco.pipeline(nearest, inputs=Numbers((40,), -64, 63)).run(query)
    assert run.right, run.wrong
    order = sorted(range(50), key=lambda i: (int(((data[i] - query) ** 2).sum()), i))
    assert run.outputs["result"].tolist() == order[:5]


def test_distances_that_24_bits_do_not_hold_are_refused():
    data = np.random.default_rng(1).integers(-128, 128, (50, 1000))

    def nearest(query):
        return top(((data - query) ** 2).sum(-1), 5, smallest=True)

    with pytest.raises(baco.InputError, match=r"test_pipelines\.py:\d+: .*24 bits"):
        baco.pipeline(nearest, inputs=Numbers((1000,), -128, 127)).compile()


def test_packed_pixels_take_fewer_cycles_and_the_place_is_the_one_with_the_fewest():
    pipeline = baco.pipeline(gaussian, inputs=(20, 64))
    places = pipeline.places()
    assert places["packed"] < places["array"] < places["host"]
    assert pipeline.compile().predicted_cycles == pytest.approx(places["packed"], rel=1e-9)


def test_a_pipeline_runs_right_on_the_verilog_and_packing_lowers_its_cycles():
    cycles = {}
    for placing in ("packed", "array"):
        run = baco.pipeline(gaussian, inputs=(12, 32), placing=placing).run(engine="rtl")
        assert run.right, run.wrong
        cycles[placing] = run.cycles
    assert cycles["packed"] < cycles["array"]


@pytest.fixture(scope="module")
def classifier():
    import torch

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.linear = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.Linear(8, 10)

        def forward(self, x):
            return self.linear(torch.relu(self.conv(x)).mean((2, 3)))

    torch.manual_seed(0)
    return Classifier().eval(), torch.zeros(1, 3, 16, 16)


def camera(image):
    small = (image[0::2, 0::2] + image[1::2, 0::2] + image[0::2, 1::2] + image[1::2, 1::2]) / 4
    return (small / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])


def best(scores):
    return top(scores, 3)


def test_a_network_between_two_functions_is_one_program_with_one_verdict(classifier):
    import torch

    image = np.random.default_rng(3).integers(0, 256, (32, 32, 3))
    pipeline = baco.pipeline(camera, classifier, best, inputs=(32, 32, 3))
    run = pipeline.run(image)
    assert run.right, run.wrong
    assert [one.part for one in run.comparisons] == ["pre", "network", "post"]
    with torch.no_grad():
        x = torch.tensor(camera(image).transpose(2, 0, 1)[None], dtype=torch.float32)
        wanted = classifier[0](x)[0].topk(3).indices
    assert run.outputs["result"][0, 0] == wanted[0]


def test_a_function_behind_a_network_reads_its_numbers_as_they_are():
    """Of 1,000 scores, many of which are equal in 8 bits; no number of the function is a byte."""
    import torch

    class Scores(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(48, 1000)

        def forward(self, x):
            return self.linear(x)

    torch.manual_seed(0)
    network = Scores().eval(), torch.zeros(1, 48)
    run = baco.pipeline(lambda x: x.reshape(1, 48) / 255, network, best, inputs=(4, 4, 3)).run()
    assert run.right, run.wrong


@pytest.mark.parametrize(
    ("behind", "words"),
    [
        (lambda scores: stencil(scores, np.ones((2, 3))), "a stencil of 2×3 is larger than the image, 1×10"),
        (lambda scores: 1 / scores, "a division by numbers that may be 0"),
        (lambda scores: scores + np.nan, "a constant is nan"),
        (lambda scores: top(scores, 11), "11 of 10 elements"),
        (lambda scores: [scores := scores + 1 for _ in iter(int, 1)][-1], "does not end when it is traced"),
        (lambda scores, boxes: scores, "the function has 2 arguments (scores, boxes), but is given 1"),
    ],
)
def test_what_is_wrong_behind_a_network_is_told_at_its_line(classifier, behind, words):
    line = behind.__code__.co_firstlineno
    with pytest.raises(baco.InputError) as caught:
        baco.pipeline(camera, classifier, behind, inputs=(32, 32, 3)).run()
    assert words in str(caught.value)
    assert (caught.value.location.file, caught.value.location.line) == (__file__, line)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (np.zeros((32, 31, 3)), "32×31×3, but the pipeline was compiled for 32×32×3"),
        (np.zeros((32, 32)), "32×32, but the pipeline was compiled for 32×32×3"),
        (np.full((32, 32, 3), np.nan), "holds nan"),
        (np.full((32, 32, 3), -1), "the proof is for 0 to 255"),
    ],
)
def test_a_frame_other_than_what_was_compiled_is_refused_at_the_function(classifier, frame, words):
    with pytest.raises(baco.InputError) as caught:
        baco.pipeline(camera, classifier, best, inputs=(32, 32, 3)).run(frame)
    assert words in str(caught.value)
    assert (caught.value.location.file, caught.value.location.line) == (
        __file__,
        camera.__code__.co_firstlineno,
    )


def test_runs_in_the_background_come_back_in_order(classifier):
    images = [np.full((14, 32), value) for value in (0, 100, 255)]
    pipeline = baco.pipeline(gaussian, inputs=(14, 32))
    for image in images:
        pipeline.run_async(image)
    assert [run.outputs["result"].max() for run in pipeline.sync()] == [0, 100, 255]
    assert pipeline.sync() == []


@pytest.mark.parametrize("suffix", [".png", ".ppm", ".npy"])
def test_a_folder_of_images_becomes_a_folder_of_pictures(tmp_path, suffix):
    from baco.workloads.pipelines.images import read_image, write_image

    image = np.random.default_rng(4).integers(0, 256, (14, 32, 3)).astype(np.uint8)
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    write_image(tmp_path / "in" / f"camera{suffix}", image)
    assert np.array_equal(read_image(tmp_path / "in" / f"camera{suffix}"), image)
    runs = baco.pipeline(gaussian, inputs=(14, 32, 3)).run_folder(tmp_path / "in", tmp_path / "out")
    assert list(runs) == [f"camera{suffix}"]
    assert np.array_equal(read_image(tmp_path / "out" / "camera.result.png"), gaussian(image.astype(int)))


def test_where_a_pipeline_runs_is_decided_once_a_machine(tmp_path, monkeypatch):
    from baco.workloads.pipelines.images import write_image

    images = [np.random.default_rng(seed).integers(0, 256, (14, 32), dtype=np.uint8) for seed in range(3)]
    for number, image in enumerate(images):
        write_image(tmp_path / f"{number}.png", image)
    decided, machines = [], ("gemmini-default,dim=4", "gemmini-default,dim=8")
    places = TensorPipeline._places
    monkeypatch.setattr(
        TensorPipeline, "_places", lambda self, machine: decided.append(machine.dim) or places(self, machine)
    )
    blurred = baco.pipeline(gaussian, inputs=(14, 32))
    for machine in machines:
        runs = blurred.run_folder(tmp_path, None, machine)
        for number, image in enumerate(images):
            assert np.array_equal(runs[f"{number}.png"].outputs["result"], gaussian(image.astype(int)))
    assert decided == [4, 8]


def test_a_file_that_is_no_image_is_refused(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    with pytest.raises(baco.InputError, match=r"broken\.png: this is no image"):
        baco.pipeline(gaussian, inputs=(14, 32)).run(tmp_path / "broken.png")


def test_a_network_that_reads_another_shape_is_refused(classifier):
    with pytest.raises(baco.InputError, match="the network reads"):
        baco.pipeline(camera, classifier, inputs=(48, 32, 3)).run()
