"""Strided views against numpy, on random rows of steps; recorded views likewise."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco.compiler.network.tensor_operators import merged_axes
from baco.compiler.ops.views import View, dense
from baco.workloads.views import (
    Expand,
    Reshape,
    Slice,
    Transpose,
    Unknown,
    apply_steps,
    depth_to_space,
    fits,
    slice_of,
    space_to_depth,
    tiled,
)

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@settings(max_examples=300, deadline=None)
@given(shapes, st.data())
def test_views_agree_with_numpy(shape, data):
    memory = np.arange(np.prod(shape), dtype=np.int32)
    view, array = dense("x", shape), memory.reshape(shape)
    for _ in range(data.draw(st.integers(0, 5))):
        kind = data.draw(st.sampled_from(["transpose", "slice", "reshape", "expand", "collapse"]))
        if kind == "transpose":
            axes = data.draw(st.permutations(range(len(view.shape))))
            view, array = view.transposed(axes), array.transpose(axes)
        elif kind == "slice" and view.shape:
            axis = data.draw(st.integers(0, len(view.shape) - 1))
            step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
            start = data.draw(st.integers(0, view.shape[axis] - 1))
            part = slice_of(view.shape, axis, start, None, step)
            view = view.sliced(part.starts, part.shape, part.steps)
            index = [slice(None)] * array.ndim
            index[axis] = slice(start, None, step)
            array = array[tuple(index)]
            assert np.array_equal(part.apply(view_before(memory, view, part)), array)
        elif kind == "expand":
            wide = (2, *(n if n > 1 else data.draw(st.integers(1, 3)) for n in view.shape))
            view, array = view.expanded(wide), np.broadcast_to(array, wide)
        elif kind == "reshape":
            target = factors(data, view.words)
            found = view.reshaped(target)
            if found is None:
                assert not np.shares_memory(array.reshape(target), array)
                continue
            view, array = found, array.reshape(target)
        else:
            assert np.array_equal(view.collapsed().read(memory).reshape(-1), array.reshape(-1))
        assert view.shape == array.shape
        assert np.array_equal(view.read(memory), array)
    assert view.is_dense or view.words <= 1 or not array.flags.c_contiguous or 0 in array.strides


def view_before(memory, view, part):
    """The array that `part` was cut from: the same memory under the strides before the cut."""
    strides = tuple(s // t for s, t in zip(view.strides, part.steps, strict=True))
    offset = view.offset - sum(a * s for a, s in zip(part.starts, strides, strict=True))
    index = sum(
        np.arange(max(a + (n - 1) * t, a) + 1).reshape([-1 if i == j else 1 for j in range(len(part.shape))])
        * strides[i]
        for i, (a, n, t) in enumerate(zip(part.starts, part.shape, part.steps, strict=True))
    )
    return memory[np.minimum(index + offset, memory.size - 1)]


def factors(data, words):
    """A random shape of so many elements."""
    shape = []
    while words > 1:
        divisors = [d for d in range(1, words + 1) if words % d == 0]
        shape.append(data.draw(st.sampled_from(divisors)))
        words //= shape[-1]
    return (*shape, 1)


def test_writing_through_a_view_changes_only_its_elements():
    data = np.zeros((3, 4), np.int8)
    view = dense("x", (3, 4)).sliced((1, 0), (2, 2), (1, 2)).transposed((1, 0))
    view.write(data, np.array([[1, 2], [3, 4]]))
    assert data.tolist() == [[0, 0, 0, 0], [1, 0, 3, 0], [2, 0, 4, 0]]


def test_shapes_that_do_not_fit_are_errors():
    with pytest.raises(ValueError, match="broadcast"):
        dense("x", (2, 3)).expanded((2, 4))
    with pytest.raises(ValueError, match="broadcast"):
        dense("x", (2, 3)).expanded((3,))
    with pytest.raises(ValueError, match="reshaped"):
        dense("x", (2, 3)).reshaped((5,))


def test_dimensions_that_others_consist_of():
    """All ways to join neighbouring dimensions, by numpy: what a joined index is of, and what is split."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        shape = tuple(int(n) for n in rng.choice((1, 2, 3, 4), rng.integers(1, 6)))
        cuts = sorted({0, len(shape), *(int(n) for n in rng.integers(0, len(shape) + 1, 2))})
        joined = [int(np.prod(shape[a:b])) for a, b in itertools.pairwise(cuts)]
        parts = merged_axes(shape, joined)
        assert parts is not None
        assert [axis for part in parts for axis in part] == list(range(len(shape)))
        x = np.arange(np.prod(shape)).reshape(shape)
        order = rng.permutation(len(parts))
        axes = [axis for part in order for axis in parts[part]]
        assert np.array_equal(x.transpose(axes).reshape(-1), x.reshape(joined).transpose(order).reshape(-1))
    assert merged_axes((6, 4), (3, 8)) is None
    assert merged_axes((8, 3), (4, 6)) is None


def test_reshape_that_needs_a_copy():
    assert dense("x", (2, 3)).transposed((1, 0)).reshaped((6,)) is None
    assert dense("x", (2, 3, 4)).transposed((1, 0, 2)).reshaped((3, 8)) is None
    assert dense("x", (2, 3, 4)).transposed((2, 0, 1)).reshaped((4, 6)) == View("x", (4, 6), (1, 4))


@pytest.mark.parametrize("block", [1, 2, 3])
def test_pixel_shuffle_agrees_with_torch_and_onnx(block):
    import torch
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    x = np.arange(2 * 18 * block**2 * 12 * 6, dtype=np.float32).reshape(2, 2 * block**2, 36, 18)
    wanted = torch.pixel_shuffle(torch.from_numpy(x), block).numpy()
    assert np.array_equal(apply_steps(x, depth_to_space(x.shape, block)), wanted)
    back = torch.pixel_unshuffle(torch.from_numpy(x), block).numpy()
    assert np.array_equal(apply_steps(x, space_to_depth(x.shape, block)), back)

    def onnx(op):
        node = helper.make_node(op, ["x"], ["y"], blocksize=block)
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("x", "y")]
        graph = helper.make_graph([node], "g", ends[:1], ends[1:])
        return ReferenceEvaluator(helper.make_model(graph)).run(None, {"x": x})[0]

    assert np.array_equal(apply_steps(x, depth_to_space(x.shape, block, False)), onnx("DepthToSpace"))
    assert np.array_equal(apply_steps(x, space_to_depth(x.shape, block, False)), onnx("SpaceToDepth"))


def test_tiles_agree_with_numpy():
    x = np.arange(6).reshape(2, 3)
    for repeats in ((2,), (1, 2), (3, 1, 2)):
        assert np.array_equal(apply_steps(x, tiled(x.shape, repeats)), np.tile(x, repeats))


def test_steps_are_checked_without_memory():
    large = (10**6, 10**6)
    assert fits(large, (10**12,), (Transpose((1, 0)), Reshape((10**12,))))
    assert not fits(large, (10**11,), (Reshape((10**11,)),))
    assert fits((1, 5), (7, 5), (Expand((7, 5)),))
    assert not fits((2, 5), (7, 5), (Expand((7, 5)),))
    assert not fits((2, 5), (2, 3), (Slice((0, 4), (2, 3), (1, 1)),))
    assert not fits((2, 5), (5, 2), (Transpose((0, 1)),))
    assert fits((2, 5), (3,), (Unknown("?"),))


def test_random_chains_of_views_are_one_view() -> None:
    """Transposes, slices with steps (backwards, too), broadcasts and reshapes compose to one index map, f_i(f_{i+1}(v)): read through
    it, a value gives what numpy's steps one by one give."""
    steps = 0
    for seed in range(1000):
        drawn = random.Random(seed)
        shape = tuple(drawn.randint(1, 6) for _ in range(drawn.randint(1, 4)))
        data = np.arange(math.prod(shape)).reshape(shape)
        view, expected = dense("x", shape), data
        for _ in range(drawn.randint(1, 5)):
            kind = drawn.choice(("transpose", "slice", "expand", "reshape"))
            if kind == "transpose":
                axes = drawn.sample(range(expected.ndim), expected.ndim)
                view, expected = view.transposed(axes), expected.transpose(axes)
            elif kind == "slice":
                starts, sizes, by = [], [], []
                for size in expected.shape:
                    step, first = drawn.choice((-2, -1, 1, 2, 3)), drawn.randrange(size)
                    most = (size - 1 - first) // step + 1 if step > 0 else first // -step + 1
                    starts.append(first)
                    sizes.append(drawn.randint(1, most))
                    by.append(step)
                view = view.sliced(starts, sizes, by)
                places = [
                    first + step * np.arange(n) for first, n, step in zip(starts, sizes, by, strict=True)
                ]
                expected = expected[np.ix_(*places)]
            elif kind == "expand":
                wanted = (drawn.randint(1, 3), *(n if n > 1 else drawn.randint(1, 3) for n in expected.shape))
                view, expected = view.expanded(wanted), np.broadcast_to(expected, wanted)
            else:
                wanted = (
                    (*expected.shape[:-2], math.prod(expected.shape[-2:]))
                    if drawn.random() < 0.5
                    else (*expected.shape[:-1], 1, expected.shape[-1])
                )
                found = view.reshaped(wanted)
                if found is None:  # no index map: a copy
                    continue
                view, expected = found, expected.reshape(wanted)
            steps += 1
            assert view.shape == expected.shape
            # the definition: the element at offset + sum of indices times strides
            index = np.indices(expected.shape).reshape(expected.ndim, -1)
            assert (
                data.reshape(-1)[view.offset + np.array(view.strides) @ index] == expected.reshape(-1)
            ).all()
            assert (view.read(data) == expected).all()
    assert steps > 2000


def test_a_slice_and_a_transpose_behind_an_element_wise_operator_are_its_index_map() -> None:
    """Souffle's example: relu, every second column, transposed: element (i, j) of the result is (j, 2 i) of the value: in
    the order (columns, rows) of its strides, [[0, 2], [1, 0]]."""
    rows, columns = 4, 6
    view = dense("x", (rows, columns)).sliced((0, 0), (rows, columns // 2), (1, 2)).transposed((1, 0))
    # of i and j, what they add to the row and to the column of the value
    matrix = [[stride // columns, stride % columns] for stride in view.strides]
    assert (view.offset, matrix) == (0, [[0, 2], [1, 0]])
    data = np.arange(rows * columns).reshape(rows, columns) - 12
    assert (np.maximum(view.read(data), 0) == np.maximum(data, 0)[:, ::2].T).all()
